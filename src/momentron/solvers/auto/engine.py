"""What every engine of `auto` offers: rounds, an end, and what it proposes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.base import Candidates, Start


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
