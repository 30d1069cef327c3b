"""Columns that only one side has, such as dummies of groups without variation in y, peeled off.

A column of A without negative entries (or without positive ones) is a direction without errors: the
pairs with an entry there are strict, and no boundary weight lies on them, since the column of Σ q a
would not cancel. What is left has fewer pairs and columns, and its boundary pairs are those of the
whole. Columns of one round are taken together; a new round begins with what is left.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import require_time
from momentron.separability.cone import Cone, by_column

MOST_ROUNDS = 12


@dataclass(frozen=True)
class Layer:
    """Pairs that one round peels off, and the sign of each coordinate that does it."""

    pairs: np.ndarray
    signs: list[int]


@dataclass(frozen=True)
class Peeled:
    """The layers, in order, and the pairs and columns of A that are left."""

    layers: list[Layer]
    pairs: np.ndarray
    columns: np.ndarray

    def lift(self, cone: Cone, w: list[int]) -> list[int]:
        """w plus multiples of the layers, so large that every peeled pair is strict."""
        for layer in reversed(self.layers):
            below, gains = cone.sides(w, layer.pairs), cone.sides(layer.signs, layer.pairs)
            factor = max(1, *(1 - s // gain for s, gain in zip(below, gains, strict=True)))
            w = [v + factor * sign for v, sign in zip(w, layer.signs, strict=True)]
        return w


def peel(cone: Cone) -> Peeled:
    """Peel off rounds of one-sided columns until there are none."""
    A = sp.csc_array(cone.A)
    pairs, columns = np.arange(cone.size), np.arange(cone.columns.size)
    layers: list[Layer] = []
    while pairs.size and columns.size and len(layers) < MOST_ROUNDS:
        require_time()
        low, high = by_column(A.min(axis=0)), by_column(A.max(axis=0))
        sided = ((low >= 0.0) | (high <= 0.0)) & ((low != 0.0) | (high != 0.0))
        if not sided.any():
            break
        gone = np.asarray(abs(A[:, sided]).sum(axis=1)).ravel() > 0.0
        signs = np.zeros(cone.n_coordinates, np.int64)
        signs[cone.columns[columns[sided]]] = np.where(high[sided] > 0.0, 1, -1)
        layers.append(Layer(pairs[gone], signs.tolist()))
        A, pairs = sp.csc_array(sp.csr_array(A)[~gone]), pairs[~gone]
        kept = np.diff(A.indptr) > 0
        A, columns = A[:, kept], columns[kept]
    return Peeled(layers, pairs, columns)
