"""Squared hinge through a kernel by LIBSVM's proposals: as certified as factors, and no other."""

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import BudgetWarning, Status, max_margin
from momentron.arithmetic.clock import OutOfTime
from momentron.rows import kernel_rows
from momentron.solvers.auto import Auto, AutoSettings, proposals

BY_PAIRS = Auto(AutoSettings(box_few_values=20))
BY_FACTORS = Auto(AutoSettings(box_few_values=10**9))


def overlapping(seed, n=300, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] + 0.7 * rng.normal(size=n) > 0).astype(int), rng


@pytest.fixture
def counted(monkeypatch):
    """Proposals so far; single precision also for few rows."""
    proposed = []
    monkeypatch.setattr(kernel_rows, "MANY_ROWS", 100)
    weights = proposals.LibSvm.weights

    def count(self, *args):
        proposed.append(self)
        return weights(self, *args)

    monkeypatch.setattr(proposals.LibSvm, "weights", count)
    return proposed


@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_pairs_agree_with_factors(C, fit_intercept, is_weighted, counted):
    X, y, rng = overlapping(int(1000 * C) + 2 * fit_intercept + is_weighted)
    options = {"kernel": "rbf", "C": C, "fit_intercept": fit_intercept, "tol": 1e-7}
    if is_weighted:
        options["sample_weight"] = rng.uniform(0.0, 2.0, y.size) * (rng.random(y.size) < 0.9)
    one = max_margin(X, y, method=BY_PAIRS, **options)
    other = max_margin(X, y, method=BY_FACTORS, **options)
    assert one.status is Status.OPTIMAL and one.gap <= 1e-7
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)
    assert counted


@pytest.mark.parametrize("kind", ["poly", "laplacian", "sparse", "precomputed", "function"])
def test_every_kind_of_kernel(kind, counted):
    X, y, _ = overlapping(7)
    options = {"kernel": kind, "C": 0.5 if kind in ("laplacian", "sparse", "precomputed") else 1e-3}
    if kind == "sparse":
        X, options["kernel"] = sp.csr_array(X * (np.abs(X) > 1.8)), "rbf"
    elif kind == "precomputed":
        X = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    elif kind == "function":
        options["kernel"] = lambda A, B: (1.0 + A @ B.T) ** 2
    one = max_margin(X, y, method=BY_PAIRS, **options)
    other = max_margin(X, y, method=BY_FACTORS, **options)
    assert one.gap <= 1e-6
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)
    assert counted


def test_what_pairs_leave_open_is_solved_by_factors(counted, monkeypatch):
    X, y, _ = overlapping(3)
    monkeypatch.setattr(proposals, "STEPS_PER_ROW", 0)
    assert max_margin(X, y, kernel="rbf", C=1.0, method=BY_PAIRS).gap <= 1e-6
    assert counted


def test_values_that_do_not_fit_into_memory(counted):
    X, y, _ = overlapping(4, n=1500)
    with pytest.warns(BudgetWarning, match="cache_size"):
        found = max_margin(X, y, kernel="rbf", C=1.0, cache_size=2.0, max_time=5, method=BY_PAIRS)
    assert found.lower <= found.upper
    assert max(svm.X.nbytes for svm in counted) <= 1e6  # half of the cache


def test_a_warm_start_takes_no_more_proposals(counted):
    X, y, _ = overlapping(5, n=600)
    first = max_margin(X, y, kernel="rbf", C=1.0, method=BY_PAIRS)
    cold = len(counted)
    again = max_margin(X, y, kernel="rbf", C=1.1, initial=first, method=BY_PAIRS)
    warm = len(counted) - cold
    other = max_margin(X, y, kernel="rbf", C=1.1, method=BY_FACTORS)
    assert again.gap <= 1e-6 and max(again.lower, other.lower) <= min(again.upper, other.upper)
    assert warm <= cold


def test_time_is_kept(counted):
    X, y, _ = overlapping(6, n=2500)
    found = max_margin(X, y, kernel="rbf", C=1.0, max_time=1e-3, method=BY_PAIRS)
    assert found.status is Status.TIME_BUDGET and found.lower <= found.upper


def test_time_that_ends_between_two_proposals(counted, monkeypatch):
    X, y, _ = overlapping(8, n=600)
    best = max_margin(X, y, kernel="rbf", C=1.0, method=BY_FACTORS)
    weights = proposals.LibSvm.weights

    def end(self, *args):
        if len(counted) == 1:
            raise OutOfTime
        return weights(self, *args)

    monkeypatch.setattr(proposals.LibSvm, "weights", end)
    found = max_margin(X, y, kernel="rbf", C=1.0, tol=1e-12, method=BY_PAIRS)
    assert found.status is Status.TIME_BUDGET and len(counted) == 1
    assert 0.0 < found.lower <= best.upper and best.lower <= found.upper
