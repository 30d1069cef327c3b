"""Soft margins of rows in blocks: the same answers as in memory, and intervals that are true."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import BudgetWarning, MaxMarginClassifier, Status, max_margin
from momentron.errors import InputError
from momentron.streams.block_rows import multiple_of
from momentron.streams.soft_rounds import equivalent_rows
from tests.oracles.soft_margins import rational
from tests.oracles.soft_results import Posed

PENALTIES = ["squared_hinge", "hinge"]


def noisy(n, d, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(X @ w + math.sqrt(d) * (0.5 + noise * rng.standard_normal(n)) > 0.0, "b", "a")
    y[:2] = ["a", "b"]
    return X, y


def agree(found, expected, tol=1e-6):
    assert found.status is expected.status is Status.OPTIMAL
    assert found.gap <= tol
    assert found.lower <= expected.upper and expected.lower <= found.upper
    assert found.n_rows == expected.n_rows
    assert np.linalg.norm(found.coef - expected.coef) <= 1.01 * (radius(found) + radius(expected))


def radius(result):
    """How far from the best w may be: the objective P grows at least by ½‖w − w*‖²."""
    return math.sqrt(result.lower**-2 - result.upper**-2)


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_blocks_and_memory_agree(penalty, noise, C):
    X, y = noisy(3000, 8, noise)
    options = {"C": C, "penalty": penalty, "fit_intercept": C != 1.0}
    found = max_margin(X, y, block_size=X.nbytes // 30, **options)
    assert found.passes <= 15 and found.bytes_read >= found.passes * X.nbytes
    agree(found, max_margin(X, y, **options))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", ["sorted", "one row", "shifted", "wide", "float32", "ties", "few"])
def test_rows_of_every_kind(kind, penalty):
    X, y = noisy(40 if kind == "one row" else 2000, 6, 0.3)
    if kind == "sorted":  # one class per block
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    elif kind == "shifted":
        X += 100.0
    elif kind == "wide":
        X, y = noisy(60, 100)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "ties":
        X = np.round(X)
    elif kind == "few":
        y = np.where(np.arange(y.size) < 20, "a", "b")
    size = X[0].nbytes if kind == "one row" else X.nbytes // 30
    found = max_margin(X, y, C=0.1, penalty=penalty, block_size=size)
    expected = max_margin(X, y, C=0.1, penalty=penalty)
    if kind == "few":  # w = 0 is the best with the hinge
        assert found.gap <= 1e-6 and found.lower <= expected.upper <= found.upper * (1 + 1e-6)
    else:
        agree(found, expected)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_sparse_rows(penalty, fit_intercept):
    X = sp.random_array((1500, 20), density=0.1, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(X.sum(axis=1)) + 0.3 * np.random.default_rng(1).standard_normal(1500) > 0.9
    options = {"C": 10.0, "penalty": penalty, "fit_intercept": fit_intercept}
    agree(max_margin(X, y, block_size=2000, **options), max_margin(X, y, **options))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_weights(penalty):
    X, y = noisy(2000, 5)
    weights = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
    options = {"C": 0.5, "penalty": penalty, "sample_weight": weights, "class_weight": "balanced"}
    expected = max_margin(X, y, **options)
    found = max_margin(X, y, block_size=3000, **options)
    agree(found, expected)
    assert weights[found.support].all()
    assert found.support_labels.tolist() == y[found.support].tolist()
    by_label = options | {"class_weight": {"a": 3.0}}
    agree(max_margin(X, y, block_size=3000, **by_label), max_margin(X, y, **by_label))
    with pytest.raises(InputError, match="sample_weight has shape"):
        max_margin(X, y, block_size=3000, C=1.0, sample_weight=weights[1:])


@pytest.mark.parametrize("penalty", PENALTIES)
def test_intervals_are_true_with_hardly_any_memory(penalty, monkeypatch):
    """Against the exact optimum, with working sets of a few rows."""
    monkeypatch.setattr("momentron.streams.first_pass.LEAST_ROWS", 4)
    solved = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(4, 12)), int(rng.integers(1, 3))
        X = rng.integers(-3, 4, (n, d)).astype(float)
        y = np.r_[0, 1, rng.integers(0, 2, n - 2)]
        weights = 2.0 ** rng.integers(-6, 7, n)
        options = {"penalty": penalty, "fit_intercept": bool(seed % 2), "tol": 1e-6}
        rows = rational(X)
        posed, C = (
            Posed(X, y, options, rows, rows * rows.transpose(), weights),
            10.0 ** (seed % 7 - 3),
        )
        size = int(rng.integers(1, 8 * d * n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            found = max_margin(X, y, C=C, sample_weight=weights, block_size=size, **options)
        assert posed.refutes(C, found) is None, seed
        solved += found.status is Status.OPTIMAL
    assert solved >= 30


def test_many_features_of_the_squared_hinge_need_room_for_the_rows_below_the_margin():
    X, y = noisy(1500, 50)
    with pytest.warns(BudgetWarning, match="raise block_size"):
        found = max_margin(X, y, C=1.0, block_size=3000)
    assert found.status is Status.NO_ROOM
    best = max_margin(X, y, C=1.0)
    assert found.lower <= best.upper and best.lower <= found.upper
    agree(max_margin(X, y, C=1.0, block_size=9000), best)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_dask(penalty):
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, y = noisy(3000, 4)
    expected = max_margin(X, y, C=1.0, penalty=penalty)
    given = da.from_array(X, chunks=(700, 4)), da.from_array(y, chunks=700)
    agree(max_margin(*given, C=1.0, penalty=penalty), expected)
    frame = pd.DataFrame(X, columns=list("stuv")).assign(label=y)
    agree(max_margin(dd.from_pandas(frame, 5), "label", C=1.0, penalty=penalty), expected)
    model = MaxMarginClassifier(C=1.0, penalty=penalty).fit(*given)
    assert model.score(X, y) == MaxMarginClassifier(C=1.0, penalty=penalty).fit(X, y).score(X, y)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_files_checkpoints_and_budgets(penalty, tmp_path):
    X, y = noisy(3000, 8)
    np.save(tmp_path / "X.npy", X)
    expected = max_margin(X, y, C=1.0, penalty=penalty)
    options = {"C": 1.0, "penalty": penalty, "block_size": X.nbytes // 30}
    begun = max_margin(tmp_path / "X.npy", y, checkpoint=tmp_path / "s", max_iter=2, **options)
    assert begun.status is Status.ITERATION_BUDGET and begun.n_iter == 2
    assert begun.lower <= expected.upper and expected.lower <= begun.upper
    resumed = max_margin(tmp_path / "X.npy", y, checkpoint=tmp_path / "s", **options)
    agree(resumed, expected)
    assert resumed.passes > begun.passes
    with pytest.raises(InputError, match=r"its C is 1\.0, here it is 2\.0"):
        max_margin(tmp_path / "X.npy", y, checkpoint=tmp_path / "s", **(options | {"C": 2.0}))


class Interrupting:
    """Blocks whose source hears Ctrl-C in a given pass."""

    def __init__(self, X, y, last):
        self.X, self.y, self.left = X, y, last * 10

    def __len__(self):
        return 10

    def block(self, i):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.X[i::10], self.y[i::10]


@pytest.mark.parametrize("passes", [3, 4, 5])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_an_interrupt_leaves_an_interval(penalty, passes, monkeypatch):
    monkeypatch.setattr("momentron.streams.first_pass.LEAST_ROWS", 100)
    X, y = noisy(4000, 10)
    monkeypatch.setattr("momentron.streams.block_fits.BLOCK_BYTES", 1000)
    found = max_margin(Interrupting(X, y, passes), C=1.0, penalty=penalty)
    best = max_margin(X, y, C=1.0, penalty=penalty)
    assert found.status is Status.INTERRUPTED
    assert 0.0 < found.lower <= best.upper and best.lower <= found.upper
    assert found.coef.any()


def test_what_blocks_do_not_support_is_refused():
    X, y = noisy(300, 3)
    with pytest.raises(InputError, match="with method='momentum' needs the data in memory"):
        max_margin(X, y, C=1.0, method="momentum", block_size=1000)
    with pytest.raises(InputError, match=r"C=1\.0 with 3 classes needs the data in memory"):
        max_margin(X, np.arange(300) % 3, C=1.0, block_size=1000)


def test_rows_that_stand_for_others_have_the_same_sum_and_are_below_the_margin():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 6):
        w = rng.standard_normal(d)
        X = rng.standard_normal((50, d))
        X = X[1.0 - X @ w > 0.01]
        B = np.column_stack([X, np.ones(len(X))])
        u = np.append(-w, 1.0)
        rows, costs = equivalent_rows(B.T @ B, u)
        A = np.column_stack([rows, np.ones(len(rows))])
        assert len(rows) <= d + 2 and (A @ u > 0.0).all() and (costs > 0.0).all()
        np.testing.assert_allclose(A.T @ (A * costs[:, None]), B.T @ B, atol=1e-10)


def test_only_multiples_are_recognised():
    v = np.array([1.0, 0.0, -3.0])
    assert multiple_of(v, v / 3.0) == pytest.approx(1 / 3)
    assert multiple_of(v, v + 1e-12) is None
    assert multiple_of(np.zeros(3), v) is None
