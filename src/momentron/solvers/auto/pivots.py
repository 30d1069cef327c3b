"""The hard margin by pivots: one row at a time joins the support or leaves it.

The dual method of Goldfarb and Idnani (1983). On the support S multipliers are positive and
functional margins are 1; the rows below the margin enter one after another, and what their entrance
would push below zero leaves first. On a Gram matrix, from a support that is nearly right, this
takes a few pivots per violator, also where there are as many support vectors as features: there an
exchange of many rows at once leaves a singular matrix. On few short rows pivots alone solve the
problem, from an empty support: other ways would mostly take Python's own time.
"""

import math

import numpy as np
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.exchange import MOST_FREE, SINGULAR, equalise, exchange, gathered
from momentron.solvers.auto.forms import VANISHED, Point
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.search import Search
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

SATISFIED = 1.0 - 1e-12  # a functional margin of 1, but for rounding,
SHORT_SATISFIED = 1.0 - 1e-11  # and with margins from the rows themselves
SHORT_SINGULAR = 1e-10  # a pivot in units of the longest ‖a‖², at which a row is a combination
NOTHING = 1e-12  # of a unit of the entering weight: what rounding may have left of a zero
CORRECTIONS = 3  # runs of pivots on a Gram matrix, each from margins computed again,
FRESH_STARTS = 4  # and on short rows
SHORT = 24  # features up to which all rows are solved by pivots
CROWDED = 0.85  # support vectors, as a share of the rank, from which exchanges have no room
NOBODY = -1  # the holder of a slot that is free
DROPS = 5  # solves in which rows without weight are dropped


def few_violators(size: int) -> int:
    """As many as pivots are worth for a support of that size: with more, others are faster."""
    return 10 + size // 10


def solve_by_exchange(
    form: GramForm, lam: np.ndarray, tol: float, rank: int, settings: AutoSettings = SETTINGS
) -> np.ndarray | None:
    """λ from the support of the one given, by exchanges or pivots; None where the gap stays open.

    More rows than the rank have a singular Gram matrix, and are not tried; with nearly as many,
    exchanges are not. Of rows that are there twice one is enough, and two are singular.
    """
    support, point = lam > 0.0, form.point
    size = np.count_nonzero(support)
    if size <= rank and form.bounds(lam).gap <= tol:
        return lam
    exchanged = _exchanged(form, support, rank, settings)
    if exchanged is None:
        single = gathered(form, lam) > 0.0
        if np.count_nonzero(single) < size:
            exchanged = _exchanged(form, single, rank, settings)
    if exchanged is None:
        return None
    bounds = form.bounds(exchanged)
    if not form.shows(tol, bounds.upper):
        bounds = form.true_bounds(exchanged)
    if bounds.gap <= tol:
        return exchanged
    form.point = point
    return None


def _exchanged(
    form: GramForm, support: np.ndarray, rank: int, settings: AutoSettings
) -> np.ndarray | None:
    """λ by exchanges, or by pivots; None where neither gets there.

    A kernel has no end of features, and exchanges have room in it however many rows there are.
    """
    size = np.count_nonzero(support)
    if size > rank:
        return None
    has_room = not form.is_explicit or size <= CROWDED * rank
    exchanged = exchange(form, support) if has_room else None
    return pivot(form, support, settings) if exchanged is None else exchanged


def pivot(form: GramForm, S: np.ndarray, settings: AutoSettings = SETTINGS) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where pivots do not get there.

    Parameters
    ----------
    form : GramForm
    S : ndarray of bool, shape (m,)
        A guess of the support, nearly right.
    settings : AutoSettings
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
        first = np.flatnonzero(S)
        if violators > few_violators(first.size):
            return None
        slots = min(form.m, first.size + settings.pivot_room)
        smallest = SINGULAR * form.scale
        support = Support(form.K, form.Y, form.squares, slots, smallest, is_gram=True)
        if not support.take(first):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            left = support.run(left, SATISFIED)
        if left <= 0 or support.ray is not None:
            return None
        S = np.zeros(form.m, bool)
        S[support.members] = True
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
    the intercepts; slots that no row holds are zero in the inverse and in `x`.

    Parameters
    ----------
    rows : ndarray
        K, or the signed rows a where K = aaᵀ and r ≤ 1.
    Y : ndarray, shape (m, r)
    squares : ndarray, shape (m,)
        The diagonal of K.
    slots : int
    smallest : float
        The pivot at which a row is a combination of others.
    is_gram : bool
        Whether `rows` is K.

    Attributes
    ----------
    x : ndarray
        b, and the multipliers of the slots.
    ray : ndarray, optional
        Weights of all rows that cancel, where pivots have met such.
    """

    def __init__(
        self,
        rows: np.ndarray,
        Y: np.ndarray,
        squares: np.ndarray,
        slots: int,
        smallest: float,
        *,
        is_gram: bool,
    ) -> None:
        self.rows, self.Y, self.squares, self.smallest = rows, Y, squares, smallest
        self.r = r = Y.shape[1]
        self._holders = [NOBODY] * slots
        self.x = np.zeros(r + slots)
        self.inverse = np.zeros((r + slots, r + slots), order="F")
        # the border and the rows of the slots, whose products with (a, y) are those of the matrix
        self._bordered = None if is_gram else np.concatenate((rows, Y), axis=1)
        self._width = width = rows.shape[1]
        self._held = np.zeros((r + slots, width if is_gram else width + r))
        self._held[:r, 0 if is_gram else width :] = Y.T if is_gram else 1.0
        self.ray: np.ndarray | None = None

    @property
    def slots(self) -> list[int]:
        """Those that rows hold."""
        return [slot for slot, row in enumerate(self._holders) if row != NOBODY]

    @property
    def members(self) -> list[int]:
        """The rows of S."""
        return [row for row in self._holders if row != NOBODY]

    @property
    def lam(self) -> np.ndarray:
        """Their multipliers."""
        return self.x[self.r :][self.slots]

    def _products(self, j: int | list[int]) -> np.ndarray:
        """Of row j, or of several, with the border and the rows of the slots."""
        if self._bordered is None:
            return self._held[:, j]
        return self._held @ self._bordered[j].T

    def margins(self) -> np.ndarray:
        """Of all the rows."""
        total = self.x @ self._held
        return total if self._bordered is None else self._bordered @ total

    def take(self, members: np.ndarray) -> bool:
        """Begin with these rows, at margins of 1; False where that is not possible with λ ≥ 0."""
        self._holders[: members.size] = members.tolist()
        self._held[self.r : self.r + members.size, : self._width] = self.rows[members]
        return self.renew()

    def begin(self, p: np.ndarray, left: int) -> int:
        """Begin with the row that has the smallest p, with an intercept one of each class."""
        if not self.r:
            return self._enter(int(p.argmin()), 0.0, left)
        is_positive = self.Y[:, 0] > 0.0
        first = int(np.where(is_positive, p, np.inf).argmin())
        second = int(np.where(is_positive, np.inf, p).argmin())
        # the first alone holds w = 0, b = 1 with λ = 0; the second's margin is −1 there
        self.x[0] = self.inverse[0, 1] = self.inverse[1, 0] = 1.0
        self.inverse[0, 0] = -self.squares[first]
        self._hold(0, first)
        return self._enter(second, -1.0, left)

    def _hold(self, slot: int, j: int) -> None:
        """Give a slot to row j."""
        self._holders[slot] = j
        self._held[self.r + slot, : self._width] = self.rows[j]

    def _invert(self) -> np.ndarray | None:
        """Compute the inverse of the held slots again, and return them; None where singular."""
        r = self.r
        slots = np.array([*range(r), *(r + slot for slot in self.slots)], np.intp)
        matrix = np.zeros((slots.size, slots.size))
        matrix[:, r:] = self._products(self.members)[slots]
        matrix[r:, :r] = matrix[:r, r:].T
        try:
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return None
        self.inverse[:] = 0.0
        self.inverse[slots[:, None], slots] = inverse
        return slots

    def renew(self) -> bool:
        """The point with margins of 1 on S, without what rounding has left; whether λ ≥ 0."""
        slots = self._invert()
        if slots is None:
            return False
        solved = self.inverse[:, slots[self.r :]].sum(axis=1)
        if not (np.isfinite(solved).all() and solved[self.r :].min() >= 0.0):
            return False
        self.x = solved
        return True

    def run(self, left: int, satisfied: float) -> int:
        """Pivots until no row is below the margin; how many are left then, 0 where too few.

        They end also where weights cancel, and `ray` has them.
        """
        while left > 0 and self.ray is None:
            p = self.margins()
            j = int(p.argmin())
            margin = float(p[j])
            if margin >= satisfied or j in self._holders:  # which rounding has left there
                break
            left = self._enter(j, margin, left)
        return left

    def _enter(self, j: int, margin: float, left: int) -> int:
        """Raise λ_j from zero until its margin is 1; rows whose λ falls to zero leave."""
        weight, is_fresh, r = 0.0, False, self.r
        square, column = float(self.squares[j]), self._products(j)
        while left > 0:
            require_time()
            left -= 1
            u = self.inverse @ column
            curvature, falls = square - float(column @ u), u[r:]
            full = (1.0 - margin) / curvature if curvature > self.smallest else math.inf
            times = np.where(falls > NOTHING, self.x[r:] / falls, np.inf)
            slot = int(times.argmin())
            empty = float(times[slot])
            t = min(full, empty)
            if not t < math.inf:  # a combination of the others, whose weights cancel with it
                if is_fresh or self._invert() is None:
                    self.ray = np.zeros(self.Y.shape[0])
                    self.ray[self.members] = np.maximum(-falls[self.slots], 0.0)
                    self.ray[j] = 1.0
                    return left
                is_fresh = True
                continue
            is_fresh = False
            self.x -= t * u
            weight += t
            margin += t * curvature
            if full <= empty:
                return left if self._add(j, weight, u, curvature) else 0
            if not self._drop(slot):
                return 0
        return 0

    def _add(self, j: int, weight: float, u: np.ndarray, curvature: float) -> bool:
        """Whether there was a slot for row j."""
        if NOBODY not in self._holders:
            return False
        slot = self._holders.index(NOBODY)
        u[self.r + slot] = -1.0
        self.inverse = blas.dger(1.0 / curvature, u, u, a=self.inverse, overwrite_a=1)
        self.x[self.r + slot] = weight
        self._hold(slot, j)
        return True

    def _drop(self, slot: int) -> bool:
        """Whether the row in a slot could leave."""
        place = self.r + slot
        column = self.inverse[:, place].copy()
        pivot = float(column[place])
        self._holders[slot] = NOBODY
        if not pivot > 0.0 or max(self._holders) == NOBODY:
            return False
        self.inverse = blas.dger(-1.0 / pivot, column, column, a=self.inverse, overwrite_a=1)
        self.inverse[place] = self.inverse[:, place] = 0.0  # but for rounding they are
        self.x[place] = 0.0
        return True


def suits_straight(search: Search) -> bool:
    """Whether the rows are few and short, those of a matrix, and more than the features."""
    sets, settings = search.sets, search.settings
    is_short = sets.width <= SHORT and sets.width < sets.size
    is_few = sets.size * sets.width <= settings.straight_entries
    return is_few and is_short and sets.is_plain and sets.matrix is not None


def solve_straight(search: Search) -> bool:
    """Pivots on all of few short rows; False where they do not close the gap."""
    sets, before = search.sets, search.answer
    X, signs = sets.centred_matrix(search.W)
    A, r = X * signs[:, None], int(sets.fits_intercept)
    squares = np.einsum("ij,ij->i", A, A)
    smallest = SHORT_SINGULAR * max(float(squares.max()), 1e-300)
    Y, slots = signs[:, None][:, :r], sets.width + r
    support = Support(A, Y, squares, slots, smallest, is_gram=False)
    left = search.settings.straight_pivots + 10 * sets.width
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        left = support.begin(A @ A.sum(axis=0), left)
        for _ in range(FRESH_STARTS):
            left = support.run(left, SHORT_SATISFIED)
            if left <= 0 and support.ray is None:
                break
            if _closes_gap(search, A, support):
                return True
            if support.ray is not None or not support.renew():
                break
    search.answer = before
    return False


def _closes_gap(search: Search, A: np.ndarray, support: Support) -> bool:
    """Whether the answer is a witness, or closes the gap as far as requested."""
    sets, radius = search.sets, search.sets.operator.radius
    S, lam = support.members, support.lam
    w, upper = lam @ A[S], None
    weights = np.zeros(search.size) if support.ray is None else support.ray
    if support.ray is None:
        weights[S] = np.maximum(lam, 0.0)
        upper = math.sqrt(w @ w) / float(lam.sum())
    b = support.x[:1] - sets.shift_of(w) if sets.fits_intercept else search.answer.b
    search.set_answer(w, b, weights, is_exact=True, upper=upper)
    answer = search.answer
    if upper is None:
        return answer.upper <= VANISHED * radius
    is_closed = answer.upper - answer.lower <= search.goal * answer.upper
    return is_closed and 2e-15 * radius <= search.tol * answer.lower
