"""The d × d form: w itself, with the intercepts as more, unpenalised, coordinates."""

from typing import Any
from weakref import proxy

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import own_threads
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction, Form, InteriorDirection, Point, ratio
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky,
    cholesky_of,
    column_parts,
    copied,
    matvec,
    pieces_for,
    rmatvec,
    symmetric_product,
    thin_qr,
)
from momentron.solvers.auto.rows import SignedRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

NOWHERE = np.zeros(0)  # intercepts are coordinates here, and none are beside them
NO_ROWS = np.zeros(0, np.intp)
A_FEW = 16  # rows that show whether it is worth looking for columns of zeros


class BorderedRows:
    """Rows with the intercepts' columns βY beside them, β a typical row length.

    A working set is copied, signed and bordered, which makes every product one BLAS call. Sparse
    rows, and those of sets too large to copy, are read as they are; they are of two classes.
    """

    def __init__(self, rows: SignedRows, Y: np.ndarray, beta: float, *, copy: bool) -> None:
        self.rows, self.Y, self.beta = rows, Y, beta
        self.d, self.k = rows.d, rows.d + Y.shape[1]
        self.matrix = self._bordered(rows.take(slice(None)), slice(None)) if copy else None

    def _bordered(self, rows: np.ndarray, index: np.ndarray | slice) -> np.ndarray:
        return np.column_stack([rows, self.beta * self.Y[index]]) if self.Y.shape[1] else rows

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w."""
        if self.matrix is not None:
            return matvec(self.matrix, w)
        p = self.rows.products(w[: self.d])
        return p + self.Y @ (self.beta * w[self.d :]) if self.Y.shape[1] else p

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v."""
        if self.matrix is not None:
            return rmatvec(self.matrix, v)
        g = self.rows.combine(v)
        return np.append(g, self.beta * (v @ self.Y)) if self.Y.shape[1] else g

    def take(self, index: np.ndarray) -> np.ndarray:
        """Some of the rows, dense."""
        if self.matrix is not None:
            return self.matrix[index]
        return self._bordered(self.rows.take(index), index)

    def some(self, index: np.ndarray) -> "BorderedRows":
        """Some of the rows, as they are."""
        rows = self.rows
        rows = SignedRows(rows.X[index], rows.signs[index], rows.dual_set, rows.shares_at(index))
        return BorderedRows(rows, self.Y[index], self.beta, copy=False)


class PrimalForm(Form):
    """For more rows than features; a point's x is w and the intercepts, each divided by β.

    Attributes
    ----------
    has_factors : bool
        Whether its systems are solved by factors of matrices, which parts of it may share.
    """

    has_factors: bool = True
    rows: SignedRows

    def __init__(
        self,
        rows: SignedRows,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
        *,
        borrow: bool = False,
        squares: np.ndarray | None = None,
        scale: float | None = None,
    ) -> None:
        self.rows, self.deadline, self.settings = rows, deadline, settings
        Y = rows.dual_set.columns
        if squares is None:
            squares = rows.squares()
        self.scale = max(float(squares.mean()), 1e-300) if scale is None else scale
        # rows of zeros alone have no length: any will do
        length = float(np.sqrt(self.scale)) if self.scale > 1e-290 else 1.0
        self.beta = length if Y.shape[1] else 0.0
        self.squares = squares + self.beta**2
        self.A = BorderedRows(rows, Y, self.beta, copy=not (rows.is_sparse or borrow))
        self.ridge = np.ones(self.A.k)
        self.ridge[rows.d :] = 0.0
        self.soft = self._soft = PrimalSoft(self)
        self.reset()

    @property
    def step_flops(self) -> float:
        return self.newton_flops(self.m)

    def reset(self) -> None:
        self.point = Point(np.zeros(self.A.k), NOWHERE, np.zeros(self.m))

    def margins(self, x: np.ndarray, b: np.ndarray, *, from_rows: bool = False) -> np.ndarray:
        return self.A.products(x)

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        self.go(np.append(w, b / self.beta) if self.beta else w)

    def go_to_weights(self, u: np.ndarray, b: np.ndarray) -> None:
        x = self.A.combine(u)
        if self.beta:
            x[self.rows.d :] = b / self.beta
        self.go(x)

    def go(self, x: np.ndarray) -> None:
        """Go to given coordinates."""
        self.point = Point(x, NOWHERE, self.A.products(x))

    def norm(self) -> float:
        x = self.point.x
        return float(np.sqrt((self.ridge * x) @ x))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        x, d = self.point.x, self.rows.d
        return x[:d].copy(), self.beta * x[d:]

    def dual_norm(self, q: np.ndarray) -> float:
        z = self.A.combine(q)
        return float(np.sqrt((self.ridge * z) @ z))

    def project(self, q: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
        """The nearest q′ with Aᵀq′ = 0 in the norm Σ (dq/q)², which keeps signs; the best met."""
        weights = q * q
        M = symmetric_product(self.A.take(np.arange(self.m)) * q[:, None])
        add_to_diagonal(M, 1e-14 * float(M.diagonal().max()))
        factor, best = cholesky(M), (q, norm)
        for _ in range(self.settings.projections):
            corrected = q - weights * self.A.products(back_solve(factor, self.A.combine(q)))
            projected = self.dual_set.feasible_or_none(corrected)
            if projected is None:
                break
            q, norm = projected, self.dual_norm(projected)
            if norm < best[1]:
                best = (q, norm)
        return best

    # --- systems -------------------------------------------------------------------------------

    def along_mean(self) -> Direction:
        return self.towards(self.A.combine(np.ones(self.m) * self.shares) * self.ridge)

    def hessian(self, S: np.ndarray) -> np.ndarray:
        """A_SᵀA_S, to be written to."""
        return self._soft.hessian(S)

    def newton_step(self, S: np.ndarray, sigma: float, gradient: np.ndarray) -> np.ndarray:
        """(ridge + σ A_SᵀA_S)⁻¹ gradient."""

        def shifted() -> np.ndarray:
            M = self.hessian(S)
            add_to_diagonal(M, self.ridge / sigma)
            # an intercept that no row holds is left where it is
            add_to_diagonal(M, 1e-14 * (1.0 - self.ridge) * max(float(M.diagonal().max()), 1e-300))
            return M

        return back_solve(cholesky_of(shifted), gradient / sigma)

    def newton_flops(self, size: int) -> float:
        """The arithmetic of that with so many rows, roughly."""
        return self.A.k**3 / 3.0 + float(size) * self.A.k**2

    def towards(self, dx: np.ndarray) -> Direction:
        """A step of x as a direction."""
        penalised = self.ridge * dx
        slope, curvature = float(self.point.x @ penalised), float(dx @ penalised)
        return Direction(dx, NOWHERE, self.A.products(dx), slope, curvature)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Aᵀ weights − ridge·x, which vanishes where x has these weights."""
        return self.A.combine(weights) - self.ridge * self.point.x

    def soft_gradient(self, rows: BorderedRows, residual: np.ndarray, C: float) -> np.ndarray:
        """A_Sᵀ(target − p) − ridge·x/C: the right side of Newton's system.

        Where rows have shares of C, the residual is multiplied by them.
        """
        return rows.combine(residual) - self.ridge * self.point.x / C

    def start_interior(self, lam: np.ndarray) -> None:
        self.reset()

    def interior(self, lam: np.ndarray, s: np.ndarray) -> "PrimalInterior":
        return PrimalInterior(self, lam, s)


class PrimalSoft:
    """Soft margins in the space of w: ridge/C + A_SᵀA_S, with updates where few rows changed."""

    def __init__(self, form: PrimalForm) -> None:
        self.form: PrimalForm = proxy(form)  # which holds this: a cycle would keep its memory
        self._H: np.ndarray | None = None  # lower half
        self._S = np.zeros(form.m, bool)
        self._sums = np.zeros(form.rows.d)

    def direction(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> Direction:
        form = self.form
        M = self.hessian(S)
        add_to_diagonal(M, form.ridge / C)
        g = form.soft_gradient(form.A, np.where(S, target - form.p, 0.0) * form.shares, C)
        return form.towards(back_solve(cholesky(M), g))

    def hessian(self, S: np.ndarray) -> np.ndarray:
        """A copy of A_SᵀA_S, rows with shares of C multiplied by them."""
        A, d = self.form.A, self.form.rows.d
        changed = np.flatnonzero(self._S != S)
        if self._H is None or changed.size > self.form.settings.renewed * np.count_nonzero(S):
            size = d if A.matrix is None else A.k
            self._H, self._sums = np.zeros((size, size), order="F"), np.zeros(d)
            self._change(np.flatnonzero(S), NO_ROWS)
        else:
            joins = S[changed]
            self._change(changed[joins], changed[~joins])
        self._S = S.copy()
        if self._H.shape[0] == A.k:
            return copied(self._H)
        # one intercept, whose column is βy as the rows are yx
        M = np.zeros((A.k, A.k), order="F")
        for part in column_parts(d, d):
            require_time()
            M[:d, part] = self._H[:, part]
        M[d, :d] = A.beta * self._sums
        M[d, d] = A.beta**2 * float(np.sum(S * self.form.shares))
        return M

    def _change(self, joined: np.ndarray, left: np.ndarray) -> None:
        """H += Σ a_i a_iᵀ over the rows that join S, less those that leave it.

        In blocks where they are not a working set.
        """
        A = self.form.A
        index = np.concatenate([joined, left])
        size = max(1, self.form.settings.block_entries // A.k) if A.matrix is None else index.size
        for start in range(0, index.size, max(size, 1)):
            require_time()
            block = index[start : start + size]
            self._change_block(block, min(max(joined.size - start, 0), block.size))

    def _change_block(self, index: np.ndarray, n_joined: int) -> None:
        """Rows that are not a copy are taken as they are: the labels cancel, since y² = 1."""
        A, rows, d = self.form.A, self.form.rows, self.form.rows.d
        parts = ((1.0, slice(0, n_joined)), (-1.0, slice(n_joined, index.size)))
        if A.matrix is not None:
            B = rows.weighed(A.matrix[index], index)
        else:
            B = rows.X[index]
            if rows.is_sparse and (
                index.size <= self.form.settings.hessian_rows
                or 100.0 * (B.nnz / index.size) ** 2 >= d**2
            ):
                B = B.toarray()
            if A.beta:
                counts = np.ones(index.size) * rows.shares_at(index)
                counts[n_joined:] *= -1.0
                self._sums += B.T @ counts
            B = rows.weighed(B, index)
        for sign, part in parts:
            if part.stop > part.start:
                self._add(sign, B[part])

    def _add(self, sign: float, B: Any) -> None:
        """H += sign · BᵀB: sparse rows have few entries beside d."""
        assert self._H is not None
        if sp.issparse(B):
            for part in column_parts(*self._H.shape):
                require_time()
                self._H[:, part] += sign * (B.T @ B[:, part]).toarray()
            return
        flops = float(B.size) * B.shape[1]
        if own_threads(flops) > 1 or pieces_for(flops) > 1:
            self._H += sign * symmetric_product(B)
        else:
            self._H = blas.dsyrk(sign, B.T, lower=1, beta=1.0, c=self._H, overwrite_c=1)


class PrimalInterior:
    """The interior point in the space of w: ridge + AᵀDA with D = λ/s, factored."""

    def __init__(self, form: PrimalForm, lam: np.ndarray, s: np.ndarray) -> None:
        self.form, self.lam, self.s = form, lam, s
        self.D = ratio(lam, s)
        self.residual = form.p - s - 1.0
        self.dual_residual = form.ridge * form.point.x - form.A.combine(lam)
        keep = np.flatnonzero(self.D * form.squares > form.settings.no_weight)
        M = symmetric_product(form.A.take(keep) * np.sqrt(self.D[keep])[:, None])
        add_to_diagonal(M, form.ridge)
        self.factor = cholesky(M)

    def direction(self, rc: np.ndarray) -> InteriorDirection:
        form, s = self.form, self.s
        rhs = -self.dual_residual - form.A.combine(rc / s + self.D * self.residual)
        dx = back_solve(self.factor, rhs)
        ds = form.A.products(dx) + self.residual
        return InteriorDirection(dx, NOWHERE, ds, -(rc + self.lam * ds) / s)


class NarrowForm(PrimalForm):
    """Dense rows without the columns in which all of them are zero, such as the rims of images."""

    def __init__(
        self,
        rows: SignedRows,
        used: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        self.used, self.width = used, rows.d
        X = np.ascontiguousarray(rows.X[:, used])
        narrow = SignedRows(X, rows.signs, rows.dual_set, rows.shares)
        super().__init__(narrow, deadline, settings)

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        super().warm(w[self.used], b, u)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        narrow, b = super().answer()
        w = np.zeros(self.width)
        w[self.used] = narrow
        return w, b


def primal_form(rows: SignedRows, deadline: Deadline, settings: AutoSettings) -> PrimalForm:
    """The form of a copied working set, in the columns that it uses."""
    most = (1.0 - settings.unused_columns) * rows.d
    if not rows.is_sparse and np.count_nonzero(rows.X[:A_FEW].any(axis=0)) < most:
        used = np.flatnonzero(rows.X.any(axis=0))
        if 0 < used.size < most:
            return NarrowForm(rows, used, deadline, settings)
    return PrimalForm(rows, deadline, settings)


class ReducedForm(PrimalForm):
    """Few rows in many features, rewritten in their span by QR: no squared condition number."""

    def __init__(
        self, rows: SignedRows, deadline: Deadline, settings: AutoSettings = SETTINGS
    ) -> None:
        self.Q, R = thin_qr(rows.X.T)
        reduced = SignedRows(np.ascontiguousarray(R.T), rows.signs, rows.dual_set, rows.shares)
        super().__init__(reduced, deadline, settings)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        w, b = super().answer()
        return self.Q @ w, b
