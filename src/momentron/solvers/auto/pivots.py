"""The hard margin by pivots: one row at a time joins the support or leaves it.

The dual method of Goldfarb and Idnani (1983), on a Gram matrix, from a support that is nearly
right. On the support S multipliers are positive and functional margins are 1; the rows below the
margin enter one after another, and what their entrance would push below zero leaves first. That
takes a few pivots per violator, also where there are as many support vectors as features: there an
exchange of many rows at once leaves a singular matrix.
"""

import math
from contextlib import suppress

import numpy as np
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.exchange import MOST_FREE, SINGULAR, equalise
from momentron.solvers.auto.forms import Point
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

SATISFIED = 1.0 - 1e-12  # a functional margin of 1, but for rounding
NOTHING = 1e-12  # of a unit of the entering weight: what rounding may have left of a zero
CORRECTIONS = 3  # runs of pivots, each from margins computed again
DROPS = 5  # solves in which rows without weight are dropped


def few_violators(size: int) -> int:
    """As many as pivots are worth for a support of that size: with more, others are faster."""
    return 10 + size // 10


def pivot(form: GramForm, S: np.ndarray, settings: AutoSettings = SETTINGS) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where pivots do not get there.

    S is a guess of the support as a mask, nearly right.
    """
    left = settings.pivots
    form.forget()  # its memory may be needed
    with np.errstate(divide="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
        for _ in range(CORRECTIONS):
            S, point = _with_positive_weights(form, S)
            violators = np.count_nonzero(~S & (point.p < SATISFIED))
            if violators == 0:
                form.point = point
                return point.x
            if violators > few_violators(int(np.count_nonzero(S))):
                break
            S, left = _with_all_margins(form, S, left)
    return None


def _with_positive_weights(form: GramForm, S: np.ndarray) -> tuple[np.ndarray, Point]:
    """S and a point with margins 1 and λ > 0 on it; rows that would have none are dropped.

    Raises LinAlgError where there are none, as `_with_all_margins`.
    """
    for _ in range(DROPS):
        size = np.count_nonzero(S)
        if not 0 < size <= MOST_FREE or form.deadline.has_passed(form.newton_flops(form.m)):
            break
        solved = equalise(form, S)
        if solved is None:
            break
        positive = S & (solved[0] > 0.0)
        if np.array_equal(positive, S):
            return S, solved[1]
        S = positive
    raise np.linalg.LinAlgError("no positive weights on these rows")


def _with_all_margins(form: GramForm, S: np.ndarray, left: int) -> tuple[np.ndarray, int]:
    """S after pivots until no row is below the margin, and how many are left then.

    The bordered Gram matrix of S, [[0, Y_Sᵀ], [Y_S, K_SS]], has an inverse that is kept by rank-one
    updates, among zeros for the other rows. A row that enters has its λ raised from zero until its
    margin is 1; rows whose λ falls to zero on the way leave.

    Raises
    ------
    LinAlgError
        If the rows depend on each other, or pivots do not get there.
    """
    r, Y, K = form.Y.shape[1], form.Y, form.K
    G = np.block([[np.zeros((r, r)), Y.T], [Y, K]]) if r else K
    held = np.append(np.ones(r, bool), S)  # the intercepts, and rows
    members = np.ix_(held, held)
    inverse = np.zeros(G.shape, order="F")
    inverse[members] = np.linalg.inv(G[members])
    x = inverse[:, r:].sum(axis=1)  # b, and λ
    while left > 0:
        p = G @ x
        j = r + int(p[r:].argmin())
        if p[j] >= SATISFIED or held[j]:  # which rounding has left there
            return held[r:], left
        weight, missing = 0.0, 1.0 - float(p[j])
        while not held[j] and left > 0:
            require_time()
            left -= 1
            u = inverse @ G[j]
            curvature = float(G[j, j] - G[j] @ u)
            full = missing / curvature if curvature > SINGULAR * form.scale else math.inf
            times = np.where(u > NOTHING, x / u, np.inf)
            i = r + int(times[r:].argmin())
            t = min(full, float(times[i]))
            if not t < math.inf:  # a combination of the others, whose weights cancel with it
                break
            x -= t * u
            weight += t
            missing -= t * curvature
            if t == full:
                u[j], x[j], held[j] = -1.0, weight, True
                inverse = blas.dger(1.0 / curvature, u, u, a=inverse, overwrite_a=1)
                continue
            u, x[i], held[i] = inverse[:, i].copy(), 0.0, False
            if not (u[i] > 0.0 and held[r:].any()):
                break
            inverse = blas.dger(-1.0 / u[i], u, u, a=inverse, overwrite_a=1)
            inverse[i] = inverse[:, i] = 0.0  # but for rounding they are
        if not held[j]:
            break
    raise np.linalg.LinAlgError("pivots do not get there")
