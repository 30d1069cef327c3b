"""Newton's method for the margin of many classes, with conjugate gradients on the pairs.

    min ½‖W‖² + (C/2) Σ_{i, j≠c} max(0, T_ij − (F_ic − F_ij) − (b_c − b_j))²,   F = XW,

is piecewise quadratic in (W, b). Its Hessian, I + C Σ_i x_i x_iᵀ ⊗ M_i with the k × k matrices
M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ, is never formed: its product with a direction V is two
passes over the rows that have an active pair. Through a kernel one product with its matrix does.

Multipliers of data that are not separable, brought to mass 1, approach weights q ≥ 0 with Zᵀq = 0
slowly. From nearby, q ← q∘max(0, 1 − Zv) does it in a few rounds, where v solves
(Zᵀ diag(q) Z) v = Zᵀq: then Zᵀq vanishes if Zv ≤ 1, and pairs beyond that are none of the witness.
Intercepts are columns of Z here.
"""

import math

import numpy as np

from momentron.solvers.auto.class_blocks import ClassBlocks
from momentron.solvers.auto.class_rows import ActiveRows, ClassRows
from momentron.solvers.auto.forms import Direction
from momentron.solvers.auto.linear_algebra import ConjugateGradients
from momentron.solvers.auto.newton import Loss, line_search
from momentron.solvers.auto.settings import SETTINGS, AutoSettings

PRODUCTS = 200  # for one direction
STALE = 2.0  # an old preconditioner is given up after this multiple of what a new one needed
# Of the search for a witness:
ROUNDS, IDLE = 12, 5  # of rescaling, and those in which ‖Zᵀq‖ may not halve
FAINT = 1e-10  # a weight below this share of the largest is left out
STIFFNESS = 1e8  # the weight of least squares against the identity, in units of its trace
WITNESS_PRODUCTS = 60  # in one round
SMALL = 1e-15  # ‖Zᵀq‖ / (mass · mean‖x‖) at which rounding is all there is


def centred(V: np.ndarray) -> np.ndarray:
    """V less its mean over the classes, in place.

    All that has a meaning adds up to zero over the classes, and so do residuals; what a
    preconditioner adds to it is taken off again.
    """
    V -= V.mean(axis=1, keepdims=True)
    return V


class PairTable:
    """The labels' part of the margin, on outputs F of shape (n, k).

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

    def step(self, accuracy: float, slack: np.ndarray, image: np.ndarray) -> tuple[float, float]:
        """Towards the minimiser, given `slack()` and its `image` here: (length, √(gᵀH⁻¹g))."""
        active = slack > 0.0
        index = np.flatnonzero(active.any(axis=1))
        local, S = self.pairs.some(index), self._weighed(active[index], index)
        rows = self.rows_at(index, self._precision(index, local.diagonal(S)))
        gradient = self._gradient(slack, image)
        direction = self._direction(Hessian(rows, local, S, self.C), gradient, accuracy)
        decrement = math.sqrt(max(-rows.dot(gradient, direction), 0.0))
        return self._move(direction, active), decrement

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

    def _move(self, direction: np.ndarray, active: np.ndarray) -> float:
        """To the lowest point along a direction; how many times as long as it that is."""
        rows, db = self.rows, np.zeros_like(self.b)
        dW = rows.renewed(direction[: rows.width])
        if rows.fits_intercept:
            db = direction[-1] - rows.at_centre(dW)
        dF = rows.scores(dW)
        rest, dp = self.target - self.margins(), self.pairs.margins(dF + db)
        length = 1.0
        if not np.array_equal(rest - dp > 0.0, active):
            slope, curvature = rows.dot(self.W, dW), rows.dot(dW, dW)
            along = Direction.of(dW, db, dp.ravel(), slope, curvature)
            loss = Loss(self.C, shares=self._flat_shares())
            length = line_search(along, loss.stiffness * rest.ravel(), loss)
        self.W, self.b = self.W + length * dW, self.b + length * db
        self.F = self.F + length * dF
        return length

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
        """The named rows, copied again only if they differ from the last ones."""
        last = self._active
        if last is None or last.dtype != precision or not np.array_equal(last.index, index):
            self._active = last = None  # a preconditioner may still hold those before
            self._active = last = self.rows.active(index, precision, self.settings.memory // 4)
        return last

    def _direction(self, hessian: "Hessian", gradient: np.ndarray, accuracy: float) -> np.ndarray:
        """−H⁻¹g to a relative accuracy.

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
        return gradients.x

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


def balanced(newton: ClassNewton, weights: np.ndarray) -> np.ndarray:
    """A table of weights of mass 1 near the given one, with Zᵀq nearly zero if there are such."""
    q = weights / weights.sum()
    q[q < FAINT * q.max()] = 0.0
    length = float(np.mean(newton.rows.row_norms))
    idle, best, least = 0, q, math.inf
    for _ in range(ROUNDS):
        index = np.flatnonzero(q.any(axis=1))
        rows = newton.rows_at(index, np.float64)
        local, Q = newton.pairs.some(index), q[index]
        image = rows.adjoint(local.mix(Q))
        size = math.sqrt(max(rows.dot(image, image), 0.0))
        idle = 0 if size < 0.5 * least else idle + 1
        if size < least:
            best, least = q, size
        if not size > SMALL * length or idle > IDLE:
            break
        ratio = np.where(Q > 0.0, local.margins(rows.times(_solve(rows, newton, Q, image))), 0.0)
        Q *= np.maximum(1.0 - ratio, 0.0)
        mass = float(Q.sum())
        if not mass > 0.0:
            break
        q = np.zeros_like(q)
        q[index] = Q / mass
    return best


def _solve(rows: ActiveRows, newton: ClassNewton, Q: np.ndarray, image: np.ndarray) -> np.ndarray:
    """v of the rescaling: least squares with the weights Q, and hardly any ridge."""
    local = newton.pairs.some(rows.index)
    diagonal = local.diagonal(Q)
    trace = float((newton.rows.row_norms[rows.index] ** 2 @ diagonal).max())
    C = STIFFNESS / trace
    gradients = ConjugateGradients(Hessian(rows, local, Q, C).times, C * image, rows.dot)
    blocks = ClassBlocks(rows, diagonal, C, newton.settings)
    gradients.run(lambda r: centred(blocks.apply(r)), 1e-10, WITNESS_PRODUCTS, by_gain=True)
    return gradients.x
