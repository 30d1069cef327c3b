"""How far the rows lie from their mean: the unit in which Algorithm 1 takes its steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.operators.sparse import squared_row_norms
from momentron.rounding import gamma
from momentron.streams.blocks import Block, in_float64, tiles
from momentron.streams.first_pass import FirstPassResult
from momentron.streams.stream import Stream


@dataclass
class Farthest:
    """max ‖x‖² − 2⟨x, c⟩ over rows."""

    value: float
    nbytes: int


class Spread:
    """The task of measuring max‖x − c‖."""

    def __init__(self, centre: np.ndarray) -> None:
        self.centre = centre

    def __call__(self, block: Block, so_far: Any = None) -> Farthest:
        farthest = -np.inf
        for rows in tiles(block.X):
            X = in_float64(block.X[rows])
            squares = squared_row_norms(X) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
            farthest = max(farthest, float((squares - 2.0 * (X @ self.centre)).max()))
        return Farthest(farthest, block.nbytes)

    @staticmethod
    def merge(a: Farthest, b: Farthest) -> Farthest:
        return Farthest(max(a.value, b.value), a.nbytes + b.nbytes)


def centred_radius(stream: Stream, found: FirstPassResult) -> float:
    """max‖x − c‖, c the mean of the rows or of a sample, rounded up; as `Operator` has it."""
    centre = found.centre
    length = float(np.linalg.norm(centre))
    square = stream.run(Spread(centre)).value + length**2
    lost = 8.0 * gamma(2 * found.width + 8) * (found.longest + length) ** 2
    return min(2.0 * found.longest, float(np.sqrt(max(0.0, square) + lost)))
