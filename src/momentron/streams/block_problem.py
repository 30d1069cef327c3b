"""The problem that a stream poses: that of rows in memory, with products that are passes.

Of every row some numbers are kept: its class, its length, its score and its dual weight. The rows
themselves are read again in every pass; those of working sets and of a sample are in memory.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from momentron.arithmetic.clock import OutOfTime
from momentron.arithmetic.rounding import UNDERFLOW, UNIT_ROUNDOFF
from momentron.certificate import Certificate, read_only
from momentron.certificate.bounds import certificate_of, dual_bound, margin_bound
from momentron.fitting.fits import FitRows
from momentron.fitting.options import FitOptions
from momentron.rows.validation import TrainingData, weighed
from momentron.solvers.checkpoint import taken, unusable
from momentron.solvers.problem import Problem
from momentron.solvers.solver import COLD, Evaluation
from momentron.streams.block_rows import KNOWN, BlockOperator, Known, NotAtHand
from momentron.streams.blocks import Rows
from momentron.streams.first_pass import FirstPassResult
from momentron.streams.scan import Findings
from momentron.streams.stream import Stream


class BlockProblem(Problem):
    """The margin of all the rows of a stream."""

    operator: BlockOperator
    options: FitOptions
    sample: Rows
    room: int  # rows that a working set may have
    rows: FitRows  # all the rows, which are not in memory

    @classmethod
    def of_stream(cls, stream: Stream, found: FirstPassResult, options: FitOptions) -> Self:
        """The problem that a first pass has found."""
        weights = stream.weights
        data = TrainingData(None, found.classes, found.codes(), weights)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            data = replace(data, sample_weight=weights[kept], kept=kept, n_given=weights.size)
        if math.isfinite(options.C):
            data = weighed(data, options.class_weight)
        rows = BlockOperator(stream, found, options.fit_intercept)
        problem = options.problem_of(data, rows, cls)
        assert isinstance(problem, cls)
        sample = found.sample.chosen()
        assert sample is not None, "every class has rows"
        codes = np.searchsorted(found.classes, sample.codes)
        problem.sample, problem.options = replace(sample, codes=codes), options
        problem.rows = FitRows(data, rows, None)
        problem.room = max(found.room, 16 * found.classes.size)  # some rows of every class
        return problem

    # --- sizes, units, work --------------------------------------------------------------------

    @cached_property
    def tight_radius(self) -> float:
        """What the sample shows, without a pass: about that of all the rows."""
        sample = self.of_rows(self.sample)
        return math.ldexp(sample.tight_radius, sample.exponent)

    def for_solver(self, *, tight: bool = False) -> Problem:
        """A copy that counts the same passes, and remembers what they found."""
        problem = super().for_solver()
        if tight and self.labels.fit_intercept:
            problem.radius = self.operator.centred_radius() * self.labels.radius_factor or 1.0
        return problem

    # --- passes --------------------------------------------------------------------------------

    def scan(self, w: np.ndarray, **options: Any) -> tuple[np.ndarray, Findings]:
        """(Zw, what else a pass found), with options of `Scan`; of the best w it is remembered."""
        found = self.operator.scan(self.operator.task(w=w, **options))
        scores = self.labels.scores(self.operator.apply(w))
        for known in self.operator.products[:1]:
            known.rank = self.margin(w, scores)
        return scores, found

    def evaluate(self, w: np.ndarray, near: np.ndarray = COLD) -> Evaluation:
        """One pass, which sums the rows with their weights, too.

        Where many classes have intercepts that sum is another pass, as weights depend on a balance
        of all the classes.
        """
        is_softmax = self.dual_set.n_intercepts <= 1
        scores, found = self.scan(w / self.radius, is_softmax=is_softmax)
        q, psi, near = self.dual_set.link_near(scores, near)
        if is_softmax:
            shares = 1.0 / (found.totals.size * found.totals)
            sums = found.sums * shares if self.labels.is_paired else found.sums @ shares
            groups = self.labels.codes if found.totals.size > 1 else 0
            weights = np.exp(scores - found.peaks[groups]) * shares[groups]
            # exponentials of arguments below −750 vanish; a rounding of others moves theirs as much
            farthest = min(750.0, float(np.ptp(scores)))
            roundings = found.depth + 64 + 8 * math.ceil(farthest)
            # those of another dual set would not be the weights of the pass
            off = np.abs(q - weights)
            if (off <= roundings * UNIT_ROUNDOFF * weights + UNDERFLOW).all():
                self.operator.learn(self.labels.mix(q), sums, 2 * roundings)
        return Evaluation(w, scores, q, psi, near)

    def combination(self) -> "BlockCombination":
        return BlockCombination(self)

    def mix(
        self, a: np.ndarray, x: float, b: np.ndarray, y: float, *, in_place: bool = False
    ) -> np.ndarray:
        """x·a + y·b; where passes have summed the rows with a and with b, Zᵀ of it is known."""
        sums, x, y = self.operator.sums, float(x), float(y)
        one, other = sums.find(self.labels.mix(a)), sums.find(self.labels.mix(b))
        mixed = super().mix(a, x, b, y, in_place=in_place and not np.may_share_memory(a, b))
        if one is not None and other is not None:
            factors = x * one[0], y * other[0]
            image = self.labels.mix(mixed)
            self.operator.learn_mix(factors[0], one[1], factors[1], other[1], image)
        return mixed

    # --- rows in memory ------------------------------------------------------------------------

    @property
    def working(self) -> Rows:
        """The working set, which the problem of the result knows, too."""
        return self.operator.at_hand["rows"]

    @working.setter
    def working(self, rows: Rows) -> None:
        self.operator.at_hand["rows"] = rows

    def of_rows(self, rows: Rows, weights: np.ndarray | None = None) -> Problem:
        """The problem in memory that some rows pose, with their weights or others; the rows were
        checked as they were read.
        """
        if weights is None and self.weights is not None:
            weights = self.weights[rows.numbers]
        data = TrainingData(rows.X, self.classes, rows.codes, weights=weights)
        return self.options.problem_of(data)

    def spread(self, q: np.ndarray, rows: Rows, problem: Problem) -> np.ndarray:
        """Weights of some rows, whose problem this is, as weights of all; Zᵀq is known then."""
        dual = self.labels.dual_of(np.zeros(self.size))
        dual[rows.numbers] = problem.labels.dual_of(problem.dual_set.normalize(q))
        whole = self.labels.from_dual(dual)
        self.operator.learn_rows(self.labels.mix(whole), rows)
        return whole

    def sampled(self) -> Problem:
        codes, numbers = self.sample.codes, self.sample.numbers
        # the sample has as many rows of each class as it can, which count for all of the class
        weights = (np.bincount(self.labels.codes) / np.bincount(codes))[codes]
        if self.weights is not None:
            weights *= self.weights[numbers]
        return self.of_rows(self.sample, weights)

    # --- for the loop and the result -----------------------------------------------------------

    def close(self) -> None:
        self.operator.is_closed = not self.is_soft

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        """The interval of a pair; extended precision is for rows that are in memory.

        At the deadline, or once closed, the best that passes have found stands for what is not
        known without another pass.
        """
        try:
            with suppress(NotAtHand):
                return super().certify(w, q, sharp=sharp)
            return super().certify(w, q)
        except OutOfTime:
            if self.is_soft:
                raise
            return certificate_of(self, margin_bound(self, self._known(w)), self._known_bound(q))

    def _known_bound(self, q: np.ndarray) -> float:
        """The bound that weights prove without a pass; or the best ones that passes have shown."""
        best, upper = self.operator.sums.best, self.longest
        for weights in (q, None if best is None else np.abs(self.labels.from_dual(best.vector))):
            with suppress(OutOfTime):
                upper = upper if weights is None else min(upper, dual_bound(self, weights))
        return upper

    def _known(self, w: np.ndarray) -> np.ndarray:
        """w, or the best classifier that a pass has evaluated where none has evaluated this one."""
        products = self.operator.products
        if not w.any() or products.find(w) is not None:
            return w
        return self.zeros() if products.best is None else products.best.vector

    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        return super().certified_margin(self._known(w))

    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any, float]:
        return super().classifier(self._known(w))

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays, operator = self.operator.stream.to_arrays(), self.operator
        if operator.at_hand:
            arrays["working"] = self.working.numbers
        elif operator.sums:
            arrays["weights"] = np.array([known.vector for known in operator.sums])
            arrays["sums"] = np.array([known.product for known in operator.sums])
        return arrays

    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        """Rows are read again. Sums of them are what the file says: certificates compute theirs."""
        self.operator.stream.from_arrays(arrays)
        if self.operator.at_hand:
            numbers = arrays.get("working", np.empty(0))
            distinct = np.unique(numbers)
            is_list = numbers.dtype.kind in "iu" and numbers.shape == distinct.shape != (0,)
            if not (is_list and 0 <= distinct[0] <= distinct[-1] < self.n_rows):
                raise unusable(
                    f"its working set is not a list of different rows, from 0 to {self.n_rows - 1}"
                )
            self.working = self.operator.fetch(numbers.astype(np.int64))
            if np.unique(self.working.codes).size != self.classes.size:
                raise unusable("its working set does not have rows of every class")
            q = taken("best.q", arrays, np.empty(self.size))
            self.operator.learn_rows(self.labels.mix(q), self.working)
        elif "weights" in arrays:
            count = min(arrays["weights"].shape[:1] or (0,), (KNOWN + 1,))
            fresh = np.empty((*count, self.n_rows, *self.labels.trailing))
            weights = taken("weights", arrays, fresh)
            sums = taken("sums", arrays, np.empty((*count, *self.w_shape)))
            for vector, product in zip(weights, sums, strict=True):
                self.operator.sums.append(Known(vector, read_only(product), math.inf, math.inf))


class BlockCombination:
    """Like `momentron.dual.combination.Combination`, for rows that a pass brings back.

    A pass evaluates w once it has moved: it gives the scores, and the rows to move along next.
    """

    def __init__(self, problem: BlockProblem) -> None:
        self.w, self.q = problem.zeros(), problem.no_weights()
        self._problem = problem
        self._seen: tuple[np.ndarray, np.ndarray] | None = None

    def move(self, vertex: np.ndarray, step: float) -> None:
        """w −= step · Zᵀe, e the vertex."""
        self.w = self.w - step * self._problem.gradient(vertex)
        self.q, self._seen = self._problem.mix(self.q, 1.0, vertex, step), None

    def shrink(self, factor: float) -> None:
        """w *= factor."""
        self.w = factor * self.w
        self.q, self._seen = self._problem.mix(self.q, factor, self.q, 0.0), None

    def _evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """(Zw, the worst rows as weights of all of them): a pass, if w has moved."""
        if self._seen is None:
            problem, labels = self._problem, self._problem.labels
            # the worst cycle of many classes may be of any rows, which then take another pass
            n_worst = 0 if problem.dual_set.n_intercepts > 1 else labels.n_classes
            scores, found = problem.scan(self.w / problem.radius, n_worst=n_worst)
            vertex, q = problem.dual_set.vertex(scores), problem.no_weights()
            q[vertex.index] = vertex.weight
            rows = found.lists[0].chosen()
            if rows is not None:
                problem.operator.learn_rows(labels.mix(q), rows)
            self._seen = scores, q
        return self._seen

    def scores(self) -> np.ndarray:
        """Zw in units of R."""
        return self._evaluate()[0]

    def vertex(self) -> np.ndarray:
        """The worst rows for w, as weights in the dual set."""
        return self._evaluate()[1]

    def upper(self) -> float:
        """‖Zᵀq‖ over the mass of q, in units of R."""
        return self._problem.upper(self.w, self.q)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return {"w": self.w, "q": self.q}
