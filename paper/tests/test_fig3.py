"""Figure 3: columns of the tangent kernel, test errors, claims, and runs that are interrupted."""

import csv
import importlib.util
import os
import time

import numpy as np
import pytest

from momentron import max_margin
from momentron.datasets import load
from momentron.solvers import Adaptive, BatchPerceptron
from paper import FIGURES, Figure3, fig3, runner, two_layer
from paper.data import Sample
from paper.two_layer import (
    AGGRESSIVE,
    FEW_ROWS,
    ORDER,
    PERCEPTRON,
    THEORY,
    Features,
    TestRows,
    TwoLayerReLUKernel,
    measure_curve,
)

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)
needs_mnist = pytest.mark.skipif(
    "MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set: no MNIST at hand"
)

ITERATIONS = 120
FEATURES = Features(128, 0, normalize=True)


def digits(step=4):
    """Some of scikit-learn's digits, all classes, every third to test on."""
    data = load("digits")
    X, y = data.X[::step] / 16.0, data.y[::step]
    test = np.arange(y.size) % 3 == 0
    return Sample(X[~test], y[~test], X[test], y[test], "digits")


def small_figure(iterations=ITERATIONS):
    sample = digits()
    return Figure3(sample, iterations=iterations, raw=sample, raw_iterations=60, quick=True)


@pytest.fixture
def no_pictures(monkeypatch):
    """Drawing takes longer than all else on so few digits."""
    monkeypatch.setattr(runner, "render", lambda draw: {})


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- the kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
def test_sparse_columns_are_the_kernel_s(normalize):
    X = digits().X
    network = TwoLayerReLUKernel(X.shape[1], 32, 0, normalize=normalize)
    bound = network.bind(X)
    whole, everything = network(X, X), slice(0, len(X))
    limit = 2.0 * bound.relative_error * np.outer(bound.row_norms, bound.row_norms)
    for rows in (np.array([7]), np.array([3, 250]), np.arange(FEW_ROWS + 1), slice(5, 8)):
        values = bound.block(rows, everything)
        assert np.all(np.abs(values - whole[rows]) <= limit[rows])
    some = np.array([1, 4, 200])
    assert np.all(np.abs(bound.block(some, some) - whole[np.ix_(some, some)]) < 1e-12)


def test_sparse_columns_are_symmetric_to_the_bit():
    X = digits().X
    bound = TwoLayerReLUKernel(64, 32, 0).bind(X)
    columns = np.stack([bound.block(np.array([i]), slice(0, len(X)))[0] for i in range(40)])
    assert np.array_equal(columns[:, :40], columns[:, :40].T)


def test_the_kernel_s_error_bound_holds():
    X = digits(20).X
    network = TwoLayerReLUKernel(64, 16, 0)
    bound = network.bind(X)
    rows = np.longdouble(X)
    V, a = np.longdouble(network.V), np.longdouble(network.a)
    hidden = np.maximum(rows @ V.T, 0)
    gates = (hidden > 0) * np.abs(a)
    exact = (rows @ rows.T) * (gates @ gates.T) + hidden @ hidden.T
    values = np.concatenate([bound.block(np.array([i]), slice(0, len(X))) for i in range(len(X))])
    allowed = bound.relative_error * np.outer(bound.row_norms, bound.row_norms)
    assert np.all(np.abs(values - exact) <= allowed)
    assert np.allclose(values, network(X, X))


# --- test errors -----------------------------------------------------------------------------


def test_test_errors_are_counted():
    sample = digits()
    network = TwoLayerReLUKernel(64, 16, 0, normalize=True)
    test, rng = TestRows(network, sample), np.random.default_rng(0)
    coef = np.zeros((len(sample.X), 10))
    assert test.error(coef) == 1.0  # all scores are tied
    values = network(sample.X_test, sample.X)
    for rows in (3, 10, 100):  # more and more rows count
        index = rng.choice(len(sample.X), rows, replace=False)
        coef[index, sample.y[index]] += rng.random(rows)
        expected = np.mean((values @ coef).argmax(axis=1) != sample.y_test)
        assert test.error(coef) == pytest.approx(expected)
        assert TestRows(network, sample).error(coef) == test.error(coef)


def test_labels_need_not_be_numbers_from_zero():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    sample = Sample(X, np.array([30, 10, 20]), X[[0, 1, 2, 0]], np.array([30, 10, 20, 20]), "three")
    network = TwoLayerReLUKernel(2, 64, 0)
    coef = np.zeros((3, 3))
    coef[[0, 1, 2], [2, 0, 1]] = 1.0
    assert TestRows(network, sample).error(coef) == 0.25


# --- curves ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ORDER)
def test_curves_are_the_same_each_time_and_complete(method):
    sample = digits()
    curves = [measure_curve(method, sample, 40, FEATURES, lambda share: None) for _ in range(2)]
    first, second = (curve.columns for curve in curves)
    for name in first.keys() - {"seconds"}:
        assert np.array_equal(first[name], second[name], equal_nan=True), name
    assert first["iteration"][0] == 1
    assert first["iteration"][-1] == 40
    assert ("last_test_error" in first) == (method is PERCEPTRON)
    n = len(sample.X)
    assert np.all(first["evaluations"] <= n * (first["iteration"] + 1))
    assert np.all(first["lower"] <= first["upper"])


def test_the_methods_have_the_paper_s_parameters():
    sample = digits()
    problem = two_layer.Problem.from_data(sample.X, sample.y, fit_intercept=False)
    theory = two_layer.make_solver(THEORY, 500)
    state = theory.init(problem)
    assert state.step_size(3) == pytest.approx(np.sqrt(np.log(problem.size) / 500))
    assert state.beta(3) == 0.0
    aggressive = two_layer.make_solver(AGGRESSIVE, 500)
    assert aggressive.step_size(3) == 1.0
    assert aggressive.init(problem).beta(3) == pytest.approx(3 / 4)


# --- claims ----------------------------------------------------------------------------------


def made_curves(aggressive, perceptron, theory, errors=(0.02, 0.02, 0.05)):
    """Curves over 1, 2, 4 iterations with the given last margins."""
    t, curves = np.array([1, 2, 4]), {}
    for method, last, error in zip(ORDER, (aggressive, perceptron, theory), errors, strict=True):
        margin = np.array([-0.5, -0.1, last])
        curves[method.name] = {
            "iteration": t,
            "evaluations": 100 * (t + 1),
            "margin": margin,
            "lower": np.maximum(0.0, margin),
            "upper": np.array([1.0, 0.9, 0.8]),
            "test_error": np.array([0.5, 0.1, error]),
            "last_test_error": np.array([0.5, 0.1, error]),
        }
    return curves


def test_claims_hold_for_the_paper_s_order():
    curves = made_curves(0.3, 0.2, -0.1)
    claims = [
        fig3.separable(curves, 100),
        fig3.columns_suffice(curves, 100),
        fig3.aggressive_first(curves),
        fig3.theory_last(curves),
        fig3.order_at_equal_values(curves),
        fig3.works_well(curves, 10_000),
        fig3.order_without_normalizing(curves, 100),
    ]
    assert all(claim.holds for claim in claims)
    first = fig3.aggressive_first(curves).measured
    assert first["ahead for good since iteration"] == 4
    assert first["larger by"] == "+50%"
    assert first["no margin is above, certified"] == 0.8


def test_claims_can_fail():
    assert not fig3.separable(made_curves(-0.1, -0.2, -0.3), 100).holds
    behind = made_curves(0.2, 0.3, -0.1)
    late = fig3.aggressive_first(behind)
    assert not late.holds
    assert late.measured["ahead for good since iteration"] is None
    assert fig3.theory_last(behind).holds
    assert not fig3.order_without_normalizing(behind, 100).holds
    assert not fig3.theory_last(made_curves(0.3, 0.1, 0.2)).holds
    best = made_curves(0.3, 0.2, 0.1)
    best[PERCEPTRON.name]["lower"][-1] = 0.31  # an iterate that was better than the average
    assert not fig3.aggressive_first(best).holds
    assert not fig3.works_well(made_curves(0.3, 0.2, 0.1, (0.03, 0.02, 0.05)), 10_000).holds
    assert fig3.works_well(made_curves(0.3, 0.2, 0.1, (0.022, 0.02, 0.05)), 10_000).holds
    greedy = made_curves(0.3, 0.2, 0.1)
    greedy[AGGRESSIVE.name]["evaluations"] = np.array([200, 300, 501])
    assert not fig3.columns_suffice(greedy, 100).holds


def test_equal_kernel_values_are_not_equal_iterations():
    curves = made_curves(0.3, 0.2, 0.1)
    curves[PERCEPTRON.name]["evaluations"] = np.array([200, 250, 300])  # columns found in memory
    claim = fig3.order_at_equal_values(curves)
    assert claim.measured["kernel values"] == 300.0
    assert claim.measured[f"{AGGRESSIVE.name}, margin"] == -0.1
    assert claim.measured[f"{PERCEPTRON.name}, margin"] == 0.2
    assert not claim.holds


# --- the run ---------------------------------------------------------------------------------


@pytest.mark.slow
@needs_matplotlib
def test_everything_is_written(tmp_path):
    done = runner.reproduce(small_figure(), tmp_path)
    assert (done.folder / "fig3.png").read_bytes().startswith(b"\x89PNG")
    text = (done.folder / "fig3.md").read_text()
    assert all(claim.claim.replace("|", "\\|") in text for claim in done.claims)
    rows = read_csv(done.folder / "fig3.csv")
    last = {row["curve"]: float(row["margin"]) for row in rows}
    order = next(c for c in done.claims if c.claim.startswith("The batch perceptron is slightly"))
    for method in (AGGRESSIVE, PERCEPTRON):
        assert order.measured[f"{method.name}, margin"] == last[method.name]
    assert order.measured["iterations"] == ITERATIONS
    assert {row["curve"] for row in rows} == {part.name for part in small_figure().parts()}
    assert all(0.0 <= float(row["test_error"]) <= 1.0 for row in rows)


class Stop:
    """A watch that interrupts the run at half of a part."""

    def __init__(self, part):
        self.part, self.calls = part, 0

    def __call__(self, part, share):
        self.calls += part == self.part
        if self.calls > ITERATIONS // 2:
            raise KeyboardInterrupt


@pytest.mark.slow
@needs_matplotlib
@pytest.mark.parametrize("method", [PERCEPTRON, THEORY])
def test_interrupted_half_way_and_resumed_is_the_same(method, tmp_path, no_pictures):
    whole = runner.reproduce(small_figure(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(small_figure(), tmp_path, watch=Stop(method.name))
    assert not (tmp_path / "fig3" / "fig3.csv").exists()
    resumed = runner.reproduce(small_figure(), tmp_path)
    names = [part.name for part in small_figure().parts()]
    assert resumed.resumed == names[: names.index(method.name)]
    table = "fig3.csv"
    assert (resumed.folder / table).read_bytes() == (whole.folder / table).read_bytes()


def test_it_is_registered():
    assert FIGURES["fig3"] == Figure3.from_mnist


@pytest.mark.slow
@needs_mnist
@needs_matplotlib
def test_figure_3_on_mnist(tmp_path):
    start = time.process_time()
    figure = Figure3.from_mnist(True)
    figure.quick = False  # to see what its numbers say
    done = runner.reproduce(figure, tmp_path)
    assert time.process_time() - start < 60.0  # of work: others may share the machine
    assert np.unique(figure.sample.y).size == 10
    failed = [claim.measured for claim in done.claims if not claim.holds]
    # through the kernel as it is, the batch perceptron has had a better iterate
    assert len(failed) == 1
    best = {m: failed[0][f"{m.name}, best so far"] for m in (AGGRESSIVE, PERCEPTRON)}
    assert best[PERCEPTRON] > best[AGGRESSIVE]


@pytest.mark.slow
@needs_mnist
def test_the_whole_figure_has_all_of_mnist():
    sample = fig3.mnist_digits()
    assert sample.X.shape == (60_000, 784)
    assert sample.X_test.shape == (10_000, 784)
    assert np.array_equal(np.unique(sample.y), np.arange(10))


@pytest.mark.slow
@pytest.mark.skipif("MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set")
def test_figure_3_order():
    """At equal kernel values: aggressive, batch perceptron, theory."""
    mnist = load("mnist", subset=1000)
    kernel = TwoLayerReLUKernel(mnist.X.shape[1], 128, 0, normalize=True)
    options = {"kernel": kernel, "fit_intercept": False, "tol": 0.0, "max_iter": 1500}
    aggressive, perceptron, theory = (
        max_margin(mnist.X, mnist.y, method=solver, random_state=0, **options).trace["margin"][-1]
        for solver in (Adaptive("aggressive"), BatchPerceptron(), Adaptive("theory", n_steps=1500))
    )
    assert aggressive > 1.05 * perceptron > 0.0 > theory
