"""The hard margin of a working set by pivots: one row at a time joins the support or leaves it.

The dual method of Goldfarb and Idnani (1983), on a Gram matrix. On the support S multipliers are
positive and functional margins are 1; the rows below the margin enter one after another, and what
their entrance would push below zero leaves first. Where S is nearly right this takes a few pivots a
violator, also where there are as many support vectors as features: there an exchange of many rows
at once leaves a singular matrix.
"""

import math

import numpy as np
from scipy.linalg import blas

from momentron.solvers.auto.active_set import SATISFIED
from momentron.solvers.auto.forms import Point
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.linear_algebra import matvec


def pivot(form: GramForm, S: np.ndarray) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where pivots do not get there.

    Parameters
    ----------
    form : GramForm
    S : ndarray of bool, shape (m,)
        A guess of the support, nearly right.
    """
    settings = form.settings
    left = settings.pivots
    for _ in range(settings.pivot_corrections):
        solved = _with_positive_weights(form, S)
        if solved is None:
            return None
        S, point = solved
        violators = np.count_nonzero(~S & (point.p < SATISFIED))
        if violators == 0:
            form.point = point
            return point.x
        if violators > settings.few_violators(int(np.count_nonzero(S))):
            return None
        try:
            support = _Support(form, S, point)
        except np.linalg.LinAlgError:
            return None
        left = support.take_in_violators(left)
        if left < 0:
            return None
        S = support.mask()
    return None


def _with_positive_weights(form: GramForm, S: np.ndarray) -> tuple[np.ndarray, Point] | None:
    """S and a point with margins 1 and λ > 0 on it; rows that would have none are dropped."""
    settings = form.settings
    for _ in range(settings.pivot_drops):
        size = np.count_nonzero(S)
        if not 0 < size <= settings.pivot_support or form.deadline.has_passed(form.step_flops):
            return None
        solved = form.equalise(S)
        if solved is None:
            return None
        positive = S & (solved.x > 0.0)
        if np.array_equal(positive, S):
            return S, solved
        S = positive
    return None


class _Support:
    """S, its multipliers, and the inverse of its bordered Gram matrix, kept by rank-one updates.

    The matrix is [[0, Y_Sᵀ], [Y_S, K_SS]]. Its rows and columns have slots, the first r of them for
    the intercepts; slots that nobody holds are zero in the inverse, in λ and in `members`.
    """

    def __init__(self, form: GramForm, S: np.ndarray, point: Point) -> None:
        self.form, self.p = form, point.p
        self.r = form.Y.shape[1]
        first = np.flatnonzero(S)
        self.size = self.r + first.size  # slots in use
        slots = self.r + min(form.m, first.size + form.settings.pivot_room)
        self.members = np.zeros(slots, np.intp)
        self.members[self.r : self.size] = first
        self.lam = np.zeros(slots)
        self.lam[self.r : self.size] = point.x[first]
        matrix = np.zeros((self.size, self.size))
        matrix[self.r :, : self.r] = form.Y[first]
        matrix[: self.r, self.r :] = form.Y[first].T
        matrix[self.r :, self.r :] = form.K[np.ix_(first, first)]
        self.inverse = np.zeros((slots, slots), order="F")
        self.inverse[: self.size, : self.size] = np.linalg.inv(matrix)

    @property
    def support(self) -> np.ndarray:
        """The rows of S."""
        return self.members[self.r : self.size]

    def mask(self) -> np.ndarray:
        S = np.zeros(self.form.m, bool)
        S[self.support] = True
        return S

    def take_in_violators(self, left: int) -> int:
        """Pivots until no row is below the margin; how many are left then, −1 where too few."""
        while True:
            outside = self.p.copy()
            outside[self.support] = np.inf
            j = int(outside.argmin())
            if outside[j] >= SATISFIED:
                return left
            left = self._enter(j, left)
            if left < 0:
                return left

    def _enter(self, j: int, left: int) -> int:
        """Raise λ_j from zero until its margin is 1; rows whose λ falls to zero leave."""
        form, weight = self.form, 0.0
        while left > 0 and not form.deadline.has_passed():
            left -= 1
            column = np.zeros(self.members.size)
            column[: self.r] = form.Y[j]
            column[self.r : self.size] = form.K[j, self.support]
            u = self.inverse @ column
            curvature = float(form.K[j, j] - column @ u)
            full = math.inf
            if curvature > form.smallest_pivot:
                full = (1.0 - float(self.p[j])) / curvature
            times = np.full(u.size, np.inf)
            falls = u > 0.0
            falls[: self.r] = False
            np.divide(self.lam, u, out=times, where=falls)
            slot = int(times.argmin())
            t = min(full, float(times[slot]))
            if not t < math.inf:  # nothing separates these rows, or rounding has won
                return -1
            self._move(j, t, u)
            weight += t
            if full <= times[slot]:
                return left if self._add(j, weight, u, curvature) else -1
            if not self._drop(slot):
                return -1
        return -1

    def _move(self, j: int, t: float, u: np.ndarray) -> None:
        form, step = self.form, np.zeros(self.form.m)
        step[self.support] = -t * u[self.r : self.size]
        step[j] = t
        self.lam[self.r :] -= t * u[self.r :]
        self.p = self.p + matvec(form.K, step)
        if self.r:
            self.p -= t * (form.Y @ u[: self.r])

    def _add(self, j: int, weight: float, u: np.ndarray, curvature: float) -> bool:
        """Whether there was a slot for row j."""
        if self.size == self.members.size:
            return False
        u[self.size] = -1.0
        self.inverse = blas.dger(1.0 / curvature, u, u, a=self.inverse, overwrite_a=1)
        self.members[self.size], self.lam[self.size] = j, weight
        self.size += 1
        return True

    def _drop(self, slot: int) -> bool:
        """Whether the row in a slot could leave; the last one moves there."""
        last = self.size - 1
        inverse = self.inverse
        pivot = float(inverse[slot, slot])
        if not pivot > 0.0 or self.size == self.r + 1:
            return False
        for values in (inverse, inverse.T, self.members, self.lam):
            values[[slot, last]] = values[[last, slot]]
        column = inverse[:, last].copy()
        self.inverse = blas.dger(-1.0 / pivot, column, column, a=inverse, overwrite_a=1)
        self.inverse[last, :] = self.inverse[:, last] = 0.0  # but for rounding they are
        self.members[last], self.lam[last] = 0, 0.0
        self.size = last
        return True
