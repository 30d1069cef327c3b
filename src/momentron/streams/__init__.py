"""Data larger than memory, or on a cluster: the same problems, a block of rows at a time.

`max_margin` takes a path, a `Source` or a Dask collection; what is here is for those who bring
their own store of data, or want a stream for itself.
"""

from momentron.data.arguments import parse_size
from momentron.streams.block_fits import BlockData, as_stream, open_file
from momentron.streams.source import ArraySource, NpySource, Source
from momentron.streams.stream import BlockError, DiskStream, Stream

__all__ = [
    "ArraySource",
    "BlockData",
    "BlockError",
    "DiskStream",
    "NpySource",
    "Source",
    "Stream",
    "as_stream",
    "open_file",
    "parse_size",
]
