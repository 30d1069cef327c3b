"""Problems whose separability is known by construction, in exact arithmetic.

Each family proves its own truth: a separating direction is planted, or weights that cancel are, or
both on two sides of a plane. Whole numbers below 2^53 and powers of two keep every entry exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

SEPARABLE, QUASI, OVERLAPPING = "separable", "quasi-separable", "overlapping"


@dataclass(frozen=True)
class KnownProblem:
    """X, y = ±1 and the truth about them."""

    family: str
    X: np.ndarray
    y: np.ndarray
    fit_intercept: bool
    kind: str


def all_problems(share: float = 1.0) -> Iterator[KnownProblem]:
    """Every family and kind, thinned evenly to a share of its problems."""
    families = (
        four_points,
        planted,
        lattices,
        parities,
        one_point_classes,
        contradictory_duplicates,
        last_bits,
        collinear,
    )
    credit: dict[tuple[str, str], float] = {}
    for family in families:
        for problem in family():
            key = problem.family, problem.kind
            credit[key] = credit.get(key, 0.5) + share
            if credit[key] >= 1.0:
                credit[key] -= 1.0
                yield problem


def four_points() -> Iterator[KnownProblem]:
    """Four points in the plane, apart or across by 10^−1 … 10^−300, or exactly touching."""
    y = np.array([1, 1, -1, -1])
    for exponent in range(1, 301):
        e = float(f"1e-{exponent}")
        shapes = {
            "apart": ([(-1.0, e), (1.0, e), (-1.0, -e), (1.0, -e)], SEPARABLE),
            "across": ([(-1.0, e), (1.0, -e), (-1.0, -e), (1.0, e)], OVERLAPPING),
            "touching at a point": ([(0.0, 0.0), (1.0, e), (0.0, 0.0), (-1.0, -e)], QUASI),
            "touching on a line": ([(-1.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, -e)], QUASI),
        }
        for place, (name, (points, kind)) in enumerate(shapes.items()):
            intercept = (exponent + place) % 2 == 0
            yield KnownProblem(f"four points {name}", np.array(points), y, intercept, kind)


def planted() -> Iterator[KnownProblem]:
    """Random whole points around a planted plane, hidden by a unimodular change of coordinates.

    In the hidden coordinates the last one is y·t, t > 0, for rows strictly on their side and 0 for
    rows on the plane, whose classes have equal sizes and equal sums, so that weights 1 cancel.
    """
    for seed in range(1200):
        rng = np.random.default_rng([1, seed])
        kind = (SEPARABLE, QUASI, OVERLAPPING)[seed % 3]
        d = int(
            rng.choice([1, 2, 3, 5, 8, 13, 30, 80, 200], p=[0.1] * 4 + [0.15] * 3 + [0.1, 0.05])
        )
        # rows of size 2^bits against a gap of 1: relative margins down to 1e-12
        bits = int(rng.integers(2, 40))
        strict = 0 if kind == OVERLAPPING else int(rng.integers(2, 2 * d + 5))
        flat = 0 if kind == SEPARABLE else 2 * int(rng.integers(1, d + 3))
        X, y = _planted_rows(rng, d, strict, flat, bits, hollow=kind == QUASI)
        scale = 2.0 ** int(rng.integers(-40, 40))
        yield KnownProblem("planted margin", X * scale, y, bool(rng.integers(2)), kind)


def _planted_rows(
    rng: np.random.Generator, d: int, strict: int, flat: int, bits: int, *, hollow: bool
) -> tuple[np.ndarray, np.ndarray]:
    top = 2**bits
    U = rng.integers(-top, top + 1, (strict, d))
    y = np.where(np.arange(strict) % 2 == 0, 1, -1)
    U[:, -1] = y * rng.integers(1, 4, strict)
    P = rng.integers(-top, top + 1, (flat, d))
    s = np.where(np.arange(flat) % 2 == 0, 1, -1)
    if hollow:
        P[:, -1] = 0
    if flat:
        P[-1] = (s[:-1, None] * P[:-1]).sum(axis=0)  # class −: both classes now have one sum
    rows, labels = np.vstack([U, P]), np.concatenate([y, s])
    for _ in range(3):  # shears: whole, invertible over the whole numbers, and small
        i, j = rng.integers(0, d, 2)
        if i != j:
            rows[:, i] += int(rng.integers(-3, 4)) * rows[:, j]
    if np.abs(rows).max() >= 2**53:
        raise ArithmeticError("a planted row is too large to be exact in float64")
    order = rng.permutation(len(rows))
    return rows[order].astype(np.float64), labels[order]


def lattices() -> Iterator[KnownProblem]:
    """All points of a grid on both sides of a rational line; those on it left out or mixed."""
    for seed in range(300):
        rng = np.random.default_rng([2, seed])
        size = int(rng.integers(3, 8))
        grid = np.array(list(product(range(size), repeat=2)))
        a, b = (int(v) for v in rng.integers(1, 4, 2))
        c = int(rng.integers(2, (a + b) * (size - 1) - 1))
        height = a * grid[:, 0] + b * grid[:, 1] - c
        on = np.flatnonzero(height == 0)
        y = np.where(height > 0, 1, -1)
        y[on] = np.where(np.arange(on.size) % 2 == 0, 1, -1)
        if on.size >= 3 and seed % 2:  # + − + along the line: neither side can have it
            yield KnownProblem("lattice", grid.astype(float), y, True, QUASI)
            continue
        off = height != 0
        if len(set(y[off])) == 2:
            yield KnownProblem("lattice", grid[off].astype(float), y[off], True, SEPARABLE)


def parities() -> Iterator[KnownProblem]:
    """Corners of a cube labelled by parity (XOR), stretched and moved."""
    for seed in range(160):
        rng = np.random.default_rng([3, seed])
        d = 2 + seed % 5
        corners = np.array(list(product((0, 1), repeat=d)))
        y = np.where(corners.sum(axis=1) % 2 == 0, 1, -1)
        stretch = 2.0 ** rng.integers(-100, 100, d)
        X = corners * stretch + stretch * rng.integers(-3, 4, d)
        yield KnownProblem("XOR", X, y, bool(seed % 2), OVERLAPPING)


def one_point_classes() -> Iterator[KnownProblem]:
    """One point against many: outside their hull, their exact mean, or one of their corners."""
    for seed in range(240):
        rng = np.random.default_rng([4, seed])
        d = int(rng.integers(1, 12))
        simplex = np.vstack([np.zeros(d), np.eye(d)]) * 2.0 ** int(rng.integers(-30, 30))
        simplex += simplex.max() * rng.integers(-5, 6, d)
        kind = (SEPARABLE, OVERLAPPING, QUASI)[seed % 3]
        if kind == SEPARABLE:
            point = np.nextafter(simplex.max(axis=0), np.inf)
        elif kind == QUASI:
            point = simplex[int(rng.integers(d + 1))]
        else:  # 2^m copies' worth: the mean of two corners, repeated for every other pair
            simplex = np.vstack([simplex, 2 * simplex[0] - simplex])
            point = simplex[0]
        X = np.vstack([point, simplex])
        yield KnownProblem("one-point class", X, np.r_[1, -np.ones(len(simplex), int)], True, kind)


def contradictory_duplicates() -> Iterator[KnownProblem]:
    """One row with both labels on the plane that separates all others."""
    for seed in range(240):
        rng = np.random.default_rng([5, seed])
        d = int(rng.integers(1, 20))
        n = int(rng.integers(2, 30))
        U = rng.integers(-(2**20), 2**20, (2 * n, d)).astype(np.float64)
        y = np.where(np.arange(2 * n) % 2 == 0, 1, -1)
        U[:, 0] = y * rng.integers(1, 100, 2 * n)
        twin = rng.integers(-(2**20), 2**20, d).astype(np.float64)
        twin[0] = 0.0
        X, labels = np.vstack([U, twin, twin]), np.r_[y, 1, -1]
        yield KnownProblem("contradictory duplicates", X, labels, True, QUASI)


def last_bits() -> Iterator[KnownProblem]:
    """Points that differ in the last bit of one coordinate, in order + + − (or + − +)."""
    for seed in range(300):
        rng = np.random.default_rng([6, seed])
        d = int(rng.integers(1, 6))
        x = rng.normal(size=d) * 10.0 ** int(rng.integers(-200, 200))
        j = int(rng.integers(d))
        chain = [x]
        for _ in range(2):
            following = chain[-1].copy()
            following[j] = np.nextafter(following[j], np.inf)
            chain.append(following)
        gaps = chain[1][j] - chain[0][j], chain[2][j] - chain[1][j]
        mixed = seed % 2 == 0 and gaps[0] == gaps[1]
        y = np.array([1, -1, 1] if mixed else [1, 1, -1])
        kind = OVERLAPPING if mixed else SEPARABLE
        yield KnownProblem("last bit", np.array(chain), y, True, kind)


def collinear() -> Iterator[KnownProblem]:
    """Points on one line in up to 200 dimensions: split, alternating, or meeting in one point."""
    for seed in range(360):
        rng = np.random.default_rng([7, seed])
        d = int(rng.choice([2, 3, 10, 50, 200]))
        n = int(rng.integers(3, 15))
        t = np.sort(rng.choice(2**20, 2 * n, replace=False))
        kind = (SEPARABLE, OVERLAPPING, QUASI)[seed % 3]
        if kind == OVERLAPPING:
            y = np.where(np.arange(2 * n) % 2 == 0, 1, -1)
        else:
            y = np.where(np.arange(2 * n) < n, 1, -1)
            if kind == QUASI:
                t[n] = t[n - 1]
        X = np.outer(t, rng.integers(-9, 10, d) | 1) + rng.integers(-9, 10, d)
        order = rng.permutation(2 * n)
        scale = 2.0 ** int(rng.integers(-60, 60))
        yield KnownProblem("collinear", X[order] * scale, y[order], True, kind)
