"""What every engine of `auto` offers: rounds, an end, and what it proposes."""

from abc import ABC, abstractmethod

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.base import Candidates, Start


class Engine(ABC):
    """A solve in rounds.

    Attributes
    ----------
    deadline : Deadline
    is_done : bool
        Whether another round would bring nothing.
    is_interruptible : bool
        Whether what it has can be proposed after a round that was cut short.
    has_given_up : bool
        Whether exact solves should take over, from the beginning if need be.
    """

    deadline: Deadline
    is_done: bool = False
    is_interruptible: bool = False
    has_given_up: bool = False

    @abstractmethod
    def advance(self) -> None:
        """One round; raises OutOfTime where the deadline leaves no time for it."""

    @abstractmethod
    def candidates(self) -> Candidates:
        """What the rounds so far propose, in units of R."""

    def left_off(self) -> Start | None:
        """Where exact solves may go on after an end without an answer; None where they cannot."""
        return None
