"""Convex sets of dual weights: what turns scores into (q, ψ, margin, intercept).

The theory holds for any convex subset C of the simplex; the margin that belongs to C is

    γ_C(w) = min_{q ∈ C} −⟨q, Zw⟩ / ‖w‖,      max_w γ_C(w) = min_{q ∈ C} ‖Zᵀq‖,

so a set is all that distinguishes "no intercept" from "an unpenalised intercept". The same set,
restricted to some rows, is what a working set asks for.

The sign convention of the whole package: *scores* Zw are violations, the larger the worse, and
*functional margins* p = −Zw + Yb are the opposite, with intercepts b, the smaller the worse.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from momentron.arithmetic.rounding import accurate_sum, gamma, unit_of
from momentron.certificate import read_only
from momentron.dual.losses import Loss


@dataclass(frozen=True)
class Vertex:
    """A point of C with few non-zero weights: the worst examples, as one direction."""

    index: np.ndarray
    weight: np.ndarray


Group = np.ndarray | slice  # the numbers of some rows, or all of them


class Simplex:
    """The set C in which the dual weights live, and the loss that leads to them.

    This one is Δ_n itself: no intercept; q is ∇ψ of the loss, softmax for the exponential. Every
    other set is a subset of it, and a subclass. What is written here holds for groups of rows, of
    which each has the same share of the mass: here all rows are one group.

    Parameters
    ----------
    size : int
        The number of dual weights.
    loss : Loss
    groups : tuple of ndarray or slice
    """

    fits_intercept: bool = False
    n_intercepts: int = 0
    risk_factor: float = 1.0  # e to the constant that ψ leaves out of the logarithm of the risk

    def __init__(self, size: int, loss: Loss, groups: tuple[Group, ...] = (slice(None),)) -> None:
        self.size = size
        self.groups = groups
        self.share = 1.0 / len(groups)
        self.loss = loss.for_size(size)
        self.rho = self.loss.rho(size)
        self.is_proved = self.loss.is_proved(size)

    @cached_property
    def psi_zero(self) -> float:
        """ψ(0), the potential of a method's start: ln n for the simplex and the exponential."""
        return self.link(np.zeros(self.size))[1]

    def near_worst(self, scores: np.ndarray, width: float | np.ndarray) -> np.ndarray:
        """The rows that may decide the margin if any score is smaller by up to its `width`."""
        least = scores - width
        near = [np.flatnonzero(scores[rows] >= least[rows].max()) for rows in self.groups]
        return np.concatenate([_numbers(*pair) for pair in zip(self.groups, near, strict=True)])

    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        """How far a q from `normalize` may be from C, as a bound on what that moves ‖Zᵀq‖.

        `norms` are those of the rows of Z, `weighted_norms` is Σ q‖z‖, and `norm` bounds ‖Zᵀq‖.
        """
        return gamma(8, unit_of(q)) * norm  # the whole vector is scaled by 1 + 4u at most

    def excess(self, q: np.ndarray) -> float:
        """How much more than its entry in q, roundings aside, a weight of C next to q may be."""
        return 0.0

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """(q, ψ): the dual weights ∇ψ(scores), and the potential itself."""
        if len(self.groups) == 1:
            return self.loss.link(scores)
        q, psi = np.empty_like(scores), 0.0
        for rows in self.groups:
            part, potential = self.loss.link(scores[rows])
            q[rows] = self.share * part
            psi += self.share * potential
        return q, psi

    def link_near(
        self, scores: np.ndarray, near: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """(q, ψ, what makes the next link faster), given the last for nearby scores, if any."""
        return *self.link(scores), near

    def margin(self, scores: np.ndarray) -> float:
        """min_{q ∈ C} −⟨q, scores⟩: the margin times ‖w‖, for the best intercept.

        Right to two roundings, or below: scores in extended precision may cancel.
        """
        return -float(sum(self.share * scores[rows].max() for rows in self.groups))

    def intercept(self, scores: np.ndarray) -> float | np.ndarray:
        """The best intercept for these scores, in their units; for many classes, one per class."""
        return 0.0

    def vertex(self, scores: np.ndarray) -> Vertex:
        """The point of C that is worst for these scores: argmax_{q ∈ C} ⟨q, scores⟩."""
        worst = [_numbers(rows, int(scores[rows].argmax())) for rows in self.groups]
        return Vertex(np.array(worst), np.full(len(worst), self.share))

    def normalize(self, q: np.ndarray) -> np.ndarray:
        """q clipped at zero and rescaled into C; each entry is right to four roundings."""
        if len(self.groups) == 1:
            return to_mass(q, 1.0)
        scaled = np.empty(q.size, np.longdouble if q.dtype == np.longdouble else np.float64)
        for rows in self.groups:
            scaled[rows] = to_mass(q[rows], self.share)
        return scaled

    def project(self, q: np.ndarray) -> np.ndarray:
        """The nearest point of C, up to rounding."""
        nearest = np.empty_like(q)
        for rows in self.groups:
            falling = np.sort(q[rows])[::-1]
            levels = (np.cumsum(falling) - self.share) / np.arange(1, falling.size + 1)
            # the support is the largest numbers that stay above their common level
            nearest[rows] = np.maximum(q[rows] - levels[np.sum(falling > levels) - 1], 0.0)
        return nearest

    def average(self, log_value: np.ndarray) -> float:
        """The average over the constraints of a sum whose logarithm ψ has led to."""
        log = float(log_value[0])
        total = math.inf if log >= 709.0 else math.exp(log)
        return self.risk_factor * total / self.size

    def draw(self, q: np.ndarray, rng: np.random.Generator) -> Vertex:
        """A random e of C with E[e] = q, so that E[Zᵀe] = Zᵀq; its mass is that of q."""
        index, weight = [], []
        for rows in self.groups:  # independently, its share of the mass from each
            place, mass = pick(q[rows], rng.random())
            index.append(_numbers(rows, place))
            weight.append(mass)
        return Vertex(np.array(index), np.array(weight))

    # --- for working sets ----------------------------------------------------------------------

    def some(self, index: np.ndarray) -> "DualSet":
        """The weights of C that are zero but on the named rows; perhaps there are none."""
        return Simplex(index.size, self.loss)

    @property
    def columns(self) -> np.ndarray:
        """Y of shape (size, n_intercepts), of full rank where the classes are connected."""
        return np.empty((self.size, 0))

    def spread(self, b: np.ndarray) -> np.ndarray | float:
        """Yb."""
        return self.columns @ b if b.size else 0.0

    def feasible_or_none(self, lam: np.ndarray) -> np.ndarray | None:
        """λ clipped and scaled into C, without care for rounding; None where that cannot be."""
        lam = np.maximum(lam, 0.0)
        for rows in self.groups:
            total = lam[rows].sum()
            if not total > 0.0:
                return None
            lam[rows] /= total / self.share
        return lam

    def worst(self, p: np.ndarray) -> float:
        """The smallest functional margin, with the best intercepts; −∞ where a group is empty."""
        is_empty = any(p[rows].size == 0 for rows in self.groups)
        return -np.inf if is_empty else self.margin(-p)

    def lowest(self, p: np.ndarray, size: int) -> np.ndarray:
        """About `size` rows with the lowest p, in no order; some that hold every intercept."""
        most = -(-size // len(self.groups))
        return np.concatenate([_numbers(r, lowest_places(p[r], most)) for r in self.groups])


DualSet = Simplex


class ClassBalanced(Simplex):
    """C = {mass ½ on each class}: an unpenalised intercept, chosen best for every w.

    min_{q ∈ C} ‖Zᵀq‖ is half the distance of the two classes' convex hulls. The potential is
    ψ = ½ψ₊ + ½ψ₋, which is min_b ln Σ exp(Zw + by) less the constant ln 2.
    """

    fits_intercept = True
    n_intercepts = 1
    risk_factor = 2.0

    def __init__(self, signs: np.ndarray, loss: Loss) -> None:
        loss.require_intercept()
        self.signs = signs
        groups = (signs > 0).nonzero()[0], (signs < 0).nonzero()[0]
        super().__init__(signs.size, loss, (read_only(groups[0]), read_only(groups[1])))

    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        return gamma(8, unit_of(q)) * weighted_norms  # each class is scaled by its own 1 + 4u

    def intercept(self, scores: np.ndarray) -> float:
        # x·w is −score on class + and score on class −; b puts zero midway between the nearest
        top_positive, top_negative = (scores[rows].max() for rows in self.groups)
        return float(0.5 * top_positive - 0.5 * top_negative)

    def some(self, index: np.ndarray) -> DualSet:
        return ClassBalanced(self.signs[index], self.loss)

    @property
    def columns(self) -> np.ndarray:
        return self.signs[:, None]


def _numbers(rows: Group, places: Any) -> Any:
    """The numbers of the rows at these places of a group."""
    return places if isinstance(rows, slice) else rows[places]


def to_mass(q: np.ndarray, mass: float) -> np.ndarray:
    """q clipped at zero and scaled to the given sum; uniform where nothing positive is left.

    Extended precision stays so; float64 sums are exact up to one rounding.
    """
    if q.dtype != np.longdouble:
        q = q.astype(np.float64, copy=False)
    clipped = np.maximum(q, 0.0)
    top = clipped.max(initial=0.0)  # in q's own precision, whose range may be wider
    if not 1e-100 < top < 1e100:  # else the sum neither overflows nor vanishes
        if not np.isfinite(top):
            clipped = np.where(np.isfinite(clipped), clipped, 0.0)
            top = clipped.max(initial=0.0)
        if top == 0.0:
            return np.full(q.size, clipped.dtype.type(mass) / q.size)
        clipped /= top
    total = clipped.sum() if q.dtype == np.longdouble else accurate_sum(clipped)
    clipped *= mass / total
    return clipped


def lowest_places(values: np.ndarray, size: int) -> np.ndarray:
    """Positions of the `size` lowest values, in no order."""
    if size >= values.size:
        return np.arange(values.size)
    return np.argpartition(values, size - 1)[:size]


def pick(q: np.ndarray, position: float) -> tuple[int, float]:
    """(index, mass): where the running sum of q first exceeds a position in [0, 1) times its mass.

    The inverse of the distribution function: an index of weight zero is never returned, and each
    other has probability q_i / mass for a uniform position.
    """
    ends = np.cumsum(q)
    mass = float(ends[-1])
    target = min(position * mass, np.nextafter(mass, 0.0))
    return int(np.searchsorted(ends, target, side="right")), mass
