"""The classifier by the nearest mean of a class: what there is where time is over at once."""

import numpy as np
import scipy.sparse as sp

from momentron.fitting.fallback.columns import sample
from momentron.rows import KernelOperator, MatrixOperator


def nearest_means(
    operator: MatrixOperator, codes: np.ndarray, n_classes: int, entries: int, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(W, b) of shapes (d, k) and (k,) from a sample of so many numbers; asks no clock."""
    n, d = operator.shape
    width = operator.X.nnz / n if operator.is_sparse else d
    index = sample(codes, max(int(entries / max(width, 1.0)), n_classes))
    rows, own = operator.some(index).X, codes[index]
    shares = sp.csr_array((1.0 / np.bincount(own)[own], (own, np.arange(own.size))))
    means = shares @ rows
    means = (means.toarray() if sp.issparse(means) else np.asarray(means)).T
    centre, squares = np.asarray(rows.mean(axis=0)), np.asarray((rows**2).mean(axis=0))
    # of columns that are not sparse the deviations are computed as such: nothing cancels
    if not fit_intercept:
        variances = squares
    elif sp.issparse(rows):
        variances = np.maximum(squares - centre**2, 0.0)
    else:
        variances = rows.var(axis=0)
    weights = np.divide(1.0, variances, out=np.zeros_like(variances), where=variances > 0.0)
    W = weights[:, None] * means
    return W, -0.5 * np.einsum("ij,ij->j", W, means) if fit_intercept else np.zeros(n_classes)


def nearest_images(
    operator: KernelOperator, codes: np.ndarray, n_classes: int, size: int, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The same in a kernel's feature space, from a sample of so many rows: (W, b), W[:, :, c].

    Scores are computed for the sample alone. The others are left at 0, and W[2] bounds them: a
    score is at most ‖w‖ √K_ii.
    """
    index = sample(codes, max(size, n_classes))
    K, own = operator.kernel.block(index, index), codes[index]
    means = (own[:, None] == np.arange(n_classes)) / np.bincount(own, minlength=n_classes)
    scores = K @ means
    squares = np.maximum(np.einsum("ij,ij->j", means, scores), 0.0)
    W = operator.zeros(n_classes)
    if squares.any():  # else the images are all zero, and so are the means
        W[0, index], W[1, index] = means, scores
        W[2] = np.outer(operator.row_norms, np.sqrt(squares))
        W[2, index] = 0.0
    return W, -0.5 * squares if fit_intercept else np.zeros(n_classes)
