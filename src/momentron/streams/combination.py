"""A classifier w = −Zᵀq that moves along the worst rows of a stream."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from momentron.streams.problem import BlockProblem


class BlockCombination:
    """Like `momentron.dual.combination.Combination`, for rows that a pass brings back.

    A pass evaluates w once it has moved: it gives the scores, and the rows to move along next.
    """

    def __init__(self, problem: "BlockProblem") -> None:
        self._problem = problem
        self.w = problem.zeros()
        self.q: Any = problem.no_weights()
        self._worst: tuple[np.ndarray, Any] | None = None

    def move(self, vertex: Any, step: float) -> None:
        """w −= step · Zᵀe, e the vertex."""
        self.w -= step * self._problem.gradient(vertex)
        self.q = self._problem.mix(self.q, 1.0, vertex, step)
        self._worst = None

    def shrink(self, factor: float) -> None:
        """w *= factor."""
        self.w *= factor
        self.q = self._problem.mix(self.q, factor, self.q, 0.0)
        self._worst = None

    def _evaluate(self) -> tuple[np.ndarray, Any]:
        if self._worst is None:
            self._worst = self._problem.worst(self.w)
        return self._worst

    def scores(self) -> np.ndarray:
        """The largest scores of w in units of R."""
        return self._evaluate()[0]

    def vertex(self) -> Any:
        """The worst rows for w, as weights in the dual set."""
        return self._evaluate()[1]

    def upper(self) -> float:
        """‖Zᵀq‖ over the mass of q, in units of R."""
        return self._problem.upper(self.w, self.q)

    def to_arrays(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"w": self.w, "q": self.q}

    def from_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Set to what `to_arrays` gave."""
        self.w, self.q = arrays["w"], arrays["q"]
        self._worst = None
