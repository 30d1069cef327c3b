"""The examples in docstrings of the paper's modules."""

import doctest
import importlib
import pkgutil

import pytest

import paper

NEEDS_TORCH = {"grid_measure", "networks"}
MODULES = [
    module.name
    for module in pkgutil.iter_modules(paper.__path__)
    if module.name not in ("__main__", "tests")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    assert doctest.testmod(importlib.import_module(f"paper.{name}")).failed == 0
