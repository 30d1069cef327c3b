"""Weights that prove that nothing separates: q ≥ 0 with Zᵀq = 0, by rescaling.

Multipliers of data that are not separable, brought to mass 1, approach such weights slowly. From
nearby, q ← q∘max(0, 1 − Zv) does it in a few rounds, where v solves (Zᵀ diag(q) Z) v = Zᵀq: then
Zᵀq vanishes if Zv ≤ 1, and pairs beyond that are none of the witness. Intercepts are columns of Z
here.
"""

import math

import numpy as np

from momentron.arithmetic.threads import in_threads
from momentron.solvers.auto.class_blocks import ClassBlocks
from momentron.solvers.auto.class_newton import ClassNewton, Hessian, PairTable, centred
from momentron.solvers.auto.class_rows import ActiveRows
from momentron.solvers.auto.conjugate import ConjugateGradients
from momentron.solvers.auto.linear_algebra import back_solve, cholesky

ROUNDS, IDLE = 12, 5  # of rescaling, and those in which ‖Zᵀq‖ may not halve
FAINT = 1e-10  # a weight below this share of the largest is left out
STIFFNESS = 1e8  # the weight of least squares against the identity, in units of its trace
PRODUCTS = 60  # in one round
RIDGE = 1e-14  # of a matrix with ones on the diagonal
WITNESS_BYTES = 32  # for an entry of it: that, a copy, a factor, and what they are made of
SMALL = 1e-15  # ‖Zᵀq‖ / (mass · mean‖x‖) at which rounding is all there is


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
    local, settings = newton.pairs.some(rows.index), newton.settings
    n_bytes = WITNESS_BYTES * image[:, 1:].size ** 2
    if rows.n_features is not None and n_bytes <= settings.memory:
        return _solve_directly(rows, local, Q, image)
    diagonal = local.diagonal(Q)
    trace = float((newton.rows.row_norms[rows.index] ** 2 @ diagonal).max())
    C = STIFFNESS / trace
    gradients = ConjugateGradients(Hessian(rows, local, Q, C).times, C * image, rows.dot)
    blocks = ClassBlocks(rows, diagonal, C, settings)
    gradients.run(lambda r: centred(blocks.apply(r)), 1e-10, PRODUCTS, by_gain=True)
    return gradients.x


def _solve_directly(
    rows: ActiveRows, pairs: PairTable, Q: np.ndarray, image: np.ndarray
) -> np.ndarray:
    """The same by a factor of the matrix of all classes but the last, whose outputs are zero.

    Its block of two classes has the rows of the one that are weighed against the other.
    """
    height, k = image.shape
    M = np.zeros((k - 1, height, k - 1, height))
    diagonal, own = pairs.diagonal(Q), pairs.labels

    def fill(block: tuple[int, int]) -> None:
        a, b = block
        w = diagonal[:, a] if a == b else -Q[:, b] * (own == a) - Q[:, a] * (own == b)
        M[a, :, b] = _moments(rows, w)
        M[b, :, a] = M[a, :, b]

    in_threads(fill, [(a, b) for a in range(k - 1) for b in range(a + 1)])
    matrix = M.reshape(height * (k - 1), -1)
    scale = np.sqrt(matrix.diagonal())
    scale[scale == 0.0] = np.inf  # a feature that no row has
    matrix /= scale
    matrix /= scale[:, None]
    matrix.flat[:: matrix.shape[0] + 1] = 1.0 + RIDGE
    solution = back_solve(cholesky(matrix.T), image[:, :-1].T.ravel() / scale) / scale
    return np.column_stack([solution.reshape(k - 1, height).T, np.zeros(height)])


def _moments(rows: ActiveRows, weights: np.ndarray) -> np.ndarray:
    """Σ w x xᵀ, with a one behind each x if there are intercepts; all weights have one sign."""
    S = np.flatnonzero(weights)
    sign = -1.0 if weights.sum() < 0.0 else 1.0
    inner = sign * rows.covariance(S, np.abs(weights[S]))
    if not rows.has_border:
        return inner
    border = rows.adjoint(weights[:, None])
    return np.block([[inner, border[:-1]], [border.T]])
