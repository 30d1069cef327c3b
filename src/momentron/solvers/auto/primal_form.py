"""The forms in the space of w: d × d matrices, or conjugate gradients on products with the rows."""

import math
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.linear_algebra import (
    ConjugateGradients,
    Map,
    add_to_diagonal,
    back_solve,
    cholesky_of,
    thin_qr,
)
from momentron.solvers.auto.deadline import Deadline, seconds_of
from momentron.solvers.auto.forms import Form, Hinge, Point, Solve
from momentron.solvers.auto.working_rows import SignedRows

NOWHERE = np.zeros(0)  # no intercepts besides the coordinates, which include them
RENEWED = 0.6  # the share of the rows whose change makes a Hessian from scratch
A_FEW = 16  # rows that show whether it is worth looking for columns of zeros
UNUSED = 0.1  # the share of columns of zeros from which they are left out
RANKING = (0.2, 30)  # relative residual, and products, at which a direction is good to rank by,
SOLVING, FINE = (0.1, 400), (0.01, 400)  # and to solve by, roughly and well
COPIED = 0.9  # the share of the rows with curvature up to which products are with a copy of them
ENTRIES = (5e8, 2e9)  # of sparse and of dense rows, that are multiplied in a second


class PrimalForm(Form):
    """For more rows than features; a point's x is w and the intercepts, each divided by β.

    Newton's systems are ridge/σ + A_SᵀA_S, updated by the rows that come and go. Rows whose ‖a‖²
    are given as `squares` are not copied.
    """

    def __init__(
        self, rows: SignedRows, deadline: Deadline, squares: np.ndarray | None = None
    ) -> None:
        is_copied = squares is None and not rows.is_sparse
        squares = rows.squares() if squares is None else squares
        scale, Y = float(squares.mean()), rows.dual_set.columns
        # rows of zeros alone have no length: any will do
        length = math.sqrt(scale) if scale > 1e-290 else 1.0
        self.beta = length if Y.shape[1] else 0.0
        self.A = rows.bordered(self.beta, is_copied=is_copied)
        self.ridge = np.ones(self.A.k)
        self.ridge[rows.d :] = 0.0
        self.squares = squares + self.beta**2
        super().__init__(rows, scale, (self.A.k, 0), deadline)
        self._H: np.ndarray | None = None  # Σ s a aᵀ over the rows S, lower half
        self._S, self._shares = np.zeros(self.m, bool), self.shares
        self._whole: tuple[PrimalForm, np.ndarray] | None = None  # of a part, and its rows there
        self.pull: float | np.ndarray = 0.0  # Aᵀα of the rows that a part leaves out

    def newton_flops(self, size: int) -> float:
        return self.A.k**3 / 3.0 + float(size) * self.A.k**2

    def image(self, x: np.ndarray) -> np.ndarray:
        return self.A.products(x)

    def at_weights(self, u: np.ndarray, b: np.ndarray, w: np.ndarray | None = None) -> Point:
        w = self.rows.combine(u) if w is None else w
        x = np.append(w, b / self.beta) if self.beta else w
        return Point(x, NOWHERE, self.image(x))

    def norm(self) -> float:
        return self._length(self.point.x)

    def dual_norm(self, q: np.ndarray) -> float:
        return self._length(self.A.combine(q))

    def _length(self, x: np.ndarray) -> float:
        return float(np.sqrt((self.ridge * x) @ x))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        x, d = self.point.x, self.rows.d
        return x[:d].copy(), self.beta * x[d:]

    def block(self, index: np.ndarray) -> np.ndarray:
        rows = self.rows.take(index)
        return rows @ rows.T

    # --- systems -------------------------------------------------------------------------------

    def system(self, loss: Hinge, between: np.ndarray, *, rough: bool = False) -> Solve:
        solve, pull = self.inverse(loss, between), self._pull_here()
        return lambda weights: (solve(self.A.combine(weights) - pull), NOWHERE)

    def _pull_here(self) -> np.ndarray:
        return self.ridge * self.point.x - self.pull

    def slopes(self, dx: np.ndarray, image: np.ndarray) -> tuple[float, float]:
        return float(self._pull_here() @ dx), float((self.ridge * dx) @ dx)

    def inverse(self, loss: Hinge, S: np.ndarray) -> Map:
        """(ridge + Σ σ a aᵀ)⁻¹ over the rows S."""
        H, sigma = self._hessian(S, loss.shares), loss.sigma

        def system() -> np.ndarray:
            # hardly any ridge for the intercepts: one that no row holds is left where it is
            M = add_to_diagonal(H.copy(order="F"), self.ridge / sigma)
            top = max(float(M.diagonal().max()), 1e-300)
            return add_to_diagonal(M, 1e-14 * (1.0 - self.ridge) * top)

        factor = cholesky_of(system)
        return lambda gradient: back_solve(factor, gradient / sigma)

    def _hessian(self, S: np.ndarray, shares: float | np.ndarray) -> np.ndarray:
        """Σ s a aᵀ over the rows S: not to be written to."""
        if self._whole is not None:
            whole, index = self._whole
            among_all = np.zeros(whole.m, bool)
            among_all[index] = S
            return whole._hessian(among_all, whole._shares)
        changed = (self._S != S).nonzero()[0]
        H, joins = self._H, S[changed]
        is_other = isinstance(shares, np.ndarray) and shares is not self._shares
        if H is None or is_other or changed.size > RENEWED * np.count_nonzero(S):
            H, changed = np.zeros((self.A.k, self.A.k), order="F"), S.nonzero()[0]
            joins = np.ones(changed.size, bool)
        self._H = None  # a change that is cut short leaves none
        for sign, index in ((1.0, changed[joins]), (-1.0, changed[~joins])):
            if index.size:
                weights = shares[index] if isinstance(shares, np.ndarray) else shares
                H = self.A.add_square(H, index, weights, sign)
        self._H, self._S, self._shares = H, S.copy(), shares
        return H

    def part(self, index: np.ndarray, weights: np.ndarray) -> Self:
        part, held = copy(self), weights.copy()
        held[index] = 0.0
        part.pull, part._whole = self.A.combine(held), (self, index)
        part.A = part.rows = self.A.some(index)
        part.m, part.shares = index.size, part.A.shares
        part.point = self.point._replace(p=self.p[index])
        return part


class SpannedForm(PrimalForm):
    """Rows in other coordinates v of w = Bv, B with orthonormal columns: X has r of them."""

    def __init__(self, rows: SignedRows, X: np.ndarray, B: Any, deadline: Deadline) -> None:
        self.B = B
        spanned = SignedRows(np.ascontiguousarray(X), rows.signs, rows.dual_set, rows.shares)
        super().__init__(spanned, deadline)

    def at_weights(self, u: np.ndarray, b: np.ndarray, w: np.ndarray | None = None) -> Point:
        return super().at_weights(u, b, None if w is None else self.B.T @ w)

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
        super().__init__(rows, deadline, squares)
        self.accuracy, self.is_scaled = accuracy or RANKING, accuracy is not None

    def newton_flops(self, size: int) -> float:
        share = size / max(self.m, 1)  # a tenth of the most products, which few directions take
        return 0.1 * self.accuracy[1] * share * product_seconds(self.rows.X) / seconds_of(1.0)

    def inverse(self, loss: Hinge, S: np.ndarray) -> Map:
        stiffness = S * loss.stiffness
        diagonal = self._diagonal(stiffness) if self.is_scaled else 1.0
        rows = self.A
        if np.count_nonzero(S) < COPIED * self.m:
            index = np.flatnonzero(S)
            rows, stiffness = self.A.some(index), stiffness[index]

        def multiply(v: np.ndarray) -> np.ndarray:
            require_time()
            return self.ridge * v + rows.combine(stiffness * rows.products(v))

        def solve(gradient: np.ndarray) -> np.ndarray:
            gradients = ConjugateGradients(multiply, gradient)
            gradients.run(lambda r: r / diagonal, *self.accuracy)
            return gradients.x

        return solve

    def _diagonal(self, stiffness: np.ndarray) -> np.ndarray:
        """That of ridge + Σ σ a aᵀ."""
        # an intercept that no row holds is left where it is
        diagonal = np.full(self.A.k, max(self.beta**2 * float(stiffness.sum()), 1e-300))
        X, d = self.rows.X, self.rows.d
        if self.rows.is_sparse:
            squared = sp.csr_array((X.data**2, X.indices, X.indptr), X.shape)
            diagonal[:d] = 1.0 + squared.T @ stiffness
        else:
            diagonal[:d] = 1.0 + np.einsum("ij,ij,i->j", X, X, stiffness)
        return diagonal


def product_seconds(X: Any) -> float:
    """What a product with the rows and one with their transpose take, roughly."""
    is_sparse = sp.issparse(X)
    return 2.0 * (X.nnz if is_sparse else X.size) / ENTRIES[not is_sparse]
