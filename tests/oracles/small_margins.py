"""Problems with margins from 1e-1 to 1e-250 of the rows' length, known in rational arithmetic."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from momentron import MarginResult, max_margin
from tests.oracles.margins import ExactProblem, signed_square

LEAST, MOST = -250.0, -1.0  # decimal logarithms of the margins over the rows' length
FARTHEST = 12.0  # of an offset


@dataclass(frozen=True)
class Drawn:
    """Rows and labels ±1 that some hyperplane separates, with the square of the best margin."""

    family: str
    X: np.ndarray
    y: np.ndarray
    fit_intercept: bool
    margin_squared: Fraction

    @property
    def decades(self) -> float:
        """The decimal logarithm of the best margin over the longest row."""
        longest = max(sum(Fraction(float(v)) ** 2 for v in row) for row in self.X)
        share = self.margin_squared / longest
        return 0.5 * (_log10(share.numerator) - _log10(share.denominator))


def _log10(whole: int) -> float:
    return math.log10(whole) if whole else -math.inf


def _sizes(rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(4, 30)), int(rng.integers(2, 7))


def _signs(rng: np.random.Generator, n: int) -> np.ndarray:
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = [-1.0, 1.0]
    return y


def units(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features in units of their own, and the one that separates has the smallest numbers."""
    n, d = _sizes(rng)
    y = _signs(rng, n)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3.0, 0.0, d)
    X[:, -1] = y * rng.uniform(1.0, 2.0, n) * 10.0 ** rng.uniform(LEAST, MOST)
    return X[:, rng.permutation(d)], y


def graded(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Columns that shrink evenly to the end of the range, labels by a plane through all of them."""
    n, d = _sizes(rng)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d)
    X *= 10.0 ** np.linspace(0.0, rng.uniform(LEAST, MOST), d)
    return X, np.where(scores > 0.0, 1.0, -1.0)


def tilted(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows close to a plane in general position: their digits decide."""
    n, d = _sizes(rng)
    y = _signs(rng, n)
    X = rng.normal(size=(n, d))
    normal = rng.normal(size=d)
    normal /= np.linalg.norm(normal)
    X -= np.outer(X @ normal, normal)
    heights = y * rng.uniform(1.0, 2.0, n) * 10.0 ** rng.uniform(-15.0, MOST)
    return X + np.outer(heights, normal), y


def offset(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary rows, far away from the origin."""
    X, y = tilted(rng) if rng.random() < 0.3 else _apart(rng)
    return X + 10.0 ** rng.uniform(0.0, FARTHEST) * rng.normal(size=X.shape[1]), y


def _apart(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, d = _sizes(rng)
    y = _signs(rng, n)
    return rng.normal(size=(n, d)) + np.outer(y, rng.normal(size=d)), y


def short_rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of very different lengths, on both sides of a plane through the origin."""
    n, d = _sizes(rng)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d)
    X *= 10.0 ** rng.uniform(rng.uniform(LEAST, MOST), 0.0, (n, 1))
    return X, np.where(scores > 0.0, 1.0, -1.0)


def wide(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """More features than rows, all rows nearly the same."""
    n, d = int(rng.integers(2, 9)), int(rng.integers(9, 20))
    noise = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-15.0, MOST)
    return rng.normal(size=d) + noise, _signs(rng, n)


def scattered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Entries of any size, each its own, labels by a plane."""
    n, d = int(rng.integers(3, 10)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(rng.uniform(LEAST, MOST), 0.0, (n, d))
    return X, np.where(X @ rng.normal(size=d) > 0.0, 1.0, -1.0)


Family = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
FAMILIES: tuple[Family, ...] = (units, graded, tilted, offset, short_rows, wide, scattered)


def drawn(seed: int) -> Drawn:
    """The problem of that number: drawn anew until something separates it."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    while True:
        X, y = family(rng)
        fit_intercept = bool(rng.integers(2)) or family is offset
        if np.unique(y).size < 2:
            continue
        square = ExactProblem(X, y, fit_intercept).optimum().margin_squared
        if square > 0:
            found = Drawn(family.__name__, X, y, fit_intercept, square)
            if found.decades >= LEAST - 5.0:
                return found


def misses(problem: Drawn, result: MarginResult) -> bool:
    """Whether the interval is not true."""
    low, high = signed_square(result.lower), signed_square(result.upper)
    return not low <= problem.margin_squared <= high


def solve(problem: Drawn, tol: float = 1e-6) -> MarginResult:
    """What `max_margin` finds, without its warnings: the status says the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return max_margin(problem.X, problem.y, fit_intercept=problem.fit_intercept, tol=tol)
