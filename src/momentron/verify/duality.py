"""The mathematics of a proof, checked in whole numbers: nothing is rounded.

In units of 2^E every row x of X is a vector of integers; x̃ is x, with a last 1 if there is an
intercept. A classifier is a weight vector w_c per class, with w_0 = 0 without loss of generality.
Each row x of class c makes a *pair* with each other class j, and

    s = (w_c − w_j)·x̃ = w·a,        w = (w_1, …, w_{k−1}),

which defines the vector a of the pair. Four things are checked.

1. *Every pair is on its side*: s ≥ 0 for all pairs. Where all s > 0 the classes are separable.
2. *Weights that cancel*: q ≥ 0, q ≠ 0 with Σ q a = 0 (Gordan). No w then has s > 0 on all pairs,
   since Σ q s = w·Σ q a = 0; and every w with s ≥ 0 everywhere has s = 0 wherever q > 0: these are
   the boundary pairs. If q > 0 on all pairs, every such w has s = 0 on all (Stiemke): overlap.
3. *No pair is left open*: s > 0 or q > 0 on each, unless the proof says it is not complete.
4. *The interval* (weak duality): min s/‖w‖ ≤ best margin ≤ ‖Σ q a‖/Σ q, for every w and for every
   q ≥ 0 with which Σ q a vanishes along the intercepts, which have no part in ‖w‖.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from momentron.verify.data import Data
from momentron.verify.enclosure import require_enclosure
from momentron.verify.errors import ProofError
from momentron.verify.format import Group, Pair, Proof
from momentron.verify.limits import bits_of, product_cost, require_little_work

Vector = dict[int, int]  # place → whole number; what is absent is zero


def check_proof(proof: Proof, data: Data) -> None:
    """Raise `ProofError`, with the first thing that fails, unless the proof holds for the data."""
    w = Classifier(proof, data)
    require_little_work(_work(proof, data, w))
    boundary, conflict, dual = (
        [Combination(group) for group in groups]
        for groups in (proof.boundary, proof.conflict, proof.dual)
    )
    sides = check_pairs(proof, data, w, [*boundary, *conflict, *dual])
    check_kind(proof, sides)
    check_boundary(proof, data, Total.of(boundary))
    check_conflict(proof, data, Total.of(conflict))
    check_lower(proof, data, w, sides)
    check_upper(proof, data, Total.of(dual))


class Classifier:
    """The weights w_1, …, w_{k−1} in whole numbers, sorted by class and place.

    Weights on columns of X that hold only zeros do nothing but make w longer.
    """

    def __init__(self, proof: Proof, data: Data) -> None:
        self.k, self.n_features = proof.n_classes, int(data.used.size)
        n_places = self.n_features + proof.fit_intercept
        self.is_zero = not proof.weights
        self.vectors = [[0] * n_places for _ in range(self.k - 1)] if proof.weights else []
        self.on_empty_columns: dict[int, list[int]] = {}
        places = {column: place for place, column in enumerate(data.used.tolist())}
        if proof.fit_intercept:
            places[data.d] = self.n_features
        for coordinate, value in proof.weights.items():
            c, column = divmod(coordinate, data.d + proof.fit_intercept)
            if column in places:
                self.vectors[c][places[column]] = value
            else:
                self.on_empty_columns.setdefault(column, [0] * (self.k - 1))[c] = value

    def scores(self, places: list[int], x: list[int]) -> list[int]:
        """w_c·x̃ for each class c."""
        if self.is_zero:
            return [0] * self.k
        return [0, *(sum(map(int.__mul__, x, map(v.__getitem__, places))) for v in self.vectors)]

    def squared_norm_times_k(self) -> int:
        """k‖w‖², intercepts left out; with k > 2 classes ‖w‖² = min_v Σ_c ‖w_c − v‖².

        The minimum is at the mean of w_0, …, w_{k−1}: k‖w‖² = k Σ‖w_c‖² − ‖Σ w_c‖².
        """
        features = zip(*(v[: self.n_features] for v in self.vectors), strict=True)
        columns = [*features, *self.on_empty_columns.values()]
        squares = self.k * sum(v * v for column in columns for v in column)
        return squares - (sum(sum(column) ** 2 for column in columns) if self.k > 2 else 0)


class Combination:
    """Σ q a over a group of weights, times its denominator, as rows are met one after the other."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.vectors: dict[int, Vector] = {}  # one for each class but the first
        self.n_pairs = 0

    def add(self, pair: Pair, own: int, places: list[int], x: list[int]) -> None:
        """Add q a for one pair, if it has weight: a is x̃ for the row's own class, −x̃ for j."""
        q = self.group.numerators.get(pair)
        if q is None:
            return
        self.n_pairs += 1
        for c, factor in ((own, q), (pair[1], -q)):
            if c > 0:  # w_0 = 0 has no coordinates
                add_multiple(self.vectors.setdefault(c, {}), factor, places, x)


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


@dataclass
class Sides:
    """On how many pairs s > 0, and the least s."""

    n_strict: int = 0
    least: int | None = None


def check_pairs(proof: Proof, data: Data, w: Classifier, combinations: list[Combination]) -> Sides:
    """One pass over the rows: s ≥ 0 on every pair, no pair left open, and all Σ q a."""
    sides = Sides()
    for i, places, x in _rows(proof, data, w):
        own, scores = proof.codes[i], w.scores(places, x)
        for j in range(proof.n_classes):
            if j == own:
                continue
            s = scores[own] - scores[j]
            if s < 0 or (s == 0 and proof.complete and not proof.is_boundary((i, j))):
                raise _wrong_side(i, j, s)
            sides.n_strict += s > 0
            sides.least = s if sides.least is None else min(sides.least, s)
            for combination in combinations:
                combination.add((i, j), own, places, x)
    if any(part.n_pairs < len(part.group.numerators) for part in combinations):
        raise ProofError("a group has weights on pairs that are not among those of the data")
    return sides


def _rows(proof: Proof, data: Data, w: Classifier) -> Iterator[tuple[int, list[int], list[int]]]:
    """The rows to be read: all, or those with weights where w = 0 and so s = 0 on every pair."""
    if not w.is_zero:
        for i, (places, x) in enumerate(data.rows(proof.fit_intercept)):
            yield i, places, x
        return
    if proof.complete:
        for i, own in enumerate(proof.codes):
            for j in range(proof.n_classes):
                if j != own and not proof.is_boundary((i, j)):
                    raise _wrong_side(i, j, 0)
    for i in sorted({i for group in proof.groups for i, _ in group.numerators}):
        yield i, *data.row(i, proof.fit_intercept)


def _wrong_side(i: int, j: int, s: int) -> ProofError:
    return ProofError(
        f"row {i}, class {j}: s {'<' if s < 0 else '='} 0, and the pair has no weight"
    )


def check_kind(proof: Proof, sides: Sides) -> None:
    """The kind that is claimed is the kind that is shown."""
    if not proof.boundary:
        shown = "separable"
    else:
        shown = "quasi-separable" if sides.n_strict else "overlapping"
    # one pair with s > 0 and one with q > 0 suffice; the other kinds speak of every pair
    is_sure = proof.complete or shown == "quasi-separable"
    if proof.kind != "undecided" and (shown != proof.kind or not is_sure):
        raise ProofError(f"the proof claims {proof.kind!r} and shows {shown!r} at most")


def check_boundary(proof: Proof, data: Data, boundary: Total) -> None:
    """The boundary weights cancel, or an enclosure shows that weights near them do."""
    if boundary.is_zero:
        return
    if proof.basis is None:
        raise ProofError("the boundary weights do not cancel: Σ q a is not zero")
    require_enclosure(proof, data, boundary.vectors, boundary.denominator)


def check_conflict(proof: Proof, data: Data, conflict: Total) -> None:
    """The weights of the conflict cancel, and are no more than Carathéodory's theorem needs."""
    most = (data.d + proof.fit_intercept) * (proof.n_classes - 1) + 1
    n_pairs = sum(len(group.numerators) for group in proof.conflict)
    if not conflict.is_zero:
        raise ProofError("the weights of the conflict do not cancel: Σ q a is not zero")
    if n_pairs > most:
        raise ProofError(f"the conflict has {n_pairs} pairs; {most} suffice, and no more are read")


def check_lower(proof: Proof, data: Data, w: Classifier, sides: Sides) -> None:
    """lower ≤ min s/‖w‖, as squares of whole numbers."""
    if not proof.upper >= max(0, proof.lower):
        raise ProofError(f"the interval [{proof.lower}, {proof.upper}] is empty or below 0")
    if proof.lower <= 0:
        return
    # lower = numerator/denominator in the units of X, and s/‖w‖ is in units of 2^unit
    numerator, denominator = proof.lower.as_integer_ratio()
    least = sides.least or 0
    reached = proof.n_classes * (least * denominator) ** 2
    wanted = numerator**2 * w.squared_norm_times_k() << (-2 * data.unit)
    if least <= 0 or reached < wanted:
        raise ProofError(f"the margin of w is below the lower bound {proof.lower}")


def check_upper(proof: Proof, data: Data, dual: Total) -> None:
    """upper ≥ ‖Σ q a‖/Σ q, as squares of whole numbers; Σ q a must be 0 along the intercepts."""
    if proof.kind not in ("separable", "undecided") or proof.upper == math.inf:
        return
    intercept = int(data.used.size)
    if any(vector.get(intercept) for vector in dual.vectors.values()) or not dual.mass:
        raise ProofError("there are no dual weights, or they do not cancel along the intercept")
    square = sum(v * v for vector in dual.vectors.values() for v in vector.values())
    if proof.n_classes > 2:
        # the norm counts all k classes: what the others sum to, class 0 has with the other sign
        first = Vector()
        for vector in dual.vectors.values():
            add_multiple(first, -1, vector, vector.values())
        square += sum(v * v for v in first.values())
    numerator, denominator = proof.upper.as_integer_ratio()
    if (numerator * dual.mass) ** 2 << (-2 * data.unit) < square * denominator**2:
        raise ProofError(f"the dual weights do not reach the upper bound {proof.upper}")


def _work(proof: Proof, data: Data, w: Classifier) -> int:
    """About how many products of 30-bit digits the check takes."""
    lengths, x = data.lengths + proof.fit_intercept, data.bits
    n_places, k = w.n_features + proof.fit_intercept, proof.n_classes
    weights = bits_of(v for vector in w.vectors for v in vector)
    work = int(lengths.sum()) * product_cost(weights, x) * len(w.vectors)
    work += (n_places + len(w.on_empty_columns)) * k * product_cost(weights, weights)
    work += data.n * k * 64
    for groups in (proof.boundary, proof.conflict, proof.dual):
        common = sum(group.denominator.bit_length() for group in groups)
        for group in groups:
            q = bits_of(group.numerators.values())
            n_entries = int(lengths[[i for i, _ in group.numerators]].sum())
            longest = q + x + common + 64
            work += 2 * n_entries * product_cost(q, x)
            work += min(n_entries, n_places) * k * product_cost(longest, longest)
            work += len(group.numerators) * product_cost(q, common)
    return work


def add_multiple(vector: Vector, factor: int, places: Iterable[int], values: Iterable[int]) -> None:
    """vector += factor · values, at these places."""
    if not vector:
        vector.update(zip(places, [factor * v for v in values], strict=True))
        return
    for place, v in zip(places, values, strict=True):
        vector[place] = vector.get(place, 0) + factor * v
