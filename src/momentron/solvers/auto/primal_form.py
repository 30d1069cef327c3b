"""The forms in the space of w: d × d matrices, or conjugate gradients on products with the rows."""

import math
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.threads import own_threads
from momentron.solvers.auto.deadline import Deadline, seconds_of
from momentron.solvers.auto.forms import Direction, Form, InteriorStep, Loss, Point
from momentron.solvers.auto.linear_algebra import (
    ConjugateGradients,
    add_to_diagonal,
    back_solve,
    cholesky_of,
    parts_of,
    pieces_for,
    symmetric_product,
    thin_qr,
)
from momentron.solvers.auto.working_rows import SignedRows

NOWHERE = np.zeros(0)  # no intercepts besides the coordinates, which include them
BLOCK_ENTRIES = 4_000_000  # entries of rows that are densified or copied at a time
RENEWED = 0.6  # the share of the rows whose change makes a Hessian from scratch
NO_WEIGHT = 1e-12  # weights of rows, in units of 1/‖a‖², that the interior point's matrix lacks
PROJECTIONS = 3  # steps of a projection
A_FEW = 16  # rows that show whether it is worth looking for columns of zeros
UNUSED = 0.1  # the share of columns of zeros from which they are left out
RANKING = (0.2, 30)  # relative residual, and products, at which a direction is good to rank by,
SOLVING, FINE = (0.1, 400), (0.01, 400)  # and to solve by, roughly and well
COPIED = 0.9  # the share of the rows with curvature up to which products are with a copy of them
ENTRIES = (5e8, 2e9)  # of sparse and of dense rows, that are multiplied in a second


class BorderedRows(SignedRows):
    """Rows with the intercepts' columns βY appended, β a typical row length; k columns in all.

    Sparse rows, and those of sets too large to copy, are read as they are; they are of two classes.
    """

    def __init__(self, rows: SignedRows, Y: np.ndarray, beta: float) -> None:
        super().__init__(rows.X, rows.signs, rows.dual_set, rows.shares)
        self.Y, self.beta, self.k = Y, beta, rows.d + Y.shape[1]

    def copied(self) -> "BorderedRows":
        """The same as a matrix, signed and bordered, which makes every product one BLAS call."""
        X = np.column_stack([self.take(slice(None)), self.beta * self.Y])
        rows = SignedRows(X, np.ones(self.m), self.dual_set, self.shares)
        return BorderedRows(rows, self.Y[:, :0], self.beta)

    def products(self, w: np.ndarray) -> np.ndarray:
        p = super().products(w[: self.d])
        return p + self.Y @ (self.beta * w[self.d :]) if self.Y.shape[1] else p

    def combine(self, v: np.ndarray) -> np.ndarray:
        g = super().combine(v)
        return np.append(g, self.beta * (v @ self.Y)) if self.Y.shape[1] else g

    def some(self, index: np.ndarray) -> "BorderedRows":
        """Some of the rows, as they are."""
        rows = SignedRows(self.X[index], self.signs[index], self.dual_set, self.shares_at(index))
        return BorderedRows(rows, self.Y[index], self.beta)

    def add_square(
        self, M: np.ndarray, index: np.ndarray, weights: float | np.ndarray, sign: float = 1.0
    ) -> np.ndarray:
        """M + sign · Σ w a aᵀ over some of the rows, in the lower half and if possible in place."""
        size = max(1, BLOCK_ENTRIES // self.k)
        for start in range(0, index.size, size):
            require_time()
            part = slice(start, start + size)
            roots = None if isinstance(weights, float) else np.sqrt(weights[part])[:, None]
            M = self._add_block(M, index[part], roots, sign)
        return M

    def _add_block(
        self, M: np.ndarray, index: np.ndarray, roots: np.ndarray | None, sign: float
    ) -> np.ndarray:
        """The same of some rows as they are, since the labels cancel (y² = 1)."""
        X: Any = self.X[index]
        # few entries compared with d
        is_thin = self.is_sparse and 100.0 * (X.nnz / index.size) ** 2 < self.d**2
        X = X.toarray() if self.is_sparse and not is_thin else X
        if self.k > self.d:
            border = np.full((index.size, 1), self.beta)
            X = sp.hstack([X, border], format="csr") if is_thin else np.hstack([X, border])
        if is_thin:
            X = X if roots is None else sp.csr_array(X.multiply(roots))
            for part in parts_of(self.k, 1 + self.k**2 // BLOCK_ENTRIES):
                require_time()
                M[:, part] += sign * (X.T @ X[:, part]).toarray()
            return M
        if roots is not None:
            X *= roots  # a copy already: memory new to the process takes as long as this
        return _plus_square(M, sign, X)


def _plus_square(M: np.ndarray, sign: float, B: np.ndarray) -> np.ndarray:
    """M + sign · BᵀB."""
    flops = float(B.size) * B.shape[1]
    if own_threads(flops) > 1 or pieces_for(flops) > 1:
        M += sign * symmetric_product(B)
        return M
    return blas.dsyrk(sign, B.T, lower=1, beta=1.0, c=M, overwrite_c=1)


class PrimalForm(Form):
    """For more rows than features; a point's x is w and the intercepts, each divided by β.

    Newton's systems are ridge/σ + A_SᵀA_S, updated by the rows that come and go.
    """

    rows: SignedRows

    def __init__(
        self,
        rows: SignedRows,
        deadline: Deadline,
        *,
        borrow: bool = False,
        squares: np.ndarray | None = None,
    ) -> None:
        squares = rows.squares() if squares is None else squares
        scale, Y = float(squares.mean()), rows.dual_set.columns
        # rows of zeros alone have no length: any will do
        length = math.sqrt(scale) if scale > 1e-290 else 1.0
        self.beta = length if Y.shape[1] else 0.0
        self.A = BorderedRows(rows, Y, self.beta)
        if not (rows.is_sparse or borrow):
            self.A = self.A.copied()
        self.ridge = np.ones(self.A.k)
        self.ridge[rows.d :] = 0.0
        super().__init__(rows, squares + self.beta**2, scale, deadline)
        self._H: np.ndarray | None = None  # Σ s a aᵀ over the rows S, lower half
        self._S = np.zeros(self.m, bool)
        self._whole: tuple[PrimalForm, np.ndarray] | None = None  # of a part, and its rows there
        self.pull: float | np.ndarray = 0.0  # Aᵀα of the rows that a part leaves out

    def newton_flops(self, size: int) -> float:
        return self.A.k**3 / 3.0 + float(size) * self.A.k**2

    def reset(self) -> None:
        self.point = Point(np.zeros(self.A.k), NOWHERE, np.zeros(self.m))

    def margins(self, x: np.ndarray, b: np.ndarray, *, from_rows: bool = False) -> np.ndarray:
        return self.A.products(x)

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        x = np.append(w, b / self.beta) if self.beta else w
        self.point = Point(x, NOWHERE, self.A.products(x))

    def at_weights(self, u: np.ndarray, b: np.ndarray) -> Point:
        x = self.A.combine(u)
        if self.beta:
            x[self.rows.d :] = b / self.beta
        return Point(x, NOWHERE, self.A.products(x))

    def norm(self, *, from_rows: bool = False) -> float:
        x = self.point.x
        return float(np.sqrt((self.ridge * x) @ x))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        x, d = self.point.x, self.rows.d
        return x[:d].copy(), self.beta * x[d:]

    def dual_norm(self, q: np.ndarray, *, from_rows: bool = False) -> float:
        z = self.A.combine(q)
        return float(np.sqrt((self.ridge * z) @ z))

    def project(self, q: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
        """The nearest q′ with Aᵀq′ = 0 in the norm Σ (dq/q)², which keeps signs; the best met."""
        weights = q * q
        M = self.A.add_square(self._zeros(), np.arange(self.m), weights)
        add_to_diagonal(M, 1e-14 * float(M.diagonal().max()))
        factor, best = cholesky_of(lambda: M.copy(order="F")), (q, norm)
        for _ in range(PROJECTIONS):
            corrected = q - weights * self.A.products(back_solve(factor, self.A.combine(q)))
            projected = self.dual_set.feasible_or_none(corrected)
            if projected is None:
                break
            q, norm = projected, self.dual_norm(projected)
            if norm < best[1]:
                best = (q, norm)
        return best

    def block(self, index: np.ndarray) -> np.ndarray:
        rows = self.rows.take(index)
        return rows @ rows.T

    # --- systems -------------------------------------------------------------------------------

    def direction(
        self, loss: Loss, weights: np.ndarray, between: np.ndarray, *, rough: bool = False
    ) -> Direction:
        pull = self.ridge * self.point.x - self.pull
        dx = self.newton_step(between, loss.sigma, self.A.combine(weights) - pull)
        curvature = float((self.ridge * dx) @ dx)
        return Direction(dx, NOWHERE, self.A.products(dx), float(pull @ dx), curvature)

    def newton_step(self, S: np.ndarray, sigma: float, gradient: np.ndarray) -> np.ndarray:
        """(ridge + σ A_SᵀA_S)⁻¹ gradient."""
        H = self._hessian(S)

        def system() -> np.ndarray:
            return self._held(add_to_diagonal(H.copy(order="F"), self.ridge / sigma))

        factor = cholesky_of(system)
        return back_solve(factor, gradient / sigma)

    def _held(self, M: np.ndarray) -> np.ndarray:
        """M with hardly any ridge for the intercepts: one that no row holds is left where it is."""
        top = max(float(M.diagonal().max()), 1e-300)
        return add_to_diagonal(M, 1e-14 * (1.0 - self.ridge) * top)

    def _hessian(self, S: np.ndarray) -> np.ndarray:
        """A_SᵀA_S, rows with shares of C multiplied by them: not to be written to."""
        if self._whole is not None:
            whole, index = self._whole
            among_all = np.zeros(whole.m, bool)
            among_all[index] = S
            return whole._hessian(among_all)
        changed = np.flatnonzero(self._S != S)
        H, joins = self._H, S[changed]
        if H is None or changed.size > RENEWED * np.count_nonzero(S):
            H, changed = self._zeros(), np.flatnonzero(S)
            joins = np.ones(changed.size, bool)
        self._H = None  # a change that is cut short leaves none
        for sign, index in ((1.0, changed[joins]), (-1.0, changed[~joins])):
            if index.size:
                H = self.A.add_square(H, index, self.rows.shares_at(index), sign)
        self._H, self._S = H, S.copy()
        return H

    def part(self, index: np.ndarray, weights: np.ndarray) -> Self:
        part, held = copy(self), weights.copy()
        held[index] = 0.0
        part.pull, part._whole = self.A.combine(held), (self, index)
        part.A = self.A.some(index)
        part.rows, part.m, part.shares = part.A, index.size, part.A.shares
        part.Y, part.squares = self.Y[index], self.squares[index]
        part.point = self.point._replace(p=self.p[index])
        return part

    def _zeros(self) -> np.ndarray:
        return np.zeros((self.A.k, self.A.k), order="F")

    def interior(
        self, alpha: np.ndarray, theta: np.ndarray
    ) -> Callable[[np.ndarray], InteriorStep]:
        A, inverse = self.A, 1.0 / theta
        missing = A.combine(alpha) - self.ridge * self.point.x
        keep = np.flatnonzero(inverse * self.squares > NO_WEIGHT)
        M = A.add_square(self._zeros(), keep, inverse[keep])
        M = self._held(add_to_diagonal(M, self.ridge))
        factor = cholesky_of(lambda: M.copy(order="F"))

        def step(g: np.ndarray) -> InteriorStep:
            dx = back_solve(factor, A.combine(inverse * g) + missing)
            dp = A.products(dx)
            return InteriorStep(dx, NOWHERE, dp, inverse * (g - dp))

        return step


class SpannedForm(PrimalForm):
    """Rows in other coordinates v of w = Bv, B with orthonormal columns: X has r of them."""

    def __init__(self, rows: SignedRows, X: np.ndarray, B: Any, deadline: Deadline) -> None:
        self.B = B
        spanned = SignedRows(np.ascontiguousarray(X), rows.signs, rows.dual_set, rows.shares)
        super().__init__(spanned, deadline)

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        super().warm(self.B.T @ w, b, u)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        v, b = super().answer()
        return self.B @ v, b


def primal_form(rows: SignedRows, deadline: Deadline) -> PrimalForm:
    """The form of a copied working set.

    Dense rows have no columns in which all of them are zero, such as the rims of images.
    """
    most = (1.0 - UNUSED) * rows.d
    if not rows.is_sparse and np.count_nonzero(rows.X[:A_FEW].any(axis=0)) < most:
        used = np.flatnonzero(rows.X.any(axis=0))
        if 0 < used.size < most:
            B = sp.csr_array(
                (np.ones(used.size), (used, np.arange(used.size))), (rows.d, used.size)
            )
            return SpannedForm(rows, rows.X[:, used], B, deadline)
    return PrimalForm(rows, deadline)


def reduced_form(rows: SignedRows, deadline: Deadline) -> PrimalForm:
    """Few rows in many features, rewritten in their span by QR: no squared condition number."""
    Q, R = thin_qr(rows.X.T)
    return SpannedForm(rows, R.T, Q, deadline)


class ProductForm(PrimalForm):
    """The space of w without any matrix of its size: systems by conjugate gradients.

    For sparse rows with many features, where factors are too large or take too long, and where a
    sample says nothing about rows that share no features with it. A product with a system costs two
    passes over the rows that have curvature.

    `accuracy` is the relative residual, and the number of products, at which a direction is good
    enough to solve by. Without it the form is for rankings: these are done before it pays to
    precondition conjugate gradients by the diagonal.
    """

    has_factors = False

    def __init__(
        self,
        rows: SignedRows,
        squares: np.ndarray,
        deadline: Deadline,
        accuracy: tuple[float, int] | None = None,
    ) -> None:
        super().__init__(rows, deadline, borrow=True, squares=squares)
        self.accuracy, self.is_scaled, X = accuracy or RANKING, accuracy is not None, rows.X
        self._squared: Any = None  # the squares of the entries of sparse rows
        if self.is_scaled and rows.is_sparse:
            self._squared = sp.csr_array((X.data**2, X.indices, X.indptr), X.shape)

    def newton_flops(self, size: int) -> float:
        share = size / max(self.m, 1)  # a tenth of the most products, which few directions take
        return 0.1 * self.accuracy[1] * share * product_seconds(self.rows.X) / seconds_of(1.0)

    def newton_step(self, S: np.ndarray, sigma: float, gradient: np.ndarray) -> np.ndarray:
        stiffness = sigma * S * self.rows.shares
        diagonal = self._diagonal(stiffness) if self.is_scaled else 1.0
        rows = self.A
        if np.count_nonzero(S) < COPIED * self.m:
            index = np.flatnonzero(S)
            rows, stiffness = self.A.some(index), stiffness[index]

        def multiply(v: np.ndarray) -> np.ndarray:
            require_time()
            return self.ridge * v + rows.combine(stiffness * rows.products(v))

        gradients = ConjugateGradients(multiply, gradient)
        gradients.run(lambda r: r / diagonal, *self.accuracy)
        return gradients.x

    def _diagonal(self, stiffness: np.ndarray) -> np.ndarray:
        """That of ridge + Σ σ a aᵀ."""
        # an intercept that no row holds is left where it is
        diagonal = np.full(self.A.k, max(self.beta**2 * float(stiffness.sum()), 1e-300))
        if self._squared is not None:
            diagonal[: self.rows.d] = 1.0 + self._squared.T @ stiffness
        else:
            X = self.rows.X
            diagonal[: self.rows.d] = 1.0 + np.einsum("ij,ij,i->j", X, X, stiffness)
        return diagonal

    def part(self, index: np.ndarray, weights: np.ndarray) -> Self:
        part = super().part(index, weights)
        if self._squared is not None:
            part._squared = self._squared[index]
        return part


def product_seconds(X: Any) -> float:
    """What a product with the rows and one with their transpose take, roughly."""
    is_sparse = sp.issparse(X)
    return 2.0 * (X.nnz if is_sparse else X.size) / ENTRIES[not is_sparse]
