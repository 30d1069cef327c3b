"""Real data sets, from a folder, a cache, or the network."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from momentron.data.arguments import as_count
from momentron.data.files.svmlight import parse_svmlight
from momentron.data.safefiles import cache_dir
from momentron.datasets._fetch import FAILURES, Remote, fetch, fetch_cifar10
from momentron.datasets.synthetic import check_dtype
from momentron.errors import InputError, short

ENVIRONMENT = "MOMENTRON_DATA"

_CIFAR10_RECORD = 1 + 3 * 32 * 32
_BROKEN = (OSError, ValueError, EOFError, KeyError, zlib.error, lzma.LZMAError, struct.error)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_MNIST_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}


# --- file formats ---------------------------------------------------------------------------------


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
    """Read every training batch in the folder, and the test batch."""
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
    """Read a scipy.sparse npz and the labels next to it."""
    from scipy.sparse import load_npz

    with _reading(paths[0]):
        X = load_npz(paths[0]).tocsr()
    with _reading(paths[1]), open_compressed(paths[1]) as stream:
        y = np.lib.format.read_array(stream, allow_pickle=False).astype(np.int64)
    if X.shape[0] != len(y):
        raise InputError(f"{paths[0]} has {X.shape[0]} rows and {paths[1]} {len(y)} labels")
    return Raw(X, y, {int(label): str(label) for label in np.unique(y)})


# --- the sets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Set:
    """Where the files of a set lie under a data folder, how to read and how to get them.

    `files` may each carry .gz or .bz2. `read` takes their paths in that order. `obtain` says in
    words where a set without a sure address comes from.
    """

    files: tuple[str, ...]
    read: Callable[[list[Path]], Raw]
    remotes: tuple[Remote, ...] = ()
    download: Callable[[Path], None] | None = field(default=None)
    obtain: str = ""


def _svmlight(name: str, n_features: int, remote: str) -> _Set:
    suffix = ".bz2" if remote.endswith(".bz2") else ""
    file = f"libsvm/{name}"
    return _Set(
        (file,),
        lambda paths: read_svmlight(paths[0], n_features),
        (Remote((_LIBSVM + remote,), file + suffix),),
    )


def _genes(name: str) -> _Set:
    return _Set(
        (f"genes/{name}.npz",),
        lambda paths: read_genes(paths[0]),
        obtain=f"export '{name}' of the R package datamicroarray as an npz with keys X, y, classes",
    )


_SETS = {
    "mnist": _Set(
        tuple(f"mnist/{stem}" for stem in _MNIST_MD5),
        read_mnist,
        tuple(
            Remote(tuple(f"{m}{stem}.gz" for m in _MNIST_MIRRORS), f"mnist/{stem}.gz", md5)
            for stem, md5 in _MNIST_MD5.items()
        ),
    ),
    "cifar10": _Set(
        ("cifar10/data_batch_1.bin", "cifar10/test_batch.bin"),
        read_cifar10,
        download=fetch_cifar10,
    ),
    "a9a": _svmlight("a9a", 123, "binary/a9a"),
    "w8a": _svmlight("w8a", 300, "binary/w8a"),
    "mushrooms": _svmlight("mushrooms", 112, "binary/mushrooms"),
    "leu": _svmlight("leu", 7129, "binary/leu.bz2"),
    "colon-cancer": _svmlight("colon-cancer", 2000, "binary/colon-cancer.bz2"),
    "letter.scale": _svmlight("letter.scale", 16, "multiclass/letter.scale"),
    "sector.scale": _svmlight("sector.scale", 55197, "multiclass/sector/sector.scale.bz2"),
    "golub": _genes("golub"),
    "khan": _genes("khan"),
    "su": _genes("su"),
    "farm-ads": _Set(
        ("text/farm-ads.X.npz", "text/farm-ads.y.npy"),
        read_text,
        obtain="convert 'Farm Ads' of the UCI repository with scipy.sparse.save_npz and np.save",
    ),
}
_BUNDLED = {"digits": "load_digits", "breast-cancer": "load_breast_cancer", "iris": "load_iris"}

DATASETS: tuple[str, ...] = (*_BUNDLED, *_SETS)
"""The names that `load` knows."""


def load(
    name: str,
    *,
    subset: int | None = None,
    classes: Sequence[Any] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    dtype: DTypeLike = np.float64,
) -> Any:
    """Load a real data set by name.

    The files are looked for in `data_dir`, in the folder named by the environment variable
    MOMENTRON_DATA, and in the cache (``$XDG_CACHE_HOME/momentron``, else ``~/.cache/momentron``);
    failing that they are downloaded to the cache. All share one layout: `mnist/`, `cifar10/`,
    `libsvm/`, `genes/`, `text/`, each file plain or with .gz or .bz2.

    Parameters
    ----------
    name : str
        One of `DATASETS`. "digits", "breast-cancer" and "iris" come with scikit-learn.
    subset : int or None
        Keep this many training rows, evenly spaced over those of `classes` (files are often
        sorted by class, so the first rows would not do). At most the number there is.
    classes : sequence of labels or of class names, or None
        Keep only these classes, two at least.
    data_dir : path or None
        A folder to look in first.
    download : bool
        Allow the network.
    dtype : float64 or float32
        Type of X.

    Returns
    -------
    sklearn.utils.Bunch
        X (CSR for the LIBSVM sets and "farm-ads", else dense), y (int; −1 and 1 for LIBSVM
        sets of two classes), name, target_names
        (of the labels kept, in increasing order of label), and X_test, y_test for "mnist" and
        "cifar10". Pixels are divided by 255. "cifar10" has as many of the five training
        batches as the folder holds.

    Raises
    ------
    InputError
        For an unknown name or class, or a set that cannot be found or read.

    Examples
    --------
    >>> load("digits", classes=(0, 1)).X.shape
    (360, 64)
    """
    if name not in DATASETS:
        raise InputError(f"unknown data set {short(name)}; known: {', '.join(DATASETS)}")
    real = check_dtype(dtype)
    if subset is not None:
        as_count("subset", subset)
    raw = _read_bundled(name) if name in _BUNDLED else _read_files(name, data_dir, download)
    kept = _labels_kept(name, raw, classes)
    rows = _rows_kept(raw.y, kept if classes is not None else None)
    if subset is not None and subset < len(rows):
        rows = rows[np.arange(subset) * len(rows) // subset]
    from sklearn.utils import Bunch

    bunch = Bunch(
        X=raw.scaled(raw.X[rows], real),
        y=raw.y[rows],
        name=name,
        target_names=[raw.names[label] for label in kept],
    )
    if raw.X_test is not None and raw.y_test is not None:
        rows = _rows_kept(raw.y_test, kept if classes is not None else None)
        bunch.X_test, bunch.y_test = raw.scaled(raw.X_test[rows], real), raw.y_test[rows]
    return bunch


def _read_bundled(name: str) -> Raw:
    import sklearn.datasets

    data = getattr(sklearn.datasets, _BUNDLED[name])()
    names = {label: str(text) for label, text in enumerate(data.target_names)}
    return Raw(data.data, data.target.astype(np.int64), names)


def _read_files(name: str, data_dir: str | os.PathLike[str] | None, download: bool) -> Raw:
    source = _SETS[name]
    places = [Path(data_dir).expanduser()] if data_dir is not None else []
    if os.environ.get(ENVIRONMENT):
        places.append(Path(os.environ[ENVIRONMENT]).expanduser())
    places.append(cache_dir())
    paths = _find(source, places)
    if paths is None and download and (source.remotes or source.download):
        _get(name, source, places[-1])
        paths = _find(source, places[-1:])
    if paths is None:
        looked = ", ".join(str(place) for place in places)
        remedy = f"set {ENVIRONMENT} to a folder that holds {' and '.join(source.files)}"
        if source.obtain:
            remedy += f" ({source.obtain})"
        elif not download:
            remedy += ", or allow download=True"
        raise InputError(f"data set {short(name)} is in none of: {looked}; {remedy}")
    return source.read(paths)


def _find(source: _Set, places: list[Path]) -> list[Path] | None:
    """Return the files of a set from the first place that holds all of them."""
    for place in places:
        found = [compressed_variant(place / file) for file in source.files]
        paths = [path for path in found if path is not None]
        if len(paths) == len(found):
            return paths
    return None


def _get(name: str, source: _Set, cache: Path) -> None:
    try:
        for remote in source.remotes:
            fetch(remote, cache)
        if source.download is not None:
            source.download(cache)
    except FAILURES as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"data set {short(name)} could not be downloaded to {cache}: {reason}; set "
            f"{ENVIRONMENT} to a folder that holds {' and '.join(source.files)}"
        ) from error


def _labels_kept(name: str, raw: Raw, classes: Sequence[Any] | None) -> list[int]:
    """Return the sorted labels that `classes` names, by value or by class name."""
    present = [int(label) for label in np.unique(raw.y)]
    if classes is None:
        return present
    by_name = {raw.names[label]: label for label in present}
    kept = set()
    for wanted in [classes] if isinstance(classes, str) else classes:
        if isinstance(wanted, str):
            label = by_name.get(wanted)
        else:
            label = next((value for value in present if value == wanted), None)
        if label is None:
            known = ", ".join(str(value) for value in present)
            raise InputError(f"classes has {short(wanted)}; the labels of {name!r} are {known}")
        kept.add(label)
    if len(kept) < 2:
        raise InputError(f"classes has {len(kept)} distinct label; give at least 2")
    return sorted(kept)


def _rows_kept(y: NDArray[np.int64], labels: list[int] | None) -> NDArray[np.int64]:
    return np.arange(len(y)) if labels is None else np.flatnonzero(np.isin(y, labels))
