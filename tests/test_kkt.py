"""The KKT share against networks whose share is known, and what it refuses."""

import math
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from momentron import margin_of  # noqa: E402
from momentron.datasets import load, make_separable  # noqa: E402
from momentron.errors import InputError  # noqa: E402
from momentron.ntk import KKTTracker, kkt_share  # noqa: E402
from tests.architectures import one_torch_thread  # noqa: E402, F401


def linear(*weights):
    """A network of linear layers with these weights, in float64, without biases."""
    layers = []
    for W in weights:
        layer = nn.Linear(W.shape[1], W.shape[0], bias=False).double()
        layer.weight.data[:] = torch.tensor(W)
        layers.append(layer)
    return nn.Sequential(*layers)


@pytest.fixture(scope="module")
def data():
    return make_separable(60, 6, margin=0.25, random_state=0)


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_network_has_the_share_of_the_margin(data, seed):
    w = data.coef + 0.02 * np.random.default_rng(seed).normal(size=6)
    found = kkt_share(linear(3.0 * w[None]), data.X, data.y)
    wanted = (data.y * (data.X @ w)).min() / np.linalg.norm(w) / 0.25
    assert found.order == 1
    assert found.share <= wanted * (1 + 1e-12)
    assert wanted * (1 - 1e-12) <= found.share_upper <= 1.0
    assert found.share_upper - found.share < 2e-6
    assert repr(found).startswith("KKTShare: in [0.")
    assert found.optimum.lower <= 0.25 * (1 + 1e-12)
    assert found.angle == pytest.approx(
        math.degrees(math.acos(w @ data.coef / np.linalg.norm(w))), abs=0.1
    )
    both = margin_of(data.X, data.y, np.vstack([-w, w]), optimum=None)
    twice = kkt_share(linear(np.vstack([-w, w])), data.X, data.y)  # ‖θ‖ and ∇s are √2 times as long
    assert twice.share == pytest.approx(found.share, abs=3e-6)
    assert twice.lower == pytest.approx(both.lower * 2 / math.sqrt(2), rel=1e-9)


def test_kkt_points_of_deep_linear_networks(data):
    """Balanced layers of rank one along the maximum-margin direction."""
    u, v = np.array([0.6, 0.8]), np.array([1.0, -2.0, 2.0]) / 3.0
    weights = [np.outer(u, data.coef), np.outer(v, u), v[None]]
    found = kkt_share(linear(*(1.7 * W for W in weights)), data.X, data.y)
    assert found.order == 3
    assert found.share > 1.0 - 2e-6
    assert found.share_upper == pytest.approx(1.0, abs=1e-12)
    assert found.normalised_margin == pytest.approx(0.25 / math.sqrt(3) ** 3)
    assert found.angle < 0.2
    # the same function, but layers of other lengths: no KKT point
    unbalanced = kkt_share(linear(4.0 * weights[0], *weights[1:]), data.X, data.y)
    assert unbalanced.share_upper < 0.9


def test_a_kkt_point_of_a_relu_network():
    """Each class has a neuron of its own, along the point of its hull nearest to the origin."""
    rng = np.random.default_rng(0)
    side = np.column_stack([1.0 + rng.exponential(size=10), rng.normal(size=10)])
    side[:2] = [[1.0, 1.5], [1.0, -0.5]]  # whose hull is nearest to the origin at (1, 0)
    X, y = np.vstack([side, -2.0 * side]), np.repeat([1, -1], 10)
    first = np.array([[1.0, 0.0], [-1.0, 0.0]]) * np.sqrt([[1.0], [0.5]])  # margins 1 and 1
    model = nn.Sequential(
        linear(first), nn.ReLU(), linear(np.array([[1.0, -1.0]]) * np.sqrt([1, 0.5]))
    )
    found = kkt_share(model, X, y)
    assert found.order == 2
    assert 1.0 - 2e-6 < found.share <= found.share_upper <= 1.0 + 1e-12
    model[2][0].weight.data *= torch.tensor([[1.1, 1.0]])
    assert kkt_share(model, X, y).share_upper < 0.99


ARCHITECTURES = {
    "one output": lambda: nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.ReLU(), nn.Linear(8, 1, bias=False)
    ),
    "bias of the first layer": lambda: nn.Sequential(
        nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 2, bias=False)
    ),
    "three layers, softmax": lambda: nn.Sequential(
        nn.Linear(6, 8, bias=False),
        nn.ReLU(),
        nn.Linear(8, 8, bias=False),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(8, 2, bias=False),
        nn.LogSoftmax(1),
    ),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 4, 3, bias=False),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(8, 1, bias=False),
    ),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shares_are_at_most_one_and_bound_the_angle(name, data):
    for seed in range(3):
        torch.manual_seed(seed)
        model = ARCHITECTURES[name]().train()
        targets = torch.tensor((data.y > 0).astype(int))
        for _ in range(seed * 20):
            outputs = model(torch.tensor(data.X, dtype=torch.float32))
            leads = outputs if outputs.shape[1] == 2 else torch.cat([0 * outputs, outputs], 1)
            loss, parameters = nn.functional.cross_entropy(leads, targets), list(model.parameters())
            with torch.no_grad():
                for p, gradient in zip(
                    parameters, torch.autograd.grad(loss, parameters), strict=True
                ):
                    p -= 0.5 * gradient
        before = [p.clone() for p in model.parameters()]
        found = kkt_share(model, data.X, data.y)
        assert model.training
        assert all(map(torch.equal, before, model.parameters()))
        assert found.order == (3 if "three" in name else 2)
        if not math.isnan(found.share):
            assert found.share <= found.share_upper <= 1.0
            assert math.cos(math.radians(found.angle)) >= found.share - 1e-6
        # whatever the network computes with, the interval is of float64
        double = kkt_share(model.double(), data.X, data.y)
        assert (double.lower, double.upper) == (found.lower, found.upper)
        assert found.upper - found.lower < 1e-12 * max(1.0, abs(found.upper))


def test_many_classes_by_an_explicit_jacobian():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 8)
    X = rng.normal(size=(24, 3)) + 4.0 * np.eye(3)[np.repeat([0, 1, 2], 8)]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 9, bias=False), nn.ReLU(), nn.Linear(9, 3, bias=False))
    model = model.double()
    found = kkt_share(model, X, y)
    parameters = list(model.parameters())
    gradients, leads = [], []
    for x, c in zip(torch.tensor(X), np.repeat([0, 1, 2], 8), strict=True):
        outputs = model(x)
        for j in {0, 1, 2} - {c}:
            parts = torch.autograd.grad(outputs[c] - outputs[j], parameters, retain_graph=True)
            gradients.append(np.concatenate([part.numpy().ravel() for part in parts]))
            leads.append((outputs[c] - outputs[j]).item())
    signs = np.where(np.arange(len(gradients)) % 2, 1, -1)
    theta = np.concatenate([p.detach().numpy().ravel() for p in parameters])
    wanted = margin_of(signs[:, None] * np.array(gradients), signs, theta)
    assert found.order == 2
    assert found.lower == pytest.approx(2 * min(leads) / np.linalg.norm(theta), rel=1e-12)
    assert found.lower == pytest.approx(wanted.lower, rel=1e-9)
    assert found.share == pytest.approx(wanted.share, rel=1e-5)
    outputs, targets = model(torch.tensor(X)), torch.tensor(np.repeat([0, 1, 2], 8))
    loss = nn.functional.cross_entropy(outputs, targets).item()
    assert found.loss == pytest.approx(loss)


REFUSED = {
    "biases ['0.bias', '2.bias'] only those of the first layer": nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)
    ),
    "one of its layers (GELU, Linear)": nn.Sequential(
        nn.Linear(6, 5, bias=False), nn.GELU(), nn.Linear(5, 1, bias=False)
    ),
    "with L = 0": nn.Sequential(
        nn.Linear(6, 2, bias=False), nn.LayerNorm(2, eps=0.0, elementwise_affine=False)
    ),
    "2 classes need (60, 2) or (60, 1)": nn.Linear(6, 3, bias=False),
    "all outputs are equal at all rows": linear(np.zeros((1, 6))),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_share(words, data):
    torch.manual_seed(0)
    model = REFUSED[words]
    for p in model.parameters():
        if p.any():
            nn.init.normal_(p)
    with pytest.raises(InputError, match=re.escape(words)):
        kkt_share(model, data.X, data.y)


def test_labels_and_options_that_are_refused(data):
    model = linear(data.coef[None])
    with pytest.raises(InputError, match="y has 1 class; a margin needs at least 2"):
        kkt_share(model, data.X, np.ones(60))
    with pytest.raises(InputError, match="optimum=3 must be 'solve' or None"):
        kkt_share(model, data.X, data.y, optimum=3)


def test_frozen_parameters_are_no_part_of_theta(data):
    torch.manual_seed(0)
    model = ARCHITECTURES["one output"]()
    model[0].requires_grad_(False)
    found = kkt_share(model, data.X, data.y)
    assert found.order == 1
    assert found.norm == pytest.approx(float(model[2].weight.detach().double().norm()))


def test_a_tracker_follows_the_share(data):
    torch.manual_seed(0)
    model = linear(data.coef[None] + 0.05)
    tracker = KKTTracker(data.X, data.y, optimum_every=2)
    looks = [tracker.look(model, step=10 * count) for count in range(3)]
    found = kkt_share(model, data.X, data.y)
    for look in (looks[0], looks[2]):
        assert (look.share, look.share_upper) == (found.share, found.share_upper)
        assert (look.best, look.best_upper) == (found.optimum.lower, found.optimum.upper)
        assert (look.angle, look.norm, look.loss) == (found.angle, found.norm, found.loss)
    assert (looks[1].margin, looks[1].margin_upper) == (found.lower, found.upper)
    assert all(map(math.isnan, (looks[1].share, looks[1].best, looks[1].angle)))
    assert tracker.looks["step"].tolist() == [0, 10, 20]
    assert repr(tracker).startswith("KKTTracker(3 looks, last share 73.09")
    assert tracker.cpu_seconds > 0.0


@pytest.mark.slow
def test_training_reaches_a_kkt_point():
    digits = load("digits")
    rows = np.flatnonzero(np.isin(digits.y, [3, 8]))[:120]
    X, y = torch.tensor(digits.X[rows] / 16, dtype=torch.float32), digits.y[rows]
    signs = torch.tensor(np.where(y == 8, 1.0, -1.0), dtype=torch.float32)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 1, bias=False))
    tracker, parameters = KKTTracker(X, y), list(model.parameters())
    for step in range(3001):
        if step in (0, 300, 3000):
            tracker.look(model, step)
        gradients = torch.autograd.grad(torch.logsumexp(-signs * model(X)[:, 0], 0), parameters)
        with torch.no_grad():
            square = sum(float(p.square().sum()) for p in parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= 0.3 / square * gradient
    shares = tracker.looks["share"]
    assert shares[0] < 0.0
    assert shares[0] < shares[1] < shares[2]
    assert 0.9 < shares[2] <= tracker.looks["share_upper"][2] < 1.0
