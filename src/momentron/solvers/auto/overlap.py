"""Whether weights that floats call a witness can be made to cancel exactly: then nothing separates.

Where they cannot, there may be a tiny margin, and rational arithmetic must tell.
"""

import math

import numpy as np

from momentron.solvers.auto.phases import Search
from momentron.solvers.rational.systems import PRIME, pivot_columns

NUMERIC_RANK = 1e-12  # eigenvalues above this share of the largest are not rounding errors
SURPLUS = 4.0  # how much more than the least is asked for


def surely_overlaps(search: Search) -> bool:
    """Whether the smallest correction that makes a witness exact leaves its weights positive.

    With M = Σ q z zᵀ over the witness's rows, the weights q (1 − zᵀM⁺Zᵀq) cancel exactly; they are
    positive where ‖z‖ ‖M⁺‖ ‖Zᵀq‖ is below 1. An intercept is one more feature. What is zero in M
    must be zero exactly, which the rank modulo a prime shows.
    """
    answer, sets = search.answer, search.sets
    q = sets.dual_set.feasible_or_none(answer.lam.copy())
    if q is None or not answer.upper < math.inf or sets.matrix is None:
        return False
    index = np.flatnonzero(q > 0.0)
    rows = sets.matrix.rows(index)
    length = float(sets.operator.radius)
    if sets.fits_intercept:
        rows = np.column_stack([rows, np.full(index.size, length)])
    M = (rows * q[index][:, None]).T @ rows
    if not np.isfinite(M).all():
        return False
    values = np.linalg.eigvalsh(M)
    rank = int(np.count_nonzero(values > NUMERIC_RANK * values[-1]))
    if rank == 0 or (rank < rows.shape[1] and rank != _exact_rank(rows)):
        return False
    residual = answer.upper + 1e-15 * length
    return bool(SURPLUS * length * residual < values[-rank])


def _exact_rank(rows: np.ndarray) -> int:
    """The rank of a matrix of floats, modulo a prime: nearly always the true one."""
    fractions, exponents = np.frexp(rows)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    exponents = np.where(mantissas == 0, 0, exponents)
    exponents -= exponents.min()
    powers = np.array([pow(2, e, PRIME) for e in range(int(exponents.max()) + 1)])
    residues = (mantissas % PRIME * powers[exponents] % PRIME).astype(np.float64)
    return int(pivot_columns(residues, np.arange(rows.shape[1])).size)
