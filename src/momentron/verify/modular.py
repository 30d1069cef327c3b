"""Elimination modulo a prime: what is regular there is regular in rational numbers.

A determinant of whole numbers that is not zero modulo p is not zero. Residues are whole numbers in
float64, so short that BLAS adds up 2^6 of their products without a rounding.
"""

import math
from collections.abc import Sequence

import numpy as np

from momentron.arithmetic.clock import require_time

PRIMES = (8388593, 8388587, 8388581)  # below 2^23: products of residues are below 2^46
BLOCK = 64  # columns eliminated at a time
MOST_ENTRIES = 20_000_000  # of a matrix whose null vectors are looked for

SparseRow = dict[int, int]  # column → whole number


def is_regular(rows: list[SparseRow], columns: list[int], prime: int) -> bool:
    """Whether these columns of as many rows are a regular matrix modulo the prime.

    Rows and columns with one entry are set aside first: little is left of a sparse matrix.
    """
    wanted = set(columns)
    if len(rows) != len(wanted) or len(columns) != len(wanted):
        return False
    left: list[SparseRow] = []
    for row in rows:
        residues = {c: v % prime for c, v in row.items() if c in wanted}
        left.append({c: v for c, v in residues.items() if v})
    core = _without_singletons(left, wanted)
    if core is None:
        return False
    rest, places = core
    K = np.zeros((len(rest), len(rest)))
    for i, row in enumerate(rest):
        for c, v in row.items():
            K[i, places[c]] = v
    return len(pivots(K, prime)[1]) == len(rest)


def _without_singletons(
    rows: list[SparseRow], columns: set[int]
) -> tuple[list[SparseRow], dict[int, int]] | None:
    """(rows that are left, the place of each column that is left); None where one is empty."""
    holders: dict[int, set[int]] = {c: set() for c in columns}
    for i, row in enumerate(rows):
        for c in row:
            holders[c].add(i)
    alive = dict(enumerate(rows))
    ready = [c for c, held in holders.items() if len(held) <= 1]
    while ready:
        require_time()
        c = ready.pop()
        if c not in holders:
            continue
        held = holders.pop(c)
        if not held:
            return None
        (i,) = held
        for other in alive.pop(i):
            if other in holders:
                holders[other].discard(i)
                if len(holders[other]) <= 1:
                    ready.append(other)
    places = {c: place for place, c in enumerate(sorted(holders))}
    return [{c: v for c, v in row.items() if c in places} for row in alive.values()], places


def pivots(K: np.ndarray, prime: int) -> tuple[list[int], list[int]]:
    """(pivot rows, pivot columns) of a matrix of residues: the first independent columns.

    K is overwritten: what is left of each row that is no pivot row.
    """
    rows, columns = np.arange(len(K)), []
    done = 0
    for start in range(0, K.shape[1], BLOCK):
        require_time()
        stop = min(start + BLOCK, K.shape[1])
        order, found = _panel_pivots(K[done:, start:stop].copy(), prime)
        if not found:
            continue
        size = len(found)
        K[done:] = K[done:][order]
        rows[done:] = rows[done:][order]
        chosen = [start + c for c in found]
        columns += chosen
        top, rest = K[done : done + size], K[done + size :]
        inverse = small_inverse(top[:, chosen], prime)
        top[:, start:] = modulo(inverse @ top[:, start:], prime)
        for first in range(0, len(rest), 1 << 12):
            require_time()
            part = rest[first : first + (1 << 12)]
            part[:, start:] = modulo(part[:, start:] - part[:, chosen] @ top[:, start:], prime)
        done += size
        if done == len(K):
            break
    return rows[:done].tolist(), columns


def short_null_vectors(rows: list[SparseRow], width: int) -> list[SparseRow] | None:
    """As many vectors as the rows lack in rank modulo a prime, each of short fractions.

    If all of them are orthogonal to all rows, which is for the caller to see, they are a basis of
    what is: they are independent, and the rank is no less than modulo the prime. None where they
    are not short, or there are too many entries.
    """
    if len(rows) * width > MOST_ENTRIES:
        return None
    chosen, columns = pivots(_residues(rows, range(width), PRIMES[0]), PRIMES[0])
    free = sorted(set(range(width)) - set(columns))
    square = [rows[i] for i in chosen]
    found, modulus = np.zeros((len(columns), len(free)), object), 1
    for prime in PRIMES:  # each column of free as a sum of others, by the Chinese remainder theorem
        if not is_regular(square, columns, prime):
            return None
        inverse = small_inverse(_residues(square, columns, prime), prime)
        part = _product(inverse, _residues(square, free, prime), prime).astype(np.int64)
        found = found + modulus * ((part - found) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    vectors = []
    for j, c in enumerate(free):
        require_time()
        fractions = [_fraction(v, modulus) for v in found[:, j].tolist()]
        common = math.lcm(*(q for _, q in fractions))
        u = {columns[i]: -p * common // q for i, (p, q) in enumerate(fractions) if p}
        vectors.append(u | {c: common})
    return vectors


def _residues(rows: list[SparseRow], columns: Sequence[int], prime: int) -> np.ndarray:
    """Some columns of rows as a matrix of residues."""
    places = {c: place for place, c in enumerate(columns)}
    K = np.zeros((len(rows), len(places)))
    for i, row in enumerate(rows):
        for c, v in row.items():
            if c in places:
                K[i, places[c]] = v % prime
    return K


def _product(A: np.ndarray, B: np.ndarray, prime: int) -> np.ndarray:
    total = np.zeros((A.shape[0], B.shape[1]))
    for start in range(0, A.shape[1], BLOCK):
        require_time()
        stop = start + BLOCK
        total = modulo(total + modulo(A[:, start:stop] @ B[start:stop], prime), prime)
    return total


def _fraction(value: int, modulus: int) -> tuple[int, int]:
    """A short fraction p/q with this residue, by Euclid's algorithm; perhaps the wrong one."""
    limit = math.isqrt(modulus // 2)
    before, p, old, q = modulus, value % modulus, 0, 1
    while p > limit:
        times = before // p
        before, p, old, q = p, before - times * p, q, old - times * q
    return (p, q) if q > 0 else (-p, -q)


def _panel_pivots(panel: np.ndarray, prime: int) -> tuple[np.ndarray, list[int]]:
    """(order of the rows that puts pivots first, pivot columns) of a narrow matrix."""
    order, found = np.arange(len(panel)), list[int]()
    for column in range(panel.shape[1]):
        done = len(found)
        nonzero = np.flatnonzero(panel[done:, column])
        if nonzero.size == 0:
            continue
        pivot = done + int(nonzero[0])
        panel[[done, pivot]] = panel[[pivot, done]]
        order[[done, pivot]] = order[[pivot, done]]
        scale = pow(int(panel[done, column]), -1, prime)
        panel[done, column:] = panel[done, column:] * scale % prime
        below = panel[done + 1 :, column:]
        panel[done + 1 :, column:] = modulo(below - below[:, :1] * panel[done, column:], prime)
        found.append(column)
        if len(found) == len(panel):
            break
    return order, found


def small_inverse(block: np.ndarray, prime: int) -> np.ndarray:
    """The inverse of a regular block modulo the prime."""
    size = len(block)
    K = np.hstack([block, np.eye(size)])
    for i in range(size):
        pivot = i + int(np.flatnonzero(K[i:, i])[0])
        K[[i, pivot]] = K[[pivot, i]]
        K[i] = K[i] * pow(int(K[i, i]), -1, prime) % prime
        factors = K[:, i : i + 1].copy()
        factors[i] = 0.0
        K = modulo(K - factors * K[i], prime)
    return K[:, size:]


def modulo(K: np.ndarray, prime: int) -> np.ndarray:
    """Whole floats below 2^53 modulo the prime, in place."""
    K -= np.floor(K / prime) * prime
    K[K < 0.0] += prime  # the quotient was rounded
    K[prime <= K] -= prime
    return K
