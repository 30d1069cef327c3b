"""All the rows through products alone: Newton's systems by conjugate gradients.

For sparse rows with many features, where the factors of the other forms are too large or take too
long, and where a sample says nothing about rows that share no features with it. A product with a
system costs two passes over the rows that have curvature.
"""

from collections.abc import Callable
from typing import Any
from weakref import proxy

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.deadline import Deadline, seconds_of
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rows import SignedRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

ENTRIES = (5e8, 2e9)  # of sparse and of dense rows, that are multiplied in a second


class PassForm(PrimalForm):
    """The space of w without any matrix of its size.

    Parameters
    ----------
    is_scaled : bool
        Whether conjugate gradients are preconditioned by the diagonal: for solutions. A rough
        ranking is done before that pays.

    Attributes
    ----------
    accuracy : (float, int)
        The relative residual, and the number of products, at which a direction is good enough.
    """

    has_factors = False

    def __init__(
        self,
        rows: SignedRows,
        squares: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
        *,
        is_scaled: bool = False,
    ) -> None:
        super().__init__(rows, deadline, settings, borrow=True, squares=squares)
        self.accuracy = settings.pass_direction if is_scaled else settings.quick_direction
        self.soft = ConjugateSoft(self)
        self.is_scaled = is_scaled

    def newton_flops(self, size: int) -> float:
        share = size / max(self.m, 1)  # a tenth of the most products, which few directions take
        return 0.1 * self.accuracy[1] * share * product_seconds(self.rows.X) / seconds_of(1.0)

    def newton_step(self, S: np.ndarray, sigma: float, gradient: np.ndarray) -> np.ndarray:
        index = np.flatnonzero(S)
        rows, stiffness = self.A.some(index), sigma * self.rows.shares_at(index)

        def multiply(v: np.ndarray) -> np.ndarray:
            require_time()
            return self.ridge * v + rows.combine(stiffness * rows.products(v))

        diagonal = self._diagonal(rows.rows.X, stiffness) if self.is_scaled else None
        return conjugate_gradients(multiply, gradient, diagonal, *self.accuracy)

    def _diagonal(self, X: Any, stiffness: np.ndarray | float) -> np.ndarray:
        """That of ridge + Σ σ a aᵀ over the rows of X."""
        stiff = np.broadcast_to(stiffness, X.shape[0])
        # an intercept that no row holds is left where it is
        diagonal = np.full(self.A.k, max(self.beta**2 * float(stiff.sum()), 1e-300))
        if sp.issparse(X):
            squares = sp.csr_array((np.square(X.data), X.indices, X.indptr), X.shape)
            diagonal[: self.rows.d] = 1.0 + squares.T @ stiff
            return diagonal
        diagonal[: self.rows.d] = 1.0
        size = max(1, self.settings.block_entries // self.rows.d)
        for start in range(0, X.shape[0], size):
            require_time()
            part = slice(start, start + size)
            diagonal[: self.rows.d] += stiff[part] @ np.square(X[part])
        return diagonal


def conjugate_gradients(
    multiply: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    diagonal: np.ndarray | None,
    accuracy: float,
    most: int,
) -> np.ndarray:
    """x with Mx = rhs for a positive definite M that is known by its products.

    Until the residual, as the preconditioner measures it, has fallen by `accuracy`, or so many
    products are made. The x of any of them leads downhill.
    """
    x, r = np.zeros_like(rhs), rhs.copy()
    z = r if diagonal is None else r / diagonal
    direction, square = z.copy(), float(r @ z)
    enough = accuracy**2 * square
    for _ in range(most):
        if square <= enough or square <= 0.0:
            break
        product = multiply(direction)
        curvature = float(direction @ product)
        if not curvature > 0.0:
            break
        t = square / curvature
        x += t * direction
        r -= t * product
        z = r if diagonal is None else r / diagonal
        last, square = square, float(r @ z)
        direction = z + (square / last) * direction
    return x


class ConjugateSoft:
    """Soft margins by conjugate gradients: ridge + C A_SᵀA_S."""

    def __init__(self, form: PassForm) -> None:
        self.form: PassForm = proxy(form)  # which holds this: a cycle would keep its memory

    def direction(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> Direction:
        form = self.form
        gradient = form.gradient(np.where(S, target - form.p, 0.0) * (C * form.shares))
        return form.towards(form.newton_step(S, C, gradient))


def product_seconds(X: Any) -> float:
    """What a product with the rows and one with their transpose take, roughly."""
    is_sparse = sp.issparse(X)
    return 2.0 * (X.nnz if is_sparse else X.size) / ENTRIES[not is_sparse]
