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
from scipy.linalg import solve_triangular

from momentron.arithmetic.clock import OutOfTime, until
from momentron.solvers.auto.search import SUPPORT, Search
from momentron.solvers.auto.working_rows import on_support
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.nearest import Points, Weights, Wolfe

REFINED_FLOPS = 2e10  # of the factor of a support that is refined in extended precision
STEPS = 6  # of refinement; three or four reach the end
EXACT_ENTRIES, EXACT_SECONDS = 20_000, 10.0  # entries of X, and time, for Wolfe's algorithm
VANISHED = 1e-12  # of the rows' length, at which ‖Zᵀq‖ shows that nothing separates


def refine_answer(search: Search) -> None:
    """Extended precision for w on the support, where a factor of its rows is cheap enough."""
    answer, sets = search.answer, search.sets
    assert sets.matrix is not None
    W = search.W
    squares = sets.base.row_norms[W] ** 2
    support = W[on_support(answer.lam[W], answer.p[W], squares, search.rank) > 0.0]
    flops = 4.0 * sets.width * float(support.size) ** 2
    if flops > REFINED_FLOPS or search.deadline.has_passed(flops):
        return
    signs = sets.signs(support)
    refined = refine(sets.matrix.rows(support) * signs[:, None], signs * sets.fits_intercept)
    if refined is not None:
        lam = np.zeros(search.size)
        lam[support] = np.maximum(refined[1], 0.0)
        search.answer = replace(answer.with_weights(lam), w=refined[0])


def refine(A: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(w, λ) with w = Aᵀλ, A w + b y = 1 and y·λ = 0 on the support rows A; y = 0: no intercept.

    Iterative refinement: residuals in extended precision, corrections by a QR factor of the rows in
    float64. None where the rows are dependent or the steps do not converge.
    """
    m, d = A.shape
    # yᵀλ is known, so that the column βy changes nothing but how independent the rows are
    beta = float(np.sqrt(np.mean(A * A) * d))
    Q, R = np.linalg.qr(np.vstack([A.T, beta * y]))
    if R.shape[0] < m or not np.abs(R.diagonal()).min() > 0.0:
        return None
    A, best, error = A.astype(np.longdouble), None, 1e-9  # float64 had it better than that
    w, lam, b = (np.zeros(size, np.longdouble) for size in (d, m, 1))
    s = solve_triangular(R, y, trans="T")
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            below = 1.0 - (A * w).sum(axis=1) - b * y
            short = np.append((A * lam[:, None]).sum(axis=0) - w, beta * (lam @ y))
            size = float(np.abs(below).max())
            if size < error:
                best, error = (w, lam), size
            q = Q.T @ short.astype(np.float64)
            t = solve_triangular(R, below.astype(np.float64), trans="T", check_finite=False) - q
            db = (s @ t + float(lam @ y)) / (s @ s) if y.any() else 0.0
            c = t - db * s
            w, b = w + (Q @ c)[:d] + short[:d], b + db
            lam = lam + solve_triangular(R, c, check_finite=False)
            if not np.isfinite(w).all():
                break
    return best


def needs_rationals(search: Search) -> bool:
    """Whether floats have found neither a witness nor all that rational arithmetic can find."""
    sets, settings = search.sets, search.settings
    is_small = search.size * sets.width <= EXACT_ENTRIES
    is_small = is_small and min(search.size, search.rank) <= settings.exact_support
    is_witness = search.answer.upper <= VANISHED * sets.operator.radius
    return sets.is_plain and is_small and (search.answer.lower > 0.0 or not is_witness)


def solve_in_rationals(search: Search) -> None:
    """Wolfe's algorithm from the support of the answer."""
    sets = search.sets
    assert sets.matrix is not None
    every = np.arange(search.size)
    points = _whole_points(sets.matrix.rows(every), sets.signs(every), sets.fits_intercept)
    norms = sets.operator.row_norms
    start = [min(group, key=norms.__getitem__) for group in points.groups]
    try:
        with until(time.perf_counter() + EXACT_SECONDS):
            found = Wolfe(points).run(_guess(search, points), start)
    except TooLarge:
        return
    except OutOfTime:
        search.deadline.has_passed()  # whose time is it that is over?
        return
    w, lam = _extended(found.x), np.zeros(search.size, np.longdouble)
    lam[list(found.weights)] = _extended(list(found.weights.values()))
    products = sets.operator.apply(w.astype(np.float64))
    search.answer = replace(search.answer.with_weights(lam), w=w, products=products)


def _whole_points(rows: np.ndarray, signs: np.ndarray, fits_intercept: bool) -> Points:
    """y x of all rows as whole numbers in one unit; with an intercept, a group for each class."""
    signed = (rows * signs[:, None]).tolist()
    ratios = [[float(v).as_integer_ratio() for v in row] for row in signed]
    unit = max(below for row in ratios for _, below in row)  # all are powers of two
    vectors = [[above * (unit // below) for above, below in row] for row in ratios]
    return Points(vectors, (signs < 0.0).astype(int).tolist() if fits_intercept else None)


def _guess(search: Search, points: Points) -> Weights:
    """The weights that floats have found, no more than can be independent; none without any."""
    lam = search.answer.lam
    top = float(lam.max(initial=0.0))
    if not 0.0 < top < math.inf:
        return {}
    support = np.flatnonzero(lam > SUPPORT * top)
    support = support[np.argsort(-lam[support], kind="stable")][: search.rank]
    counts = {int(i): int(lam[i] / top * 2**30) + 1 for i in support}
    masses = [0] * len(points.groups)
    for i, count in counts.items():
        masses[points.group_of[i]] += count
    if 0 in masses:
        return {}
    return {i: Fraction(count, masses[points.group_of[i]]) for i, count in counts.items()}


def _extended(values: Sequence[int | Fraction]) -> np.ndarray:
    """Rationals over the largest of them, in extended precision."""
    top = max((abs(Fraction(v)) for v in values), default=Fraction(0)) or Fraction(1)
    shares = [v / top for v in values]
    high = [float(share) for share in shares]
    low = [float(share - Fraction(part)) for share, part in zip(shares, high, strict=True)]
    return np.array(high, np.longdouble) + np.array(low, np.longdouble)
