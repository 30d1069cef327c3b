"""How a solve ended, and which classifier it left; as text, what the user reads."""

from enum import StrEnum


class Status(StrEnum):
    """Why the loop stopped; as text, the sentence that the user reads.

    Attributes
    ----------
    OPTIMAL
        The certified gap is within the tolerance.
    NOT_SEPARABLE
        No classifier has a margin above the tolerance; dual weights prove it.
    ITERATION_BUDGET
        `max_iter` was reached first. The interval is valid, but wider than asked for.
    TIME_BUDGET
        `max_time` was reached first, likewise.
    STOPPED
        The callback stopped it.
    INTERRUPTED
        The user stopped it.
    NO_ROOM
        The next step was not begun: it would have exceeded the time left of `max_time`, or the
        memory allowed.
    STALLED
        Rounding errors allow no smaller gap.
    """

    OPTIMAL = "certified optimal: the gap is within the tolerance"
    NOT_SEPARABLE = "not separable within tolerance: no classifier has a margin above the tolerance"
    ITERATION_BUDGET = "iteration budget reached before the tolerance"
    TIME_BUDGET = "time budget reached before the tolerance"
    STOPPED = "stopped by the callback"
    INTERRUPTED = "interrupted by the user: this is the best found so far"
    NO_ROOM = "stopped early: the next step would not have fitted into the time or memory left"
    STALLED = "stalled: rounding errors allow no smaller gap"

    @property
    def is_final(self) -> bool:
        """Whether the question was answered, rather than a budget spent."""
        return self in (Status.OPTIMAL, Status.NOT_SEPARABLE)


class Predictor(StrEnum):
    """Which classifier a result holds: what `predict` uses.

    Attributes
    ----------
    MARGIN
        The one that was asked for: its margin, or its soft margin, is certified.
    BEST_SO_FAR
        The best that the method had found when it ended.
    LOGISTIC
        A logistic regression, since the method found no useful classifier.
    CONSTANT
        The intercepts alone: every row has the same class.
    """

    MARGIN = "the certified maximum-margin classifier"
    BEST_SO_FAR = "the best classifier found so far"
    LOGISTIC = "a logistic regression"
    CONSTANT = "a constant, the same class for every row"
