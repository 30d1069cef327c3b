"""The last digits: the optimality system on the support, refined in extended precision.

A float64 vector w rounds a·w by u‖a‖‖w‖, which is u·R/γ of the margin γ: 1e-10 where the margin is
a millionth of the rows' length. There w is carried on in extended precision.
"""

import numpy as np
from scipy.linalg import lapack

STEPS = 6  # of refinement; three or four reach the end


def refine(
    A: np.ndarray, signs: np.ndarray, fits_intercept: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """(w, λ) with w = Aᵀλ and A w + b y = 1 on the support rows A, in extended precision.

    With an intercept also y·λ = 0. None where the system is singular, or where the steps do
    not converge. Each step costs two passes over A.
    """
    m, d = A.shape
    order = d + m + int(fits_intercept)
    system = np.zeros((order, order))
    system[:d, :d] = np.eye(d)
    system[:d, d : d + m] = -A.T
    system[d : d + m, :d] = A
    if fits_intercept:
        system[d : d + m, -1] = signs
        system[-1, d : d + m] = signs
    lu, pivots, info = lapack.dgetrf(system)
    if info != 0:
        return None
    with np.errstate(all="ignore"):
        return _refined(A.astype(np.longdouble), signs, (lu, pivots), order)


def _refined(
    A: np.ndarray, signs: np.ndarray, factor: tuple[np.ndarray, np.ndarray], order: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Iterative refinement: residuals in extended precision, corrections in float64."""
    m, d = A.shape
    x = np.zeros(order, np.longdouble)
    best, error = x, 1e-9  # worse than this, and float64 had it better
    for _ in range(STEPS):
        w, lam = x[:d], x[d : d + m]
        b = x[-1] if order > d + m else np.longdouble(0.0)
        residual = np.zeros(order, np.longdouble)
        residual[:d] = (A * lam[:, None]).sum(axis=0) - w
        residual[d : d + m] = 1.0 - (A * w).sum(axis=1) - b * signs
        if order > d + m:
            residual[-1] = -(lam * signs).sum()
        size = float(np.max(np.abs(residual[d : d + m])))
        if size < error:
            best, error = x, size
        x = x + lapack.dgetrs(*factor, residual.astype(np.float64))[0]
        if not np.all(np.isfinite(x)):
            break
    if not best.any():
        return None
    return best[:d], best[d : d + m]
