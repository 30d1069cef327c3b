"""The problem that a stream poses, as solvers, the loop and the certificate see it.

The scores Zw and the weights q of all the rows are never there at once. What stands for them are
vectors as long as a classifier:

    q       its image Zᵀq, a bound on that vector's error, and its mass
    scores  the largest score of every arc, ψ, and the image of q = ∇ψ: what one pass gives

Algorithm 1 takes linear combinations of weights and nothing else, so that it runs on their images
unchanged. Zero scores stand for w = 0: what is kept of ψ and q is the difference from there.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np

from momentron.certificate import Certificate
from momentron.dualsets import DualSet
from momentron.errors import InputError
from momentron.problem import Problem
from momentron.rounding import down, gamma, norm_bounds, up
from momentron.streams.look import Look, Seen
from momentron.streams.poses import Pose
from momentron.streams.spread import centred_radius
from momentron.streams.stream import Stream
from momentron.streams.survey import Found
from momentron.streams.working_set import SparseWeights

KNOWN = 4  # classifiers whose last look is remembered


class StreamProblem(Problem):
    """Find w with the largest margin over all the rows of a stream.

    Parameters
    ----------
    stream : Stream
    found : Found
        What the first pass found.
    fit_intercept : bool
    combines : bool
        Whether the method takes linear combinations of images, whose roundings count.
    """

    is_lent_whole = True

    def __init__(
        self, stream: Stream, found: Found, *, fit_intercept: bool, combines: bool = True
    ) -> None:
        self.stream, self.found, self.combines = stream, found, combines
        self.classes = found.classes
        self.pose = Pose(self.classes.size, fit_intercept)
        self.exponent = 0
        self.counts = np.array([found.counts[label] for label in self.classes.tolist()])
        # max‖z‖
        self.longest = up(found.longest * self.pose.radius_factor) if found.longest else 0.0
        self._unit = self.longest or 1.0
        self._arcs = self.pose.dual_set()
        self._shape = self.pose.zeros(found.width).shape
        self._known: list[tuple[np.ndarray, np.ndarray]] = []
        self.weights: SparseWeights | None = None
        self._weights_upper = math.inf
        # answers to what solvers on streams, and the loop, ask of a dual set and of an operator
        self.dual_set = cast(DualSet, StreamedSet(self))
        self._operator = StreamedRows(stream, found)

    @property
    def operator(self) -> Any:
        return self._operator

    @property
    def size(self) -> int:
        return self.pose.n_arcs + 1 + self.image_size

    @property
    def image_size(self) -> int:
        return int(np.prod(self._shape)) + 2

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
            return self.found.reach * self.pose.radius_factor
        return centred_radius(self.stream, self.found) * self.pose.radius_factor or 1.0

    def tighten(self) -> None:
        self._unit = self.tight_radius

    def zeros(self) -> np.ndarray:
        return np.zeros(self._shape)

    def norm(self, w: np.ndarray) -> float:
        return float(np.linalg.norm(w))

    def even_weights(self) -> np.ndarray:
        return self.no_image()

    # --- passes --------------------------------------------------------------------------------

    def look(self, w: np.ndarray, **options: Any) -> Seen:
        """One pass over the stream for a classifier."""
        task = Look(
            w,
            self.pose,
            self.classes,
            radius=self.longest,
            depth=self.found.stored,
            divisor=self._unit,
            is_compact=self.stream.is_remote,
            **options,
        )
        seen = self.stream.run(task)
        if seen.n_rows != self.found.n_rows:
            raise InputError(
                f"this pass read {seen.n_rows} rows and the first one {self.found.n_rows}; a "
                "source must give the same blocks in every pass"
            )
        self._remember(w, seen.tops[self.pose.used])
        return seen

    def _remember(self, w: np.ndarray, tops: np.ndarray) -> None:
        """Keep the last look, and those with the largest margins."""
        self._known = [(v, kept) for v, kept in self._known if not np.array_equal(v, w)]
        self._known.sort(key=lambda pair: -self.margin_of_tops(*pair))
        self._known = [*self._known[: KNOWN - 1], (w.copy(), tops)]

    def margin_of_tops(self, w: np.ndarray, tops: np.ndarray) -> float:
        """A sure lower bound on the margin of w, from sure upper bounds of its arcs' scores."""
        if not w.any():
            return 0.0
        norm_low, norm_high = norm_bounds(w)
        if not np.isfinite(norm_high):
            return -np.inf
        margin = down(self._arcs.margin(tops))
        norm = norm_high if margin > 0.0 else norm_low
        return down(margin / norm) if norm > 0.0 else -np.inf

    def tops(self, w: np.ndarray) -> np.ndarray:
        """Upper bounds of the arcs' scores: from memory, or from one more pass."""
        for known, tops in self._known:
            if np.array_equal(known, w):
                return tops
        self.stream.deadline = math.inf  # without this look there is no certificate
        return self.look(w).tops[self.pose.used]

    def intercept(self, tops: np.ndarray) -> Any:
        """The best intercepts for scores with these maxima, in the units of X."""
        return self._arcs.intercept(tops)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """What a pass shows of w; two passes where many classes have intercepts.

        There the rows' weights depend on a balance of all k² arcs, and one read would have to
        bring back a sum of rows for each of them.
        """
        pose, arcs = self.pose, self.pose.used
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
        image = self._image(vector, error)
        return np.concatenate([tops, [psi - self.dual_set.psi_zero], image - self.even_image])

    def _circulating(self, seen: Seen) -> tuple[np.ndarray, float]:
        """Zᵀq and its error for weights that nearly flow in circles."""
        k = self.pose.n_classes
        mass = float(seen.totals.sum())
        flow = seen.totals.reshape(k, k) / mass
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        rest += 4.0 * gamma(seen.depth + 2 * k + 8)
        # what is out of balance is led back along at most k − 1 arcs: see `Circulations`
        return seen.vectors / mass, 0.5 * (k - 1) * rest * self.longest * (1.0 + 1e-9)

    def keep_weights(self, weights: SparseWeights, upper: float) -> None:
        """Remember the weights of the smallest upper bound, where some method has them."""
        if upper < self._weights_upper:
            self.weights, self._weights_upper = weights, upper

    # --- images --------------------------------------------------------------------------------

    def _image(self, vector: np.ndarray, error: float, mass: float = 1.0) -> np.ndarray:
        """Zᵀq in units of R, its error, and what is left for all of it to sum to the mass."""
        image = np.empty(self.image_size)
        image[:-2] = vector.ravel() / self._unit
        image[-2] = error / self._unit
        image[-1] = mass - image[:-1].sum()
        return image

    def image_of(self, vector: np.ndarray, bound: float) -> np.ndarray:
        """The image of weights whose ‖Zᵀq‖ is known to be at most `bound`, in the units of X."""
        return self._image(vector, max(0.0, up(bound - norm_bounds(vector)[0])))

    def no_image(self) -> np.ndarray:
        """The image of weights of which nothing is known."""
        return self._image(self.zeros(), np.inf)

    @cached_property
    def even_image(self) -> np.ndarray:
        """The image of the weights at w = 0, from the sums of the classes' rows."""
        pose, counts = self.pose, self.counts
        flow, _ = self._arcs.link(np.log(pose.arc_counts(counts)))
        sums = np.stack([self.found.sums[label] for label in self.classes.tolist()])
        k = counts.size
        if not pose.is_paired:
            shares = flow[[1, 0]] if pose.fit_intercept else counts / counts.sum()
            vector = (np.array([1.0, -1.0]) * shares / counts) @ sums
        else:
            share = np.zeros((k, k))
            if pose.fit_intercept:
                share.ravel()[pose.used] = flow
            else:
                share[:] = counts[:, None] / (counts.sum() * (k - 1))
                np.fill_diagonal(share, 0.0)
            means = sums / counts[:, None]
            vector = means.T @ (share - np.diag(share.sum(axis=1)))
        error = 2.0 * gamma(self.found.depth + 2 * k + 16) * self.longest
        return self._image(vector, error)

    # --- for the loop --------------------------------------------------------------------------

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Zᵀq, which is what stands for q."""
        return q[-self.image_size : -2].reshape(self._shape).copy()

    def certify(self, w: np.ndarray, q: np.ndarray, *, sharp: bool = False) -> Certificate:
        """The interval that w and the image of q prove; every look is as sharp as can be."""
        margin = self.margin_of_tops(w, self.tops(w)) if w.any() else 0.0
        upper = self.upper_bound(q)
        margin = -np.inf if np.isnan(margin) else margin
        upper = np.inf if np.isnan(upper) else upper
        return Certificate(lower=max(0.0, margin), upper=max(0.0, upper), margin=margin)

    def upper_bound(self, q: np.ndarray) -> float:
        """A sure upper bound of ‖Zᵀq‖ in the units of X, from the image of q."""
        image = q[-self.image_size :]
        if self.longest == 0.0 or not np.isfinite(image[:-1]).all():
            return self.longest
        # a few roundings for each step that combined images, of vectors no longer than R
        chain = gamma(8 * (self.passes + 8)) * self.longest if self.combines else 0.0
        norm = norm_bounds(image[:-2])[1] + max(0.0, float(image[-2]))
        return min(self.longest, up(up(norm, 8) * self._unit + chain))

    # --- for checkpoints -------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {f"found.{name}": value for name, value in self.found.to_arrays().items()}
        arrays["known_w"] = np.array([w for w, _ in self._known]).reshape(-1, *self._shape)
        arrays["known_tops"] = np.array([tops for _, tops in self._known])
        if self.weights is not None:
            own = self.weights.to_arrays()
            arrays |= {f"weights.{name}": value for name, value in own.items()}
        stream = self.stream
        tight = self.__dict__.get("tight_radius", math.nan)
        numbers = (stream.passes, stream.nbytes, stream.seconds, self._weights_upper, tight)
        return arrays | {"numbers": np.array(numbers, dtype=np.float64)}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Everything but what `found` was made from."""
        known = zip(arrays["known_w"], arrays["known_tops"], strict=True)
        self._known = [(w.copy(), tops.copy()) for w, tops in known]
        if "weights.numbers" in arrays:
            parts = (arrays[f"weights.{name}"] for name in ("numbers", "codes", "weights"))
            self.weights = SparseWeights(*parts)
        passes, nbytes, seconds, self._weights_upper, tight = arrays["numbers"].tolist()
        self.stream.passes, self.stream.nbytes = int(passes), int(nbytes)
        self.stream.seconds = seconds
        if not math.isnan(tight):
            self.tight_radius = tight


class StreamedSet:
    """The dual set of a stream, for scores and weights as they are kept there."""

    rho = 1.0

    def __init__(self, problem: StreamProblem) -> None:
        self._problem = problem
        self._n_arcs = problem.pose.n_arcs
        self.fits_intercept = problem.pose.fit_intercept
        arcs = problem.pose.dual_set()
        self.psi_zero = arcs.link(np.log(problem.pose.arc_counts(problem.counts)))[1]

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """(image of q, ψ)."""
        image = scores[self._n_arcs + 1 :] + self._problem.even_image
        return image, float(scores[self._n_arcs]) + self.psi_zero

    def margin(self, scores: np.ndarray) -> float:
        return self._problem._arcs.margin(scores[: self._n_arcs][self._problem.pose.used])

    def normalize(self, q: np.ndarray) -> np.ndarray:
        return q


class StreamedRows:
    """What the loop asks of an operator."""

    evaluations = 0
    resolution = 1e-15

    def __init__(self, stream: Stream, found: Found) -> None:
        self._stream = stream
        self.shape = (found.n_rows, found.width)
        self.dense_entries = 1  # one thread for products, as another one reads

    @property
    def passes(self) -> int:
        return self._stream.passes
