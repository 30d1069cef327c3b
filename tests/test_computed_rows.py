"""Rows that a user's class computes: what they are is believed, how they are multiplied is not."""

import numpy as np
import pytest
from toy_frank_wolfe import FrankWolfe
from toy_low_rank import LowRank

from momentron import InputError, MaxMarginClassifier, check_separability, max_margin
from momentron.datasets import make_separable
from momentron.rows import ComputedRows


class Table(ComputedRows):
    """The rows of an array."""

    def __init__(self, table):
        self.table, self.shape = table, table.shape

    def rows(self, index):
        return self.table[index]


@pytest.fixture(params=[False, True], ids=["no-intercept", "intercept"])
def data(request):
    return make_separable(80, 6, margin=0.3, fit_intercept=request.param, random_state=4)


@pytest.mark.parametrize("options", [{}, {"C": 2.0}, {"kernel": "rbf"}, {"block_size": 1000}])
def test_they_are_the_same_as_their_matrix(data, options):
    one, two = (max_margin(X, data.y, **options) for X in (data.X, Table(data.X)))
    assert two.certificate == one.certificate
    assert np.array_equal(two.coef, one.coef)


def test_products_of_the_class_are_not_believed(data):
    class Wrong(Table):
        def times(self, w):
            return 1e3 * self.table @ w + 5.0

        def transposed_times(self, a):
            return np.ones((6, *a.shape[1:]))

    for method in ("auto", "momentum", FrankWolfe()):
        options = {"method": method, "fit_intercept": data.fit_intercept, "max_iter": 30}
        result = max_margin(Wrong(data.X), data.y, **options)
        assert result.lower <= data.margin <= result.upper


def test_solvers_cannot_write_to_them(data):
    X = Table(data.X)

    class Vandal(FrankWolfe):
        def step(self, problem, state):
            with pytest.raises(ValueError, match="read-only"):
                problem.operator.X.table[:] = 0.0
            problem.operator.X.rows = lambda index: np.ones((index.size, 6))
            super().step(problem, state)

    result = max_margin(X, data.y, method=Vandal(), fit_intercept=data.fit_intercept, max_iter=5)
    assert result.lower <= data.margin <= result.upper
    assert np.array_equal(X[:], data.X)


def test_huge_and_tiny_rows_keep_their_margin(data):
    for scale in (1e200, 1e-200):
        result = max_margin(Table(scale * data.X), data.y, fit_intercept=data.fit_intercept)
        assert result.upper == pytest.approx(scale * data.margin, rel=1e-5)


def test_what_asks_for_a_matrix_gets_one(data):
    assert check_separability(Table(data.X), data.y).kind == "separable"
    plain, computed = (
        MaxMarginClassifier(C=np.inf).fit(X, data.y) for X in (data.X, Table(data.X))
    )
    assert computed.margin_ == plain.margin_
    assert np.array_equal(computed.predict(Table(data.X)), plain.predict(data.X))


def test_default_products_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
    X, w, a = LowRank(A, B), rng.normal(size=(5, 2)), rng.normal(size=30)
    for products in (ComputedRows.times(X, w), X.times(w), X[:] @ w):
        assert np.allclose(products, A @ B.T @ w)
    assert np.allclose(ComputedRows.transposed_times(X, a), X.transposed_times(a))
    assert np.array_equal(X[3:5], X[:][3:5])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows", lambda index: np.ones((index.size, 2)), r"rows returned \(80, 2\); .* \(80, 6\)"),
        ("rows", lambda index: np.ones((index.size, 6), complex), "complex"),
        ("times", lambda w: [1.0], r"times returned list; .* \(80,\)"),
        ("transposed_times", lambda a: np.ones(3), r"transposed_times returned \(3,\);"),
        ("shape", (80,), r"shape is \(80,\); set it in __init__ to \(rows, features\)"),
    ],
)
def test_mistakes_are_named(name, value, message, data):
    X = Table(data.X)
    setattr(X, name, value)
    with pytest.raises(InputError, match=message):
        max_margin(X, data.y, method="momentum", fit_intercept=False, max_iter=5)


def test_what_is_not_finite_is_named(data):
    table = data.X.copy()
    table[3, 1] = np.nan
    with pytest.raises(InputError, match=r"X\[3, 1\] is nan"):
        max_margin(Table(table), data.y)


class OwnTable(ComputedRows):
    """Rows of a table that its owner can write to, handed out without a copy if all are asked."""

    def __init__(self, table):
        self.table, self.shape = table, table.shape

    def rows(self, index):
        return self.table if len(index) == len(self.table) else self.table[index]


@pytest.mark.parametrize("make", [OwnTable, np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("n", [30, 3000])
def test_centring_leaves_the_rows_of_the_user_alone(make, n):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(n, 4)) + 5.0
    table[: n // 2, 0] += 10.0
    before = table.copy()
    result = max_margin(make(table), np.arange(n) < n // 2)
    assert result.gap <= 1e-6
    assert np.array_equal(table, before)
