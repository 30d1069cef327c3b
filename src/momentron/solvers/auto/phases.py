"""What the phases of a hard margin share, and what a phase is: one round, and then the next."""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import numpy as np

from momentron.solvers.auto import selection
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import Answer, WorkingSets
from momentron.solvers.base import Start
from momentron.solvers.convergence import BudgetWarning


@dataclass
class Search:
    """The state of a hard margin: the data's working sets, the one in hand, the current answer."""

    sets: WorkingSets
    tol: float
    W: np.ndarray
    answer: Answer
    C: float = math.inf
    crowded_rounds: int = field(default=0, init=False)

    @classmethod
    def of(cls, sets: WorkingSets, tol: float, C: float = math.inf) -> "Search":
        """At w = 0, with all the rows where they are few, and else none yet."""
        n = sets.size
        w, b = sets.base.zeros(), np.zeros(sets.n_intercepts)
        answer = Answer(sets, w, b, np.zeros(n), sets.no_products(), np.zeros(n))
        return cls(sets, tol, np.arange(n if sets.is_small else 0), answer, C)

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.sets.size

    @property
    def settings(self) -> AutoSettings:
        return self.sets.settings

    @property
    def deadline(self) -> Deadline:
        return self.sets.deadline

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
        if self.has_all:
            known = self.sets.evaluate_by_gram(form, lam) if math.inf == self.C else None
            if known is not None:
                self.answer = known
                return
            weights = lam
        else:
            weights = np.zeros(self.size)
            weights[self.W] = lam
        self.set_answer(*self.sets.answer(form), weights, is_exact=is_exact)

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
        twins = selection.opposite_twins(sets.matrix, sets.signs(slice(None)), self.answer.p)
        if twins is None:
            return False
        self.weigh_alone(twins)
        return True

    def is_crowded(self) -> bool:
        """Whether the memory has held too small a working set for long."""
        sets = self.sets
        if self.W.size < sets.capacity or sets.capacity == self.size:
            return False
        self.crowded_rounds += 1
        if self.crowded_rounds < self.settings.crowded_rounds:
            return False
        support = int(np.count_nonzero(self.answer.lam))
        option = "cache_size" if sets.is_kernel else "max_memory"
        warnings.warn(
            f"{option} allows working sets of {sets.capacity} rows, {support} of which have "
            f"weight, and more are needed: the interval is wider than asked for; raise {option}",
            BudgetWarning,
            stacklevel=2,
        )
        return True

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
        is_rounding = lower > 0.0 and upper - lower < self.settings.rounding_gap * upper
        p = self.answer.p
        return is_rounding and not bool((p[outside] < p[self.W].min()).any())

    def has_nearly_vanished(self) -> bool:
        """Whether the certificate might call the weights a witness."""
        return self.answer.upper <= self.settings.nearly_vanished * self.sets.operator.radius

    def is_worth_refining(self, form: Form) -> bool:
        """Whether the support looks right, but float64 cannot hold the gap that is asked for."""
        if not self.sets.is_plain:
            return False
        lower = self.answer.lower
        if lower <= 0.0 or 8.0 * form.gap_floor(lower) <= self.tol:
            return False
        upper = self.answer.upper
        return upper < math.inf and upper - lower < self.settings.refined_gap * upper


class Reason(Enum):
    """Why there is no next round."""

    SOLVED = "the rows outside the working set change nothing"
    WITNESS = "the weights prove that nothing separates"
    CONTRADICTION = "two equal rows have opposite labels"
    BROKEN = "a factor broke down"
    MEMORY = "cache_size is too small for the working set that is needed"
    ROOM = "neither the time nor the memory left has room for another method"
    REFINED = "the last digits were computed"
    RATIONAL = "rational arithmetic was tried"


class Phase(ABC):
    """A kind of round; the last has a reason why there is none after it."""

    is_end: ClassVar[bool] = False
    is_step: ClassVar[bool] = False  # whether a round is but a step, which has an end of its own
    reason: Reason | None = None

    @abstractmethod
    def advance(self, search: Search) -> "Phase":
        """One round on the search; what comes next."""


@dataclass(frozen=True)
class End(Phase):
    """No further round."""

    is_end = True
    reason: Reason

    def advance(self, search: Search) -> Phase:
        return self


def run(search: Search, phase: Phase) -> None:
    """Round after round to the end."""
    for _ in range(search.settings.rounds):
        phase = phase.advance(search)
        if phase.is_end:
            break
