"""The section `estimates` of a proof: what becomes of each coefficient.

K = {w : s ≥ 0 on every pair}. Every sequence that approaches the supremum of the likelihood has
bounded a·w on the boundary pairs B and a·w → +∞ on all other pairs, the *strict* ones. So the
coefficient that a linear form f reads off w is

- *finite* if f lies in the span of B;
- *+inf* if f = Σ λ a + (something in the span of B) with λ ≥ 0 on strict pairs, λ ≠ 0, and *-inf*
  if −f is such a sum;
- *undetermined* if two directions of K show f·w > 0 and f·w < 0, and it is not aliased;
- *aliased* if some u with a·u = 0 on every pair has f·u ≠ 0: the data do not know it.

Exactly one of these holds: a form that is finite or infinite is a sum of vectors a, so that u
vanishes on it. All u are known if the rank of the design is, since in every family they are those
with x̃·u = 0 on every row in each block.

The span of B is handled by its complement. A proof names r boundary pairs and r coordinates in
which they are regular modulo a prime. The vectors orthogonal to these pairs then have the dimension
that is left, and a basis of them, one vector per other coordinate, is written out (unit vectors
are not). A form lies in the span exactly if it vanishes on that basis.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from momentron.verify.proof import LEFT_OUT, Pair, Proof, Refused, Vector, integer, require_indices

STATUSES = ("finite", "+inf", "-inf", "undetermined", "aliased", "undecided")
PRIMES = (8388593, 8388587, 8388581)  # below 2^23: float64 holds sums of 2^6 products of residues
PANEL = 64  # columns that are eliminated at a time


class Estimates:
    """The section `estimates` of a proof: the status of each coefficient."""

    def __init__(self, said: dict[str, Any], proof: Proof) -> None:
        self.proof, table = proof, proof.table
        self.statuses, self.prime = said["status"], said["prime"]
        if type(self.statuses) is not list or not all(s in STATUSES for s in self.statuses):
            raise Refused(f"a status of the estimates is not one of {list(STATUSES)}")
        if self.prime not in PRIMES:
            raise Refused(f"prime is {str(self.prime)[:20]}; it must be one of {list(PRIMES)}")
        used = said["used"] and require_indices(said["used"], table.d)
        if used != (table.used.tolist() if table.used.size < table.d else None):
            raise Refused("the columns that the estimates use are not those that hold anything")
        self.basis = proof.read_pairs(said["basis"]) if said["pivots"] else []
        self.pivots = require_indices(said["pivots"], proof.size)
        free = require_indices(said["null"]["free"], proof.size)
        null = self._vectors(said["null"])
        if len(set(free)) < len(free) or len(free) != len(null):
            raise Refused("there must be one null vector for each of its coordinates")
        self.null = dict(zip(free, null, strict=True))
        self.known = set(self.pivots) | set(self.null)
        self.bounds = self._bounds(said["bounds"])
        self.bound_of = require_indices(said["bounds"]["of"], len(self.bounds))
        self.directions = self._vectors(said["directions"])
        self.aliases = self._vectors(said["aliases"])
        self.reference = require_indices([said["reference"]], proof.model.k)[0]
        self.dimension, self.rank = said["dimension"], said["rank"]
        if {type(self.dimension), type(self.rank)} - {int, type(None)}:
            raise Refused("dimension and rank must be null or integers")
        self.design_rows = require_indices(said["design"]["rows"], table.n)
        self.n_places = proof.n_features + proof.model.fit_intercept
        self.design_places = require_indices(said["design"]["places"], self.n_places)

    def _vectors(self, found: dict[str, Any]) -> list[Vector]:
        """Integers by coordinate, zeros left out."""
        at, texts = require_indices(found["coordinates"], self.proof.size), found["numbers"]
        vectors = []
        for piece in _between(found["starts"], at, texts):
            values = dict(zip(at[piece], map(integer, texts[piece]), strict=True))
            if len(values) < len(at[piece]):
                raise Refused("a vector of the estimates names a coordinate twice")
            vectors.append({c: v for c, v in values.items() if v})
        return vectors

    def _bounds(self, found: dict[str, Any]) -> list[dict[Pair, int]]:
        """Positive weights on strict pairs."""
        rows, others, texts = found["rows"], found["others"], found["numerators"]
        bounds = []
        for piece in _between(found["starts"], rows, others, texts):
            group = {"rows": rows[piece], "others": others[piece], "numerators": texts[piece]}
            weights = self.proof.read_group(group | {"denominator": "0x1"}).numerators
            if self.proof.on_boundary & weights.keys():
                raise Refused("a bound of the estimates has weight on a boundary pair")
            bounds.append(weights)
        return bounds

    def forms(self) -> list[tuple[str, int, Vector]]:
        """(name, place in a block, form f) of each coefficient, class by class; w_0 = 0."""
        proof, width, found = self.proof, self.proof.width, []
        own = proof.names and [repr(name) for name in proof.names]
        names = [own[c] if own else f"column {c}" for c in proof.table.used.tolist()]
        if proof.model.family == "ordinal":
            names += [f"the threshold {a}|{b}" for a, b in pairwise(proof.classes)]
        elif proof.model.fit_intercept:
            names.append("the intercept")
        if not proof.model.is_simple:  # a threshold is minus its intercept
            last = -1 if proof.model.family == "ordinal" else 1
            signs = [1] * proof.n_features + [last] * proof.model.n_intercepts
            return [(names[p], p, {p: signs[p]}) for p in range(width)]
        for c, label in enumerate(proof.classes):
            for p in range(width) if c != self.reference else ():
                form = {(c - 1) * width + p: 1} if c else {}
                if self.reference:
                    form[(self.reference - 1) * width + p] = -1
                name = names[p] if proof.model.k == 2 else f"{names[p]} for class {label[:40]!r}"
                found.append((name, p, form))
        return found

    def check(self) -> None:
        """Raise unless every status is shown."""
        forms = self.forms()
        if len(self.statuses) != len(forms):
            raise Refused(f"{len(self.statuses)} statuses; there are {len(forms)} coefficients")
        if not self.proof.complete:
            raise Refused("estimates need a complete proof")
        self._check_null()
        self._check_everywhere()
        self._check_dimensions()
        directions = [self.proof.w, *self.directions]
        bound_of, totals = iter(self.bound_of), [self.proof.total(b) for b in self.bounds]
        knows_aliases = self.rank == self.n_places - len(self.aliases)
        for status, (name, place, form) in zip(self.statuses, forms, strict=True):
            self.proof.table.tick(0.0)
            is_aliased = any(u.get(place) for u in self.aliases)
            if status in ("+inf", "-inf"):
                index = next(bound_of, None)
                sign = 1 if status == "+inf" else -1
                shown = index is not None and self._is_multiple(form, totals[index], sign)
            elif status == "finite":
                shown = not self.on_null(form)
            elif status == "undetermined":
                signs = [_dot(form, direction) for direction in directions]
                shown = min(signs) < 0 < max(signs) and knows_aliases and not is_aliased
            else:
                shown = is_aliased or status == "undecided"
            if not shown:
                raise Refused(f"the coefficient of {name} is not shown to be {status!r}")
        if next(bound_of, None) is not None:
            raise Refused("the estimates have bounds for more coefficients than are infinite")

    def _check_null(self) -> None:
        """The basis pairs are regular boundary pairs, with the null vectors orthogonal to them."""
        if not self.proof.on_boundary.issuperset(self.basis):
            raise Refused("a pair of the estimates' basis is not a boundary pair")
        rows, pivots = list(self.proof.vectors(self.basis).values()), set(self.pivots)
        if not is_regular(rows, self.pivots, self.prime, self.proof.table.tick):
            raise Refused("the basis of the estimates is not regular modulo its prime")
        for free, v in self.null.items():
            if free in pivots or not v.get(free) or set(v) - pivots - {free}:
                raise Refused(f"the null vector of coordinate {free} is not one of its own")
        for a in rows:
            self.proof.table.tick(0.0)
            if not self.known.issuperset(a) or any(_dot(v, a) for v in self.null.values()):
                raise Refused("a null vector of the estimates is not orthogonal to the basis")

    def _check_everywhere(self) -> None:
        """One pass over all pairs: directions in K, aliases, and null vectors on the boundary."""
        proof = self.proof
        if any(c >= proof.width for u in self.aliases for c in u):
            raise Refused("an alias has a coordinate outside the first block")
        needs_span = self.dimension is not None and len(self.pivots) < proof.size
        if needs_span and not self.known.issuperset(proof.coordinates(proof.on_boundary)):
            raise Refused("a boundary pair is outside the span of the estimates' basis")
        null = list(self.null.values()) if needs_span else []
        if not (self.directions or self.aliases or null):
            return
        n, m = len(self.directions), len(self.directions) + len(self.aliases)
        for rows, j, values in proof.sides([*self.directions, *self.aliases, *null]):
            if any((s < 0).any() for s in values[:n]):
                raise Refused(f"class {j}: a direction of the estimates leaves the cone")
            if any((s != 0).any() for s in values[n:m]):
                raise Refused(f"class {j}: an alias is not orthogonal to a pair")
            for s in values[m:]:
                if any((i, j) in proof.on_boundary for i in rows[s != 0].tolist()):
                    raise Refused(f"class {j}: a pair is outside the span of the estimates' basis")

    def _check_dimensions(self) -> None:
        """dim K = all coordinates less the rank of the boundary pairs; the rank of the design."""
        proof, table = self.proof, self.proof.table
        empty = (table.d - proof.n_features) * proof.model.n_blocks
        if self.dimension not in (None, proof.size + empty - len(self.pivots)):
            raise Refused(f"the dimension of the cone is not {str(self.dimension)[:20]}")
        if self.rank is None:
            return
        if (proof.codes[self.design_rows] == LEFT_OUT).any():
            raise Refused("a row of the design is left out")
        rows, one = [], {proof.n_features: table.scale} if proof.model.fit_intercept else {}
        for _, ends, places, x in table.pieces(np.array(self.design_rows, np.int64)):
            for start, stop in pairwise(ends.tolist()):
                row = dict(zip(places[start:stop].tolist(), x[start:stop].tolist(), strict=True))
                rows.append(row | one)
        is_least = is_regular(rows, self.design_places, self.prime, table.tick)
        seen: set[int] = set()
        for u in self.aliases:  # independent: each has a coordinate that no earlier one has
            if not set(u) - seen:
                raise Refused("the aliases are not in an order that shows them independent")
            seen |= set(u)
        most = min(self.n_places - len(self.aliases), table.n - len(table.left_out))
        if not is_least or self.rank != len(self.design_rows) or self.rank != most:
            raise Refused(f"the rank of the design is not shown to be {str(self.rank)[:20]}")

    def on_null(self, form: Vector) -> Vector:
        """The values of a form on the basis of null vectors, those that are not zero."""
        values = {c: v for c, v in form.items() if c not in self.known and v}
        for free, v in self.null.items():
            if value := _dot(form, v):
                values[free] = value
        return values

    def _is_multiple(self, form: Vector, total: Vector, sign: int) -> bool:
        """Whether Σ λ a is a positive multiple of ±f on all null vectors, and not zero."""
        wanted, found = self.on_null(form), self.on_null(total)
        if not found or wanted.keys() != found.keys():
            return False
        first = next(iter(found))
        if sign * wanted[first] * found[first] <= 0:
            return False
        return all(found[c] * wanted[first] == wanted[c] * found[first] for c in found)


def _between(starts: Any, *lists: Any) -> list[slice]:
    """Which entries of some lists, of equal lengths, belong to which vector."""
    require_indices(starts, len(lists[0]) + 1)
    are_lists = {*map(type, lists)} == {list} and {*map(len, lists)} == {*starts[-1:]}
    if not are_lists or starts[0] != 0 or sorted(starts) != starts:
        raise Refused("the starts of some vectors do not fit their entries")
    return [slice(a, b) for a, b in pairwise(starts)]


def is_regular(
    rows: list[Vector], columns: list[int], prime: int, tick: Callable[[float], None]
) -> bool:
    """Whether these columns of as many rows are a regular matrix modulo a prime.

    A determinant of integers that is not zero modulo the prime is not zero. Gauss's elimination, on
    integers in float64: a product of two residues is below 2^46, and PANEL of them are added.
    """
    place = {c: m for m, c in enumerate(columns)}
    if not len(rows) == len(columns) == len(place):
        return False
    K = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for c, v in row.items():
            if c in place:
                K[i, place[c]] = v % prime
    for start in range(0, len(K), PANEL):
        tick(0.0)
        stop = min(start + PANEL, len(K))
        for j in range(start, stop):
            nonzero = np.flatnonzero(K[j:, j])
            if not nonzero.size:
                return False
            pivot = j + int(nonzero[0])
            K[[j, pivot]] = K[[pivot, j]]
            K[j + 1 :, j] = K[j + 1 :, j] * pow(int(K[j, j]), -1, prime) % prime
            rest = slice(j + 1, stop)
            K[j + 1 :, rest] = (K[j + 1 :, rest] - np.outer(K[j + 1 :, j], K[j, rest])) % prime
        for j in range(start, stop):
            below = slice(j + 1, stop)
            K[below, stop:] = (K[below, stop:] - np.outer(K[below, j], K[j, stop:])) % prime
        K[stop:, stop:] = (K[stop:, stop:] - K[stop:, start:stop] @ K[start:stop, stop:]) % prime
    return True


def _dot(first: Vector, second: Vector) -> int:
    if len(second) < len(first):
        first, second = second, first
    return sum(v * second.get(c, 0) for c, v in first.items())
