"""Rational linear algebra: systems of whole numbers, solved exactly."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.clock import require_time, time_left
from momentron.separability import padic
from momentron.separability.memory import TooLarge

PIECE = 2e9  # multiplications between two looks at the clock
PRIME = 2**31 - 1  # a Mersenne prime: 2^k mod p has period 31, and products fit into int64
SMALL = 24  # equations up to which elimination is faster than p-adic lifting
MAX_ELIMINATION = 3e10  # operations modulo a prime: some minutes
MAX_EQUATIONS = {True: 2500, False: 1000}  # solved within minutes, with python-flint and without
SHORT = 0.3  # seconds of a call of python-flint, which nothing can interrupt


def has_flint() -> bool:
    """Whether python-flint can be imported."""
    try:
        import flint  # noqa: F401
    except ImportError:
        return False
    return True


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
        Where M is singular.
    TooLarge
        Where M has over 1,000 rows, or over 2,500 with python-flint installed.
    """
    size = len(matrix)
    flint = has_flint()
    if size > MAX_EQUATIONS[flint]:
        raise TooLarge(f"{size} equations; at most {MAX_EQUATIONS[flint]} are solved exactly")
    rows = [primitive([*row, *b]) for row, b in zip(matrix, right, strict=True)]
    left, rest = [row[:size] for row in rows], [row[size:] for row in rows]
    if flint and _flint_seconds(rows) < SHORT:
        return _by_flint(left, rest)
    if size <= SMALL:
        return _bareiss(rows)
    if padic.seconds(left, len(rest[0])) > time_left():
        raise TooLarge(
            f"{size} equations; the time that is left does not suffice for an exact solution"
        )
    return padic.solve(left, rest)


def _flint_seconds(rows: list[list[int]]) -> float:
    """About how long python-flint takes for an augmented system, in one call."""
    size, bits = len(rows), max(abs(v).bit_length() for row in rows for v in row)
    many = len(rows[0]) - size
    return 1e-12 * size**3 * (size + many) * bits * max(1.0, bits / 500)


def _by_flint(left: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    from flint import fmpz_mat

    solution: Any = fmpz_mat(left).solve(fmpz_mat(right))
    numerators, denominator = solution.numer_denom()
    return [[int(v) for v in row] for row in numerators.tolist()], int(denominator)


def primitive(row: list[int]) -> list[int]:
    """The row divided by its greatest common divisor."""
    divisor = math.gcd(*row) or 1
    return [v // divisor for v in row] if divisor > 1 else row


def _bareiss(rows: list[list[int]]) -> tuple[list[list[int]], int]:
    """Fraction-free elimination of an augmented system, in place."""
    size, previous = len(rows), 1
    for i in range(size):
        require_time()
        pivot = next((r for r in range(i, size) if rows[r][i]), None)
        if pivot is None:
            raise ZeroDivisionError("the system is singular")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        top = rows[i]
        for r in range(i + 1, size):
            factor, row = rows[r][i], rows[r]
            rows[r] = [(top[i] * v - factor * t) // previous for v, t in zip(row, top, strict=True)]
        previous = top[i]
    many = len(rows[0]) - size
    x = [[Fraction(0)] * many for _ in range(size)]
    for i in reversed(range(size)):
        require_time()
        for m in range(many):
            rest = sum((rows[i][j] * x[j][m] for j in range(i + 1, size)), Fraction(0))
            x[i][m] = (rows[i][size + m] - rest) / rows[i][i]
    denominator = math.lcm(*(v.denominator for row in x for v in row))
    return [[int(v * denominator) for v in row] for row in x], denominator


def independent(vectors: list[dict[int, int]], size: int) -> tuple[list[int], list[int]]:
    """(positions of independent vectors, as many independent coordinates), greedily, modulo p.

    Vectors of whole numbers by coordinate. The prime may lose rank, with a chance of about 1e-9;
    whoever uses the answer checks it.
    """
    K = np.zeros((size, len(vectors)), np.int64)
    for column, vector in enumerate(vectors):
        for c, v in vector.items():
            K[c, column] = v % PRIME
    chosen = _echelon(K.copy()).tolist()
    coordinates = _echelon(np.ascontiguousarray(K[:, chosen].T)).tolist()
    return chosen, coordinates


def pivot_columns(A: Any, order: np.ndarray) -> np.ndarray:
    """A largest set of independent columns of a float matrix, greedily in the order given.

    Floats are taken as the rationals they are, modulo a prime; random sums of the rows, ten more
    than the rank can be, stand in for A. Both may lose rank, with a chance of about 1e-9;
    whoever uses the answer checks it.
    """
    n, d = A.shape
    rng = np.random.default_rng(0)
    n_sums = min(n, d) + 10
    if n_sums**2 * d > MAX_ELIMINATION:
        raise TooLarge(f"{n} × {d} entries; a basis is found for up to about 3,000 × 3,000")
    K = np.zeros((n_sums, d), np.int64)
    step = max(1, min(1 << 20, int(PIECE / (n_sums * d))))
    for start in range(0, n, step):  # sums of 2^21 residues below 2^31 are exact in float64
        require_time()
        part = A[start : start + step]
        signs = rng.choice(np.array([-1.0, 1.0]), (n_sums, part.shape[0]))
        residues = _residues(part)
        sums = (residues.T @ signs.T).T if sp.issparse(part) else signs @ residues
        K += sums.astype(np.int64)
        K %= PRIME
    return order[_echelon(K[:, order])]


def _residues(A: Any) -> Any:
    """Entries m·2^e modulo the prime, as floats."""
    entries = A.data if sp.issparse(A) else A
    mantissas, exponents = np.frexp(entries)
    integers = (mantissas * 2.0**53).astype(np.int64) % PRIME
    powers = np.array([pow(2, k, PRIME) for k in range(31)], np.int64)
    residues = (integers * powers[(exponents - 53) % 31] % PRIME).astype(np.float64)
    if sp.issparse(A):
        return sp.csr_array((residues, A.indices, A.indptr), shape=A.shape)
    return residues


def _echelon(K: np.ndarray) -> np.ndarray:
    """The pivot columns of a matrix modulo the prime; K is overwritten."""
    pivots: list[int] = []
    row = 0
    for column in range(K.shape[1]):
        require_time()
        nonzero = np.flatnonzero(K[row:, column])
        if nonzero.size == 0:
            continue
        pivot = row + int(nonzero[0])
        K[[row, pivot]] = K[[pivot, row]]
        K[row, column:] = K[row, column:] * pow(int(K[row, column]), -1, PRIME) % PRIME
        below = K[row + 1 :, column]
        K[row + 1 :, column:] = (K[row + 1 :, column:] - below[:, None] * K[row, column:]) % PRIME
        pivots.append(column)
        row += 1
        if row == K.shape[0]:
            break
    return np.array(pivots, np.int64)
