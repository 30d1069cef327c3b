"""Sure bounds without any rounding, from a classifier and weights in whole numbers of any size.

Where the best margin is so small beside the rows that float64 and even extended precision see
nothing but their own roundings, both ends are computed from the data as the dyadic rationals that
they are; only the roots at the very end are rounded, outward. Floats do no more than say which rows
cannot decide the margin, with their own errors bounded. For two classes whose rows can be read.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.certificate.bounds import to_user
from momentron.certificate.interval import Certificate
from momentron.certificate.roots import root_down, root_up
from momentron.certificate.roundings import exact_scores, norm_bounds, score_errors
from momentron.errors import SolverError

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

MOST_BITS = 1 << 16  # of a number that is proposed: products must end
BLOCK = 1 << 16  # entries that become whole numbers at a time
MANTISSA = 53


@dataclass(frozen=True)
class WholePair:
    """A classifier and weights on some rows; only their directions count.

    Attributes
    ----------
    w : tuple of int
        One number per feature.
    rows, weights : tuple of int
        Which rows have weight, and how much.
    """

    w: tuple[int, ...]
    rows: tuple[int, ...]
    weights: tuple[int, ...]

    def floats(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(w with entries up to 1, the weights of all rows with entries up to 1), rounded."""
        q = np.zeros(size)
        q[list(self.rows)] = rounded(self.weights)
        return rounded(self.w), q


def rounded(numbers: tuple[int, ...]) -> np.ndarray:
    """Whole numbers over a power of two above the largest, each rounded to nearest."""
    power = 1 << max((abs(v).bit_length() for v in numbers), default=0)
    return np.array([v / power for v in numbers], np.float64)


def admitted_pair(pair: Any, n_features: int, n_rows: int) -> WholePair:
    """A private copy of a proposed pair; SolverError unless it is whole, fitting and not huge."""
    try:
        w, rows, weights = tuple(pair.w), tuple(pair.rows), tuple(pair.weights)
    except (AttributeError, TypeError) as error:
        raise SolverError(f"no pair of whole numbers was proposed: {error}") from None
    numbers = (*w, *rows, *weights)
    is_whole = all(type(v) is int and v.bit_length() <= MOST_BITS for v in numbers)
    is_fitting = len(w) == n_features and len(rows) == len(weights)
    if not (is_whole and is_fitting and all(0 <= i < n_rows for i in rows)):
        raise SolverError(
            f"a pair in whole numbers needs {n_features} weights of features and as many weights "
            f"as rows among {n_rows}, of at most {MOST_BITS} bits each"
        )
    return WholePair(w, rows, weights)


def certify_whole(problem: "Problem", pair: WholePair) -> Certificate:
    """The interval that an admitted pair proves."""
    margin = to_user(problem, whole_margin(problem, pair.w), -np.inf)
    upper = to_user(problem, whole_length(problem, pair.rows, pair.weights), np.inf)
    return Certificate.from_bounds(margin, upper)


def certify_whole_classifier(
    problem: "Problem", w: tuple[int, ...], b: Fraction | None = None
) -> float:
    """A sure lower bound on the margin of w with the intercept b, in the units of X."""
    return to_user(problem, whole_margin(problem, w, b), -np.inf)


# --- a classifier --------------------------------------------------------------------------------


def whole_margin(problem: "Problem", w: tuple[int, ...], b: Fraction | None = None) -> float:
    """A sure lower bound on the margin of w, in the operator's units: right to one rounding.

    With the best intercept, where there is one, or with b in the scale of w.
    """
    square = sum(v * v for v in w)
    if square == 0:
        return 0.0
    least = [value for value, _ in least_products(problem, w)]
    if b is not None:
        reach = min(value + sign * b for value, sign in zip(least, (1, -1), strict=True))
    else:
        reach = sum(least, Fraction(0)) / len(least)
    size = reach * reach / square
    return root_down(size) if reach >= 0 else -root_up(size)


def least_products(problem: "Problem", w: tuple[int, ...]) -> list[tuple[Fraction, int]]:
    """(the least y x·w, a row that has it), of all rows or of the positive and the negative ones,
    exactly.
    """
    signs = problem.labels.output_signs(slice(None))[:, 0]
    groups = [signs > 0.0, signs < 0.0] if problem.dual_set.fits_intercept else [signs != 0.0]
    least = []
    for index in _candidates(problem, w, groups):
        products = (
            (product if signs[i] > 0.0 else -product, i)
            for part, values in products_at(problem, index, w)
            for i, product in zip(part.tolist(), values, strict=True)
        )
        least.append(min(products))
    return least


def _candidates(
    problem: "Problem", w: tuple[int, ...], groups: list[np.ndarray]
) -> list[np.ndarray]:
    """Of each group the rows that may have the least product, by bounds in float64."""
    v = rounded(w)
    norm = norm_bounds(problem, v)[1]
    scores = exact_scores(problem, v)
    # one more rounding for each entry of w, and one for each sum here
    errors = score_errors(problem, slice(None), v, norm, UNIT_ROUNDOFF, 8)
    errors = errors + up(len(w) * math.ldexp(1.0, -1070) * (1.0 + problem.longest))
    with np.errstate(over="ignore", invalid="ignore"):
        worst, best = scores + errors, scores - errors
    found = []
    for group in groups:
        index = np.flatnonzero(group)
        top = best[index].max()
        found.append(index[~(worst[index] < top)])  # NaN stays a candidate
    return found


def products_at(
    problem: "Problem", index: np.ndarray, w: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, list[Fraction]]]:
    """(rows, x·w of these rows), a block at a time, exactly."""
    size = max(1, BLOCK // max(len(w), 1))
    for start in range(0, index.size, size):
        part = index[start : start + size]
        rows, exponent = whole_rows(_rows(problem, part))
        unit = Fraction(2) ** exponent
        yield part, [unit * _product(row, w) for row in rows]


def _product(row: list[int], w: tuple[int, ...]) -> int:
    require_time()
    return sum(map(int.__mul__, row, w))


def _rows(problem: "Problem", index: np.ndarray) -> np.ndarray:
    matrix = problem.operator.as_matrix()
    assert matrix is not None, "rows that cannot be read are not certified in whole numbers"
    return matrix.rows(index)


def whole_rows(rows: np.ndarray) -> tuple[list[list[int]], int]:
    """(whole numbers, e) with the rows, of finite floats, being their multiples by 2^e."""
    fractions, exponents = np.frexp(rows)
    mantissas = np.ldexp(fractions, MANTISSA).astype(np.int64)
    exponents = exponents.astype(np.int64) - MANTISSA
    is_something = mantissas != 0
    if not is_something.any():
        return [[0] * rows.shape[1] for _ in range(rows.shape[0])], 0
    least = int(exponents[is_something].min())
    shifts = np.where(is_something, exponents - least, 0)
    whole = [
        [m << s for m, s in zip(row, shift, strict=True)]
        for row, shift in zip(mantissas.tolist(), shifts.tolist(), strict=True)
    ]
    return whole, least


# --- weights -------------------------------------------------------------------------------------


def whole_length(problem: "Problem", rows: tuple[int, ...], weights: tuple[int, ...]) -> float:
    """A sure upper bound on ‖Zᵀq‖ in the operator's units: right to one rounding.

    Weights below zero are left out. With an intercept, those of each class are scaled to one half.
    """
    kept = [(i, v) for i, v in zip(rows, weights, strict=True) if v > 0]
    index = np.array([i for i, _ in kept], np.int64)
    signs = [int(y) for y in problem.labels.output_signs(index)[:, 0]]
    masses = {1: 0, -1: 0}
    for (_, v), y in zip(kept, signs, strict=True):
        masses[y] += v
    if problem.dual_set.fits_intercept:
        if 0 in masses.values():
            return math.inf
        factors, total = {1: masses[-1], -1: -masses[1]}, 2 * masses[1] * masses[-1]
    else:
        factors, total = {1: 1, -1: -1}, masses[1] + masses[-1]
        if total == 0:
            return math.inf
    coefficients = [factors[y] * v for (_, v), y in zip(kept, signs, strict=True)]
    whole, exponent = whole_rows(_rows(problem, index))
    sums = [_product(list(column), tuple(coefficients)) for column in zip(*whole, strict=True)]
    square = Fraction(sum(v * v for v in sums), total * total)
    return root_up(square * Fraction(4) ** exponent)
