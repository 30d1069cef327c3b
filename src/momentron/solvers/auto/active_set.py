"""Few rows, no intercept: the hard margin in one call of a compiled active-set method.

The multipliers minimise ½λᵀKλ − Σλ over λ ≥ 0. With K = LLᵀ that is ½‖Lᵀλ − L⁻¹1‖² less a constant:
nonnegative least squares, which Lawson and Hanson's method solves exactly in m to 2m steps.
"""

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import nnls

from momentron.solvers.auto.gram_form import GramForm

MAX_ROWS = 200  # beyond, Newton's few large steps are faster than many small ones


def multipliers_of(form: GramForm) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where K is singular or too large."""
    if form.m > MAX_ROWS or form.balance.n_intercepts:
        return None
    L, info = lapack.dpotrf(form.K.T, lower=1, clean=1)
    if info != 0 or L.diagonal().min() ** 2 < 1e-13 * form.scale:
        return None
    target = lapack.dtrtrs(L, np.ones(form.m), lower=1)[0]
    try:
        lam, _ = nnls(np.ascontiguousarray(L.T), target)
    except RuntimeError:  # its own limit of iterations
        return None
    form.warm(lam, np.zeros(0), lam)
    return lam
