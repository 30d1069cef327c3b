"""Soft margins in rational arithmetic: the least objective, and that of any classifier.

All of them are one dual over constraints, rows y_i x_i or pairs (example, wrong label):

    max 1ᵀα − ½ αᵀGα − ½ Σ r α²    s.t.  0 ≤ α ≤ u,  Yᵀα = 0,

with u = C for the hinge and r = 1/(2C) for its square. Its optimality conditions are a linear
complementarity problem with a positive semidefinite matrix, which the criss-cross method solves in
finitely many exact steps from any basis: a guess of the active set costs one linear system, and
what it claims is checked by exact signs. Nothing here comes from the library.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

PIVOTS = 400  # after which a problem counts as unknown


def rational(values: Any) -> fmpq_mat:
    """A matrix of floats or fractions, exactly."""
    table = np.atleast_2d(np.asarray(values))
    ratios = [fmpq(*map(int, v.as_integer_ratio())) for v in table.ravel().tolist()]
    return fmpq_mat(*table.shape, ratios)


def fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


class SoftProblem:
    """Examples by their inner products, labels 0..k−1, and a price of slack for each example.

    Parameters
    ----------
    K : fmpq_mat of shape (n, n)
    y : sequence of int
    prices : sequence of float or Fraction
        C_i.
    is_squared : bool
        Whether slack is squared.
    fit_intercept : bool
    """

    def __init__(
        self,
        K: fmpq_mat,
        y: Sequence[int],
        prices: Sequence[Any],
        *,
        is_squared: bool,
        fit_intercept: bool,
    ) -> None:
        self.K, self.is_squared, self.fit_intercept = K, is_squared, fit_intercept
        self.y = [int(c) for c in y]
        self.k = max(self.y) + 1
        if self.k == 2:
            self.pairs = [(i, 0) for i in range(len(self.y))]
            signs = [[1 if c else -1] for c in self.y]
        else:
            self.pairs = [(i, j) for i, c in enumerate(self.y) for j in range(self.k) if j != c]
            signs = [[(o == self.y[i]) - (o == j) for o in range(self.k)] for i, j in self.pairs]
        self.signs = fmpq_mat(len(signs), len(signs[0]), [fmpq(v) for s in signs for v in s])
        self.prices = [fmpq(*map(int, prices[i].as_integer_ratio())) for i, _ in self.pairs]

    @property
    def size(self) -> int:
        """The number of constraints."""
        return len(self.pairs)

    # --- the least objective -------------------------------------------------------------------

    def least(self, alpha: np.ndarray | None = None, b: Any = None) -> Fraction | None:
        """P of the optimum, from a guess of the weights of the constraints and of the intercepts;
        None where pivots do not end.
        """
        M, q = self._conditions()
        guess: list[int] = []
        if alpha is not None:
            m = self.size
            guess = [i for i in range(m) if alpha[i] > 0.0]
            if not self.is_squared:
                guess += [m + i for i in range(m) if rational(alpha[i])[0, 0] >= self.prices[i]]
            if self.fit_intercept:
                shift = np.atleast_1d(b)
                free = shift[:-1] - shift[-1] if self.k > 2 else shift
                first = M.nrows() - 2 * free.size
                guess += [first + 2 * o + (v < 0.0) for o, v in enumerate(free) if v != 0.0]
        solution = criss_cross(M, q, guess)
        if solution is None and guess:
            solution = criss_cross(M, q, [])
        if solution is None:
            return None
        weights = fmpq_mat(self.size, 1, [solution.get(i, fmpq(0)) for i in range(self.size)])
        return fraction(self._dual_value(weights))

    def quadratic(self, weights: fmpq_mat) -> fmpq:
        """αᵀ(G + R)α."""
        mixed = self._mixed(weights)
        total = sum(
            ((mixed.transpose() * self.K * mixed)[o, o] for o in range(mixed.ncols())), fmpq(0)
        )
        if self.is_squared:
            total += sum(
                (a * a / (2 * C) for a, C in zip(weights.entries(), self.prices, strict=True)),
                fmpq(0),
            )
        return total

    def unbalanced(self, weights: fmpq_mat) -> list[fmpq]:
        """Yᵀα."""
        return list((self.signs.transpose() * weights).entries())

    def _dual_value(self, weights: fmpq_mat) -> fmpq:
        return sum(weights.entries(), fmpq(0)) - self.quadratic(weights) / 2

    def _mixed(self, weights: fmpq_mat) -> fmpq_mat:
        """Of each example, its weight in each output."""
        outputs = self.signs.ncols()
        mixed = [[fmpq(0)] * outputs for _ in self.y]
        for number, (i, _) in enumerate(self.pairs):
            for o in range(outputs):
                mixed[i][o] += self.signs[number, o] * weights[number, 0]
        return fmpq_mat(mixed)

    def _conditions(self) -> tuple[fmpq_mat, fmpq_mat]:
        """(M, q): the complementarity problem Mz + q ≥ 0 ⟂ z ≥ 0 of α, what the bounds cost, and
        the intercepts as differences of two.
        """
        m, columns = self.size, self.signs.ncols()
        free = (columns if columns == 1 else columns - 1) if self.fit_intercept else 0
        bounds = 0 if self.is_squared else m
        size = m + bounds + 2 * free
        M, q = fmpq_mat(size, size), fmpq_mat(size, 1)
        products = self.signs * self.signs.transpose()
        for i, (a, _) in enumerate(self.pairs):
            for j, (c, _) in enumerate(self.pairs):
                M[i, j] = self.K[a, c] * products[i, j]
            q[i, 0] = fmpq(-1)
            if self.is_squared:
                M[i, i] += 1 / (2 * self.prices[i])
            else:
                M[i, m + i], M[m + i, i], q[m + i, 0] = fmpq(1), fmpq(-1), self.prices[i]
            for o in range(free):
                for sign in (0, 1):
                    at, value = m + bounds + 2 * o + sign, self.signs[i, o] * (-1) ** sign
                    M[i, at], M[at, i] = value, -value
        return M, q

    # --- any classifier ------------------------------------------------------------------------

    def objective(self, F: fmpq_mat, square: fmpq, b: Any, off: float = 0.0) -> Fraction:
        """P of a classifier with outputs F, one column for two classes, and ‖w‖²; slacks are less
        by `off`.
        """
        shift = rational(np.atleast_1d(b))
        total, less = square / 2, 1 - fmpq(*map(int, off.as_integer_ratio()))
        for number, (i, _) in enumerate(self.pairs):
            margin = sum(
                (self.signs[number, o] * (F[i, o] + shift[0, o]) for o in range(F.ncols())), fmpq(0)
            )
            slack = less - margin
            if slack > 0:
                total += self.prices[number] * (slack * slack if self.is_squared else slack)
        return fraction(total)


def criss_cross(M: fmpq_mat, q: fmpq_mat, guess: list[int]) -> dict[int, fmpq] | None:
    """z with Mz + q ≥ 0, z ≥ 0 and zᵀ(Mz + q) = 0, as far as it is not zero.

    The least index that is negative changes sides, with a partner where its pivot is zero. None
    where the first basis is singular, or after many pivots.
    """
    size, basis = M.nrows(), set(guess)
    for _ in range(PIVOTS):
        S = sorted(basis)
        outside = [i for i in range(size) if i not in basis]
        z = fmpq_mat(0, 1)
        if S:
            A = _part(M, S, S)
            try:
                z = A.solve(-_part(q, S, [0]))
            except ZeroDivisionError:
                return None
        values = {i: z[place, 0] for place, i in enumerate(S)}
        rest = _part(q, outside, [0])
        if S:
            rest = rest + _part(M, outside, S) * z
        values |= {i: rest[place, 0] for place, i in enumerate(outside)}
        worst = next((i for i in range(size) if values[i] < 0), None)
        if worst is None:
            return {i: values[i] for i in S if values[i] > 0}
        row = _row(M, S, outside, worst)
        if row[worst] > 0:
            basis ^= {worst}
            continue
        partner = next((i for i in range(size) if row[i] > 0), None)
        if partner is None:
            return None
        basis ^= {worst, partner}
    return None


def _row(M: fmpq_mat, S: list[int], outside: list[int], index: int) -> dict[int, fmpq]:
    """The row of the tableau of a basis that belongs to an index."""
    if not S:
        return {j: M[index, j] for j in outside}
    transposed = _part(M, S, S).transpose()
    if index in S:
        unit = fmpq_mat(len(S), 1, [fmpq(int(i == index)) for i in S])
        y = transposed.solve(unit)
        across = y.transpose() * _part(M, S, outside)
        return {i: y[p, 0] for p, i in enumerate(S)} | {
            j: -across[0, p] for p, j in enumerate(outside)
        }
    y = transposed.solve(_part(M, [index], S).transpose())
    across = y.transpose() * _part(M, S, outside)
    return {i: y[p, 0] for p, i in enumerate(S)} | {
        j: M[index, j] - across[0, p] for p, j in enumerate(outside)
    }


def _part(M: fmpq_mat, rows: Sequence[int], columns: Sequence[int]) -> fmpq_mat:
    return fmpq_mat(len(rows), len(columns), [M[i, j] for i in rows for j in columns])
