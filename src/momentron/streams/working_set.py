"""The rows of a stream that are kept in memory, and the weights they carry."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.certificate import certify
from momentron.checkpoint import unusable
from momentron.labels import Labels
from momentron.problem import Problem
from momentron.streams.blocks import Kept, stack
from momentron.streams.shortlist import Shortlist


@dataclass(frozen=True)
class SparseWeights:
    """Dual weights of some rows; every other row has weight zero.

    Attributes
    ----------
    numbers : ndarray of shape (m,)
        Which rows, counted over the whole stream.
    codes : ndarray of shape (m,)
        The classes of these rows.
    weights : ndarray of shape (m,), or (m, k)
    """

    numbers: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"numbers": self.numbers, "weights": self.weights}


@dataclass
class WorkingSet:
    """Rows X with their classes and their numbers in the stream."""

    X: Any
    codes: np.ndarray
    numbers: np.ndarray

    @property
    def size(self) -> int:
        return self.numbers.size

    @classmethod
    def from_shortlist(
        cls, shortlist: Shortlist, classes: np.ndarray | None = None
    ) -> "WorkingSet | None":
        """The rows of a shortlist, if any; its labels are classes, or else codes."""
        labels, numbers, X = shortlist.rows()
        if not labels:
            return None
        codes = np.array(labels)
        if classes is not None:
            codes = np.searchsorted(classes, codes)
        return cls(X, codes, numbers)

    def chosen(self, index: np.ndarray) -> "WorkingSet":
        return WorkingSet(self.X[index], self.codes[index], self.numbers[index])

    def joined(self, other: "WorkingSet") -> "WorkingSet":
        """These rows, then the others."""
        return WorkingSet(
            stack([self.X, other.X]),
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.numbers, other.numbers]),
        )

    def weights(self, dual: np.ndarray) -> SparseWeights:
        """The weights of the rows that have any above rounding level."""
        totals = dual if dual.ndim == 1 else dual.sum(axis=1)
        rows = np.flatnonzero(totals > 1e-12 * totals.max(initial=0.0))
        return SparseWeights(self.numbers[rows], self.codes[rows], dual[rows])

    def upper_bound(self, dual: np.ndarray, pose: Labels) -> float:
        """A sure upper bound of the best margin, from weights on these rows."""
        problem = Problem.from_data(self.X, self.codes, fit_intercept=pose.fit_intercept)
        q = problem.constraints.from_dual(dual)
        return certify(problem, problem.zeros(), q, sharp=True).upper

    def margins(self, pose: Labels, coef: np.ndarray, intercept: Any) -> np.ndarray:
        """y(x·w + b) of each row, or the least lead of its class over another."""
        products = np.asarray(self.X @ pose.from_coef(coef)) + intercept
        scores = pose.block_scores(products.astype(np.float64), self.codes)
        return -(scores.max(axis=1) if pose.is_paired else scores)

    # --- for checkpoints -------------------------------------------------------------------------

    @classmethod
    def from_rows(
        cls, kept: list[Kept], classes: np.ndarray, order: np.ndarray | None = None
    ) -> "WorkingSet | None":
        """The rows that a pass was asked to keep: all of them, or some in a given order."""
        if not kept:
            return None
        numbers = np.concatenate([part.numbers for part in kept])
        labels = np.concatenate([part.labels for part in kept])
        rows = np.argsort(numbers)
        if order is not None:
            rows = rows[np.searchsorted(numbers[rows], order)]
        codes = np.searchsorted(classes, labels)
        return cls(stack([part.X for part in kept]), codes, numbers).chosen(rows)

    def dual_from(self, arrays: dict[str, np.ndarray], pose: Labels) -> tuple[np.ndarray, float]:
        """Weights of these rows and the bound that was claimed for them, from a checkpoint."""
        numbers, weights, upper = (arrays.get(name) for name in ("numbers", "weights", "upper"))
        if numbers is None or weights is None or upper is None:
            raise unusable("it has no weights")
        numbers = row_numbers(numbers)
        dual = np.zeros((self.size, pose.n_classes) if pose.is_paired else self.size)
        is_real = weights.dtype.kind == "f" and upper.dtype.kind == "f" and upper.shape == ()
        if not is_real or weights.shape != (numbers.size, *dual.shape[1:]):
            raise unusable(f"its weights have shape {weights.shape} for {numbers.size} rows")
        if not (np.isfinite(weights).all() and (weights >= 0.0).all() and weights.any()):
            raise unusable("its weights are not all numbers of at least 0, or all of them are 0")
        dual[np.searchsorted(self.numbers, numbers)] = weights
        if pose.is_paired:
            dual[np.arange(self.size), self.codes] = 0.0  # no row weighs against its own class
        return dual, 0.0 if np.isnan(upper) else float(upper)


def row_numbers(numbers: np.ndarray) -> np.ndarray:
    """Numbers of rows that a checkpoint names, checked."""
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iu" and numbers.size > 0
    if not is_list or numbers.min() < 0 or np.unique(numbers).size < numbers.size:
        raise unusable("its rows are not numbered by different whole numbers of at least 0")
    return numbers.astype(np.int64)
