"""The hard margin of few short rows, by non-negative least squares: one call of scipy.

Lawson and Hanson's least-distance programming: with rows of E for the features, for the intercept
and of ones, the residual of min ‖Eu − e‖ over u ≥ 0, where e is 1 in the last row and 0 elsewhere,
is the shortest w with Aw + by ≥ 1 but for its length; where it is zero, u is a witness. The column
of the intercept is so heavy that it is hardly penalised. Only the support is taken from u: margins
of 1 on it are one linear system. Other ways would mostly take Python's own time.
"""

import math

import numpy as np
from scipy.optimize import nnls

from momentron.solvers.auto.forms import VANISHED
from momentron.solvers.auto.search import Search

SHORT = 24  # features up to which this is the fastest way
HEAVY = 1e4  # the column of the intercept, in units of the longest row
ROWS, MORE = 8, 2  # of a first working set, and those that join it, per unknown
ROUNDS = 10
OUTSIDE = 1e-10  # how far the margin of a row outside may be below 1


def solve_straight(search: Search) -> bool:
    """Least squares on all of few short rows of a matrix, more than features; False where rows are
    not like that, or it does not close the gap.
    """
    sets, d, n, before = search.sets, search.sets.width, search.size, search.answer
    if not (sets.is_plain and d <= SHORT and d < n and n * d <= search.settings.straight_entries):
        return False
    rows, radius = sets.rows(np.arange(n)), sets.operator.radius or 1.0
    A, Y = rows.take(slice(None)) / radius, rows.dual_set.columns
    E = np.ones((d + Y.shape[1] + 1, n))
    E[:d], E[d:-1] = A.T, HEAVY * Y.T
    try:
        S, u, residual = _support(E, A @ A.sum(axis=0), search.settings.straight_pivots + 10 * d)
        lam, b = _equalised(A[S], Y[S])
    except (RuntimeError, np.linalg.LinAlgError):  # too many pivots, or a singular system
        return False
    weights = np.zeros(n)
    if lam.min(initial=0.0) >= 0.0:
        w = lam @ A[S]
        upper = radius * math.sqrt(w @ w) / float(lam.sum())
        w /= radius
        weights[S] = lam
        b -= sets.shift_of(w)
        search.set_answer(w, b, weights, is_exact=True, upper=upper)
        answer = search.answer
        is_closed = answer.upper - answer.lower <= search.goal * answer.upper
        if is_closed and 2e-15 * radius <= search.tol * answer.lower:
            return True
    # a witness, but for what rounding has left of a residual that would be zero
    weights[S] = np.maximum(u + np.linalg.lstsq(E[:, S], residual, rcond=None)[0], 0.0)
    search.answer = before
    search.weigh(weights)
    if search.answer.upper <= VANISHED * radius:
        return True
    search.answer = before
    return False


def _support(
    E: np.ndarray, p: np.ndarray, pivots: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the rows of the support, their u, e − Eu), on a working set that rows below the margin join.

    It begins with the rows that have the smallest p.
    """
    m, n = E.shape
    e = np.zeros(m)
    e[-1] = 1.0
    W = p.argpartition(ROWS * m)[: ROWS * m] if ROWS * m < n else np.arange(n)
    for _ in range(ROUNDS):
        u = nnls(E[:, W], e, maxiter=pivots)[0]
        S, u = W[u > 0.0], u[u > 0.0]
        residual = e - E[:, S] @ u
        below = residual @ E  # 1 − p, in units of the last residual
        below[W] = 0.0
        violators = (below > OUTSIDE * residual[-1]).nonzero()[0]
        if not violators.size:
            break
        worst = np.argsort(-below[violators])[: MORE * m]
        W = np.append(S, violators[worst])
    return S, u, residual


def _equalised(A: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(λ, b) with margins of 1 on all of these rows, and Yᵀλ = 0."""
    m, r = Y.shape
    matrix, right = np.zeros((r + m, r + m)), np.ones(r + m)
    matrix[r:, r:], matrix[r:, :r], matrix[:r, r:] = A @ A.T, Y, Y.T
    right[:r] = 0.0
    x = np.linalg.solve(matrix, right)
    return x[r:], x[:r]
