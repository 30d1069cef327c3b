"""The methods, by name in `SOLVERS`, and what a method of your own is made of."""

from momentron.data.arguments import meant
from momentron.errors import InputError, short
from momentron.solvers.adaptive import Adaptive
from momentron.solvers.auto import Auto
from momentron.solvers.descent import GradientDescent, NormalizedGradient, NormalizedGradientRoot
from momentron.solvers.momentum import DualNesterov, Momentum
from momentron.solvers.perceptrons import BatchPerceptron, NormalizedPerceptron, SmoothPerceptron
from momentron.solvers.simplex_fista import SimplexFista
from momentron.solvers.solver import (
    Candidates,
    MarginProblem,
    Primal,
    RunOptions,
    Solver,
    Start,
    State,
)
from momentron.solvers.torch_optimizer import TorchOptimizer

__all__ = [
    "SOLVERS",
    "Adaptive",
    "Auto",
    "BatchPerceptron",
    "Candidates",
    "DualNesterov",
    "GradientDescent",
    "MarginProblem",
    "Momentum",
    "NormalizedGradient",
    "NormalizedGradientRoot",
    "NormalizedPerceptron",
    "Primal",
    "RunOptions",
    "SimplexFista",
    "SmoothPerceptron",
    "Solver",
    "Start",
    "State",
    "TorchOptimizer",
    "as_solver",
]

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Auto,
        Momentum,
        Adaptive,
        DualNesterov,
        GradientDescent,
        NormalizedGradient,
        NormalizedGradientRoot,
        BatchPerceptron,
        NormalizedPerceptron,
        SmoothPerceptron,
        SimplexFista,
    )
}


def as_solver(method: str | Solver) -> Solver:
    """A method by name, or the instance itself; the error says what may have been meant."""
    if isinstance(method, Solver):
        return method
    if isinstance(method, str) and method in SOLVERS:
        return SOLVERS[method]()
    kind: type = method if isinstance(method, type) else type(method)
    name, hint = kind.__name__, meant(method, SOLVERS)
    if issubclass(kind, Solver):
        raise InputError(f"method={name} is a class; pass an instance: method={name}()")
    if kind.__module__.startswith("torch.optim"):
        hint = f"; wrap an optimiser of torch: TorchOptimizer(torch.optim.{name}, lr=…)"
    raise InputError(
        f"method={short(method)} is not known; choose one of {', '.join(SOLVERS)}, or pass a "
        f"Solver{hint}"
    )
