"""The last digits on a support: guess which rows are at a bound, solve, swap what is wrong.

On the free rows, 0 < α < u, all functional margins are 1, so that α and b solve one linear system;
the others are at zero or at u. The guess is right where α is between the bounds on the free rows
and no other row is on the wrong side of the margin. Otherwise all rows that violate either change
sides at once: block principal pivoting (Júdice and Pires, 1994; Kim and Park, 2011). From a good
guess that takes two to five factors.

Where there are as many support vectors as features, exchanges of many rows leave singular matrices.
There pivots go on from a support that is nearly right: Goldfarb and Idnani's dual method (1983). On
the support multipliers are positive and functional margins are 1; rows below the margin enter one
after another, and what their entrance would push below zero leaves first. That takes a few pivots
per violator.
"""

import math
from contextlib import suppress

import numpy as np
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.squares import factor_in_place
from momentron.solvers.auto.forms import Form, Point
from momentron.solvers.auto.gram_form import GramForm, bordered_solve
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

SATISFIED = 1e-12  # what a functional margin may be off by; in a box ten times as much,
ROUNDING = 4e-16  # or more where weights are large, in units of Σα‖a‖²
EXCHANGES = 10
PATIENCE = 2  # exchanges that leave as many rows on the wrong side as before
MOST_FREE = 2000  # rows whose matrix, or its inverse, is worth its price
SINGULAR = 1e-13  # a pivot, in units of ‖a‖², at which rows are combinations of others
NOTHING = 1e-12  # of a unit of an entering weight: what rounding may have left of a zero
SOLVES = 8  # from each of which rows without weight are dropped, or pivots go on


def exchange(
    form: Form, guess: np.ndarray, upper: float | np.ndarray = math.inf
) -> np.ndarray | None:
    """α at the optimum, with the form taken there; None where exchanges do not get there.

    The guess says which rows are between the bounds, and which are at u.
    """
    full = guess >= upper
    free = (guess > 0.0) & ~full
    fewest, patience = form.m + 1, PATIENCE
    form.forget()  # its memory may be needed
    for number in range(EXCHANGES):
        size = np.count_nonzero(free)
        if not size or (size > MOST_FREE and form.gram is None):
            return None
        if form.deadline.has_passed(size**3 / 3.0):
            return None
        solved = equalise(form, free, np.where(full, upper, 0.0) if full.any() else None)
        if solved is None:
            return None
        (alpha, point), off = solved, SATISFIED
        if isinstance(upper, np.ndarray):
            off = max(10.0 * off, ROUNDING * float(np.abs(alpha).sum()) * form.scale)
        rises = free & (alpha >= upper)
        wrong = np.where(free, (alpha <= 0.0) | rises, point.p <= 1.0 - off)
        wrong[full] = point.p[full] > 1.0 + off
        count = np.count_nonzero(wrong)
        if count == 0:
            form.point = point
            return alpha
        if count >= fewest:
            patience -= 1
            if patience < 0:
                return None
        if number > 0:  # from a guess that is nearly right, the first exchange makes more wrong
            fewest = min(fewest, int(count))
        free, full = free ^ wrong, (full & ~wrong) | rises
    return None


def equalise(
    form: Form, free: np.ndarray, fixed: np.ndarray | None = None
) -> tuple[np.ndarray, Point] | None:
    """(α, point) with p = 1 on the free rows and given weights elsewhere; None where singular."""
    index = free.nonzero()[0]
    Y, M = form.Y[index], form.block(index).T
    if Y.shape[1]:
        # Yᵀα is known, so that σYYᵀ changes nothing but how definite the matrix is
        M = blas.dsyrk(form.scale, Y, beta=1.0, c=M, lower=1, overwrite_c=1)
    factor, exists = factor_in_place(M)
    if not exists or factor.diagonal().min() ** 2 < SINGULAR * form.scale:
        return None
    alpha, targets = np.zeros(form.m), np.ones(index.size)
    if fixed is not None:
        alpha[:] = fixed
        targets -= form.at_weights(fixed, np.zeros(Y.shape[1])).p[index]
    missing = -(form.Y.T @ alpha)
    alpha[index], b = bordered_solve(factor, targets + form.scale * (Y @ missing), Y, missing)
    if not np.isfinite(alpha).all():
        return None
    return alpha, form.at_weights(alpha, b)


def gathered(form: Form, alpha: np.ndarray, upper: float | np.ndarray = math.inf) -> np.ndarray:
    """The same w with at most one free row among equal ones: the first are filled up to u.

    Two of them would be a singular system, and which of them has the weight changes nothing.
    """
    index = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    if not 1 < index.size <= MOST_FREE:
        return alpha
    K = form.block(index)
    squares = K.diagonal().copy()
    K *= -2.0
    K += squares
    K += squares[:, None]
    is_twin = SINGULAR * form.scale >= K  # ‖a − a′‖²
    if form.Y.shape[1]:
        kinds = np.unique(form.Y[index], axis=0, return_inverse=True)[1].ravel()
        is_twin &= kinds[:, None] == kinds
    first = is_twin.argmax(axis=1)
    if (first == np.arange(index.size)).all():
        return alpha
    alpha, upper = alpha.copy(), np.broadcast_to(upper, alpha.shape)
    for leader in np.unique(first):
        group = index[first == leader]
        total = alpha[group].sum()
        most = np.minimum(upper[group], total)
        alpha[group] = np.clip(total - (np.cumsum(most) - most), 0.0, most)
    return alpha


# --- pivots of one row at a time -----------------------------------------------------------------


def few_violators(size: int) -> int:
    """As many as pivots are worth for a support of that size: with more, others are faster."""
    return 10 + size // 10


def pivot(form: GramForm, S: np.ndarray, settings: AutoSettings = SETTINGS) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where pivots do not get there.

    S is a guess of the support as a mask, nearly right. Rows of it that would have no weight are
    dropped first.
    """
    left = settings.pivots
    form.forget()  # its memory may be needed
    with np.errstate(divide="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
        for _ in range(SOLVES):
            size = int(np.count_nonzero(S))
            if not 0 < size <= MOST_FREE or form.deadline.has_passed(form.newton_flops(form.m)):
                break
            solved = equalise(form, S)
            if solved is None:
                break
            lam, point = solved
            positive = S & (lam > 0.0)
            violators = np.count_nonzero(~S & (point.p < 1.0 - SATISFIED))
            if np.array_equal(positive, S):
                if violators == 0:
                    form.point = point
                    return lam
                if violators > few_violators(size):
                    break
                positive, left = _with_all_margins(form, S, left)
            S = positive
    return None


def _with_all_margins(form: GramForm, S: np.ndarray, left: int) -> tuple[np.ndarray, int]:
    """S after pivots until no row is below the margin; and how many pivots are left then.

    The bordered Gram matrix of S, [[0, Y_Sᵀ], [Y_S, K_SS]], has an inverse that is kept by rank-one
    updates, among zeros for the other rows. A row j that enters has its λ raised from zero until
    its margin is 1; rows whose λ falls to zero on the way leave.

    Raises
    ------
    LinAlgError
        If the rows depend on each other, or pivots do not get there.
    """
    r, Y = form.Y.shape[1], form.Y
    G = np.block([[np.zeros((r, r)), Y.T], [Y, form.K]])
    held = np.append(np.ones(r, bool), S)  # the intercepts, and rows
    members = np.ix_(held, held)
    inverse = np.zeros(G.shape, order="F")
    inverse[members] = np.linalg.inv(G[members])
    x, enters = inverse[:, r:].sum(axis=1), False  # (b, λ), and whether j is on its way
    for remaining in range(left, 0, -1):
        require_time()
        p = G @ x
        if not enters:
            j = r + int(p[r:].argmin())
            if p[j] >= 1.0 - SATISFIED or held[j]:  # which rounding has left there
                return held[r:], remaining
        u = inverse @ G[j]
        curvature = float(G[j, j] - G[j] @ u)
        full = (1.0 - float(p[j])) / curvature if curvature > SINGULAR * form.scale else math.inf
        times = np.where(u > NOTHING, x / u, np.inf)
        i = r + int(times[r:].argmin())
        t = min(full, float(times[i]))
        if not t < math.inf:  # a combination of the others, whose weights cancel with it
            break
        x -= t * u
        x[j] += t
        enters = t < full
        if not enters:
            u[j], held[j] = -1.0, True
            inverse = blas.dger(1.0 / curvature, u, u, a=inverse, overwrite_a=1)
            continue
        u, x[i], held[i] = inverse[:, i].copy(), 0.0, False
        if not (u[i] > 0.0 and held[r:].any()):
            break
        inverse = blas.dger(-1.0 / u[i], u, u, a=inverse, overwrite_a=1)
        inverse[i] = inverse[:, i] = 0.0  # but for rounding they are
    raise np.linalg.LinAlgError("pivots do not get there")
