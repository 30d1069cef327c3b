"""How a solve ended. The value of a status is the sentence that the user reads."""

from enum import StrEnum


class Status(StrEnum):
    """Why the loop stopped."""

    OPTIMAL = "certified optimal: the gap is within the tolerance"
    BEYOND_FLOAT64 = (
        "certified optimal, but beyond float64: the classifier, rounded, does not separate the rows"
    )
    NOT_SEPARABLE = "not separable within tolerance: no classifier has a larger margin"
    ITERATION_BUDGET = "iteration budget reached before the tolerance"
    TIME_BUDGET = "time budget reached before the tolerance"
    STOPPED = "stopped by the callback"
    INTERRUPTED = "interrupted by the user: this is the best found so far"
    STALLED = "stalled: rounding errors allow no smaller gap"

    @property
    def is_final(self) -> bool:
        """Whether the question was answered, rather than a budget spent."""
        return self in (Status.OPTIMAL, Status.BEYOND_FLOAT64, Status.NOT_SEPARABLE)
