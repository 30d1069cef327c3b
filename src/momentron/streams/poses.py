"""What labels ask of scores: the constraints of one example, and the dual set of them all.

The constraints of a class against another, or of a class, or all of them, make an *arc*. All that
a dual set needs to know of the scores on an arc is their maximum, for the margin, and the
logarithm of the sum of their exponentials, for the weights. So the dual set of a stream is that of
a problem with one constraint an arc.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.circulations import Circulations
from momentron.dualsets import ClassBalanced, DualSet, Simplex
from momentron.losses import Exponential
from momentron.rounding import up

SIGNS = np.array([1.0, -1.0])  # −y of the two classes


@dataclass(frozen=True)
class Pose:
    """Two classes or many, with or without intercepts.

    Arcs are numbered 0 alone (no intercept); 0 for the second class and 1 for the first (two
    classes, z = −y x); or c·k + j from class c to class j.
    """

    n_classes: int
    fit_intercept: bool

    @property
    def is_paired(self) -> bool:
        """Whether there is a constraint for each example and wrong label."""
        return self.n_classes > 2

    @property
    def circulates(self) -> bool:
        return self.is_paired and self.fit_intercept

    @property
    def n_arcs(self) -> int:
        if not self.fit_intercept:
            return 1
        return self.n_classes**2 if self.is_paired else 2

    @property
    def n_sums(self) -> int:
        """How many weighted sums of rows, of d numbers each, one pass brings back."""
        return self.n_classes if self.is_paired else self.n_arcs

    @property
    def radius_factor(self) -> float:
        """max‖z‖ over max‖x‖, rounded up."""
        return up(float(np.sqrt(2.0))) if self.is_paired else 1.0

    @property
    def label_roundings(self) -> int:
        return self.n_classes if self.is_paired else 0

    @property
    def used(self) -> np.ndarray:
        """The numbers of the arcs that exist: none leads from a class to itself."""
        if not self.circulates:
            return np.arange(self.n_arcs)
        k = self.n_classes
        return np.flatnonzero(~np.eye(k, dtype=bool).ravel())

    def dual_set(self) -> DualSet:
        """The dual set with one constraint an arc."""
        if not self.fit_intercept:
            return Simplex(1, Exponential())
        if not self.is_paired:
            return ClassBalanced(np.array([1.0, -1.0]), Exponential())
        return Circulations(*np.divmod(self.used, self.n_classes), self.n_classes, Exponential())

    def arc_counts(self, counts: np.ndarray) -> np.ndarray:
        """How many constraints the arcs have, from the number of rows of each class."""
        k = self.n_classes
        if not self.fit_intercept:
            return np.array([counts.sum() * (k - 1 if self.is_paired else 1)])
        if not self.is_paired:
            return counts[::-1].copy()
        return np.repeat(counts, k)[self.used]

    def zeros(self, width: int) -> np.ndarray:
        """The classifier w = 0."""
        return np.zeros((width, self.n_classes) if self.is_paired else width)

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """A classifier as users see it, as one of ours."""
        return np.ascontiguousarray(coef.T) if self.is_paired else coef

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(w.T) if self.is_paired else w

    # --- the scores of examples --------------------------------------------------------------

    def scores(self, products: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Zw from Xw: one number an example, or k of them with −inf at its own class."""
        if not self.is_paired:
            return products * SIGNS[codes]
        rows = np.arange(codes.size)
        scores = products - products[rows, codes][:, None]
        scores[rows, codes] = -np.inf
        return scores

    def arcs_of(self, codes: np.ndarray) -> list[tuple[Any, Any, int | None]]:
        """(arcs, rows, class) for each set of rows whose constraints share arcs.

        `arcs` selects among all arcs: one of them, or the k that leave a class. Without an
        intercept rows of all classes share one, and no class is named.
        """
        if not self.fit_intercept:
            return [(0, slice(None), None)]
        k = self.n_classes
        found: list[tuple[Any, Any, int | None]] = []
        for code in range(k):
            rows = np.flatnonzero(codes == code)
            if rows.size:
                arcs = slice(code * k, (code + 1) * k) if self.is_paired else 1 - code
                found.append((arcs, rows, code))
        return found

    def mixed(self, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The coefficients whose product with Xᵀ is the sum of weighted constraints.

        A column for each sum that a pass brings back.
        """
        if self.is_paired:
            mixed = weights.copy()
            mixed[np.arange(codes.size), codes] = -weights.sum(axis=1)
            return mixed
        signed = np.where(codes == 1, -weights, weights)
        if not self.fit_intercept:
            return signed[:, None]
        return np.where(np.equal.outer(codes, [1, 0]), signed[:, None], 0.0)
