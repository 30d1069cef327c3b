"""The interval on the margin that a proof carries, from any w and any q, without a rounding.

γ(w) ≤ γ̄ ≤ ‖Σ q a‖ / Σ q: both ends are roots of rationals, rounded outward at the very end. With an
intercept the weights q must balance the classes exactly, which whole numbers can.
"""

import math
from fractions import Fraction

import numpy as np

from momentron.clock import require_time
from momentron.separability.correction import Weights
from momentron.separability.rows import PairRows

DUAL_BITS = 50


MANTISSA = 53
LEAST_EXPONENT = -1074
LARGEST = float(np.finfo(np.float64).max)


def root_down(value: Fraction) -> float:
    """The largest float whose square is at most the value."""
    return _root(value, up=False)


def root_up(value: Fraction) -> float:
    """The smallest float whose square is at least the value."""
    return _root(value, up=True)


def _root(value: Fraction, *, up: bool) -> float:
    """√value, rounded down or up to a float, in whole numbers: nothing is tried twice."""
    if value <= 0:
        return 0.0
    size = value.numerator.bit_length() - value.denominator.bit_length()  # of value, in bits
    exponent = max(LEAST_EXPONENT, (size - 1) // 2 - MANTISSA)
    root, is_exact = _whole_root(value, exponent)
    if root.bit_length() > MANTISSA:
        exponent += root.bit_length() - MANTISSA
        root, is_exact = _whole_root(value, exponent)
    if up and not is_exact:
        root += 1
    try:
        return math.ldexp(root, exponent)
    except OverflowError:
        return math.inf if up else LARGEST


def _whole_root(value: Fraction, exponent: int) -> tuple[int, bool]:
    """(⌊√value / 2^exponent⌋, whether that is √value itself)."""
    numerator, denominator = value.numerator, value.denominator
    if exponent < 0:
        numerator <<= -2 * exponent
    else:
        denominator <<= 2 * exponent
    quotient, rest = divmod(numerator, denominator)
    root = math.isqrt(quotient)
    return root, rest == 0 and root * root == quotient


def squared_length(vectors: list[list[int]], k: int) -> Fraction:
    """Σ‖w_c‖² with w_0 = 0; for k > 2 the least over all shifts of the w_c by one vector."""
    total = sum(v * v for vector in vectors for v in vector)
    if k == 2:
        return Fraction(total)
    common = sum(sum(column) ** 2 for column in zip(*vectors, strict=True))
    return total - Fraction(common, k)


def lower_bound(rows: PairRows, w: list[int]) -> float:
    """A float at most min a·w / ‖w‖, for whole w by coordinate; 0 where an example is not right."""
    examples = rows.examples
    width, (_, d), k = examples.width, examples.shape, len(examples.classes)
    vectors = [w[c : c + width] for c in range(0, len(w), width)]
    least: int | None = None
    for own, (columns, x) in zip(examples.codes.tolist(), examples.whole_rows(), strict=True):
        require_time()
        f = [0, *(sum(map(int.__mul__, x, map(v.__getitem__, columns))) for v in vectors)]
        for j in range(k):
            if j != own:
                s = f[own] - f[j]
                least = s if least is None else min(least, s)
        if least is not None and least <= 0:
            return 0.0
    length = squared_length([v[:d] for v in vectors], k)
    if least is None or length == 0:
        return 0.0
    return root_down(Fraction(least**2, 4**-examples.unit) / length)


def upper_bound(rows: PairRows, dual: Weights) -> float:
    """A float at least ‖Σ q a‖ / Σ q; inf where q leaves a slope along the intercept."""
    examples = rows.examples
    width, (_, d), k = examples.width, examples.shape, len(examples.classes)
    total = rows.combine(dual.pairs, dual.numerators)
    vectors = [total[c : c + width] for c in range(0, len(total), width)]
    if any(v for vector in vectors for v in vector[d:]):
        return math.inf
    square = sum(v * v for vector in vectors for v in vector[:d])
    if k > 2:  # class 0 has the slope that balances the others
        square += sum(sum(column) ** 2 for column in zip(*(v[:d] for v in vectors), strict=True))
    return root_up(Fraction(square, sum(dual.numerators) ** 2 * 4**-examples.unit))


def balanced_dual(rows: PairRows, classes: tuple[int, int], q: np.ndarray) -> Weights:
    """Float weights q on the examples of two classes as whole ones, equal in sum if lifted."""
    examples = rows.examples
    whole = np.array([round(v * 2**DUAL_BITS) for v in (q / q.max()).tolist()], object)
    if examples.lift:
        sums = [whole[examples.codes == c].sum() for c in classes]
        short = classes[0] if sums[0] < sums[1] else classes[1]
        heaviest = np.flatnonzero(examples.codes == short)
        heaviest = heaviest[int(q[heaviest].argmax())]
        whole[heaviest] += abs(sums[0] - sums[1])
    first, second = classes
    against = np.where(examples.codes == first, second, first)
    wanted = (rows.other == against[rows.example]) & np.isin(examples.codes[rows.example], classes)
    pairs = np.flatnonzero(wanted)
    weights = [int(whole[i]) for i in rows.example[pairs].tolist()]
    kept = [(pair, v) for pair, v in zip(pairs.tolist(), weights, strict=True) if v > 0]
    return Weights(np.array([pair for pair, _ in kept]), [v for _, v in kept], 1)


def two_rows(rows: PairRows, classes: tuple[int, int] = (0, 1)) -> Weights:
    """The first row of each class: γ̄ is at most half their distance."""
    codes = rows.examples.codes
    places = [int(np.argmax(codes == c)) for c in classes]
    pairs = [
        int(np.flatnonzero((rows.example == i) & (rows.other == c))[0])
        for i, c in zip(places, classes[::-1], strict=True)
    ]
    return Weights(np.array(pairs), [1, 1], 1)


def mean_dual(rows: PairRows, classes: tuple[int, int] = (0, 1)) -> Weights:
    """Uniform weights: γ̄ is at most half the distance of two classes' means."""
    codes = rows.examples.codes
    counts = np.bincount(codes, minlength=2)
    q = np.zeros(codes.size)
    for c in classes:
        q[codes == c] = 1.0 / counts[c]
    return balanced_dual(rows, classes, q)
