"""The problem that a stream poses: the rows are read again in every pass, and never all there.

The scores Zw and the weights q of all the rows do not fit in memory. What stands for the scores is
the largest of every arc (see `momentron.dual.labels`), on which margins and intercepts depend; what
stands for the weights is a record of their gradient Zᵀq. What is proved rests on passes and on
such records alone: solvers propose classifiers, and sums of weights.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.certificate import Certificate, admitted, read_only
from momentron.certificate.evidence import BlockWeights, Evidence
from momentron.dual.labels import Labels, as_labels
from momentron.dual.losses import Exponential
from momentron.dual.penalty import HARD
from momentron.errors import InputError
from momentron.rows.operator import shallow_copy
from momentron.rows.validation import TrainingData
from momentron.solvers.checkpoint import unusable
from momentron.solvers.margin_problem import COLD, Evaluation, SparseDual
from momentron.solvers.problem import Problem
from momentron.streams.blocks import Rows
from momentron.streams.first_pass import FirstPassResult, centred_radius
from momentron.streams.scan import Scan, ScanResult
from momentron.streams.stream import Stream

FEW_ROWS = 50  # to a sample that had room for fewer no classifier is fitted


class BlockProblem(Problem):
    """Find w with the largest margin over all the rows of a stream.

    Parameters
    ----------
    stream : Stream
    found : FirstPassResult
        What the first pass found.
    fit_intercept : bool
    first : Rows, optional
        The rows with which working sets begin; None: the sample of the first pass.

    Attributes
    ----------
    working : Rows or None
        The rows of the working set, once rounds have begun.
    """

    resolution = 1e-15
    rho = 1.0
    penalty, is_soft = HARD, False
    evaluations = 0

    def __init__(
        self,
        stream: Stream,
        found: FirstPassResult,
        *,
        fit_intercept: bool,
        first: Rows | None = None,
    ) -> None:
        self._stream, self._found, self._first = stream, found, first
        self.working: Any = None
        self.classes = read_only(found.classes)
        self._labels = as_labels(self.classes.size, fit_intercept)
        self.exponent, self.n_rows = 0, found.n_rows
        self.room = max(found.room, 16 * self.classes.size)  # some rows of every class
        self.counts = read_only(np.array([found.counts[label] for label in self.classes.tolist()]))
        self.longest = up(found.longest * self._labels.radius_factor) if found.longest else 0.0
        self.radius = self.longest or 1.0
        self._arcs = self._labels.arc_set()
        self.w_shape = self._labels.zeros(found.width).shape
        self._no_rows = SparseDual(np.empty(0, int), np.empty(0, int), self._labels.zeros(0))
        self._evidence = Evidence(self._labels, self.w_shape, self.longest, self._no_rows)
        at_zero = np.log(self._labels.arc_counts(self.counts))
        _, self.psi_zero, _ = self._arcs.link_near(at_zero, COLD)
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        if name in ("operator", "dual_set", "size"):
            raise AttributeError(
                f"a problem in blocks has no {name!r}, which takes all the rows at once; a method "
                "that needs it must say so in its class attribute needs_memory"
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    # --- sizes, units, work --------------------------------------------------------------------

    @property
    def labels(self) -> Labels:  # type: ignore[override]
        """A copy: what a solver sets on it changes no certificate."""
        return shallow_copy(self._labels)

    @property
    def tight_radius(self) -> float:
        """What the sample shows, without a pass: about that of all the rows."""
        if not self._labels.fit_intercept or self.longest == 0.0:
            return self.longest or 1.0
        return self._found.some_row_length * self._labels.radius_factor

    def for_solver(self, *, tight: bool = False) -> "BlockProblem":
        """A copy that counts the same passes, and remembers what they proved.

        A sure bound of the tight radius costs a pass where there are intercepts.
        """
        problem, labels = shallow_copy(self), self._labels
        if tight and labels.fit_intercept and self.longest > 0.0:
            radius = centred_radius(self._stream, self._found)
            problem.radius = radius * labels.radius_factor or 1.0
        return problem

    @property
    def some_row_length(self) -> float:
        return 0.9 * self._found.longest / self.radius

    @property
    def passes(self) -> int:
        return self._stream.passes

    def closing_seconds(self) -> float:
        return 0.0  # passes have shown all that is needed

    # --- classifiers ---------------------------------------------------------------------------

    def shown(self, w: np.ndarray) -> np.ndarray:
        return w.T

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(coef.T)

    def norm(self, w: np.ndarray) -> float:
        return float(np.linalg.norm(w))

    def margin(self, w: np.ndarray, scores: np.ndarray) -> float:
        norm = self.norm(w)
        return self._arcs.margin(scores) / norm if norm > 0.0 else 0.0

    def start(self, given: Any = None) -> Evaluation:
        if given is not None:
            raise InputError("initial is for data in memory; name a checkpoint to continue a run")
        return replace(self.evaluate(self.zeros()), w=self.zeros())

    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """One pass; two where many classes have intercepts.

        There the rows' weights depend on a balance of all k² arcs, and one read would have to
        bring back a sum of rows for each of them.
        """
        labels, arcs, w = self._labels, self._labels.arcs, self._evidence.copied(w)
        result = self._scan(w, has_weights=True)
        scores = result.tops[arcs] / self.radius
        logs = result.peaks[arcs] + np.log(result.totals[arcs])
        flow, psi, near = self._arcs.link_near(logs, near)
        if labels.circulates:
            factors = np.full(labels.n_arcs, -np.inf)
            with np.errstate(divide="ignore"):
                factors[arcs] = np.log(flow) - logs
            result = self._scan(w, log_factors=factors)
        weights = self._evidence.of_pass(result)
        return Evaluation(w, scores, weights, psi, near)

    def worst(self, w: np.ndarray) -> tuple[np.ndarray, BlockWeights]:
        """(scores, weights on the rows that decide the margin of w): passes as in `evaluate`."""
        labels, w = self._labels, self._evidence.copied(w)
        result = self._scan(w, n_worst=0 if labels.circulates else labels.n_classes)
        scores, b = result.tops[labels.arcs], np.zeros(labels.n_classes)
        if labels.circulates:
            b = np.asarray(self._arcs.intercept(scores))
            result = self._scan(w, n_worst=labels.n_classes, b=b)
        rows = result.worst.chosen()
        assert rows is not None, "every class has rows"
        problem = self.of_rows(rows)
        products = problem.operator.scores_in_double(w)
        vertex = problem.dual_set.vertex(problem.labels.scores(products))
        q = np.zeros(problem.size)
        q[vertex.index] = vertex.weight
        return scores / self.radius, self._weights_on(rows, problem, q)

    def combination(self) -> "BlockCombination":
        return BlockCombination(self)

    def _scan(self, w: np.ndarray, **options: Any) -> ScanResult:
        """One pass over the stream for a classifier."""
        evidence, found = self._evidence, self._found  # which no solver can have changed
        labels, options = self._labels, options | {"divisor": self.radius}
        task = Scan(
            w, labels, found.classes, radius=evidence.longest, depth=found.stored, **options
        )
        result: ScanResult = self._stream.run(task)
        evidence.remember(w, result.tops[labels.arcs])
        return result

    # --- weights -------------------------------------------------------------------------------

    def risk_slope(self, psi: float) -> float:
        constraints = self.counts.sum() * max(1, self._labels.n_classes - 1)
        return self._arcs.risk_slope(psi) * self._arcs.size / float(constraints)

    risk = risk_slope  # the loss is the exponential one

    def potential(self, scores: np.ndarray) -> float:
        return math.nan

    def shortfall(self, old: Evaluation, new: Evaluation, theta: float) -> float:
        return 0.0

    def no_weights(self) -> BlockWeights:
        return self._evidence.nothing

    def even_weights(self) -> BlockWeights:
        return self._evidence.nothing

    def gradient(self, q: Any) -> np.ndarray:
        return self._evidence.require_own(q).vector / self.radius

    def mix(self, a: Any, x: float, b: Any, y: float, *, in_place: bool = False) -> BlockWeights:
        return self._evidence.mix(a, x, b, y)

    def upper(self, gradient: np.ndarray, q: Any) -> float:
        mass = self._evidence.require_own(q).mass
        return self.norm(gradient) / mass if mass > 0.0 else math.inf

    # --- working sets --------------------------------------------------------------------------

    def begin_rounds(self) -> None:
        """Take the first working set."""
        self.working = self._first or self._sample()

    def _sample(self) -> Rows:
        rows = self._found.sample.chosen()
        assert rows is not None, "a sample has rows of every class"
        return rows.coded(self.classes)

    def of_rows(self, rows: Rows) -> Problem:
        """The problem that some rows pose, which were checked as they were read."""
        data = TrainingData(rows.X, np.arange(self._found.classes.size), rows.codes)
        has_intercept = self._labels.fit_intercept
        return Problem.of(data, fit_intercept=has_intercept, loss=Exponential(), kernel=None)

    def weights_of_working_set(self, q: np.ndarray) -> BlockWeights:
        """Weights on the working set, and the upper bound that they prove: it holds for all."""
        problem = self.of_rows(self.working)
        return self._weights_on(self.working, problem, admitted(q, (problem.size,), "q"))

    @property
    def best_weights(self) -> BlockWeights:
        """The weights on rows with the least bound so far."""
        return self._evidence.best_on_rows

    def _weights_on(self, rows: Rows, problem: Problem, q: np.ndarray) -> BlockWeights:
        """Weights on rows that were read, whose problem this is."""
        dual = problem.sparse_dual(q)
        return self._evidence.on_rows(problem, q, replace(dual, rows=rows.numbers[dual.rows]))

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
        known = self._evidence.of(w)  # None of w = 0
        scores = result.tops[self._labels.arcs] / self.radius
        return scores, 0.0 if known is None else known.margin, result.worst.chosen()

    # --- for the loop and the result -----------------------------------------------------------

    def admitted_weights(self, q: Any) -> Any:
        return self._evidence.require_own(q)

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
        coef = np.ascontiguousarray(self.shown(w / norm if norm > 0.0 else w))
        loss = up(8.0 * UNIT_ROUNDOFF * self.longest)
        return coef, intercept if np.ndim(intercept) else float(intercept), loss

    def sparse_dual(self, q: Any) -> SparseDual:
        record = self._evidence.require_own(q)
        dual = record.rows or self._no_rows
        weights, mass = dual.weights, float(dual.weights.sum())
        if math.isinf(record.upper) and mass > 0.0:  # else they are as they were proved
            weights = weights / mass
        return SparseDual.above_rounding(dual.codes, weights, dual.rows)

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = self._stream.to_arrays()
        return arrays if self.working is None else arrays | {"working": self.working.numbers}

    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        self._stream.from_arrays(arrays)

    def weights_to_array(self, q: Any) -> np.ndarray:
        """Those of the working set with the least bound; without one, the mass and gradient."""
        if self.working is None:
            record = self._evidence.require_own(q)
            return np.concatenate([[record.mass], record.vector.ravel()])
        numbers, best = self.working.numbers, self.best_weights.rows
        weights, order = self._labels.zeros(numbers.size), np.argsort(numbers)
        weights[order[np.searchsorted(numbers, best.rows, sorter=order)]] = best.weights
        return weights

    def weights_from_array(self, array: np.ndarray) -> BlockWeights:
        """Weights of the working set, proved by its rows; else some that prove nothing."""
        rows = self.working
        if rows is None:
            return self._evidence.claimed(array[1:], float(array[0]))
        if not (np.isfinite(array).all() and (array >= 0.0).all() and array.any()):
            raise unusable("its weights are not all numbers of at least 0, or all of them are 0")
        if self._labels.is_paired:
            array[np.arange(rows.size), rows.codes] = 0.0  # no row weighs against its own class
        dual = SparseDual.above_rounding(rows.codes, array, rows.numbers)
        problem = self.of_rows(rows)
        return self._evidence.on_rows(problem, problem.labels.from_dual(array), dual)


class BlockCombination:
    """Like `momentron.dual.combination.Combination`, for rows that a pass brings back.

    A pass evaluates w once it has moved: it gives the scores, and the rows to move along next.
    """

    def __init__(self, problem: BlockProblem) -> None:
        self._problem = problem
        self._set(problem.zeros(), problem.no_weights())

    def _set(self, w: np.ndarray, q: Any) -> None:
        self.w, self.q = w, q
        self._worst: tuple[np.ndarray, Any] | None = None

    def move(self, vertex: Any, step: float) -> None:
        """w −= step · Zᵀe, e the vertex."""
        problem = self._problem
        w = self.w - step * problem.gradient(vertex)
        self._set(w, problem.mix(self.q, 1.0, vertex, step))

    def shrink(self, factor: float) -> None:
        """w *= factor."""
        self._set(factor * self.w, self._problem.mix(self.q, factor, self.q, 0.0))

    def _evaluate(self) -> tuple[np.ndarray, Any]:
        if self._worst is None:
            self._worst = self._problem.worst(self.w)
        return self._worst

    def scores(self) -> np.ndarray:
        """The largest scores of w in units of R."""
        return self._evaluate()[0]

    def vertex(self) -> Any:
        """The worst rows for w, as weights in the dual set."""
        return self._evaluate()[1]

    def upper(self) -> float:
        """‖Zᵀq‖ over the mass of q, in units of R."""
        return self._problem.upper(self.w, self.q)

    def to_arrays(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"w": self.w, "q": self.q}

    def from_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Set to what `to_arrays` gave."""
        self._set(arrays["w"], arrays["q"])
