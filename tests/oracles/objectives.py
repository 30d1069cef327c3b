"""Soft margins as quadratic programs, solved by Clarabel: what ours are compared with."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def rows_of(K: np.ndarray) -> np.ndarray:
    """Rows whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def least_objective(
    X: np.ndarray, y: Any, prices: np.ndarray, penalty: str, fit_intercept: bool
) -> float | None:
    """The least ½‖w‖² + Σ C_i ξ_i or Σ C_i ξ_i², labels 0 and 1; None where Clarabel fails."""
    import clarabel

    n, d = X.shape
    signs = np.where(np.asarray(y) == 1, 1.0, -1.0)
    total = float(prices.sum())
    scale = float(np.sqrt(prices.max()))  # slack in units in which its price is about 1
    border = signs[:, None] if fit_intercept else np.zeros((n, 0))
    k = border.shape[1]
    slack = sp.identity(n, format="csc")
    rows = sp.csc_matrix(np.hstack([signs[:, None] * X, border]))
    is_squared = penalty == "squared_hinge"
    unit = 1.0 / scale if is_squared else 1.0
    parts = [sp.hstack([-rows, -unit * slack])]
    limits = [-np.ones(n)]
    if not is_squared:
        parts.append(sp.hstack([sp.csc_matrix((n, d + k)), -slack]))
        limits.append(np.zeros(n))
    A, b = sp.vstack(parts, format="csc"), np.concatenate(limits)
    prices = prices * unit**2 if is_squared else prices
    quadratic = np.concatenate([np.ones(d), np.zeros(k), 2.0 * prices * is_squared])
    linear = np.concatenate([np.zeros(d + k), prices * (not is_squared)])
    size = min(1.0, total)  # its tolerances are absolute, and a tiny C has a tiny objective
    quadratic, linear = quadratic / size, linear / size
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = 1e-13
    settings.tol_gap_rel = settings.tol_feas = 1e-11
    P = sp.diags(quadratic).tocsc()
    cones = [clarabel.NonnegativeConeT(A.shape[0])]
    found = clarabel.DefaultSolver(P, linear, A, b, cones, settings).solve()
    return size * float(found.obj_val) if str(found.status) == "Solved" else None
