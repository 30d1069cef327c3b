"""When a working-set solve must end: the clock's deadline, in flops, and whether it was met."""

from momentron.clock import OutOfTime, time_left

FLOPS = 2e10  # a cautious rate at which this kind of machine multiplies matrices


class Deadline:
    """The clock's, for working-set solves, which think in flops and remember that it was met."""

    def __init__(self) -> None:
        self.was_met = False

    def has_passed(self, flops: float = 0.0) -> bool:
        """Whether it has, or will have before that much arithmetic is done."""
        if time_left() < flops / FLOPS:
            self.was_met = True
        return self.was_met

    def require(self, flops: float) -> None:
        """Raise OutOfTime where that much arithmetic is more than there is time for."""
        if self.has_passed(flops):
            raise OutOfTime
