"""The mathematics of a proof, checked in whole numbers: nothing is rounded.

In units of 1/scale every row x of X is a vector of integers; x̃ is x, with a last 1 if there is an
intercept. A classifier is a vector w in blocks, one per class but the first (w_0 = 0 without loss
of generality). Each row x of class c makes a *pair* with each other class j, and

    s = (w_c − w_j)·x̃ = w·a,        w = (w_1, …, w_{k−1}),

which defines the vector a of the pair; counts and ordered classes make pairs of their own
(`family`). Four things are checked here, and in `estimates` what follows for each coefficient.

1. *Every pair is on its side*: s ≥ 0 for all pairs. Where all s > 0 the classes are separable.
2. *Weights that cancel*: q ≥ 0, q ≠ 0 with Σ q a = 0 (Gordan). No w then has s > 0 on all pairs,
   since Σ q s = w·Σ q a = 0; and every w with s ≥ 0 everywhere has s = 0 wherever q > 0: these are
   the boundary pairs. If q > 0 on all pairs, every such w has s = 0 on all (Stiemke): overlap.
3. *No pair is left open*: s > 0 or q > 0 on each, unless the proof says it is not complete.
4. *The interval* (weak duality): min s/‖w‖ ≤ best margin ≤ ‖Σ q a‖/Σ q, for every w and for every
   q ≥ 0 with which Σ q a vanishes along the intercepts, which have no part in ‖w‖.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from momentron.verify.combination import Combination, Total, Vector, add_multiple
from momentron.verify.data import Data
from momentron.verify.enclosure import require_enclosure
from momentron.verify.errors import ProofError
from momentron.verify.family import Family, Term
from momentron.verify.format import Pair, Proof
from momentron.verify.limits import bits_of, product_cost, require_little_work


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
        self.family, self.n_features = proof.family, int(data.used.size)
        n_blocks, width = self.family.n_blocks, data.d + self.family.n_intercepts
        n_places = self.n_features + self.family.n_intercepts
        self.is_zero = not proof.weights
        self.vectors = [[0] * n_places for _ in range(n_blocks)] if proof.weights else []
        self.on_empty_columns: dict[int, list[int]] = {}
        places = places_of(data, self.family)
        for coordinate, value in proof.weights.items():
            block, column = divmod(coordinate, width)
            if column in places:
                self.vectors[block][places[column]] = value
            else:
                self.on_empty_columns.setdefault(column, [0] * n_blocks)[block] = value

    def rows_touched(self, data: Data) -> list[int] | None:
        """The rows on which w need not be zero; None for all rows."""
        used = {place for vector in self.vectors for place, v in enumerate(vector) if v}
        if any(place >= self.n_features for place in used):
            return None
        return data.rows_with(sorted(used)) if used else []

    def products(self, places: list[int], x: list[int]) -> list[int]:
        """w_b·x for each block b, without intercepts."""
        if self.family.fit_intercept:
            places, x = places[:-1], x[:-1]
        return [sum(map(int.__mul__, x, map(v.__getitem__, places))) for v in self.vectors]

    def side(self, terms: list[Term], products: list[int], x: list[int]) -> int:
        """s = w·a for a pair with these terms, from the products of its row."""
        if self.is_zero:
            return 0
        s = sum(sign * products[block] for block, sign, _ in terms)
        if self.family.fit_intercept:
            at = self.n_features
            s += x[-1] * sum(sign * self.vectors[block][at + shift] for block, sign, shift in terms)
        return s

    def squared_norm_times_blocks(self) -> int:
        """m‖w‖² for m = `norm_blocks` blocks, intercepts left out.

        With k > 2 classes ‖w‖² = min_v Σ_c ‖w_c − v‖²; the minimum is at the mean of w_0, …,
        w_{k−1}: k‖w‖² = k Σ‖w_c‖² − ‖Σ w_c‖².
        """
        features = zip(*(v[: self.n_features] for v in self.vectors), strict=True)
        columns = [*features, *self.on_empty_columns.values()]
        m = self.norm_blocks
        squares = m * sum(v * v for column in columns for v in column)
        return squares - (sum(sum(column) ** 2 for column in columns) if m > 1 else 0)

    @property
    def norm_blocks(self) -> int:
        """k where each of k > 2 classes has weights of its own, else 1."""
        return self.family.n_blocks + 1 if self.family.n_blocks > 1 else 1


@dataclass
class Sides:
    """On how many pairs s > 0, and the least s."""

    n_strict: int = 0
    least: int | None = None


def check_pairs(proof: Proof, data: Data, w: Classifier, combinations: list[Combination]) -> Sides:
    """One pass over the rows: s ≥ 0 on every pair, no pair left open, and all Σ q a."""
    sides = Sides()
    for part in combinations:
        if part.is_short(proof):
            part.add_all(proof, data)
    by_row = [part for part in combinations if not part.n_pairs]
    wanted = _rows_to_read(data, w, by_row)
    if wanted is not None and _has_unread(proof, set(wanted)):
        sides.least = 0
    for i, places, x in _rows(proof, data, wanted):
        own, products = proof.codes[i], w.products(places, x)
        for j in proof.family.others(own):
            terms = proof.family.terms(own, j)
            s = w.side(terms, products, x)
            if s < 0 or (s == 0 and proof.complete and not proof.is_boundary((i, j))):
                raise _wrong_side(proof, i, j, s)
            sides.n_strict += s > 0
            sides.least = s if sides.least is None else min(sides.least, s)
            for combination in by_row:
                combination.add((i, j), terms, places, x)
    if any(part.n_pairs < len(part.group.numerators) for part in combinations):
        raise ProofError("a group has weights on pairs that are not among those of the data")
    return sides


def _rows_to_read(data: Data, w: Classifier, by_row: list[Combination]) -> list[int] | None:
    """The rows that w touches, or that have weights to be added; None for all rows.

    On every pair of another row s = 0.
    """
    touched = w.rows_touched(data)
    if touched is None:
        return None
    wanted = set(touched).union(i for part in by_row for i, _ in part.group.numerators)
    return sorted(wanted) if len(wanted) < data.n else None


def _has_unread(proof: Proof, wanted: set[int]) -> bool:
    """Whether there are pairs of other rows; raise where one of them is left open, since s = 0."""
    boundary: set[Pair] = set().union(*(group.numerators for group in proof.boundary))
    others = {own: list(proof.family.others(own)) for own in set(proof.codes)}
    found = False
    for i, own in enumerate(proof.codes):
        if i in wanted:
            continue
        for j in others[own]:
            found = True
            if proof.complete and (i, j) not in boundary:
                raise _wrong_side(proof, i, j, 0)
    return found


def _rows(
    proof: Proof, data: Data, wanted: list[int] | None
) -> Iterator[tuple[int, list[int], list[int]]]:
    if wanted is None:
        for i, (places, x) in enumerate(data.rows(proof.fit_intercept)):
            yield i, places, x
        return
    some = data.some_rows(wanted, proof.fit_intercept)
    for i, (places, x) in zip(wanted, some, strict=True):
        yield i, places, x


def _wrong_side(proof: Proof, i: int, j: int, s: int) -> ProofError:
    against = f"row {i}, compared with class {proof.classes[j][:40]!r}"
    if s < 0:
        return ProofError(f"{against}, is on the wrong side of the proof's hyperplane")
    return ProofError(
        f"{against}, lies on the proof's hyperplane, and the proof does not show that it must"
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
    most = (data.d + proof.family.n_intercepts) * proof.family.n_blocks + 1
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
    # lower = numerator/denominator in the units of X, and s/‖w‖ is in units of 1/scale
    numerator, denominator = proof.lower.as_integer_ratio()
    least = sides.least or 0
    reached = w.norm_blocks * (least * denominator) ** 2
    wanted = (numerator * data.scale) ** 2 * w.squared_norm_times_blocks()
    if least <= 0 or reached < wanted:
        raise ProofError(f"the margin of w is below the lower bound {proof.lower}")


def check_upper(proof: Proof, data: Data, dual: Total) -> None:
    """upper ≥ ‖Σ q a‖/Σ q, as squares of whole numbers; Σ q a must be 0 along the intercepts."""
    if proof.kind in ("quasi-separable", "overlapping"):
        if proof.lower or proof.upper:
            raise ProofError(
                f"the margin is said to be in [{proof.lower}, {proof.upper}]; both ends must be 0 "
                f"where the classes are {proof.kind}"
            )
        return
    if proof.upper == math.inf:
        return
    n_features = int(data.used.size)
    along = (v for vector in dual.vectors.values() for p, v in vector.items() if p >= n_features)
    if any(along) or not dual.mass:
        raise ProofError("there are no dual weights, or they do not cancel along the intercept")
    vectors = dual.vectors.values()
    square = sum(v * v for vector in vectors for v in vector.values())
    if proof.family.n_blocks > 1:
        # the norm counts all k classes: what the others sum to, class 0 has with the other sign
        first = Vector()
        for vector in vectors:
            add_multiple(first, -1, vector, vector.values())
        square += sum(v * v for v in first.values())
    numerator, denominator = proof.upper.as_integer_ratio()
    if (numerator * dual.mass * data.scale) ** 2 < square * denominator**2:
        raise ProofError(f"the dual weights do not reach the upper bound {proof.upper}")


def places_of(data: Data, family: Family) -> dict[int, int]:
    """The place of each column in use, and of each intercept, among those of a block."""
    n_features = int(data.used.size)
    places = {column: place for place, column in enumerate(data.used.tolist())}
    return places | {data.d + i: n_features + i for i in range(family.n_intercepts)}


def direction_of(proof: Proof, data: Data) -> Vector:
    """w by coordinate, blocks of columns in use and intercepts one after the other."""
    places, width = places_of(data, proof.family), data.d + proof.family.n_intercepts
    found: Vector = {}
    for coordinate, value in proof.weights.items():
        block, column = divmod(coordinate, width)
        if column in places:
            found[block * len(places) + places[column]] = value
    return found


def _work(proof: Proof, data: Data, w: Classifier) -> int:
    """About how many products of 30-bit digits the check takes."""
    lengths, x = data.lengths + proof.fit_intercept, data.bits
    n_places, k = w.n_features + proof.family.n_intercepts, len(proof.classes)
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
