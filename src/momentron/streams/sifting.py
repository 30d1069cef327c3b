"""Rows without a weight, left out of blocks: all that weights change of a hard margin."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError
from momentron.result import MarginResult
from momentron.rows.validation import clean_matrix, clean_weights
from momentron.streams.api import as_stream, is_dask
from momentron.streams.partitions import aligned_arrays
from momentron.streams.source import Source
from momentron.streams.stream import DiskStream, Stream


@dataclass(frozen=True)
class SiftedStream:
    """A stream of the rows that have a weight, and their numbers where others have none."""

    stream: Stream
    n_given: int = 0
    kept: np.ndarray | None = None

    def numbered(self, result: MarginResult) -> MarginResult:
        """The result with numbers of rows as among all that were given."""
        if self.kept is None:
            return result
        return replace(result, support=self.kept[result.support], n_rows=self.n_given)


def sifted_stream(X: Any, y: Any, block_size: int | str | None, sample_weight: Any) -> SiftedStream:
    """What `as_stream` makes of the rows that have a weight."""
    if sample_weight is None:
        return SiftedStream(as_stream(X, y, block_size))
    if is_dask(X):
        return _sifted_collections(X, y, sample_weight)
    stream = as_stream(X, y, block_size)
    if not isinstance(stream, DiskStream):
        raise InputError("sample_weight is for data, not for a stream that is open already")
    sizes = _sizes(stream.source)
    weights = clean_weights(sample_weight, sum(sizes))
    assert weights is not None
    if weights.all():
        return SiftedStream(stream)
    source = SiftedSource(stream.source, sizes, weights > 0.0)
    return SiftedStream(DiskStream(source), weights.size, np.flatnonzero(weights))


def _sizes(source: Source) -> list[int]:
    """The rows of each block: as a source of ours knows them, else from a look at every block."""
    known = getattr(source, "block_sizes", None)
    if known is not None:
        return list(known())
    return [len(source.block(i)[1]) for i in range(len(source))]


class SiftedSource:
    """The blocks of a source without the rows that have no weight; none of them is empty.

    Parameters
    ----------
    source : Source
    sizes : list of int
        The rows of its blocks.
    is_kept : ndarray of bool, shape (n,)
    """

    def __init__(self, source: Source, sizes: list[int], is_kept: np.ndarray) -> None:
        self.source = source
        ends = np.cumsum(sizes)
        self._parts = [is_kept[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        self._numbers = [i for i, part in enumerate(self._parts) if part.any()]

    def __len__(self) -> int:
        return len(self._numbers)

    def block(self, i: int) -> tuple[Any, Any]:
        number = self._numbers[i]
        X, y = self.source.block(number)
        part, y = self._parts[number], np.asarray(y)
        if y.shape[:1] != part.shape:
            raise InputError(
                f"the source's block {number} has {len(y)} rows and had {part.size}; the data must "
                "not change while they are read"
            )
        if not (isinstance(X, np.ndarray) or sp.issparse(X)):
            X = clean_matrix(X)
        return X[part], y[part]


def _sifted_collections(X: Any, y: Any, sample_weight: Any) -> SiftedStream:
    """The same for Dask collections, whose weights are brought here: a number for each row."""
    from momentron.streams.dask import DaskStream

    computed = sample_weight.compute() if is_dask(sample_weight) else sample_weight
    is_frame = hasattr(X, "to_dask_array")
    if is_frame and not is_dask(sample_weight):
        raise InputError(
            "sample_weight must be a Dask series with the partitions of X for a Dask data frame"
        )
    n = len(np.asarray(computed)) if is_frame else int(X.shape[0])
    weights = clean_weights(computed, n)
    assert weights is not None
    if weights.all():
        return SiftedStream(DaskStream.from_collections(X, y))
    if is_frame:
        is_kept = sample_weight > 0.0
        y = y if isinstance(y, str) else y[is_kept]
        X = X[is_kept]
    else:
        X, y = _sifted_arrays(X, y, weights > 0.0)
    return SiftedStream(DaskStream.from_collections(X, y), n, np.flatnonzero(weights))


def _sifted_arrays(X: Any, y: Any, is_kept: np.ndarray) -> tuple[Any, Any]:
    import dask.array as da

    X, y = aligned_arrays(X, y)
    mask = da.from_array(is_kept, chunks=(X.chunks[0],))
    return X[mask], y[mask]
