"""The last digits of a hard margin: extended precision on the support, then rational arithmetic.

A float64 vector w rounds a·w by u‖a‖‖w‖, which is u·R/γ of the margin γ: 1e-10 where the margin is
a millionth of the rows' length. There w is carried on in extended precision. Below about 1e-7 of
the rows' length a margin is smaller than the roundings of a Gram matrix. Wolfe's algorithm, on the
rows as whole numbers, starts at the support that floats have found and ends at the optimum itself,
which is proposed in extended precision.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.linalg import lapack

from momentron.arithmetic.clock import OutOfTime, until
from momentron.solvers.auto.search import SUPPORT, End, Phase, Search
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.nearest import Vector, Weights, Wolfe, dot

REFINED_ORDER = 3000  # of the system that is refined in extended precision
STEPS = 6  # of refinement; three or four reach the end
VANISHED = 1e-12  # of the rows' length, at which ‖Zᵀq‖ shows that nothing separates


class Refine(Phase):
    """Extended precision for w on the support, a proposal beside the one in float64."""

    def advance(self, work: Search) -> Phase:
        answer, sets = work.answer, work.sets
        assert sets.matrix is not None
        support = work.W[answer.lam[work.W] > SUPPORT * float(answer.lam.max())]
        order = support.size + work.rank
        if order <= REFINED_ORDER and not work.deadline.has_passed():
            signs = sets.signs(support)
            rows = sets.matrix.rows(support) * signs[:, None]
            refined = refine(rows, signs, sets.fits_intercept)
            if refined is not None:
                lam = np.zeros(work.size)
                lam[support] = np.maximum(refined[1], 0.0)
                work.answer = replace(answer.with_weights(lam), w=refined[0])
        return End()


def refine(
    A: np.ndarray, signs: np.ndarray, fits_intercept: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """(w, λ) with w = Aᵀλ and A w + b y = 1 on the support rows A, in extended precision.

    With an intercept also y·λ = 0. None where the system is singular, or where the steps do
    not converge. Each step costs two passes over A.
    """
    m, d = A.shape
    order = d + m + int(fits_intercept)
    system = np.zeros((order, order))
    system[:d, :d] = np.eye(d)
    system[:d, d : d + m] = -A.T
    system[d : d + m, :d] = A
    if fits_intercept:
        system[d : d + m, -1] = signs
        system[-1, d : d + m] = signs
    lu, pivots, info = lapack.dgetrf(system)
    if info != 0:
        return None
    with np.errstate(all="ignore"):
        return _refined(A.astype(np.longdouble), signs, (lu, pivots), order)


def _refined(
    A: np.ndarray, signs: np.ndarray, factor: tuple[np.ndarray, np.ndarray], order: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Iterative refinement: residuals in extended precision, corrections in float64."""
    m, d = A.shape
    x = np.zeros(order, np.longdouble)
    best, error = x, 1e-9  # worse than this, and float64 had it better
    for _ in range(STEPS):
        w, lam = x[:d], x[d : d + m]
        b = x[-1] if order > d + m else np.longdouble(0.0)
        residual = np.zeros(order, np.longdouble)
        residual[:d] = (A * lam[:, None]).sum(axis=0) - w
        residual[d : d + m] = 1.0 - (A * w).sum(axis=1) - b * signs
        if order > d + m:
            residual[-1] = -(lam * signs).sum()
        size = float(np.max(np.abs(residual[d : d + m])))
        if size < error:
            best, error = x, size
        x = x + lapack.dgetrs(*factor, residual.astype(np.float64))[0]
        if not np.all(np.isfinite(x)):
            break
    if not best.any():
        return None
    return best[:d], best[d : d + m]


def after_floats(search: Search, end: Phase) -> Phase:
    """What follows the last round in floats: rational arithmetic where it is needed and small
    enough, or the end.
    """
    sets, settings = search.sets, search.settings
    is_small = search.size * sets.width <= settings.exact_entries
    is_small = is_small and min(search.size, search.rank) <= settings.exact_support
    is_suited = sets.is_plain and not sets.problem.is_soft and is_small
    is_witness = search.answer.upper <= VANISHED * sets.operator.radius
    if end.is_final or not is_suited or (is_witness and not search.answer.lower > 0.0):
        return end
    exactly = SolveExactly()
    # a certificate of what vanishes would end it before it is solved
    return exactly.advance(search) if search.has_nearly_vanished() else exactly


class SolveExactly(Phase):
    """Wolfe's algorithm from the support of the answer."""

    def advance(self, search: Search) -> Phase:
        sets = search.sets
        assert sets.matrix is not None
        every = np.arange(search.size)
        points = WholePoints(sets.matrix.rows(every), sets.signs(every), sets.fits_intercept)
        norms = sets.operator.row_norms
        start = [min(group, key=norms.__getitem__) for group in points.groups]
        try:
            with until(time.perf_counter() + search.settings.exact_seconds):
                found = Wolfe(points).run(_guess(search, points), start)
        except TooLarge:
            return End(is_final=True)
        except OutOfTime:
            search.deadline.has_passed()  # whose time is it that is over?
            return End(is_final=True)
        w, lam = _extended(found.x), np.zeros(search.size, np.longdouble)
        lam[list(found.weights)] = _extended(list(found.weights.values()))
        products = sets.operator.apply(w.astype(np.float64))
        search.answer = replace(search.answer.with_weights(lam), w=w, products=products)
        return End(is_final=True)


class WholePoints:
    """y x of all rows as whole numbers in one unit; with an intercept, a group for each class."""

    def __init__(self, rows: np.ndarray, signs: np.ndarray, fits_intercept: bool) -> None:
        signed = (rows * signs[:, None]).tolist()
        ratios = [[float(v).as_integer_ratio() for v in row] for row in signed]
        unit = max(below for row in ratios for _, below in row)  # all are powers of two
        self._vectors = [[above * (unit // below) for above, below in row] for row in ratios]
        self._group_of = (signs < 0.0).astype(int).tolist() if fits_intercept else [0] * len(signed)
        self.n_groups = 2 if fits_intercept else 1
        self.groups: list[list[int]] = [[] for _ in range(self.n_groups)]
        for i, group in enumerate(self._group_of):
            self.groups[group].append(i)

    def group(self, i: int) -> int:
        return self._group_of[i]

    def vector(self, i: int) -> Vector:
        return self._vectors[i]

    def lowest(self, x: Vector) -> list[tuple[int, int]]:
        return [min((dot(x, self._vectors[i]), i) for i in group) for group in self.groups]


def _guess(search: Search, points: WholePoints) -> Weights:
    """The weights that floats have found, no more than can be independent; none without any."""
    lam = search.answer.lam
    top = float(lam.max(initial=0.0))
    if not 0.0 < top < math.inf:
        return {}
    support = np.flatnonzero(lam > SUPPORT * top)
    support = support[np.argsort(-lam[support], kind="stable")][: search.rank]
    counts = {int(i): int(lam[i] / top * 2**30) + 1 for i in support}
    masses = [0] * points.n_groups
    for i, count in counts.items():
        masses[points.group(i)] += count
    if 0 in masses:
        return {}
    return {i: Fraction(count, masses[points.group(i)]) for i, count in counts.items()}


def _extended(values: Sequence[int | Fraction]) -> np.ndarray:
    """Rationals over the largest of them, in extended precision."""
    top = max((abs(Fraction(v)) for v in values), default=Fraction(0)) or Fraction(1)
    shares = [v / top for v in values]
    high = [float(share) for share in shares]
    low = [float(share - Fraction(part)) for share, part in zip(shares, high, strict=True)]
    return np.array(high, np.longdouble) + np.array(low, np.longdouble)
