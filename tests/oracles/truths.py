"""The true best margin of a small problem of any kind, and what an answer may say of it.

All kinds are one problem in rational arithmetic: pairs (i, j) of an example and a wrong label, the
products of the examples, and vertices of the dual set that are generated until the weights prove
themselves optimal. Nothing here comes from the library but the names of its statuses.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat, fmpz_mat

from momentron import Status
from tests.oracles.margins import _wolfe
from tests.oracles.pairs import least_mean_cycle, whole_numbers

DEFINITE = Fraction(1, 2**170)
CLOSE = Fraction(1, 10**40)  # what seventy digits of an exponential leave open
VANISHING = 10.0  # times the tolerance and the radius: above it, "not separable" is false


@dataclass(frozen=True)
class Truth:
    """The best margin of a problem, squared.

    Attributes
    ----------
    squared : Fraction
        γ̄², right to `slack`.
    radius : float
        The longest row of the problem.
    slack : Fraction
        Zero where the answer is exact.
    """

    squared: Fraction
    radius: float
    slack: Fraction = Fraction(0)

    @cached_property
    def margin(self) -> float:
        """γ̄ as a float, for messages."""
        shift = self.squared.numerator.bit_length() - self.squared.denominator.bit_length()
        shift -= shift % 2
        return math.ldexp(math.sqrt(self.squared / Fraction(2) ** shift), shift // 2)

    def contradicts(self, lower: float, upper: float) -> str | None:
        """Why the interval is false, or None."""
        if not lower >= 0.0 or math.isnan(upper) or upper < 0.0:
            return f"[{lower!r}, {upper!r}] is no interval"
        if math.isinf(lower) or Fraction(lower) ** 2 > self.squared + self.slack:
            return f"lower {lower!r} is above the truth {self.margin!r}"
        if upper < math.inf and Fraction(upper) ** 2 < self.squared - self.slack:
            return f"upper {upper!r} is below the truth {self.margin!r}"
        return None

    def denies(self, status: Status, lower: float, upper: float, tol: float) -> str | None:
        """Why the status is false, or None."""
        limit = VANISHING * max(tol, 1e-6) * self.radius
        if not isinstance(status, Status):
            return f"status {status!r} is none"
        if status is Status.OPTIMAL and not (lower > 0.0 and 1.0 - lower / upper <= tol + 1e-12):
            return f"OPTIMAL to {tol} with [{lower!r}, {upper!r}], truth {self.margin!r}"
        if status is Status.NOT_SEPARABLE and self.margin > limit:
            return f"NOT_SEPARABLE with [{lower!r}, {upper!r}], truth {self.margin!r}"
        return None

    def refutes(self, result: Any, tol: float) -> str | None:
        """Why a MarginResult is false, or None."""
        return self.contradicts(result.lower, result.upper) or self.denies(
            result.status, result.lower, result.upper, tol
        )


class Rows:
    """The examples by their inner products, whole numbers times a unit.

    Parameters
    ----------
    points : fmpz_mat of shape (n, d), or the products themselves where `is_gram`
    unit : Fraction
        Of the products.
    """

    def __init__(self, points: fmpz_mat, unit: Fraction, is_gram: bool = False) -> None:
        self.points, self.unit, self.is_gram = points, unit, is_gram

    @classmethod
    def of(cls, X: np.ndarray) -> "Rows":
        """Rows of features in floats."""
        points, unit = whole_numbers(np.asarray(X, np.float64))
        return cls(points, unit**2)

    @classmethod
    def of_kernel(cls, K: list[list[Fraction]]) -> "Rows":
        """Products as fractions."""
        size = len(K)
        ratios = [fmpq(v.numerator, v.denominator) for row in K for v in row]
        numerators, denominator = fmpq_mat(size, size, ratios).numer_denom()
        return cls(numerators, Fraction(1, int(denominator)), is_gram=True)

    @classmethod
    def of_exponentials(cls, X: np.ndarray, gamma: float, power: int) -> "Rows":
        """exp(−γ Σ|x − x′|^power) to seventy digits; below 1e-990 it counts as zero.

        Rounding could make the matrix slightly indefinite, for which Wolfe's algorithm has no end:
        the diagonal is raised by far less than `CLOSE`.
        """
        rows = [[Fraction(float(v)) for v in row] for row in X]
        K = [[Fraction(0)] * len(rows) for _ in rows]
        for i, a in enumerate(rows):
            for j, b in enumerate(rows[: i + 1]):
                t = sum(abs(p - q) ** power for p, q in zip(a, b, strict=True)) * Fraction(gamma)
                if t < 2280:
                    K[i][j] = K[j][i] = _negative_exponential(t)
            K[i][i] += DEFINITE
        return cls.of_kernel(K)

    def times(self, a: fmpz_mat) -> fmpz_mat:
        """K a, in units."""
        return self.points * (a if self.is_gram else self.points.transpose() * a)

    @cached_property
    def radius(self) -> float:
        """√max K_ii."""
        n = self.points.nrows()
        if self.is_gram:
            top = max(int(self.points[i, i]) for i in range(n))
        else:
            table = self.points.tolist()
            top = max(sum(int(v) ** 2 for v in row) for row in table)
        return Truth(top * self.unit, 0.0).margin


def _negative_exponential(t: Fraction) -> Fraction:
    with ctx.workprec(240):
        found = (-arb(fmpq(t.numerator, t.denominator))).exp().mid()
    mantissa, exponent = found.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


class Pairs:
    """The dual problem over pairs (i, j), j a wrong label of example i.

    Parameters
    ----------
    rows : Rows
    y : sequence of int
        Labels 0..k−1, each of them present.
    fit_intercept : bool
    slack : Fraction
        1/(2C), zero for the hard margin.
    """

    def __init__(self, rows: Rows, y: Any, fit_intercept: bool, slack: Fraction) -> None:
        self.rows, self.fit_intercept = rows, fit_intercept
        self.y = [int(c) for c in y]
        self.k = max(self.y) + 1
        self.pairs = [(i, c, j) for i, c in enumerate(self.y) for j in range(self.k) if j != c]
        # the joint margin of two classes is √2 times their margin: so is the slack's share
        self.slack = slack / rows.unit * (2 if self.k == 2 else 1)

    def slopes(self, q: dict[int, fmpq]) -> list[fmpq]:
        """The gradient of ½ qᵀGq at every pair, in the unit of the products."""
        mixed = [[fmpq(0)] * self.k for _ in self.y]
        for number, weight in q.items():
            i, c, j = self.pairs[number]
            mixed[i][c] += weight
            mixed[i][j] -= weight
        numerators, denominator = fmpq_mat(mixed).numer_denom()
        F = self.rows.times(numerators)
        scale = fmpq(1, int(denominator))
        slopes = [(F[i, c] - F[i, j]) * scale for i, c, j in self.pairs]
        if self.slack:
            share = fmpq(self.slack.numerator, self.slack.denominator)
            for number, weight in q.items():
                slopes[number] += share * weight
        return slopes

    def vertex(self, slopes: list[fmpq]) -> dict[int, fmpq]:
        """The vertex with the least mean slope."""
        least: dict[tuple[int, int], tuple[fmpq, int]] = {}
        for number, (slope, (_, c, j)) in enumerate(zip(slopes, self.pairs, strict=True)):
            if (c, j) not in least or slope < least[c, j][0]:
                least[c, j] = slope, number
        if not self.fit_intercept:
            return {min(least.values())[1]: fmpq(1)}
        if self.k == 2:
            return {number: fmpq(1, 2) for _, number in least.values()}
        common = fmpq_mat(1, len(least), [v for v, _ in least.values()]).numer_denom()[0]
        arcs = dict(zip(least, map(int, common.entries()), strict=True))
        _, loop = least_mean_cycle(arcs, self.k)
        return {least[arc][1]: fmpq(1, len(loop)) for arc in loop}

    def squared(self) -> Fraction:
        """γ̄²: Wolfe's algorithm over generated vertices, until the weights prove it."""
        vertices = [self.vertex([fmpq(0)] * len(self.pairs))]
        gram: list[list[fmpq]] = []
        weights = {0: fmpq(1)}
        while True:
            slopes = self.slopes(vertices[-1])
            line = [sum((w * slopes[p] for p, w in v.items()), fmpq(0)) for v in vertices]
            gram = [[*row, v] for row, v in zip(gram, line, strict=False)] + [line]
            whole, _ = fmpq_mat(gram).numer_denom()
            weights = _wolfe(whole, [0] * len(gram), weights)
            q: dict[int, fmpq] = {}
            for place, weight in weights.items():
                for pair, share in vertices[place].items():
                    q[pair] = q.get(pair, fmpq(0)) + weight * share
            slopes = self.slopes(q)
            value = sum((w * slopes[p] for p, w in q.items()), fmpq(0))
            vertex = self.vertex(slopes)
            if sum((w * slopes[p] for p, w in vertex.items()), fmpq(0)) >= value:
                break
            vertices.append(vertex)
        found = Fraction(int(value.p), int(value.q)) * self.rows.unit
        return found / 2 if self.k == 2 else found


def truth_of(
    rows: Rows,
    y: Any,
    fit_intercept: bool,
    *,
    slack: Fraction = Fraction(0),
    is_rounded: bool = False,
) -> Truth:
    """The best margin over rows with labels 0..k−1; `slack` is 1/(2C)."""
    squared = max(Fraction(0), Pairs(rows, y, fit_intercept, slack).squared())
    square = Fraction(rows.radius) ** 2
    return Truth(squared, rows.radius, CLOSE * square if is_rounded else Fraction(0))


def kind_of(X: np.ndarray, y: Any, fit_intercept: bool) -> str:
    """Separable, quasi-separable or overlapping, for two classes and few rows.

    A row has a positive weight in some q ≥ 0 with Aᵀq = 0 iff it is in a circuit: a minimal set of
    rows with positive weights that cancel. All rows in circuits is overlap (Stiemke), none is
    separation.
    """
    signs = [1 if c else -1 for c in y]
    points, _ = whole_numbers(np.asarray(X, np.float64))
    table = [[int(v) for v in row] for row in points.tolist()]
    A = [[s * v for v in row] + [s] * fit_intercept for s, row in zip(signs, table, strict=True)]
    covered: set[int] = set()
    for size in range(1, len(A[0]) + 2):
        for rows in combinations(range(len(A)), size):
            if covered.issuperset(rows):
                continue
            matrix = fmpz_mat([A[i] for i in rows]).transpose()
            kernel, nullity = matrix.nullspace()
            if nullity != 1:
                continue
            weights = [int(kernel[i, 0]) for i in range(size)]
            if min(weights) > 0 or max(weights) < 0:
                covered.update(rows)
        if len(covered) == len(A):
            return "overlapping"
    return "quasi-separable" if covered else "separable"
