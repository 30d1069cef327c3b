"""Many classes: one constraint for each example and each wrong label, by implicit reduction."""

import math
from typing import Any

import numpy as np

from momentron.arithmetic.rounding import up
from momentron.dual.circulations import Circulations
from momentron.dual.dualsets import DualSet, Simplex
from momentron.dual.labels.base import NO_CODES, Labels
from momentron.dual.losses import Loss


class ManyClasses(Labels):
    """z_(i,j) = x_i (e_j − e_c)ᵀ for every example i, of class c, and every other class j.

    A classifier is a matrix W of shape (d, k); its scores are F_ij − F_ic with F = XW, so that the
    margin is min_(i,j) (F_ic − F_ij)/‖W‖, the joint margin of the paper's section 5.2. Neither a
    row of length d·k nor Z is ever built. Pairs are numbered row by row: example i has the k − 1
    pairs from i(k − 1) on, in the order of the classes without its own.
    """

    is_paired = True
    radius_factor = up(math.sqrt(2.0))

    def __init__(self, n_classes: int, fit_intercept: bool, codes: np.ndarray = NO_CODES) -> None:
        super().__init__(n_classes, fit_intercept, codes)
        self.n_outputs = self.roundings = n_classes
        self.trailing = (n_classes,)
        self.per_example = n_classes - 1
        self._shape = codes.size, self.per_example
        wrong = np.arange(self.per_example)[None, :]
        # the class of each pair: the numbers from the example's own class on move up by one
        others = wrong + (wrong >= codes[:, None])
        # places in a flat table of shape (n, k): np.take is three times as fast with these
        starts = n_classes * np.arange(codes.size)
        self._others = (others + starts[:, None]).ravel()
        self._own = codes + starts

    def classes_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(c, j) of the named pairs."""
        own = self.codes[self.examples(index)]
        wrong = index % self.per_example
        return own, wrong + (wrong >= own)

    def scores(self, products: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(products).ravel()
        scores = flat.take(self._others).reshape(self._shape)
        scores -= flat.take(self._own)[:, None]
        return scores.ravel()

    def mix(self, q: np.ndarray) -> np.ndarray:
        mixed = np.empty(self.codes.size * self.n_classes, q.dtype)
        mixed[self._others] = q
        mixed[self._own] = -q.reshape(self._shape).sum(axis=1)
        return mixed.reshape(-1, self.n_classes)

    def row_norms(self, norms: np.ndarray) -> np.ndarray:
        return np.repeat(norms * self.radius_factor * (1.0 + 2.0**-52), self.per_example)

    def dual_set(self, loss: Loss) -> DualSet:
        if not self.fit_intercept:
            return Simplex(self.size, loss)
        source = np.repeat(self.codes, self.per_example)
        return Circulations(source, self._others % self.n_classes, self.n_classes, loss)

    def examples(self, index: np.ndarray) -> np.ndarray:
        return index // self.per_example

    def scores_at(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        place = np.arange(index.size)
        own, other = self.classes_of(index)
        return products[place, other] - products[place, own]

    def mix_at(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, place = np.unique(self.examples(index), return_inverse=True)
        own, other = self.classes_of(index)
        mixed = np.zeros((rows.size, self.n_classes), weight.dtype)
        np.add.at(mixed, (place, other), weight)
        np.add.at(mixed, (place, own), -weight)
        return rows, mixed

    def output_signs(self, index: np.ndarray | slice) -> np.ndarray:
        index = np.arange(self.size)[index] if isinstance(index, slice) else index
        own, other = self.classes_of(index)
        signs, place = np.zeros((index.size, self.n_classes)), np.arange(index.size)
        signs[place, own] = 1.0
        signs[place, other] = -1.0
        return signs

    def coef_of(self, w: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(w.T)

    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(coef.T)

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        table = np.zeros(self.codes.size * self.n_classes, q.dtype)
        table[self._others] = q
        return table.reshape(-1, self.n_classes)

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(dual[: self.codes.size])
        return rows.ravel().take(self._others[: rows.shape[0] * self.per_example])

    def all_intercepts(self, b: np.ndarray) -> Any:
        return np.append(b, 0.0) if b.size else np.zeros(self.n_classes)

    def free_intercepts(self, b: Any) -> np.ndarray:
        return b[:-1] - b[-1] if self.fit_intercept else np.zeros(0)

    def block_scores(self, products: np.ndarray, codes: np.ndarray) -> np.ndarray:
        rows = np.arange(codes.size)
        scores = products - products[rows, codes][:, None]
        scores[rows, codes] = -np.inf
        return scores

    def block_mix(self, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        mixed = weights.copy()
        mixed[np.arange(codes.size), codes] = -weights.sum(axis=1)
        return mixed

    @property
    def n_arcs(self) -> int:
        return self.n_classes**2 if self.fit_intercept else 1

    @property
    def arcs(self) -> np.ndarray:
        if not self.fit_intercept:
            return np.arange(1)
        return np.flatnonzero(~np.eye(self.n_classes, dtype=bool).ravel())

    @property
    def n_sums(self) -> int:
        return self.n_classes

    def arc_counts(self, counts: np.ndarray) -> np.ndarray:
        if not self.fit_intercept:
            return np.array([counts.sum() * self.per_example])
        return np.repeat(counts, self.n_classes)[self.arcs]

    def _arcs_from(self, code: int) -> int | slice:
        return slice(code * self.n_classes, (code + 1) * self.n_classes)

    def _one_per_class(self) -> np.ndarray:
        return np.arange(self.n_classes)
