"""Which source reads a file or a folder."""

from pathlib import Path
from typing import Any

from momentron.datafiles._common import require_file
from momentron.errors import InputError
from momentron.streams.source import BLOCK_BYTES, NpySource, Source
from momentron.streams.svmlight import SvmlightSource

SVMLIGHT = (".svm", ".svmlight", ".libsvm")


def open_file(path: str | Path, y: Any = None, block_size: int = BLOCK_BYTES) -> Source:
    """The source that a path names.

    Parameters
    ----------
    path : path
        A .npy file of rows; a .parquet file, or a folder of them; a file of svmlight text (.svm,
        .svmlight, .libsvm), which is parsed once to a temporary folder.
    y : optional
        The labels: an array, or the path of a .npy file, beside a .npy file of features; else the
        label column, by name or position. By default the column called target, label, class or y,
        or the last one. Svmlight has its labels in the text.
    block_size : int
        Bytes of a block.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        require_file(path)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".parquet":
        from momentron.streams.parquet import ParquetSource

        return ParquetSource(path, target=y, block_size=block_size)
    if suffix in SVMLIGHT:
        if y is not None:
            raise InputError(f"{path} takes no y ({y!r} given): svmlight has labels in the text")
        return SvmlightSource(path, block_size=block_size)
    if suffix != ".npy":
        raise InputError(
            f"{path} has suffix {suffix!r}; blocks are read from .npy, .parquet, a folder of "
            f".parquet files, {', '.join(SVMLIGHT)}, or an object with block(i)"
        )
    if isinstance(y, str) and not y.endswith(".npy"):
        try:
            y = int(y)
        except ValueError:
            raise InputError(
                f"y={y!r} is neither a .npy file nor a position; a .npy file has no column names"
            ) from None
    if isinstance(y, int):
        return NpySource(path, column=y, block_size=block_size)
    return NpySource(path, y, block_size=block_size)
