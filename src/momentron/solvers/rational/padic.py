"""Dixon's p-adic lifting: some hundred or thousand equations, solved exactly in short steps.

x is found modulo p, p², p³, …, by one product with the inverse modulo p and one with M per step,
until the modulus exceeds what Hadamard's bound allows the numerators and the denominator; then
Euclid's algorithm reads the fraction off (Dixon 1982). All residues and limbs are whole numbers in
float64, so short that BLAS adds up their products without a rounding. Every step looks at the
clock.
"""

import math
from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational.memory import TooLarge, memory_cap
from momentron.verify.modular import modulo, small_inverse

PRIMES = (1048573, 1048571, 1048559)  # the largest below 2^20: 2^13 products of residues are exact
LIMB = 20
MAX_SIZE = 1 << 13
BLOCK = 128  # columns that elimination takes at a time
RIGHT_SIDES = 16  # solved together
EUCLID_STEPS = 1 << 10  # between two looks at the clock
PRODUCTS = 2e9  # multiplications per second, of a matrix with a vector
CONVERSIONS = 4e6  # numbers per second that pass through Python


def seconds(matrix: list[list[int]], n_right: int) -> float:
    """About how long `solve` takes."""
    size, bits = len(matrix), _bits(matrix)
    limbs = _limbs(matrix)
    steps = 2.0 * (bits + 64) / LIMB
    per_step = size * size * (limbs + 1) / PRODUCTS + size * (limbs + 4) / CONVERSIONS
    assembly = size * (bits / 8e4) ** 1.6 * 5e-3
    return 4.0 * size**3 / 1e10 + n_right * (steps * per_step + assembly)


def solve(matrix: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    """(numerators, positive denominator) of Y with M Y = R, for at most 2^13 equations.

    Raises
    ------
    ZeroDivisionError
        Where M is singular modulo three primes.
    TooLarge
        Where M does not fit into memory.
    """
    size = len(matrix)
    if size > MAX_SIZE or _limbs(matrix) * size**2 * 24 + size**2 * 40 > memory_cap():
        raise TooLarge(f"{size} equations of {_limbs(matrix)} limbs do not fit into memory")
    prime, inverse = _inverse(matrix)
    system = _System(matrix, prime, inverse)
    columns = [list(column) for column in zip(*right, strict=True)]
    solved = []
    for start in range(0, len(columns), RIGHT_SIDES):
        solved += system.solve(columns[start : start + RIGHT_SIDES])
    common = math.lcm(*(denominator for _, denominator in solved))
    scaled = [[v * (common // denominator) for v in x] for x, denominator in solved]
    return [list(row) for row in zip(*scaled, strict=True)], common


def _limbs(matrix: list[list[int]]) -> int:
    return max(1, math.ceil(max(abs(v).bit_length() for row in matrix for v in row) / LIMB))


def _bits(matrix: list[list[int]]) -> int:
    """Hadamard's bound of the determinant, in bits."""
    return math.ceil(sum(sum(v * v for v in row).bit_length() / 2 for row in matrix))


def _inverse(matrix: list[list[int]]) -> tuple[int, np.ndarray]:
    """(p, M⁻¹ modulo p) by Gauss and Jordan, some columns at a time."""
    size = len(matrix)
    for p in PRIMES:
        K = np.zeros((size, 2 * size))
        for i, row in enumerate(matrix):
            K[i, :size] = [v % p for v in row]
        K[:, size:] = np.eye(size)
        if all(_eliminate(K, i, min(i + BLOCK, size), p) for i in range(0, size, BLOCK)):
            return p, np.ascontiguousarray(K[:, size:])
    raise ZeroDivisionError("the system is singular")


def _eliminate(K: np.ndarray, start: int, stop: int, p: int) -> bool:
    """Turn columns start to stop into those of the identity; False where that is impossible."""
    require_time()
    size, width = len(K), stop - start
    panel = K[start:, start:stop].copy()
    order = np.arange(start, size)
    for i in range(width):  # which rows can be pivots
        nonzero = np.flatnonzero(panel[i:, i])
        if nonzero.size == 0:
            return False
        pivot = i + int(nonzero[0])
        panel[[i, pivot]] = panel[[pivot, i]]
        order[[i, pivot]] = order[[pivot, i]]
        panel[i, i:] = panel[i, i:] * pow(int(panel[i, i]), -1, p) % p
        panel[i + 1 :, i:] = modulo(
            panel[i + 1 :, i:] - panel[i + 1 :, i : i + 1] * panel[i, i:], p
        )
    K[start:] = K[order]
    block = small_inverse(K[start:stop, start:stop], p)
    K[start:stop] = modulo(block @ K[start:stop], p)
    for first in (0, stop):
        others = slice(first, start if first == 0 else size)
        K[others] = modulo(K[others] - K[others, start:stop] @ K[start:stop], p)
        require_time()
    return True


def _long_integer() -> Any:
    """The fastest type of long integers at hand."""
    try:
        from flint import fmpz
    except ImportError:
        return int
    return fmpz


class _System:
    """M as limbs, and its inverse modulo p."""

    def __init__(self, matrix: list[list[int]], p: int, inverse: np.ndarray) -> None:
        self.p, self.inverse, self.long = p, inverse, _long_integer()
        size, n_limbs = len(matrix), _limbs(matrix)
        self.limbs = np.zeros((n_limbs, size, size))
        mask = (1 << LIMB) - 1
        for i, row in enumerate(matrix):
            signs = np.array([1.0 if v > 0 else -1.0 for v in row])
            sizes = [abs(v) for v in row]
            for place in range(n_limbs):
                self.limbs[place, i] = [v >> (LIMB * place) & mask for v in sizes]
            self.limbs[:, i] *= signs
        self.bits = _bits(matrix)

    def solve(self, columns: list[list[int]]) -> list[tuple[list[int], int]]:
        """(numerators, denominator) for each right side."""
        right = np.array(columns, object).T
        extra = max(abs(v).bit_length() for column in columns for v in column)
        extra += len(right).bit_length()
        steps = math.ceil((2 * self.bits + extra + 8) / math.log2(self.p)) + 2
        digits = self._digits(right, steps)
        return [
            self._fractions(digits[:, :, m], self.bits + extra)
            if any(column)
            else ([0] * len(column), 1)
            for m, column in enumerate(columns)
        ]

    def _digits(self, residual: np.ndarray, steps: int) -> np.ndarray:
        """The solution's digits to base p, the lowest first: steps × equations × right sides."""
        size, many = residual.shape
        digits = np.empty((steps, size, many), np.int64)
        stacked = self.limbs.reshape(-1, size)
        for step in range(steps):
            require_time()
            x = modulo(self.inverse @ (residual % self.p).astype(np.float64), self.p)
            digits[step] = x
            parts = (stacked @ x).astype(np.int64).astype(object).reshape(-1, size, many)
            product = parts[-1]
            for part in parts[-2::-1]:
                product = (product << LIMB) + part
            residual = (residual - product) // self.p
        return digits

    def _fractions(self, digits: np.ndarray, bits: int) -> tuple[list[int], int]:
        """(numerators below 2^bits, denominator).

        Once the denominator is known a little more than half of the digits suffice: were it not the
        right one, a product would be below the bound with a chance of 2^−64.
        """
        steps, size = digits.shape
        few = min(steps, math.ceil((bits + 66) / math.log2(self.p)))
        values = self._assembled(digits[:few])
        modulus, bound = self.long(self.p) ** few, self.long(1) << bits
        denominator, numerators = self.long(1), list[Any]()
        while len(numerators) < size:
            require_time()
            j = len(numerators)
            v = values[j] * denominator % modulus
            v = v - modulus if v > modulus // 2 else v
            if abs(v) > bound:
                full = self.long(self.p) ** steps
                value = self._assembled(digits[:, j : j + 1])[0] * denominator % full
                factor = _denominator(value, full, bound)
                numerators = [n * factor for n in numerators]
                denominator *= factor
                continue
            numerators.append(v)
        return [int(v) for v in numerators], int(denominator)

    def _assembled(self, digits: np.ndarray) -> list[Any]:
        """Σ digit·p^step for each equation, two neighbours at a time."""
        base: Any = self.long(self.p)
        parts = [[self.long(v) for v in row] for row in digits.tolist()]
        while len(parts) > 1:
            joined = []
            for low, high in zip(parts[::2], [*parts[1::2], None], strict=False):
                require_time()
                joined.append(
                    low if high is None else [a + b * base for a, b in zip(low, high, strict=True)]
                )
            parts, base = joined, base * base
        return parts[0]


def _denominator(value: Any, modulus: Any, bound: Any) -> Any:
    """The b ≥ 1 with b·value ≡ a, |a| ≤ bound, by Euclid's algorithm."""
    before, now, b_before, b_now, steps = modulus, value, modulus * 0, modulus * 0 + 1, 0
    while now > bound:
        quotient = before // now
        before, now = now, before - quotient * now
        b_before, b_now = b_now, b_before - quotient * b_now
        steps += 1
        if steps % EUCLID_STEPS == 0:
            require_time()
    return abs(b_now)
