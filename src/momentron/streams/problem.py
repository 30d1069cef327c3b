"""The problem that a stream poses, as solvers, the loop and the certificate see it.

The scores Zw and the weights q of all the rows are never there at once. What stands for them are
vectors as long as a classifier:

    q       its image Zᵀq, in units of R
    scores  the largest score of every arc, ψ, and the image of q = ∇ψ: what one pass gives

Solvers may do with them as they please: what is proved rests on `Evidence` alone, which keeps its
own. Zero scores stand for w = 0: what is kept of ψ and q is the difference from there.
"""

import copy
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

import numpy as np

from momentron.certificate import Certificate
from momentron.certificate.lending import read_only
from momentron.checkpoint import section, unusable
from momentron.clock import OutOfTime
from momentron.dualsets import DualSet
from momentron.labels import as_labels
from momentron.problem import Problem
from momentron.rounding import gamma, up
from momentron.streams.averages import Image, frozen
from momentron.streams.evidence import Evidence, Known
from momentron.streams.look import Look, Seen
from momentron.streams.spread import centred_radius
from momentron.streams.stream import Stream
from momentron.streams.survey import Found
from momentron.streams.working_set import SparseWeights, WorkingSet


class StreamProblem(Problem):
    """Find w with the largest margin over all the rows of a stream.

    Parameters
    ----------
    stream : Stream
    found : Found
        What the first pass found.
    fit_intercept : bool
    combines : bool
        Whether the method averages the weights of its passes, rather than those of rows in memory.
    """

    is_lent_whole = True

    def __init__(
        self, stream: Stream, found: Found, *, fit_intercept: bool, combines: bool = True
    ) -> None:
        self.stream, self._found, self.combines = stream, found, combines
        self.classes = read_only(found.classes)
        self.pose = as_labels(self.classes.size, fit_intercept)
        self.exponent = 0
        self.counts = read_only(np.array([found.counts[label] for label in self.classes.tolist()]))
        # max‖z‖
        self.longest = up(found.longest * self.pose.radius_factor) if found.longest else 0.0
        self._unit = self.longest or 1.0
        self._arcs = self.pose.arc_set()
        self._shape = self.pose.zeros(found.width).shape
        self._evidence = Evidence(self.pose.arc_set(), self._shape, self.longest)
        self._weights: SparseWeights | None = None
        self._is_closed = False
        if combines:
            self._evidence.begin(self.even_image)
        # answers to what solvers on streams, and the loop, ask of a dual set and of an operator
        self.dual_set = cast(DualSet, StreamedSet(self))
        self._operator = StreamedRows(stream, found)

        self._is_sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        """What solvers see is read-only: they get the problem itself, since passes are counted."""
        if not name.startswith("_") and "_is_sealed" in self.__dict__:
            raise AttributeError(f"the {name} of a stream's problem is read-only")
        super().__setattr__(name, value)

    @property
    def operator(self) -> Any:
        return self._operator

    @property
    def found(self) -> Found:
        """What the first pass found, as a copy."""
        return copy.copy(self._found)

    @property
    def weights(self) -> SparseWeights | None:
        """The weights of the smallest upper bound, where a method has any."""
        return self._weights

    def known(self, w: np.ndarray) -> Known | None:
        """What a pass saw of a classifier, if one has looked at it lately."""
        return self._evidence.of(w)

    def best_known(self) -> Known | None:
        """The classifier with the largest margin of those that are remembered."""
        return self._evidence.best

    @property
    def size(self) -> int:
        return self.pose.n_arcs + 1 + int(np.prod(self._shape))

    @property
    def radius(self) -> float:
        return self._unit

    @cached_property
    def tight_radius(self) -> float:
        """As for data in memory, at the price of a pass where there is an intercept.

        A method without steps of that length gets what the sample shows, which is no larger.
        """
        if not self.pose.fit_intercept or self.longest == 0.0:
            return self.longest or 1.0
        if not self.combines:
            return self._found.reach * self.pose.radius_factor
        return centred_radius(self.stream, self._found) * self.pose.radius_factor or 1.0

    def tighten(self) -> None:
        self._unit = self.tight_radius

    def zeros(self) -> np.ndarray:
        return np.zeros(self._shape)

    def norm(self, w: np.ndarray) -> float:
        return float(np.linalg.norm(w))

    def even_weights(self) -> np.ndarray:
        return self.as_weights(self.even_image) if self.combines else np.empty(0)

    def as_weights(self, image: Image) -> np.ndarray:
        """What stands for weights where solvers work: their image in units of R."""
        return image.vector.ravel() / self._unit

    # --- passes --------------------------------------------------------------------------------

    def look(self, w: np.ndarray, **options: Any) -> Seen:
        """One pass over the stream for a classifier."""
        w = self._evidence.copied(w)
        task = Look(
            w,
            self.pose,
            self.classes,
            radius=self.longest,
            depth=self._found.stored,
            divisor=self._unit,
            is_compact=self.stream.is_remote,
            **options,
        )
        seen: Seen = self.stream.run(task)
        self._evidence.remember(w, seen.tops[self.pose.arcs])
        return seen

    def close(self) -> None:
        """No pass from now on: what is known must do."""
        self._is_closed = True

    def intercept(self, tops: np.ndarray) -> Any:
        """The best intercepts for scores with these maxima, in the units of X."""
        return self._arcs.intercept(tops)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """What a pass shows of w; two passes where many classes have intercepts.

        There the rows' weights depend on a balance of all k² arcs, and one read would have to
        bring back a sum of rows for each of them.
        """
        pose, arcs, w = self.pose, self.pose.arcs, self._evidence.copied(w)
        seen = self.look(w, has_weights=True)
        logs = seen.peaks[arcs] + np.log(seen.totals[arcs])
        flow, psi = self._arcs.link(logs)
        tops = np.zeros(pose.n_arcs)
        tops[arcs] = seen.tops[arcs] / self._unit
        if pose.circulates:
            factors = np.full(pose.n_arcs, -np.inf)
            with np.errstate(divide="ignore"):
                factors[arcs] = np.log(flow) - logs
            seen = self.look(w, log_factors=factors)
            vector, error = self._circulating(seen)
        elif pose.is_paired:
            vector = seen.vectors / seen.totals[0]
            error = 0.0
        else:
            vector = seen.vectors @ (flow / seen.totals)
            error = 0.0
        # the sums and the masses by which they are divided both err, each by its own chain
        error += 2.0 * gamma(seen.depth + 8) * self.longest
        image = Image(frozen(vector.reshape(self._shape)), error)
        self._evidence.remember_image(w, image)
        change = self.as_weights(image) - self.as_weights(self.even_image)
        return np.concatenate([tops, [psi - self.dual_set.psi_zero], change])

    def _circulating(self, seen: Seen) -> tuple[np.ndarray, float]:
        """Zᵀq and its error for weights that nearly flow in circles."""
        k = self.pose.n_classes
        mass = float(seen.totals.sum())
        return seen.vectors / mass, self._imbalance(seen.totals.reshape(k, k) / mass, seen.depth)

    def _imbalance(self, flow: np.ndarray, depth: int) -> float:
        """How far Zᵀq may be from that of weights that flow in circles, for a flow of mass 1.

        What is out of balance is led back along at most k − 1 arcs: see `Circulations`.
        """
        k = self.pose.n_classes
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        rest += 4.0 * gamma(depth + 2 * k + 8)
        return 0.5 * (k - 1) * rest * self.longest * (1.0 + 1e-9)

    def average(
        self, mu: np.ndarray, q: np.ndarray, share: float, *, w: np.ndarray, scratch: np.ndarray
    ) -> None:
        """μ ← (1 − λ)μ + λq, done on the images that passes brought: w names q, and μ is not here.

        Costs a pass where w is not what the last one weighed, as after a checkpoint.
        """
        if (image := self._evidence.image_of(w)) is None:
            self.scores(w)
            image = self._evidence.image_of(w)
        assert image is not None
        self._evidence.average(image, share)

    def mass(self, q: np.ndarray) -> float:
        return 1.0

    def _keep_weights(self, working: WorkingSet, dual: np.ndarray, upper: float) -> None:
        """Remember weights on rows in memory, if their upper bound is the smallest so far.

        Not for methods that average: they have no rows, and so no weights that could be shown.
        """
        if self.combines:
            raise TypeError("weights on rows belong to a method that keeps rows")
        if upper < self._evidence.upper or self._weights is None:
            self._evidence.upper = min(upper, self._evidence.upper)
            self._weights = working.weights(dual)

    # --- images --------------------------------------------------------------------------------

    @cached_property
    def even_image(self) -> Image:
        """The image of the weights at w = 0, from the sums of the classes' rows."""
        pose, counts = self.pose, self.counts
        flow, _ = self._arcs.link(np.log(pose.arc_counts(counts)))
        sums = np.stack([self._found.sums[label] for label in self.classes.tolist()])
        k, error = counts.size, 0.0
        if not pose.is_paired:
            shares = flow[[1, 0]] if pose.fit_intercept else counts / counts.sum()
            vector = (np.array([1.0, -1.0]) * shares / counts) @ sums
        else:
            share = np.zeros((k, k))
            if pose.fit_intercept:
                share.ravel()[pose.arcs] = flow
                error = self._imbalance(share, self._found.depth)
            else:
                share[:] = counts[:, None] / (counts.sum() * (k - 1))
                np.fill_diagonal(share, 0.0)
            means = sums / counts[:, None]
            vector = means.T @ (share - np.diag(share.sum(axis=1)))
        error += 2.0 * gamma(self._found.depth + 2 * k + 16) * self.longest
        return Image(frozen(vector), error)

    # --- for the loop --------------------------------------------------------------------------

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq, which is what stands for q."""
        return q.reshape(self._shape).copy()

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        """The interval that w and the passes so far prove; every look is as sharp as can be.

        Costs a pass where none has looked at w lately. At the deadline, or once closed, the best
        classifier that is known stands for such a w.
        """
        w = self._evidence.copied(w)
        if w.any() and self._evidence.of(w) is None and not self._is_closed:
            with suppress(OutOfTime):
                self.scores(w) if self.combines else self.look(w)
        return self._evidence.certificate(w)

    # --- for checkpoints -------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        stream = self.stream
        counts = (stream.passes, stream.nbytes, stream.seconds)
        arrays = {"counts": np.array(counts, dtype=np.float64), "content": self._found.content}
        if self._weights is not None:
            own = self._weights.to_arrays() | {"upper": np.array(self._evidence.upper)}
            arrays |= {f"weights.{name}": value for name, value in own.items()}
        return arrays

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """What an earlier run had read; its weights count where the rows here confirm them."""
        counts = np.asarray(arrays.get("counts", ()))
        if counts.shape != (3,) or counts.dtype.kind != "f" or not (counts >= 0.0).all():
            raise unusable("its counts of passes, bytes and seconds are none")
        if not (counts < 2.0**53).all():
            raise unusable("its counts of passes, bytes and seconds are too large")
        self.stream.passes += int(counts[0])
        self.stream.nbytes += int(counts[1])
        self.stream.seconds += float(counts[2])
        if self.combines:
            self._evidence.begin(None)
        elif (kept := WorkingSet.from_rows(self._found.kept, self.classes)) is not None:
            dual, claimed = kept.dual_from(section("weights", arrays), self.pose)
            # at most as good as claimed: a run that was killed then ends as if it had not been
            self._keep_weights(kept, dual, max(claimed, kept.upper_bound(dual, self.pose)))


class StreamedSet:
    """The dual set of a stream, for scores and weights as they are kept there."""

    rho = 1.0

    def __init__(self, problem: StreamProblem) -> None:
        self._problem = problem
        self._n_arcs = problem.pose.n_arcs
        self.fits_intercept = problem.pose.fit_intercept
        arcs = problem.pose.arc_set()
        self.psi_zero = arcs.link(np.log(problem.pose.arc_counts(problem.counts)))[1]

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """(image of q, ψ)."""
        problem = self._problem
        image = scores[self._n_arcs + 1 :] + problem.as_weights(problem.even_image)
        return image, float(scores[self._n_arcs]) + self.psi_zero

    def margin(self, scores: np.ndarray) -> float:
        return self._problem._arcs.margin(scores[: self._n_arcs][self._problem.pose.arcs])

    def normalize(self, q: np.ndarray) -> np.ndarray:
        return q


class StreamedRows:
    """What the loop asks of an operator."""

    evaluations = 0
    resolution = 1e-15

    def __init__(self, stream: Stream, found: Found) -> None:
        self._stream = stream
        self.shape = (found.n_rows, found.width)
        self.reach = 0.9 * found.longest
        self.dense_entries = 1  # one thread for products, as another one reads

    @property
    def passes(self) -> int:
        return self._stream.passes
