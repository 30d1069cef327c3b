"""What an engine of `auto` is, and that of working sets of rows and pairs: rounds in phases."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.rows import opposite_twins
from momentron.solvers.auto.working_sets import Answer, WorkingSets
from momentron.solvers.base import Candidates, Primal, Start
from momentron.solvers.convergence import BudgetWarning
from momentron.solvers.problem import Problem

SUPPORT = 1e-9  # multipliers below this share of the largest are not support
CROWDED_ROUNDS = 6  # solves with as many rows as the memory allows, before giving up
ROUNDING_GAP = 1e-8  # the gap that only rounding keeps open, if no row outside is worse than inside
REFINED_GAP = 0.1  # the gap, relative to the margin, at which a support looks right
NEARLY_VANISHED = 1e-11  # ‖Zᵀq‖ over the longest row that the certificate might call a witness


class Phase(ABC):
    """A kind of round."""

    is_end: bool = False
    is_final: bool = False  # whether it is an end after which even whole numbers find no more
    is_step: bool = False  # whether a round is but a step, which has an end of its own

    @abstractmethod
    def advance(self, work: Any) -> "Phase":
        """One round of an engine's work; what comes next."""


@dataclass(frozen=True)
class End(Phase):
    """No further round."""

    is_end = True
    is_final: bool = False

    def advance(self, work: Any) -> Phase:
        return self


class Engine(ABC):
    """A solve in rounds.

    Attributes
    ----------
    deadline : Deadline
    phase : Phase
        What the next round does.
    is_done : bool
        Whether another round would bring nothing.
    is_interruptible : bool
        Whether what it has can be proposed after a round that was cut short.
    has_given_up : bool
        Whether exact solves should take over, from the beginning if need be.
    """

    deadline: Deadline
    phase: Phase
    is_done: bool = False
    is_interruptible: bool = False
    has_given_up: bool = False

    def advance(self) -> None:
        """One round; raises OutOfTime where the deadline leaves no time for it."""
        self.phase = self.phase.advance(self)

    @abstractmethod
    def candidates(self) -> Candidates:
        """What the rounds so far propose, in units of R."""

    def left_off(self) -> Start | None:
        """Where exact solves may go on after an end without an answer; None where they cannot."""
        return None


class Search(Engine):
    """A margin by working sets; at w = 0 at first, with all the rows in hand where they are few.

    Parameters
    ----------
    after_floats : callable, optional
        What follows the last phase in floats.

    Attributes
    ----------
    sets : WorkingSets
    W : ndarray
        The rows in hand.
    answer : Answer
    C : float
        The stiffness of the slack, infinite for hard margins.
    """

    def __init__(
        self,
        problem: Problem,
        sets: WorkingSets,
        tol: float,
        after_floats: "Callable[[Search, Phase], Phase] | None" = None,
    ) -> None:
        self.after_floats = after_floats
        self.problem, self.sets, self.tol, self.C = problem, sets, tol, problem.penalty.stiffness
        self.settings, self.deadline, self.size = sets.settings, sets.deadline, sets.size
        w, b = sets.base.zeros(), np.zeros(sets.n_intercepts)
        zeros = np.zeros(self.size)
        self.answer = Answer(sets, w, b, zeros, sets.no_products(), zeros)
        self.W = np.arange(self.size if sets.is_small else 0)
        self.crowded_rounds = self.rounds = 0

    def advance(self) -> None:
        self.rounds += not self.phase.is_step
        try:
            self.phase = self.phase.advance(self)
        except (FloatingPointError, OverflowError, np.linalg.LinAlgError):
            self.phase = End()
        if self.phase.is_end and self.after_floats is not None:
            self.phase = self.after_floats(self, self.phase)
        self.is_done = self.phase.is_end or self.rounds >= self.settings.rounds

    def candidates(self) -> Candidates:
        answer, problem = self.answer, self.problem
        w, scores = answer.w, problem.labels.scores(answer.products)
        if problem.is_soft:
            slack = answer.lam / (problem.penalty.stiffness * problem.penalty.shares)
            w, scores = problem.with_slack(w, slack), scores - slack
        scores = scores / problem.radius
        return Candidates([Primal(w, scores)], answer.lam, answer.upper / problem.radius)

    @property
    def goal(self) -> float:
        """The gap to which working sets are solved."""
        return self.tol / 4.0

    @property
    def rank(self) -> int:
        """The largest number of rows of which none is a combination of others."""
        return self.sets.width + self.sets.n_intercepts

    @property
    def has_all(self) -> bool:
        """Whether the working set is all the rows."""
        return self.W.size == self.size

    def weights_of(self, start: Start) -> np.ndarray:
        """The weights of a start, zero on rows that are new."""
        weights = np.zeros(self.size)
        weights[: start.q.size] = start.q
        return weights

    def smallest(self, size: int, kept: np.ndarray) -> np.ndarray:
        """The rows of smallest margin, and those kept."""
        return self.sets.smallest(self.answer.p, size, kept)

    # --- between the answer and a form ---------------------------------------------------------

    def open(self, *, is_cold: bool, is_rough: bool = False) -> Form:
        """A form on the working set, at the current answer unless cold."""
        form = self.sets.open(self.W, is_rough=is_rough)
        if not is_cold:
            coefficients = self.sets.coefficients(self.W, self.answer)
            self.sets.warm(form, self.answer.w, self.answer.b, coefficients)
        return form

    def close(self, form: Form, lam: np.ndarray, *, is_exact: bool) -> None:
        """Take over the form's point, and pass over all the rows."""
        is_hard = math.inf == self.C
        known = self.sets.evaluate_by_gram(form, lam) if self.has_all and is_hard else None
        if known is not None:
            self.answer = known
            return
        self.set_answer(*self.sets.answer(form), self.spread(lam), is_exact=is_exact)

    def spread(self, lam: np.ndarray) -> np.ndarray:
        """Weights of the working set as those of all the rows."""
        if self.has_all:
            return lam
        weights = np.zeros(self.size)
        weights[self.W] = lam
        return weights

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

        `upper` is ‖Zᵀq‖ for the normalised multipliers, if it is known.
        """
        self.answer = self.sets.evaluate(w, b, lam, is_exact=is_exact)
        self.answer._upper = upper

    # --- what ends the search ------------------------------------------------------------------

    def weigh_alone(self, rows: np.ndarray) -> None:
        """Even weights on some rows, and none elsewhere."""
        lam = np.zeros(self.size)
        lam[rows] = 1.0
        self.answer = self.answer.with_weights(lam)

    def is_contradicted(self) -> bool:
        """Whether two equal rows have opposite labels; their weights are the witness then."""
        sets = self.sets
        if not sets.is_plain or sets.matrix is None:
            return False
        twins = opposite_twins(sets.matrix, sets.signs(slice(None)), self.answer.p)
        if twins is None:
            return False
        self.weigh_alone(twins)
        return True

    def is_crowded(self) -> bool:
        """Whether the memory has held too small a working set for long; then it is said so."""
        sets = self.sets
        if self.W.size < sets.capacity or sets.capacity == self.size:
            return False
        self.crowded_rounds += 1
        if self.crowded_rounds < CROWDED_ROUNDS:
            return False
        self.tell_of_memory()
        return True

    def tell_of_memory(self, remedy: str = "") -> None:
        """Warn that the working sets that the memory allows are too small."""
        sets, support = self.sets, int(np.count_nonzero(self.answer.lam))
        option = "cache_size" if sets.is_kernel else "max_memory"
        warnings.warn(
            f"{option} leaves room for working sets of {sets.capacity} rows only ({support} have "
            f"weight so far): the interval is wider than requested; raise {option}{remedy}",
            BudgetWarning,
            stacklevel=2,
        )
        self.deadline.has_refused = True

    def is_finished(self, form: Form) -> bool:
        """A witness, every row seen, or no row outside W worse than the worst inside."""
        if self.has_all or self.deadline.has_passed():
            return True
        upper = self.answer.upper
        if form.has_vanished(upper):
            return True
        lower = self.answer.lower
        if upper - lower <= max(self.tol, 4.0 * form.gap_floor(upper)) * upper:
            return True
        outside = np.ones(self.size, bool)
        outside[self.W] = False
        is_rounding = lower > 0.0 and upper - lower < ROUNDING_GAP * upper
        p = self.answer.p
        return is_rounding and not bool((p[outside] < p[self.W].min()).any())

    def has_nearly_vanished(self) -> bool:
        """Whether the certificate might call the weights a witness."""
        return self.answer.upper <= NEARLY_VANISHED * self.sets.operator.radius

    def is_worth_refining(self, form: Form) -> bool:
        """Whether the support looks right, but float64 cannot hold the gap that is asked for."""
        if not self.sets.is_plain:
            return False
        lower = self.answer.lower
        if lower <= 0.0 or 8.0 * form.gap_floor(lower) <= self.tol:
            return False
        upper = self.answer.upper
        return upper < math.inf and upper - lower < REFINED_GAP * upper


def run(search: Search, phase: Phase) -> None:
    """Round after round to the end."""
    for _ in range(search.settings.rounds):
        phase = phase.advance(search)
        if phase.is_end:
            break
