"""Real data that no hyperplane separates, split into rows to train, to validate and to test on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from momentron.datasets import load
from paper.sample import fingerprint_of, shrink_images

SPARSE = 0.4
"""Data with a smaller share of entries that are not zero are kept without the zeros."""
VEHICLES = (0, 1, 8, 9)
"""Aeroplane, automobile, ship and truck, among the labels of CIFAR-10."""
TRAIN, VALIDATION = 0.6, 0.2
"""Shares of the rows to train and to validate on; the others are to test on."""


@dataclass(frozen=True)
class Split:
    """Positions of rows to train, to validate and to test on."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Pool:
    """Rows with a constant feature, the longest of length 1, and labels −1 and 1.

    The constant, as long as a row is on average (root mean square), stands in for an intercept:
    Algorithm 1 and the soft margin then search the same weights with the same norm.

    Attributes
    ----------
    slug, title : str
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    """

    slug: str
    title: str
    X: np.ndarray
    y: np.ndarray

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

    def split(self, seed: int) -> Split:
        """The rows in an order that the seed draws, cut into three."""
        order, n = np.random.default_rng(seed).permutation(self.y.size), self.y.size
        cuts = [round(TRAIN * n), round((TRAIN + VALIDATION) * n)]
        train, validation, test = np.split(order, cuts)
        return Split(train, validation, test)

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
