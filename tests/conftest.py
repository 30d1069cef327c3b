"""Fixtures: every solver, every kind of rows, every label scheme."""

import pytest
from contract import ALL_SOLVERS, ROWS, SCHEMES, known


@pytest.fixture(params=ALL_SOLVERS)
def solver(request):
    """A method of the registry, or one from outside."""
    return ALL_SOLVERS[request.param]()


@pytest.fixture(params=ROWS)
def rows(request):
    """A kind of rows."""
    return ROWS[request.param]


@pytest.fixture(params=SCHEMES, ids=str)
def problem(request):
    """A problem with a known margin: two classes or many, with or without intercepts."""
    return known(request.param)
