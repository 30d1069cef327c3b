"""Many classes: one constraint for each example and each wrong label, by implicit reduction."""

import math

import numpy as np

from momentron.constraints.base import Constraints
from momentron.operators import Operator
from momentron.rounding import up


class LabelPairs(Constraints):
    """z_(i,j) = x_i (e_j − e_c)ᵀ for every example i, of class c, and every other class j.

    A classifier is a matrix W of shape (d, k); its scores are F_ij − F_ic with F = XW, so that the
    margin is min_(i,j) (F_ic − F_ij)/‖W‖, the joint margin of the paper's section 5.2. Neither a
    row of length d·k nor Z is ever built. Pairs are numbered row by row: example i has the k − 1
    pairs from i(k − 1) on, in the order of the classes without its own.

    Parameters
    ----------
    operator : Operator
    labels : ndarray of shape (n,)
        The class c of each example, in 0..k−1.
    n_classes : int
    """

    radius_factor = up(math.sqrt(2.0))

    def __init__(self, operator: Operator, labels: np.ndarray, n_classes: int) -> None:
        self.operator = operator
        self.labels = labels
        self.n_classes = n_classes
        n, others = labels.size, n_classes - 1
        self.size = n * others
        wrong = np.arange(others)[None, :]
        # the class of each pair: the numbers from the example's own class on move up by one
        self._others = wrong + (wrong >= labels[:, None])
        self._own = labels[:, None]
        # places in the flat (n, k) array of outputs: np.take is three times as fast with these
        starts = n_classes * np.arange(n)
        self._flat_others = (self._others + starts[:, None]).ravel()
        self._flat_own = labels + starts
        bounds = operator.row_norms * self.radius_factor * (1.0 + 2.0**-52)
        self._set_norms(np.repeat(bounds, others))

    @property
    def codes(self) -> np.ndarray:
        return self.labels

    @property
    def label_roundings(self) -> int:
        return self.n_classes

    @property
    def pair_classes(self) -> tuple[np.ndarray, np.ndarray]:
        """(c, j) of every pair."""
        return np.repeat(self.labels, self.n_classes - 1), self._others.ravel()

    def zeros(self) -> np.ndarray:
        return self.operator.zeros(self.n_classes)

    def from_products(self, products: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(products).ravel()
        scores = flat.take(self._flat_others).reshape(self._others.shape)
        scores -= flat.take(self._flat_own)[:, None]
        return scores.ravel()

    def some_from_products(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        place = np.arange(index.size)
        own, other = self.classes_of(index)
        return products[place, other] - products[place, own]

    def examples(self, index: np.ndarray) -> np.ndarray:
        return index // (self.n_classes - 1)

    def classes_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(c, j) of the named pairs."""
        own = self.labels[self.examples(index)]
        wrong = index % (self.n_classes - 1)
        return own, wrong + (wrong >= own)

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.operator.coefficients(w).T)

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return self.operator.from_coefficients(np.ascontiguousarray(coef.T))

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        table = np.zeros((self.labels.size, self.n_classes), q.dtype)
        np.put_along_axis(table, self._others, q.reshape(self._others.shape), axis=1)
        return table

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        rows = dual[: self.labels.size]
        return np.take_along_axis(rows, self._others[: rows.shape[0]], axis=1).ravel()

    def mix(self, q: np.ndarray) -> np.ndarray:
        weights = q.reshape(self.labels.size, self.n_classes - 1)
        mixed = np.zeros((self.labels.size, self.n_classes), q.dtype)
        np.put_along_axis(mixed, self._others, weights, axis=1)
        np.put_along_axis(mixed, self._own, -weights.sum(axis=1, keepdims=True), axis=1)
        return mixed

    def mix_some(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, place = np.unique(self.examples(index), return_inverse=True)
        own, other = self.classes_of(index)
        mixed = np.zeros((rows.size, self.n_classes), weight.dtype)
        np.add.at(mixed, (place, other), weight)
        np.add.at(mixed, (place, own), -weight)
        return rows, mixed
