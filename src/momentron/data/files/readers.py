"""Read a user's data file: tables, svmlight, numpy and parquet.

Every failure is one line that names the file, and where it can the place and the column. Lines of
a text file count from 1, header included, as editors have it; rows of data and positions of columns
count from 0, as everywhere in momentron.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from momentron.data.files._common import (
    DataFile,
    exact_key,
    fail,
    require_file,
    some,
)
from momentron.data.files.arrays import read_npy, read_npz, read_parquet
from momentron.data.files.options import TableOptions, Target
from momentron.data.files.table import read_table
from momentron.data.files.text import read_svmlight, read_txt
from momentron.errors import InputError, one_line, short

_READERS: dict[str, Callable[[str, bytes, TableOptions], DataFile]] = {
    ".csv": read_table,
    ".tsv": lambda shown, content, options: read_table(shown, content, options, "\t"),
    ".svm": read_svmlight,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".txt": read_txt,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
}


def read_data(
    path: str | PathLike[str],
    *,
    target: Target = None,
    classes: Sequence[Any] | None = None,
    options: TableOptions | None = None,
) -> DataFile:
    """Read features and labels from a file, by its suffix.

    Parameters
    ----------
    path : path
        .csv, .tsv, .svm, .svmlight, .libsvm, .txt (svmlight if its first line looks so, else a
        table) or .npy, each also with .gz or .bz2; .npz (keys X and y, or CSR parts X_data,
        X_indices, X_indptr, X_shape and y); .parquet (needs pyarrow). Pickles are never loaded.
    target : str, int or None
        The label column of a table, by name or position (negative from the end). By default
        the only column called target, label, class or y, else the last one.
    classes : sequence of labels or None
        Keep only the rows with these labels, two at least; text and numbers match ("1" is 1).
    options : TableOptions or None
        What else is known of a table; `target` is put into it.

    Returns
    -------
    DataFile

    Raises
    ------
    InputError
        One line for any file that cannot be read as finite numbers with labels.

    Notes
    -----
    The first row of a table is a header if a feature column has text in it above something else,
    or nothing but text, or if its label cell reads target, label, class or y above numbers (or
    beside the names 0, 1, 2, …). Empty cells and markers such as NA do not count as text, so that a
    missing value in a first row is reported, not taken for a name. A first column without a heading
    has row names. TRUE and FALSE are 1 and 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = file.write_text("height,label\\n1.5,yes\\n0.5,no\\n")
    >>> read_data(file).y.tolist()
    ['yes', 'no']
    """
    shown = str(path)
    plain, content = open_file(path)
    reader = _READERS[plain]
    options = options or TableOptions()
    if target is not None:
        options = replace(options, target=target)
    try:
        data = reader(shown, content, options)
    except InputError:
        raise
    except Exception as error:  # a damaged file can raise anything inside its parser
        fail(shown, f"cannot be read as {plain}: {one_line(error)}", error)
    return data if classes is None else restrict(shown, data, classes)


def open_file(path: str | PathLike[str]) -> tuple[str, bytes]:
    """(suffix of a file that can be read, its content unpacked)."""
    shown = str(path)
    require_file(Path(path).expanduser(), shown)
    plain, packing = _split_suffix(Path(path))
    if plain not in _READERS or (packing and plain in (".npz", ".parquet")):
        known = ", ".join(sorted(_READERS))
        fail(shown, f"has suffix {plain + packing!r}; give one of {known} (text and .npy also .gz)")
    return plain, _content(shown, Path(path).expanduser(), packing)


def is_table(path: str | PathLike[str]) -> bool:
    """Whether a file has cells that may be missing: text, or parquet."""
    return _split_suffix(Path(path))[0] in (".csv", ".tsv", ".txt", ".parquet")


def _split_suffix(path: Path) -> tuple[str, str]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in (".gz", ".bz2"):
        return (suffixes[0] if len(suffixes) == 2 else ""), suffixes[-1]
    return (suffixes[-1] if suffixes else ""), ""


def _content(shown: str, path: Path, packing: str) -> bytes:
    try:
        content = path.read_bytes()
        unpack: Callable[[bytes], bytes] | None
        unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(packing)
        content = content if unpack is None or not content else unpack(content)
    except Exception as error:  # zlib.error, EOFError, OSError, ValueError: all mean the same
        fail(shown, f"cannot be read: {one_line(error)}; is it complete?", error)
    if not content.strip():
        fail(shown, "is empty; give at least one row")
    return content


def restrict(shown: str, data: DataFile, classes: Sequence[Any]) -> DataFile:
    """Keep the rows of the classes named."""
    if np.ndim(data.y) != 1:
        fail(shown, "has counts, not labels, so no --classes can be kept")
    present = np.unique(data.y)
    by_key = {exact_key(label): label for label in present}
    wanted = {
        exact_key(label): label for label in ([classes] if isinstance(classes, str) else classes)
    }
    for key, label in wanted.items():
        if key not in by_key:
            fail(shown, f"has no label {short(label)}; its labels: {some(present.tolist())}")
    if len(wanted) < 2:
        fail(shown, f"would keep {len(wanted)} class; give at least 2 of: {some(present.tolist())}")
    rows = np.isin(data.y, [by_key[key] for key in wanted])
    return data.rows(rows)
