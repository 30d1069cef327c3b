"""Symmetric kernels, computed on one side of the diagonal."""

import numpy as np

_ROWS = 512


def mirror(kernel: np.ndarray) -> None:
    """Copy what is above the diagonal to below it, in place."""
    n = kernel.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        kernel[stop:, start:stop] = kernel[start:stop, stop:].T
        corner = kernel[start:stop, start:stop]
        below = np.tril_indices(stop - start, -1)
        corner[below] = corner.T[below]
