"""A classifier w = −Zᵀq that moves along few rows of Z at a time, with its scores in step."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentron.dual.dualsets import Vertex

if TYPE_CHECKING:
    from momentron.solvers.problem import Problem

CHUNK = 1 << 14  # numbers worked on at a time: they stay in the nearest cache


class VertexImage(NamedTuple):
    """−Zᵀe for a vertex e, in the labels that it touches, with X times it."""

    vertex: Vertex
    labels: np.ndarray | None  # the columns of a classifier that change; None with two classes
    rows: np.ndarray | slice  # the rows of its coefficients that change
    coef: np.ndarray  # what is added there
    products: np.ndarray  # what is added to the products with X


def vertex_image(problem: "Problem", vertex: Vertex) -> VertexImage:
    """−Zᵀe in units of R: one pass over linear data, or n kernel values per new row."""
    rows, a = problem.labels.mix_at(vertex.index, vertex.weight / -problem.radius)
    labels = None
    if a.ndim == 2:
        labels = np.flatnonzero(a.any(axis=0))
        a = a[:, labels]
    return VertexImage(vertex, labels, *problem.operator.along(rows, a))


class Combination:
    """w = −Zᵀq, with q ≥ 0 and the products Xw kept with it; it starts at zero.

    Since q, divided by its mass, lies in the dual set, ‖w‖ over that mass is an upper bound of the
    best margin. Rounding makes products drift from w by a unit in the last place per step. `w` is
    like the problem's other classifiers, and `q` has one number for each constraint.
    """

    def __init__(self, problem: "Problem") -> None:
        operator = problem.operator
        self._problem = problem
        self._scores: np.ndarray | None = None
        self.w = problem.zeros()
        self.q = np.zeros(problem.size)
        self._arrays = [self.w.reshape(-1), self.q]
        # views of w: of its own part, and of the slack's
        head, self._tail = problem.parts(self.w)
        self._coef, products = operator.parts(head)
        if products is None:
            products = np.zeros((operator.shape[0], *head.shape[1:]))
            self._arrays.append(products.reshape(-1))
        self._products = products

    def begin(self, q: np.ndarray, length: float | None = None) -> None:
        """w = −Zᵀq for weights of the first rows, brought into the dual set; or of some length."""
        weights = np.zeros(self.q.size)
        weights[: q.size] = q
        weights = self._problem.dual_set.normalize(weights)
        index = np.flatnonzero(weights)
        self.move(Vertex(index, weights[index]), 1.0)
        norm = self._problem.norm(self.w)
        if length is not None and norm > 0.0:
            self.shrink(length / norm)

    def move(self, vertex: Vertex, step: float) -> None:
        """w −= step · Zᵀe, e the vertex."""
        self.move_along(vertex_image(self._problem, vertex), step)

    def move_along(self, image: VertexImage, step: float) -> None:
        """w += step · image: only the columns of its labels are touched."""
        self._scores = None
        vertex, labels, rows, coef, products = image
        self.q[vertex.index] += step * vertex.weight
        if self._problem.is_soft:
            lift = self._problem.penalty.root_at(vertex.index) * vertex.weight
            self._tail[vertex.index] += step / self._problem.radius * lift
        if labels is None:
            self._coef[rows] += step * coef
            self._products += step * products
            return
        for place, label in enumerate(labels):
            self._coef[rows, label] += step * coef[:, place]
            self._products[:, label] += step * products[:, place]

    def follow(self, other: "Combination", decay: float, step: float) -> None:
        """other *= decay, then w += step · other."""
        self._scores = None
        other.shrink(decay)
        for mine, theirs in zip(self._arrays, other._arrays, strict=True):
            mix_in_place(mine, 1.0, theirs, step)

    def shrink(self, factor: float) -> None:
        """w *= factor."""
        self._scores = None
        for array in self._arrays:
            array *= factor

    def scores(self) -> np.ndarray:
        """Zw in units of R."""
        if self._scores is None:
            problem = self._problem
            scores = problem.labels.scores(self._products)
            if problem.is_soft:
                scores -= problem.penalty.root * self._tail
            scores /= problem.radius
            self._scores = scores
        return self._scores

    def vertex(self) -> Vertex:
        """The worst rows for w, as weights in the dual set."""
        return self._problem.dual_set.vertex(self.scores())

    def upper(self) -> float:
        """‖Zᵀq‖ over the mass of q, in units of R."""
        return self._problem.upper(self.w, self.q)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return {"w": self.w, "q": self.q, "products": self._products}

    def from_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set to what `to_arrays` gave, whose shapes have been checked."""
        for name, array in self.to_arrays().items():
            array[...] = arrays[name]
        self._scores = None


def mix_in_place(a: np.ndarray, x: float, b: np.ndarray, y: float) -> None:
    """a ← x·a + y·b for arrays in C order, without another of their size."""
    a, b = a.reshape(-1), b.reshape(-1)
    for start in range(0, a.size, CHUNK):
        mine = a[start : start + CHUNK]
        if x != 1.0:
            mine *= x
        mine += y * b[start : start + CHUNK]
