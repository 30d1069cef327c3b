"""The data of a figure: two classes of MNIST, to train on and to test on."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from momentron.datasets import load
from momentron.problem import Problem

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

    Parameters
    ----------
    first, second : int
        The digits.
    rows : int, optional
        So many training rows, evenly spaced.
    shrink : int
        Average squares of so many pixels a side into one.
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
