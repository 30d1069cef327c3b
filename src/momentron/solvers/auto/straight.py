"""The straight path: all the rows of a problem that fits a cache, one after another.

The dual method of Goldfarb and Idnani (1983) in the space of w: the row with the smallest margin
joins the support, those whose multipliers it would push below zero leave first, until no row is
below the margin. A few small products per pivot and no ranking, no forms: what a problem of some
hundred rows takes elsewhere is mostly Python's own time.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.clock import require_time
from momentron.solvers.auto.phases import End, Phase, Reason, Search

SATISFIED = 1.0 - 1e-11  # a functional margin of 1, but for rounding
NOTHING = 1e-12  # of a unit of the entering weight: what rounding may have left of a zero
FRESH_STARTS = 4  # solves from an inverse made anew, after pivots


@dataclass(frozen=True)
class SolveStraight(Phase):
    """Pivots on all the rows; where they do not get there, the other way is taken at once.

    Attributes
    ----------
    otherwise : Phase
        How the rows are solved else.
    """

    otherwise: Phase

    @staticmethod
    def suits(search: Search) -> bool:
        """Whether the rows are few and short, those of a matrix, and more than features."""
        sets, settings = search.sets, search.settings
        is_short = sets.width <= settings.straight_width and sets.width < sets.size
        is_few = sets.size * sets.width <= settings.straight_entries
        is_plain = sets.is_plain and sets.matrix is not None and math.inf == search.C
        return is_few and is_short and is_plain

    def advance(self, search: Search) -> Phase:
        sets, settings = search.sets, search.settings
        A, signs = sets.signed_matrix(search.W)
        path = _Path(A, signs if sets.fits_intercept else None, settings.straight_singular)
        is_solved = path.run(settings.straight_pivots + 10 * sets.width)
        before = search.answer
        if is_solved or path.is_witness:
            b = path.b - sets.shift_of(path.w) if sets.fits_intercept else before.b
            search.set_answer(path.w, np.atleast_1d(b), path.weights(), is_exact=True)
            answer, radius = search.answer, sets.operator.radius
            is_closed = answer.upper - answer.lower <= search.goal * answer.upper
            if is_solved and is_closed and 2e-15 * radius <= search.tol * answer.lower:
                return End(Reason.SOLVED)
            if path.is_witness and answer.upper <= settings.vanished * radius:
                return End(Reason.WITNESS)
            search.answer = before
        return self.otherwise.advance(search)


class _Path:
    """A support with its multipliers, and the inverse of its bordered Gram matrix.

    The matrix is [[0, y_Sᵀ], [y_S, A_S A_Sᵀ]], without the border where there is no intercept.
    """

    def __init__(self, A: np.ndarray, y: np.ndarray | None, singular: float) -> None:
        self.A, self.y = A, y
        self.r = int(y is not None)
        self.squares = np.einsum("ij,ij->i", A, A)
        self.smallest = singular * max(float(self.squares.max()), 1e-300)
        self.w, self.b = np.zeros(A.shape[1]), 0.0
        self.members: list[int] = []
        self.lam = np.zeros(0)
        self.inverse: np.ndarray = np.zeros((0, 0))
        self.ray: np.ndarray | None = None  # weights that cancel, of the members and one row more
        self.entering = -1

    @property
    def is_witness(self) -> bool:
        return self.ray is not None

    def weights(self) -> np.ndarray:
        """λ of all the rows, or the weights that cancel."""
        lam = np.zeros(self.A.shape[0])
        if self.ray is None:
            lam[self.members] = self.lam
        else:
            lam[self.members] = self.ray
            lam[self.entering] = 1.0
        return np.maximum(lam, 0.0)

    def run(self, most: int) -> bool:
        """Whether no row is below the margin after so many pivots."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if not self._begin():
                return False
            for _ in range(FRESH_STARTS):
                while most > 0:
                    p = self._margins()
                    j = int(p.argmin())
                    if p[j] >= SATISFIED or j in self.members:
                        break
                    most = self._enter(j, float(p[j]), most)
                    if self.ray is not None:
                        return False
                if most <= 0 or not self._renew():
                    return False
                if self._margins().min() >= SATISFIED:
                    return True
            return False

    def _margins(self) -> np.ndarray:
        p: np.ndarray = self.A @ self.w
        return p if self.y is None else p + self.b * self.y

    def _begin(self) -> bool:
        """The row that is worst for the mean of all; of each class, where there is an intercept."""
        A, y = self.A, self.y
        if y is None:
            first = [int((A @ A.sum(axis=0)).argmin())]
        else:
            is_positive = y > 0.0
            count = float(np.count_nonzero(is_positive))
            shares = np.where(is_positive, 1.0 / count, 1.0 / (y.size - count))
            p = A @ (shares @ A)
            first = [
                int(np.where(is_positive, p, np.inf).argmin()),
                int(np.where(is_positive, np.inf, p).argmin()),
            ]
        self.members = first
        return self._renew()

    def _invert(self) -> bool:
        """Make the inverse anew, which takes away what rounding has left; whether there is one."""
        members, r = self.members, self.r
        B = self.A[members]
        size = r + len(members)
        matrix = np.zeros((size, size))
        matrix[r:, r:] = B @ B.T
        if self.y is not None:
            matrix[0, 1:] = matrix[1:, 0] = self.y[members]
        try:
            self.inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return False
        return True

    def _renew(self) -> bool:
        """The point with margins of 1 on the support; whether its multipliers are positive."""
        r, B = self.r, self.A[self.members]
        if not self._invert():
            return False
        solved = self.inverse[:, r:].sum(axis=1)
        self.lam = solved[r:]
        if not np.isfinite(solved).all() or self.lam.min() < 0.0:
            return False
        self.w, self.b = self.lam @ B, float(solved[0]) if r else 0.0
        return True

    def _enter(self, j: int, margin: float, most: int) -> int:
        """Raise λ_j from zero until its margin is 1; how many pivots are left, 0 where too few."""
        r, a = self.r, self.A[j]
        column = np.empty(r + len(self.members))
        weight, is_fresh = 0.0, False
        while most > 0:
            require_time()
            most -= 1
            B = self.A[self.members]
            column = column[: r + len(self.members)]
            if self.y is not None:
                column[0] = self.y[j]
            np.matmul(B, a, out=column[r:])
            u = self.inverse @ column
            curvature = float(self.squares[j] - column @ u)
            full = (1.0 - margin) / curvature if curvature > self.smallest else math.inf
            falls = u[r:]
            times = np.where(falls > NOTHING, self.lam / falls, np.inf)
            slot = int(times.argmin())
            t = min(full, float(times[slot]))
            if not t < math.inf:  # a combination of the others, whose weights cancel with it
                if not is_fresh and self._invert():
                    is_fresh = True
                    continue
                self.ray, self.entering = -falls, j
                return most
            is_fresh = False
            self.w = self.w + t * (a - falls @ B)
            if r:
                self.b -= t * float(u[0])
            self.lam = self.lam - t * falls
            weight += t
            margin += t * curvature
            if full <= times[slot]:
                self._add(j, weight, u, curvature)
                return most
            if len(self.members) == 1 + r or not self._drop(slot):
                return 0
        return 0

    def _add(self, j: int, weight: float, u: np.ndarray, curvature: float) -> None:
        size = u.size
        inverse = np.empty((size + 1, size + 1))
        scaled = u / curvature
        inverse[:size, :size] = self.inverse + scaled[:, None] * u
        inverse[size, :size] = inverse[:size, size] = -scaled
        inverse[size, size] = 1.0 / curvature
        self.inverse = inverse
        self.members.append(j)
        lam = np.empty(self.lam.size + 1)
        lam[:-1], lam[-1] = self.lam, weight
        self.lam = lam

    def _drop(self, slot: int) -> bool:
        """Whether a member could leave."""
        place = self.r + slot
        pivot = float(self.inverse[place, place])
        if not pivot > 0.0:
            return False
        last, inverse, lam = self.inverse.shape[0] - 1, self.inverse, self.lam
        if place != last:  # the last member takes its slot
            order = np.arange(last + 1)
            order[place], order[last] = last, place
            inverse = inverse[order[:, None], order]
            lam[slot] = lam[-1]
            self.members[slot] = self.members[-1]
        column = inverse[:last, last]
        self.inverse = inverse[:last, :last] - (column / pivot)[:, None] * column
        self.lam = lam[:-1]
        self.members.pop()
        return True
