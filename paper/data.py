"""The data of all figures: samples, images, pools that nothing separates, and placed problems."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from momentron.api import max_margin
from momentron.datasets import load, make_separable
from momentron.errors import InputError
from momentron.solvers.problem import Problem
from momentron.status import Status

PIXELS = 28


def fingerprint_of(*arrays: np.ndarray) -> str:
    """A hash of every number in some arrays, their types and shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Sample:
    """X, y to train on, X_test, y_test to test on, and what to call them."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    title: str

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every number and label: other data have other results."""
        return fingerprint_of(self.X, self.y, self.X_test, self.y_test)

    @cached_property
    def radius(self) -> float:
        """R = max‖x_i‖, the unit in which the theorems hold."""
        return float(np.linalg.norm(self.X, axis=1).max())

    @cached_property
    def sparse(self) -> Any:
        """X without its zeros, which four pixels of five are: a pass takes a third of the time."""
        return csr_array(self.X)

    @cached_property
    def signed(self) -> Any:
        """The rows y x to train on, without zeros."""
        return csr_array(self._signs(self.y)[:, None] * self.X)

    @cached_property
    def _signed_test(self) -> Any:
        """The rows y x to test on."""
        return csr_array(self._signs(self.y_test)[:, None] * self.X_test)

    def _signs(self, labels: np.ndarray) -> np.ndarray:
        """1 for the second of the two classes, −1 for the first."""
        return np.where(labels == np.unique(self.y)[1], 1.0, -1.0)

    def problem(self) -> Problem:
        """The margin problem, without an intercept as in the paper."""
        return Problem.from_data(self.sparse, self.y, fit_intercept=False)

    def test_error(self, w: np.ndarray) -> float:
        """The share of test rows that w gets wrong; a tie is wrong."""
        return float(np.mean(self._signed_test @ w <= 0.0))


def mnist_pair(first: int, second: int, *, rows: int | None = None, shrink: int = 1) -> Sample:
    """Two digits of MNIST, from the folder MOMENTRON_DATA, the cache or the network.

    With `rows`, only that many training rows, evenly spaced; squares of `shrink` pixels per side
    are averaged into one.
    """
    mnist = load("mnist", classes=(first, second), subset=rows)
    X, X_test = shrink_images(mnist.X, shrink), shrink_images(mnist.X_test, shrink)
    title = f"MNIST {first}/{second}, {X.shape[0]:,} × {X.shape[1]}"
    return Sample(X, mnist.y, X_test, mnist.y_test, title)


def shrink_images(X: np.ndarray, factor: int) -> np.ndarray:
    """Rows of 28 × 28 pixels, averaged over squares of `factor` pixels a side."""
    if factor == 1:
        return X
    side = PIXELS // factor
    return X.reshape(-1, side, factor, side, factor).mean(axis=(2, 4)).reshape(len(X), -1)


IMAGE = (3, 32, 32)
POOL = 10_000
"""Images of the first training batch; further batches in the folder are not looked at."""
PINNED = "7b328caecebb16e384bfc9ac4340ef0c"
"""The fingerprint of pool and test images as they are used here."""


def cifar_pool() -> Sample:
    """The first training batch and all test images, as rows scaled from [0, 1] to [−1, 1].

    Files other than the published ones are refused: other images would give other results.
    """
    data = load("cifar10", dtype=np.float32)
    pool = pool_of(data.X[:POOL], data.y[:POOL], data.X_test, data.y_test)
    if pool.fingerprint != PINNED:
        raise InputError(
            "cifar10/data_batch_1.bin or test_batch.bin is not the published file (fingerprint "
            f"{pool.fingerprint}, expected {PINNED}); get the binary version of CIFAR-10 again"
        )
    return pool


def pool_of(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Sample:
    """Images in [0, 1] as the networks read them: less 0.5, over 0.5."""
    X, X_test = ((images - np.float32(0.5)) / np.float32(0.5) for images in (X, X_test))
    title = f"CIFAR-10, a pool of {len(X):,} images to draw from, {len(X_test):,} to test on"
    return Sample(X, y, X_test, y_test, title)


def draw(pool: Sample, seed: int, count: int, tests: int) -> Sample:
    """The images that a seed draws to train on, and some test images, evenly spaced.

    The same seed draws the same images in every cell of the grid.
    """
    rows = np.random.default_rng(seed).choice(len(pool.y), count, replace=False)
    rows.sort()
    kept = np.arange(tests) * pool.y_test.size // tests
    title = f"CIFAR-10, {count} images drawn by seed {seed}, {tests:,} to test on"
    return Sample(pool.X[rows], pool.y[rows], pool.X_test[kept], pool.y_test[kept], title)


SPARSE = 0.4
"""Data with a smaller share of entries that are not zero are kept without the zeros."""
VEHICLES = (0, 1, 8, 9)
"""Aeroplane, automobile, ship and truck, among the labels of CIFAR-10."""
TRAIN, VALIDATION = 0.6, 0.2
"""Shares of the rows to train and to validate on; the others are to test on."""


@dataclass(frozen=True)
class Pool:
    """Rows with a constant feature, the longest of length 1, and labels −1 and 1.

    The constant, as long as a row is on average (root mean square), stands in for an intercept:
    Algorithm 1 and the soft margin then search the same weights with the same norm.
    """

    slug: str
    title: str
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)

    @classmethod
    def from_rows(cls, slug: str, title: str, X: Any, y: np.ndarray) -> "Pool":
        """Add the constant and scale the rows."""
        dense = np.asarray(X.toarray() if issparse(X) else X, np.float64)
        constant = np.sqrt(np.mean(np.sum(dense**2, axis=1)))
        rows = np.column_stack([dense, np.full(len(dense), constant)])
        rows /= np.linalg.norm(rows, axis=1).max()
        return cls(slug, title, rows, np.where(y == np.unique(y)[1], 1, -1))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every number and label."""
        return fingerprint_of(self.X, self.y)

    def split(self, seed: int) -> list[np.ndarray]:
        """The rows to train, to validate and to test on, in an order that the seed draws."""
        order, n = np.random.default_rng(seed).permutation(self.y.size), self.y.size
        return np.split(order, [round(TRAIN * n), round((TRAIN + VALIDATION) * n)])

    def rows(self, index: np.ndarray) -> Any:
        """Some rows, without zeros where these are many."""
        is_sparse = np.count_nonzero(self.X) < SPARSE * self.X.size
        return csr_array(self.X[index]) if is_sparse else self.X[index]

    def errors(self, weights: np.ndarray, index: np.ndarray) -> np.ndarray:
        """For each row of `weights`, the share of these rows that it gets wrong; a tie is wrong."""
        wrong = (self.X[index] @ weights.T) * self.y[index, None] <= 0.0
        found: np.ndarray = wrong.mean(axis=0)
        return found


def adults(rows: int) -> Pool:
    """a9a: who earns more than 50,000 dollars a year."""
    data = load("a9a", subset=rows)
    return Pool.from_rows("a9a", "a9a", data.X, data.y)


def pages(rows: int) -> Pool:
    """w8a: web pages of one category, 3 % of all."""
    data = load("w8a", subset=rows)
    return Pool.from_rows("w8a", "w8a", data.X, data.y)


def letters(rows: int) -> Pool:
    """The first half of the alphabet against the second."""
    data = load("letter.scale", subset=rows)
    return Pool.from_rows("letter", "letters A–M/N–Z", data.X, data.y > 13)


def digits(rows: int) -> Pool:
    """MNIST 3 and 5, the paper's own, in 14 × 14 pixels: half of the rows in 28 × 28 separate."""
    data = load("mnist", classes=(3, 5), subset=rows)
    return Pool.from_rows("mnist", "MNIST 3/5, 14 × 14", shrink_images(data.X, 2), data.y)


def animals(rows: int) -> Pool:
    """CIFAR-10, animals against vehicles, in 8 × 8 pixels of three colours.

    Half of the rows are the first of the first training batch, the same however many batches there
    are; the others come from the test rows.
    """
    data, half = load("cifar10"), rows // 2
    X = np.concatenate([data.X[:half], data.X_test[: rows - half]])
    y = np.concatenate([data.y[:half], data.y_test[: rows - half]])
    small = X.reshape(-1, 3, 8, 4, 8, 4).mean(axis=(3, 5)).reshape(len(X), -1)
    return Pool.from_rows("cifar", "CIFAR-10 animals/vehicles", small, ~np.isin(y, VEHICLES))


FEATURES, SUPPORT = 20, 10
TOL = 1e-10
ROUNDING = 1e-12
"""Rounding the rows moves a best margin by less, relative to it."""


@dataclass(frozen=True)
class Drawn:
    """Rows and labels, and their best margin in the units of X."""

    X: np.ndarray
    y: np.ndarray
    best: float
    width: float  # that of the interval in which the best margin is known to lie

    @cached_property
    def radius(self) -> float:
        """R = max‖x_i‖."""
        return float(np.linalg.norm(self.X, axis=1).max())

    def problem(self) -> Problem:
        """The margin problem, without an intercept as in the paper."""
        return Problem.from_data(self.X, self.y, fit_intercept=False)


class Placed:
    """n rows placed so that the best margin is known."""

    def __init__(self, n: int, margin: float) -> None:
        self.n, self.margin = n, margin
        self.label = f"n = {n:,}, γ̄ = {margin:g}"
        self.slug = f"n{n}-margin{margin:g}"  # for names of files
        self.weight = 1.0 + n / 1000.0  # cost of an iteration, relative to those of other sources

    def draw(self, seed: int) -> Drawn:
        """The problem of a seed."""
        made = make_separable(
            self.n, FEATURES, n_support=SUPPORT, margin=self.margin, random_state=seed
        )
        return Drawn(made.X, made.y, made.margin, ROUNDING * made.margin)

    def parameters(self) -> dict[str, Any]:
        """All that a draw depends on besides the seed."""
        return {"n": self.n, "margin": self.margin, "features": FEATURES, "support": SUPPORT}


class Rows:
    """Some rows of real data, drawn by the seed, with the attributes of `Placed`.

    `auto` certifies their best margin.
    """

    margin = None  # not chosen

    def __init__(self, sample: Sample, name: str, n: int) -> None:
        self._sample, self.n = sample, n
        self.label = f"{name}, n = {n:,}"
        self.slug = f"rows{n}"
        self.weight = 1.0 + n * sample.X.shape[1] / 100_000.0

    def draw(self, seed: int) -> Drawn:
        chosen = np.random.default_rng(seed).choice(self._sample.y.size, self.n, replace=False)
        X, y = self._sample.X[chosen], self._sample.y[chosen]
        found = max_margin(X, y, fit_intercept=False, tol=TOL)
        require_end(found.status)
        return Drawn(X, y, 0.5 * (found.lower + found.upper), found.upper - found.lower)

    def parameters(self) -> dict[str, Any]:
        return {"rows": self.n, "of": self._sample.fingerprint, "tol": TOL}


Source = Placed | Rows
"""A kind of problem."""


def require_end(status: Status) -> None:
    """Raise an interrupt again that the loop has turned into a result: half a curve is none."""
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
