"""All the rows of a sparse matrix with many features, through products alone.

A sample says nothing about rows that share no features with it, and the factors of the other forms
are too large here: Newton's directions come from conjugate gradients, a few products each.
"""

from weakref import proxy

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.primal_form import PrimalForm
from momentron.solvers.auto.rows import SignedRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings


class PassForm(PrimalForm):
    """The space of w without any matrix of its size; for ranking only.

    Attributes
    ----------
    accuracy : (float, int)
        The relative residual, and the number of products, at which a direction is good enough.
    """

    def __init__(
        self,
        rows: SignedRows,
        squares: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
    ) -> None:
        super().__init__(rows, deadline, settings, borrow=True, squares=squares)
        self.accuracy = settings.quick_direction
        self.soft = ConjugateSoft(self)

    @property
    def step_flops(self) -> float:
        return 4.0 * self.accuracy[1] * self.rows.X.nnz


class ConjugateSoft:
    """Conjugate gradients for (ridge/C + A_SᵀA_S) dx = A_Sᵀ(target − p) − ridge·x/C."""

    def __init__(self, form: PassForm) -> None:
        self.form: PassForm = proxy(form)  # which holds this: a cycle would keep its memory

    def direction(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> Direction:
        form = self.form
        roughness, most = form.accuracy
        index = np.flatnonzero(S)
        rows = form.A.some(index)
        shares = form.rows.shares_at(index)
        r = form.soft_gradient(rows, shares * (target - form.p)[index], C)
        step, direction, square = np.zeros_like(r), r.copy(), float(r @ r)
        enough = roughness**2 * square
        for _ in range(most):
            if square <= enough or square == 0.0:
                break
            product = rows.combine(shares * rows.products(direction))
            product += form.ridge * direction / C
            curvature = float(direction @ product)
            if not curvature > 0.0:
                break
            t = square / curvature
            step += t * direction
            r -= t * product
            last, square = square, float(r @ r)
            direction = r + (square / last) * direction
        return form.towards(step)
