"""Weights that prove that nothing separates: q ≥ 0 with Zᵀq = 0, by rescaling.

Multipliers of data that are not separable, brought to mass 1, approach such weights slowly. From
nearby, q ← q∘(1 − Zv) does it in a few rounds, where v solves (Zᵀ diag(q) Z) v = Zᵀq: then Zᵀq
vanishes, and no weight changes its sign as long as Zv < 1. Intercepts are columns of Z here.
"""

import numpy as np

from momentron.solvers.auto.active_rows import ActiveRows
from momentron.solvers.auto.class_blocks import ClassBlocks
from momentron.solvers.auto.joint_newton import ConjugateGradients, Hessian, JointNewton

SMALL = 1e-15  # ‖Zᵀq‖ / (mass · mean‖x‖) at which rounding is all there is


def balanced(newton: JointNewton, weights: np.ndarray) -> np.ndarray:
    """A table of weights of mass 1 near the given one, with Zᵀq nearly zero if there are such."""
    settings = newton.settings
    q = weights / weights.sum()
    q[q < settings.witness_faint * q.max()] = 0.0
    length = float(np.mean(newton.rows.row_norms))
    cuts = 0
    for _ in range(settings.witness_rounds):
        index = np.flatnonzero(q.any(axis=1))
        rows = newton.rows_at(index, np.float64)
        local, Q = newton.pairs.some(index), q[index]
        image = rows.adjoint(local.mix(Q))
        if not rows.dot(image, image) > (SMALL * length) ** 2:
            break
        ratio = np.where(Q > 0.0, local.margins(rows.times(_solve(rows, newton, Q, image))), 0.0)
        share = min(1.0, 0.9 / max(float(ratio.max()), 1e-300))
        Q *= 1.0 - share * ratio
        q[index] = Q
        q /= q.sum()
        cuts += share < 1.0
        if cuts == settings.witness_cuts:
            break
    return q


def _solve(rows: ActiveRows, newton: JointNewton, Q: np.ndarray, image: np.ndarray) -> np.ndarray:
    """v of the rescaling: least squares with the weights Q, and hardly any ridge."""
    local, settings = newton.pairs.some(rows.index), newton.settings
    diagonal = local.diagonal(Q)
    trace = float((newton.rows.row_norms[rows.index] ** 2 @ diagonal).max())
    C = settings.witness_stiffness / trace
    gradients = ConjugateGradients(Hessian(rows, local, Q, C), -C * image)
    blocks = ClassBlocks(rows, diagonal, C, settings)
    gradients.run(blocks, 1e-10, settings.witness_products)
    return gradients.x
