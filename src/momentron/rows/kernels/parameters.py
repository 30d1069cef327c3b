"""The numbers that kernels take: γ, the degree and c, as scikit-learn reads them."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.data.arguments import as_count, as_number
from momentron.errors import InputError, short
from momentron.rows.base import row_blocks


def as_gamma(gamma: Any, X: Any, sample_weight: np.ndarray | None = None) -> float:
    """γ as a number: 1/(d·variance of X's entries) for "scale", 1/d for "auto".

    A row counts in the variance as often as its weight says.
    """
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma != "scale":
            raise InputError(f"gamma={short(gamma)} must be 'scale', 'auto' or a number above 0")
        variance = entry_variance(X, sample_weight)
        value = 1.0 / (X.shape[1] * variance) if variance != 0.0 else 1.0
        if not math.isfinite(value) or value <= 0.0:
            raise InputError(
                f"gamma='scale' is {value} for X, whose entries have the variance {variance}; "
                "rescale X or pass gamma as a number"
            )
        return value
    require_positive_gamma(gamma)
    return float(gamma)


def entry_variance(X: Any, sample_weight: np.ndarray | None = None) -> float:
    """The variance of all entries of X, zeros included, in float64 and in blocks.

    E[(x − E[x])²] for dense X, E[x²] − E[x]² for sparse: as `SVC(gamma="scale")` has it. A row
    counts by its share, of which the mean is 1.
    """
    n, d = X.shape
    shares = np.ones(n) if sample_weight is None else sample_weight / sample_weight.mean()
    size = float(n) * d
    total = squares = 0.0
    if sp.issparse(X):
        X = X.tocsr()
        for part in row_blocks(n, max(1, X.nnz // n)):
            begin, end = X.indptr[part.start], X.indptr[part.stop]
            entries = X.data[begin:end].astype(np.float64, copy=False)
            counts = np.repeat(shares[part], np.diff(X.indptr[part.start : part.stop + 1]))
            with np.errstate(over="ignore"):
                total += float(counts @ entries)
                squares += float(np.einsum("i,i,i->", counts, entries, entries))
        return max(0.0, squares / size - (total / size) ** 2)
    parts = list(row_blocks(n, d))
    mean = sum(float(shares[p] @ X[p].sum(axis=1, dtype=np.float64)) for p in parts) / size
    buffer = np.empty((parts[0].stop, d))  # new memory for each block would take longer
    for part in parts:
        rows = part.stop - part.start
        offsets = np.subtract(X[part], mean, out=buffer[:rows], dtype=np.float64)
        with np.errstate(over="ignore"):
            squares += float(shares[part] @ np.einsum("ij,ij->i", offsets, offsets))
    return squares / size


def require_positive_gamma(gamma: Any) -> None:
    """Raise unless γ is a positive number."""
    wanted = "'scale', 'auto' or a number above 0"
    if not 0.0 < as_number("gamma", gamma, wanted) < math.inf:
        raise InputError(f"gamma={short(gamma)} must be {wanted}")


def require_polynomial(degree: Any, coef0: Any) -> None:
    """Raise unless (γt + coef0)^degree is positive semidefinite for every γ > 0."""
    as_count("degree", degree)
    if not 0.0 <= as_number("coef0", coef0, "a number of at least 0") < math.inf:
        raise InputError(
            f"coef0={short(coef0)} gives a polynomial that is not positive semidefinite; pass a "
            "number of at least 0"
        )


def require_parameters(*, gamma: Any, degree: Any, coef0: Any, cache_size: Any) -> None:
    """Raise unless the parameters are of the right kind, also those that a kernel does not use."""
    if not isinstance(gamma, str):
        require_positive_gamma(gamma)
    elif gamma not in ("scale", "auto"):
        raise InputError(f"gamma={short(gamma)} must be 'scale', 'auto' or a number above 0")
    as_count("degree", degree)
    if not math.isfinite(as_number("coef0", coef0, "a finite number")):
        raise InputError(f"coef0={short(coef0)} must be a finite number")
    wanted = "a positive, finite number of MB"
    if not 0.0 < as_number("cache_size", cache_size, wanted) < math.inf:
        raise InputError(f"cache_size={short(cache_size)} must be {wanted}")
