"""Whether a Gram matrix can be one: refuse what has a clearly negative eigenvalue."""

import numpy as np
from scipy.linalg import eigh

from momentron.errors import InputError
from momentron.factors import factor_in_place

TOLERANCE = 1e-8  # negative eigenvalues up to this share of the largest are rounding


def require_semidefinite(K: np.ndarray, rows: np.ndarray) -> None:
    """Raise InputError if K, the kernel values of the named rows, is not positive semidefinite.

    Costs one Cholesky factorisation where all is well.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Only one triangle is read.
    rows : ndarray of shape (m,)
        The numbers of the rows, for the message.
    """
    m = K.shape[0]
    largest_diagonal = float(np.diagonal(K).max(initial=0.0))
    shifted = np.array(K, dtype=np.float64, order="F")
    # the largest eigenvalue is no smaller than any diagonal entry: a factor settles it
    shifted[np.diag_indices(m)] += 0.5 * TOLERANCE * largest_diagonal
    if m == 0 or (factor_in_place(shifted)[1] and largest_diagonal > 0.0):
        return
    values, vectors = eigh(K, check_finite=False)
    smallest, largest = float(values[0]), float(np.abs(values).max())
    if smallest >= -TOLERANCE * largest:
        return
    direction = vectors[:, 0]
    order = np.argsort(-np.abs(direction), kind="stable")[:2]
    named = ", ".join(f"{direction[i]:.3g} of row {rows[i]}" for i in order)
    raise InputError(
        f"the kernel is not positive semidefinite: on {m} rows its matrix has the eigenvalue "
        f"{smallest:.6g}, below 0 by {-smallest / largest:.2g} of the largest ({largest:.6g}), "
        f"where {TOLERANCE:g} is rounding; the unit vector with {named} shows it. Use a positive "
        "semidefinite kernel, or add a multiple of the identity"
    )
