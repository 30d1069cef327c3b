"""The soft margin with the plain hinge: Newton with multipliers, or an interior point where rows
are few.
"""

import math
import warnings
from collections.abc import Callable

import numpy as np

from momentron.arithmetic.threads import one_thread
from momentron.solvers.auto import selection
from momentron.solvers.auto.box_exchange import exchange_in_box, gathered
from momentron.solvers.auto.box_interior import (
    BoxPoint,
    GramBox,
    PrimalBox,
    Values,
    box_interior_point,
)
from momentron.solvers.auto.box_near import updated
from momentron.solvers.auto.box_newton import Smoothed, minimise_smoothed
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.kernel_blocks import KernelBlocks
from momentron.solvers.auto.landmarks import Landmarks
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rank import first_working_set
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.soft_products import (
    has_room_for_factors,
    open_by_products,
    suits_products,
)
from momentron.solvers.auto.working_sets import Answer, WorkingSets
from momentron.solvers.base import Candidates, Primal, Start
from momentron.solvers.convergence import BudgetWarning
from momentron.solvers.problem import Problem


class HingeEngine(Engine):
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
        self.problem, self.tol, self.deadline, self.start = problem, tol, deadline, start
        self.sets = WorkingSets(problem, deadline, settings)
        self.settings = settings
        self.v, self.alpha = problem.zeros(), problem.prices.copy()
        self.values = Values(float(problem.prices.sum()), 0.0)
        self.is_interruptible = True  # w = 0 has an objective, too
        self.answer: Answer | None = None  # of the last round, or of a start
        self.blocks: KernelBlocks | None = None  # while they get on
        self.W = np.arange(self.sets.size)
        self.rounds = 0
        self.goal = self.last_goal = settings.box_share * tol  # the gap to which sets are solved
        self.is_rough = True  # whether the answer, if any, is far from the last one
        price = float(np.mean(problem.prices * problem.row_norms**2))
        self.by_products = suits_products(self.sets, price)  # all the rows, without any factor

    @property
    def _has_all(self) -> bool:
        return self.W.size == self.sets.size

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
        form = self._open()
        if self._suits_newton(form):
            with one_thread():
                alpha, is_closed = self._multiply(form)
            self._take(form, alpha)
            if not (is_closed or self._has_exchanged(form, alpha) or self.deadline.has_passed()):
                self._solve_inside(form)
        else:
            self._solve_inside(form)
        self.is_rough = False
        self._choose_next()

    def _solve_by_products(self) -> None:
        """All the rows, a proposal for each update: the time may end before the next.

        What they leave open is for factors, if there is room for them.
        """
        form = open_by_products(self.sets)
        with one_thread():
            _, is_closed = self._multiply(form, self._take)
        self.by_products = self.is_rough = False
        self.is_done = is_closed or self.deadline.has_passed()
        if not (self.is_done or has_room_for_factors(self.sets)):
            self.is_done = self.deadline.has_refused = True

    def _has_all_at_bounds(self) -> bool:
        """Whether C is so small that all rows are at it, below the margin: two passes tell."""
        sets, prices = self.sets, self.problem.prices
        if self.start is not None or not sets.is_plain or sets.fits_intercept:
            return False
        if prices.sum() * np.mean(sets.operator.row_norms**2) > self.settings.box_small_prices:
            return False
        w = sets.plain_rows(np.arange(sets.size)).combine(prices)
        answer = self._look(w, np.zeros(0), prices)
        self.is_done = bool(answer.p.max() <= 1.0)
        self.answer = answer if self.is_done else None
        return self.is_done

    # --- working sets --------------------------------------------------------------------------

    def _choose_first(self) -> None:
        """All the rows, or those that can matter as far as a start or a sample tells."""
        sets, start, few = self.sets, self.start, self.settings.box_few_values
        if start is not None:
            weights = np.zeros(sets.size)
            weights[: start.q.size] = start.q
            self.answer = sets.evaluate(start.w, start.b, weights, is_exact=False)
            self.is_rough = False
            self._narrow()
        if self._suits_blocks():
            self._begin_blocks()
        elif self.answer is not None:
            if self._has_all and not self._has_room_for_all:
                self.W = sets.smallest(self.answer.p, sets.capacity, self.W[:0])
        elif not self._has_room_for_all or (sets.is_kernel and sets.size > few):
            self.W, self.goal = first_working_set(sets), self.settings.box_settled
        elif sets.is_plain and not (sets.is_wide(sets.size) or self.by_products):
            self._solve_sample()

    @property
    def _has_room_for_all(self) -> bool:
        """Whether one working set may be all the rows: by their features, or by their products."""
        sets, size = self.sets, self.sets.size
        if self.by_products or (sets.is_plain and not sets.is_wide(size)):
            return True
        return size <= sets.capacity

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
        if self.answer is None:
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
        self.answer = self.sets.evaluate(w, blocks.b, blocks.alpha, is_exact=True)
        self._propose(w, blocks.b, blocks.alpha, values)
        self.is_done = values.gap <= self.last_goal or self.deadline.has_passed()
        if blocks.is_stuck and not self.is_done:
            self.blocks, self.is_rough = None, False
            self._narrow()
            if self.W.size > self.sets.capacity:
                self.W = self.sets.smallest(self.answer.p, 1, np.flatnonzero(self.answer.p < 1.0))

    def _solve_sample(self) -> None:
        """A first classifier from some of the rows.

        Their prices are not raised to make up for the others: that would fit the sample too well.
        """
        sets, settings = self.sets, self.settings
        size = max(settings.box_sample, settings.box_sample_ratio * sets.operator.shape[1])
        if sets.size <= settings.box_sample_share * size:
            return
        index = selection.sample(sets.labels.codes, size, np.random.default_rng(0), least=0.0)
        form = PrimalForm(sets.plain_rows(index), self.deadline, settings)
        prices = self.problem.prices[index]
        loss = Smoothed(prices, 0.5 * prices, self._stiffness(form, prices)[0])
        slack, max_steps = settings.box_sample_slack, settings.box_sample_steps
        with one_thread():
            minimise_smoothed(form, loss, slack=slack, max_steps=max_steps, is_first=True)
        self.answer = sets.evaluate(*form.answer(), np.zeros(sets.size), is_exact=False)

    def _narrow(self) -> None:
        """The rows below the margin, and some above; all where that saves little."""
        assert self.answer is not None
        sets, p = self.sets, self.answer.p
        if self.by_products:
            return
        support = np.flatnonzero(p < 1.0 + 1e-9)
        size = max(self.settings.small, int(self.settings.box_room * support.size))
        if (sets.is_plain or sets.is_kernel) and 2 * size < sets.size:
            self.W = sets.smallest(p, size, support)

    def _choose_next(self) -> None:
        """Rows outside that are below the margin join the working set; none, and it is done."""
        assert self.answer is not None
        sets, settings, p = self.sets, self.settings, self.answer.p.copy()
        p[self.W] = np.inf
        n_below = int(np.count_nonzero(p < 1.0 - 1e-9))
        is_last = self.goal <= self.last_goal and (self._has_all or not n_below)
        is_last |= self.values.gap <= 0.5 * self.tol or self.rounds >= settings.rounds
        if is_last or self.deadline.has_passed():
            self.is_done = True
            return
        # a set that leaves rows out need not be solved better than it tells
        self.goal = max(self.last_goal, min(self.goal, settings.box_ahead * self.values.gap))
        if not n_below:
            self.goal = self.last_goal
        elif self.W.size >= sets.capacity:
            self.is_done = True
            self._tell_of_memory()
        else:
            n_near = int(np.count_nonzero(p < 1.0 + settings.box_margin))
            self.W = sets.smallest(p, min(n_near, max(settings.small, self.W.size)), self.W)

    def _tell_of_memory(self) -> None:
        sets, self.deadline.has_refused = self.sets, True
        option = "cache_size" if sets.is_kernel else "max_memory"
        warnings.warn(
            f"{option} allows working sets of {sets.capacity} rows, and more have weight: the "
            f"interval is wider than asked for; raise {option}, or take penalty='squared_hinge'",
            BudgetWarning,
            stacklevel=2,
        )

    # --- Newton with multipliers ---------------------------------------------------------------

    def _suits_newton(self, form: Form) -> bool:
        """Whether there are so many rows that Newton on few of them at a time is faster."""
        if self.answer is not None:
            return True
        few = self.settings.box_few if form.gram is None else self.settings.box_few_values
        return form.m > few

    def _stiffness(self, form: Form, prices: np.ndarray) -> tuple[float, float]:
        """The first and the last σ."""
        price, settings = float(prices.mean()), self.settings
        first, last = (
            min(by_price * price, by_scale / form.scale)
            for by_price, by_scale in (settings.box_first, settings.box_last)
        )
        return first, last

    def _multiply(
        self, form: Form, tell: Callable[[Form, np.ndarray], None] | None = None
    ) -> tuple[np.ndarray, bool]:
        """(α, whether the gap on the working set is closed), by growing stiffness.

        `tell` hears of each better one.
        """
        settings, prices = self.settings, self.problem.prices[self.W]
        alpha, sigma, is_first = self._first_weights(form, prices)
        last = self._stiffness(form, prices)[1]
        goal, best, idle, reach = self.goal, math.inf, 0, math.inf
        found, point = alpha, form.point
        for _ in range(settings.box_updates):
            slack = settings.box_slack if best > settings.box_settled else 0.0
            loss, before = Smoothed(prices, alpha, sigma), form.p
            alpha = updated(form, loss, reach, slack=slack, is_first=is_first)
            is_first, reach = False, settings.box_reach * float(np.abs(form.p - before).mean())
            gap = form_values(form, alpha, prices).gap
            idle = 0 if gap < settings.interior_progress * best else idle + 1
            if gap > settings.box_slow * best:  # the same stiffness again would take long
                last = min(settings.box_growth * last, settings.box_last[1] / form.scale)
            if gap < best:
                best, found, point = gap, alpha, form.point
                if tell is not None:
                    tell(form, alpha)
            if gap <= goal or idle > settings.box_idle or form.deadline.has_passed():
                break
            sigma = min(settings.box_growth * sigma, last)
        form.point = point
        return found, best <= goal

    def _first_weights(self, form: Form, prices: np.ndarray) -> tuple[np.ndarray, float, bool]:
        """(α, σ, whether α says nothing about which rows are between), with the form at a start."""
        first, last = self._stiffness(form, prices)
        is_known = self.answer is not None
        known = self._warm(form, prices) if is_known else np.zeros(form.m)
        if is_known and not self.is_rough:
            return known, last, False
        if form.gram is not None:
            return known, first, False
        sigma = min(self.settings.box_second * first, last) if is_known else first
        # around half the price the smoothed hinge errs as much above the margin as below it
        return 0.5 * prices, sigma, True

    def _warm(self, form: Form, prices: np.ndarray) -> np.ndarray:
        """α of the last answer or of a start, with the form taken there."""
        assert self.answer is not None
        answer, p = self.answer, self.answer.p[self.W]
        known = np.clip(answer.lam[self.W], 0.0, prices)
        self.sets.warm(form, answer.w, answer.b, known)
        return known if self.is_rough else self._sided(p, known, prices)

    def _sided(self, p: np.ndarray, known: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """Weights by the rows' sides, but those of the rows near the margin."""
        # what a margin leaves no doubt of is at its bound, also of another C
        alpha = np.where(p < 1.0, prices, 0.0)
        near = np.abs(p - 1.0) < self.settings.box_near
        alpha[near] = known[near]
        return alpha

    def _has_exchanged(self, form: Form, alpha: np.ndarray) -> bool:
        """Whether the sides are right, so that one linear system gives the last digits."""
        prices = self.problem.prices[self.W]
        with one_thread():
            solved = exchange_in_box(form, gathered(form, alpha, prices), prices)
        if solved is None:
            return False
        self._take(form, solved)
        return form_values(form, solved, prices).gap <= self.goal

    # --- the interior point --------------------------------------------------------------------

    def _solve_inside(self, form: Form) -> None:
        """The working set by the interior point, and then to the last digits."""
        prices = self.problem.prices[self.W]
        with one_thread():
            if form.gram is not None:
                found = self._solve(GramBox(form.gram), form.gram)
            else:
                assert isinstance(form, PrimalForm)
                found = self._solve(PrimalBox(form), form)
        self._take(form, found.alpha)
        cleared = self._cleared(form, found)
        with one_thread():
            alpha = exchange_in_box(form, cleared, prices)
        self._take(form, cleared if alpha is None else alpha)

    def _take(self, form: Form, alpha: np.ndarray) -> None:
        """Look at all the rows, and propose the form's point and α if they are no worse."""
        whole = alpha
        if not self._has_all:
            whole = np.zeros(self.sets.size)
            whole[self.W] = alpha
        w, b = self.sets.answer(form)
        self.answer = self._look(w, b, whole)

    def _look(self, w: np.ndarray, b: np.ndarray, alpha: np.ndarray) -> Answer:
        """All the rows as a classifier and weights see them, which are proposed."""
        answer = self.sets.evaluate(w, b, alpha, is_exact=True)
        norm, q = self.sets.base.norm(w), None
        if alpha.any():
            q = self.sets.dual_set.normalize(alpha)
        length = math.inf if q is None else self.sets.base.dual_norm(q)
        values = values_of(norm, answer.p, q, length, self.problem.prices)
        self._propose(w, b, alpha, values)
        return answer

    def _propose(self, w: np.ndarray, b: np.ndarray, alpha: np.ndarray, values: Values) -> None:
        """If they are no worse than what is proposed so far."""
        if values.gap <= max(self.values.gap, 0.5 * self.tol):
            shift = self.sets.labels.all_intercepts(b) if b.size else 0.0
            self.v, self.alpha, self.values = self.problem.joined(w, shift), alpha, values

    def _solve(self, box: PrimalBox | GramBox, form: PrimalForm | GramForm) -> BoxPoint:
        goal = self.settings.box_gap * self.tol
        if form.step_flops < self.settings.box_cheap:
            goal = min(goal, self.settings.box_least_gap)
        return box_interior_point(box, form, self.problem.prices[self.W], goal)

    def _cleared(self, form: Form, found: BoxPoint) -> np.ndarray:
        """α with zero and C where the other side of the condition is plainly the larger."""
        alpha, prices = found.alpha, self.problem.prices[self.W]
        # α in units of 1/‖a‖², or of C where that is far larger
        unit = np.maximum(1.0 / np.maximum(form.squares, 1e-300), 1e-6 * prices)
        with np.errstate(over="ignore"):  # a row of zeros has no unit of its own
            above, below = alpha / (unit * found.s), (prices - alpha) / (unit * found.xi)
        freedom = np.minimum(above, below)
        is_free = freedom > self.settings.box_clear
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

    def _open(self) -> Form:
        """A form on the working set."""
        sets, size = self.sets, self.sets.size
        if not self._has_all:
            return sets.open(self.W)
        if sets.is_plain and not sets.is_wide(size):
            rows, squares = sets.plain_rows(np.arange(size)), sets.base.row_norms**2
            return PrimalForm(rows, self.deadline, self.settings, borrow=True, squares=squares)
        return sets.open(np.arange(size))

    def candidates(self) -> Candidates:
        """The classifier and α of the last round, with the margins that they claim."""
        radius, (primal, dual) = self.problem.radius, self.values
        lower = 1.0 / math.sqrt(2.0 * primal) if primal > 0.0 else math.inf
        upper = 1.0 / math.sqrt(2.0 * dual) if dual > 0.0 else math.inf
        return Candidates([Primal(self.v, np.array([lower / radius]))], self.alpha, upper / radius)


def form_values(form: Form, alpha: np.ndarray, prices: np.ndarray) -> Values:
    """P and D of a form's point and α, as far as float64 tells."""
    q = form.dual_set.feasible_or_none(alpha)
    length = math.inf if q is None else form.dual_norm(q)
    return values_of(form.norm(), form.p, q, length, prices)


def values_of(
    norm: float, p: np.ndarray, q: np.ndarray | None, length: float, prices: np.ndarray
) -> Values:
    """P of a classifier and D of weights in the dual set, with their ‖Zᵀq‖."""
    # a little longer, as the certificate has it: C times rounding is no slack
    primal = min(
        0.5 * (t * norm) ** 2 + float(prices @ np.maximum(1.0 - t * p, 0.0))
        for t in (1.0, 1.0 + 1e-12, 1.0 + 1e-10)
    )
    if q is None:
        return Values(primal, 0.0)
    used = q > 0.0
    most = float(np.min(prices[used] / q[used]))
    scale = min(most, 1.0 / length**2) if length > 0.0 else most
    return Values(primal, scale - 0.5 * (scale * length) ** 2)
