"""Newton's method for the margin of many classes, with conjugate gradients on the pairs.

    min ½‖W‖² + (C/2) Σ_{i, j≠c} max(0, T_ij − (F_ic − F_ij) − (b_c − b_j))²,   F = XW,

is piecewise quadratic in (W, b). Its Hessian, I + C Σ_i x_i x_iᵀ ⊗ M_i with the k × k matrices
M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ, is never formed: its product with a direction V is two
passes over the rows that have an active pair. Through a kernel one product with its matrix does.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.class_blocks import ClassBlocks
from momentron.solvers.auto.class_rows import ActiveRows, ClassRows
from momentron.solvers.auto.conjugate import ConjugateGradients
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.newton import Loss, line_search
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

PRODUCTS = 200  # for one direction
STALE = 2.0  # an old preconditioner is given up after this multiple of what a new one needed


def centred(V: np.ndarray) -> np.ndarray:
    """V less its mean over the classes, in place.

    All that has a meaning adds up to zero over the classes, and so do residuals; what a
    preconditioner adds beside it is taken off again.
    """
    V -= V.mean(axis=1, keepdims=True)
    return V


class PairTable:
    """The labels' part of the joint margin, on outputs F of shape (n, k).

    An example i of class c has k − 1 pairs (i, j), whose functional margins are F_ic − F_ij. Tables
    hold a number for every pair, and zero in column c of row i.
    """

    def __init__(self, labels: np.ndarray, n_classes: int) -> None:
        self.labels = labels
        self.n_classes = n_classes
        self._own = n_classes * np.arange(labels.size) + labels  # places in a flat table

    def some(self, index: np.ndarray) -> "PairTable":
        """The same for some of the examples."""
        return PairTable(self.labels[index], self.n_classes)

    def ones(self) -> np.ndarray:
        """One for every pair."""
        table = np.ones((self.labels.size, self.n_classes))
        table.reshape(-1)[self._own] = 0.0
        return table

    def margins(self, F: np.ndarray) -> np.ndarray:
        """F_ic − F_ij."""
        return F.take(self._own)[:, None] - F

    def mix(self, table: np.ndarray) -> np.ndarray:
        """Σ_j t_ij (e_c − e_j) in row i: the transpose of `margins`."""
        mixed = -table
        mixed.reshape(-1)[self._own] = table.sum(axis=1)
        return mixed

    def diagonal(self, active: np.ndarray) -> np.ndarray:
        """The diagonals of M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ, one row per example."""
        diagonal = active.astype(np.float64)  # or by their weights
        diagonal.reshape(-1)[self._own] = active.sum(axis=1)
        return diagonal


class Step(NamedTuple):
    """What a Newton step did: products, length, √(gᵀH⁻¹g) before it, and pairs that changed."""

    products: int
    length: float
    decrement: float
    changed: int


class ClassNewton:
    """The point (W, b) with its outputs F = XW, and Newton steps from it.

    Attributes
    ----------
    C : float
    shares : float, or ndarray of shape (n, 1)
        Factors of C, where examples have weights of their own.
    target : ndarray of shape (n, k)
        T, zero at the own labels.
    """

    def __init__(
        self,
        rows: ClassRows,
        pairs: PairTable,
        C: float,
        settings: AutoSettings = SETTINGS,
        shares: float | np.ndarray = 1.0,
    ) -> None:
        self.rows, self.settings, self.shares = rows, settings, shares
        self.pairs = pairs
        self.C = C
        k = pairs.n_classes
        self.W, self.b = np.zeros((rows.width, k)), np.zeros(k)
        self.F = np.zeros((rows.n, k))
        self.target = pairs.ones()
        self._needs_double = False
        self._active: ActiveRows | None = None
        self.blocks: ClassBlocks | None = None
        self._blocks_C = 0.0
        self._usual_products = 0

    # --- the point -----------------------------------------------------------------------------

    def margins(self) -> np.ndarray:
        """Functional margins of all pairs, zero at the own labels."""
        return self.pairs.margins(self.F + self.b if self.rows.fits_intercept else self.F)

    def slack(self) -> np.ndarray:
        """max(0, T − margins)."""
        return np.maximum(self.target - self.margins(), 0.0)

    def go_to(self, W: np.ndarray, b: np.ndarray) -> None:
        """Take another point: one pass."""
        self.W, self.b = W, b
        self.F = self.rows.scores(W)

    def image(self, slack: np.ndarray) -> np.ndarray:
        """Σ_pairs C · slack · x_i (e_c − e_j)ᵀ: where the gradient vanishes, W."""
        return self.C * self.rows.image(self.pairs.mix(self.shared(slack)))

    def shared(self, slack: np.ndarray) -> np.ndarray:
        """Slack times the examples' shares of C: the weights of the pairs, but for C."""
        return slack if isinstance(self.shares, float) else slack * self.shares

    # --- a step --------------------------------------------------------------------------------

    def step(self, accuracy: float, slack: np.ndarray, image: np.ndarray) -> Step:
        """Towards the minimiser, given `slack()` and its `image` here."""
        active = slack > 0.0
        index = np.flatnonzero(active.any(axis=1))
        local, S = self.pairs.some(index), self._weighed(active[index], index)
        rows = self.rows_at(index, self._precision(index, local.diagonal(S)))
        gradient = self._gradient(slack, image)
        direction, products = self._direction(Hessian(rows, local, S, self.C), gradient, accuracy)
        decrement = math.sqrt(max(-rows.dot(gradient, direction), 0.0))
        length, changed = self._move(direction, active)
        return Step(products, length, decrement, changed)

    def slide(self, slack: np.ndarray, image: np.ndarray) -> None:
        """Down the gradient to the lowest point: a cheap first step, which most pairs leave."""
        self._move(-self._gradient(slack, image), slack > 0.0)

    def _gradient(self, slack: np.ndarray, image: np.ndarray) -> np.ndarray:
        """That of (W, b), the intercepts in the last row and as seen from the centre."""
        gradient = self.W - image
        if not self.rows.fits_intercept:
            return gradient
        b_gradient = -self.C * self.pairs.mix(self.shared(slack)).sum(axis=0)
        gradient -= self.rows.of_centre(b_gradient)
        return np.concatenate([gradient, b_gradient[None]])

    def _move(self, direction: np.ndarray, active: np.ndarray) -> tuple[float, int]:
        """To the lowest point along a direction: (its length, pairs that a full step changes)."""
        rows, db = self.rows, np.zeros_like(self.b)
        dW = rows.renewed(direction[: rows.width])
        if rows.fits_intercept:
            db = direction[-1] - rows.at_centre(dW)
        dF = rows.scores(dW)
        rest, dp = self.target - self.margins(), self.pairs.margins(dF + db)
        length, changed = 1.0, int(np.count_nonzero((rest - dp > 0.0) != active))
        if changed:
            slope, curvature = rows.dot(self.W, dW), rows.dot(dW, dW)
            along = Direction.of(dW, db, dp.ravel(), slope, curvature)
            loss = Loss(self.C, shares=self._flat_shares())
            length = line_search(along, loss.stiffness * rest.ravel(), loss)
        self.W, self.b = self.W + length * dW, self.b + length * db
        self.F = self.F + length * dF
        return length, changed

    def _weighed(self, active: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The pairs of the named rows that count, each by its share."""
        return active if isinstance(self.shares, float) else active * self.shares[index]

    def _flat_shares(self) -> float | np.ndarray:
        """Of all pairs, one after another."""
        if isinstance(self.shares, float):
            return self.shares
        return np.repeat(self.shares[:, 0], self.pairs.n_classes)

    def _precision(self, index: np.ndarray, diagonal: np.ndarray) -> type:
        """Single, where the Hessian's blocks are far from singular in it."""
        rows = self.rows
        largest = self.C * float((rows.row_norms[index] ** 2 @ diagonal).max(initial=0.0))
        is_single = largest <= rows.largest_single and not self._needs_double
        return np.float32 if is_single else np.float64

    def rows_at(self, index: np.ndarray, precision: type) -> ActiveRows:
        """The named rows, copied anew only where they are others than last time."""
        last = self._active
        if last is None or last.dtype != precision or not np.array_equal(last.index, index):
            self._active = last = None  # a preconditioner may still hold those before
            self._active = last = self.rows.active(index, precision, self.settings.memory // 4)
        return last

    def _direction(
        self, hessian: "Hessian", gradient: np.ndarray, accuracy: float
    ) -> tuple[np.ndarray, int]:
        """(−H⁻¹g to a relative accuracy, products it took).

        An old preconditioner is given up where it takes twice the products that it took when new.
        """
        is_new = self.blocks is None or self._blocks_C != self.C
        if is_new:
            self._renew(hessian)
        assert self.blocks is not None
        limit = PRODUCTS
        if not is_new:
            limit = max(self.rows.least_products, int(STALE * self._usual_products))
        gradients = ConjugateGradients(hessian.times, -gradient, hessian.rows.dot)
        is_solved = gradients.run(self._precondition, accuracy, limit, by_gain=True)
        products = gradients.products
        if gradients.has_failed:  # rounding: the next step is in double precision
            self.blocks = None
            if self._needs_double:
                gradients.run(self._precondition, accuracy, PRODUCTS, by_gain=True)
            self._needs_double = True
        elif not (is_solved or is_new):
            self._renew(hessian)
            gradients.run(self._precondition, accuracy, PRODUCTS, by_gain=True)
            self._usual_products = gradients.products - products
        elif is_new:
            self._usual_products = products
        return gradients.x, gradients.products

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        return centred(r.copy() if self.blocks is None else self.blocks.apply(r))

    def _renew(self, hessian: "Hessian") -> None:
        """The preconditioner of the pairs that are active now."""
        self.blocks = None  # its memory first
        diagonal = hessian.pairs.diagonal(hessian.active)
        self.blocks = ClassBlocks(hessian.rows, diagonal, self.C, self.settings)
        self._blocks_C = self.C


class Hessian:
    """V ↦ V + C Xᵀ(M_i applied to the rows of XV), over the rows that have an active pair."""

    def __init__(self, rows: ActiveRows, pairs: PairTable, active: np.ndarray, C: float) -> None:
        self.rows, self.pairs, self.active, self.C = rows, pairs, active, C
        self._weights = active.astype(rows.dtype)

    def times(self, V: np.ndarray) -> np.ndarray:
        """H V; intercepts, in the last row, have no part in the identity."""
        pairs = self.pairs
        product = self.rows.adjoint(pairs.mix(pairs.margins(self.rows.times(V)) * self._weights))
        product *= self.C
        width = self.rows.width
        product[:width] += V[:width]
        return product
