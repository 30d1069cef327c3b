"""The file formats of the real data sets."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from momentron.datafiles.svmlight import parse_svmlight
from momentron.errors import InputError

_CIFAR10_RECORD = 1 + 3 * 32 * 32
_BROKEN = (OSError, ValueError, EOFError, KeyError, zlib.error, lzma.LZMAError, struct.error)


@dataclass(frozen=True, eq=False)
class Raw:
    """A set as stored: pixels still bytes, so that rows can be chosen before they grow."""

    X: Any
    y: NDArray[np.int64]
    names: dict[int, str]
    X_test: Any = None
    y_test: NDArray[np.int64] | None = None

    def scaled(self, X: Any, dtype: np.dtype[Any]) -> Any:
        """Return rows in the user's type, bytes divided by 255."""
        if X.dtype == np.uint8:
            return np.divide(X, 255, dtype=dtype)
        return X.astype(dtype, copy=False)


def compressed_variant(path: Path) -> Path | None:
    """Return the path, or the path with .gz or .bz2, whichever exists."""
    for suffix in ("", ".gz", ".bz2"):
        candidate = path.with_name(path.name + suffix)
        if candidate.is_file():
            return candidate
    return None


def open_compressed(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed by its suffix."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    stream: IO[bytes] = opener(path, "rb")
    return stream


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (*_BROKEN, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read ({reason}); delete it and get it again") from error


def read_mnist(paths: list[Path]) -> Raw:
    """Read the four IDX files: training images and labels, test images and labels."""
    parts = [_read_idx(path) for path in paths]
    for i in (0, 2):
        if len(parts[i]) != len(parts[i + 1]):
            raise InputError(
                f"{paths[i]} has {len(parts[i])} images and {paths[i + 1]} {len(parts[i + 1])} "
                "labels; get both again"
            )
    images, labels, test_images, test_labels = parts
    return Raw(
        images.reshape(len(images), -1),
        labels.astype(np.int64),
        {digit: str(digit) for digit in range(10)},
        test_images.reshape(len(test_images), -1),
        test_labels.astype(np.int64),
    )


def _read_idx(path: Path) -> NDArray[np.uint8]:
    with _reading(path), open_compressed(path) as stream:
        zero, kind, n_dims = struct.unpack(">HBB", stream.read(4))
        if zero != 0 or kind != 8:
            raise ValueError("not an IDX file of bytes")
        shape = struct.unpack(f">{n_dims}I", stream.read(4 * n_dims))
        return np.frombuffer(stream.read(), dtype=np.uint8).reshape(shape)


def read_cifar10(paths: list[Path]) -> Raw:
    """Read every training batch beside the first one, and the test batch."""
    folder = paths[0].parent
    found = [compressed_variant(folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    train = np.concatenate([_read_batch(path) for path in found if path is not None])
    test = _read_batch(paths[1])
    names = {label: str(label) for label in range(10)}
    meta = folder / "batches.meta.txt"
    if meta.is_file():
        names.update(enumerate(meta.read_text(encoding="utf-8").split()))
    return Raw(
        train[:, 1:],
        train[:, 0].astype(np.int64),
        names,
        test[:, 1:],
        test[:, 0].astype(np.int64),
    )


def _read_batch(path: Path) -> NDArray[np.uint8]:
    with _reading(path), open_compressed(path) as stream:
        return np.frombuffer(stream.read(), dtype=np.uint8).reshape(-1, _CIFAR10_RECORD)


def read_svmlight(path: Path, n_features: int) -> Raw:
    """Read an svmlight file of integer labels with a known number of features."""
    with _reading(path), open_compressed(path) as stream:
        # The sets count features from 1; guessing would shift one whose first is always zero.
        X, y = parse_svmlight(stream.read(), n_features=n_features, zero_based=False)
    labels = y.astype(np.int64)
    if len(np.unique(labels)) == 2:  # one copy of mushrooms says 1 and 2, another −1 and 1
        labels = np.where(labels == labels.max(), 1, -1)
    return Raw(X, labels, {int(label): str(label) for label in np.unique(labels)})


def read_genes(path: Path) -> Raw:
    """Read an npz with keys X, y (0, 1, …) and classes (their names)."""
    with _reading(path), np.load(path, allow_pickle=False) as archive:
        names = dict(enumerate(str(text) for text in archive["classes"]))
        return Raw(archive["X"], archive["y"].astype(np.int64), names)


def read_text(paths: list[Path]) -> Raw:
    """Read a scipy.sparse npz and the labels beside it."""
    from scipy.sparse import load_npz

    with _reading(paths[0]):
        X = load_npz(paths[0]).tocsr()
    with _reading(paths[1]), open_compressed(paths[1]) as stream:
        y = np.lib.format.read_array(stream, allow_pickle=False).astype(np.int64)
    if X.shape[0] != len(y):
        raise InputError(f"{paths[0]} has {X.shape[0]} rows and {paths[1]} {len(y)} labels")
    return Raw(X, y, {int(label): str(label) for label in np.unique(y)})
