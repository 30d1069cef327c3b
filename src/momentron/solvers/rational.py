"""Rational arithmetic: what floats propose is made exact, and what they do not see is found.

Systems of integers, solved exactly by python-flint, their rank, and the memory they may take; and
the nearest point of a cone.
"""

import marshal
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
from flint import fmpz_mat, nmod_mat

from momentron.arithmetic.clock import OutOfTime, require_time, time_left
from momentron.data.arguments import machine_memory

Vector = dict[int, int]  # by coordinate; what is absent is zero
Point = list[int]
Weights = dict[int, Fraction]  # by point

PRIME = 8388593  # below 2^23: float64 adds up 2^30 residues exactly
MAX_EQUATIONS = 2500
MAX_ELIMINATION = 3e11  # multiplications modulo the prime: some seconds
IN_PROCESS = 1.0  # seconds of a call of python-flint, which nothing can interrupt
LONGEST_WAIT = 1e6  # seconds, which a timeout can be
MEMORY = 2 << 30  # bytes
SHARE = 4  # at most a quarter of the machine's memory
CHILD = """
import marshal, sys
from flint import fmpz_mat
left, right = marshal.load(sys.stdin.buffer)
numerators, denominator = fmpz_mat(left).solve(fmpz_mat(right)).numer_denom()
marshal.dump(([[int(v) for v in row] for row in numerators.tolist()], int(denominator)),
             sys.stdout.buffer)
"""


class TooLarge(ArithmeticError):
    """Too much for exact arithmetic, or for memory: the verdict is undecided."""


def memory_cap() -> int:
    """Bytes that a verdict's own matrices and numbers may take, besides the data."""
    return int(min(MEMORY, machine_memory() / SHARE))


def require_memory(size: float, what: str) -> None:
    """Raise TooLarge, before anything is built, unless this many bytes are within the cap."""
    cap = memory_cap()
    if size > cap:
        raise TooLarge(
            f"{what} would take {size / 2**30:.1f} GB; at most {cap / 2**30:.1f} GB may be used"
        )


def solve_whole(matrix: list[list[int]], right: list[int]) -> tuple[list[int], int]:
    """(numerators, positive denominator) of the x with M x = b, for a regular square M."""
    if not any(right):
        return [0] * len(right), 1
    columns, denominator = solve_many(matrix, [[b] for b in right])
    return [row[0] for row in columns], denominator


def solve_many(matrix: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    """(numerators, positive denominator) of the matrix Y with M Y = R, for a regular square M.

    Raises
    ------
    ZeroDivisionError
        If M is singular.
    TooLarge
        If M has over 2,500 rows, or the time that is left does not suffice.
    """
    size = len(matrix)
    if size > MAX_EQUATIONS:
        raise TooLarge(f"{size} equations; at most {MAX_EQUATIONS} are solved exactly")
    rows = [primitive([*row, *b]) for row, b in zip(matrix, right, strict=True)]
    left, sides = [row[:size] for row in rows], [row[size:] for row in rows]
    seconds = solving_seconds(rows)
    if seconds > time_left():
        raise TooLarge(
            f"{size} equations; the time that is left does not suffice for an exact solution"
        )
    if seconds <= IN_PROCESS:
        solution: Any = fmpz_mat(left).solve(fmpz_mat(sides))
        numerators, denominator = solution.numer_denom()
        return as_lists(numerators), int(denominator)
    try:  # in another process, which a deadline or Ctrl-C ends
        child = subprocess.run(
            [sys.executable, "-c", CHILD],
            input=marshal.dumps((left, sides)),
            capture_output=True,
            timeout=min(time_left(), LONGEST_WAIT),
        )
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    if child.returncode:
        raise ZeroDivisionError("the system is singular")
    numerators, denominator = marshal.loads(child.stdout)
    return numerators, denominator


def as_lists(matrix: Any) -> list[list[int]]:
    """A matrix of flint in Python's integers."""
    return [[int(v) for v in row] for row in matrix.tolist()]


def solving_seconds(rows: list[list[int]]) -> float:
    """About how long python-flint takes for an augmented system, by Hadamard's bound."""
    size = len(rows)
    lines = [row[:size] for row in rows], list(zip(*rows, strict=True))[:size]
    bits = [sum(max(map(int.bit_length, line)) + 4 for line in part) for part in lines]
    return 8e-13 * size**2 * len(rows[0]) * min(bits)


def primitive(row: list[int]) -> list[int]:
    """The row divided by its greatest common divisor."""
    divisor = math.gcd(*row) or 1
    return [v // divisor for v in row] if divisor > 1 else row


def reduced(K: np.ndarray) -> tuple[Any, list[int]]:
    """(the reduced echelon form modulo the prime, its pivots: the first independent columns)."""
    n, d = K.shape
    if float(n) * d * min(n, d) > MAX_ELIMINATION:
        raise TooLarge(f"{n} × {d} entries; too many to look for independent columns")
    require_time()
    form, rank = nmod_mat(n, d, K.astype(np.int64).ravel().tolist(), PRIME).rref()
    places = count()
    return form, [next(c for c in places if int(form[row, c])) for row in range(rank)]


def minor(K: Any) -> tuple[np.ndarray, list[int]]:
    """(rows, columns) of a regular minor of full rank of a sparse matrix of residues.

    Some rows, the first and one for each column, are reduced; one random vector that is orthogonal
    to them tells which of the others are outside their span. The prime may lose rank, and the
    vector miss a row, with a chance of about 1e-7: whoever uses the answer checks it.
    """
    step = 2 * K.shape[1] + 64
    _, firsts = np.unique(K.indices, return_index=True)
    early = np.searchsorted(K.indptr, firsts, side="right") - 1
    members = np.union1d(np.arange(min(step, K.shape[0])), early)
    rng = np.random.default_rng(0)
    while True:
        rows = members[reduced(K[members].toarray().T)[1]]
        form, columns = reduced(K[rows].toarray())
        normal = rng.integers(0, PRIME, K.shape[1])
        normal[columns] = 0
        image = form * nmod_mat(normal.size, 1, normal.tolist(), PRIME)
        normal[columns] = [-int(v) % PRIME for v in image.entries()[: len(columns)]]
        # in two halves, so that float64 holds the sums of products
        high, low = K @ (normal >> 12).astype(float), K @ (normal & 4095).astype(float)
        outside = np.flatnonzero((high % PRIME * 4096.0 + low) % PRIME)
        if not outside.size:
            return rows, columns
        members = np.append(rows, outside[:step])


def nearest(points: Sequence[Point], target: Point, guess: Weights) -> tuple[Weights, Point]:
    """(λ > 0 on independent points, a multiple of r = Σ λ p − target) with the shortest r.

    The algorithm of Lawson and Hanson: each step makes the residual shorter, and none rounds, so
    that it ends at the answer.

    Parameters
    ----------
    points : sequence of lists of integers
    target : list of integers
    guess : dict
        Weights to begin with, which may be of no use: their points are dependent.
    """
    every: Any = fmpz_mat(len(points), len(target), [v for p in points for v in p])
    goal: Any = fmpz_mat([target])
    lengths = [max(map(int.bit_length, p)) for p in points]
    longest, weights = max(lengths, default=0), guess
    while True:
        require_time()
        support = list(weights)
        rows: Any = fmpz_mat(len(support), len(target), [v for i in support for v in points[i]])
        right = [v for (v,) in as_lists(rows * goal.transpose())]
        try:  # the normal equations
            solution, common = solve_whole(as_lists(rows * rows.transpose()), right)
        except ZeroDivisionError:  # the points of the guess depend on each other
            weights = {}
            continue
        best = {i: Fraction(v, common) for i, v in within_time(zip(support, solution, strict=True))}
        if min(solution, default=1) <= 0:
            signs = within_time(best.items())
            step = min(weights[i] / (weights[i] - v) for i, v in signs if v <= 0)
            moved = {i: old + step * (best[i] - old) for i, old in within_time(weights.items())}
            weights = {i: v for i, v in moved.items() if v > 0}
            continue
        residual = primitive(as_lists(fmpz_mat([solution]) * rows - goal * common)[0])
        (sides,) = as_lists(fmpz_mat([residual]) * every.transpose())
        # as if all points were of one order of magnitude
        sides = [v << longest - e for v, e in zip(sides, lengths, strict=True)]
        if min(sides, default=0) >= 0:
            return best, residual
        weights = best | {sides.index(min(sides)): Fraction(0)}


def within_time(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The same items, while there is time: each takes a while where numbers have many digits."""
    for item in items:
        require_time()
        yield item
