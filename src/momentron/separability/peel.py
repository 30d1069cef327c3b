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

MANY_PAIRS = 200  # that are peeled, for which all rows are converted at once
MOST_ROUNDS = 12


@dataclass(frozen=True)
class Layer:
    """Pairs that one round peels off, and the sign of each coordinate that does it."""

    pairs: np.ndarray
    signs: dict[int, int]


@dataclass(frozen=True)
class Peeled:
    """The layers, in order, and the pairs and columns of A that are left."""

    layers: list[Layer]
    pairs: np.ndarray
    columns: np.ndarray

    def lift(self, cone: Cone, w: list[int]) -> list[int]:
        """w plus multiples of the layers, so large that every peeled pair is strict."""
        w = list(w)
        if sum(layer.pairs.size for layer in self.layers) > MANY_PAIRS:
            cone.keep_whole_rows()
        for layer in reversed(self.layers):
            factor = 1
            for pair in layer.pairs.tolist():
                require_time()
                a = cone.vector(pair)
                below = sum(v * w[c] for c, v in a.items())
                gain = sum(v * layer.signs.get(c, 0) for c, v in a.items())
                factor = max(factor, 1 - below // gain)
            for c, sign in layer.signs.items():
                w[c] += factor * sign
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
        chosen = cone.columns[columns[sided]].tolist()
        signs = np.where(high[sided] > 0.0, 1, -1).tolist()
        layers.append(Layer(pairs[gone], dict(zip(chosen, signs, strict=True))))
        A, pairs = sp.csc_array(sp.csr_array(A)[~gone]), pairs[~gone]
        kept = np.diff(A.indptr) > 0
        A, columns = A[:, kept], columns[kept]
    return Peeled(layers, pairs, columns)
