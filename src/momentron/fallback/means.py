"""The classifier by the nearest mean of a class: what there is where time is over at once."""

import numpy as np

from momentron.fallback.columns import sample
from momentron.operators import KernelOperator, MatrixOperator


def nearest_means(
    operator: MatrixOperator, codes: np.ndarray, n_classes: int, entries: int, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(W, b) of shapes (d, k) and (k,) from a sample of so many numbers; asks no clock."""
    index = sample(codes, max(entries // max(operator.shape[1], 1), n_classes))
    rows, own = operator.rows(index), codes[index]
    deviations = rows.std(axis=0) if fit_intercept else np.sqrt(np.mean(rows**2, axis=0))
    weights = np.divide(1.0, deviations**2, out=np.zeros_like(deviations), where=deviations > 0.0)
    means = np.stack([rows[own == c].mean(axis=0) for c in range(n_classes)], axis=1)
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
