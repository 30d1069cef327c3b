"""An oracle for the best margin in rational arithmetic, which shares no code with the library.

Floats are dyadic rationals, so the best margin of float data is the root of a rational number:

    γ̄² = min_q ‖Σ q_i y_i x_i‖² / k²,      q ≥ 0 with mass 1 on each of k groups,

where all rows form one group (no intercept), or each class its own (an intercept: then γ̄ is half
the distance of the convex hulls). Wolfe's minimum-norm-point algorithm is finite in exact
arithmetic; floats only guess where it starts, and optimality is verified before it returns.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat
from scipy.optimize import nnls


@dataclass(frozen=True)
class Optimum:
    """The best margin, squared, with an optimal w (up to its length) and q rounded to float64."""

    margin_squared: Fraction
    w: np.ndarray
    q: np.ndarray


def best_margin_squared(X: np.ndarray, y: np.ndarray, fit_intercept: bool) -> Fraction:
    """γ̄² of dense float data X with labels y = ±1, exactly."""
    return ExactProblem(X, y, fit_intercept).optimum().margin_squared


def signed_square(value: float) -> Fraction:
    """v|v|: compares as v does, and is rational where v is the root of a rational."""
    return Fraction(value) * abs(Fraction(value))


class ExactProblem:
    """The points y_i x_i as whole numbers times a common unit, and their groups.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        ±1, and both of them where an intercept is fitted.
    fit_intercept : bool
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, fit_intercept: bool) -> None:
        self.signed = np.asarray(X, dtype=np.float64) * np.asarray(y, dtype=np.float64)[:, None]
        self.points, self.unit = _whole_numbers(self.signed)
        self.group = [int(fit_intercept and sign < 0) for sign in y]
        self.n_groups = 2 if fit_intercept else 1
        if len(set(self.group)) != self.n_groups:
            raise ValueError("an intercept needs rows of both classes")

    def optimum(self) -> Optimum:
        """Solve the dual exactly, and prove the solution optimal."""
        gram = self.points * self.points.transpose()
        try:
            weights = _wolfe(gram, self.group, self._guess())
        except (ZeroDivisionError, RuntimeError):  # dependent rows guessed, or no guess at all
            weights = _wolfe(gram, self.group, self._vertex(gram))
        q = fmpq_mat(len(self.group), 1, [weights.get(i, 0) for i in range(len(self.group))])
        numerators, denominator = q.numer_denom()
        w = self.points.transpose() * numerators
        squared = (w.transpose() * w)[0, 0]
        self._verify(numerators, denominator, w, squared)
        largest = max(abs(int(v)) for v in w.entries()) or 1
        return Optimum(
            Fraction(int(squared), int(denominator * self.n_groups) ** 2) * self.unit**2,
            np.array([int(v) / largest for v in w.entries()]),
            np.array([int(v) / int(denominator * self.n_groups) for v in numerators.entries()]),
        )

    def margin_squared(self, w: np.ndarray) -> Fraction:
        """γ|γ| for γ the exact margin of w, with the best intercept for it; 0 for w = 0."""
        whole, _ = _whole_numbers(np.asarray(w, dtype=np.float64)[:, None])
        squared = int((whole.transpose() * whole)[0, 0])
        if squared == 0:
            return Fraction(0)
        reach = int(self._least(self.points * whole))
        return Fraction(reach * abs(reach), squared * self.n_groups**2) * self.unit**2

    def dual_squared(self, q: np.ndarray) -> Fraction:
        """‖Zᵀq‖² for q clipped at zero and rescaled exactly; a group left empty becomes uniform."""
        weights = [fmpq(*map(int, max(0.0, float(v)).as_integer_ratio())) for v in q]
        for c in range(self.n_groups):
            rows = [i for i, g in enumerate(self.group) if g == c]
            if not any(weights[i] for i in rows):
                for i in rows:
                    weights[i] = fmpq(1)
            mass = sum((weights[i] for i in rows), fmpq(0)) * self.n_groups
            for i in rows:
                weights[i] /= mass
        numerators, denominator = fmpq_mat(len(weights), 1, weights).numer_denom()
        w = self.points.transpose() * numerators
        squared = int((w.transpose() * w)[0, 0])
        return Fraction(squared, int(denominator) ** 2) * self.unit**2

    def _least(self, products: fmpz_mat) -> int:
        """The least of q·products over all q: the sum of the groups' smallest entries."""
        entries = list(zip(products.entries(), self.group, strict=True))
        return sum(min(v for v, g in entries if g == c) for c in range(self.n_groups))

    def _verify(self, q: fmpz_mat, denominator: int, w: fmpz_mat, squared: int) -> None:
        """Raise unless q is feasible and w·(Σ q'_i p_i) ≥ w·w for every feasible q'."""
        for c in range(self.n_groups):
            mass = sum(v for v, g in zip(q.entries(), self.group, strict=True) if g == c)
            if mass != denominator:
                raise AssertionError(f"group {c} has mass {mass}/{denominator}, not 1")
        if min(q.entries()) < 0:
            raise AssertionError("a dual weight is negative")
        if self._least(self.points * w) * denominator < squared:
            raise AssertionError("the dual weights are not optimal")

    def _guess(self) -> dict[int, fmpq]:
        """Feasible weights near the optimum, from NNLS in floats with the masses as heavy rows."""
        largest = np.abs(self.signed).max() or 1.0
        heavy = 1e3 * math.sqrt(self.signed.shape[1])
        masses = heavy * np.equal.outer(np.arange(self.n_groups), self.group)
        target = np.r_[np.zeros(self.signed.shape[1]), np.full(self.n_groups, heavy)]
        q, _ = nnls(np.vstack([(self.signed / largest).T, masses]), target)
        counts = {i: int(q[i] * 2**30) + 1 for i in np.flatnonzero(q > 1e-9).tolist()}
        totals = [sum(v for i, v in counts.items() if self.group[i] == c) for c in range(2)]
        return {i: fmpq(v, totals[self.group[i]]) for i, v in counts.items()}

    def _vertex(self, gram: fmpz_mat) -> dict[int, fmpq]:
        """All mass of each group on its shortest point."""
        shortest = [
            min((gram[i, i], i) for i, g in enumerate(self.group) if g == c)[1]
            for c in range(self.n_groups)
        ]
        return {i: fmpq(1) for i in shortest}


def _whole_numbers(array: np.ndarray) -> tuple[fmpz_mat, Fraction]:
    """A matrix of whole numbers and the unit by which to multiply them to get the floats back."""
    ratios = [float(v).as_integer_ratio() for v in array.ravel()]
    common = max(denominator for _, denominator in ratios)
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole) or 1
    return fmpz_mat(*array.shape, [v // divisor for v in whole]), Fraction(divisor, common)


def _wolfe(gram: fmpz_mat, group: list[int], weights: dict[int, fmpq]) -> dict[int, fmpq]:
    """Minimise qᵀGq over q ≥ 0 with mass 1 on each group, from feasible positive weights.

    The rows (p_i, e_group(i)) of the support stay linearly independent, so that each face has one
    minimiser: a row enters only where it lies strictly below its group's plane {p : w·p = λ}.
    """
    while True:
        target = _face_minimiser(gram, group, list(weights))
        if min(target.values()) > 0:
            entering = _most_violated(gram, group, target)
            if entering is None:
                return target
            weights = {**target, entering: fmpq(0)}
            continue
        step = min(weights[i] / (weights[i] - v) for i, v in target.items() if v <= 0)
        moved = {i: a + step * (target[i] - a) for i, a in weights.items()}
        weights = {i: a for i, a in moved.items() if a > 0}


def _face_minimiser(gram: fmpz_mat, group: list[int], support: list[int]) -> dict[int, fmpq]:
    """The minimiser of qᵀGq with mass 1 on each group, q of any sign, zero off the support."""
    groups = range(max(group) + 1)
    rows = [[gram[i, j] for j in support] + [int(group[i] == c) for c in groups] for i in support]
    rows += [[int(group[j] == c) for j in support] + [0] * len(groups) for c in groups]
    masses = fmpz_mat(len(rows), 1, [0] * len(support) + [1] * len(groups))
    solution = fmpz_mat(rows).solve(masses).entries()
    return dict(zip(support, solution[: len(support)], strict=True))


def _most_violated(gram: fmpz_mat, group: list[int], weights: dict[int, fmpq]) -> int | None:
    """The row furthest below the plane of its group, or None at the optimum."""
    full = fmpq_mat(len(group), 1, [weights.get(i, 0) for i in range(len(group))])
    slopes = (gram * full.numer_denom()[0]).entries()
    plane = {group[i]: slopes[i] for i in weights}  # equal on all rows of a face's minimiser
    depth, row = min((slopes[i] - plane[g], i) for i, g in enumerate(group))
    return row if depth < 0 else None
