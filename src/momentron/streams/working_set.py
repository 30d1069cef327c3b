"""The rows of a stream that are kept in memory, and the weights they carry."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.streams.blocks import in_float64, stack
from momentron.streams.poses import Pose
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
        return {"numbers": self.numbers, "codes": self.codes, "weights": self.weights}


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

    def adjoint(self, pose: Pose, dual: np.ndarray) -> np.ndarray:
        """Zᵀq of weights on these rows, in float64."""
        rows = np.flatnonzero(dual if dual.ndim == 1 else dual.any(axis=1))
        mixed = pose.mixed(dual[rows], self.codes[rows])
        vector = np.asarray(in_float64(self.X[rows]).T @ mixed)
        return vector if pose.is_paired else vector.sum(axis=1)

    def margins(self, pose: Pose, coef: np.ndarray, intercept: Any) -> np.ndarray:
        """y(x·w + b) of each row, or the least lead of its class over another."""
        products = np.asarray(self.X @ pose.from_coef(coef)) + intercept
        scores = pose.scores(products.astype(np.float64), self.codes)
        return -(scores.max(axis=1) if pose.is_paired else scores)

    # --- for checkpoints -------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"codes": self.codes, "numbers": self.numbers}
        if not sp.issparse(self.X):
            return arrays | {"X": self.X}
        parts = {"data": self.X.data, "indices": self.X.indices, "indptr": self.X.indptr}
        return arrays | parts | {"shape": np.array(self.X.shape)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "WorkingSet":
        X: Any
        if "X" in arrays:
            X = arrays["X"]
        else:
            parts = (arrays["data"], arrays["indices"], arrays["indptr"])
            X = sp.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
        return cls(X, arrays["codes"], arrays["numbers"])
