"""Dixon's p-adic lifting: systems of some hundred equations without python-flint.

x is found modulo p, p², p³, …, one product with the inverse modulo p and one with M a step, until
the modulus exceeds what Hadamard's bound allows the numerators and the denominator; then Euclid's
algorithm reads the fraction off (Dixon 1982). Products run on limbs of 16 bits in int64.
"""

import math

import numpy as np

PRIMES = (2147483647, 2147483629, 2147483587)  # the largest below 2^31
LIMB = 16


def lift(matrix: list[list[int]], right: list[list[int]]) -> tuple[list[list[int]], int]:
    """(numerators, positive denominator) of Y with M Y = R, for at most 2^12 equations.

    Raises
    ------
    ZeroDivisionError
        Where M is singular modulo three primes.
    """
    prime, inverse = _inverse(matrix)
    system = _System(matrix, prime, inverse)
    columns = [system.solve(list(column)) for column in zip(*right, strict=True)]
    common = math.lcm(*(denominator for _, denominator in columns))
    scaled = [[v * (common // denominator) for v in x] for x, denominator in columns]
    return [list(row) for row in zip(*scaled, strict=True)], common


def _inverse(matrix: list[list[int]]) -> tuple[int, np.ndarray]:
    """(p, M⁻¹ modulo p) by Gauss and Jordan."""
    size = len(matrix)
    for p in PRIMES:
        K = np.array([[v % p for v in row] for row in matrix], np.int64)
        K = np.hstack([K, np.eye(size, dtype=np.int64)])
        for i in range(size):
            nonzero = np.flatnonzero(K[i:, i])
            if nonzero.size == 0:
                break
            pivot = i + int(nonzero[0])
            K[[i, pivot]] = K[[pivot, i]]
            K[i] = K[i] * pow(int(K[i, i]), -1, p) % p
            factors = K[:, i].copy()
            factors[i] = 0
            K[:, i:] = (K[:, i:] - factors[:, None] * K[i, i:]) % p
        else:
            return p, K[:, size:]
    raise ZeroDivisionError("the system is singular")


class _System:
    """M as limbs, and its inverse modulo p in two halves."""

    def __init__(self, matrix: list[list[int]], p: int, inverse: np.ndarray) -> None:
        self.p = p
        self.high, self.low = inverse >> LIMB, inverse & ((1 << LIMB) - 1)
        bits = max(abs(v).bit_length() for row in matrix for v in row)
        mask = (1 << LIMB) - 1
        self.limbs = [
            np.array(
                [
                    [((abs(v) >> shift) & mask) * (1 if v > 0 else -1) for v in row]
                    for row in matrix
                ],
                np.int64,
            )
            for shift in range(0, bits, LIMB)
        ]
        # Hadamard: twice the squared determinant's bits, with a column replaced by the right side
        norms = [sum(v * v for v in row).bit_length() / 2 for row in matrix]
        self.bits = math.ceil(sum(norms))

    def solve(self, right: list[int]) -> tuple[list[int], int]:
        if not any(right):
            return [0] * len(right), 1
        extra = max(abs(v).bit_length() for v in right) + len(right).bit_length()
        steps = (2 * self.bits + extra + 8) // 30 + 2
        residual = np.array(right, object)
        digits = []
        for _ in range(steps):
            b = (residual % self.p).astype(np.int64)
            x = ((self.high @ b % self.p << LIMB) + self.low @ b % self.p) % self.p
            digits.append(x.tolist())
            product = np.zeros(len(right), object)
            for place, limb in enumerate(self.limbs):
                product += (limb @ x).astype(object) * (1 << (LIMB * place))
            residual = (residual - product) // self.p
        return self._fractions(digits, self.bits + extra)

    def _fractions(self, digits: list[list[int]], bits: int) -> tuple[list[int], int]:
        modulus, size = self.p ** len(digits), len(digits[0])
        values = []
        for j in range(size):
            value = 0
            for step in reversed(digits):
                value = value * self.p + step[j]
            values.append(value)
        denominator, bound = 1, 1 << bits
        numerators: list[int] = []
        while len(numerators) < size:
            v = values[len(numerators)] * denominator % modulus
            v = v - modulus if v > modulus // 2 else v
            if abs(v) > bound:
                factor = _denominator(v % modulus, modulus, bound)
                numerators = [n * factor for n in numerators]
                denominator *= factor
                continue
            numerators.append(v)
        return numerators, denominator


def _denominator(value: int, modulus: int, bound: int) -> int:
    """The b ≥ 1 with b·value ≡ a, |a| ≤ bound, by Euclid's algorithm."""
    before, now, b_before, b_now = modulus, value, 0, 1
    while now > bound:
        quotient = before // now
        before, now = now, before - quotient * now
        b_before, b_now = b_now, b_before - quotient * b_now
    return abs(b_now)
