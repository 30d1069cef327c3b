"""Every method on data in blocks: the same mathematics as in memory, or a reason declared."""

import numpy as np
import pytest
from margins_known import corners

from momentron import InputError, max_margin
from momentron.datasets import make_separable
from momentron.solvers import Candidates, Primal, Solver, State

ALIKE = (
    "momentum",
    "dual-nesterov",
    "gradient-descent",
    "normalized-gradient",
    "normalized-gradient-root",
)
PERCEPTRONS = ("batch-perceptron", "normalized-perceptron")


def known(kind, fit_intercept):
    """(X, y, the best margin)."""
    if kind == "many":
        X, y, margin = corners(4, 12)
        order = np.random.default_rng(0).permutation(y.size)
        return X[order], y[order], margin
    data = make_separable(120, 5, margin=0.3, fit_intercept=fit_intercept, random_state=3)
    return data.X, data.y, data.margin


KINDS = pytest.mark.parametrize("kind", ["two", "many"])
INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True])


class Plain(Solver):
    """A user's own method, by the verbs of a problem alone: steps of half the gradient."""

    name = "plain"

    def init(self, problem, options=None):
        state = State()
        state.now, state.sum = problem.start(), problem.no_weights()
        return state

    def step(self, problem, state):
        q = state.now.weights
        state.sum = problem.mix(state.sum, 1.0, q, 0.5)
        state.now = problem.evaluate(state.now.w - 0.5 * problem.gradient(q))
        state.t += 1

    def candidates(self, problem, state):
        w = state.now.w
        return Candidates([Primal(w, state.now.scores)], state.sum, problem.upper(w, state.sum))


@INTERCEPT
@KINDS
@pytest.mark.parametrize("method", ALIKE)
def test_the_trace_is_that_of_memory(method, kind, fit_intercept):
    X, y, _ = known(kind, fit_intercept)
    options = {"method": method, "fit_intercept": fit_intercept, "max_iter": 40, "tol": 0.0}
    here, there = max_margin(X, y, **options), max_margin(X, y, block_size=1500, **options)
    for column in ("margin", "lower", "upper", "theorem_lower", "theorem_upper"):
        found, expected = there.trace[column], here.trace[column]
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True), column
    assert there.lower == pytest.approx(here.lower, rel=1e-9, abs=1e-12)
    assert there.upper == pytest.approx(here.upper, rel=1e-9)
    passes = 2 if kind == "many" and fit_intercept else 1
    assert np.all(np.diff(there.trace["passes"]) == passes)


@INTERCEPT
@KINDS
@pytest.mark.parametrize("method", PERCEPTRONS)
def test_perceptrons_take_the_worst_rows(method, kind, fit_intercept):
    """The weights that they end with are on rows, and have the length that bounds the margin."""
    X, y, _ = known(kind, fit_intercept)
    options = {"method": method, "fit_intercept": fit_intercept, "max_iter": 50, "tol": 0.0}
    here, there = max_margin(X, y, **options), max_margin(X, y, block_size=1500, **options)
    passes = 2 if kind == "many" and fit_intercept else 1
    assert np.all(np.diff(there.trace["passes"]) == passes)
    q = there.full_dual()
    assert q.sum() == pytest.approx(1.0) and q.min() >= 0.0
    if kind == "two":
        image = (y * q) @ X
        assert not fit_intercept or q[y == y[0]].sum() == pytest.approx(0.5)
        assert np.allclose(there.trace["upper"], here.trace["upper"], rtol=1e-9)
    else:
        codes = np.searchsorted(there.classes, y)
        table = q.copy()
        table[np.arange(y.size), codes] = -q.sum(axis=1)
        image = X.T @ table
        flows = [q[codes == c].sum() for c in range(4)]
        assert not fit_intercept or np.allclose(flows, q.sum(axis=0))
        assert there.upper <= 1.5 * here.upper
    assert np.linalg.norm(image) == pytest.approx(there.upper, rel=1e-9)


@INTERCEPT
@KINDS
def test_a_solver_of_ones_own_runs_in_blocks_as_in_memory(kind, fit_intercept):
    X, y, margin = known(kind, fit_intercept)
    options = {"method": Plain(), "fit_intercept": fit_intercept, "max_iter": 50}
    here, there = max_margin(X, y, **options), max_margin(X, y, block_size=1500, **options)
    for result in (here, there):
        assert result.lower <= margin * (1 + 1e-12)
        assert margin * (1 - 1e-12) <= result.upper < 2.0 * margin
    for column in ("margin", "lower", "upper"):
        assert np.allclose(there.trace[column], here.trace[column], rtol=1e-9, atol=1e-9)


def test_a_method_that_needs_memory_says_why():
    X, y, _ = known("two", False)

    class Greedy(Plain):
        name = "greedy"
        needs_memory = "it looks at pairs of rows"

    with pytest.raises(InputError, match="'greedy' needs the data in memory: it looks at pairs"):
        max_margin(X, y, method=Greedy(), block_size=1500)
    assert max_margin(X, y, method=Greedy(), fit_intercept=False, max_iter=5).n_iter == 5


def test_what_blocks_do_not_have_is_explained():
    X, y, _ = known("two", False)

    class Careless(Plain):
        def step(self, problem, state):
            problem.operator.combine(np.array([0]), np.ones(1))

    with pytest.raises(
        NotImplementedError, match="must say so in its class attribute needs_memory"
    ):
        max_margin(X, y, method=Careless(), block_size=1500)


@pytest.mark.parametrize("method", ["normalized-perceptron", "batch-perceptron", "dual-nesterov"])
@pytest.mark.parametrize("block_size", [None, 1500])
def test_a_run_goes_on_from_its_checkpoint(method, block_size, tmp_path):
    X, y, margin = known("two", True)
    options = {"method": method, "tol": 0.0, "block_size": block_size}
    straight = max_margin(X, y, max_iter=40, **options)
    path = tmp_path / "state"
    max_margin(X, y, max_iter=15, checkpoint=path, **options)
    resumed = max_margin(X, y, max_iter=40, checkpoint=path, **options)
    assert np.array_equal(resumed.trace["upper"], straight.trace["upper"])
    assert resumed.lower == pytest.approx(straight.lower, rel=1e-12)
    assert resumed.lower <= margin <= resumed.upper
    if block_size is None:
        assert resumed.certificate == straight.certificate
