"""X seen through a kernel: rows φ(x_i) that exist only in their inner products."""

import math
from typing import TYPE_CHECKING

import numpy as np

from momentron.arithmetic.rounding import (
    EXTENDED_ROUNDOFF,
    UNDERFLOW,
    down,
    gamma,
    norm_bounds,
    root_down,
    root_up,
    up,
)
from momentron.rows.column_cache import ColumnCache, SquareStore
from momentron.rows.operator import Operator, nonzero_rows, row_blocks

if TYPE_CHECKING:
    from momentron.rows.kernels import BoundKernel
    from momentron.rows.kernels.pairwise import SingleScores

MANY_ROWS = 1000  # from which single precision saves more than it costs
FEW_FEATURES = 200  # up to which values in double precision are computed whenever needed


class KernelOperator(Operator):
    """The rows φ(x_i), with ⟨φ(x_i), φ(x_j)⟩ = K_ij; a classifier is w = Σ a_i φ(x_i).

    A classifier is held as its coefficients together with its scores, an array of shape (3, n) or
    (3, n, k): w[0] = a and w[1] = Ka. Sums and multiples of classifiers keep both in step, so that
    scores and norms cost nothing; only what brings in new rows costs kernel values, n a row. w[2]
    bounds the error of scores that rest on single precision, and is zero elsewhere.

    `cache_bytes` is the memory for columns of K; a matrix that was passed as such is used where it
    is. Rounding makes scores drift from coefficients, so the certificate calls `recomputed` first,
    and its bounds are for scores so computed. Values of K may be wrong by ε √(K_ii K_jj), which is
    why errors are measured by `magnitude`, Σ_j √K_jj |a_j|, and not by ‖w‖.
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
        self._cache = ColumnCache(kernel.block, n, cache_bytes, matrix=kernel.matrix)
        self._single: SingleScores | None = None
        if n >= MANY_ROWS:
            self._single = kernel.single_scores(cache_bytes)
        self._square = SquareStore(kernel.block, n)

    @property
    def some_row_length(self) -> float:
        return 0.9 * math.sqrt(float(self.kernel.diagonal().max()))

    def as_kernel(self) -> "KernelOperator":
        return self

    def reserve(self, n_bytes: int) -> None:
        """Leave n_bytes of the cache's memory to others: fewer columns are kept."""
        self._cache.resize(max(0, self.cache_bytes - n_bytes))
        if self._single is not None:
            self._single.resize(max(0, self.cache_bytes - n_bytes))

    @property
    def is_rough(self) -> bool:
        """Whether values in single precision, with a proven bound, serve for most scores."""
        return self._single is not None

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        """How many kernel values were computed so far, those for the diagonal included."""
        rough = 0 if self._single is None else self._single.evaluations
        other = self._square.evaluations + self.kernel.diagonal_evaluations
        return self._cache.evaluations + rough + other

    # --- for solvers -------------------------------------------------------------------------

    def zeros(self, *trailing: int) -> np.ndarray:
        return np.zeros((3, self.shape[0], *trailing))

    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        """The scores that are kept with w; as `score_depth` says if it is `recomputed`."""
        return w[1]

    apply = scores_in_double  # no pass over the data

    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        """(a, Ka, 0), over the rows where a is not zero."""
        nonzero = nonzero_rows(a)
        coef = a[nonzero].astype(np.float64, copy=False)
        if self._square.holds(slice(None)):
            return self.classifier(a, self._scores_at(np.arange(a.shape[0]), nonzero, coef))
        return self.classifier(a, self._cache.product(nonzero, coef))

    from_coefficients = exact_adjoint

    def combine(self, rows: np.ndarray, a: np.ndarray, *, rough: bool = False) -> np.ndarray:
        """Σ a_i φ(x_i) over the given rows: n kernel values for each that is not in memory.

        If rough, scores are in single precision where available, as w[2] tells.
        """
        coef = np.zeros((self.shape[0], *a.shape[1:]))
        np.add.at(coef, rows, a.astype(np.float64, copy=False))  # rows may repeat
        if self._single is None or not rough:
            return self.exact_adjoint(coef)
        nonzero = nonzero_rows(coef)
        return np.stack([coef, *self._single.scores(nonzero, coef[nonzero])])

    def in_double(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        w, nonzero = w.copy(), nonzero_rows(w[0])
        index = np.unique(rows[nonzero_rows(w[2][rows])])
        coef = w[0][nonzero].astype(np.float64, copy=False)
        w[1][index], w[2][index] = self._scores_at(index, nonzero, coef), 0.0
        return w

    def _scores_at(self, index: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """K[index][:, columns] @ coef, in the precision of the coefficients.

        Where scores are in single precision besides, a square of moderate size is kept: these and
        the norms need it again. With few features, memory for it takes longer than its values.
        """
        scores = np.full((self.shape[0], *coef.shape[1:]), np.nan, coef.dtype)
        if self._single is not None and coef.dtype == np.float64:
            is_square = np.array_equal(index, columns) and not self._square.holds(index)
            if is_square and self._single.points.d <= FEW_FEATURES:
                return self._square.product(index, coef)
            if is_square and 16 * index.size**2 <= self.cache_bytes:
                self._square.keep(columns, self.cache_bytes // 2)
            kept = self._square.scores(columns, coef)
            if kept is not None:
                scores[kept[0]] = kept[1]
        scores = scores[index]
        lacking = nonzero_rows(np.isnan(scores))
        for part in row_blocks(lacking.size, columns.size):
            values = self._cache.block(index[lacking[part]], columns)
            scores[lacking[part]] = values.astype(coef.dtype, copy=False) @ coef
        return scores

    def along(
        self, rows: np.ndarray, a: np.ndarray
    ) -> tuple[np.ndarray | slice, np.ndarray, np.ndarray]:
        return rows, a, self._cache.product(rows, a)

    @staticmethod
    def classifier(coef: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The classifier of coefficients whose scores are known."""
        return np.stack([coef, scores, np.zeros_like(scores)])

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return w[0], w[1]

    def norm(self, w: np.ndarray) -> float:
        """‖w‖ = √(aᵀKa), from the scores that are kept."""
        return math.sqrt(max(0.0, float(np.einsum("i,i->", w[0].ravel(), w[1].ravel()))))

    def adjoint_norm(self, a: np.ndarray) -> float:
        """√(aᵀKa), from the kernel values of the rows where a is not zero."""
        return math.sqrt(max(0.0, self._squared_norm(a, np.float64)))

    def centred_radius(self) -> float:
        """The radius: any point may be the centre, and the mean would cost n² kernel values."""
        return self.radius

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows][:, cols] in float64."""
        return self._cache.block(rows, cols)

    def rough_block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """The same in single precision, where available."""
        return (self._single or self._cache).block(rows, cols)

    def whole(self) -> np.ndarray | None:
        """All of K, in single precision where available; None where there is no room to keep it."""
        return (self._single or self._cache).whole()

    def square(self, rows: np.ndarray, *, rough: bool = False) -> np.ndarray:
        """K[rows][:, rows] for sorted rows; if rough, in single precision where available.

        Else it is kept, if scores in single precision ask for some in double precision as well.
        """
        if self._single is None:
            return self._cache.block(rows, rows)
        if rough:
            return self.rough_block(rows, rows)
        if 24 * rows.size**2 > self.cache_bytes:  # a copy, and a factor of it, are all there is for
            return self._cache.block(rows, rows)
        return self._square.values(rows, self.cache_bytes // 2)

    def some(self, index: np.ndarray) -> "KernelOperator":
        """The same for some of the examples, with all their kernel values in memory."""
        return KernelOperator(self.kernel.some(index, self.square(index)), self.cache_bytes)

    # --- for the certificate -----------------------------------------------------------------

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        """Scores again: in double precision where a is not zero, and else as w[2] tells."""
        nonzero = nonzero_rows(w[0])
        if self._single is None or not self._single.serves() or self._cache.holds(nonzero):
            return self.exact_adjoint(w[0])
        again = np.stack([w[0], *self._single.scores(nonzero, w[0][nonzero])])
        return self.in_double(again, nonzero)

    def single_errors(self, w: np.ndarray) -> np.ndarray | None:
        return np.abs(w[2]) if w[2].any() else None

    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        nonzero = nonzero_rows(w[0])
        return self._scores_at(index, nonzero, w[0][nonzero].astype(np.longdouble))

    def score_depth(self, w: np.ndarray) -> int:
        # one per coefficient; one more where these are in extended precision and are rounded first
        return nonzero_rows(w[0]).size + 2

    def magnitude(self, w: np.ndarray, norm: float) -> float:
        """√(Σ_l (Σ_j √K_jj |a_jl|)²), rounded up: what errors of K and of sums are relative to.

        |fl(Ka)_i − (Ka)_i| ≤ (γ_m + ε) √K_ii Σ_j √K_jj |a_j| for m coefficients; no bound of ‖w‖
        says as much, since long terms may cancel to a short w.
        """
        return self._magnitude(w[0])

    def _magnitude(self, a: np.ndarray) -> float:
        nonzero = nonzero_rows(a)
        weights = np.abs(a[nonzero].astype(np.float64, copy=False))
        sums = np.atleast_1d(self.row_norms[nonzero] @ weights)
        size = up(norm_bounds(sums)[1], nonzero.size + 8)
        return up(size + nonzero.size * sums.size * UNDERFLOW)

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        """Sure lower and upper bounds of ‖w‖, for a w that is `recomputed`."""
        nonzero = nonzero_rows(w[0])
        if nonzero.size == 0 or self.radius == 0.0:
            return 0.0, 0.0
        coef = w[0][nonzero].astype(np.longdouble)
        square = float(np.sum(coef * w[1][nonzero]))
        error = self._square_error(w[0], self._magnitude(w[0]), gamma(nonzero.size + 4))
        error = up(error + float(np.sum(np.abs(coef) * np.abs(w[2][nonzero]))), nonzero.size + 8)
        return root_down(down(square - error)), root_up(up(square + error))

    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        """A sure upper bound of √(aᵀKa), given one of Σ |a_i| √K_ii."""
        if self.radius == 0.0 or not a.any():
            return 0.0
        square = self._squared_norm(a, np.longdouble if sharp else np.float64)
        size = nonzero_rows(a).size
        sums = gamma(size + 4, EXTENDED_ROUNDOFF) if sharp else gamma(size + 4)
        error = self._square_error(a, min(weighted_norms, self._magnitude(a)), sums)
        return root_up(up(square + error))

    def _squared_norm(self, a: np.ndarray, precision: type) -> float:
        """aᵀKa over the rows where a is not zero: scores in the given precision, then a sum."""
        nonzero = nonzero_rows(a)
        coef = a[nonzero].astype(precision, copy=False)
        if precision is np.float64 and self._cache.holds(nonzero):
            scores = self._cache.product(nonzero, coef)[nonzero]
        else:
            scores = self._scores_at(nonzero, nonzero, coef)
        return float(np.sum(a[nonzero].astype(np.longdouble) * scores))

    def _square_error(self, a: np.ndarray, magnitude: float, sums: float) -> float:
        """How far Σ_i a_i fl(Ka)_i, added up in extended precision, may be from aᵀKa.

        |a_i| times the error (γ + ε) √K_ii M of a score adds up to (γ + ε) M², with M the
        magnitude and γ the rounding of the scores' sums. The outer sum has as many terms as a has
        entries, each at most |a_i| √K_ii M (1 + γ + ε), and is rounded to float64 at its end.
        """
        size = nonzero_rows(a).size
        terms = size * (a.shape[1] if a.ndim == 2 else 1)
        outer = gamma(4 * terms + 8, EXTENDED_ROUNDOFF) + gamma(2)
        relative = up(sums + self.kernel_error + outer)
        mass = float(np.abs(a).sum(dtype=np.float64))
        lost = 8.0 * (terms + size * mass) * UNDERFLOW * (1.0 + self.radius)
        return up(relative * magnitude * magnitude + lost, 8)
