"""`race`, its table and its picture; and optimisers of torch as methods."""

from dataclasses import replace

import numpy as np
import pytest
from toy_frank_wolfe import FrankWolfe

from momentron import max_margin, race
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.estimators.racing import Race
from momentron.solvers import Momentum, TorchOptimizer
from momentron.status import Status


@pytest.fixture(scope="module")
def data():
    return make_separable(120, 6, margin=0.2, fit_intercept=True, random_state=4)


def test_a_race(data):
    methods = {"ours": "momentum", "short steps": Momentum(step=0.1), "toy": FrankWolfe()}
    told = []
    found = race(data.X, data.y, methods, passes=200, watch=lambda *args: told.append(args))
    assert list(found.results) == list(methods)
    assert found.best.lower <= 0.2 <= found.best.upper
    assert found.margins(200)["ours"] > found.margins(200)["short steps"]
    assert told[-1] == ("toy", 1.0)
    assert all(trace["passes"][-1] >= 200 for trace in found.traces.values())
    frame = found.to_frame()
    assert set(frame["method"]) == set(methods)
    assert race(data.X, data.y, best=found.best, passes=5).best is found.best


def test_the_table_fits_a_terminal(data):
    long = "package.of.somebody.elses:ClassWithAVeryLongName"
    found = race(-1e-7 * data.X, data.y, {long: "momentum", "b": "gradient-descent"}, passes=2000)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[-1] == "2000"
    assert len(lines) == 3


def test_passes_that_the_time_limit_cut_off_have_no_margin(data):
    found = race(data.X, data.y, ["momentum", "gradient-descent"], passes=50)
    cut = replace(found.results["momentum"], status=Status.TIME_BUDGET)
    longer = Race({**found.results, "momentum": cut}, found.best, 400)
    assert longer.margins(50) == found.margins(50)
    assert np.isnan(longer.margins(400)["momentum"])
    head, momentum, other = (line.split() for line in str(longer).splitlines())
    assert momentum[1 + head[1:].index("100") :] == ["–"] * 3
    assert "–" not in [*momentum[:3], *other]


def test_the_picture_shows_every_curve(data):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    found = race(data.X, data.y, passes=60)
    ax = Figure().subplots()
    display = found.plot(ax, title="a race")
    assert display.ax_ is ax
    low, high = ax.get_ylim()
    for line in display.lines_:
        assert low <= line.get_ydata().min()
        assert line.get_ydata().max() <= high
    assert ax.get_xscale() == "log"
    assert ax.get_yscale() == "symlog"


def test_what_is_refused(data):
    with pytest.raises(InputError, match="same name"):
        race(data.X, data.y, ["momentum", Momentum()])
    with pytest.raises(InputError, match="passes=1"):
        race(data.X, data.y, passes=1)
    with pytest.raises(InputError, match="is empty"):
        race(data.X, data.y, [])
    with pytest.raises(InputError, match="not known"):
        race(data.X, data.y, ["magic"])
    with pytest.raises(InputError, match=r"TorchOptimizer\(torch.optim.Adam, lr=…\)"):
        race(data.X, data.y, [pytest.importorskip("torch").optim.Adam])


# --- optimisers of torch -------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("block_size", [None, "1KB"])
def test_plain_sgd_is_gradient_descent(torch, data, fit_intercept, block_size):
    options = {"tol": 0.0, "max_iter": 40, "fit_intercept": fit_intercept, "block_size": block_size}
    for objective, name in (("risk", "gradient-descent"), ("log-risk", "normalized-gradient")):
        method = TorchOptimizer(torch.optim.SGD, lr=1.0, objective=objective)
        theirs = max_margin(data.X, data.y, method=method, **options)
        ours = max_margin(data.X, data.y, method=name, **options)
        assert np.allclose(theirs.trace["margin"], ours.trace["margin"], rtol=1e-9, atol=1e-12)
        assert theirs.method == "SGD"
        assert theirs.passes == ours.passes


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "Rprop", "NAdam", "LBFGS"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_optimiser_is_certified(torch, name, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 5)) + 6.0 * np.eye(5)[y]
    best = max_margin(X, y)
    rate = {"lr": 0.05} if name != "LBFGS" else {"lr": 0.5}
    method = TorchOptimizer(getattr(torch.optim, name), objective="log-risk", **rate)
    result = max_margin(X, y, method=method, max_iter=150)
    assert 0.0 < result.lower <= best.upper
    assert result.upper >= best.lower
    assert (result.trace["upper"] >= best.lower * (1 - 1e-9)).all()
    assert result.lower > 0.5 * best.lower


def test_schedules_starts_and_slack(torch, data):
    def decay(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: (t + 1) ** -0.5)

    method = TorchOptimizer(torch.optim.SGD, lr=1.0, objective="log-risk", schedule=decay)
    options = {"tol": 0.0, "max_iter": 30}
    theirs = max_margin(data.X, data.y, method=method, **options)
    ours = max_margin(data.X, data.y, method="normalized-gradient-root", **options)
    assert np.allclose(theirs.trace["margin"], ours.trace["margin"], rtol=1e-9)
    best = max_margin(data.X, data.y)
    warm = max_margin(data.X, data.y, method=method, initial=best, **options)
    assert warm.trace["margin"][0] > theirs.trace["margin"][0]
    soft = max_margin(data.X, data.y, method=method, C=1.0, **options)
    exact = max_margin(data.X, data.y, C=1.0)
    assert soft.lower <= exact.upper
    assert soft.upper >= exact.lower


def test_what_optimisers_cannot(torch, data):
    with pytest.raises(InputError, match="does not support kernels"):
        max_margin(data.X, data.y, kernel="rbf", method=TorchOptimizer(torch.optim.SGD, lr=1.0))
    with pytest.raises(InputError, match="must be a class or function"):
        TorchOptimizer("Adam")
    with pytest.raises(InputError, match="objective="):
        TorchOptimizer(torch.optim.SGD, objective="hinge")
