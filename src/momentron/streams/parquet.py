"""Parquet: one file, or a folder of them, a piece of a row group at a time."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError:
    raise ImportError('Parquet needs pyarrow: pip install "momentron[parquet]"') from None

from momentron.data.exactness.conversion import as_exact
from momentron.data.files import FeatureColumns, TableOptions
from momentron.data.files.columns import label_position
from momentron.data.safefiles import naming, require_file
from momentron.errors import InputError, short
from momentron.streams.source import BLOCK_BYTES

Piece = tuple[str, int, int]  # a file, one of its row groups, and the number of a batch of it


class ParquetSource:
    """The row groups of Parquet files, in the order of the files' names, split into blocks.

    Blocks of one row group are decoded one after another; reading them in another order, as
    workers of a cluster do, decodes the group from its start each time. Row groups of about a
    block, or files of one row group, serve best. Needs pyarrow.
    """

    def __init__(self, path: Path, target: Any = None, block_size: int = BLOCK_BYTES) -> None:
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} has no .parquet files; give a folder with some")
        self.names: list[str] = []
        self.pieces: list[Piece] = []
        for file in files:
            require_file(file)
            try:
                metadata = parquet.ParquetFile(file).metadata
            except Exception as error:  # a damaged file can raise anything inside its parser
                raise InputError(f"{file} cannot be read as Parquet: {error}") from error
            schema = metadata.schema.to_arrow_schema()
            if not self.names:
                self._read_schema(path, schema, target)
                self.rows = max(1, block_size // (len(self.features) * self.dtype.itemsize))
            elif schema.names != self.names:
                raise InputError(f"{file} and {files[0].name} differ in columns; they must agree")
            for group in range(metadata.num_row_groups):
                parts = math.ceil(metadata.row_group(group).num_rows / self.rows)
                self.pieces += [(str(file), group, part) for part in range(parts)]
        if not self.pieces:
            raise InputError(f"{path} has no rows; give at least one")
        self._cursor: tuple[Piece, Iterator[Any]] | None = None

    def _read_schema(self, path: Path, schema: Any, target: Any) -> None:
        self.names = list(schema.names)
        if len(self.names) < 2:
            raise InputError(f"{path} needs at least two columns: features and a label")
        with naming(path):
            column, _ = label_position(self.names, TableOptions(target=target))
        assert column is not None, "it is asked for"
        self.label = self.names[column]
        self.features = [name for name in self.names if name != self.label]
        self.columns = FeatureColumns(self.features, self.label)  # which a model keeps
        kinds = [schema.field(name).type for name in self.features]
        for name, kind in zip(self.features, kinds, strict=True):
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
                raise InputError(f"{path} column {short(name)}: {kind} is not a number; encode it")
        is_single = all(kind == pa.float32() for kind in kinds)
        self.dtype = np.dtype(np.float32 if is_single else np.float64)

    def __len__(self) -> int:
        return len(self.pieces)

    def block(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        batch = self._batch(self.pieces[i])
        for name in self.names:
            if batch.column(name).null_count:
                raise InputError(f"{self.pieces[i][0]} column {short(name)} has missing values")
        X = np.empty((batch.num_rows, len(self.features)), self.dtype)
        for j, name in enumerate(self.features):
            X[:, j] = as_exact(batch.column(name).to_numpy(zero_copy_only=False))
        y = batch.column(self.label).to_numpy(zero_copy_only=False)
        return X, y.astype(str) if y.dtype.kind == "O" else y

    def _batch(self, piece: Piece) -> Any:
        """The rows of a piece, going on from the last one where they are its neighbours."""
        path, group, part = piece
        if self._cursor is not None and self._cursor[0] == piece:
            batches = self._cursor[1]
        else:
            file = parquet.ParquetFile(path)
            batches = file.iter_batches(self.rows, row_groups=[group], use_threads=False)
            for _ in range(part):
                next(batches)
        batch = next(batches)
        self._cursor = (path, group, part + 1), batches
        return batch

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cursor": None}
