"""Whether a Gram matrix can be one: is there a positive semidefinite matrix within its error?

Eigenvalues here are those of N = K_ij/√(K_ii K_jj). Where a positive semidefinite matrix is within
ε√(K_ii K_jj) of K, entry by entry, those of m rows are at least −mε. Where they are at least −μ,
one is within μ√(K_ii K_jj): K with (1 + μ) times its diagonal.
"""

import numpy as np
from scipy.linalg import eigh

from momentron.arithmetic.cholesky import factor_in_place
from momentron.arithmetic.rounding import UNIT_ROUNDOFF, up
from momentron.errors import InputError

TOLERANCE = 1e-8  # negative eigenvalues beyond this share of the largest are not rounding
CHECK_ERROR = 16.0 * UNIT_ROUNDOFF  # an entry: what computing eigenvalues may add


def negative_part(K: np.ndarray, rows: np.ndarray, error: float) -> float:
    """μ ≥ 0 by which the error of K must grow for a positive semidefinite matrix to be within it.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel values of the named rows; only one triangle is read.
    rows : ndarray of shape (m,)
        Their numbers, for the message.
    error : float
        ε of the values: 0 is returned where it explains what is negative.

    Raises
    ------
    InputError
        Where a negative eigenvalue is beyond 1e-8 of the largest.
    """
    found = _smallest_eigenvalue(K, error)
    if found is None:
        return 0.0
    smallest, largest, vector = found
    if smallest < -TOLERANCE * largest:
        raise _refusal(smallest, vector, rows, TOLERANCE * largest)
    return up(-smallest + CHECK_ERROR * rows.size)


def require_semidefinite(K: np.ndarray, rows: np.ndarray, error: float) -> None:
    """Raise InputError if no positive semidefinite matrix is within ε√(K_ii K_jj) of K.

    Parameters as in `negative_part`. Costs one Cholesky factorisation where all is well.
    """
    found = _smallest_eigenvalue(K, error)
    if found is not None:
        raise _refusal(found[0], found[2], rows, _explained(rows.size, error))


def _refusal(value: float, vector: np.ndarray, rows: np.ndarray, allowed: float) -> InputError:
    order = np.argsort(-np.abs(vector), kind="stable")[:2]
    named = ", ".join(f"{vector[i]:.3g} of row {rows[i]}" for i in order)
    return InputError(
        f"the kernel is not positive semidefinite: on {rows.size} rows its matrix, scaled to the "
        f"diagonal 1, has the eigenvalue {value:.6g}, below the {-allowed:.2g} that rounding "
        f"explains (the unit vector with {named} shows it); compute it in float64, or add "
        f"{-2.0 * value:.1g} times its diagonal"
    )


def _explained(m: int, error: float) -> float:
    """How far below 0 errors of the values, and of the check, can take eigenvalues of m rows."""
    return m * (error + CHECK_ERROR)


def _smallest_eigenvalue(K: np.ndarray, error: float) -> tuple[float, float, np.ndarray] | None:
    """(the smallest eigenvalue, the largest in size, the vector of the smallest).

    None unless the smallest is below what the error explains.
    """
    diagonal = np.diagonal(K).astype(np.float64)
    m = diagonal.size
    if m == 0:
        return None
    # a row of length 0 has zeros alone, and stands for itself: any diagonal will do
    diagonal[diagonal <= 0.0] = diagonal.max() if diagonal.max() > 0.0 else 1.0
    allowed = _explained(m, error)
    shifted = np.array(K, dtype=np.float64, order="F")
    shifted[np.diag_indices(m)] += 0.5 * allowed * diagonal
    if factor_in_place(shifted)[1]:
        return None
    roots = np.sqrt(diagonal)
    values, vectors = eigh(K / roots / roots[:, None], check_finite=False)
    if values[0] >= -allowed:
        return None
    return float(values[0]), float(np.abs(values).max()), vectors[:, 0]
