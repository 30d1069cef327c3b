"""An oracle for the best joint margin of many classes, in rational arithmetic.

It shares no code with the library. The best margin is the length of the shortest point in the
convex hull of the dual set's vertices: a pair (i, j) each, or with intercepts the mean of the pairs
along a cycle of classes. Vertices are generated one at a time, by an exact minimum mean cycle, and
Wolfe's algorithm from `exact` does the rest.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat

from tests.oracles.margins import _wolfe

Arc = tuple[int, int]


def whole_numbers(array: np.ndarray) -> tuple[fmpz_mat, Fraction]:
    """A matrix of whole numbers, and the unit that gives the floats back, extended ones too."""
    ratios = [v.as_integer_ratio() for v in array.ravel()]
    common = max(denominator for _, denominator in ratios)
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole) or 1
    return fmpz_mat(*array.shape, [v // divisor for v in whole]), Fraction(divisor, common)


def least_mean_cycle(D: dict[Arc, int], k: int) -> tuple[Fraction, list[Arc]]:
    """The cycle of least mean, by Karp's recursion."""
    walks = [[(0, -1)] * k]  # the lightest walk of m arcs, from anywhere, to each class
    for _ in range(k):
        last = walks[-1]
        walks.append([min((last[c][0] + D[c, j], c) for c in range(k) if c != j) for j in range(k)])
    best, end = min(
        (max(Fraction(walks[k][j][0] - walks[m][j][0], k - m) for m in range(k)), j)
        for j in range(k)
    )
    path = [end]
    for m in range(k, 0, -1):
        path.append(walks[m][path[-1]][1])
    path.reverse()
    # a shorter one inside another has the same mean, and the shortest has each arc once
    ends = itertools.combinations(range(k + 1), 2)
    for a, b in sorted(ends, key=lambda pair: pair[1] - pair[0]):
        loop = list(itertools.pairwise(path[a : b + 1]))
        if path[a] == path[b] and sum(D[arc] for arc in loop) == best * len(loop):
            return best, loop
    raise AssertionError("the walk that decides holds no cycle of that mean")


@dataclass(frozen=True)
class Optimum:
    """The best margin, squared, with W up to its length and q rounded to float64."""

    margin_squared: Fraction
    W: np.ndarray
    q: np.ndarray


class ExactPairs:
    """X as whole numbers times a unit, with labels 0..k−1; pairs are numbered as in the library."""

    def __init__(self, X: np.ndarray, y: np.ndarray, fit_intercept: bool) -> None:
        self.points, self.unit = whole_numbers(X)
        self.y, self.k, self.fit_intercept = y.tolist(), int(y.max()) + 1, fit_intercept
        self.pairs = [(i, c, j) for i, c in enumerate(self.y) for j in range(self.k) if j != c]

    def leads(self, W: fmpz_mat) -> list[int]:
        """F_ic − F_ij of every pair."""
        F = self.points * W
        return [int(F[i, c] - F[i, j]) for i, c, j in self.pairs]

    def vertex(self, leads: list[int]) -> tuple[Fraction, list[int]]:
        """The least mean of the leads over a vertex, and the vertex as numbers of pairs."""
        D: dict[Arc, int] = {}
        at: dict[Arc, int] = {}
        for number, (lead, (_, c, j)) in enumerate(zip(leads, self.pairs, strict=True)):
            if (c, j) not in D or lead < D[c, j]:
                D[c, j], at[c, j] = lead, number
        if not self.fit_intercept:
            arc = min(D, key=D.__getitem__)
            return Fraction(D[arc]), [at[arc]]
        mean, loop = least_mean_cycle(D, self.k)
        return mean, [at[arc] for arc in loop]

    def margin_squared(self, W: np.ndarray) -> Fraction:
        """γ|γ| for γ the exact joint margin of W, with the best intercepts for it; 0 for W = 0."""
        whole, _ = whole_numbers(W)
        squared = sum(int(v) ** 2 for v in whole.entries())
        if squared == 0:
            return Fraction(0)
        reach, _ = self.vertex(self.leads(whole))
        return reach * abs(reach) / squared * self.unit**2

    def combined(self, weights: dict[int, Any]) -> fmpq_mat:
        """Σ q x_i (e_c − e_j)ᵀ as a d × k matrix, in the unit of the points."""
        mixed = [[fmpq(0)] * self.k for _ in self.y]
        for number, weight in weights.items():
            i, c, j = self.pairs[number]
            mixed[i][c] += weight
            mixed[i][j] -= weight
        return fmpq_mat(self.points.transpose()) * fmpq_mat(mixed)

    @cached_property
    def optimum(self) -> Optimum:
        """Wolfe's algorithm over generated vertices, until W proves that it is optimal."""
        vertices = [self.vertex([0] * len(self.pairs))[1]]
        points, weights = [], {0: fmpq(1)}
        while True:
            share = fmpq(1, len(vertices[-1]))
            points.append(self.combined(dict.fromkeys(vertices[-1], share)).entries())
            whole, _ = fmpq_mat(points).numer_denom()
            weights = _wolfe(whole * whole.transpose(), [0] * len(points), weights)
            q: dict[int, fmpq] = {}
            for place, weight in weights.items():
                for pair in vertices[place]:
                    q[pair] = q.get(pair, fmpq(0)) + weight / len(vertices[place])
            W, denominator = self.combined(q).numer_denom()
            squared = sum(int(v) ** 2 for v in W.entries())
            reach, vertex = self.vertex(self.leads(W))
            if reach * int(denominator) >= squared:
                break
            vertices.append(vertex)
        largest = max(abs(int(v)) for v in W.entries()) or 1
        return Optimum(
            Fraction(squared, int(denominator) ** 2) * self.unit**2,
            np.array([int(v) / largest for v in W.entries()]).reshape(-1, self.k),
            np.array([float(Fraction(*_ratio(q.get(p, 0)))) for p in range(len(self.pairs))]),
        )

    def circulation(self, q: np.ndarray) -> dict[int, fmpq]:
        """q ≥ 0 as it is, plus what leads its imbalance back along the arcs that q uses."""
        weights = {p: fmpq(*map(int, q[p].as_integer_ratio())) for p in np.flatnonzero(q).tolist()}
        if not self.fit_intercept:
            return weights
        at = {self.pairs[p][1:]: p for p in weights}
        excess = [fmpq(0)] * self.k  # what flows in, less what flows out
        for p, weight in weights.items():
            _, c, j = self.pairs[p]
            excess[c] -= weight
            excess[j] += weight
        for start in range(self.k):
            while excess[start] > 0:
                path = self._path_to_deficit(start, excess, list(at))
                amount = min(excess[start], -excess[path[-1]])
                for arc in itertools.pairwise(path):
                    weights[at[arc]] += amount
                excess[start] -= amount
                excess[path[-1]] += amount
        return weights

    def _path_to_deficit(self, start: int, excess: list[fmpq], arcs: list[Arc]) -> list[int]:
        paths = {start: [start]}
        for node in (queue := [start]):
            if excess[node] < 0:
                return paths[node]
            for c, j in arcs:
                if c == node and j not in paths:
                    paths[j] = [*paths[node], j]
                    queue.append(j)
        raise AssertionError(f"class {start} leads to no class in deficit")

    def dual_squared(self, q: np.ndarray, root: Fraction = Fraction(0)) -> Fraction:
        """‖Zᵀq̃‖², q̃ exactly in the dual set; `root` = 1/√(2C) where every pair has a slack."""
        weights = self.circulation(q)
        mass = Fraction(*_ratio(sum(weights.values(), fmpq(0))))
        numerators, denominator = self.combined(weights).numer_denom()
        squared = Fraction(sum(int(v) ** 2 for v in numerators.entries()), int(denominator) ** 2)
        slack = sum(Fraction(*_ratio(weight)) ** 2 for weight in weights.values())
        return (squared * self.unit**2 + slack * root**2) / mass**2

    def soft_margin_squared(self, W: np.ndarray, tail: np.ndarray, root: Fraction) -> Fraction:
        """γ|γ| of (W, tail) for the rows (z, −e·root)."""
        whole, unit = whole_numbers(W)
        slacks, slack_unit = whole_numbers(tail[:, None])
        unit, slack_unit = unit * self.unit, slack_unit * root
        common = unit.denominator * slack_unit.denominator
        leads = [
            lead * int(unit * common) + int(slack) * int(slack_unit * common)
            for lead, slack in zip(self.leads(whole), slacks.entries(), strict=True)
        ]
        reach = self.vertex(leads)[0] / common
        squared = sum(Fraction(*v.as_integer_ratio()) ** 2 for v in [*W.ravel(), *tail])
        return reach * abs(reach) / squared if squared else Fraction(0)


def _ratio(value: Any) -> tuple[int, int]:
    value = fmpq(value)
    return int(value.p), int(value.q)
