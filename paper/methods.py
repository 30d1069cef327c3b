"""The methods that figures 1 and 2 compare, with the paper's parameters, and how each is drawn."""

from dataclasses import dataclass

from momentron.display.style import BLUE, GREEN, PURPLE, VERMILLION
from momentron.solvers import as_solver
from paper.figure import Measured, Part, Report
from paper.recording import Extras, log_spaced, record
from paper.sample import Sample


@dataclass(frozen=True)
class Method:
    """A method of the registry: its label, its passes per iteration, colour and line.

    The colours are Okabe and Ito's, which colour-blind readers can tell apart.
    """

    name: str
    label: str
    passes: int
    colour: str
    line: str = "-"


MOMENTUM = Method("momentum", "momentum (Algorithm 1)", 2, VERMILLION)
PERCEPTRON = Method("batch-perceptron", "batch perceptron", 1, BLUE)
NORMALIZED = Method("normalized-gradient", "normalised gradient, θ = 1", 2, GREEN)
NORMALIZED_ROOT = Method(
    "normalized-gradient-root", "normalised gradient, θ = 1/√t", 2, GREEN, "--"
)
DESCENT = Method("gradient-descent", "gradient descent", 2, PURPLE)

METHODS = (MOMENTUM, PERCEPTRON, NORMALIZED, NORMALIZED_ROOT, DESCENT)


def method_part(
    method: Method,
    sample: Sample,
    iterations: int,
    *,
    extras: Extras | None = None,
    per_decade: int | None = None,
) -> Part:
    """The curve of one method; `per_decade` thins it to so many iterations a decade."""

    def measure(report: Report) -> Measured:
        marks = None if per_decade is None else log_spaced(iterations, per_decade)
        solver, pose = as_solver(method.name), sample.problem
        return Measured(record(pose, solver, iterations, report, extras=extras, marks=marks))

    parameters = {
        "method": method.name,
        "iterations": iterations,
        "per_decade": per_decade,
        "extras": extras is not None,
    }
    return Part(method.name, parameters, float(iterations * method.passes), measure)
