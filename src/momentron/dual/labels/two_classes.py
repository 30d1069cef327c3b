"""Two classes: z_i = −y_i x_i."""

from typing import Any

import numpy as np

from momentron.certificate import read_only
from momentron.dual.dualsets import ClassBalanced, DualSet, Simplex
from momentron.dual.labels.base import NO_CODES, Labels
from momentron.dual.losses import Loss
from momentron.errors import InputError

MINUS_SIGNS = np.array([1.0, -1.0])  # −y of the two classes


class TwoClasses(Labels):
    """One constraint per example, z_i = −y_i x_i; a classifier is one vector w.

    Attributes
    ----------
    signs : ndarray of shape (n,)
        y_i = ±1 as float64: 1 for the second class.
    """

    is_paired = False
    n_outputs = 1
    trailing = ()
    per_example = 1
    radius_factor = 1.0
    roundings = 0

    def __init__(self, n_classes: int, fit_intercept: bool, codes: np.ndarray = NO_CODES) -> None:
        super().__init__(n_classes, fit_intercept, codes)
        self.signs = read_only(np.where(codes == 1, 1.0, -1.0))
        self._minus_signs = -self.signs

    def scores(self, products: np.ndarray) -> np.ndarray:
        return self._minus_signs * products

    def mix(self, q: np.ndarray) -> np.ndarray:
        return self._minus_signs * q

    def row_norms(self, norms: np.ndarray) -> np.ndarray:
        return norms

    def dual_set(self, loss: Loss) -> DualSet:
        if not self.fit_intercept:
            return Simplex(self.size, loss)
        dual_set = ClassBalanced(self.signs, loss)
        for name, rows in zip(("+1", "−1"), dual_set.classes, strict=True):
            if rows.size == 0:
                raise InputError(f"class {name} has 0 rows; an intercept needs at least 1 of each")
        return dual_set

    def examples(self, index: np.ndarray) -> np.ndarray:
        return index

    def scores_at(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        return self._minus_signs[index] * products

    def mix_at(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return index, self._minus_signs[index] * weight

    def output_signs(self, index: np.ndarray | slice) -> np.ndarray:
        return self.signs[index][:, None]

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return w

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return coef

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        return q

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        return dual[: self.size]

    def all_intercepts(self, b: np.ndarray) -> Any:
        return b[0] if b.size else 0.0

    def free_intercepts(self, b: Any) -> np.ndarray:
        return np.atleast_1d(b) if self.fit_intercept else np.zeros(0)

    def block_scores(self, products: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return products * MINUS_SIGNS[codes]

    def block_mix(self, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        signed = np.where(codes == 1, -weights, weights)
        if not self.fit_intercept:
            return signed[:, None]
        return np.where(np.equal.outer(codes, [1, 0]), signed[:, None], 0.0)

    @property
    def n_arcs(self) -> int:
        return 2 if self.fit_intercept else 1

    @property
    def arcs(self) -> np.ndarray:
        return np.arange(self.n_arcs)

    @property
    def n_sums(self) -> int:
        return self.n_arcs

    def arc_counts(self, counts: np.ndarray) -> np.ndarray:
        return counts[::-1].copy() if self.fit_intercept else np.array([counts.sum()])

    def _arcs_from(self, code: int) -> int | slice:
        return 1 - code

    def _one_per_class(self) -> np.ndarray:
        return np.array([1, 0])
