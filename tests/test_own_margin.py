"""Classifiers from elsewhere: their proven margins, against exact arithmetic and constructions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from momentron import MarginTracker, Problem, certify, margin_of, max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError

torch = pytest.importorskip("torch")


def exact_square(X, y, w, b):
    """(sign, square) of the margin of two classes in exact arithmetic."""
    w = [Fraction(float(v)) for v in w]
    least = min(
        (1 if label else -1)
        * (sum(Fraction(float(x)) * v for x, v in zip(row, w, strict=True)) + b)
        for row, label in zip(X, y, strict=True)
    )
    return least, least**2 / sum(v * v for v in w)


def brackets(found, least, square):
    """Whether found.lower ≤ sign·√square ≤ found.upper, without a root."""

    def signed(bound):
        return (1 if bound >= 0.0 else -1) * Fraction(bound) ** 2

    value = square if least >= 0 else -square
    return signed(found.lower) <= value <= signed(found.upper)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300, 1e-20])
def test_bounds_hold_in_exact_arithmetic(seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3)) * rng.choice([1.0, 1e3, 1e-3])
    y = rng.random(20) < 0.5
    y[:2] = False, True
    w = rng.normal(size=3) * scale
    b = float(rng.normal() * scale * rng.choice([0.0, 1.0, 1e6]))
    found = margin_of(X, y, w, b, optimum=None)
    assert brackets(found, *exact_square(X, y, w, Fraction(b)))
    assert found.upper - found.lower <= 1e-12 * (np.abs(X).max() + abs(b / scale))
    tiny = margin_of(X * 2.0**-700, y, w, None, optimum=None)
    assert brackets(tiny, *exact_square(X * 2.0**-700, y, w, 0))


def many(seed=0, k=4, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d))
    return X, rng.integers(0, k, 40), rng.normal(size=(k, d)), rng.normal(size=k)


@pytest.mark.parametrize(("k", "d"), [(4, 3), (3, 3), (3, 7)])
def test_many_classes(k, d):
    X, y, W, b = many(1, k, d)
    F = X @ W.T + b
    leads = F[np.arange(40), y][:, None] - F
    leads[np.arange(40), y] = np.inf
    found = margin_of(X, y, W, b, optimum=None)
    value = leads.min() / np.linalg.norm(W)
    assert found.lower <= value * (1 + 1e-15 * np.sign(value)) + 1e-13
    assert found.upper >= value - 1e-13
    assert found.upper - found.lower < 1e-12


def test_shapes_and_tensors():
    data = make_separable(60, 4, margin=0.3, fit_intercept=True, random_state=0)
    best = max_margin(data.X, data.y)
    forms = [
        (best.coef, best.intercept),
        (7.0 * best.coef[None], [7.0 * best.intercept]),
        (np.stack([-best.coef, best.coef]), [-best.intercept, best.intercept]),
        (torch.tensor(best.coef, requires_grad=True), torch.tensor(best.intercept)),
        (torch.tensor(best.coef)[None], torch.tensor([best.intercept], requires_grad=True)),
    ]
    for W, b in forms:
        found = margin_of(data.X, data.y, W, b, optimum=best)
        assert found.share > 1 - 1e-6
        assert found.share_upper >= found.share
        assert found.upper <= best.upper * (1 + 1e-9)
    assert margin_of(data.X, data.y, best.coef, best.intercept).share > 1 - 2e-6
    off = margin_of(data.X, data.y, best.coef, best.intercept + 0.1, optimum=best)
    assert off.lower == pytest.approx(best.lower - 0.1, rel=1e-6)
    assert "of the best margin" in repr(off)
    wrong = margin_of(data.X, data.y, best.coef, best.intercept + 2.5 * best.lower, optimum=best)
    assert repr(wrong).endswith(", where the best margin is positive: it errs on a row")
    assert ", at least 99.999" in repr(margin_of(data.X, data.y, *forms[0], optimum=best))


@pytest.mark.parametrize(
    ("W", "b", "message"),
    [
        (np.ones(3), None, r"W has shape \(3,\); these data need \(4,\)"),
        (np.ones((4, 1)), None, "transpose it"),
        (np.ones((3, 4)), None, "with an output for each of the two classes"),
        (np.ones(4), [1.0, 2.0], "W has 1 output, and each"),
        (np.ones((2, 4)), 1.0, "W has 2 outputs"),
        (np.full(4, np.nan), None, "contains NaN"),
        (np.ones(4), math.inf, "contains NaN or inf"),
    ],
)
def test_what_is_refused(W, b, message):
    data = make_separable(20, 4, random_state=0)
    with pytest.raises(InputError, match=message):
        margin_of(data.X, data.y, W, b, optimum=None)


def test_optima_that_are_refused():
    data = make_separable(20, 4, random_state=0)
    for optimum, message in [
        (max_margin(data.X[:19], data.y[:19]), "19 rows"),
        (max_margin(data.X, data.y, C=1.0), "soft margin"),
        (3, "must be 'solve'"),
    ]:
        with pytest.raises(InputError, match=message):
            margin_of(data.X, data.y, np.ones(4), optimum=optimum)


def test_nothing_separates():
    found = margin_of([[0.0], [1.0], [2.0]], [0, 1, 0], [1.0], 0.0)
    assert math.isnan(found.share)
    assert found.lower == pytest.approx(-2.0)
    zero = margin_of([[0.0], [1.0]], [0, 1], [0.0], 0.0)
    assert (zero.lower, zero.upper) == (0.0, 0.0)


def test_certify_takes_the_shapes_of_results():
    X, y, W, _ = many(2, 3, 3)
    X = X + 8.0 * np.eye(3)[y]
    problem = Problem.from_data(X, y)
    result = max_margin(X, y)
    assert certify(problem, result.coef, result.full_dual()).gap <= 2e-6
    turned = certify(problem, result.coef.T, result.full_dual())  # square, so it cannot be told
    assert turned.lower <= result.upper
    kernel = max_margin(X, y, kernel="rbf")
    from momentron.solvers.problem import KernelChoice

    bound = Problem.from_data(X, y, kernel=KernelChoice("rbf"))
    assert certify(bound, kernel.coef, kernel.full_dual()).gap <= 2e-6
    named = Problem.from_data(X, y, kernel="rbf")
    assert certify(named, kernel.coef, kernel.full_dual()).gap <= 2e-6
    with pytest.raises(InputError, match=r"must be a Problem: Problem.from_data\(X, y\)"):
        certify((X, y), result.coef, result.full_dual())
    with pytest.raises(InputError, match="hard margins"):
        certify(Problem.from_data(X, y, C=1.0), W, result.full_dual())
    with pytest.raises(InputError, match=r"these data need \(3, 3\): one row for each of the 3"):
        certify(problem, np.ones((2, 3)), result.full_dual())


# --- the tracker ---------------------------------------------------------------------------------


def test_a_tracker_follows_weights():
    data = make_separable(80, 5, margin=0.25, fit_intercept=True, random_state=3)
    tracker = MarginTracker(data.X, data.y)
    best = max_margin(data.X, data.y)
    first = tracker.look((np.ones(5), 0.2), step=0)
    last = tracker.look(best, step=1)
    assert last.share > 1 - 2e-6
    assert last.angle < 0.1
    assert first.share == pytest.approx(margin_of(data.X, data.y, np.ones(5), 0.2).share, rel=1e-6)
    y = np.where(data.y > 0, 1.0, -1.0)
    assert first.loss == pytest.approx(np.log1p(np.exp(-y * (data.X.sum(1) + 0.2))).mean())
    assert first.norm == pytest.approx(math.sqrt(5))
    assert tracker.looks["step"].tolist() == [0, 1]
    assert tracker.to_frame().columns[0] == "step"
    assert len(tracker.to_frame()) == 2
    assert tracker.look((np.full(5, np.nan), 0.0), loss=3.0).loss == 3.0
    assert math.isnan(tracker.looks[-1].share)
    with pytest.raises(InputError, match="fit_intercept=True"):
        MarginTracker(data.X, data.y, fit_intercept=False, optimum=best).look((np.ones(5), 1.0))


def test_a_tracker_follows_layers_and_networks():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = torch.tensor(rng.normal(size=(60, 4)) + 5.0 * np.eye(4)[y], dtype=torch.float32)
    layer = torch.nn.Linear(4, 3)
    look = MarginTracker(X, y).look(layer)
    outputs = layer(X)
    loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(y))
    assert look.loss == pytest.approx(loss.item(), rel=1e-5)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 3)
    )
    model.train()
    tracker = MarginTracker(X, y, features="penultimate", optimum_every=2)
    look = tracker.look(model)
    assert model.training
    assert model[2].training
    features = torch.relu(model[0](X)).detach()
    wanted = margin_of(features, y, model[3].weight, model[3].bias)
    assert (look.margin, look.share) == pytest.approx((wanted.lower, wanted.share), rel=1e-5)
    assert math.isnan(tracker.look(model).share)
    assert not math.isnan(tracker.look(model).share)
    by_hand = MarginTracker(X, y, features=lambda net, X: torch.relu(net[0](X)), layer="3")
    assert by_hand.look(model).share == pytest.approx(wanted.share, rel=1e-5)
    with pytest.raises(InputError, match="softmax"):
        tracker.look(torch.nn.Sequential(model, torch.nn.Softmax(1)))
    with pytest.raises(InputError, match="is not a linear layer"):
        MarginTracker(X, y).look(model)
    with pytest.raises(InputError, match="no linear layer"):
        tracker.look(torch.nn.Sequential(torch.nn.ReLU()))


def test_the_picture_of_a_tracker():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    data = make_separable(30, 3, random_state=0)
    tracker = MarginTracker(data.X, data.y)
    with pytest.raises(InputError, match="call look first"):
        tracker.plot()
    for step in range(5):
        tracker.look((np.ones(3) + step, 0.0), step)
    for column in ("share", "margin", "loss", "norm", "angle"):
        ax = Figure().subplots()
        assert tracker.plot(ax, y=column).ax_ is ax
    with pytest.raises(InputError, match="must be one of"):
        tracker.plot(y="beauty")


def test_outputs_that_differ_by_more_than_a_float_holds_are_refused():
    with pytest.raises(InputError, match="two rows of b"):
        margin_of([[0.0], [1.0]], [0, 1], [[-1.0], [1.0]], [1.5e308, -1.5e308], optimum=None)
