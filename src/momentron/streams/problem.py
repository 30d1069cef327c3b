"""The problem that a stream poses: the rows are read again in every pass, and never all there.

The scores Zw and the weights q of all the rows do not fit in memory. What stands for the scores is
the largest of every arc (see `momentron.dual.labels`), on which margins and intercepts depend; what
stands for the weights is a record of their gradient Zᵀq. What is proved rests on passes and on
such records alone: solvers propose classifiers, and sums of weights.
"""

import copy
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.certificate import Certificate, certify, read_only
from momentron.dual.labels import Labels, as_labels
from momentron.dual.losses import Exponential
from momentron.rows.base import shallow_copy
from momentron.rows.validation import TrainingData
from momentron.solvers.base import RunOptions
from momentron.solvers.checkpoint import section, unusable
from momentron.solvers.margin_problem import COLD, CertifiedProblem, Evaluation, SparseDual
from momentron.solvers.problem import Problem
from momentron.streams.auto import BlockRounds, MemoryPlan
from momentron.streams.blocks import Rows
from momentron.streams.combination import BlockCombination
from momentron.streams.evidence import (
    Evidence,
    RowWeights,
    Weights,
    weights_from_arrays,
    worst_weights,
)
from momentron.streams.first_pass import FirstPassResult, centred_radius
from momentron.streams.scan import Scan, ScanResult
from momentron.streams.stream import Stream

FEW_ROWS = 50  # to a sample that had room for fewer no classifier is fitted


class BlockProblem(CertifiedProblem):
    """Find w with the largest margin over all the rows of a stream.

    Parameters
    ----------
    stream : Stream
    found : FirstPassResult
        What the first pass found.
    fit_intercept : bool
    plan : MemoryPlan
        How many rows working sets may have.
    first : Rows, optional
        The rows with which working sets begin; None: the sample of the first pass.
    """

    resolution = 1e-15
    rho = 1.0

    def __init__(
        self,
        stream: Stream,
        found: FirstPassResult,
        *,
        fit_intercept: bool,
        plan: MemoryPlan,
        first: Rows | None = None,
    ) -> None:
        self._stream, self._found, self._plan, self._first = stream, found, plan, first
        self.classes = read_only(found.classes)
        self._labels = as_labels(self.classes.size, fit_intercept)
        self.exponent = 0
        self.counts = read_only(np.array([found.counts[label] for label in self.classes.tolist()]))
        self.longest = up(found.longest * self._labels.radius_factor) if found.longest else 0.0
        self._unit = self.longest or 1.0
        self._arcs = self._labels.arc_set()
        self._shape = self._labels.zeros(found.width).shape
        self._evidence = Evidence(self._labels, self._shape, self.longest)
        at_zero = np.log(self._labels.arc_counts(self.counts))
        _, self.psi_zero, _ = self._arcs.link_near(at_zero, COLD)
        self._is_closed = False

    def __setattr__(self, name: str, value: Any) -> None:
        """What solvers see is read-only: they get the problem itself, since passes are counted."""
        if not name.startswith("_") and "_is_closed" in self.__dict__:
            raise AttributeError(f"the {name} of a problem in blocks is read-only")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("operator", "dual_set", "scores", "size"):
            raise AttributeError(
                f"a problem in blocks has no {name!r}, which takes all the rows at once; a method "
                "that needs it must say so in its class attribute needs_memory"
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    # --- sizes, units, work --------------------------------------------------------------------

    @property
    def labels(self) -> Labels:
        """A copy: what a solver sets on it changes no certificate."""
        return shallow_copy(self._labels)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self._found.n_rows

    @property
    def radius(self) -> float:  # type: ignore[override]
        return self._unit

    @property
    def tight_radius(self) -> float:
        """What the sample shows, without a pass: about that of all the rows."""
        if not self._labels.fit_intercept or self.longest == 0.0:
            return self.longest or 1.0
        return self._found.some_row_length * self._labels.radius_factor

    def for_solver(self, *, tight: bool = False) -> "BlockProblem":
        """Itself, since passes are counted, or the same in units of the tight radius.

        A sure bound of that radius costs a pass where there are intercepts.
        """
        if not tight or not self._labels.fit_intercept or self.longest == 0.0:
            return self
        factor = self._labels.radius_factor
        unit = centred_radius(self._stream, self._found) * factor or 1.0
        problem = copy.copy(self)
        problem._unit = unit
        return problem

    @property
    def some_row_length(self) -> float:
        return 0.9 * self._found.longest / self._unit

    def closing_seconds(self) -> float:
        return 0.0  # passes have shown all that the last certificate needs

    @property
    def passes(self) -> int:
        return self._stream.passes

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        return self._stream.nbytes

    @property
    def pass_seconds(self) -> float:  # type: ignore[override]
        return self._stream.seconds

    # --- classifiers ---------------------------------------------------------------------------

    def zeros(self) -> np.ndarray:
        return np.zeros(self._shape)

    def norm(self, w: np.ndarray) -> float:
        return float(np.linalg.norm(w))

    def functional_margin(self, scores: np.ndarray) -> float:
        return self._arcs.margin(scores)

    def shown(self, w: np.ndarray) -> np.ndarray:
        return w.T

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return self._labels.from_coef(coef)

    def start(self) -> Evaluation:
        return replace(self.evaluate(self.zeros()), w=self.zeros())

    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """One pass; two where many classes have intercepts.

        There the rows' weights depend on a balance of all k² arcs, and one read would have to
        bring back a sum of rows for each of them.
        """
        labels, arcs, w = self._labels, self._labels.arcs, self._evidence.copied(w)
        result = self._scan(w, has_weights=True)
        scores = result.tops[arcs] / self._unit
        logs = result.peaks[arcs] + np.log(result.totals[arcs])
        flow, psi, near = self._arcs.link_near(logs, near)
        if labels.circulates:
            factors = np.full(labels.n_arcs, -np.inf)
            with np.errstate(divide="ignore"):
                factors[arcs] = np.log(flow) - logs
            result = self._scan(w, log_factors=factors)
        weights = self._evidence.of_pass(result, flow)
        return Evaluation(w, scores, weights, psi, near)

    def worst(self, w: np.ndarray) -> tuple[np.ndarray, Weights]:
        """(scores, weights on the rows that decide the margin of w): passes as in `evaluate`."""
        labels, w = self._labels, self._evidence.copied(w)
        result = self._scan(w, n_worst=0 if labels.circulates else labels.n_classes)
        scores, b = result.tops[labels.arcs], np.zeros(labels.n_classes)
        if labels.circulates:
            b = np.asarray(self._arcs.intercept(scores))
            result = self._scan(w, n_worst=labels.n_classes, b=b)
        rows = result.worst.chosen()
        assert rows is not None, "every class has rows"
        return scores / self._unit, self._evidence.on_rows(rows, worst_weights(labels, rows, w, b))

    def combination(self) -> BlockCombination:
        return BlockCombination(self)

    def _scan(self, w: np.ndarray, **options: Any) -> ScanResult:
        """One pass over the stream for a classifier."""
        task = Scan(
            w,
            self._labels,
            self.classes,
            radius=self.longest,
            depth=self._found.stored,
            divisor=self._unit,
            is_compact=self._stream.is_remote,
            **options,
        )
        result: ScanResult = self._stream.run(task)
        self._evidence.remember(w, result.tops[self._labels.arcs])
        return result

    # --- weights -------------------------------------------------------------------------------

    def risk_slope(self, psi: float) -> float:
        constraints = self.counts.sum() * max(1, self._labels.n_classes - 1)
        return self._arcs.risk_slope(psi) * self._arcs.size / float(constraints)

    def risk(self, psi: float) -> float:
        return self.risk_slope(psi)  # the loss is the exponential one

    def even_weights(self) -> Weights:
        return self._evidence.nothing

    def no_weights(self) -> Weights:
        return self._evidence.nothing

    def gradient(self, q: Any) -> np.ndarray:
        return self._evidence.require_own(q).vector / self._unit

    def mix(self, a: Any, x: float, b: Any, y: float, *, in_place: bool = False) -> Weights:
        return self._evidence.mix(a, x, b, y)

    def mass(self, q: Any) -> float:
        return self._evidence.require_own(q).mass

    # --- working sets --------------------------------------------------------------------------

    def rounds(self, options: RunOptions) -> BlockRounds:
        self._working = self._first or self._sample()
        plan = self._plan.of_classes(self.classes.size)
        return BlockRounds(self._working.numbers, plan, options.tol, options.deadline)

    def _sample(self) -> Rows:
        rows = self._found.sample.chosen()
        assert rows is not None, "a sample has rows of every class"
        return rows.coded(self.classes)

    def of_rows(self, rows: Rows) -> Problem:
        """The problem that some rows pose, which were checked as they were read."""
        data = TrainingData(rows.X, np.arange(self.classes.size), rows.codes)
        has_intercept = self._labels.fit_intercept
        return Problem.of(
            data, fit_intercept=has_intercept, loss=Exponential(), C=math.inf, kernel=None
        )

    def weights_of_working_set(self, q: np.ndarray) -> Weights:
        """Weights on the working set, and the upper bound that they prove: it holds for all."""
        rows = self._working
        problem = self.of_rows(rows)
        proved = certify(problem, problem.zeros(), q, sharp=True).upper
        dual = problem.sparse_dual(q)
        return self._evidence.on_rows(rows.chosen(dual.rows), dual.weights, proved)

    def sampled(self) -> Problem | None:
        sample, rows = self._found.sample, self._sample()
        if sample.total < FEW_ROWS and rows.size < self.n_rows:
            return None
        # the sample has as many rows of each class as it can
        sizes = np.bincount(rows.codes, minlength=self.classes.size)
        shares = np.maximum(1, np.rint(self.counts * np.min(sizes / self.counts))).astype(int)
        parts = [np.flatnonzero(rows.codes == c)[:share] for c, share in enumerate(shares)]
        return self.of_rows(rows.chosen(np.sort(np.concatenate(parts))))

    def rank(self, w: np.ndarray, **options: Any) -> tuple[np.ndarray, float, Rows | None]:
        """(scores, proven margin, rows that w serves worst): one pass, with options of `Scan`."""
        w = self._evidence.copied(w)
        result = self._scan(w, **options)
        known = self._evidence.of(w)
        assert known is not None
        scores = result.tops[self._labels.arcs] / self._unit
        return scores, known.margin, result.worst.chosen()

    # --- for the loop and the result -----------------------------------------------------------

    def admitted_weights(self, q: Any) -> Any:
        self._evidence.require_own(q)
        return q

    def certify(self, w: np.ndarray, q: Any, *, sharp: bool = False) -> Certificate:
        """The interval that w and the passes so far prove; every pass is as sharp as can be.

        Costs a pass where none has evaluated w lately. At the deadline, or once closed, the best
        classifier that is known stands for such a w.
        """
        w = self._evidence.copied(w)
        if w.any() and self._evidence.of(w) is None and not self._is_closed:
            with suppress(OutOfTime):
                self.evaluate(w)
        return self._evidence.certificate(w, q)

    def close(self) -> None:
        self._is_closed = True

    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        known = self._evidence.of_or_best(w)
        return 0.0 if known is None else known.margin

    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any, float]:
        """That of w, or of the best classifier that is known where no pass has evaluated w."""
        known = self._evidence.of_or_best(w) if w.any() else None
        w = self.zeros() if known is None else known.w
        norm = self.norm(w)
        intercept: Any = np.zeros(self.classes.size) if self._labels.is_paired else 0.0
        if self._labels.fit_intercept and known is not None and norm > 0.0:
            intercept = self._arcs.intercept(known.tops) / norm
        coef = self._labels.coef_of(w / norm if norm > 0.0 else w)
        loss = up(8.0 * UNIT_ROUNDOFF * self.longest)
        return coef, intercept if np.ndim(intercept) else float(intercept), loss

    def sparse_dual(self, q: Any) -> SparseDual:
        record = self._evidence.require_own(q)
        rows = record.rows or RowWeights.none(self._labels)
        weights, mass = rows.weights, float(rows.weights.sum())
        if math.isinf(record.upper) and mass > 0.0:  # else they are as they were proved
            weights = weights / mass
        return SparseDual.above_rounding(rows.numbers, rows.codes, weights)

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        stream = self._stream
        counts = (stream.passes, stream.nbytes, stream.seconds)
        arrays = {"counts": np.array(counts, dtype=np.float64), "content": stream.content}
        if (best := self._evidence.best_on_rows) is not None:
            assert best.rows is not None
            arrays |= {
                "weights.numbers": best.rows.numbers,
                "weights.weights": best.rows.weights,
                "weights.upper": np.array(best.upper),
            }
        return arrays

    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        """What an earlier run had read; its weights count where the rows here confirm them."""
        counts = np.asarray(arrays.get("counts", ()))
        if counts.shape != (3,) or counts.dtype.kind != "f" or not (counts >= 0.0).all():
            raise unusable("its counts of passes, bytes and seconds are not numbers of at least 0")
        if not (counts < 2.0**53).all():
            raise unusable("its counts of passes, bytes and seconds are too large")
        self._stream.count(int(counts[0]), int(counts[1]), float(counts[2]))
        rows = self._found.wanted_rows()
        if rows is None:
            return
        dual, claimed = weights_from_arrays(rows, section("weights", arrays), self._labels)
        problem = self.of_rows(rows)
        q = problem.labels.from_dual(dual)
        proved = certify(problem, problem.zeros(), q, sharp=True).upper
        weighty = np.flatnonzero(dual.reshape(rows.size, -1).any(axis=1))
        # at most as good as claimed: a run that was killed then ends as if it had not been
        self._evidence.on_rows(rows.chosen(weighty), dual[weighty], max(claimed, proved))

    def weights_to_array(self, q: Any) -> np.ndarray:
        record = self._evidence.require_own(q)
        return np.concatenate([[record.mass], record.vector.ravel()])

    def weights_from_array(self, array: np.ndarray) -> Weights:
        """Weights on rows where this run has proved some; else some that prove nothing."""
        best = self._evidence.best_on_rows
        return best or self._evidence.claimed(array[1:], float(array[0]))
