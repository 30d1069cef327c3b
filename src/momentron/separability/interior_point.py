"""An interior-point method that proposes a Goldman–Tucker pair.

For every matrix A there are w and q with

    A w ≥ 0,   Aᵀq = 0,   q ≥ 0,   A w + q > 0,

and the set of rows with a·w > 0 is the same for all such pairs: all rows (separable), none
(overlapping) or some (quasi-separable). A self-dual embedding has an interior point to start from,
and its central path ends in such a pair whatever A is (Ye, Todd, Mizuno 1994). Floats only propose
here: which rows, and about which weights.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.deadline import call_within_deadline
from momentron.solvers.rational.memory import require_memory

MAX_ITERATIONS = 100
LEAST_MU = 1e-15  # complementarity at which float64 has no more to say
STEP = 0.99  # share of the way to the boundary


@dataclass
class Proposal:
    """w and q for the rows A, and which rows seem to have a·w > 0."""

    w: np.ndarray
    q: np.ndarray
    strict: np.ndarray


def propose(A: Any) -> Proposal:
    """A pair (w, q) near a Goldman–Tucker pair of A.

    Costs n·d² flops per iteration for the smaller of the two sides, some 10 to 30 iterations.
    """
    n, d = A.shape
    require_memory(32.0 * min(n, d) ** 2, f"dense matrices of {min(n, d)} rows")
    if d <= n:
        return _follow(A)
    basis, reduced = _row_space(A)
    found = _follow(reduced)
    found.w = basis(found.w)
    return found


def _row_space(A: Any) -> tuple[Any, np.ndarray]:
    """(map of reduced weights to weights of A, A in coordinates of its row space)."""
    n, d = A.shape
    if not sp.issparse(A):
        Q, R = call_within_deadline(
            4.0 * d * n * n, sl.qr, A.T, mode="economic", check_finite=False
        )
        return (lambda w: Q @ w), np.ascontiguousarray(R.T)
    gram = call_within_deadline(2.0 * A.nnz * n, lambda: (A @ A.T).toarray())
    values, vectors = call_within_deadline(10.0 * n**3, np.linalg.eigh, gram)
    keep = values > 1e-13 * values[-1]
    roots = np.sqrt(values[keep])
    return (lambda w: A.T @ (vectors[:, keep] @ (w / roots))), vectors[:, keep] * roots


class Normal:
    """The normal matrix AᵀDA, scaled to a unit diagonal and factored."""

    def __init__(self, A: Any, D: np.ndarray) -> None:
        n, d = A.shape
        if sp.issparse(A):
            N = call_within_deadline(
                2.0 * A.nnz * d, lambda: (A.T @ sp.diags_array(D) @ A).toarray()
            )
        else:
            N = call_within_deadline(2.0 * n * d * d, _weighted_gram, A, D)
        diagonal = np.diag(N)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        N *= self.scale[:, None] * self.scale
        # dependent columns make N singular; a ridge picks one of the many equal answers
        for ridge in (1e-13, 1e-11, 1e-9, 1e-6):
            N[np.diag_indices_from(N)] = 1.0 + ridge
            try:
                # numpy lets other threads work meanwhile, scipy does not
                self.factor = call_within_deadline(d**3 / 3.0, np.linalg.cholesky, N), True
                return
            except np.linalg.LinAlgError:
                continue
        raise np.linalg.LinAlgError("the normal matrix is not positive definite")

    def solve(self, right: np.ndarray) -> np.ndarray:
        return self.scale * sl.cho_solve(self.factor, self.scale * right, check_finite=False)


@dataclass
class _Point:
    """The embedding: s = A w + θ, Aᵀq = θ Aᵀ1, ν = n + 1 − Σq − 1ᵀA w; min θ, which is 0."""

    w: np.ndarray
    q: np.ndarray
    s: np.ndarray
    theta: float = 1.0
    nu: float = 1.0

    @property
    def mu(self) -> float:
        return float(self.q @ self.s + self.theta * self.nu) / (self.q.size + 1)

    def moved(self, by: "_Point", step: float) -> "_Point":
        return _Point(
            self.w + step * by.w,
            self.q + step * by.q,
            self.s + step * by.s,
            self.theta + step * by.theta,
            self.nu + step * by.nu,
        )

    def longest_step(self, by: "_Point") -> float:
        """The largest step that keeps q, s, θ and ν non-negative, at most 1/STEP."""
        longest = 1.0 / STEP
        tails = np.array([self.theta, self.nu]), np.array([by.theta, by.nu])
        for value, change in ((self.q, by.q), (self.s, by.s), tails):
            shrinks = change < 0.0
            if shrinks.any():
                longest = min(longest, float(np.min(-value[shrinks] / change[shrinks])))
        return longest


def _weighted_gram(A: np.ndarray, D: np.ndarray) -> np.ndarray:
    weighted = np.sqrt(D)[:, None] * A
    return np.asarray(weighted.T @ weighted)


def _follow(A: Any) -> Proposal:
    """Mehrotra's predictor and corrector along the central path of the embedding."""
    n, d = A.shape
    gradient = np.asarray(A.T @ np.ones(n))
    point = _Point(np.zeros(d), np.ones(n), np.ones(n))
    best = point
    for _ in range(MAX_ITERATIONS):
        require_time()
        with np.errstate(all="ignore"):
            try:
                following = _iterate(A, gradient, point)
            except np.linalg.LinAlgError:
                break
        if not (np.isfinite(following.mu) and following.mu > 0.0):
            break
        point = following
        # in exact arithmetic ν tends to about 1: where it falls, rounding has taken over
        if point.nu < 0.9:
            break
        best = point
        if point.mu < LEAST_MU:
            break
    return Proposal(best.w, best.q, best.s > best.q)


def _iterate(A: Any, gradient: np.ndarray, point: _Point) -> _Point:
    D = point.q / point.s
    normal = Normal(A, D)
    slope = normal.solve(np.asarray(A.T @ D) + gradient)
    rise = A @ slope

    def direction(product: np.ndarray, tail: float) -> _Point:
        """The Newton step towards q∘s = `product` and θν = `tail`, less what they are."""
        flat = normal.solve(np.asarray(A.T @ (product / point.s)))
        level = A @ flat
        constant = -np.sum(product / point.s) + D @ level - gradient @ flat
        linear = D.sum() - D @ rise + gradient @ slope
        theta = (tail - point.theta * constant) / (point.nu + point.theta * linear)
        s = level - theta * rise + theta
        q = (product - point.q * s) / point.s
        return _Point(flat - theta * slope, q, s, float(theta), float(constant + linear * theta))

    mu, qs, tail = point.mu, point.q * point.s, point.theta * point.nu
    predictor = direction(-qs, -tail)
    ahead = point.moved(predictor, min(1.0, point.longest_step(predictor)))
    target = mu * (ahead.mu / mu) ** 3
    corrector = direction(
        target - qs - predictor.q * predictor.s, target - tail - predictor.theta * predictor.nu
    )
    return point.moved(corrector, STEP * point.longest_step(corrector))
