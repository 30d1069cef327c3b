"""Symmetric kernels, computed on one side of the diagonal."""

from typing import Any

import numpy as np

_ROWS = 512


def mirror(upper: Any, lower: Any = None) -> None:
    """Copy what is above the diagonal of one matrix to below that of another, or of the same.

    Both are arrays of numpy, or tensors of torch.
    """
    lower = upper if lower is None else lower
    n = upper.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        lower[stop:, start:stop] = upper[start:stop, stop:].T
        below = np.tri(stop - start, k=-1, dtype=bool)
        lower[start:stop, start:stop][below] = upper[start:stop, start:stop].T[below]
