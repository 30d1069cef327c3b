"""What follows for each coefficient: finite, infinite, undetermined or aliased, each proven.

K = {w : a·w ≥ 0 on every pair} is the cone of directions along which no likelihood falls. Let B be
the boundary pairs, on which every w of K has a·w = 0, and f the linear form that reads a
coefficient off w. Every sequence that approaches the supremum of the likelihood has bounded a·w on
B and a·w → +∞ on all other pairs, the *strict* ones. So the coefficient

- is *finite* where f lies in the span of B;
- goes to *+inf* where f = Σ λ a + (something in the span of B) with λ ≥ 0 on strict pairs, λ ≠ 0,
  and to *-inf* where −f is such a sum;
- is *undetermined* where two directions of K show f·w > 0 and f·w < 0;
- is *aliased* where some u ≠ 0 with a·u = 0 on every pair has f·u ≠ 0: the data do not know it.

Exactly one of these holds: a form that is finite or infinite is a sum of vectors a, so that u
vanishes on it, and of an undetermined one it is required that no u changes it. All u are known
where the rank of the design is, since in every family they are those with x̃·u = 0 on every row in
each block; else the rows x̃ are eliminated.

The span of B is handled by its complement. A proof names r boundary pairs and r coordinates in
which they are regular modulo a prime. The vectors orthogonal to these pairs then have the dimension
that is left, and a basis of them, one vector per other coordinate, is written out (unit vectors
are not). A form lies in the span exactly if it vanishes on that basis.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from momentron.arithmetic.clock import require_time
from momentron.verify.data import Data
from momentron.verify.errors import ProofError
from momentron.verify.family import Family
from momentron.verify.format import Pair, Proof
from momentron.verify.modular import is_regular, short_null_vectors

Vector = dict[int, int]  # coordinate → whole number; what is absent is zero

STATUSES = ("finite", "+inf", "-inf", "undetermined", "aliased", "undecided")


@dataclass
class Space:
    """The coordinates of w: blocks of columns in use and intercepts, numbered without gaps."""

    data: Data
    family: Family
    codes: list[int]

    @property
    def n_features(self) -> int:
        return int(self.data.used.size)

    @property
    def width(self) -> int:
        return self.n_features + self.family.n_intercepts

    @property
    def size(self) -> int:
        return self.width * self.family.n_blocks

    def vector(self, own: int, j: int, places: list[int], x: list[int]) -> Vector:
        """The vector a of a pair of a row."""
        a: Vector = {}
        for block, sign, shift in self.family.terms(own, j):
            start = block * self.width
            a.update({start + p: sign * v for p, v in zip(places, x, strict=True)})
            if shift:
                a[start + places[-1] + shift] = a.pop(start + places[-1])
        return a

    def vectors(self, pairs: list[Pair]) -> Iterator[tuple[Pair, Vector]]:
        """Some pairs with their vectors, row by row."""
        by_row: dict[int, list[int]] = {}
        for i, j in pairs:
            by_row.setdefault(i, []).append(j)
        chosen = sorted(by_row)
        rows = self.data.some_rows(chosen, self.family.fit_intercept)
        for i, (places, x) in zip(chosen, rows, strict=True):
            for j in by_row[i]:
                yield (i, j), self.vector(self.codes[i], j, places, x)

    def rows_that_touch(self, coordinates: set[int]) -> list[int] | None:
        """The rows with an entry at the place of one of these coordinates; None for all rows."""
        places = {c % self.width for c in coordinates}
        if any(p >= self.n_features for p in places):
            return None
        return self.data.rows_with(sorted(places))

    def every_vector(self, rows: list[int] | None = None) -> Iterator[tuple[Pair, Vector]]:
        """All pairs with their vectors, or those of some rows."""
        if rows is not None:
            yield from self.vectors(
                [(i, j) for i in rows for j in self.family.others(self.codes[i])]
            )
            return
        for i, (places, x) in enumerate(self.data.rows(self.family.fit_intercept)):
            for j in self.family.others(self.codes[i]):
                yield (i, j), self.vector(self.codes[i], j, places, x)

    def coefficients(self, reference: int) -> list[tuple[int, Vector]]:
        """(place in a block, form f) of each coefficient, class by class.

        With classes that have weights of their own a coefficient is the contrast of its class with
        the reference; w_0 = 0. A threshold is minus the intercept of its place.
        """
        found = []
        if not self.family.has_reference:
            for p in range(self.width):
                is_threshold = self.family.has_thresholds and p >= self.n_features
                found.append((p, {p: -1 if is_threshold else 1}))
            return found
        for c in range(self.family.k):
            if c == reference:
                continue
            for p in range(self.width):
                form = {(c - 1) * self.width + p: 1} if c else {}
                if reference:
                    form[(reference - 1) * self.width + p] = -1
                found.append((p, form))
        return found


@dataclass
class Estimates:
    """The section `estimates` of a proof, once it has been read.

    Attributes
    ----------
    reference : int
        The class with which the others are contrasted.
    statuses : list of str
        One of `STATUSES` per coefficient, in the order of `Space.coefficients`.
    prime : int
    basis, pivots : lists of r pairs and r coordinates
    null : dict
        For each coordinate that is no pivot and whose basis vector is no unit vector: that vector.
    bounds : list of dict
        Positive weights λ on strict pairs.
    bound_of : list of int
        For each infinite coefficient, in order, which of the bounds shows it.
    directions : list of Vector
        Vectors of K.
    aliases : list of Vector
        Vectors u with a·u = 0 on every pair; those of other blocks follow by symmetry.
    dimension : int or None
        Of K, over all coefficients.
    rank : int or None
        Of the design, the rows x̃, with the rows and places that show that it is no less.
    """

    reference: int
    statuses: list[str]
    prime: int
    basis: list[Pair]
    pivots: list[int]
    null: dict[int, Vector]
    bounds: list[dict[Pair, int]]
    bound_of: list[int]
    directions: list[Vector]
    aliases: list[Vector]
    dimension: int | None
    rank: int | None
    design_rows: list[int] = field(default_factory=list)
    design_places: list[int] = field(default_factory=list)


def check_estimates(said: Estimates, proof: Proof, data: Data, w: Vector) -> None:
    """Raise unless every status is shown; `w` is the direction of the proof, already checked."""
    space = Space(data, proof.family, proof.codes)
    forms = space.coefficients(said.reference)
    if len(said.statuses) != len(forms):
        raise ProofError(f"{len(said.statuses)} statuses; there are {len(forms)} coefficients")
    if not proof.complete:
        raise ProofError("estimates need a complete proof")
    _check_null(said, proof, space)
    _check_everywhere(said, proof, space)
    _check_dimensions(said, space)
    places = {p for s, (p, _) in zip(said.statuses, forms, strict=True) if s == "undetermined"}
    free_of_aliases = _without_aliases(said, space, places)
    directions = [w, *said.directions]
    bound_of = iter(said.bound_of)
    totals = [_total(bound, proof, space) for bound in said.bounds]
    for number, (status, (place, form)) in enumerate(zip(said.statuses, forms, strict=True)):
        require_time()
        if status in ("+inf", "-inf"):
            index = next(bound_of, None)
            shown = index is not None and 0 <= index < len(totals)
            sign = 1 if status == "+inf" else -1
            shown = shown and _is_multiple(said, space, form, totals[index or 0], sign)
        elif status == "finite":
            shown = not any(_on_null(said, form).values())
        elif status == "undetermined":
            signs = [_dot(form, direction) for direction in directions]
            shown = min(signs) < 0 < max(signs) and place in free_of_aliases
        elif status == "aliased":
            shown = any(u.get(place) for u in said.aliases)
        else:
            shown = status == "undecided"
        if not shown:
            name = _coefficient(number, said, proof, space)
            raise ProofError(f"the coefficient of {name} is not shown to be {status!r}")
    if next(bound_of, None) is not None:
        raise ProofError("the estimates have bounds for more coefficients than are infinite")


def _coefficient(number: int, said: Estimates, proof: Proof, space: Space) -> str:
    """What to call a coefficient, for messages."""
    block, place = divmod(number, space.width)
    if place < space.n_features:
        column = int(space.data.used[place])
        name = f"column {column}" if proof.names is None else repr(proof.names[column])
    else:
        name = "the intercept"
        if space.family.has_thresholds:
            name = "the threshold " + "|".join(proof.classes[place - space.n_features :][:2])
    if not space.family.has_reference or space.family.k == 2:
        return name
    label = [c for i, c in enumerate(proof.classes) if i != said.reference][block]
    return f"{name} for class {label[:40]!r}"


def _check_null(said: Estimates, proof: Proof, space: Space) -> None:
    """The basis pairs are regular boundary pairs, and the null vectors are orthogonal to them."""
    if not all(proof.is_boundary(pair) for pair in said.basis):
        raise ProofError("a pair of the estimates' basis is not a boundary pair")
    rows = [a for _, a in space.vectors(said.basis)]
    if not is_regular(rows, said.pivots, said.prime):
        raise ProofError("the basis of the estimates is not regular modulo its prime")
    known, pivots = set(said.pivots) | set(said.null), set(said.pivots)
    for free, v in said.null.items():
        if free in pivots or not v.get(free) or set(v) - pivots - {free}:
            raise ProofError(f"the null vector of coordinate {free} is not one of its own")
    for a in rows:
        require_time()
        if not known.issuperset(a) or any(_dot(v, a) for v in said.null.values()):
            raise ProofError("a null vector of the estimates is not orthogonal to the basis")


def _check_everywhere(said: Estimates, proof: Proof, space: Space) -> None:
    """One pass over all pairs: directions in K, aliases, and null vectors on the boundary."""
    needs_boundary = said.dimension is not None
    if len(said.pivots) == space.size:
        needs_boundary = False  # no span is larger
    if not (said.directions or said.aliases or needs_boundary):
        return
    known = set(said.pivots) | set(said.null)
    first = range(space.width)  # aliases are given in the first block
    is_sparse = not (said.directions or said.aliases or said.null)
    open_rows = space.rows_that_touch(set(range(space.size)) - known) if is_sparse else None
    for (i, j), a in space.every_vector(open_rows):
        require_time()
        if any(_dot(direction, a) < 0 for direction in said.directions):
            raise ProofError(f"row {i}, class {j}: a direction of the estimates leaves the cone")
        if any(_dot(u, a) for u in said.aliases):
            raise ProofError(f"row {i}, class {j}: an alias is not orthogonal to the pair")
        is_open = needs_boundary and proof.is_boundary((i, j))
        if is_open and (not known.issuperset(a) or any(_dot(v, a) for v in said.null.values())):
            raise ProofError(f"row {i}, class {j}: outside the span of the estimates' basis")
    if any(p not in first for u in said.aliases for p in u):
        raise ProofError("an alias has a coordinate outside the first block")


def _check_dimensions(said: Estimates, space: Space) -> None:
    """dim K = all coordinates less the rank of the boundary pairs; the rank of the design."""
    empty = (space.data.d - space.n_features) * space.family.n_blocks
    if said.dimension not in (None, space.size + empty - len(said.pivots)):
        raise ProofError(f"the dimension of the cone is not {str(said.dimension)[:20]}")
    if said.rank is None:
        return
    fit_intercept = space.family.fit_intercept
    some = space.data.some_rows(said.design_rows, fit_intercept)
    rows = [dict(zip(places, x, strict=True)) for places, x in some]
    is_least = is_regular(rows, said.design_places, said.prime)
    # independent vectors u: each has a coordinate that the ones before it lack
    seen: set[int] = set()
    for u in said.aliases:
        if not set(u) - seen:
            raise ProofError("the aliases are not given in an order that shows them independent")
        seen |= set(u)
    n_kept = space.data.n - len(space.data.left_out)
    most = min(space.n_features + fit_intercept - len(said.aliases), n_kept)
    if not is_least or said.rank != len(said.design_rows) or said.rank != most:
        raise ProofError(f"the rank of the design is not shown to be {str(said.rank)[:20]}")


def _without_aliases(said: Estimates, space: Space, places: set[int]) -> set[int]:
    """Which of some places of a block have u = 0 for all u with x̃·u = 0 on every row."""
    found = {p for p in places if not any(u.get(p) for u in said.aliases)}
    width = space.n_features + space.family.fit_intercept
    if not found or said.rank == width - len(said.aliases):  # there are no other u
        return found
    spanned = _in_row_space(space, {min(p, space.n_features) for p in found})
    return {p for p in found if min(p, space.n_features) in spanned}  # thresholds go together


def _in_row_space(space: Space, places: set[int]) -> set[int]:
    """The places whose unit vector is a sum of rows x̃."""
    seen: dict[tuple[int, ...], Vector] = {}
    for code, (at, x) in zip(space.codes, space.data.rows(space.family.fit_intercept), strict=True):
        if code >= 0:
            row = {c: v for c, v in zip(at, x, strict=True) if v}
            seen.setdefault((*row, *row.values()), row)
    rows = list(seen.values())
    null = short_null_vectors(rows, space.n_features + space.family.fit_intercept)
    if null is not None and all(_dot(u, row) == 0 for row in rows for u in null):
        return {p for p in places if not any(u.get(p) for u in null)}
    echelon: dict[int, Vector] = {}  # by first coordinate
    for row in rows:
        left = _eliminated(row, echelon)
        if left:
            echelon[min(left)] = left
    return {p for p in places if not _eliminated({p: 1}, echelon)}


def _eliminated(row: Vector, echelon: dict[int, Vector]) -> Vector:
    """What is left of a row, up to a factor, when those of an echelon are taken from it."""
    while row and (c := min(row)) in echelon:
        require_time()
        other = echelon[c]
        common = math.gcd(row[c], other[c])
        own, theirs = other[c] // common, row[c] // common
        both = {i: own * row.get(i, 0) - theirs * other.get(i, 0) for i in {*row, *other}}
        divisor = math.gcd(*both.values()) or 1
        row = {i: v // divisor for i, v in both.items() if v}
    return row


def _total(bound: dict[Pair, int], proof: Proof, space: Space) -> Vector:
    """Σ λ a over strict pairs."""
    if any(proof.is_boundary(pair) for pair in bound):
        raise ProofError("a bound of the estimates has weight on a boundary pair")
    total: Vector = {}
    for pair, a in space.vectors(list(bound)):
        for c, v in a.items():
            total[c] = total.get(c, 0) + bound[pair] * v
    return total


def _on_null(said: Estimates, form: Vector) -> Vector:
    """The values of a form on the basis of null vectors, those that are not zero."""
    pivots = set(said.pivots)
    values = {c: v for c, v in form.items() if c not in pivots and c not in said.null and v}
    for free, v in said.null.items():
        value = _dot(form, v)
        if value:
            values[free] = value
    return values


def _is_multiple(said: Estimates, space: Space, form: Vector, total: Vector, sign: int) -> bool:
    """Whether Σ λ a is a positive multiple of ±f on all null vectors, and not zero."""
    wanted, found = _on_null(said, form), _on_null(said, total)
    if not found or wanted.keys() != found.keys():
        return False
    first = next(iter(found))
    if sign * wanted[first] * found[first] <= 0:
        return False
    return all(found[c] * wanted[first] == wanted[c] * found[first] for c in found)


def _dot(first: Vector, second: Vector) -> int:
    if len(second) < len(first):
        first, second = second, first
    return sum(v * second.get(c, 0) for c, v in first.items())
