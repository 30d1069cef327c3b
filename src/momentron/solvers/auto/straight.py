"""The straight path: all the rows of a problem that fits a cache, one after another.

The dual method of Goldfarb and Idnani (1983) in the space of w: the row with the smallest margin
joins the support, those whose multipliers it would push below zero leave first, until no row is
below the margin. Two small products and an update per pivot, no ranking, no forms: what a problem
of some hundred rows takes elsewhere is mostly Python's own time.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.phases import End, Phase, Reason, Search

SATISFIED = 1.0 - 1e-11  # a functional margin of 1, but for rounding
NOTHING = 1e-12  # of a unit of the entering weight: what rounding may have left of a zero
FRESH_STARTS = 4  # runs of pivots, each from an inverse made anew
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
        X, signs = sets.centred_matrix(search.W)
        path = _Path(X, signs, sets.fits_intercept, settings.straight_singular)
        before, most = search.answer, settings.straight_pivots + 10 * sets.width
        for _ in range(FRESH_STARTS):
            most = path.run(most)
            if most <= 0 and not path.is_witness:
                break
            b = path.b - sets.shift_of(path.w) if sets.fits_intercept else before.b
            upper = None if path.is_witness else path.upper()
            search.set_answer(path.w, b, path.weights(), is_exact=True, upper=upper)
            if self._is_settled(search, path):
                return End(Reason.WITNESS if path.is_witness else Reason.SOLVED)
            if path.is_witness or not path.renew():
                break
        search.answer = before
        return self.otherwise.advance(search)

    def _is_settled(self, search: Search, path: "_Path") -> bool:
        """Whether the answer is a witness, or closes the gap as far as is asked for."""
        answer, radius = search.answer, search.sets.operator.radius
        if path.is_witness:
            return answer.upper <= search.settings.vanished * radius
        is_closed = answer.upper - answer.lower <= search.goal * answer.upper
        return is_closed and 2e-15 * radius <= search.tol * answer.lower


class _Path:
    """A support with its multipliers, and what a row that enters it would change.

    With v = (w, b), a = y x and n = (a, y) a margin is n·v. On the support, N, raising the
    multiplier of another row n by t moves v by t H n and the support's λ by −t N* n, where H and N*
    are the operators of Goldfarb and Idnani. They are kept below each other in `operators`, and v
    and −λ in `point`, so that one product tells how all of it moves and one update of rank one
    follows each pivot. Slots that no row holds are zero.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, has_b: bool, singular: float) -> None:
        n, self.width = X.shape
        self.D = D = self.width + has_b
        self.has_b = has_b
        self.rows = np.empty((n, D))
        np.multiply(X, y[:, None], out=self.rows[:, : self.width])
        if has_b:
            self.rows[:, -1] = y
        self.smallest = singular * max(float(np.einsum("ij,ij->i", X, X).max()), 1e-300)
        self.members = [NOBODY] * D  # the rows that hold the slots
        self.operators: np.ndarray = np.zeros((2 * D, D))
        self.operators.ravel()[: self.width * D : D + 1] = 1.0  # H is the identity, but for b
        self.point: np.ndarray = np.zeros(2 * D)
        self.ray: np.ndarray | None = None  # how λ falls where weights cancel
        self.entering = NOBODY

    @property
    def w(self) -> np.ndarray:
        return self.point[: self.width]

    @property
    def b(self) -> np.ndarray:
        return self.point[self.width : self.D]

    @property
    def is_witness(self) -> bool:
        return self.ray is not None

    def weights(self) -> np.ndarray:
        """λ of all the rows, or the weights that cancel."""
        lam = np.zeros(self.rows.shape[0])
        falls = self.point[self.D :] if self.ray is None else self.ray
        for row, fall in zip(self.members, falls.tolist(), strict=True):
            if row != NOBODY:
                lam[row] = max(-fall, 0.0)
        if self.ray is not None:
            lam[self.entering] = 1.0
        return lam

    def upper(self) -> float:
        """‖Σ λ a‖ / Σ λ."""
        slots, support = self._support()
        lam = -self.point[slots]
        total = lam @ support[:, : self.width]
        return math.sqrt(total @ total) / float(lam.sum())

    def run(self, most: int) -> int:
        """Pivots until no row is below the margin; how many are left, 0 where too few.

        They end also where weights cancel, and `is_witness` says so.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.members[0] == NOBODY:
                most = self._begin(most)
            while most > 0 and self.ray is None:
                j, margin = self._worst()
                if margin >= SATISFIED or j in self.members:
                    break
                most = self._enter(j, margin, most)
        return most

    def _worst(self) -> tuple[int, float]:
        """The row with the smallest margin, and that margin."""
        p = self.rows @ self.point[: self.D]
        j = int(p.argmin())
        return j, float(p[j])

    def _begin(self, most: int) -> int:
        """The row that is worst for the mean of all; of each class, where there is an intercept."""
        width = self.width
        A = self.rows[:, :width]
        p = A @ A.sum(axis=0)
        if not self.has_b:
            return self._enter(int(p.argmin()), 0.0, most)
        is_positive = self.rows[:, -1] > 0.0
        first = int(np.where(is_positive, p, np.inf).argmin())
        second = int(np.where(is_positive, np.inf, p).argmin())
        # the first alone holds w = 0, b = 1 with λ = 0; the second's margin is −1 there
        x = A[first]
        self.operators[:width, width] = self.operators[width, :width] = -x
        self.operators[width, width] = x @ x
        self.operators[self.D, width] = self.point[width] = 1.0
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
        if self.has_b:  # b has no curvature
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

    def _support(self) -> tuple[list[int], np.ndarray]:
        """(the places in `point` of the slots that are held, the rows that hold them)."""
        held = [slot for slot, row in enumerate(self.members) if row != NOBODY]
        return [self.D + slot for slot in held], self.rows[[self.members[slot] for slot in held]]

    def renew(self) -> bool:
        """The point with margins of 1 on the support; whether its multipliers are positive."""
        inverse = self._inverse()
        if inverse is None:
            return False
        slots, support = self._support()
        r = self.D - self.width
        solved = inverse[:, r:].sum(axis=1)
        lam = solved[r:]
        if not (lam.min() >= 0.0 and np.isfinite(solved).all()):
            return False
        self.point[: self.width] = lam @ support[:, : self.width]
        self.point[self.width : self.D] = solved[:r]
        self.point[slots] = -lam
        self._set_operators(inverse)
        return True

    def _inverse(self) -> np.ndarray | None:
        """That of [[0, yᵀ], [y, A_S A_Sᵀ]], without the border where there is no intercept."""
        support, r = self._support()[1], self.D - self.width
        B = support[:, : self.width]
        matrix = np.zeros((r + len(B), r + len(B)))
        matrix[r:, r:] = B @ B.T
        matrix[:r, r:], matrix[r:, :r] = support[:, self.width :].T, support[:, self.width :]
        try:
            return np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return None

    def _set_operators(self, inverse: np.ndarray) -> None:
        """H and N* of the support, made anew."""
        D, width, r = self.D, self.width, self.D - self.width
        slots, support = self._support()
        B = support[:, :width]
        borders = np.zeros((r + len(B), D))
        borders[:r, width:] = 1.0
        borders[r:, :width] = B
        changes = inverse @ borders
        self.operators[:] = 0.0
        self.operators[:width, :width] = np.eye(width)
        self.operators[:width] -= B.T @ changes[r:]
        self.operators[width:D] = -changes[:r]
        self.operators[slots] = changes[r:]
