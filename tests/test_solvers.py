"""Every solver on dense rows, in more depth than the contract matrix; and the methods' own ways."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from makers import make_nonseparable

import momentron.solvers
from momentron import Status, max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.solvers import (
    SOLVERS,
    Adaptive,
    Auto,
    DualNesterov,
    Momentum,
    NormalizedGradient,
    Solver,
    TorchOptimizer,
    as_solver,
)
from momentron.solvers.auto import AutoSettings
from momentron.solvers.problem import Problem
from momentron.solvers.solver import MarginProblem

SLOW = {"gradient-descent", "normalized-gradient-root"}


@pytest.fixture(params=[False, True], ids=["no-intercept", "intercept"])
def separable(request):
    return make_separable(100, 8, margin=0.3, fit_intercept=request.param, random_state=0)


def test_interval_holds_and_improves(solver, separable):
    data = separable
    result = max_margin(
        data.X, data.y, method=solver, fit_intercept=data.fit_intercept, max_iter=1500
    )
    assert result.lower <= data.margin * (1 + 1e-12)
    assert result.upper >= data.margin * (1 - 1e-12)
    assert result.gap < (0.9 if solver.name in SLOW else 0.3)
    trace = result.trace.to_dict()
    assert np.all(trace["lower"] <= data.margin * (1 + 1e-9))
    assert np.all(trace["upper"] >= data.margin * (1 - 1e-9))
    assert np.all(np.diff(trace["lower"]) >= 0.0)
    assert np.all(np.diff(trace["upper"]) <= 0.0)
    assert np.all(np.diff(trace["passes"]) >= 1)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_nonseparable_data_never_get_a_positive_margin(solver, fit_intercept):
    data = make_nonseparable(80, 6, fit_intercept=fit_intercept, random_state=1)
    result = max_margin(
        data.X, data.y, method=solver, fit_intercept=fit_intercept, max_iter=300, tol=1e-3
    )
    assert result.lower == 0.0
    assert result.upper > -1e-300
    assert result.status in (Status.ITERATION_BUDGET, Status.NOT_SEPARABLE)
    assert np.linalg.norm(result.coef) == pytest.approx(1.0)


def test_candidates_mean_what_they_say(solver, separable):
    problem = Problem.from_data(separable.X, separable.y, fit_intercept=separable.fit_intercept)
    state = solver.init(problem)
    for _ in range(30):
        solver.step(problem, state)
    candidates = solver.candidates(problem, state)
    for primal in candidates.primals:
        assert np.allclose(problem.scores(primal.w), primal.scores, atol=1e-10)
    q = problem.dual_set.normalize(candidates.q)
    assert np.linalg.norm(problem.gradient(q)) == pytest.approx(candidates.upper, rel=1e-9)
    assert candidates.q.min() >= 0.0


def test_loss_is_followed_or_refused(solver):
    data = make_separable(10, 3, random_state=2)
    options = {"method": solver, "fit_intercept": False, "loss": "logistic", "max_iter": 50}
    if solver.uses_loss:
        assert max_margin(data.X, data.y, **options).upper >= data.margin * (1 - 1e-12)
    else:
        with pytest.raises(InputError, match="leave it out"):
            max_margin(data.X, data.y, **options)


def test_one_row_each(solver):
    result = max_margin([[3.0], [-1.0]], [1, 0], method=solver, max_iter=2000, tol=1e-3)
    assert result.lower <= 2.0 <= result.upper * (1 + 1e-15)
    assert result.intercept == pytest.approx(-1.0)


def test_gradient_descent_follows_the_risk():
    """One step from zero moves by −∇R(0) = −mean of z, for either kind of problem."""
    data = make_separable(40, 5, random_state=3)
    problem = Problem.from_data(data.X, data.y, fit_intercept=False)
    solver = as_solver("gradient-descent")
    state = solver.init(problem)
    solver.step(problem, state)
    Z = -data.y[:, None] * data.X / problem.radius
    assert np.allclose(state.now.w, -Z.mean(axis=0))
    w = state.now.w.copy()
    solver.step(problem, state)
    assert np.allclose(state.now.w, w - Z.T @ np.exp(Z @ w) / 40)


def test_gradient_descent_with_intercept_uses_the_best_intercept():
    data = make_separable(40, 5, fit_intercept=True, random_state=3)
    problem = Problem.from_data(data.X, data.y)
    solver = as_solver("gradient-descent")
    state = solver.init(problem)
    solver.step(problem, state)
    w = state.now.w.copy()
    solver.step(problem, state)
    Z = -data.y[:, None] * data.X / problem.radius
    losses = np.exp(Z @ w)
    up, down = losses[data.y > 0].sum(), losses[data.y < 0].sum()
    b = 0.5 * np.log(up / down)  # least of Σ exp(Zw − by) over b
    assert np.allclose(state.now.w, w - Z.T @ (losses * np.exp(-b * data.y)) / 40)


def test_parameters_reach_the_method():
    data = make_separable(40, 5, random_state=3)
    a = max_margin(data.X, data.y, method=NormalizedGradient(step=0.5), max_iter=50)
    b = max_margin(data.X, data.y, method="normalized-gradient", max_iter=50)
    assert a.upper != b.upper
    c = max_margin(data.X, data.y, method=Momentum(step=1.0), max_iter=50)
    d = max_margin(data.X, data.y, method="momentum", max_iter=50)
    assert c.upper == d.upper


def test_unknown_method():
    with pytest.raises(InputError, match="choose one of"):
        max_margin([[1.0], [2.0]], [0, 1], method="magic")


def test_a_class_is_not_yet_a_solver():
    with pytest.raises(InputError, match=r"pass an instance: method=Momentum\(\)"):
        max_margin([[1.0], [2.0]], [0, 1], method=Momentum)


def test_a_solver_without_a_name_has_that_of_its_class():
    class Mine(Momentum):
        pass

    class Plain(Solver):
        pass

    assert (Mine.name, Plain.name) == ("momentum", "Plain")


def _halved(t):
    return 2.0 / (t + 2.0)


MADE = [
    *(solver() for solver in SOLVERS.values()),
    Auto(AutoSettings()),
    Momentum(step=0.5),
    Momentum(step="adaptive"),
    Momentum(_halved, step=np.float64(0.25)),
    DualNesterov(_halved),
    NormalizedGradient(step=0.125),
    Adaptive(step=0.5, momentum=np.float64(0.25)),
    Adaptive(momentum=_halved),
    Adaptive("theory", n_steps=np.int64(50)),
]


@pytest.mark.parametrize("solver", MADE, ids=repr)
def test_a_repr_is_the_call_that_makes_the_solver(solver):
    names = {**vars(momentron.solvers), "AutoSettings": AutoSettings, "_halved": _halved}
    again = eval(repr(solver), names)
    assert repr(again) == repr(solver)
    assert type(again) is type(solver)
    assert vars(again) == vars(solver)


def test_the_repr_of_an_optimizer_of_torch():
    torch = pytest.importorskip("torch")

    def decay(optimizer):
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    for solver in (
        TorchOptimizer(torch.optim.Adam, lr=np.float64(0.1), betas=(0.9, 0.99)),
        TorchOptimizer(torch.optim.SGD, lr=0.1, objective="log-risk", schedule=decay),
        TorchOptimizer(torch.optim.LBFGS),
    ):
        again = eval(repr(solver), {**vars(momentron.solvers), **vars(torch.optim), "decay": decay})
        assert vars(again) == vars(solver)


def test_the_theory_of_adaptive_sampling_has_no_momentum():
    data = make_separable(60, 5, margin=0.3, random_state=0)
    problem = Problem.from_data(data.X, data.y)
    state = Adaptive("theory", n_steps=20).init(problem)
    assert [state.beta(t) for t in (0, 1, 10)] == [0.0, 0.0, 0.0]
    assert [Adaptive().init(problem).beta(t) for t in (0, 1)] == [0.0, 0.5]


def test_what_solvers_see_is_what_the_page_documents():
    page = (Path(__file__).parents[1] / "docs/howto/write-a-solver.md").read_text()
    verbs = [name for name, verb in vars(MarginProblem).items() if inspect.isfunction(verb)]
    assert [name for name in verbs if f"problem.{name}(" not in page] == []
    assert len(verbs) <= 18
    assert len(MarginProblem.__abstractmethods__) <= 12
