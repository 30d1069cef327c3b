"""Bounds of norms and sums against exact rational arithmetic, at every scale and length."""

from fractions import Fraction

import numpy as np
import pytest

from momentron.arithmetic.rounding import CHUNK, SHORT_SUM, accurate_sum, norm_bounds
from momentron.dual.dualsets import to_mass

SIZES = (1, 2, SHORT_SUM - 1, SHORT_SUM, SHORT_SUM + 1, 5 * SHORT_SUM, 1000)


def square(values) -> Fraction:
    return sum((Fraction(v) ** 2 for v in np.ravel(values).tolist()), Fraction(0))


def assert_bounds(w):
    low, high = norm_bounds(w)
    assert Fraction(low) ** 2 <= square(w) <= Fraction(high) ** 2
    return low, high


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "scale", [1e-320, 1e-300, 1e-160, 1e-101, 1e-99, 1.0, 1e99, 1e101, 1e153, 1e300]
)
def test_norm_bounds_hold_and_are_narrow(size, scale):
    rng = np.random.default_rng(size)
    for spread in (0.0, 3.0, 100.0):
        w = scale * rng.normal(size=size) * 10.0 ** (-spread * rng.random(size))
        low, high = assert_bounds(w)
        if high > 1e-290:
            assert high - low <= 1e-14 * high


@pytest.mark.parametrize("size", SIZES)
def test_norm_bounds_in_extended_precision(size):
    w = np.random.default_rng(0).normal(size=size)
    low, high = norm_bounds(w.astype(np.longdouble))
    assert Fraction(low) ** 2 <= square(w) <= Fraction(high) ** 2
    assert high - low <= 4e-15 * high


@pytest.mark.parametrize(
    "w",
    [
        np.full(70, 2.0**-530),  # squares that are subnormal
        np.r_[1e-100, np.full(700, 1e-163)],  # squares that vanish beside one that does not
        np.r_[1e100, np.full(700, 1e-300)],
        np.full(700, 1e153),  # squares that are finite, with a sum that is not
        np.arange(12.0).reshape(3, 4),
        np.arange(200)[::2],  # integers, with a stride
        np.linspace(0.0, 1.0, 100, dtype=np.float32),
    ],
)
def test_norm_bounds_of_odd_vectors(w):
    assert_bounds(w)


def test_norm_bounds_of_nothing_and_of_no_numbers():
    assert norm_bounds(np.zeros(0)) == norm_bounds(np.zeros(100)) == (0.0, 0.0)
    low, high = norm_bounds(np.array([1.0, np.inf]))
    assert low >= 0.0 and not high < np.inf
    assert not norm_bounds(np.array([1.0, np.nan]))[1] < np.inf


@pytest.mark.parametrize("size", [3, CHUNK, CHUNK + 1, 5 * CHUNK])
def test_accurate_sums_and_masses(size):
    values = np.random.default_rng(1).random(size) ** 8
    values[::3] = 0.0
    total = sum(map(Fraction, values.tolist()), Fraction(0))
    assert abs(Fraction(accurate_sum(values)) - total) <= total * Fraction(2) ** -52
    mass = sum(map(Fraction, to_mass(values - 0.1, 0.5).tolist()), Fraction(0))
    assert abs(mass - Fraction(1, 2)) <= Fraction(2) ** -51
