"""Sums Σ q a of the vectors of weighted pairs, in whole numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from momentron.verify.data import Data
from momentron.verify.family import Term
from momentron.verify.format import Group, Pair, Proof

Vector = dict[int, int]  # place → whole number; what is absent is zero

FEW = 64  # weights that are added one by one
SHORT = 1 << 50  # weights below it are added all at once:
MANY_CLASSES = 1 << 10  # those of the pairs of one row, of fewer classes, sum to less than 2^62


class Combination:
    """Σ q a over a group of weights, times its denominator, as rows are met one after the other."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.vectors: dict[int, Vector] = {}  # by block
        self.n_pairs = 0

    def is_short(self, proof: Proof) -> bool:
        """Whether the weights are many and short, so that all of them can be added at once."""
        numerators = self.group.numerators
        if len(proof.classes) > MANY_CLASSES or len(numerators) <= FEW:
            return False
        return max(numerators.values()) < SHORT

    def add_all(self, proof: Proof, data: Data) -> None:
        """What `add` does for every pair, by sums over all rows."""
        at = int(data.used.size)
        weights: dict[int, list[int]] = {}  # by block, of each row
        ends: dict[tuple[int, int], int] = {}  # by block and place of an intercept
        for (i, j), q in self.group.numerators.items():
            for block, sign, shift in proof.family.terms(proof.codes[i], j):
                if block not in weights:
                    weights[block] = [0] * data.n
                weights[block][i] += sign * q
                ends[block, at + shift] = ends.get((block, at + shift), 0) + sign * q
        for block, of_rows in weights.items():
            sums = data.weighted_sum(np.array(of_rows, np.int64))
            self.vectors[block] = dict(enumerate(sums))
        if proof.fit_intercept:
            for (block, place), total in ends.items():
                self.vectors[block][place] = total * data.scale
        self.n_pairs = len(self.group.numerators)

    def add(self, pair: Pair, terms: list[Term], places: list[int], x: list[int]) -> None:
        """Add q a for one pair, if it has weight."""
        q = self.group.numerators.get(pair)
        if q is None:
            return
        self.n_pairs += 1
        for block, sign, shift in terms:
            moved = [*places[:-1], places[-1] + shift] if shift else places
            add_multiple(self.vectors.setdefault(block, {}), sign * q, moved, x)


@dataclass
class Total:
    """(Σ q a, Σ q) over some groups, both times a common denominator."""

    vectors: dict[int, Vector]
    mass: int
    denominator: int

    @classmethod
    def of(cls, combinations: list[Combination]) -> "Total":
        """The sum of some combinations, with the product of their denominators."""
        denominator = math.prod(part.group.denominator for part in combinations)
        vectors: dict[int, Vector] = {}
        mass = 0
        for part in combinations:
            factor = denominator // part.group.denominator
            mass += factor * sum(part.group.numerators.values())
            for c, vector in part.vectors.items():
                add_multiple(vectors.setdefault(c, {}), factor, vector, vector.values())
        return cls(vectors, mass, denominator)

    @property
    def is_zero(self) -> bool:
        return not any(v for vector in self.vectors.values() for v in vector.values())


def add_multiple(vector: Vector, factor: int, places: Iterable[int], values: Iterable[int]) -> None:
    """vector += factor · values, at these places."""
    if not vector:
        vector.update(zip(places, [factor * v for v in values], strict=True))
        return
    for place, v in zip(places, values, strict=True):
        vector[place] = vector.get(place, 0) + factor * v
