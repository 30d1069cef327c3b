"""The straight path: all the rows of a problem that fits a cache, one after another.

The dual method of Goldfarb and Idnani (1983) in the space of w: the row with the smallest margin
joins the support, those whose multipliers it would push below zero leave first, until no row is
below the margin. Two small products and an update per pivot, no ranking, no forms: what a problem
of some hundred rows takes elsewhere is mostly Python's own time.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.clock import require_time
from momentron.solvers.auto.phases import End, Phase, Reason, Search

SATISFIED = 1.0 - 1e-11  # a functional margin of 1, but for rounding
NOTHING = 1e-12  # of a unit of the entering weight: what rounding may have left of a zero
FRESH_STARTS = 4  # solves from an inverse made anew, after pivots
NOBODY = -1  # the holder of a slot that is free


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
    """A support with its multipliers, and what a row that enters it would change.

    With v = (w, b), a = y x and n = (a, y) a margin is n·v. On the support, N, raising the
    multiplier of another row n by t moves v by t H n and the support's λ by −t N* n, where H and N*
    are the operators of Goldfarb and Idnani. They are kept below each other in `operators`, and v
    and −λ in `point`, so that one product tells how all of it moves and one update of rank one
    follows each pivot. Slots that no row holds are zero.
    """

    def __init__(self, A: np.ndarray, y: np.ndarray | None, singular: float) -> None:
        self.rows = A if y is None else np.column_stack((A, y))
        self.y, self.width = y, A.shape[1]
        self.D = self.rows.shape[1]
        self.smallest = singular * max(float(np.einsum("ij,ij->i", A, A).max()), 1e-300)
        self.members = [NOBODY] * self.D  # the rows that hold the slots
        self.operators: np.ndarray = np.zeros((2 * self.D, self.D))
        self.point: np.ndarray = np.zeros(2 * self.D)
        self.ray: np.ndarray | None = None  # how λ falls where weights cancel
        self.entering = NOBODY

    @property
    def w(self) -> np.ndarray:
        return self.point[: self.width]

    @property
    def b(self) -> float:
        return 0.0 if self.y is None else float(self.point[self.width])

    @property
    def is_witness(self) -> bool:
        return self.ray is not None

    @property
    def slots(self) -> list[int]:
        """Those that rows hold."""
        return [slot for slot, row in enumerate(self.members) if row != NOBODY]

    def weights(self) -> np.ndarray:
        """λ of all the rows, or the weights that cancel."""
        lam, slots = np.zeros(self.rows.shape[0]), self.slots
        falls = self.point[self.D :] if self.ray is None else self.ray
        lam[[self.members[slot] for slot in slots]] = np.maximum(-falls[slots], 0.0)
        if self.ray is not None:
            lam[self.entering] = 1.0
        return lam

    def run(self, most: int) -> bool:
        """Whether no row is below the margin after so many pivots."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            most = self._begin(most)
            for _ in range(FRESH_STARTS):
                while most > 0 and self.ray is None:
                    j, margin = self._worst()
                    if margin >= SATISFIED or j in self.members:
                        break
                    most = self._enter(j, margin, most)
                if most <= 0 or self.ray is not None:
                    return False
                inverse = self._inverse()
                if inverse is None or not self._renew(inverse):
                    return False
                j, margin = self._worst()
                if margin >= SATISFIED or j in self.members:
                    return True
                self._set_operators(inverse)
            return False

    def _worst(self) -> tuple[int, float]:
        """The row with the smallest margin, and that margin."""
        p = self.rows @ self.point[: self.D]
        j = int(p.argmin())
        return j, float(p[j])

    def _begin(self, most: int) -> int:
        """The row that is worst for the mean of all; of each class, where there is an intercept."""
        y, D, width = self.y, self.D, self.width
        A = self.rows[:, :width]
        if y is None:
            self.operators[:D] = np.eye(D)
            return self._enter(int((A @ A.sum(axis=0)).argmin()), 0.0, most)
        is_positive = y > 0.0
        count = int(np.count_nonzero(is_positive))
        shares = np.where(is_positive, 1.0 / count, 1.0 / (y.size - count))
        p = A @ (shares @ A)
        first, second = (
            int(np.where(side, p, np.inf).argmin()) for side in (is_positive, ~is_positive)
        )
        # the first alone holds w = 0, b = 1 with λ = 0; the second's margin is −1 there
        x = A[first]
        self.operators[:width, :width] = np.eye(width)
        self.operators[:width, width] = self.operators[width, :width] = -x
        self.operators[width, width] = x @ x
        self.operators[D, width] = self.point[width] = 1.0
        self.members[0] = first
        return self._enter(second, -1.0, most)

    def _enter(self, j: int, margin: float, most: int) -> int:
        """Raise λ_j from zero until its margin is 1; how many pivots are left, 0 where too few."""
        D, row = self.D, self.rows[j]
        weight, is_fresh = 0.0, False
        while most > 0:
            require_time()
            most -= 1
            moves = self.operators @ row
            along, falls = moves[:D], moves[D:]
            curvature = float(along @ row)
            full = (1.0 - margin) / curvature if curvature > self.smallest else math.inf
            times = np.where(falls > NOTHING, self.point[D:] / -falls, np.inf)
            slot = int(times.argmin())
            empty = float(times[slot])
            t = min(full, empty)
            if not t < math.inf:  # a combination of the others, whose weights cancel with it
                inverse = None if is_fresh else self._inverse()
                if inverse is not None:
                    self._set_operators(inverse)
                    is_fresh = True
                    continue
                self.ray, self.entering = falls, j
                return most
            is_fresh = False
            self.point += t * moves
            weight += t
            margin += t * curvature
            if full <= empty:
                return most if self._add(j, weight, moves, curvature) else 0
            if not self._drop(slot):
                return 0
        return 0

    def _add(self, j: int, weight: float, moves: np.ndarray, curvature: float) -> bool:
        """Whether there was a slot for row j."""
        if NOBODY not in self.members:
            return False
        slot = self.members.index(NOBODY)
        self.members[slot] = j
        self.point[self.D + slot] = -weight
        moves[self.D + slot] = -1.0
        self.operators -= moves[:, None] * (moves[: self.D] / curvature)
        return True

    def _drop(self, slot: int) -> bool:
        """Whether the row in a slot could leave."""
        place = self.D + slot
        row = self.operators[place].copy()
        flat = row
        if self.y is not None:  # b has no curvature
            flat = row.copy()
            flat[-1] = 0.0
        moves = self.operators @ flat
        pivot = float(moves[place])
        if not pivot > 0.0:
            return False
        moves[: self.D] = -row
        self.operators -= moves[:, None] * (row / pivot)
        self.operators[place] = 0.0
        self.point[place] = 0.0
        self.members[slot] = NOBODY
        return True

    # --- from the support alone, which takes away what rounding has left -----------------------

    def _support(self) -> np.ndarray:
        return self.rows[[self.members[slot] for slot in self.slots]]

    def _inverse(self) -> np.ndarray | None:
        """That of [[0, yᵀ], [y, A_S A_Sᵀ]], without the border where there is no intercept."""
        support, r = self._support(), self.D - self.width
        B = support[:, : self.width]
        matrix = np.zeros((r + len(B), r + len(B)))
        matrix[r:, r:] = B @ B.T
        if r:
            matrix[0, 1:] = matrix[1:, 0] = support[:, -1]
        try:
            return np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return None

    def _renew(self, inverse: np.ndarray) -> bool:
        """The point with margins of 1 on the support; whether its multipliers are positive."""
        D, width, r = self.D, self.width, self.D - self.width
        solved = inverse[:, r:].sum(axis=1)
        lam = solved[r:]
        if not lam.min() >= 0.0 or not np.isfinite(solved).all():
            return False
        self.point[:width] = lam @ self._support()[:, :width]
        self.point[width:D] = solved[:r]
        self.point[[D + slot for slot in self.slots]] = -lam
        return True

    def _set_operators(self, inverse: np.ndarray) -> None:
        """H and N* of the support, made anew."""
        D, width, r = self.D, self.width, self.D - self.width
        B = self._support()[:, :width]
        borders = np.zeros((r + len(B), D))
        borders[:r, width:] = 1.0
        borders[r:, :width] = B
        changes = inverse @ borders
        self.operators[:] = 0.0
        self.operators[:width, :width] = np.eye(width)
        self.operators[:width] -= B.T @ changes[r:]
        self.operators[width:D] = -changes[:r]
        self.operators[[D + slot for slot in self.slots]] = changes[r:]
