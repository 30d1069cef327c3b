"""Weights of all the rows of a kernel, with the scores that they give: what solvers move."""

import numpy as np

from momentron.rows import KernelOperator
from momentron.solvers.auto import selection
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_sets import WorkingSets


class KernelPoint:
    """Weights α, intercepts b, the scores Σ α_j y_j K_ij, and the margins p = y·scores + Yb.

    Attributes
    ----------
    is_rough : bool
        Whether changes of scores are computed in single precision.
    is_settled : bool
        Whether no score has been changed in single precision since they were last made anew.
    """

    def __init__(self, sets: WorkingSets, settings: AutoSettings) -> None:
        assert sets.kernel is not None
        self.kernel, self.settings, self.deadline = sets.kernel, settings, sets.deadline
        self.codes = sets.labels.codes
        self.y, self.Y = sets.signs(slice(None)), sets.dual_set.columns
        self.squares = self.kernel.kernel.diagonal()
        self.scale = max(float(self.squares.mean()), 1e-300)
        n = self.y.size
        self.alpha, self.b = np.zeros(n), np.zeros(self.Y.shape[1])
        self.scores, self.p = np.zeros(n), np.zeros(n)
        self.is_rough = self.kernel.is_rough
        self.is_settled = True

    def move_to(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Take these weights: a column for each that has changed."""
        changed = np.flatnonzero(alpha != self.alpha)
        if changed.size:
            by = self.y[changed] * (alpha - self.alpha)[changed]
            self.scores += self.product(changed, by)
            self.is_settled = not self.is_rough
        self.place(alpha, b)

    def place(self, alpha: np.ndarray, b: np.ndarray) -> None:
        """Take weights whose scores are there."""
        self.alpha, self.b = alpha, b
        self.p = self.y * self.scores + self.Y @ b

    def settle(self) -> None:
        """Scores anew, in double precision where they count.

        What single precision adds to them from here on is wrong by a share of the change alone.
        """
        self.is_settled = True
        weighed = np.flatnonzero(self.alpha)
        w = self.kernel.rough_combine(weighed, (self.y * self.alpha)[weighed])
        w = self.kernel.recomputed(w)
        least = self.y * w[1] + self.Y @ self.b - w[2]
        self.scores = self.kernel.partly_exact(w, np.flatnonzero(least < 1.01))[1]
        self.p = self.y * self.scores + self.Y @ self.b

    def classifier(self) -> np.ndarray:
        """w as the kernel has it."""
        return KernelOperator.classifier(self.y * self.alpha, self.scores)

    def product(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, rows] @ a; in single precision, where that is had and good enough."""
        kernel = self.kernel
        return kernel.rough_product(rows, a) if self.is_rough else kernel.along(rows, a)[2]

    def signed_block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """y_i y_j K_ij in float64."""
        K = self.kernel.block(rows, columns)
        K *= self.y[columns]
        K *= self.y[rows][:, None]
        return K

    def some_rows(self, rng: np.random.Generator) -> np.ndarray:
        """A sample of the rows, no larger than memory has room for their columns."""
        n = self.y.size
        room = max(16, self.kernel.cache_bytes // 4 // (16 * n))
        return selection.sample(self.codes, min(self.settings.landmarks, n // 2, room), rng)
