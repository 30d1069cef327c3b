"""Two classes: z_i = −y_i x_i."""

import numpy as np

from momentron.constraints.base import Constraints
from momentron.operators import Operator


class SignedRows(Constraints):
    """One row of Z an example, z_i = −y_i x_i; a classifier is one vector w.

    Parameters
    ----------
    operator : Operator
    signs : ndarray of shape (n,)
        y_i = ±1 as float64.
    """

    radius_factor = 1.0
    label_roundings = 0
    n_classes = 2

    def __init__(self, operator: Operator, signs: np.ndarray) -> None:
        self.operator = operator
        self.signs = signs
        self._minus_signs = -signs
        self.size = signs.size
        self._set_norms(operator.row_norms)

    @property
    def codes(self) -> np.ndarray:
        return (self.signs > 0.0).astype(int)

    def zeros(self) -> np.ndarray:
        return self.operator.zeros()

    def from_products(self, products: np.ndarray) -> np.ndarray:
        return self._minus_signs * products

    def some_from_products(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        return self._minus_signs[index] * products

    def examples(self, index: np.ndarray) -> np.ndarray:
        return index

    def mix(self, q: np.ndarray) -> np.ndarray:
        return self._minus_signs * q

    def mix_some(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return index, self._minus_signs[index] * weight

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return self.operator.coefficients(w)

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return self.operator.from_coefficients(coef)

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        return q

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        return dual[: self.size]

    def adjoint_norm_bound(
        self, q: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        return self.operator.adjoint_norm_bound(self.mix(q), weighted_norms, sharp=sharp)
