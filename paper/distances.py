"""The distance of Algorithm 2 from the best margin, seed by seed, with momentum and without."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from momentron.display.style import BLUE, GREEN, INK, VERMILLION
from momentron.solvers import Adaptive, Momentum, Solver
from momentron.solvers.schedules import sampling_step
from paper.exponents import decade_exponent
from paper.figure import Measured, Part, Report
from paper.methods import Method
from paper.recording import log_spaced, record
from paper.source import Drawn, Source

PER_DECADE = 40
SCALED = "best margin over max‖x‖"

SAMPLED = Method("momentum", "Algorithm 2, β = t/(t + 1), θ = 1", 1, VERMILLION)
PLAIN = Method("no-momentum", "Algorithm 2, β = 0, θ = 1", 1, BLUE)
THEORY = Method("theory", "Algorithm 2, β = 0, θ = √(ln n/t), one run for each t", 1, GREEN)
BATCH = Method("batch", "Algorithm 1, for comparison", 2, INK, "--")
METHODS = (SAMPLED, PLAIN, THEORY, BATCH)


@dataclass(frozen=True)
class Scale:
    """How large a run is.

    Attributes
    ----------
    seeds : int
        Problems drawn from each source, each with draws of its own.
    iterations : int
    horizons : tuple of int
        The lengths of the runs with the theorem's step, which depends on the length.
    """

    seeds: int
    iterations: int
    horizons: tuple[int, ...] = ()


def part_name(source: Source, method: Method) -> str:
    """Of the part that measures a method on a source."""
    return f"{source.slug}-{method.name}"


def make_part(name: str, source: Source, method: Method, scale: Scale) -> Part:
    """All seeds of a method on a source."""
    lengths = scale.horizons if method is THEORY else (scale.iterations,)
    parameters = {
        "method": method.name,
        "source": source.parameters(),
        "seeds": scale.seeds,
        "lengths": lengths,
        "per_decade": PER_DECADE,
    }

    def measure(report: Report) -> Measured:
        return measure_distances(source, method, scale, report)

    weight = float(sum(lengths) * scale.seeds * method.passes * source.weight)
    return Part(name, parameters, weight, measure)


def seed_column(seed: int) -> str:
    """The column of a seed's distances."""
    return f"seed_{seed}"


def decade_exponents(columns: Mapping[str, np.ndarray], last: float) -> np.ndarray:
    """The exponent of each seed over the decade of t that ends at `last`."""
    t = columns["iteration"]
    curves = [column for name, column in columns.items() if name != "iteration"]
    return np.array([decade_exponent(t, curve, last) for curve in curves])


def measure_distances(source: Source, method: Method, scale: Scale, report: Report) -> Measured:
    """(γ̄ − γ(w_t))/γ̄ of every seed, a column each."""
    columns: dict[str, np.ndarray] = {}
    scaled, widths = [], []
    for seed in range(scale.seeds):
        drawn = source.draw(seed)

        def tell(share: float, done: int = seed) -> None:
            report((done + share) / scale.seeds)

        t, margins = measure_margins(drawn, method, scale, seed, tell)
        columns["iteration"] = t
        columns[seed_column(seed)] = (drawn.best - margins) / drawn.best
        scaled.append(drawn.best / drawn.radius)
        widths.append(drawn.width / drawn.best)
    least = min(float(columns[seed_column(seed)].min()) for seed in range(scale.seeds))
    facts = {SCALED: float(np.mean(scaled)), "least distance": least}
    return Measured(columns, facts | {"best margin known to": max(widths)})


def measure_margins(
    drawn: Drawn, method: Method, scale: Scale, seed: int, report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """(t, γ(w_t)): one run, or with the theorem's step one for each length."""
    if method is not THEORY:
        marks = log_spaced(scale.iterations, PER_DECADE)
        solver = make_solver(method)
        columns = record(
            drawn.problem, solver, scale.iterations, report, marks=marks, random_state=seed
        )
        return columns["iteration"], columns["margin"]
    ends, done = [], 0
    for length in scale.horizons:

        def tell(share: float, before: int = done, length: int = length) -> None:
            report((before + share * length) / sum(scale.horizons))

        theta = sampling_step(math.log(drawn.y.size), length)
        solver = Adaptive(momentum=0.0, step=theta)
        columns = record(drawn.problem, solver, length, tell, marks=[length], random_state=seed)
        ends.append(columns["margin"][-1])
        done += length
    return np.array(scale.horizons), np.array(ends)


def make_solver(method: Method) -> Solver:
    """The method with its parameters."""
    if method is BATCH:
        return Momentum()
    return Adaptive() if method is SAMPLED else Adaptive(momentum=0.0)


def quartiles(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The quartiles over the seeds at each t, a row each."""
    curves = [column for name, column in columns.items() if name != "iteration"]
    found: np.ndarray = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    return found
