"""Is the result of a soft margin true? Interval, classifier and weights, in exact arithmetic."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from momentron import Status
from tests.oracles.soft_margins import SoftProblem, fraction, rational
from tests.oracles.truths import CLOSE

ULP = 2.0**-50
SLIGHT = Fraction(1, 10**9)  # what sums of dual weights may round by
DUST = 1e-12  # of the largest dual weight: rows with less are left out of a result


@dataclass(frozen=True)
class Posed:
    """A problem as the library takes it, and its rows as rationals.

    Attributes
    ----------
    X, y : the arguments
    options : dict
        Of `max_margin`, without C.
    rows : fmpq_mat
        Of which a classifier is a combination of columns: X, or the kernel's matrix.
    K : fmpq_mat of shape (n, n)
    weights : ndarray of shape (n,)
        Factors of C: powers of two, so that C_i is a float.
    is_rounded : bool
        Whether K is right to seventy digits only.
    copies : int
        How often the first rows are there, one set of them after another.
    """

    X: Any
    y: np.ndarray
    options: dict[str, Any]
    rows: fmpq_mat
    K: fmpq_mat
    weights: np.ndarray
    is_rounded: bool = False
    copies: int = 1

    @property
    def is_kernel(self) -> bool:
        return "kernel" in self.options

    def some(self, size: int) -> "Posed":
        """The first rows alone."""
        n, m = self.rows.ncols(), size
        options = dict(self.options)
        if "sample_weight" in options:
            options["sample_weight"] = options["sample_weight"][:m]
        X = self.X[:m]
        if options.get("kernel") == "precomputed":
            X = X[:, :m]
        K = fmpq_mat([[self.K[i, j] for j in range(m)] for i in range(m)])
        rows = fmpq_mat([[self.rows[i, j] for j in range(n)] for i in range(m)])
        rows = K if self.is_kernel else rows
        return Posed(X, self.y[:m], options, rows, K, self.weights[:m], self.is_rounded)

    def copied(self, times: int) -> "Posed":
        """All rows, so many times."""
        index, options = np.tile(np.arange(self.y.size), times), dict(self.options)
        if "sample_weight" in options:
            options["sample_weight"] = options["sample_weight"][index]
        X, table = self.X[index], self.K.tolist()
        if options.get("kernel") == "precomputed":
            X = X[:, index]
        K = fmpq_mat([[table[i][j] for j in index] for i in index])
        table = self.rows.tolist()
        rows = K if self.is_kernel else fmpq_mat([table[i] for i in index])
        return Posed(
            X, self.y[index], options, rows, K, self.weights[index], self.is_rounded, times
        )

    def exactly(self, C: float) -> SoftProblem:
        return self._exactly(self.K, self.y, (C * self.weights).tolist())

    def once(self, C: float) -> SoftProblem:
        """The same with each row once, at the price of all its copies: as large an objective."""
        n = self.y.size // self.copies
        K = fmpq_mat([[self.K[i, j] for j in range(n)] for i in range(n)])
        prices = [self.copies * Fraction(v) for v in (C * self.weights[:n]).tolist()]
        return self._exactly(K, self.y[:n], prices)

    def _exactly(self, K: fmpq_mat, y: np.ndarray, prices: list[Any]) -> SoftProblem:
        return SoftProblem(
            K,
            y.tolist(),
            prices,
            is_squared=self.options["penalty"] != "hinge",
            fit_intercept=self.options["fit_intercept"],
        )

    def refutes(self, C: float, found: Any) -> str | None:
        """Why a MarginResult is false, or None."""
        return Judged(self, C, found).reason()


@dataclass(frozen=True)
class Judged:
    """A result beside its problem."""

    posed: Posed
    C: float
    found: Any

    @cached_property
    def problem(self) -> SoftProblem:
        return self.posed.exactly(self.C)

    @cached_property
    def weights(self) -> np.ndarray:
        """The dual weights of the constraints."""
        dual = self.found.full_dual()
        if self.problem.k == 2:
            return dual
        return np.array([dual[i, j] for i, j in self.problem.pairs])

    def reason(self) -> str | None:
        return self.interval() or self.status() or self.classifier() or self.dual()

    def interval(self) -> str | None:
        """Whether it holds 1/√(2 · least objective)."""
        lower, upper = self.found.lower, self.found.upper
        if not 0.0 <= lower <= upper:
            return f"[{lower!r}, {upper!r}] is no interval"
        once = self.posed.once(self.C)
        weights = self.weights.reshape(self.posed.copies, once.size).sum(axis=0)
        least = once.least(weights, self.found.intercept)
        if least is None:
            return "the exact optimum was not found"
        blur = 1 + (CLOSE if self.posed.is_rounded else 0)
        if Fraction(lower) ** 2 * 2 * least > blur:
            return f"lower {lower!r} is above the truth {0.5 / float(least)!r} ** 0.5"
        if upper < math.inf and Fraction(upper) ** 2 * 2 * least * blur < 1:
            return f"upper {upper!r} is below the truth {0.5 / float(least)!r} ** 0.5"
        return None

    def status(self) -> str | None:
        found = self.found
        if found.status is Status.OPTIMAL and not found.gap <= self.posed.options["tol"]:
            return f"OPTIMAL with a gap of {found.gap!r}"
        if found.status not in (Status.OPTIMAL, Status.STALLED, Status.NO_ROOM):
            return f"status {found.status.name} without a budget"
        return None

    def classifier(self) -> str | None:
        """Whether its objective is at most 1/(2 lower²), but for the documented rounding."""
        found, posed = self.found, self.posed
        coef = np.atleast_2d(found.coef)
        if not (np.isfinite(coef).all() and np.isfinite(found.intercept).all()):
            return "the classifier is not finite"
        if found.is_fallback or not found.lower > 0.0:
            return None
        W = rational(coef).transpose()
        F = posed.rows * W
        image = posed.K * W if posed.is_kernel else W
        square = sum((u * v for u, v in zip(W.entries(), image.entries(), strict=True)), fmpq(0))
        m, n = coef.shape[1], self.problem.size
        sizes = fmpq_mat(*shape(posed.rows), [abs(v) for v in posed.rows.entries()]) * fmpq_mat(
            *shape(W), [abs(v) for v in W.entries()]
        )
        largest = float(fraction(max(sizes.entries())))
        b = float(np.abs(found.intercept).max())
        off = ULP * (m + 16) * (1.0 + largest + b)
        value = self.problem.objective(F, square, found.intercept, off)
        bound = 1 / (2 * Fraction(found.lower) ** 2)
        if value > bound * (1 + Fraction(ULP * (m + n + 16))):
            return (
                f"the objective is {float(value / bound):.6g} times 1/(2 lower²), status "
                f"{found.status.name}, gap {found.gap:.1e}"
            )
        return None

    def dual(self) -> str | None:
        """Whether the weights are in the dual set, and prove the upper bound."""
        problem, found = self.problem, self.found
        if not (np.isfinite(self.weights).all() and (self.weights >= 0.0).all()):
            return "a dual weight is negative"
        exact = rational(self.weights).transpose()
        mass = sum(exact.entries(), fmpq(0))
        if found.upper == math.inf or mass == 0:
            return None
        if problem.fit_intercept:
            off = max(abs(v) for v in problem.unbalanced(exact))
            if found.gap < 0.5 and fraction(off) > SLIGHT * fraction(mass):
                return f"the dual weights are unbalanced by {float(fraction(off / mass))!r}"
        if problem.is_squared:
            if abs(fraction(mass) - 1) > SLIGHT:
                return f"the dual weights have mass {float(fraction(mass))!r}"
            proven = math.sqrt(fraction(problem.quadratic(exact)))
            if proven > found.upper * (1.0 + float(SLIGHT)) + self.left_out():
                return f"the dual weights prove {proven!r}, not upper {found.upper!r}"
            return None
        prices = zip(exact.entries(), problem.prices, strict=True)
        if any(a > C for a, C in prices):
            return "a dual weight is above C"
        return None

    def left_out(self) -> float:
        """What the length may be off by: rounding, and rows left out for their little weight."""
        lengths = np.array(
            [
                math.sqrt(2 * fraction(self.problem.K[i, i])) + 1 / math.sqrt(2 * fraction(C))
                for (i, _), C in zip(self.problem.pairs, self.problem.prices, strict=True)
            ]
        )
        weights = np.where(self.weights > 0.0, ULP * self.weights, DUST * self.weights.max())
        return float(weights @ lengths)


def shape(M: fmpq_mat) -> tuple[int, int]:
    return M.nrows(), M.ncols()
