"""Twice each setting of `auto`, or half of it, costs time at most: answers stay."""

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import max_margin
from momentron.solvers.auto import Auto, AutoSettings

SETTINGS = AutoSettings()


def problems():
    """A cell or two of every penalty, kind of rows and number of classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    apart = np.where(X @ rng.normal(size=6) > 0.0, 1, -1)
    mixed = np.where(X[:, 0] + rng.normal(size=150) > 0.0, 1, -1)
    three = np.argmax(X[:60, :3], axis=1)
    sparse = sp.csr_array(X * (np.abs(X) > 0.8))
    return {
        "hard": (X, apart, {}),
        "hard, many rows": (np.vstack([3.0**k * X for k in range(5)]), np.tile(apart, 5), {}),
        "hard, wide": (rng.normal(size=(30, 90)), np.arange(30) % 2, {}),
        "hard, three classes": (X[:60], three, {"tol": 1e-4}),
        "hard, rbf": (X[:80], mixed[:80], {"kernel": "rbf"}),
        "squared hinge": (X, mixed, {"C": 1.0}),
        "squared hinge, sparse": (sparse, mixed, {"C": 1.0}),
        "squared hinge, rbf": (X, mixed, {"C": 1.0, "kernel": "rbf"}),
        "squared hinge, three classes": (X[:60], three, {"C": 1.0, "tol": 1e-4}),
        "hinge": (X, mixed, {"C": 1.0, "penalty": "hinge"}),
        "hinge, sparse": (sparse, mixed, {"C": 1.0, "penalty": "hinge"}),
        "hinge, rbf": (X, mixed, {"C": 1.0, "penalty": "hinge", "kernel": "rbf"}),
    }


PROBLEMS = problems()


@pytest.fixture(scope="module")
def answers():
    return {name: max_margin(X, y, **options) for name, (X, y, options) in PROBLEMS.items()}


def test_settings_are_few():
    assert len(fields(AutoSettings)) <= 60


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", [field.name for field in fields(AutoSettings)])
def test_no_setting_decides_an_answer(name, factor, answers):
    value = getattr(SETTINGS, name)
    method = Auto(replace(SETTINGS, **{name: type(value)(factor * value)}))
    for label, (X, y, options) in PROBLEMS.items():
        found, known = max_margin(X, y, method=method, **options), answers[label]
        assert found.gap <= options.get("tol", 1e-6), label
        assert max(found.lower, known.lower) <= min(found.upper, known.upper), label
