"""What `max_margin` returns for data in blocks."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from momentron.result import MarginResult
from momentron.rounding import UNIT_ROUNDOFF, up
from momentron.solve import Outcome
from momentron.solvers import Solver
from momentron.streams.problem import StreamProblem
from momentron.streams.working_set import SparseWeights


@dataclass(frozen=True, repr=False)
class StreamResult(MarginResult):
    """A `MarginResult` whose weights are kept for the rows that have any.

    Attributes
    ----------
    dual : ndarray of shape (m,), or (m, k)
        The weights of the rows in `support`, and of these alone: every other row has weight zero.
        Empty with method="momentum", whose weights are never stored: `upper` is the length of
        their image Zᵀμ, which was carried from pass to pass with a bound on its rounding.
    support : ndarray of shape (m,)
        The numbers of these rows, counted over all blocks in order.
    support_labels : ndarray of shape (m,)
        Their labels.
    n_rows, passes, bytes_read : int
        Rows of the stream; how often it was read, the first look included; and bytes in all.
    pass_seconds : float
        Time spent in passes; the rest of `seconds` went into working sets.
    """

    rows: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    support_labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    n_rows: int = 0
    passes: int = 0
    bytes_read: int = 0
    pass_seconds: float = 0.0

    @property
    def support(self) -> np.ndarray:
        return self.rows

    def __repr__(self) -> str:
        return (
            f"StreamResult: {self.status}\n"
            f"  best margin in [{self.lower:.12g}, {self.upper:.12g}], gap {self.gap:.2e}\n"
            f"  method {self.method}, {self.n_iter} iterations, {self.passes} passes over "
            f"{self.n_rows} rows, {self.seconds:.3f} s, {self.support.size} rows with weight"
        )


def make_result(problem: StreamProblem, solver: Solver, outcome: Outcome) -> StreamResult:
    """The outcome in the user's units, with a classifier of unit length."""
    certificate, known = outcome.certificate, problem.known(outcome.w)
    if known is None and outcome.w.any():  # no time was left for a look at it
        known = problem.best_known()
    if certificate.margin <= 0.0 and not outcome.w.any() and outcome.n_iter:
        # nothing separates: the last iterate still follows the loss
        known = problem.known(outcome.last_w)
        certificate = replace(certificate, margin=known.margin if known is not None else 0.0)
    w = problem.zeros() if known is None else known.w
    norm = float(np.linalg.norm(w))
    intercept: Any = np.zeros(problem.classes.size) if problem.pose.is_paired else 0.0
    if problem.pose.fit_intercept and known is not None and norm > 0.0:
        intercept = problem.intercept(known.tops) / norm
    # bringing w to unit length rounds each entry twice
    loss = up(8.0 * UNIT_ROUNDOFF * problem.longest)
    certificate = replace(certificate, margin=certificate.margin - loss)
    weights = problem.weights or _no_weights(problem)
    order = np.argsort(weights.numbers)
    return StreamResult(
        status=outcome.status,
        certificate=certificate,
        coef=problem.pose.coef_of(w / norm if norm > 0.0 else w),
        intercept=intercept if np.ndim(intercept) else float(intercept),
        dual=weights.weights[order],
        n_iter=outcome.n_iter,
        seconds=outcome.seconds,
        trace=outcome.trace,
        classes=problem.classes,
        method=solver.name,
        rows=weights.numbers[order],
        support_labels=problem.classes[weights.codes[order]],
        n_rows=problem.found.n_rows,
        passes=problem.passes,
        bytes_read=problem.stream.nbytes,
        pass_seconds=problem.stream.seconds,
    )


def _no_weights(problem: StreamProblem) -> SparseWeights:
    shape = (0, problem.classes.size) if problem.pose.is_paired else (0,)
    return SparseWeights(np.empty(0, int), np.empty(0, int), np.empty(shape))
