"""Spans of sparse rows of whole numbers: regular minors of them, and what is orthogonal to them."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.systems import PRIME, Vector, pivot_columns, primitive, solve_rows
from momentron.verify.modular import pivots

MANY_STEPS = 3_000_000  # entries that a sparse elimination may touch: some seconds
MANY_ROWS = 3e10  # products beyond which independent rows are not looked for


def minor(
    residues: Callable[[np.ndarray], Any],
    rows: np.ndarray,
    most: int,
    promising: np.ndarray | None = None,
) -> tuple[list[int], list[int]]:
    """(rows, columns) of a regular minor of full rank, at most `most`, modulo the prime.

    Some of the rows of a dense matrix often suffice, with those at the promising positions, and all
    of them may be many.
    """
    if sp.issparse(residues(rows[:1])):
        K = residues(rows)
        at, columns = sparse_minor(K, np.arange(rows.size)) or _full_minor(K)
        return rows[at].tolist(), columns
    some = 2 * most + 64
    if rows.size > 2 * some:
        chosen = np.random.default_rng(0).choice(rows.size, some, replace=False)
        chosen = np.unique(chosen if promising is None else np.append(chosen, promising))
        at, columns = _full_minor(residues(rows[chosen]))
        if len(at) == most:
            return rows[chosen[at]].tolist(), columns
    at, columns = _full_minor(residues(rows))
    return rows[at].tolist(), columns


def sparse_minor(K: Any, order: np.ndarray) -> tuple[list[int], list[int]] | None:
    """(rows, columns) of a regular minor of full rank: the first independent rows in an order.

    Each row is reduced by those before it, whose leading columns have as few entries as can be:
    dummies fill nothing in. None where that takes too long.
    """
    K = sp.csr_array(K)
    counts = np.bincount(K.indices, minlength=K.shape[1]).tolist()
    starts, indices = K.indptr.tolist(), K.indices.tolist()
    values = K.data.astype(np.int64).tolist()
    leading: dict[int, int] = {}  # column → which of the reduced rows it leads
    reduced: list[Vector] = []
    found, work = [], 0
    for i in order.tolist():
        require_time()
        at = slice(starts[i], starts[i + 1])
        row = {c: v % PRIME for c, v in zip(indices[at], values[at], strict=True) if v % PRIME}
        while led := [leading[c] for c in row if c in leading]:
            top = reduced[min(led)]  # rows after it do not bring its column back
            column = next(iter(top))
            factor = row[column]
            work += len(top)
            for c, v in top.items():
                value = (row.get(c, 0) - factor * v) % PRIME
                if value:
                    row[c] = value
                else:
                    row.pop(c, None)
        if work > MANY_STEPS:
            return None
        if row:
            first = min(row, key=counts.__getitem__)
            inverse = pow(row[first], -1, PRIME)
            leading[first] = len(reduced)
            rest = {c: v * inverse % PRIME for c, v in row.items() if c != first}
            reduced.append({first: 1} | rest)
            found.append(i)
            if len(found) == K.shape[1]:
                break
    return found, list(leading)


def _full_minor(K: Any) -> tuple[list[int], list[int]]:
    dense = K.toarray() if hasattr(K, "toarray") else np.array(K)
    n, d = dense.shape
    if n == 0 or d == 0:
        return [], []
    columns = np.sort(pivot_columns(K, np.arange(d)))
    if float(n) * columns.size**2 > MANY_ROWS:
        raise TooLarge(f"{n} × {d} entries; independent rows are not looked for among so many")
    dense %= PRIME
    rows, found = pivots(np.ascontiguousarray(dense[:, columns]), PRIME)
    return rows, columns[found].tolist()


def null_space(rows: list[Vector], pivot: list[int], free: list[int]) -> dict[int, Vector]:
    """For each free coordinate the vector orthogonal to all rows that has no other free one."""
    if not rows:
        return {f: {f: 1} for f in free}
    if not free:
        return {}
    right = [{f: -a[f] for f in free if f in a} for a in rows]
    solution = solve_rows(rows, pivot, right)
    vectors: dict[int, dict[int, Fraction]] = {f: {f: Fraction(1)} for f in free}
    for c in pivot:
        for f, v in solution[c].items():
            vectors[f][c] = v
    return {f: whole_vector(v) for f, v in vectors.items()}


def mixture(rows: list[Vector], pivot: list[int], free: Vector) -> Vector:
    """One vector orthogonal to all rows with these values in the free coordinates."""
    if not rows:
        return dict(free)
    right = [{0: -sum(a.get(f, 0) * v for f, v in free.items())} for a in rows]
    solution = solve_rows(rows, pivot, right)
    found = {f: Fraction(v) for f, v in free.items()}
    return whole_vector(found | {c: x[0] for c, x in solution.items() if x})


def whole_vector(v: dict[int, Fraction]) -> Vector:
    """The shortest whole multiple of a vector, in the order of its coordinates."""
    common = math.lcm(*(x.denominator for x in v.values()))
    numbers = primitive([int(x * common) for x in v.values()])
    return dict(sorted(zip(v, numbers, strict=True)))


def unit_floats(vector: list[int]) -> np.ndarray:
    """A multiple of a vector, of length 1."""
    top = max(map(abs, vector), default=0) or 1
    found = np.array([v / top for v in vector])
    return found / (np.linalg.norm(found) or 1.0)


def ratio_sign(first: list[int], second: list[int]) -> int:
    """The sign of the factor between two vectors; 0 where none is a multiple of the other."""
    at = next((i for i, v in enumerate(second) if v), None)
    if at is None or not first[at]:
        return 0
    if any(a * second[at] != b * first[at] for a, b in zip(first, second, strict=True)):
        return 0
    return 1 if (first[at] > 0) == (second[at] > 0) else -1


def inner(first: list[int], second: list[int]) -> int:
    return sum(map(int.__mul__, first, second))


def dot(first: Vector, second: Vector) -> int:
    return sum(v * second.get(c, 0) for c, v in first.items())
