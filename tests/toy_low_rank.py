"""A toy kind of rows, as CONTRIBUTING.md tells a reader to write one: X = A Bᵀ, never formed."""

import numpy as np

from momentron.rows import ComputedRows


class LowRank(ComputedRows):
    """The rows of A Bᵀ, for tables A of shape (n, r) and B of shape (d, r)."""

    def __init__(self, A, B):
        self.A, self.B = A, B
        self.shape = (A.shape[0], B.shape[0])

    def rows(self, index):
        total = np.zeros((index.size, self.shape[1]))
        for a, b in zip(self.A[index].T, self.B.T, strict=True):
            total += np.outer(a, b)  # in the same order for every row
        return total

    def times(self, w):
        return self.A @ (self.B.T @ w)

    def transposed_times(self, a):
        return self.B @ (self.A.T @ a)
