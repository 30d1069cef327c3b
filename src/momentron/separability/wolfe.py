"""Wolfe's algorithm in rational arithmetic, face by face, for data on which floats see too little.

Wolfe's minimum-norm point of the convex hull of all vectors a is either a w with a·w ≥ w·w > 0 for
each of them, or zero: then some of them, F, cancel with positive weights, every w with A w ≥ 0
vanishes on their span, and the same question is asked of the others modulo that span. Every step
is finite. The supports F are independent up to one relation: the first is a smallest conflict.
"""

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import nnls

from momentron.arithmetic.clock import require_time
from momentron.separability.basis import ExactWeights, combination, null_space
from momentron.separability.cone import Cone
from momentron.solvers.rational.memory import require_memory
from momentron.solvers.rational.nearest import Points, Vector, Weights, Wolfe, dot
from momentron.solvers.rational.systems import independent, primitive

BYTES_PER_INTEGER = 100  # with its coordinate
GUESS_FLOPS = 1e9  # of one call of non-negative least squares


def exact_pair(cone: Cone) -> tuple[Vector, list[ExactWeights], ExactWeights | None]:
    """(w, boundary weights, a conflict) by exact arithmetic alone; w is empty if all overlap.

    Raises
    ------
    OutOfTime
        When the deadline comes first.
    TooLarge
        If all pairs in all coordinates do not fit into memory.
    """
    faces = _Faces(cone)
    w = faces.reduce()
    return w, [_as_weights(faces.q)] if faces.q else [], faces.conflict


def _as_weights(q: dict[int, Fraction]) -> ExactWeights:
    pairs = sorted(q)
    common = math.lcm(*(q[pair].denominator for pair in pairs))
    return ExactWeights(np.array(pairs), [int(q[pair] * common) for pair in pairs], common)


class _Faces:
    """The boundary pairs found so far, and weights q > 0 on them that cancel."""

    def __init__(self, cone: Cone) -> None:
        entries = float(cone.size + cone.n_coordinates) * cone.n_coordinates
        size = entries * (BYTES_PER_INTEGER + cone.table.bits / 8)
        require_memory(size, f"{cone.size} pairs in integers")
        self.size = cone.n_coordinates
        self.vectors = cone.vectors(np.arange(cone.size))
        self.q: dict[int, Fraction] = {}
        self.basis: list[int] = []
        self.coordinates: list[int] = []
        self.conflict: ExactWeights | None = None

    def reduce(self) -> Vector:
        """w with a·w > 0 on every pair but the boundary pairs; empty where there are no others."""
        while True:
            left = [pair for pair in range(len(self.vectors)) if pair not in self.q]
            if not left:
                return []
            null, points = self._modulo_boundary(left)
            flat = [pair for pair, p in zip(left, points, strict=True) if not any(p)]
            self._absorb(dict.fromkeys(flat, Fraction(1)))
            kept = [(pair, p) for pair, p in zip(left, points, strict=True) if any(p)]
            if not kept:
                return []
            even, factors = even_lengths([p for _, p in kept])
            weights, v = minimum_norm_point(even)
            if any(v):
                return [sum(map(int.__mul__, v, column)) for column in zip(*null, strict=True)]
            face = {kept[i][0]: weight * factors[i] for i, weight in weights.items()}
            if self.conflict is None:
                found = _as_weights(face)
                self.conflict = ExactWeights(found.pairs, primitive(found.numerators), 1)
            self._absorb(face)

    def _modulo_boundary(self, left: list[int]) -> tuple[list[Vector], list[Vector]]:
        """(null space, the pairs left in its coordinates), of one order of magnitude."""
        free = sorted(set(range(self.size)) - set(self.coordinates))
        rows = [self.vectors[pair] for pair in self.basis]
        null = list(null_space(rows, self.coordinates, free).values())
        points = []
        for pair in left:
            require_time()
            points.append([_dot(self.vectors[pair], v) for v in null])
        bits = [max(map(int.bit_length, column)) for column in zip(*points, strict=True)]
        shifts = [max(bits) - b if b else 0 for b in bits]
        points = [[v << shift for v, shift in zip(p, shifts, strict=True)] for p in points]
        spread = [
            [v.get(c, 0) << shift for c in range(self.size)]
            for v, shift in zip(null, shifts, strict=True)
        ]
        return spread, points

    def _absorb(self, face: dict[int, Fraction]) -> None:
        """Take in pairs whose weighted sum lies in the span of the boundary pairs found so far.

        That sum is Σ c_j a_j over the basis, so that q·K + face − c cancels, and is positive for
        a large K.
        """
        if not face:
            return
        common = math.lcm(*(weight.denominator for weight in face.values()))
        total: dict[int, int] = {}
        for pair, weight in face.items():
            require_time()
            for c, v in self.vectors[pair].items():
                total[c] = total.get(c, 0) + int(weight * common) * v
        found = combination([self.vectors[pair] for pair in self.basis], total)
        assert found is not None
        correction = {
            self.basis[i]: Fraction(v, found[2] * common) for i, v in zip(*found[:2], strict=True)
        }
        ratios = [math.floor(share / self.q[pair]) + 1 for pair, share in correction.items()]
        factor = max([1, *ratios])
        self.q = {pair: factor * weight for pair, weight in self.q.items()}
        for pair, share in correction.items():
            self.q[pair] -= share
        self.q.update(face)
        members = self.basis + list(face)
        chosen, self.coordinates = independent([self.vectors[pair] for pair in members], self.size)
        self.basis = [members[i] for i in chosen]


def minimum_norm_point(points: list[Vector]) -> tuple[Weights, Vector]:
    """(weights, a multiple of the minimum-norm point) of the convex hull of whole points."""
    found = Wolfe(Points(points)).run(
        _guess(points), [min(range(len(points)), key=lambda i: dot(points[i], points[i]))]
    )
    return found.weights, found.x


def _guess(points: list[Vector]) -> Weights:
    """Weights near the answer, from non-negative least squares in floats; empty without one."""
    tops = [max(map(abs, column)) or 1 for column in zip(*points, strict=True)]
    top = max(tops)
    P = np.array([[v / top for v in p] for p in points])
    heavy = 1e3 * math.sqrt(P.shape[1])
    steps = min(3 * len(P), int(GUESS_FLOPS / (2.0 * P.size)))
    if steps < P.shape[1]:
        return {}  # it would take too long
    require_time()
    try:
        q, _ = nnls(
            np.vstack([P.T, np.full(len(P), heavy)]),
            np.r_[np.zeros(P.shape[1]), heavy],
            maxiter=steps,
        )
    except RuntimeError:  # after so many steps
        return {}
    counts = {i: int(q[i] * 2**30) + 1 for i in np.flatnonzero(q > 1e-9).tolist()}
    total = sum(counts.values())
    return {i: Fraction(v, total) for i, v in counts.items()}


def even_lengths(points: list[Vector]) -> tuple[list[Vector], list[Fraction]]:
    """Multiples of points that are of one order of magnitude, and the factors."""
    divisors = [math.gcd(*p) for p in points]
    bits = [max(v.bit_length() for v in p) for p in points]
    sizes = [b - g.bit_length() for b, g in zip(bits, divisors, strict=True)]
    factors = [
        Fraction(1 << (max(sizes) - size), g) for size, g in zip(sizes, divisors, strict=True)
    ]
    return [[int(v * f) for v in p] for p, f in zip(points, factors, strict=True)], factors


def _dot(first: dict[int, int], second: dict[int, int]) -> int:
    return sum(value * second.get(c, 0) for c, value in first.items())
