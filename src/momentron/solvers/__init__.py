"""The methods. A new one is one file here and one line in `SOLVERS`."""

from momentron.errors import InputError, short
from momentron.solvers.adaptive import Adaptive
from momentron.solvers.auto import Auto
from momentron.solvers.base import Candidates, Primal, RunOptions, Solver, Start, State
from momentron.solvers.batch_perceptron import BatchPerceptron
from momentron.solvers.dual_nesterov import DualNesterov
from momentron.solvers.gradient_descent import GradientDescent
from momentron.solvers.momentum import Momentum
from momentron.solvers.normalized_gradient import NormalizedGradient, NormalizedGradientRoot
from momentron.solvers.normalized_perceptron import NormalizedPerceptron
from momentron.solvers.torch_optimizer import TorchOptimizer

__all__ = [
    "SOLVERS",
    "Adaptive",
    "Auto",
    "BatchPerceptron",
    "Candidates",
    "DualNesterov",
    "GradientDescent",
    "Momentum",
    "NormalizedGradient",
    "NormalizedGradientRoot",
    "NormalizedPerceptron",
    "Primal",
    "RunOptions",
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
    )
}


def as_solver(method: str | Solver) -> Solver:
    """A method by name, or the instance itself."""
    if isinstance(method, Solver):
        return method
    if isinstance(method, type) and issubclass(method, Solver):
        name = method.__name__
        raise InputError(f"method={name} is a class; pass an instance: method={name}()")
    if not isinstance(method, str) or method not in SOLVERS:
        raise InputError(
            f"method={short(method)} is not known; choose one of {list(SOLVERS)}, or pass a Solver"
        )
    return SOLVERS[method]()
