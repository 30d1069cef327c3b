"""Rational linear algebra: systems of whole numbers, solved exactly."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time, time_left
from momentron.solvers.rational import padic
from momentron.solvers.rational.memory import TooLarge
from momentron.verify.modular import PRIMES, modulo, pivots

Vector = dict[int, int]  # by coordinate; what is absent is zero

PIECE = 2e9  # multiplications between two looks at the clock
PRIME = PRIMES[0]
SMALL = 24  # equations up to which elimination is faster than p-adic lifting
MAX_ELIMINATION = 3e10  # operations modulo a prime: some minutes
MAX_EQUATIONS = {True: 2500, False: 1000}  # solved within minutes, with python-flint and without
SHORT_EQUATION = 3  # unknowns of an equation that is solved for one of them first
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
    if size > SMALL and sum(map(_is_short, matrix)) > size / 2:
        rows = [{j: v for j, v in enumerate(row) if v} for row in matrix]
        sides = [{m: v for m, v in enumerate(b) if v} for b in right]
        found = _by_short_equations(rows, sides)
        common = math.lcm(*(v.denominator for x in found.values() for v in x.values()))
        many = range(len(right[0]))
        return [[int(found[j].get(m, 0) * common) for m in many] for j in range(size)], common
    return _solve_dense(matrix, right)


def solve_rows(
    rows: list[Vector], unknowns: list[int], right: list[Vector]
) -> dict[int, dict[int, Fraction]]:
    """For each unknown its values, by right side, zeros left out: Σ rows[i][j] x_j = right[i].

    Rows may have entries for others than the unknowns: these do not count. Raises as `solve_many`.
    """
    wanted = set(unknowns)
    kept = [{j: v for j, v in row.items() if j in wanted and v} for row in rows]
    if len(kept) != len(wanted):
        raise ZeroDivisionError("the system is not square")
    if len(kept) > SMALL and sum(len(row) <= SHORT_EQUATION for row in kept) > len(kept) / 2:
        return _by_short_equations(kept, right)
    fractions = [{j: Fraction(v) for j, v in row.items()} for row in kept]
    sides = [{m: Fraction(v) for m, v in b.items() if v} for b in right]
    return _core(fractions, sides, list(range(len(kept))), unknowns)


def _solve_dense(matrix: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    size, flint = len(matrix), has_flint()
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


def _is_short(row: list[int]) -> bool:
    return len(row) - row.count(0) <= SHORT_EQUATION


def _by_short_equations(
    matrix: list[Vector], right: list[Vector]
) -> dict[int, dict[int, Fraction]]:
    """Equations of few unknowns, such as those of dummies, give one each; what is left is small.

    The unknown that a short equation gives is replaced in all others.
    """
    rows = [{j: Fraction(v) for j, v in row.items()} for row in matrix]
    sides = [{m: Fraction(v) for m, v in b.items() if v} for b in right]
    holders: dict[int, set[int]] = {}
    for i, row in enumerate(rows):
        for j in row:
            holders.setdefault(j, set()).add(i)
    given: list[tuple[int, int]] = []  # (unknown, equation)
    waiting = [i for i, row in enumerate(rows) if len(row) <= SHORT_EQUATION]
    open_rows = set(range(len(rows)))
    while waiting:
        require_time()
        i = waiting.pop()
        if i not in open_rows or not 0 < len(rows[i]) <= SHORT_EQUATION:
            continue
        unknown = min(rows[i], key=lambda j: len(holders[j]))
        open_rows.discard(i)
        given.append((unknown, i))
        for other in holders.pop(unknown) & open_rows:
            factor = rows[other].pop(unknown) / rows[i][unknown]
            for j in _subtract(rows[other], factor, rows[i], unknown):
                holders[j] ^= {other}  # an entry that is new, or gone
            _subtract(sides[other], factor, sides[i], None)
            if len(rows[other]) <= SHORT_EQUATION:
                waiting.append(other)
    found = _core(rows, sides, sorted(open_rows), sorted(holders))
    for unknown, i in reversed(given):
        require_time()
        total = dict(sides[i])
        for j, v in rows[i].items():
            if j != unknown:
                _subtract(total, v, found[j], None)
        found[unknown] = {m: v / rows[i][unknown] for m, v in total.items()}
    return found


def _subtract(
    target: dict[int, Fraction], factor: Fraction, row: dict[int, Fraction], but: int | None
) -> list[int]:
    """target −= factor · row in all entries but one; the entries that are new, or gone."""
    changed = []
    for j, v in row.items():
        if j == but:
            continue
        before = target.get(j)
        value = factor * v
        if before is None:
            target[j] = -value
            changed.append(j)
        elif before == value:
            del target[j]
            changed.append(j)
        else:
            target[j] = before - value
    return changed


def _core(
    rows: list[dict[int, Fraction]],
    sides: list[dict[int, Fraction]],
    left: list[int],
    unknowns: list[int],
) -> dict[int, dict[int, Fraction]]:
    """The unknowns that short equations do not give."""
    if len(left) != len(unknowns):
        raise ZeroDivisionError("the system is singular")
    if not left:
        return {}
    numbers = sorted({m for i in left for m in sides[i]})
    if not numbers:
        return {j: {} for j in unknowns}
    matrix, right = [], []
    for i in left:
        entries = [*rows[i].values(), *sides[i].values()]
        common = math.lcm(*(v.denominator for v in entries))
        matrix.append([int(rows[i].get(j, 0) * common) for j in unknowns])
        right.append([int(sides[i].get(m, 0) * common) for m in numbers])
    solution, denominator = _solve_dense(matrix, right)
    return {
        j: {m: Fraction(v, denominator) for m, v in zip(numbers, x, strict=True) if v}
        for j, x in zip(unknowns, solution, strict=True)
    }


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

    Vectors of whole numbers by coordinate. The prime may lose rank, with a chance of about 1e-7;
    whoever uses the answer checks it.
    """
    K = np.zeros((size, len(vectors)))
    for column, vector in enumerate(vectors):
        for c, v in vector.items():
            K[c, column] = v % PRIME
    _, chosen = pivots(K.copy(), PRIME)
    _, coordinates = pivots(np.ascontiguousarray(K[:, chosen].T), PRIME)
    return chosen, coordinates


def pivot_columns(K: Any, order: np.ndarray) -> np.ndarray:
    """A largest set of independent columns of a matrix modulo the prime, greedily in an order.

    Random sums of the rows, ten more than the rank can be, stand in for them. Both the prime and
    the sums may lose rank, with a chance of about 1e-7; whoever uses the answer checks it.
    """
    n, d = K.shape
    rng = np.random.default_rng(0)
    n_sums = min(n, d) + 10
    if n_sums**2 * d > MAX_ELIMINATION:
        raise TooLarge(f"{n} × {d} entries; a basis is found for up to about 3,000 × 3,000")
    mixed = np.zeros((n_sums, d))
    step = max(1, min(1 << 20, int(PIECE / (n_sums * d))))
    for start in range(0, n, step):  # sums of 2^20 residues below 2^23 are exact in float64
        require_time()
        part = K[start : start + step]
        signs = rng.choice(np.array([-1.0, 1.0]), (n_sums, part.shape[0]))
        sums = (part.T @ signs.T).T if sp.issparse(part) else signs @ part
        mixed = modulo(mixed + sums, PRIME)
    return order[pivots(mixed[:, order], PRIME)[1]]
