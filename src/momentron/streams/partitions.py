"""The partitions of Dask collections: rows and their labels, cut at the same places.

Dask itself is imported only where a collection is there already.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from momentron.errors import InputError, short

Parts = list[tuple[Any, Any]]


def frame_parts(X: Any, y: Any) -> tuple[Parts, None]:
    """Partitions of a data frame, each with its labels; their sizes are unknown."""
    if isinstance(y, str):
        if y not in X.columns:
            raise InputError(f"X has no column {short(y)}; its columns are {list(X.columns)}")
        X, y = X.drop(columns=[y]), X[y]
    if not hasattr(y, "to_delayed"):
        raise InputError(
            f"y is {type(y).__name__}; for a Dask data frame it must be a Dask series with the "
            "same partitions, or the name of a column"
        )
    rows, labels = list(X.to_delayed()), list(np.ravel(y.to_delayed()))
    if len(rows) != len(labels):
        raise InputError(
            f"X has {len(rows)} partitions but y has {len(labels)}; they must agree, row by row"
        )
    return list(zip(rows, labels, strict=True)), None


def array_parts(X: Any, y: Any) -> tuple[Parts, tuple[int, ...] | None]:
    """Blocks of whole rows of X, each with its labels; and their sizes, if they are known."""
    import dask.array as da

    if X.ndim != 2:
        raise InputError(f"X has {X.ndim} dimensions; give 2, a row for each example")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if y is None:
        raise InputError("y is None; max_margin requires y to be passed: one label for each row")
    if hasattr(y, "to_dask_array"):
        y = y.to_dask_array(lengths=True)
    is_known = not any(math.isnan(size) for size in X.chunks[0])
    if not hasattr(y, "to_delayed"):
        y = np.asarray(y)
        if not is_known:
            raise InputError("X has chunks of unknown sizes: call X.compute_chunk_sizes() first")
        y = da.from_array(y, chunks=(X.chunks[0],)) if y.shape == X.shape[:1] else y
    if y.ndim != 1 or (is_known and y.shape[0] != X.shape[0]):
        raise InputError(f"X has shape {X.shape} but y has {y.shape}; they must agree")
    if is_known and y.chunks[0] != X.chunks[0]:
        y = y.rechunk((X.chunks[0],))
    if y.numblocks[0] != X.numblocks[0]:
        raise InputError(
            f"X has {X.numblocks[0]} blocks of rows but y has {y.numblocks[0]}; they must agree"
        )
    parts = list(zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True))
    return parts, X.chunks[0] if is_known else None


def places_of(X: Any, parts: Parts) -> list[Any]:
    """The keys of what is persisted of X, one per partition; or those of the partitions themselves.

    Work on a partition goes to the worker that holds the value behind this key.
    """
    keys: list[Any] = []
    with suppress(ImportError):
        from distributed.client import futures_of

        keys = [future.key for future in futures_of(X)]
    if len(keys) == len(parts) and all(isinstance(key, tuple) for key in keys):
        return sorted(keys, key=lambda key: key[1:])
    return [rows.key for rows, _ in parts]


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
