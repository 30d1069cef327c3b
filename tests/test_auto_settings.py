"""Twice each setting of `auto`, or half of it, costs time at most: answers stay."""

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import max_margin
from momentron.solvers.auto import Auto, AutoSettings

SETTINGS = AutoSettings()
# thresholds at which the problems below take other ways than they do by default
LOW = replace(
    SETTINGS,
    many_pairs=100,
    many_soft_pairs=100,
    many_split_pairs=60,
    small=40,
    box_few=80,
    box_few_values=60,
    box_sample=20,
    kernel_first=20,
    straight_entries=600,
    pass_seconds=1e-9,
    proposal_seconds=1e-9,
    pivots=6,
    straight_pivots=6,
)


def problems():
    """A cell or two of every penalty, kind of rows and number of classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    apart = np.where(X @ rng.normal(size=6) > 0.0, 1, -1)
    mixed = np.where(X[:, 0] + rng.normal(size=150) > 0.0, 1, -1)
    three = np.argmax(X[:60, :3], axis=1)
    sparse = sp.csr_array(X * (np.abs(X) > 0.8))
    wide = rng.normal(size=(60, 90))
    wide_sparse = sp.csr_array(wide * (np.abs(wide) > 1.5))
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
        "hinge, three classes": (X[:60], three, {"C": 1.0, "penalty": "hinge", "tol": 1e-4}),
        "hard, wide, three classes": (wide, three, {"tol": 1e-4}),
        "squared hinge, wide, three classes": (wide, three, {"C": 1.0, "tol": 1e-4}),
        "squared hinge, rbf, three classes": (
            X[:60],
            three,
            {"C": 1.0, "kernel": "rbf", "tol": 1e-4},
        ),
        "squared hinge, wide, sparse": (wide_sparse, mixed[:60], {"C": 1.0, "tol": 1e-3}),
        "hinge, wide, sparse": (
            wide_sparse,
            mixed[:60],
            {"C": 1.0, "penalty": "hinge", "tol": 1e-3},
        ),
    }


PROBLEMS = problems()


@pytest.fixture(scope="module")
def answers():
    return {name: max_margin(X, y, **options) for name, (X, y, options) in PROBLEMS.items()}


def test_settings_are_few():
    assert len(fields(AutoSettings)) <= 24


@pytest.mark.parametrize("base", [SETTINGS, LOW], ids=["default", "low"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", [field.name for field in fields(AutoSettings)])
def test_no_setting_decides_an_answer(name, factor, base, answers):
    value = getattr(base, name)
    method = Auto(replace(base, **{name: type(value)(factor * value)}))
    for label, (X, y, options) in PROBLEMS.items():
        found, known = max_margin(X, y, method=method, **options), answers[label]
        assert found.gap <= options.get("tol", 1e-6), label
        assert max(found.lower, known.lower) <= min(found.upper, known.upper), label


def test_low_thresholds_lead_other_ways():
    """Otherwise the test above would change numbers that nobody looks at."""
    ways = {}
    for base in (SETTINGS, LOW):
        for label, (X, y, options) in PROBLEMS.items():
            result = max_margin(X, y, method=Auto(base), **options)
            ways.setdefault(label, []).append((result.n_iter, result.passes, result.coef.tobytes()))
    same = [label for label, (first, second) in ways.items() if first == second]
    assert len(same) <= len(ways) / 3, same
