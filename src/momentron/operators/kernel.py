"""X seen through a kernel: rows φ(x_i) that exist only in their inner products."""

import math
from typing import TYPE_CHECKING

import numpy as np

from momentron.operators.base import Operator, row_blocks
from momentron.operators.column_cache import ColumnCache
from momentron.rounding import EXTENDED_ROUNDOFF, UNDERFLOW, down, gamma, root_down, root_up, up

if TYPE_CHECKING:
    from momentron.kernels import BoundKernel


class KernelOperator(Operator):
    """The rows φ(x_i), with ⟨φ(x_i), φ(x_j)⟩ = K_ij; a classifier is w = Σ a_i φ(x_i).

    A classifier is held as its coefficients together with its scores, an array of shape (2, n) or
    (2, n, k): w[0] = a and w[1] = Ka. Sums and multiples of classifiers keep both in step, so that
    scores and norms cost nothing; only what brings in new rows costs kernel values, n a row.

    Parameters
    ----------
    kernel : BoundKernel
    cache_bytes : int
        Memory for columns of K. A matrix that was passed as such is used where it is.

    Notes
    -----
    Rounding makes scores drift from coefficients, so the certificate calls `recomputed` first, and
    its bounds are for scores so computed. Values of K may be wrong by ε √(K_ii K_jj), which is why
    errors are measured by `magnitude`, Σ_j √K_jj |a_j|, and not by ‖w‖.
    """

    has_coefficient_per_row = True

    def __init__(self, kernel: "BoundKernel", cache_bytes: int) -> None:
        n = kernel.n
        self.kernel = kernel
        self.cache_bytes = cache_bytes
        self.shape = (n, n)
        self.row_norms = kernel.row_norms
        self.radius = float(self.row_norms.max())
        # sums round values that are up to 1 + ε too large: what that adds is counted here
        self.kernel_error = up(kernel.relative_error * (1.0 + gamma(n + 8)))
        if kernel.matrix is not None:
            self._cache = ColumnCache.complete(kernel.matrix)
        else:
            self._cache = ColumnCache(kernel.block, n, cache_bytes)

    @property
    def reach(self) -> float:
        return 0.9 * math.sqrt(float(self.kernel.diagonal().max()))

    def as_kernel(self) -> "KernelOperator":
        return self

    def reserve(self, n_bytes: int) -> None:
        """Leave so much of the cache's memory to others: fewer columns are kept."""
        if self.kernel.matrix is None:
            self._cache.resize(max(0, self.cache_bytes - n_bytes))

    @property
    def cache(self) -> ColumnCache:
        """The columns of K that are kept."""
        return self._cache

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        """How many kernel values were computed so far, those for the diagonal included."""
        return self._cache.evaluations + self.kernel.diagonal_evaluations

    # --- for solvers -------------------------------------------------------------------------

    def zeros(self, *trailing: int) -> np.ndarray:
        return np.zeros((2, self.shape[0], *trailing))

    def apply(self, w: np.ndarray) -> np.ndarray:
        """The scores that are kept with w: no pass over the data."""
        return self._matvec(w)

    def _matvec(self, w: np.ndarray) -> np.ndarray:
        return w[1]

    def _rmatvec(self, a: np.ndarray) -> np.ndarray:
        return self._with_scores(a)

    def _with_scores(self, a: np.ndarray) -> np.ndarray:
        """(a, Ka), over the rows where a is not zero."""
        w = np.empty((2, *a.shape), np.result_type(a.dtype, np.float64))
        w[0] = a
        nonzero = _nonzero_rows(a)
        w[1] = self._cache.product(nonzero, a[nonzero])
        return w

    def combine(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Σ a_i φ(x_i) over the given rows: n kernel values for each that is not in memory."""
        coef = np.zeros((self.shape[0], *a.shape[1:]))
        np.add.at(coef, rows, a.astype(np.float64, copy=False))
        return self._with_scores(coef)

    def along(
        self, rows: np.ndarray, a: np.ndarray
    ) -> tuple[np.ndarray | slice, np.ndarray, np.ndarray]:
        return rows, a, self._cache.product(rows, a)

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return w[0], w[1]

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        return w[0]

    def from_coefficients(self, coef: np.ndarray) -> np.ndarray:
        return self._with_scores(coef)

    def norm(self, w: np.ndarray) -> float:
        """‖w‖ = √(aᵀKa), from the scores that are kept."""
        return math.sqrt(max(0.0, float(np.einsum("i,i->", w[0].ravel(), w[1].ravel()))))

    def adjoint_norm(self, a: np.ndarray) -> float:
        """√(aᵀKa), from the kernel values of the rows where a is not zero."""
        return math.sqrt(max(0.0, self._squared_norm(a, np.float64)))

    def centred_radius(self) -> float:
        """The radius: any point may be the centre, and the mean would cost n² kernel values."""
        return self.radius

    def products_at(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The scores of the named rows."""
        return w[1][rows]

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows][:, cols] in float64."""
        return self._cache.block(rows, cols)

    def some(self, index: np.ndarray) -> "KernelOperator":
        """The same for some of the examples, with all their kernel values in memory."""
        return KernelOperator(self.kernel.held(index, self.block(index, index)), self.cache_bytes)

    # --- for the certificate -----------------------------------------------------------------

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        return self._with_scores(w[0])

    def exact_scores(self, w: np.ndarray) -> np.ndarray:
        """The scores that are kept, which are as `score_depth` says if w is `recomputed`."""
        return w[1]

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        return self._with_scores(a)

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        nonzero = _nonzero_rows(w[0])
        coef = w[0][nonzero].astype(np.longdouble)
        scores = np.empty((index.size, *coef.shape[1:]), np.longdouble)
        for part in row_blocks(index.size, nonzero.size):
            values = self._cache.block(index[part], nonzero).astype(np.longdouble)
            scores[part] = np.einsum("ij,j...->i...", values, coef)
        return scores

    def sharp_adjoint(self, a: np.ndarray) -> np.ndarray:
        a = a.astype(np.longdouble, copy=False)
        return np.stack([a, self.sharp_scores(np.arange(self.shape[0]), a[None])])

    def score_depth(self, w: np.ndarray) -> int:
        # one per coefficient; one more where these are in extended precision and are rounded first
        return _nonzero_rows(w[0]).size + 2

    def adjoint_depth(self, n_nonzero: int) -> int:
        return n_nonzero + 2

    def magnitude(self, w: np.ndarray, norm: float) -> float:
        """√(Σ_l (Σ_j √K_jj |a_jl|)²), rounded up: what errors of K and of sums are relative to.

        |fl(Ka)_i − (Ka)_i| ≤ (γ_m + ε) √K_ii Σ_j √K_jj |a_j| for m coefficients; no bound of ‖w‖
        says as much, since long terms may cancel to a short w.
        """
        return self._magnitude(w[0])

    def _magnitude(self, a: np.ndarray) -> float:
        nonzero = _nonzero_rows(a)
        weights = np.abs(a[nonzero].astype(np.float64, copy=False))
        sums = np.atleast_1d(self.row_norms[nonzero] @ weights)
        _, exponent = np.frexp(float(sums.max(initial=0.0)))
        scaled = np.ldexp(sums, -int(exponent))  # so that no square overflows
        size = up(math.sqrt(float((scaled * scaled).sum())), nonzero.size + sums.size + 8)
        return up(float(np.ldexp(size, int(exponent))) + nonzero.size * sums.size * UNDERFLOW)

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        """Sure lower and upper bounds of ‖w‖, for a w that is `recomputed`."""
        nonzero = _nonzero_rows(w[0])
        if nonzero.size == 0 or self.radius == 0.0:
            return 0.0, 0.0
        coef = w[0][nonzero].astype(np.longdouble)
        square = float(np.sum(coef * w[1][nonzero]))
        error = self._square_error(w[0], self._magnitude(w[0]), gamma(nonzero.size + 4))
        return root_down(down(square - error)), root_up(up(square + error))

    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        """A sure upper bound of √(aᵀKa), given one of Σ |a_i| √K_ii."""
        if self.radius == 0.0 or not a.any():
            return 0.0
        square = self._squared_norm(a, np.longdouble if sharp else np.float64)
        size = _nonzero_rows(a).size
        sums = gamma(size + 4, EXTENDED_ROUNDOFF) if sharp else gamma(size + 4)
        error = self._square_error(a, min(weighted_norms, self._magnitude(a)), sums)
        return root_up(up(square + error))

    def _squared_norm(self, a: np.ndarray, precision: type) -> float:
        """aᵀKa over the rows where a is not zero: scores in the given precision, then a sum."""
        nonzero = _nonzero_rows(a)
        coef = a[nonzero].astype(precision, copy=False)
        weights = a[nonzero].astype(np.longdouble)
        if precision is np.float64 and self._cache.holds(nonzero):
            return float(np.sum(weights * self._cache.product(nonzero, coef)[nonzero]))
        total = np.longdouble(0.0)
        for part in row_blocks(nonzero.size, nonzero.size):
            values: np.ndarray = self._cache.block(nonzero[part], nonzero)
            total += np.sum(weights[part] * (values.astype(precision, copy=False) @ coef))
        return float(total)

    def _square_error(self, a: np.ndarray, magnitude: float, sums: float) -> float:
        """How far Σ_i a_i fl(Ka)_i, added up in extended precision, may be from aᵀKa.

        |a_i| times the error (γ + ε) √K_ii M of a score adds up to (γ + ε) M², with M the
        magnitude and γ the rounding of the scores' sums. The outer sum has as many terms as a has
        entries, each at most |a_i| √K_ii M (1 + γ + ε), and is rounded to float64 at its end.
        """
        size = _nonzero_rows(a).size
        terms = size * (a.shape[1] if a.ndim == 2 else 1)
        outer = gamma(4 * terms + 8, EXTENDED_ROUNDOFF) + gamma(2)
        relative = up(sums + self.kernel_error + outer)
        mass = float(np.abs(a).sum(dtype=np.float64))
        lost = 8.0 * (terms + size * mass) * UNDERFLOW * (1.0 + self.radius)
        return up(relative * magnitude * magnitude + lost, 8)


def _nonzero_rows(a: np.ndarray) -> np.ndarray:
    """The numbers of the rows where a is not zero."""
    return np.flatnonzero(a if a.ndim == 1 else a.any(axis=1))
