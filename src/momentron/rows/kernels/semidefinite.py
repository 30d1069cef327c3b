"""Whether a Gram matrix can be one: is there a positive semidefinite matrix within its error?

Eigenvalues here are those of N = K_ij/√(K_ii K_jj). Where a positive semidefinite matrix is within
ε√(K_ii K_jj) of K, entry by entry, those of m rows are at least −mε. Where they are at least −μ,
one is within μ√(K_ii K_jj): K with (1 + μ) times its diagonal.
"""

import numpy as np
from scipy.linalg import eigh

from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.arithmetic.squares import factor_in_place
from momentron.errors import InputError

TOLERANCE = 1e-8  # negative eigenvalues beyond this share of the largest are not rounding
CHECK_ERROR = 16.0 * UNIT_ROUNDOFF  # an entry: what computing eigenvalues may add


def negative_part(
    K: np.ndarray, rows: np.ndarray, error: float, tolerance: float = TOLERANCE
) -> float:
    """μ ≥ 0 by which the error of K must grow for a positive semidefinite matrix to be within it.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel values of the named rows; only one triangle is read.
    rows : ndarray of shape (m,)
        Their numbers, for the message.
    error : float
        ε of the values: 0 is returned where it explains what is negative.
    tolerance : float
        The share of the largest eigenvalue that a negative one may have.

    Raises
    ------
    InputError
        Where a negative eigenvalue is beyond that.
    """
    diagonal = np.diagonal(K).astype(np.float64)
    m = diagonal.size
    if m == 0:
        return 0.0
    # a row of length 0 has zeros alone, and stands for itself: any diagonal will do
    diagonal[diagonal <= 0.0] = diagonal.max() if diagonal.max() > 0.0 else 1.0
    explained = m * (error + CHECK_ERROR)  # what these errors can take eigenvalues below 0
    shifted = np.array(K, dtype=np.float64, order="F")
    shifted[np.diag_indices(m)] += 0.5 * explained * diagonal
    if factor_in_place(shifted)[1]:
        return 0.0
    roots = np.sqrt(diagonal)
    values, vectors = eigh(K / roots / roots[:, None], check_finite=False)
    smallest, allowed = float(values[0]), max(explained, tolerance * float(np.abs(values).max()))
    if smallest >= -explained:
        return 0.0
    if smallest >= -allowed:
        return up(-smallest + CHECK_ERROR * m)
    vector = vectors[:, 0]
    order = np.argsort(-np.abs(vector), kind="stable")[:2]
    named = ", ".join(f"{vector[i]:.3g} of row {rows[i]}" for i in order)
    raise InputError(
        f"the kernel is not positive semidefinite: on {m} rows its matrix, scaled to the "
        f"diagonal 1, has the eigenvalue {smallest:.6g}, below the {-allowed:.2g} that rounding "
        f"explains (the unit vector with {named} shows it); compute it in float64, or add "
        f"{-2.0 * smallest:.1g} times its diagonal"
    )


def require_semidefinite(K: np.ndarray, rows: np.ndarray, error: float) -> None:
    """Raise InputError if no positive semidefinite matrix is within ε√(K_ii K_jj) of K.

    Parameters as in `negative_part`. Costs one Cholesky factorisation where all is well.
    """
    negative_part(K, rows, error, tolerance=0.0)
