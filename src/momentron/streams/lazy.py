"""Functions of the rows of a Dask collection, not computed yet. Dask itself is not imported."""

from collections.abc import Callable
from typing import Any

import numpy as np


def lazily(function: Callable[[Any], Any], X: Any, n_outputs: int | None, dtype: Any) -> Any:
    """function of each partition of X, not computed yet: (n,), or (n, n_outputs)."""
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if n_outputs is None:
        meta = np.empty(0, dtype)
        return X.map_blocks(function, drop_axis=1, dtype=dtype, meta=meta)
    chunks = (X.chunks[0], (n_outputs,))
    return X.map_blocks(function, chunks=chunks, dtype=dtype, meta=np.empty((0, n_outputs), dtype))
