"""The soft margin with the plain hinge: Newton with multipliers, or an interior point where rows
are few.
"""

import math

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.exchange import exchange, gathered
from momentron.solvers.auto.forms import Form, Values, hinge_values
from momentron.solvers.auto.hard import first_working_set
from momentron.solvers.auto.interior import InteriorPoint, interior_point
from momentron.solvers.auto.landmarks import Landmarks
from momentron.solvers.auto.newton import Loss, Schedule, box_multipliers, minimise
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rows import sample
from momentron.solvers.auto.search import Search
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.soft import (
    has_room_for_factors,
    open_by_products,
    suits_products,
)
from momentron.solvers.auto.soft_kernel import KernelBlocks
from momentron.solvers.auto.working_sets import Answer, WorkingSets
from momentron.solvers.base import Candidates, Primal, Start
from momentron.solvers.problem import Problem

GOAL = 0.25  # the gap to which working sets are solved, as a share of the tolerance
INTERIOR_GOAL = 0.1  # the same of the interior point,
CHEAP, CHEAP_GOAL = 1e7, 1e-14  # and the gap where steps take up to so many operations
SETTLED = 1e-4  # the gap from which minimisations are exact, and to which a first set is solved
UPDATES, NEWTON_STEPS, SLACK = 40, 40, 0.05  # of the multipliers; see `minimise`
GROWTH = 5.0  # of σ. Its first value and its last, as a share of C and in units of 1/mean‖a‖²:
FIRST, LAST = (0.5, 10.0), (100.0, 1e5)
SAMPLE_STEPS, SAMPLE_SLACK = 6, 0.1  # of the first classifier, from a sample of the rows
SMALL_PRICES = 30.0  # ΣC, in units of 1/mean‖a‖², up to which all rows may be at their bounds
ROOM = 1.5  # rows of a working set, as a multiple of those below the margin
ABOVE = 0.02  # how far above the margin rows are that join a working set
AHEAD = 0.02  # the gap to which a set that leaves rows out is solved, as a share of that of all
NEAR = 1e-4  # how near to the margin a row's weight is taken from a start, not from its side
CLEAR = 1e-3  # a weight below this share of its slack, in units of ‖a‖², is zero; at C the same


class HingeEngine(Search):
    """Rounds of working sets: solved, and checked against all the rows, which often are the set.

    Newton with multipliers is fast where many rows are at their bounds; what it leaves open is for
    the interior point, and so are few rows: its answer is made exact.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings,
        start: Start | None = None,
    ) -> None:
        super().__init__(problem, WorkingSets(problem, deadline, settings), tol)
        self.start = start
        self.v, self.alpha = problem.zeros(), problem.prices.copy()
        self.values = Values(float(problem.prices.sum()), 0.0)
        self.is_interruptible = True  # w = 0 has an objective, too
        self.is_known = False  # whether there is an answer, of the last round or of a start
        self.blocks: KernelBlocks | None = None  # while they get on
        self.W = np.arange(self.size)
        self.gap_goal = self.last_goal = GOAL * tol  # the gap to which sets are solved
        self.is_rough = True  # whether the answer, if any, is far from the last one
        price = float(np.mean(problem.prices * problem.row_norms**2))
        self.by_products = suits_products(self.sets, price)  # all the rows, without any factor

    def advance(self) -> None:
        if self.rounds == 0:
            if self._has_all_at_bounds():
                return
            self._choose_first()
        self.rounds += 1
        if self.blocks is not None:
            self._advance_blocks(self.blocks)
            return
        if self.by_products:
            self._solve_by_products()
            return
        form = self.sets.open_all() if self.has_all else self.sets.open(self.W)
        few = self.settings.box_few if form.gram is None else self.settings.box_few_values
        if not self.is_known and form.m <= few:
            self._solve_inside(form)
        else:
            alpha, is_closed = self._multiply(form)
            self._take(form, alpha)
            if not (is_closed or self._has_exchanged(form, alpha) or self.deadline.has_passed()):
                self._solve_inside(form)
        self.is_rough = False
        self._choose_next()

    def _solve_by_products(self) -> None:
        """All the rows, a proposal for each update: the time may end before the next.

        What they leave open is for factors, if there is room for them.
        """
        _, is_closed = self._multiply(open_by_products(self.sets), tells=True)
        self.by_products = self.is_rough = False
        self.is_done = is_closed or self.deadline.has_passed()
        if not (self.is_done or has_room_for_factors(self.sets)):
            self.is_done = self.deadline.has_refused = True

    def _has_all_at_bounds(self) -> bool:
        """Whether C is so small that all rows are at it, below the margin: two passes tell."""
        sets, prices = self.sets, self.problem.prices
        if self.start is not None or not sets.is_plain or sets.fits_intercept:
            return False
        if prices.sum() * np.mean(sets.operator.row_norms**2) > SMALL_PRICES:
            return False
        w = sets.plain_rows(np.arange(sets.size)).combine(prices)
        self.is_done = bool(self._look(w, np.zeros(0), prices).p.max() <= 1.0)
        return self.is_done

    # --- working sets --------------------------------------------------------------------------

    def _choose_first(self) -> None:
        """All the rows, or those that can matter as far as a start or a sample tells."""
        sets, start, few = self.sets, self.start, self.settings.box_few_values
        if start is not None:
            self.set_answer(start.w, start.b, self.weights_of(start), is_exact=False)
            self.is_known, self.is_rough = True, False
            self._narrow()
        has_room = self.by_products or sets.has_room_for_all
        if self._suits_blocks():
            self._begin_blocks()
        elif self.is_known:
            if self.has_all and not has_room:
                self.W = self.smallest(sets.capacity, self.W[:0])
        elif not has_room or (sets.is_kernel and sets.size > few):
            self.W, self.gap_goal = first_working_set(sets), SETTLED
        elif sets.is_plain and not (sets.is_wide(sets.size) or self.by_products):
            self._solve_sample()

    def _suits_blocks(self) -> bool:
        sets = self.sets
        return (
            sets.kernel is not None
            and not sets.labels.is_paired
            and sets.size > min(self.settings.box_few_values, sets.capacity)
            and Landmarks.suit(sets.kernel.kernel.diagonal())
        )

    def _begin_blocks(self) -> None:
        sets, prices = self.sets, self.problem.prices
        self.blocks = KernelBlocks(sets, prices, self.settings, self.tol)
        if not self.is_known:
            self.blocks.begin()
            return
        answer = self.answer
        self.blocks.start(self._sided(answer.p, np.clip(answer.lam, 0.0, prices), prices), answer.b)

    def _advance_blocks(self, blocks: KernelBlocks) -> None:
        """One block; what they leave open is for working sets."""
        blocks.advance(2.0 * self.last_goal * blocks.values.primal)
        is_near = blocks.values.gap <= self.last_goal or blocks.idle > 0
        if is_near and not blocks.is_settled:
            blocks.settle()
        w, values = blocks.classifier(), blocks.values
        self.set_answer(w, blocks.b, blocks.alpha, is_exact=True)
        self.is_known = True
        self._propose(w, blocks.b, blocks.alpha, values)
        self.is_done = values.gap <= self.last_goal or self.deadline.has_passed()
        if blocks.is_stuck and not self.is_done:
            self.blocks, self.is_rough = None, False
            self._narrow()
            if self.W.size > self.sets.capacity:
                self.W = self.smallest(1, np.flatnonzero(self.answer.p < 1.0))

    def _solve_sample(self) -> None:
        """A first classifier from some of the rows.

        Their prices are not raised to make up for the others: that would fit the sample too well.
        """
        sets, settings = self.sets, self.settings
        size = max(settings.box_sample, 5 * sets.operator.shape[1])
        if sets.size <= 4 * size:
            return
        index = sample(sets.labels.codes, size, np.random.default_rng(0), least=0.0)
        form = PrimalForm(sets.plain_rows(index), self.deadline)
        prices = self.problem.prices[index]
        loss = Loss(_stiffness(form, prices, FIRST), prices, 0.5 * prices)
        minimise(form, loss, max_steps=SAMPLE_STEPS, slack=SAMPLE_SLACK)
        self.set_answer(*form.answer(), np.zeros(sets.size), is_exact=False)
        self.is_known = True

    def _narrow(self) -> None:
        """The rows below the margin, and some above; all where that saves little."""
        sets, p = self.sets, self.answer.p
        if self.by_products:
            return
        support = np.flatnonzero(p < 1.0 + 1e-9)
        size = max(self.settings.small, int(ROOM * support.size))
        if (sets.is_plain or sets.is_kernel) and 2 * size < sets.size:
            self.W = self.smallest(size, support)

    def _choose_next(self) -> None:
        """Rows outside that are below the margin join the working set; none, and it is done."""
        sets, settings, p = self.sets, self.settings, self.answer.p.copy()
        p[self.W] = np.inf
        n_below = int(np.count_nonzero(p < 1.0 - 1e-9))
        is_last = self.gap_goal <= self.last_goal and (self.has_all or not n_below)
        is_last |= self.values.gap <= 0.5 * self.tol or self.rounds >= settings.rounds
        if is_last or self.deadline.has_passed():
            self.is_done = True
            return
        # a set that leaves rows out need not be solved better than it tells
        self.gap_goal = max(self.last_goal, min(self.gap_goal, AHEAD * self.values.gap))
        if not n_below:
            self.gap_goal = self.last_goal
        elif self.W.size >= sets.capacity:
            self.is_done = True
            self.tell_of_memory(" or take penalty='squared_hinge'")
        else:
            n_near = int(np.count_nonzero(p < 1.0 + ABOVE))
            self.W = sets.smallest(p, min(n_near, max(settings.small, self.W.size)), self.W)

    # --- Newton with multipliers ---------------------------------------------------------------

    def _multiply(self, form: Form, *, tells: bool = False) -> tuple[np.ndarray, bool]:
        """(α, whether the gap on the working set is closed), by growing stiffness.

        Each better α is proposed where it `tells`.
        """
        prices = self.problem.prices[self.W]
        alpha, sigma, is_first = self._first_weights(form, prices)
        alpha, gap = box_multipliers(
            form,
            Loss(sigma, prices, alpha),
            Schedule(sigma, GROWTH, _stiffness(form, prices, LAST), UPDATES),
            lambda alpha: form.values(alpha, prices).gap,
            self.gap_goal,
            max_steps=NEWTON_STEPS,
            slack=lambda gap: SLACK if gap > SETTLED else 0.0,
            is_first=is_first,
            most_near=min(form.m // 2, self.sets.capacity),
            tell=(lambda alpha: self._take(form, alpha)) if tells else None,
        )
        return alpha, gap <= self.gap_goal

    def _first_weights(self, form: Form, prices: np.ndarray) -> tuple[np.ndarray, float, bool]:
        """(α, σ, whether α says nothing about which rows are between), with the form at a start."""
        first, last = (_stiffness(form, prices, most) for most in (FIRST, LAST))
        known = np.zeros(form.m)
        if self.is_known:
            answer, p = self.answer, self.answer.p[self.W]
            known = np.clip(answer.lam[self.W], 0.0, prices)
            self.sets.warm(form, answer.w, answer.b, known)
            if not self.is_rough:
                return self._sided(p, known, prices), last, False
        if form.gram is not None:
            return known, first, False
        # around half the price the smoothed hinge errs as much above the margin as below it
        return 0.5 * prices, min(2.0 * first, last) if self.is_known else first, True

    def _sided(self, p: np.ndarray, known: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """Weights by the rows' sides, but those of the rows near the margin."""
        # what a margin leaves no doubt of is at its bound, also of another C
        alpha = np.where(p < 1.0, prices, 0.0)
        near = np.abs(p - 1.0) < NEAR
        alpha[near] = known[near]
        return alpha

    def _has_exchanged(self, form: Form, alpha: np.ndarray) -> bool:
        """Whether the sides are right, so that one linear system gives the last digits."""
        prices = self.problem.prices[self.W]
        solved = _exchanged(form, gathered(form, alpha, prices), prices)
        if solved is None:
            return False
        self._take(form, solved)
        return form.values(solved, prices).gap <= self.gap_goal

    # --- the interior point --------------------------------------------------------------------

    def _solve_inside(self, form: Form) -> None:
        """The working set by the interior point, and then to the last digits."""
        prices, goal = self.problem.prices[self.W], INTERIOR_GOAL * self.tol
        if form.step_flops < CHEAP:
            goal = min(goal, CHEAP_GOAL)
        found = interior_point(form, goal, prices)
        self._take(form, found.alpha)
        cleared = self._cleared(form, found)
        alpha = _exchanged(form, cleared, prices)
        self._take(form, cleared if alpha is None else alpha)

    def _cleared(self, form: Form, found: InteriorPoint) -> np.ndarray:
        """α with zero and C where the other side of the condition is plainly the larger."""
        alpha, prices = found.alpha, self.problem.prices[self.W]
        # α in units of 1/‖a‖², or of C where that is far larger
        unit = np.maximum(1.0 / np.maximum(form.squares, 1e-300), 1e-6 * prices)
        with np.errstate(over="ignore"):  # a row of zeros has no unit of its own
            above, below = alpha / (unit * found.s), (prices - alpha) / (unit * found.xi)
        freedom = np.minimum(above, below)
        is_free = freedom > CLEAR
        nearest = np.where(above < below, 0.0, prices)
        alpha = gathered(form, np.where(is_free, alpha, nearest), prices)
        is_free = (alpha > 0.0) & (alpha < prices)
        freedom = np.where(is_free, freedom, 0.0)
        most = self.sets.width + self.sets.n_intercepts
        if not self.sets.is_kernel and np.count_nonzero(is_free) > most:
            # more rows than that determine nothing more
            is_kept = freedom >= np.partition(freedom, -most)[-most]
            alpha = np.where(is_free & ~is_kept, nearest, alpha)
        return alpha

    # --- proposals -----------------------------------------------------------------------------

    def _take(self, form: Form, alpha: np.ndarray) -> None:
        """Look at all the rows, and propose the form's point and α if they are no worse."""
        self.is_known = True
        self._look(*self.sets.answer(form), self.spread(alpha))

    def _look(self, w: np.ndarray, b: np.ndarray, alpha: np.ndarray) -> Answer:
        """All the rows as a classifier and weights see them, which are proposed."""
        self.set_answer(w, b, alpha, is_exact=True)
        answer = self.answer
        norm, q, length = self.sets.base.norm(w), None, math.inf
        if alpha.any():
            q = self.sets.dual_set.normalize(alpha)
            length = self.sets.base.dual_norm(q)
        self._propose(w, b, alpha, hinge_values(norm, answer.p, q, length, self.problem.prices))
        return answer

    def _propose(self, w: np.ndarray, b: np.ndarray, alpha: np.ndarray, values: Values) -> None:
        """If they are no worse than what is proposed so far."""
        if values.gap <= max(self.values.gap, 0.5 * self.tol):
            shift = self.sets.labels.all_intercepts(b) if b.size else 0.0
            self.v, self.alpha, self.values = self.problem.joined(w, shift), alpha, values

    def candidates(self) -> Candidates:
        """The classifier and α of the last round, with the margins that they claim."""
        radius, (primal, dual) = self.problem.radius, self.values
        lower = 1.0 / math.sqrt(2.0 * primal) if primal > 0.0 else math.inf
        upper = 1.0 / math.sqrt(2.0 * dual) if dual > 0.0 else math.inf
        return Candidates([Primal(self.v, np.array([lower / radius]))], self.alpha, upper / radius)


def _exchanged(form: Form, alpha: np.ndarray, prices: np.ndarray) -> np.ndarray | None:
    return exchange(form, (alpha > 0.0) & (alpha < prices), alpha >= prices, prices)


def _stiffness(form: Form, prices: np.ndarray, most: tuple[float, float]) -> float:
    """σ of a share of C, or in units of 1/mean‖a‖² where that is less."""
    by_price, by_scale = most
    return min(by_price * float(prices.mean()), by_scale / form.scale)
