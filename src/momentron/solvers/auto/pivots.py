"""The hard margin by pivots: one row at a time joins the support or leaves it.

The dual method of Goldfarb and Idnani (1983), on a Gram matrix, from a support that is nearly
right. On the support S multipliers are positive and functional margins are 1; the rows below the
margin enter one after another, and what their entrance would push below zero leaves first. That
takes a few pivots per violator, also where there are as many support vectors as features: there an
exchange of many rows at once leaves a singular matrix.
"""

import math

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
NOBODY = -1  # the holder of a slot that is free
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
    for _ in range(CORRECTIONS):
        solved = _with_positive_weights(form, S)
        if solved is None:
            return None
        S, point = solved
        violators = np.count_nonzero(~S & (point.p < SATISFIED))
        if violators == 0:
            form.point = point
            return point.x
        members = np.flatnonzero(S)
        if violators > few_violators(members.size):
            return None
        try:
            support = Support(form, members, settings.pivot_room)
        except np.linalg.LinAlgError:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            left = support.run(left)
        if left <= 0:
            return None
        S = np.zeros(form.m, bool)
        S[[row for row in support.holders if row != NOBODY]] = True
    return None


def _with_positive_weights(form: GramForm, S: np.ndarray) -> tuple[np.ndarray, Point] | None:
    """S and a point with margins 1 and λ > 0 on it; rows that would have none are dropped."""
    for _ in range(DROPS):
        size = np.count_nonzero(S)
        if not 0 < size <= MOST_FREE or form.deadline.has_passed(form.step_flops):
            return None
        solved = equalise(form, S)
        if solved is None:
            return None
        positive = S & (solved[0] > 0.0)
        if np.array_equal(positive, S):
            return S, solved[1]
        S = positive
    return None


class Support:
    """S, its multipliers, and the inverse of its bordered Gram matrix, kept by rank-one updates.

    The matrix is [[0, Y_Sᵀ], [Y_S, K_SS]]. Its rows and columns have slots, the first r of them for
    the intercepts; slots that no row holds are zero in the inverse and in `x`, which is b and the
    multipliers. At first S are the members, whose rows are independent, with room for others;
    `holders` are the rows in the slots, those of the intercepts apart.
    """

    def __init__(self, form: GramForm, members: np.ndarray, room: int) -> None:
        self.K, self.smallest = form.K, SINGULAR * form.scale
        self.r = r = form.Y.shape[1]
        slots, size = min(form.m, members.size + room), r + members.size
        self.holders = [*members.tolist(), *[NOBODY] * (slots - members.size)]
        self._rows = np.zeros((r + slots, form.m))
        self._rows[:r], self._rows[r:size] = form.Y.T, self.K[members]
        matrix = np.zeros((size, size))
        matrix[:, r:] = self._rows[:size, members]
        matrix[r:, :r] = matrix[:r, r:].T
        self.inverse = np.zeros((r + slots, r + slots), order="F")
        self.inverse[:size, :size] = np.linalg.inv(matrix)
        self.x = self.inverse[:, r:size].sum(axis=1)

    def run(self, left: int) -> int:
        """Pivots until no row is below the margin; how many are left then, 0 where too few."""
        while left > 0:
            p = self.x @ self._rows
            j = int(p.argmin())
            if p[j] >= SATISFIED or j in self.holders:  # which rounding has left there
                break
            left = self._enter(j, 1.0 - float(p[j]), left)
        return left

    def _enter(self, j: int, missing: float, left: int) -> int:
        """Raise λ_j from zero until its margin is 1; rows whose λ falls to zero leave."""
        weight, square, column = 0.0, float(self.K[j, j]), self._rows[:, j]
        while left > 0:
            require_time()
            left -= 1
            u = self.inverse @ column
            curvature, falls = square - float(column @ u), u[self.r :]
            full = missing / curvature if curvature > self.smallest else math.inf
            times = np.where(falls > NOTHING, self.x[self.r :] / falls, np.inf)
            slot = int(times.argmin())
            t = min(full, float(times[slot]))
            if not t < math.inf:  # a combination of the others, whose weights cancel with it
                return 0
            self.x -= t * u
            weight += t
            missing -= t * curvature
            if t == full:
                return left if self._add(j, weight, u, curvature) else 0
            if not self._drop(slot):
                return 0
        return 0

    def _add(self, j: int, weight: float, u: np.ndarray, curvature: float) -> bool:
        """Whether there was a slot for row j."""
        if NOBODY not in self.holders:
            return False
        slot = self.holders.index(NOBODY)
        place, self.holders[slot] = self.r + slot, j
        u[place] = -1.0
        self.inverse = blas.dger(1.0 / curvature, u, u, a=self.inverse, overwrite_a=1)
        self.x[place], self._rows[place] = weight, self.K[j]
        return True

    def _drop(self, slot: int) -> bool:
        """Whether the row in a slot could leave."""
        place, self.holders[slot] = self.r + slot, NOBODY
        column = self.inverse[:, place].copy()
        pivot = float(column[place])
        if not pivot > 0.0 or max(self.holders) == NOBODY:
            return False
        self.inverse = blas.dger(-1.0 / pivot, column, column, a=self.inverse, overwrite_a=1)
        self.inverse[place] = self.inverse[:, place] = 0.0  # but for rounding they are
        self.x[place] = 0.0
        return True
