"""Projections onto cones of rows: floats propose with them whatever is asked of a cone.

For rows A and a target b let r = Aᵀλ − b be the shortest residual over all λ ≥ 0. Then A r ≥ 0,
a·r = 0 wherever λ > 0, and b·r = −‖r‖² (Moreau): either b is in the cone of the rows and λ says
how, or r is a direction along which no row falls and b does. λ is on independent rows (Lawson and
Hanson 1974). Few rows are looked at together; those that r violates are added.

With b = −Aᵀρ for some ρ > 0 the residual is Aᵀ(λ + ρ): if it is zero the rows overlap (Stiemke),
else it is a direction without errors that has some rows strictly on their side. The same question
is then asked of the others, until they overlap or none is left: a Goldman–Tucker pair,

    A w ≥ 0,   Aᵀq = 0,   q ≥ 0,   A w + q > 0,

in which the rows with a·w > 0 are the same whatever the pair. Floats only propose here.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from momentron.arithmetic.clock import require_time
from momentron.solvers.rational import TooLarge, require_memory

MAX_COLUMNS = 3_000  # or rows, if there are fewer
SECONDS = 3e-9  # of a program, times its columns to the third power
CLEAR = 1e-2  # of the row farthest on its side: others that are so far are strict, too
ATTEMPTS = 8  # at a program whose rows depend on each other, as those of dummies do
FEW = 4  # rows per column that are looked at first
SAME = 1e-9  # of the length of rows: what is below may be zero
DIRECTION_BITS = (20, 50)  # of a direction: short numbers first, they are checked sooner
LARGEST_WEIGHT = 16  # ρ is random, so that λ is on as many rows as are independent


class NotFound(ArithmeticError):
    """Floats see too little."""


Projection = tuple[np.ndarray, np.ndarray, np.ndarray]  # (support, λ, residual)
Proposal = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # (w, strict, q, support)


class Rows:
    """Rows A in floats.

    Attributes
    ----------
    A : ndarray or csr_array of shape (n, d)
    exponents : ndarray of shape (d,)
        The power of two by which each column was divided: no weight is rounded on its way back.
    scales : ndarray of shape (n,)
        The powers of two that bring the largest entry of each row near to 1.
    """

    def __init__(self, A: Any, exponents: np.ndarray) -> None:
        self.A, self.exponents = A, exponents
        top, low = A.max(axis=1), A.min(axis=1)  # without a copy of A
        if sp.issparse(A):
            top, low = top.toarray().ravel(), low.toarray().ravel()
        largest = np.frexp(np.maximum(top, -low))[1]
        self.scales = np.ldexp(1.0, -np.maximum(largest, -1000))

    def whole(self, w: np.ndarray) -> list[int]:
        """Weights of the columns as integers for the columns as they were, exactly."""
        return whole_multiples(w, -self.exponents)

    def unit(self, vector: list[int], *, is_form: bool = False) -> np.ndarray:
        """Integers for the columns as they were, in floats of length 1 for these.

        Those of a form, which is applied to weights, are scaled as the columns are, and weights the
        other way.
        """
        exponents = (-self.exponents if is_form else self.exponents).tolist()
        low = min(exponents, default=0)
        scaled = [v << (e - low) for v, e in zip(vector, exponents, strict=True)]
        top = max(map(abs, scaled), default=0) or 1
        found = np.array([v / top for v in scaled])
        return found / (np.linalg.norm(found) or 1.0)

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, scaled."""
        part = self.A[rows]
        return (part.toarray() if sp.issparse(part) else part) * self.scales[rows, None]

    def sides(self, w: np.ndarray) -> np.ndarray:
        """A w, scaled."""
        return np.asarray(self.A @ w) * self.scales

    def project(self, target: np.ndarray, among: np.ndarray, first: np.ndarray) -> Projection:
        """The projection of a target b to the cone of some rows, looking at a few of them first.

        λ > 0 is that of the rows times their scales, on its support, and the residual r = Aᵀλ − b
        is exactly zero if b is in the cone.
        """
        size = min(among.size, target.size)
        if size > MAX_COLUMNS:
            raise TooLarge(f"{size} columns; at most {MAX_COLUMNS} are looked at together")
        require_memory(16.0 * FEW * size * target.size, f"{FEW * size} rows in floats")
        rng, chosen, n_left = np.random.default_rng(0), first, ATTEMPTS
        while True:
            require_time(SECONDS * size**3)
            part = self.dense(chosen)
            weights = least_squares(part, target)
            residual = weights @ part - target
            distance = float(np.linalg.norm(residual))
            is_inside = distance <= SAME * (np.linalg.norm(target) + weights.sum())
            sides = self.sides(residual / (distance or 1.0))
            violated = among[sides[among] < -SAME]
            if is_inside or not violated.size:
                used = weights > SAME * weights.max(initial=0.0)
                return chosen[used], weights[used], residual * (not is_inside)
            added = np.setdiff1d(violated, chosen)
            if not added.size:  # rounding has stopped the solver: another order may do better
                if not n_left:
                    raise NotFound("least squares leave rows on the wrong side")
                n_left, chosen = n_left - 1, rng.permutation(chosen)
                continue
            half = 1 + chosen.size // 2  # the worst rows alone may all be violated for one reason
            worst = added[np.argsort(sides[added], kind="stable")[:half]]
            added = np.append(worst, rng.permutation(added)[:half])
            chosen = among if among.size <= FEW * size else np.union1d(chosen, added)


def least_squares(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """λ ≥ 0 on independent rows, whose sum with these weights is nearest to the target."""
    if not rows.size:
        return np.zeros(len(rows))
    try:
        weights = np.asarray(nnls(rows.T, target)[0])
    except RuntimeError:  # after many steps
        raise NotFound("non-negative least squares did not converge") from None
    return weights


def whole_multiples(w: np.ndarray, exponents: Any = 0) -> list[int]:
    """w·2^exponents, each with its own, times the least power of two that makes all integers."""
    mantissas, powers = np.frexp(w)
    integers = (mantissas * 2.0**53).astype(np.int64).tolist()
    parts = list(zip(integers, (powers + exponents).tolist(), strict=True))
    least = min((e for m, e in parts if m), default=0)
    return [m << (e - least) if m else 0 for m, e in parts]


def propose(rows: Rows) -> Proposal:
    """A Goldman–Tucker pair in floats, layer by layer of strict rows: (w, strict, q, support).

    A w > 0 on the strict rows and about 0 on the others, on which q > 0 about cancels. The q off
    the support have few digits, and on the support there is room for a correction.
    """
    rng = np.random.default_rng(0)
    n, d = rows.A.shape
    q = rng.integers(1, LARGEST_WEIGHT, n) * rows.scales
    w, strict, support = np.zeros(d), np.zeros(n, bool), np.zeros(0, np.int64)
    while not strict.all():
        left = np.flatnonzero(~strict)
        first = rng.permutation(left)[: FEW * min(d, left.size) + 64]
        target = -np.asarray(rows.A.T @ np.where(strict, 0.0, q))
        found, weights, r = rows.project(target, left, first)
        if not r.any():
            support = found
            q[support] += weights * rows.scales[support]
            break
        r /= np.linalg.norm(r)
        sides = rows.sides(r)
        is_clear = sides[left] > max(SAME, CLEAR * float(sides[left].max()))
        if not is_clear.any():
            raise NotFound("a direction without errors has no row strictly on its side")
        # enough of the earlier directions that their strict rows stay strict
        below, gains = sides[strict], rows.sides(w)[strict]
        w = r + (1.0 + 2.0 * np.max(-below / gains, initial=0.0)) * w
        w /= np.linalg.norm(w)
        strict[left[is_clear]] = True
    return w, strict, q, support
