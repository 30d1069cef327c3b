"""Rational linear algebra, by python-flint: systems of integers, solved exactly, and their rank."""

import marshal
import math
import subprocess
import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from flint import fmpq, fmpz_mat, nmod_mat

from momentron.arithmetic.clock import require_time, time_left
from momentron.solvers.rational.memory import TooLarge

Vector = dict[int, int]  # by coordinate; what is absent is zero

PRIME = 8388593  # below 2^23: float64 adds up 2^30 residues exactly
PIECE = 2e9  # multiplications between two looks at the clock
MAX_EQUATIONS = 2500
MAX_ELIMINATION = 3e11  # multiplications modulo the prime: some seconds
SHORT_EQUATION = 3  # unknowns of an equation that is solved for one of them first
MANY_EQUATIONS = 24  # from which on equations are looked at for that
IN_PROCESS = 0.5  # seconds of a call of python-flint, which nothing can interrupt
INTERVAL = 0.02  # seconds between two looks at a process
CHILD = """
import marshal, sys
from flint import fmpz_mat
left, right = marshal.load(sys.stdin.buffer)
numerators, denominator = fmpz_mat(left).solve(fmpz_mat(right)).numer_denom()
marshal.dump(([[int(v) for v in row] for row in numerators.tolist()], int(denominator)),
             sys.stdout.buffer)
"""


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
    if seconds > IN_PROCESS:
        return _solved_by_a_child(left, sides)
    solution: Any = fmpz_mat(left).solve(fmpz_mat(sides))
    numerators, denominator = solution.numer_denom()
    return [[int(v) for v in row] for row in numerators.tolist()], int(denominator)


def solving_seconds(rows: list[list[int]]) -> float:
    """About how long python-flint takes for an augmented system."""
    size, bits = len(rows), max((abs(v).bit_length() for row in rows for v in row), default=0)
    many = len(rows[0]) - size if rows else 0
    return 1e-12 * size**3 * (size + many) * bits * max(1.0, bits / 500)


def _solved_by_a_child(
    left: list[list[int]], right: list[list[int]]
) -> tuple[list[list[int]], int]:
    """`solve_many` in another process, which a deadline or Ctrl-C ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        message: bytes | None = marshal.dumps((left, right))
        while True:
            try:
                answer, _ = child.communicate(message, timeout=INTERVAL)
                break
            except subprocess.TimeoutExpired:
                message = None
                require_time()
    finally:
        child.kill()
        child.wait()
    if child.returncode:
        raise ZeroDivisionError("the system is singular")
    numerators, denominator = marshal.loads(answer)
    return numerators, denominator


def solve_rows(
    rows: list[Vector], unknowns: list[int], right: list[Vector]
) -> dict[int, dict[int, fmpq]]:
    """For each unknown its values, by right side, zeros left out: Σ rows[i][j] x_j = right[i].

    Rows may have entries for others than the unknowns: these do not count. Equations of few
    unknowns, such as those of dummies, give one each, which is replaced in all others; what is left
    is small. Raises as `solve_many`.
    """
    wanted = set(unknowns)
    if len(rows) != len(wanted):
        raise ZeroDivisionError("the system is not square")
    equations = [{j: fmpq(v) for j, v in row.items() if j in wanted and v} for row in rows]
    sides = [{m: fmpq(v) for m, v in b.items() if v} for b in right]
    given = _eliminated(equations, sides) if len(rows) > MANY_EQUATIONS else []
    gone = {i for _, i in given}
    open_rows = [i for i in range(len(rows)) if i not in gone]
    found = _core(
        [equations[i] for i in open_rows],
        [sides[i] for i in open_rows],
        sorted(wanted - {unknown for unknown, _ in given}),
    )
    for unknown, i in reversed(given):
        require_time()
        total = dict(sides[i])
        for j, v in equations[i].items():
            if j != unknown:
                _subtract(total, v, found[j])
        found[unknown] = {m: v / equations[i][unknown] for m, v in total.items()}
    return found


def _eliminated(
    equations: list[dict[int, fmpq]], sides: list[dict[int, fmpq]]
) -> list[tuple[int, int]]:
    """(unknown, equation) that gives it, in order; each is replaced in all other equations."""
    holders: dict[int, set[int]] = {}
    for i, row in enumerate(equations):
        for j in row:
            holders.setdefault(j, set()).add(i)
    given: list[tuple[int, int]] = []
    waiting = [i for i, row in enumerate(equations) if len(row) <= SHORT_EQUATION]
    done: set[int] = set()
    while waiting:
        require_time()
        i = waiting.pop()
        if i in done or not 0 < len(equations[i]) <= SHORT_EQUATION:
            continue
        unknown = min(equations[i], key=lambda j: len(holders[j]))
        done.add(i)
        given.append((unknown, i))
        rest = {j: v for j, v in equations[i].items() if j != unknown}
        for other in holders.pop(unknown) - done:
            factor = equations[other].pop(unknown) / equations[i][unknown]
            for j in _subtract(equations[other], factor, rest):
                holders[j] ^= {other}  # an entry that is new, or gone
            _subtract(sides[other], factor, sides[i])
            if len(equations[other]) <= SHORT_EQUATION:
                waiting.append(other)
    return given


def _subtract(target: dict[int, fmpq], factor: fmpq, row: dict[int, fmpq]) -> list[int]:
    """target −= factor · row; the entries that are new, or gone."""
    changed = []
    for j, v in row.items():
        value = target.get(j, 0) - factor * v
        if j not in target or not value:
            changed.append(j)
        target[j] = value
        if not value:
            del target[j]
    return changed


def _core(
    equations: list[dict[int, fmpq]], sides: list[dict[int, fmpq]], unknowns: list[int]
) -> dict[int, dict[int, fmpq]]:
    """The unknowns that short equations do not give."""
    numbers = sorted({m for side in sides for m in side})
    if not unknowns or not numbers:
        if any(not row for row in equations):
            raise ZeroDivisionError("the system is singular")
        return {j: {} for j in unknowns}
    matrix, right = [], []
    for row, side in zip(equations, sides, strict=True):
        common = math.lcm(*(int(v.q) for part in (row, side) for v in part.values()))
        matrix.append([int(row.get(j, 0) * common) for j in unknowns])
        right.append([int(side.get(m, 0) * common) for m in numbers])
    solution, denominator = solve_many(matrix, right)
    return {
        j: {m: fmpq(v, denominator) for m, v in zip(numbers, x, strict=True) if v}
        for j, x in zip(unknowns, solution, strict=True)
    }


def primitive(row: list[int]) -> list[int]:
    """The row divided by its greatest common divisor."""
    divisor = math.gcd(*row) or 1
    return [v // divisor for v in row] if divisor > 1 else row


def pivots(K: np.ndarray) -> list[int]:
    """The first independent columns of a matrix of residues modulo the prime."""
    n, d = K.shape
    if float(n) * d * min(n, d) > MAX_ELIMINATION:
        raise TooLarge(f"{n} × {d} entries; independent columns are not looked for among so many")
    reduced, rank = nmod_mat(n, d, K.astype(np.int64).ravel().tolist(), PRIME).rref()
    found: list[int] = []
    column = 0
    while len(found) < rank:
        if int(reduced[len(found), column]):
            found.append(column)
        column += 1
    return found


def independent(vectors: list[Vector], size: int) -> tuple[list[int], list[int]]:
    """(positions of independent vectors, as many independent coordinates), greedily, modulo p.

    Vectors of integers by coordinate. The prime may lose rank, with a chance of about 1e-7;
    whoever uses the answer checks it.
    """
    K = np.zeros((size, len(vectors)), np.int64)
    for column, vector in enumerate(vectors):
        for c, v in vector.items():
            K[c, column] = v % PRIME
    chosen = pivots(K)
    return chosen, pivots(K[:, chosen].T)


def pivot_columns(K: Any, order: np.ndarray) -> np.ndarray:
    """A largest set of independent columns of a matrix modulo the prime, greedily in an order.

    Random sums of the rows, ten more than the rank can be, stand in for them. Both the prime and
    the sums may lose rank, with a chance of about 1e-7; whoever uses the answer checks it.
    """
    n, d = K.shape
    if n <= d + 10:
        dense = K.toarray() if sp.issparse(K) else np.asarray(K)
        return order[pivots(np.mod(dense, PRIME)[:, order])]
    rng = np.random.default_rng(0)
    mixed = np.zeros((d + 10, d))
    step = max(1, min(1 << 20, int(PIECE / ((d + 10) * d))))
    for start in range(0, n, step):  # sums of 2^20 residues below 2^23 are exact in float64
        require_time()
        part = K[start : start + step]
        signs = rng.choice(np.array([-1.0, 1.0]), (d + 10, part.shape[0]))
        sums = (part.T @ signs.T).T if sp.issparse(part) else signs @ part
        mixed = np.mod(mixed + sums, PRIME)
    return order[pivots(mixed[:, order])]
