"""Real data: sets from a folder, a cache, or the network, and small tables that are bundled."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import struct
import tarfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import load_npz
from sklearn.utils import Bunch

from momentron.data.arguments import as_count
from momentron.data.files.columns import chosen_labels
from momentron.data.files.formats import array_of, parse_svmlight
from momentron.data.safefiles import cache_dir, naming, unpacked, write_atomically
from momentron.datasets.synthetic import check_dtype
from momentron.errors import InputError, one_line, short

ENVIRONMENT = "MOMENTRON_DATA"

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_CIFAR10 = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
FAILURES = (OSError, ValueError, http.client.HTTPException, tarfile.TarError)
MD5 = {  # of the files for which it is known
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
}


# --- file formats ---------------------------------------------------------------------------------
#
# Each reader gives X, y and, where there are, the names of labels and rows for a test. Pixels are
# still bytes, so that rows can be chosen before they grow.


def read_mnist(paths: list[Path]) -> Bunch:
    """Read the four IDX files: training images and labels, test images and labels."""
    images, y, test_images, y_test = map(_read_idx, paths)
    X, X_test = (part.reshape(len(part), -1) for part in (images, test_images))
    return Bunch(X=X, y=y, X_test=X_test, y_test=y_test)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    content = unpacked(path)
    zero, kind, n_dims = struct.unpack_from(">HBB", content)
    if zero != 0 or kind != 8:
        raise ValueError("not an IDX file of bytes")
    shape = struct.unpack_from(f">{n_dims}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def read_cifar10(paths: list[Path]) -> Bunch:
    """Read every training batch in the folder, and the test batch: a label, then the pixels."""
    folder = paths[0].parent
    batches = _find([f"data_batch_{i}.bin" for i in range(1, 6)], folder)
    train, test = (
        np.frombuffer(b"".join(map(unpacked, files)), np.uint8).reshape(-1, 1 + 3 * 32 * 32)
        for files in (batches, paths[1:])
    )
    meta = folder / "batches.meta.txt"
    words = meta.read_text(encoding="utf-8").split() if meta.is_file() else []
    X, X_test = train[:, 1:], test[:, 1:]
    return Bunch(X=X, y=train[:, 0], names=dict(enumerate(words)), X_test=X_test, y_test=test[:, 0])


def read_svmlight(paths: list[Path], n_features: int) -> Bunch:
    """Read an svmlight file of integer labels with a known number of features."""
    # The sets count features from 1; guessing would shift one whose first is always zero.
    X, y = parse_svmlight(unpacked(paths[0]), n_features=n_features, zero_based=False)
    if len(np.unique(y)) == 2:  # one copy of mushrooms says 1 and 2, another −1 and 1
        y = np.where(y == y.max(), 1, -1)
    return Bunch(X=X, y=y)


def read_genes(paths: list[Path]) -> Bunch:
    """Read an npz with keys X, y (0, 1, …) and classes (their names)."""
    with np.load(paths[0], allow_pickle=False) as archive:
        names = dict(enumerate(map(str, archive["classes"])))
        return Bunch(X=archive["X"], y=archive["y"], names=names)


def read_text(paths: list[Path]) -> Bunch:
    """Read a scipy.sparse npz and the labels next to it."""
    return Bunch(X=load_npz(paths[0]).tocsr(), y=array_of(unpacked(paths[1])))


# --- the sets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Set:
    """Which files of a data folder a set has, how to read and how to get them.

    `files` are the mirrors of each; all may carry .gz or .bz2. `read` takes their paths in that
    order. `obtain` says in words where a set without a sure address comes from.
    """

    files: Mapping[str, Sequence[str]]
    read: Callable[[list[Path]], Bunch]
    obtain: str = ""


def _svmlight(remote: str, n_features: int) -> _Set:
    file = f"libsvm/{Path(remote).name}".removesuffix(".bz2")
    return _Set({file: [_LIBSVM + remote]}, partial(read_svmlight, n_features=n_features))


def _genes(name: str) -> _Set:
    words = f"export '{name}' of the R package datamicroarray as an npz with keys X, y, classes"
    return _Set({f"genes/{name}.npz": ()}, read_genes, words)


_MNIST_FILES = [
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
]
_SETS = {
    "mnist": _Set(
        {f"mnist/{file}": [f"{mirror}{file}.gz" for mirror in _MNIST] for file in _MNIST_FILES},
        read_mnist,
    ),
    "cifar10": _Set(
        {f"cifar10/{part}.bin": [_CIFAR10] for part in ("data_batch_1", "test_batch")}, read_cifar10
    ),
    "a9a": _svmlight("binary/a9a", 123),
    "w8a": _svmlight("binary/w8a", 300),
    "mushrooms": _svmlight("binary/mushrooms", 112),
    "leu": _svmlight("binary/leu.bz2", 7129),
    "colon-cancer": _svmlight("binary/colon-cancer.bz2", 2000),
    "letter.scale": _svmlight("multiclass/letter.scale", 16),
    "sector.scale": _svmlight("multiclass/sector/sector.scale.bz2", 55197),
    "golub": _genes("golub"),
    "khan": _genes("khan"),
    "su": _genes("su"),
    "farm-ads": _Set(
        {"text/farm-ads.X.npz": (), "text/farm-ads.y.npy": ()},
        read_text,
        "convert 'Farm Ads' of the UCI repository with scipy.sparse.save_npz and np.save",
    ),
}
_BUNDLED = {"digits": "load_digits", "breast-cancer": "load_breast_cancer", "iris": "load_iris"}

DATASETS: tuple[str, ...] = (*_BUNDLED, *_SETS)
"""The names that `load` accepts."""


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
        Keep at most this many training rows of `classes`, evenly spaced (files are often sorted by
        class, so the first rows would not do).
    classes : sequence of labels or of class names, or None
        Keep only these classes, at least two.
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
    dtype = check_dtype(dtype)
    if subset is not None:
        as_count("subset", subset)
    if name in _BUNDLED:
        import sklearn.datasets

        raw = getattr(sklearn.datasets, _BUNDLED[name])()
        raw = Bunch(X=raw.data, y=raw.target, names=dict(enumerate(map(str, raw.target_names))))
    else:
        raw = _read_files(name, data_dir, download)
    names, kept = raw.get("names", {}), np.unique(raw.y).astype(np.int64).tolist()
    if classes is not None:
        with naming(name):
            kept = chosen_labels(kept, classes, names)
    found = Bunch(name=name, target_names=[names.get(label, str(label)) for label in kept])
    for part in ("", "_test") if "y_test" in raw else ("",):
        X, y = raw[f"X{part}"], raw[f"y{part}"]
        rows = np.flatnonzero(np.isin(y, kept))
        if subset is not None and subset < len(rows) and not part:
            rows = rows[np.arange(subset) * len(rows) // subset]
        is_pixels, X = X.dtype == np.uint8, X[rows]
        found[f"X{part}"] = np.divide(X, 255, dtype=dtype) if is_pixels else X.astype(dtype)
        found[f"y{part}"] = y[rows].astype(np.int64)
    return found


def _read_files(name: str, data_dir: str | os.PathLike[str] | None, download: bool) -> Bunch:
    source, cache = _SETS[name], cache_dir()
    folders = (data_dir, os.environ.get(ENVIRONMENT), cache)
    places = [Path(folder).expanduser() for folder in folders if folder]
    remedy = f"set {ENVIRONMENT} to a folder that holds {' and '.join(source.files)}"
    listed = (_find(source.files, place) for place in places)
    paths = next((paths for paths in listed if len(paths) == len(source.files)), [])
    if not paths and download and not source.obtain:
        try:
            for file, urls in source.files.items():
                if not _find([file], cache):
                    fetch(urls, cache / file)
        except FAILURES as error:
            raise InputError(
                f"data set {short(name)} could not be downloaded to {cache}: {one_line(error)}; "
                f"{remedy}"
            ) from error
        paths = _find(source.files, cache)
    if len(paths) < len(source.files):
        if source.obtain:
            remedy += f" ({source.obtain})"
        elif not download:
            remedy += ", or allow download=True"
        looked = ", ".join(map(str, places))
        raise InputError(f"data set {short(name)} was not found in: {looked}; {remedy}")
    try:
        found = source.read(paths)
        for part in ("", "_test") if "y_test" in found else ("",):
            n_rows, n_labels = found[f"X{part}"].shape[0], len(found[f"y{part}"])
            if n_rows != n_labels:
                raise ValueError(f"{n_rows} rows, but {n_labels} labels")
        return found
    except Exception as error:  # a damaged file can raise anything
        shown = " or ".join(map(str, paths))
        raise InputError(
            f"{shown} cannot be read ({one_line(error)}); delete it and download it again"
        ) from error


def _find(files: Iterable[str], folder: Path) -> list[Path]:
    """Those of some files that a folder has, plain or packed."""
    packed = ([folder / f"{file}{suffix}" for suffix in ("", ".gz", ".bz2")] for file in files)
    found = (next(filter(Path.is_file, paths), None) for paths in packed)
    return [path for path in found if path is not None]


def fetch(urls: Sequence[str], path: Path) -> None:
    """Download a file from the first mirror that has it, packed or not, or in an archive.

    Raises one of FAILURES, the last mirror's; nothing is left behind under the final name.
    """
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=60.0) as answer:
                content: bytes = answer.read()  # which raises where less came than announced
            found = hashlib.md5(content, usedforsecurity=False).hexdigest()
            expected = MD5.get(url.rsplit("/", 1)[1], found)
            if found != expected:
                raise ValueError(f"{url} has MD5 {found}, not {expected}")
            break
        except FAILURES:
            if url == urls[-1]:
                raise
    packing = Path(url).suffix
    files = {path.name + packing * (packing in (".gz", ".bz2")): content}
    if url.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            # by base name, so that a member's own path cannot lead elsewhere
            files = {
                Path(member.name).name: stream.read()
                for member in tar.getmembers()
                if member.isfile() and (stream := tar.extractfile(member)) is not None
            }
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, reverse=True):  # data_batch_1 marks the set as complete
        write_atomically(path.with_name(name), files[name])


# --- published tables, from which statisticians know separation -----------------------------------

PUBLISHED = Path(__file__).parent / "published"
# name: what it is, and where it was published
TABLES: dict[str, str] = json.loads((PUBLISHED / "sources.json").read_text("utf-8"))


def table_path(name: str) -> Path:
    """The CSV file of a bundled table.

    >>> table_path("endometrial").name
    'endometrial.csv'
    """
    if name not in TABLES:
        raise InputError(f"there is no table {short(name)}; choose from: {', '.join(TABLES)}")
    return PUBLISHED / f"{name}.csv"
