"""The paths: each builds a problem that takes far longer than its budget, and names the call.

A builder returns call(max_time), with None for no budget. What it builds is not timed.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import momentron
from momentron import check_separability, max_margin

Call = Callable[[float | None], Any]


def _noise(n: int, d: int, classes: int = 2, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Random rows and random labels: no structure for a method to end early by."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d), dtype=dtype), rng.integers(0, classes, n)


def _taught(n: int, d: int, classes: int = 2, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Rows that a random linear classifier labels: separable, with hardly any margin."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=dtype)
    return X, (X @ rng.standard_normal((d, classes), dtype=dtype)).argmax(axis=1)


def _sparse(n: int, d: int, entries: int, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, d, (n, entries), dtype=np.int32).ravel()
    ends = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    X = sp.csr_array((rng.standard_normal(n * entries), columns, ends), shape=(n, d))
    X.sum_duplicates()
    return X, rng.integers(0, classes, n)


def _margin(make: Callable[[], tuple[Any, Any]], **options: Any) -> Callable[[], Call]:
    """max_margin on what `make` gives, to a tolerance that is out of reach."""

    def build() -> Call:
        X, y = make()
        return lambda max_time: max_margin(X, y, max_time=max_time, **_patient(options))

    return build


def _patient(options: dict[str, Any]) -> dict[str, Any]:
    """Without an end by iterations, or by a gap that is easily reached."""
    if options.get("method", "auto") != "auto":
        options = {"max_iter": 10**9, **options}
    return {"tol": 1e-12, **options}


def _gaussian(A: Any, B: Any) -> np.ndarray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)
    return np.exp(-0.02 * (squares - 2.0 * (A @ B.T)))


def _precomputed() -> tuple[Any, Any]:
    X, y = _noise(7000, 30)
    return _gaussian(X, X), y


def _npy(n: int, d: int, classes: int, **options: Any) -> Callable[[], Call]:
    def build() -> Call:
        X, y = _taught(n, d, classes)
        file = Path(tempfile.mkdtemp()) / "X.npy"
        np.save(file, X)
        return lambda max_time: max_margin(
            str(file), y, max_time=max_time, **_patient({"block_size": "4MB", **options})
        )

    return build


def _svmlight() -> Call:
    from sklearn.datasets import dump_svmlight_file

    X, y = _sparse(60_000, 5000, 20)
    file = Path(tempfile.mkdtemp()) / "X.svm"
    dump_svmlight_file(X, y, str(file), zero_based=False)
    return lambda max_time: max_margin(str(file), max_time=max_time, tol=1e-12, block_size="16MiB")


class SlowSource:
    """Blocks that take their time, as those of a network do."""

    def __len__(self) -> int:
        return 40

    def block(self, i: int) -> tuple[Any, Any]:
        time.sleep(0.2)
        rng = np.random.default_rng(i)
        X = rng.standard_normal((1000, 50))
        return X, (X @ np.arange(50.0) > 0.0).astype(int)


def _slow_source() -> Call:
    return lambda max_time: max_margin(SlowSource(), None, max_time=max_time, tol=1e-12)


def _dask() -> Call:
    import dask.array

    X, y = _taught(200_000, 100)
    blocks = dask.array.from_array(X, chunks=(5000, 100))
    labels = dask.array.from_array(y, chunks=5000)
    return lambda max_time: max_margin(blocks, labels, max_time=max_time, tol=1e-12)


def _check(make: Callable[[], tuple[Any, Any]]) -> Callable[[], Call]:
    def build() -> Call:
        X, y = make()
        return lambda max_time: check_separability(X, y, max_time=max_time)

    return build


def _nearly_separable(n: int, d: int) -> tuple[Any, Any]:
    """Integers that a plane labels, but for one row."""
    rng = np.random.default_rng(0)
    X = rng.integers(-50, 50, (n, d))
    y = (X @ rng.integers(-9, 9, d) > 0).astype(int)
    y[0] = 1 - y[0]
    return X.astype(float), y


def _linear_estimator() -> Call:
    X, y = _noise(6000, 4000)
    return lambda max_time: momentron.MaxMarginClassifier(
        C=np.inf, max_time=max_time, tol=1e-12
    ).fit(X, y)


def _kernel_estimator() -> Call:
    X, y = _noise(20_000, 50)
    return lambda max_time: momentron.KernelMaxMarginClassifier(
        C=np.inf, max_time=max_time, tol=1e-12
    ).fit(X, y)


PATHS: dict[str, Callable[[], Call]] = {
    "dense, noise": _margin(lambda: _noise(6000, 4000)),
    "dense, taught": _margin(lambda: _taught(200_000, 300)),
    "dense, few wide rows": _margin(lambda: _noise(4000, 12_000)),
    "dense, no intercept": _margin(lambda: _noise(7000, 4000), fit_intercept=False),
    "dense, float32": _margin(lambda: _noise(7000, 4000, dtype="float32")),
    "dense, soft": _margin(lambda: _noise(40_000, 2500), C=1.0),
    "dense, nearly hard": _margin(lambda: _noise(5000, 4000), C=1e6),
    "dense, momentum": _margin(lambda: _taught(100_000, 400), method="momentum"),
    "dense, adaptive": _margin(lambda: _taught(100_000, 400), method="adaptive"),
    "dense, gradient descent": _margin(lambda: _taught(100_000, 400), method="gradient-descent"),
    "dense, batch perceptron": _margin(lambda: _taught(100_000, 400), method="batch-perceptron"),
    "dense, normalized perceptron": _margin(
        lambda: _taught(100_000, 400), method="normalized-perceptron"
    ),
    "dense, dual Nesterov": _margin(lambda: _taught(100_000, 400), method="dual-nesterov"),
    "sparse": _margin(lambda: _sparse(60_000, 40_000, 40)),
    "sparse, narrow": _margin(lambda: _sparse(40_000, 2500, 40)),
    "sparse, soft": _margin(lambda: _sparse(60_000, 20_000, 40), C=1.0),
    "sparse, momentum": _margin(lambda: _sparse(100_000, 40_000, 40), method="momentum"),
    "10 classes": _margin(lambda: _noise(4000, 1500, 10)),
    "10 classes, no intercepts": _margin(lambda: _noise(4000, 1500, 10), fit_intercept=False),
    "10 classes, soft": _margin(lambda: _noise(4000, 500, 10), C=1.0),
    "10 classes, momentum": _margin(lambda: _taught(50_000, 400, 10), method="momentum"),
    "100 classes": _margin(lambda: _taught(20_000, 400, 100)),
    "100 classes, momentum": _margin(lambda: _taught(20_000, 400, 100), method="momentum"),
    "100 classes, adaptive": _margin(lambda: _taught(20_000, 400, 100), method="adaptive"),
    "100 classes, sparse and wide": _margin(lambda: _sparse(7000, 20_000, 100, 100)),
    "rbf": _margin(lambda: _noise(20_000, 50), kernel="rbf"),
    "rbf, soft": _margin(lambda: _noise(20_000, 50), kernel="rbf", C=1.0),
    "rbf, momentum": _margin(lambda: _noise(20_000, 50), kernel="rbf", method="momentum"),
    "rbf, adaptive": _margin(lambda: _noise(20_000, 50), kernel="rbf", method="adaptive"),
    "rbf, batch perceptron": _margin(
        lambda: _noise(20_000, 50), kernel="rbf", method="batch-perceptron"
    ),
    "rbf, 10 classes": _margin(lambda: _noise(8000, 50, 10), kernel="rbf"),
    "poly": _margin(lambda: _noise(20_000, 200), kernel="poly"),
    "laplacian": _margin(lambda: _noise(8000, 784), kernel="laplacian"),
    "precomputed": _margin(_precomputed, kernel="precomputed"),
    "callable": _margin(lambda: _noise(12_000, 30), kernel=_gaussian),
    "stream, npy": _npy(300_000, 100, 2),
    "stream, npy, momentum": _npy(300_000, 100, 2, method="momentum"),
    "stream, npy, 100 classes": _npy(60_000, 100, 100),
    "stream, array in blocks": _margin(lambda: _taught(300_000, 100), block_size="4MB"),
    "stream, svmlight": _svmlight,
    "stream, slow source": _slow_source,
    "stream, Dask": _dask,
    "check, 600 × 1,000": _check(lambda: _noise(600, 1000)),
    "check, 3,000 × 60, one row amiss": _check(lambda: _nearly_separable(3000, 60)),
    "check, 20,000 × 100, taught": _check(lambda: _taught(20_000, 100)),
    "check, 1,500 × 500": _check(lambda: _noise(1500, 500)),
    "estimator, linear": _linear_estimator,
    "estimator, kernel": _kernel_estimator,
}
