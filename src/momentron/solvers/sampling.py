"""Draws from dual weights: points of C with few weights, whose mean is q."""

from abc import ABC, abstractmethod

import numpy as np

from momentron.circulations import Circulations
from momentron.constraints import LabelPairs, Slack
from momentron.dualsets import ClassBalanced, Simplex, Vertex
from momentron.errors import InputError
from momentron.problem import Problem

BLOCK = 1024  # weights summed at a time: a running sum of all would cost more than the link


class Sampler(ABC):
    """Draws e from C with E[e] = q, so that E[Zᵀe] = Zᵀq.

    Of several draws the mean is returned. They are stratified: one from each of as many equal
    parts of the distribution, which leaves the expectation as it is and can only lower the
    variance. One draw is plain sampling from q.
    """

    @abstractmethod
    def draw(self, q: np.ndarray, rng: np.random.Generator, count: int = 1) -> Vertex:
        """The mean of `count` draws; its mass is that of q, and its rows are distinct."""


class RowSampler(Sampler):
    """For the simplex: one row of Z a draw, i ~ q."""

    def draw(self, q: np.ndarray, rng: np.random.Generator, count: int = 1) -> Vertex:
        index, mass = pick(q, strata(rng, count))
        return mean_of(index, np.full(count, mass / count))


class ClassSampler(Sampler):
    """For mass ½ on each class: one row of each class a draw, independent, with weight ½.

    Parameters
    ----------
    classes : tuple of ndarray
        The rows of each class.
    """

    def __init__(self, classes: tuple[np.ndarray, ...]) -> None:
        self.classes = classes

    def draw(self, q: np.ndarray, rng: np.random.Generator, count: int = 1) -> Vertex:
        index, weight = [], []
        for rows in self.classes:
            places, mass = pick(q[rows], strata(rng, count))
            index.append(rows[places])
            weight.append(np.full(count, mass / count))
        return mean_of(np.concatenate(index), np.concatenate(weight))


class CycleSampler(Sampler):
    """For circulations: a cycle of classes a draw, and a pair for each of its arcs.

    A circulation is a mixture of cycles, each with even weights on its arcs. One of these is drawn
    by its mass, then a pair from each of its arcs by q. Opposite arcs are taken out first, so that
    most cycles have two arcs: a draw costs two rows then, and never more than there are classes.

    Parameters
    ----------
    source, target : ndarray of shape (size,)
        The classes c and j of every pair.
    n_classes : int
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, n_classes: int) -> None:
        self.n_classes = n_classes
        self._arc = source * n_classes + target
        self._order = np.argsort(self._arc, kind="stable")
        counts = np.bincount(self._arc, minlength=n_classes**2)
        self._ends = np.cumsum(counts)

    def draw(self, q: np.ndarray, rng: np.random.Generator, count: int = 1) -> Vertex:
        flow = np.bincount(self._arc, q, self.n_classes**2).reshape(self.n_classes, -1)
        mass = float(flow.sum())
        index, weight = [], []
        for cycle in draw_cycles(flow, strata(rng, count)):
            arcs = cycle * self.n_classes + np.roll(cycle, -1)
            index += [self._pick_pair(q, arc, rng) for arc in arcs]
            weight += [mass / (count * cycle.size)] * cycle.size
        return mean_of(np.array(index), np.array(weight))

    def _pick_pair(self, q: np.ndarray, arc: int, rng: np.random.Generator) -> int:
        pairs = self._order[self._ends[arc - 1] if arc else 0 : self._ends[arc]]
        place, _ = pick(q[pairs], rng.random(1))
        return int(pairs[place[0]])


def as_sampler(problem: Problem) -> Sampler:
    """The sampler for the problem's dual set."""
    dual_set = problem.dual_set
    if isinstance(dual_set, Simplex):
        return RowSampler()
    if isinstance(dual_set, ClassBalanced):
        return ClassSampler(dual_set.classes)
    constraints = problem.constraints
    pairs = constraints.base if isinstance(constraints, Slack) else constraints
    if isinstance(dual_set, Circulations) and isinstance(pairs, LabelPairs):
        return CycleSampler(*pairs.pair_classes, pairs.n_classes)
    raise InputError(
        f"there is no way to draw from {type(dual_set).__name__}; the sets that can be drawn from "
        "are Simplex, ClassBalanced and Circulations"
    )


def strata(rng: np.random.Generator, count: int) -> np.ndarray:
    """One uniform number in each of `count` equal parts of [0, 1)."""
    return (np.arange(count) + rng.random(count)) / count


def pick(q: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, float]:
    """(indices, mass): where the running sum of q first exceeds each position times its mass.

    The inverse of the distribution function: an index of weight zero is never returned, and each
    other has probability q_i / mass for a uniform position.
    """
    ends = np.cumsum(np.add.reduceat(q, np.arange(0, q.size, BLOCK)))
    mass = float(ends[-1])
    targets = np.minimum(positions * mass, np.nextafter(mass, 0.0))
    index = np.empty(positions.size, np.intp)
    for i, block in enumerate(np.searchsorted(ends, targets, side="right")):
        start = int(block) * BLOCK
        rest = targets[i] - (ends[block - 1] if block else 0.0)
        inner = np.cumsum(q[start : start + BLOCK])
        # the sums of a block and of its entries one by one may differ in the last digit
        rest = min(rest, np.nextafter(inner[-1], 0.0))
        index[i] = start + int(np.searchsorted(inner, rest, side="right"))
    return index, mass


def draw_cycles(flow: np.ndarray, positions: np.ndarray) -> list[np.ndarray]:
    """Cycles of the circulation, drawn by their mass: one for each position in [0, 1).

    Each is the sequence of its classes. The mass of a cycle is its flow times its length.
    """
    n_classes = flow.shape[0]
    both_ways = np.minimum(flow, flow.T)
    shares = np.cumsum(both_ways)
    paired, mass = float(shares[-1]), float(flow.sum())
    longer: list[tuple[float, np.ndarray]] | None = None
    drawn = []
    for target in positions * mass:
        if target >= paired and longer is None:
            longer = longer_cycles(flow - both_ways)
        if target < paired or not longer:
            place = np.searchsorted(shares, min(target, np.nextafter(paired, 0.0)), side="right")
            drawn.append(np.array(divmod(int(place), n_classes)))
            continue
        ends = paired + np.cumsum([share for share, _ in longer])
        place = min(int(np.searchsorted(ends, target, side="right")), len(longer) - 1)
        drawn.append(longer[place][1])
    return drawn


def longer_cycles(flow: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """A circulation as a sum of cycles: (mass, classes) of each, up to rounding.

    From the heaviest arc on, the walk follows the heaviest arc out of each class until it meets
    itself. Each turn empties an arc at least, so that there are no more than k² of them.
    """
    flow = flow.copy()
    cycles: list[tuple[float, np.ndarray]] = []
    negligible = 1e-15 * float(flow.sum())
    for _ in range(flow.size):
        start, nearest = divmod(int(flow.argmax()), flow.shape[0])
        if flow[start, nearest] <= negligible:
            break
        walk = [start, nearest]
        while walk[-1] not in walk[:-1] and flow[walk[-1]].any():
            walk.append(int(flow[walk[-1]].argmax()))
        if walk[-1] not in walk[:-1]:  # a dead end, which rounding has left
            flow[walk[-2], walk[-1]] = 0.0
            continue
        cycle = np.array(walk[walk.index(walk[-1]) : -1])
        # arcs of one cycle are often equal up to rounding, which must not decide where it begins
        cycle = np.roll(cycle, -int(cycle.argmin()))
        ahead = np.roll(cycle, -1)
        least = float(flow[cycle, ahead].min())
        flow[cycle, ahead] -= least
        cycles.append((least * cycle.size, cycle))
    return cycles


def mean_of(index: np.ndarray, weight: np.ndarray) -> Vertex:
    """The weights as a point of C, with repeated rows added up."""
    if index.size == 1:
        return Vertex(index, weight)
    distinct, place = np.unique(index, return_inverse=True)
    return Vertex(distinct, np.bincount(place, weight, distinct.size))
