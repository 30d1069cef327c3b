"""When a working-set solve must end: the clock's deadline, in flops, and what it has cost."""

from momentron.arithmetic.clock import OutOfTime, time_left

FLOPS = 2e10  # a cautious rate at which this kind of machine multiplies matrices
NEARLY = 0.05  # the share of the time given below which it counts as over


def seconds_of(flops: float) -> float:
    """How long that much arithmetic takes, roughly."""
    return flops / FLOPS


class Deadline:
    """The clock's, for working-set solves, which think in flops and remember what became of it."""

    def __init__(self) -> None:
        self.is_over = False  # whether the time was over, or nearly, when somebody asked
        # whether a step was not begun since the time or the memory left had no room for it
        self.has_refused = False
        self._given = time_left()

    def has_passed(self, flops: float = 0.0) -> bool:
        """Whether it has, or will have before that much arithmetic is done."""
        left = time_left()
        if left < seconds_of(flops):
            if left <= 0.0 or left <= NEARLY * self._given:
                self.is_over = True
            else:
                self.has_refused = True
        return self.is_over or self.has_refused

    def require(self, flops: float) -> None:
        """Raise OutOfTime where that much arithmetic is more than there is time for."""
        if self.has_passed(flops):
            raise OutOfTime
