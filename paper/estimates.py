"""Means over seeds or splits with their intervals of confidence, and what these decide."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
"""Of all the intervals that one finding rests on, together."""


@dataclass(frozen=True)
class Estimate:
    """A mean, and the interval that holds the true one with the confidence asked for.

    Attributes
    ----------
    mean, low, high : float
    """

    mean: float
    low: float
    high: float

    def exponential(self) -> "Estimate":
        """Of a logarithm, back to what it is the logarithm of."""
        return Estimate(math.exp(self.mean), math.exp(self.low), math.exp(self.high))

    def __str__(self) -> str:
        return f"{_word(self.mean)} ({_word(self.low)} to {_word(self.high)})"


def estimate(
    values: np.ndarray, *, shared_by: int = 1, overlap: float = 0.0, confidence: float = CONFIDENCE
) -> Estimate:
    """Student's interval of a mean.

    Parameters
    ----------
    values : ndarray
        One number per independent repetition; one alone gives an interval without ends.
    shared_by : int
        So many intervals are to hold together: each errs with a share of the allowance
        (Bonferroni).
    overlap : float
        For repetitions that split the same rows anew: rows tested over rows trained on, by which
        Nadeau and Bengio (2003) widen the interval, since the splits share rows.
    confidence : float

    Examples
    --------
    >>> print(estimate(np.array([1.0, 2.0, 3.0])))
    2.00 (−0.48 to 4.48)
    """
    n, mean = values.size, float(values.mean())
    if n < 2:
        return Estimate(mean, -math.inf, math.inf)
    tail = (1.0 - confidence) / (2.0 * shared_by)
    spread = float(values.std(ddof=1)) * math.sqrt(1.0 / n + overlap)
    reach = float(stdtrit(n - 1, 1.0 - tail)) * spread
    return Estimate(mean, mean - reach, mean + reach)


def words(estimates: Mapping[str, Estimate]) -> dict[str, str]:
    """For a page, where labels end in numbers themselves."""
    return {f"{label}:": str(each) for label, each in estimates.items()}


def all_below(estimates: Iterable[Estimate], limit: float) -> bool | None:
    """True where every interval lies below the limit, False where one lies above it, else None."""
    found = list(estimates)
    if all(each.high < limit for each in found):
        return True
    return False if any(each.low > limit for each in found) else None


def all_within(estimates: Iterable[Estimate], low: float, high: float) -> bool | None:
    """True where every interval lies inside the range, False where one lies outside, else None."""
    found = list(estimates)
    if all(low < each.low and each.high < high for each in found):
        return True
    return False if any(each.low > high or each.high < low for each in found) else None


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of the straight line nearest to the points, by least squares; not a number for one point."""
    if x.size < 2:
        return math.nan
    away = x - x.mean()
    return float(away @ y / (away @ away))


def _word(value: float) -> str:
    """Two digits after the point, and the true minus."""
    return f"{value:.2f}".replace("-", "−")
