"""The last digits of a hard margin: extended precision on the support, then rational arithmetic.

A float64 vector w rounds a·w by u‖a‖‖w‖, which is u·R/γ of the margin γ: 1e-10 where the margin is
a millionth of the rows' length. There w is carried on in extended precision. Below about 1e-7 of
the rows' length a margin is smaller than the roundings of a Gram matrix. Lawson and Hanson's
algorithm, on the rows as whole numbers, starts at the support that floats have found and ends at
the optimum itself, or as near to it as a penalty of the intercept lets it.
"""

import math
import time
from fractions import Fraction

import numpy as np
from scipy.linalg import solve_triangular

from momentron.arithmetic.clock import OutOfTime, until
from momentron.certificate.certified import MOST_BITS
from momentron.certificate.exact import whole_numbers
from momentron.solvers.auto.search import SUPPORT, Search
from momentron.solvers.auto.working_rows import on_support
from momentron.solvers.rational import PRIME, TooLarge, nearest, reduced

REFINED_GAP = 0.1  # the gap, relative to the margin, at which a support looks right
RESOLVED = 1.6e-15  # of the longest row: the margin's error in float64
REFINED_FLOPS = 2e10  # of the factor of a support that is refined in extended precision
STEPS = 6  # of refinement; three or four reach the end
EXACT_ENTRIES, EXACT_SECONDS = 100_000, 10.0  # entries of X, and time, for rational arithmetic
HEAVY = 32  # bits by which the column of the intercept is longer than the rows
SURPLUS = 4.0  # how much more than the least is asked for
ROUNDING = 1e-15  # a weight that is zero but for rounding, and what that moves ‖Zᵀq‖ by
VANISHED = 1e-12  # of the rows' length, at which ‖Zᵀq‖ shows that nothing separates


def needs_extended(search: Search) -> bool:
    """Whether the support looks right, but float64 has not closed the requested gap, or cannot
    represent it.
    """
    sets, lower, upper = search.sets, search.answer.lower, search.answer.upper
    if not (sets.is_plain and lower > 0.0 and upper - lower < REFINED_GAP * upper < math.inf):
        return False
    is_open = upper - lower > search.tol * upper
    return is_open or RESOLVED * sets.operator.radius > search.tol * lower


def refine_answer(search: Search) -> None:
    """Extended precision for w on the support, where a factor of its rows is cheap enough."""
    answer, sets, W = search.answer, search.sets, search.W
    assert sets.matrix is not None
    squares = sets.base.row_norms[W] ** 2
    support = W[on_support(answer.lam[W], answer.p[W], squares, search.rank) > 0.0]
    flops = 4.0 * sets.width * float(support.size) ** 2
    if flops > REFINED_FLOPS or search.deadline.has_passed(flops):
        return
    signs = sets.signs(support)
    y = signs if sets.n_intercepts else np.zeros(support.size)
    refined = refine(sets.matrix.rows(support) * signs[:, None], y)
    if refined is not None:
        weights = np.zeros(search.size, np.longdouble)
        weights[support] = refined[1]
        search.refined = refined[0], weights


def refine(A: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(w, λ) with w = Aᵀλ, A w + b y = 1 and y·λ = 0 on the support rows A; y = 0: no intercept.

    Iterative refinement: residuals in extended precision, corrections by a QR factor of the rows in
    float64. None where the rows are dependent or the steps do not converge.
    """
    m, d = A.shape
    if not m:
        return None
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
    return best


def needs_rationals(search: Search) -> bool:
    """Whether floats have found neither a witness nor all that rational arithmetic can find."""
    sets, rank = search.sets, min(search.size, search.rank)
    is_small = search.size * sets.width <= EXACT_ENTRIES and rank <= search.settings.exact_support
    if not (sets.is_plain and is_small):
        return False
    is_witness = search.answer.upper <= VANISHED * sets.operator.radius
    return search.answer.lower > 0.0 or not (is_witness and _surely_overlaps(search))


def _surely_overlaps(search: Search) -> bool:
    """Whether the smallest correction that makes a witness exact leaves its weights positive.

    With M = Σ q z zᵀ over the witness's rows, the weights q (1 − zᵀM⁺Zᵀq) cancel exactly; they are
    positive where ‖z‖ ‖M⁺‖ ‖Zᵀq‖ is below 1. An intercept is one more feature. The rank modulo a
    prime shows how many eigenvalues are not zero. Otherwise there may be a tiny margin.
    """
    answer, sets = search.answer, search.sets
    q = sets.dual_set.feasible_or_none(answer.lam)
    if q is None or sets.matrix is None:
        return False
    index, length = np.flatnonzero(q > ROUNDING), sets.operator.radius
    rows = sets.matrix.rows(index)
    if sets.n_intercepts:
        rows = np.column_stack([rows, np.full(index.size, length)])
    values = np.linalg.eigvalsh((rows.T * q[index]) @ rows)
    rank = len(reduced(whole_numbers(rows)[0] % PRIME)[1])
    return bool(SURPLUS * length * (answer.upper + ROUNDING * length) < values[-rank])


def solve_in_rationals(search: Search) -> None:
    """The shortest w by least distances, as in `straight`, from the support of the answer.

    The intercept's column is 2^32 times as long as a row may be in one direction, which costs both
    bounds d·2^-64 of themselves at most, since |b| is at most the rows' length times ‖w‖.
    """
    sets, lam, every = search.sets, search.answer.lam, np.arange(search.size)
    assert sets.matrix is not None
    signs = sets.signs(every).astype(np.int64).astype(object)
    points, _ = whole_numbers(sets.matrix.rows(every))
    top = 1 << int(abs(points).max()).bit_length()
    columns = [points * signs[:, None], *[signs * top << HEAVY] * sets.n_intercepts]
    points = np.column_stack([*columns, np.full(search.size, top)])
    # the weights that floats have found, no more than can be independent
    support = np.flatnonzero(lam > SUPPORT * float(lam.max(initial=0.0)))
    support = support[np.argsort(-lam[support], kind="stable")][: search.rank]
    guess = {i: Fraction(lam[i]) for i in support.tolist() if math.isfinite(lam[i])}
    try:
        with until(time.perf_counter() + EXACT_SECONDS):
            found, w = nearest(points.tolist(), [0] * (points.shape[1] - 1) + [top], guess)
    except TooLarge:
        return
    except OutOfTime:
        search.deadline.has_passed()  # whose time is it that is over?
        return
    common = math.lcm(*(weight.denominator for weight in found.values()))
    q = np.zeros(search.size, object)
    q[list(found)] = [int(weight * common) for weight in found.values()]
    search.refined = _shortened(np.array(w[: sets.width], object)), _shortened(q)


def _shortened(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers up to a common factor, with as many bits as the certificate reads."""
    surplus = int(abs(numbers).max()).bit_length() - MOST_BITS
    return numbers >> surplus if surplus > 0 else numbers
