"""Watching a method: iterates in callbacks, fewer rows, starts of one's own, slices of a trace."""

import math

import numpy as np
import pytest

from momentron import Iterate, Status, max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.solvers import SOLVERS, Momentum
from momentron.views.trace import Trace

FOLLOWERS = ("momentum", "dual-nesterov", "gradient-descent", "normalized-gradient")
FIRST_ORDER = (*FOLLOWERS, "normalized-gradient-root", "batch-perceptron", "normalized-perceptron")


@pytest.fixture(scope="module")
def data():
    return make_separable(120, 6, margin=0.2, fit_intercept=True, random_state=4)


def many(seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 4)) + 6.0 * np.eye(4)[y], y


def iterates(X, y, count=5, **options):
    """(w, coef, norm, loss, margin) of each iterate."""
    seen = []

    def look(iterate):
        seen.append((iterate.w.copy(), iterate.coef, iterate.norm, iterate.loss, iterate.margin))

    options = {"method": "momentum", "tol": 0.0, "max_iter": count + 1} | options
    max_margin(X, y, callback=look, **options)
    return seen


@pytest.mark.parametrize("scale", [1.0, 2.0**300])
def test_iterates_are_those_of_algorithm_1(data, scale):
    """Against the algorithm written out: no intercept, so that R is the longest row."""
    X, y = scale * data.X, np.where(data.y > 0, 1.0, -1.0)
    radius = np.linalg.norm(X, axis=1).max()
    Z = -y[:, None] * (X / radius)
    w, g, q = np.zeros(6), np.zeros(6), np.full(120, 1 / 120)
    for t, (seen, coef, norm, loss, margin) in enumerate(iterates(X, y, fit_intercept=False)):
        gradient = Z.T @ q
        g = t / (t + 1) * (g + gradient)
        w = w - (g + gradient)
        scores = Z @ w
        q = np.exp(scores - scores.max())
        q /= q.sum()
        assert seen == pytest.approx(w, rel=1e-9)
        assert coef * radius == pytest.approx(w, rel=1e-9)
        assert norm == pytest.approx(np.linalg.norm(w))
        assert loss == pytest.approx(np.exp(scores).mean())
        assert margin == pytest.approx((y * (X @ coef)).min() / np.linalg.norm(coef))


def test_the_loss_is_the_least_over_the_intercept(data):
    from scipy.optimize import minimize_scalar

    y = np.where(data.y > 0, 1.0, -1.0)
    for _, coef, _, loss, _ in iterates(data.X, y, fit_intercept=True):

        def risk(b, coef=coef):
            return np.exp(-y * (data.X @ coef + b)).mean()

        assert loss == pytest.approx(minimize_scalar(risk).fun, rel=1e-6)
    for _, coef, _, loss, _ in iterates(data.X, y, fit_intercept=False, loss="logistic"):
        assert loss == pytest.approx(np.log1p(np.exp(-y * (data.X @ coef))).mean(), rel=1e-9)


@pytest.mark.parametrize("block_size", [None, "1KB"])
def test_many_classes_and_blocks(block_size):
    X, y = many()
    for w, coef, norm, loss, margin in iterates(X, y, fit_intercept=False, block_size=block_size):
        assert w.shape == coef.shape == (3, 4)
        assert norm == pytest.approx(np.linalg.norm(w))
        F = X @ coef.T
        leads = np.delete((F[np.arange(60), y][:, None] - F).ravel(), np.arange(60) * 3 + y)
        assert margin == pytest.approx(leads.min() / np.linalg.norm(coef))
        assert loss == pytest.approx(np.exp(-leads).mean())
    rows = []
    max_margin(X, y, method="batch-perceptron", max_iter=3, callback=rows.append, tol=0.0)
    assert math.isfinite(rows[0].loss)


def test_perceptrons_on_blocks_have_the_loss_of_memory():
    X, y = many()
    options = {"method": "batch-perceptron", "max_iter": 3, "tol": 0.0}
    here, there = [], []
    max_margin(X, y, callback=lambda it: here.append(it.loss), **options)
    options["block_size"] = "1KB"
    max_margin(X, y, callback=lambda it: there.append(it.loss), **options)
    assert np.isfinite(there).all() and there == pytest.approx(here, rel=1e-9)


def test_angles(data):
    best = max_margin(data.X, data.y, tol=1e-9)
    angles = []

    def look(iterate):
        angles.append((iterate.angle_to(best), iterate.angle_to(best.coef), iterate.coef))

    max_margin(data.X, data.y, method="momentum", max_iter=300, tol=0.0, callback=look)
    for angle, again, coef in angles:
        assert angle == again
        cosine = coef @ best.coef / np.linalg.norm(coef) / np.linalg.norm(best.coef)
        assert math.cos(math.radians(angle)) == pytest.approx(cosine, abs=1e-12)
    assert angles[-1][0] < 0.2 * angles[0][0]
    with pytest.raises(InputError, match=r"reference has shape \(5,\)"):
        max_margin(
            data.X, data.y, method="momentum", callback=lambda it: it.angle_to(np.ones(5)) > 0
        )


def test_angles_in_a_feature_space_and_with_slack(data):
    for options in ({"kernel": "rbf"}, {"C": 1.0}):
        best, angles = max_margin(data.X, data.y, **options), []
        max_margin(
            data.X,
            data.y,
            method="momentum",
            max_iter=400,
            callback=lambda it, best=best, angles=angles: angles.append(it.angle_to(best)) or False,
            **options,
        )
        assert angles[-1] < 0.2 * angles[0]


@pytest.mark.parametrize("method", ["momentum", "batch-perceptron", "auto"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_iterates_cannot_be_written_to(data, method, kernel):
    def attack(iterate):
        assert isinstance(iterate, Iterate)
        for attempt in (lambda w: w.fill(1.0), lambda w: w.setflags(write=True)):
            with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
                attempt(iterate.w)
        with pytest.raises(AttributeError):
            iterate.lower = 1e9
        iterate.coef[...] = np.nan  # a copy

    options = {"method": method, "kernel": kernel, "max_iter": 200}
    quiet = max_margin(data.X, data.y, **options)
    watched = max_margin(data.X, data.y, callback=attack, **options)
    assert (watched.lower, watched.upper) == (quiet.lower, quiet.upper)


def test_no_copy_is_made(data):
    def look(iterate):
        assert np.shares_memory(iterate.w, iterate._primal.w)

    max_margin(*many(), method="momentum", max_iter=2, callback=look)
    max_margin(data.X, data.y, method="momentum", max_iter=2, callback=look)


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_record_every(data, every):
    seen = []
    result = max_margin(
        data.X,
        data.y,
        method="momentum",
        tol=0.0,
        max_iter=50,
        record_every=every,
        callback=lambda iterate: seen.append(iterate.iteration),
    )
    kept = sorted({1, 50, *range(every, 51, every)})
    assert result.trace["iteration"].tolist() == kept
    assert result.n_iter == 50
    assert seen == [k for k in kept if k == 1 or k % every == 0]
    whole = max_margin(data.X, data.y, method="momentum", tol=0.0, max_iter=50)
    assert (whole.lower, whole.upper) == (result.lower, result.upper)
    places = np.array(kept) - 1
    assert np.array_equal(whole.trace["margin"][places], result.trace["margin"])


def test_a_run_with_few_rows_goes_on_from_a_checkpoint(data, tmp_path):
    options = {"method": "momentum", "tol": 0.0, "record_every": 10}
    path = tmp_path / "run"
    max_margin(data.X, data.y, max_iter=23, checkpoint=path, **options)
    again = max_margin(data.X, data.y, max_iter=40, checkpoint=path, **options)
    whole = max_margin(data.X, data.y, max_iter=40, **options)
    assert again.n_iter == 40
    assert (again.lower, again.upper, again.passes) == (whole.lower, whole.upper, whole.passes)
    assert again.trace["iteration"].tolist() == [1, 10, 20, 23, 30, 40]


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "all"])
def test_record_every_is_a_count(data, bad):
    with pytest.raises(InputError, match="record_every"):
        max_margin(data.X, data.y, record_every=bad)


def test_slices_and_rows_of_a_trace(data):
    trace = max_margin(data.X, data.y, method="momentum", tol=0.0, max_iter=30).trace
    assert trace[-1].iteration == 30
    assert trace[0].iteration == 1
    assert trace[np.int64(3)].iteration == 4
    part = trace[10:20:3]
    assert isinstance(part, Trace)
    assert part["iteration"].tolist() == [11, 14, 17, 20]
    assert len(trace[-5:]) == 5
    assert len(trace) == 30
    assert "4 rows" in repr(part)
    with pytest.raises(IndexError, match="has 30 rows; no row 30"):
        trace[30]
    with pytest.raises(KeyError, match="no column 'gap'"):
        trace["gap"]


# --- starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FIRST_ORDER)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_start_near_the_optimum_is_near_the_optimum(method, fit_intercept):
    """The first iterates are better than the cold ones; bounds bracket the optimum throughout."""
    data = make_separable(120, 6, margin=0.2, fit_intercept=fit_intercept, random_state=4)
    options = {"fit_intercept": fit_intercept}
    best = max_margin(data.X, data.y, tol=1e-9, **options)
    options |= {"method": method, "tol": 0.0, "max_iter": 20}
    cold = max_margin(data.X, data.y, **options)
    warm = max_margin(data.X, data.y, initial=best, **options)
    assert warm.trace["margin"][0] > cold.trace["margin"][0]
    assert warm.lower >= cold.lower
    for result in (warm, cold):
        assert result.lower <= best.upper
        assert result.upper >= best.lower
        assert (result.trace["upper"] >= best.lower * (1 - 1e-9)).all()


def test_adaptive_starts_warm(data):
    best = max_margin(data.X, data.y, tol=1e-9)
    options = {"method": "adaptive", "tol": 0.0, "max_iter": 5, "random_state": 0}
    warm = max_margin(data.X, data.y, initial=best, **options)
    cold = max_margin(data.X, data.y, **options)
    assert warm.trace["margin"][0] > cold.trace["margin"][0]
    assert warm.lower <= best.upper <= warm.upper * (1 + 1e-9)


@pytest.mark.parametrize("method", FOLLOWERS)
@pytest.mark.parametrize("scale", [1.0, 2.0**300])
def test_gradient_methods_go_on_from_an_iterate(data, method, scale):
    """Where the next step depends on w alone: two runs are one."""
    X, kept = scale * data.X, []
    options = {"method": method, "tol": 0.0, "fit_intercept": False}
    max_margin(X, data.y, max_iter=20, callback=lambda it: kept.append(it.coef), **options)
    again = []
    max_margin(
        X,
        data.y,
        initial=kept[9],
        max_iter=5,
        callback=lambda it: again.append(it.coef),
        **options,
    )
    if method in ("gradient-descent", "normalized-gradient"):
        assert np.allclose(np.array(again) * scale, np.array(kept[10:15]) * scale, rtol=1e-9)
    else:  # their momentum starts anew, and the first step is a plain one
        plain = options | {"method": "normalized-gradient"}
        step = []
        plain |= {"initial": kept[9], "callback": lambda it: step.append(it.coef)}
        max_margin(X, data.y, max_iter=2, **plain)
        assert np.allclose(again[0] * scale, step[0] * scale, rtol=1e-9)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("C", [math.inf, 10.0])
def test_starts_with_kernels_and_slack(data, kernel, C):
    options = {"kernel": kernel, "C": C}
    best = max_margin(data.X, data.y, tol=1e-8, **options)
    for method in ("momentum", "batch-perceptron"):
        result = max_margin(
            data.X, data.y, method=method, initial=best, max_iter=10, tol=0.0, **options
        )
        assert result.lower <= best.upper
        assert result.upper >= best.lower
        cold = max_margin(data.X, data.y, method=method, max_iter=10, tol=0.0, **options)
        assert result.trace["margin"][0] > cold.trace["margin"][0]


def test_the_interval_of_the_theorem_holds_after_a_warm_start(data):
    for initial in (np.ones(6), -1e3 * np.ones(6), max_margin(data.X, data.y, tol=1e-2)):
        warm = max_margin(data.X, data.y, method="momentum", initial=initial, max_iter=50)
        assert np.isfinite(warm.trace["theorem_lower"][1:]).all()
        assert np.all(warm.trace["theorem_lower"][1:] <= data.margin * (1 + 1e-9))
        assert np.all(warm.trace["theorem_upper"][1:] >= data.margin * (1 - 1e-9))


@pytest.mark.parametrize(
    ("method", "initial", "message"),
    [
        ("momentum", np.ones(5), r"initial has shape \(5,\); these data need \(6,\)"),
        ("momentum", np.full(6, np.nan), "initial contains NaN"),
        ("momentum", "zero", "initial='zero' must be the MarginResult"),
        ("auto", np.ones(6), "must be the MarginResult of an earlier call, for method='auto'"),
        ("batch-perceptron", np.ones(6), "for method='batch-perceptron'"),
    ],
)
def test_starts_that_are_refused(data, method, initial, message):
    with pytest.raises(InputError, match=message):
        max_margin(data.X, data.y, method=method, initial=initial)


def test_every_method_says_whether_it_starts_warm(data):
    class Cold(Momentum):
        warm_starts = False

    first = max_margin(data.X, data.y)
    with pytest.raises(InputError, match="does not support warm starts"):
        max_margin(data.X, data.y, method=Cold(), initial=first)
    assert all(solver.warm_starts for solver in SOLVERS.values())


def test_a_start_that_overflows_is_no_traceback(data):
    with np.errstate(all="ignore"):
        result = max_margin(
            data.X, data.y, method="gradient-descent", initial=np.full(6, -1e6), max_iter=5
        )
    assert result.status in (Status.ITERATION_BUDGET, Status.NOT_SEPARABLE)
    assert result.lower <= data.margin <= result.upper * (1 + 1e-9)


def test_a_trace_contains_its_columns_and_rows(data):
    trace = max_margin(data.X, data.y, method="momentum", tol=1e-2).trace
    assert all(name in trace for name in trace.columns)
    assert trace[-1] in trace
    assert "gap" not in trace
    assert None not in trace
