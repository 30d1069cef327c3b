"""What an engine of `auto` is, and the engine of working sets: an answer for all the rows."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Bounds, Form, Hinge, margin_of
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.problem import Problem
from momentron.solvers.solver import BudgetWarning, Candidates, Primal, Start

# A phase of a search, which yields after every round. It returns whether the search is over: False
# means that the next phase, or one for the last digits, may follow.
Rounds = Generator[None, None, bool]

ABOVE = 0.02  # how far above the margin rows are that join a working set
SUPPORT = 1e-9  # multipliers below this share of the largest are not support
CROWDED_ROUNDS = 6  # solves with as many rows as the memory allows, before giving up
ROUNDING_GAP = 1e-8  # the gap that only rounding keeps open, if no row outside is worse than inside
MOST_SUSPECTS = 50  # pairs of rows that are compared in the search for equal ones


class Engine(ABC):
    """A solve in rounds."""

    deadline: Deadline
    remaining: Iterator[None]  # the rounds to come: it yields after each but the last
    is_done: bool = False  # whether another round would bring nothing

    def advance(self) -> None:
        """One round; raises OutOfTime where the deadline leaves no time for it."""
        self.is_done = bool(next(self.remaining, True))

    @abstractmethod
    def candidates(self) -> Candidates:
        """What the rounds so far propose, in units of R, also after one that was cut short."""

    def successor(self) -> "Engine | None":
        """The engine that goes on after an end without an answer, if any."""
        return None


@dataclass(eq=False)
class Answer:
    """A classifier (w, b) and one multiplier per row, with what a pass over all the rows found.

    Bounds of the margin, hard or soft, are computed when they are asked for; nothing else changes.
    """

    problem: Problem
    loss: Hinge
    w: np.ndarray
    b: np.ndarray
    lam: np.ndarray
    products: np.ndarray  # Xw
    p: np.ndarray  # functional margins

    @cached_property
    def upper(self) -> float:
        """That of the multipliers: of a hard margin ‖Zᵀq‖, normalised."""
        if not (self.lam > 0.0).any():
            return math.inf
        q = self.problem.dual_set.normalize(self.lam)
        return self.loss.shortest(q, self.problem.dual_norm(q))

    @cached_property
    def lower(self) -> float:
        """The margin of w, with the best intercepts where it is hard."""
        norm = self.problem.base.norm(self.w)
        if self.problem.is_soft:
            return margin_of(self.loss.primal(norm, self.p))
        return self.problem.dual_set.worst(self.p) / norm if norm > 0.0 else -math.inf

    @property
    def gap(self) -> float:
        """The relative gap of both."""
        return Bounds(self.lower, self.upper).gap


class Search(Engine):
    """A margin by working sets; at w = 0 at first, with all the rows in hand where they are few."""

    def __init__(
        self,
        problem: Problem,
        tol: float,
        deadline: Deadline,
        settings: AutoSettings,
        start: Start | None = None,
    ) -> None:
        self.problem, self.tol, self.start = problem, tol, start
        self.sets = sets = WorkingSets(problem, deadline, settings)
        self.settings, self.deadline, self.size = settings, deadline, sets.size
        self.goal = tol / 4.0  # the gap to which working sets are solved
        # the largest number of rows of which none is a combination of others
        self.rank = sets.width + sets.n_intercepts
        w, b = sets.base.zeros(), np.zeros(sets.n_intercepts)
        products, zeros = sets.labels.zeros(sets.operator.shape[0]), np.zeros(self.size)
        # what slack costs: that of the largest σ, which is infinite without any
        penalty = problem.penalty
        self.loss = Hinge(penalty.stiffness, penalty.upper, shares=penalty.shares)
        self.answer = Answer(problem, self.loss, w, b, zeros, products, zeros)
        self.answer.upper = math.inf  # weights of zero bound nothing: known without a look
        self.W = np.arange(self.size if sets.is_small else 0)  # the rows in hand
        self.crowded_rounds = 0
        self.remaining = islice(self.all_rounds(), settings.rounds)
        # (w, q) with more digits than float64 has
        self.refined: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the rows."""
        return self.W.size == self.size

    @abstractmethod
    def all_rounds(self) -> Iterator[None]:
        """The rounds, from the first."""

    # --- which rows ----------------------------------------------------------------------------

    def take_start(self) -> bool:
        """Begin at the start's classifier, if there is one, and its weights: zero on new rows.

        They are scaled to α with w = Aᵀα where no box gives them a unit.
        """
        start, base = self.start, self.sets.base
        if start is None or not np.any(start.w):
            return False
        weights = np.zeros(self.size)
        weights[: start.q.size] = start.q
        length = base.dual_norm(weights) if weights.any() else 0.0
        if length > 0.0 and not self.problem.penalty.has_box:
            weights *= base.norm(start.w) / length
        self.set_answer(start.w, start.b, weights, is_exact=False)
        return True

    def enlarge(self) -> None:
        """Rows below the margin, and others near it, join the working set; where there is no room,
        those of it leave that have no weight.
        """
        W, lam, capacity = self.W, self.answer.lam, self.sets.capacity
        p = self.outside(W)
        size = int(np.count_nonzero(p < 1.0 + ABOVE))
        if not self.sets.is_kernel:  # where rounds are more expensive than rows
            size = max(size, W.size // 5)
        size = min(size, max(self.settings.small, W.size))
        if W.size + size > capacity:
            W = np.flatnonzero(lam > SUPPORT * float(lam.max()))
            p, size = self.outside(W), capacity - W.size
        self.W = self.smallest(size, W, p)

    def outside(self, W: np.ndarray) -> np.ndarray:
        """Functional margins, infinite on some rows."""
        p = self.answer.p.copy()
        p[W] = np.inf
        return p

    def choose_around(self, kept: np.ndarray, room: float) -> None:
        """A working set with room for so many rows: the others have the smallest margins."""
        self.W = self.smallest(max(self.settings.small, int(room)), kept)

    def smallest(self, size: int, kept: np.ndarray, p: np.ndarray | None = None) -> np.ndarray:
        """The rows with the smallest margins, some of every class, and those kept, in order; as
        many as there is room for.
        """
        p = self.answer.p if p is None else p
        pick = np.zeros(p.size, bool)
        pick[self.sets.dual_set.lowest(p, max(size, 1))] = pick[kept] = True
        W = np.flatnonzero(pick)
        if W.size > self.sets.capacity:
            is_new = ~np.isin(W, kept)
            W = np.sort(W[np.lexsort((p[W], is_new))[: self.sets.capacity]])
        return W

    # --- between the answer and a form ---------------------------------------------------------

    def open(self, *, is_rough: bool = False) -> Form:
        """A form on the working set, at the current answer."""
        form = self.sets.open(self.W, is_rough=is_rough)
        self.warm(form)
        return form

    def warm(self, form: Form, u: np.ndarray | None = None) -> None:
        """Move a form on the working set to the current answer, where w = Aᵀu."""
        w, b = self.answer.w, self.answer.b + self.sets.shift_of(self.answer.w)
        form.warm(w.ravel(), b, self.coefficients()[self.W] if u is None else u)

    def coefficients(self) -> np.ndarray:
        """u with w = Aᵀu, if a kernel's w tells it; else the multipliers, which are near it."""
        sets = self.sets
        if sets.kernel is None or sets.labels.is_paired:
            return self.answer.lam
        return sets.signs(slice(None)) * sets.kernel.coefficients(self.answer.w)

    def close(
        self, form: Form, lam: np.ndarray, upper: float | None = None, *, is_exact: bool = True
    ) -> None:
        """Take over the form's point, and pass over all the rows."""
        weights = np.bincount(self.W, lam, self.size)
        w, b = form.answer()
        if self.sets.labels.is_paired and not self.sets.is_kernel:
            w = w.reshape(self.sets.operator.shape[1], -1)
        b = b - self.sets.shift_of(w)
        self.set_answer(w, b, weights, is_exact=is_exact, upper=upper)

    def set_answer(
        self,
        w: np.ndarray,
        b: np.ndarray,
        lam: np.ndarray,
        *,
        is_exact: bool,
        upper: float | None = None,
    ) -> None:
        """Take a classifier and multipliers as the answer: one pass over all the rows.

        `is_exact` asks for float64, of kernel values in every row that single precision cannot
        place clearly above the margin; `upper` is the bound of the multipliers, if it is known.
        """
        operator, labels = self.sets.operator, self.sets.labels
        if is_exact and not self.sets.is_kernel:
            products, operator.passes = operator.scores_in_double(w), operator.passes + 1
        else:
            products = operator.apply(w)
        p = self._margins(products, b)
        errors = operator.single_errors(w) if is_exact else None
        if errors is not None:
            width = 2.0 * errors.reshape(products.shape[0], -1).max(axis=1)
            width = width[labels.examples(np.arange(self.size))]
            w = operator.in_double(w, labels.examples(np.flatnonzero(p - width < 1.01)))
            products = operator.apply(w)
            p = self._margins(products, b)
        self.answer = Answer(self.problem, self.loss, w, b, lam, products, p)
        if upper is not None:
            self.answer.upper = upper

    def _margins(self, products: np.ndarray, b: np.ndarray) -> np.ndarray:
        labels = self.sets.labels
        return -labels.scores(products + labels.all_intercepts(b) if b.size else products)

    def candidates(self) -> Candidates:
        """The classifier and multipliers of the last round, with the margins that they claim."""
        answer, problem, w = self.answer, self.problem, self.answer.w
        scores = problem.labels.scores(answer.products)
        if problem.penalty.has_box:
            b = problem.labels.all_intercepts(answer.b) if answer.b.size else 0.0
            w, scores = problem.joined(w, b), np.array([answer.lower])
        elif problem.is_soft:
            slack = np.maximum(1.0 - answer.p, 0.0)
            w, scores = problem.with_slack(w, slack), scores - slack
        primal, upper = Primal(w, scores / problem.radius), answer.upper / problem.radius
        return Candidates([primal], answer.lam, upper, refined=self.refined)

    # --- what ends the search ------------------------------------------------------------------

    def weigh(self, lam: np.ndarray) -> None:
        """Other multipliers for the same classifier."""
        self.answer = replace(self.answer, lam=lam)

    def is_contradicted(self) -> bool:
        """Whether two equal rows have opposite labels; their weights are the witness then."""
        sets = self.sets
        if not sets.is_plain or sets.matrix is None:
            return False
        p, signs = self.answer.p, sets.signs(slice(None))
        if not (p <= 0.0).any():  # whatever w is, one of the two has p ≤ 0
            return False
        scores = signs * p
        low, high = scores[p <= 0.0].min(), scores[p <= 0.0].max()
        slack = 1e-12 * max(abs(low), abs(high))
        order = np.flatnonzero((scores >= low - slack) & (scores <= high + slack))
        order = order[np.argsort(scores[order], kind="stable")]
        is_near = np.diff(scores[order]) <= slack
        suspects = np.flatnonzero(is_near & (np.diff(signs[order]) != 0.0))
        for place in suspects[:MOST_SUSPECTS]:
            pair = order[place : place + 2]
            if np.array_equal(*sets.matrix.rows(pair)):
                self.weigh(np.bincount(pair, minlength=self.size).astype(float))
                return True
        return False

    def is_crowded(self) -> bool:
        """Whether working sets have long been as large as the memory allows, with a warning."""
        sets = self.sets
        if self.W.size < sets.capacity or sets.capacity == self.size:
            return False
        self.crowded_rounds += 1
        if self.crowded_rounds < CROWDED_ROUNDS:
            return False
        support = int(np.count_nonzero(self.answer.lam))
        option = "cache_size" if sets.is_kernel else "max_memory"
        remedy = " or take penalty='squared_hinge'" if self.problem.penalty.has_box else ""
        warnings.warn(
            f"{option} leaves room for working sets of {sets.capacity} rows only ({support} have "
            f"weight so far): the interval is wider than requested; raise {option}{remedy}",
            BudgetWarning,
            stacklevel=2,
        )
        self.deadline.has_refused = True
        return True

    def is_finished(self, form: Form) -> bool:
        """A witness, every row seen, or no row outside W worse than the worst inside."""
        if self.has_all or self.deadline.has_passed():
            return True
        bounds = Bounds(self.answer.lower, self.answer.upper)
        if form.is_solved(bounds, self.tol):
            return True
        is_rounding = bounds.lower > 0.0 and bounds.gap < ROUNDING_GAP
        return is_rounding and self.outside(self.W).min() >= self.answer.p[self.W].min()
