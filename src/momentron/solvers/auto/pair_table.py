"""Pairs (example, wrong label) as tables of shape (n, k): one column per class, zero at the own."""

import numpy as np


class PairTable:
    """The labels' part of the joint margin, on outputs F of shape (n, k).

    An example i of class c has k − 1 pairs (i, j), whose functional margins are F_ic − F_ij. Tables
    hold a number for every pair, and zero in column c of row i.
    """

    def __init__(self, labels: np.ndarray, n_classes: int) -> None:
        self.labels = labels
        self.n_classes = n_classes
        self._own = n_classes * np.arange(labels.size) + labels  # places in a flat table

    def some(self, index: np.ndarray) -> "PairTable":
        """The same for some of the examples."""
        return PairTable(self.labels[index], self.n_classes)

    def ones(self) -> np.ndarray:
        """One for every pair."""
        table = np.ones((self.labels.size, self.n_classes))
        table.reshape(-1)[self._own] = 0.0
        return table

    def margins(self, F: np.ndarray) -> np.ndarray:
        """F_ic − F_ij."""
        return F.take(self._own)[:, None] - F

    def mix(self, table: np.ndarray) -> np.ndarray:
        """Σ_j t_ij (e_c − e_j) in row i: the transpose of `margins`."""
        mixed = -table
        mixed.reshape(-1)[self._own] = table.sum(axis=1)
        return mixed

    def diagonal(self, active: np.ndarray) -> np.ndarray:
        """The diagonals of M_i = Σ_{j active} (e_c − e_j)(e_c − e_j)ᵀ, one row per example."""
        diagonal = active.astype(np.float64)  # or by their weights
        diagonal.reshape(-1)[self._own] = active.sum(axis=1)
        return diagonal
