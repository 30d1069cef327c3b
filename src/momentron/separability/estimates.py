"""The fate of each coefficient, with its proof; the mathematics is in `verify.estimates`.

Null vectors of the boundary pairs give coordinates t of the space in which K has an interior, one
per free column. There each strict pair is a vector c, and each coefficient a form g: it is finite
where g = 0, and infinite or undetermined according to whether g or −g lies in the cone of the c's.
By Gordan's alternative 0 is in the convex hull of the c's and ∓g, or some t has c·t > 0 for all of
them and ±g·t < 0: floats propose which (`programs`), for many coefficients at a time, and else
Wolfe's algorithm decides in rational numbers, on few of the c's at a time.
"""

import math
import time
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import OutOfTime, require_time, time_left, until
from momentron.separability.cone import Cone, by_column, whole_multiples
from momentron.separability.programs import Programs
from momentron.separability.proof import named_pairs
from momentron.separability.spans import (
    dot,
    inner,
    minor,
    mixture,
    null_space,
    ratio_sign,
    unit_floats,
)
from momentron.separability.wolfe import even_lengths, minimum_norm_point
from momentron.solvers.rational.memory import TooLarge
from momentron.solvers.rational.systems import PRIME, independent, primitive, solve_whole
from momentron.verify.estimates import Space

Vector = dict[int, int]

FEWEST = 8  # coordinates t from which floats propose
LARGEST = 80  # coordinates t up to which Wolfe's algorithm is asked
SHARE = 2 / 3  # of the time is for finding, what is left for verifying
PRODUCT_SECONDS = 4e-7  # of one product of two entries when directions are verified
FIRST = 40  # pairs it begins with, and how many are added at a time
FEW_SINGLES = 4  # pairs that bound a coefficient by themselves, of which sums are tried
MANY_COSINES = 10_000_000  # of forms with pairs, beyond which none are computed for that
LATE = "time ran out"
LEAST_ALIASES = 12  # null vectors of a design up to which all are written


def find_estimates(
    cone: Cone, w: list[int], boundary: np.ndarray, reference: int = 0
) -> tuple[dict[str, Any], str | None]:
    """(the section `estimates` of a proof, why some are undecided); w > 0 off the boundary pairs.

    The reason is None where all are decided, and LATE where more time would help.
    """
    fates = _Fates(cone, w, boundary, reference)
    return fates.section(), fates.reason


def too_large(error: Exception) -> str:
    """Why something is undecided that no more time would decide."""
    return f"too large for exact arithmetic ({error})" if str(error) else "too little memory"


class _Fates:
    def __init__(self, cone: Cone, w: list[int], boundary: np.ndarray, reference: int) -> None:
        self.cone, self.reference = cone, reference
        self.w = {c: v for c, v in enumerate(w) if v}
        self.boundary = np.sort(boundary)
        self.strict = np.setdiff1d(np.arange(cone.size), self.boundary)
        self.space = Space(cone.data, cone.family, cone.codes.tolist())
        if self.strict.size > FIRST:
            cone.keep_whole_rows()
        self.basis, self.pivots = self._independent()
        self.null = self._null_vectors()
        taken = set(self.pivots)
        self.free = [c for c in range(cone.n_coordinates) if c not in taken]
        self.aliases, self.design = self._aliases()
        # what is found by then is still to be verified
        self.start = time.perf_counter()
        self.moment = self.start + SHARE * time_left()
        self.directions: list[Vector] = []
        self.bounds: list[tuple[list[int], list[int]]] = []
        self.totals: dict[tuple[int, ...], tuple[int, int]] = {}  # Σ λ c → (which bound, its sign)
        self.reason: str | None = None  # why some coefficients are undecided

    # --- the span of the boundary pairs, and of the design ---------------------------------------

    def _independent(self) -> tuple[list[int], list[int]]:
        """(pairs, coordinates): a regular minor of the boundary pairs, of full rank."""
        if self.boundary.size == 0:
            return [], []
        used = by_column(abs(self.cone.A[self.boundary]).max(axis=0))
        at, columns = minor(self.cone.residues, self.boundary, int(np.count_nonzero(used)))
        return at, self.cone.columns[columns].tolist()

    def _null_vectors(self) -> dict[int, Vector]:
        """Vectors orthogonal to the basis, one per free coordinate that the basis touches."""
        if not self.basis:
            return {}
        rows = [self.cone.vector(pair) for pair in self.basis]
        taken = set(self.pivots)
        touched = sorted({c for a in rows for c in a} - taken)
        return null_space(rows, self.pivots, touched)

    def _aliases(self) -> tuple[list[Vector], tuple[list[int], list[int]] | None]:
        """(null vectors of the design, the rows and places of a regular minor if rank is known)."""
        cone = self.cone
        kept = cone.kept
        width = cone.n_features + cone.fit_intercept
        top = None if sp.issparse(cone.X) else np.abs(cone.X[kept]).argmax(axis=0)  # rare dummies
        design = minor(cone.row_residues, kept, width, top)
        places = design[1]
        free = [p for p in range(width) if p not in set(places)]
        if not free:
            return [], design
        found = [dict(zip(*cone.whole_row(i), strict=True)) for i in design[0]]
        if len(free) > LEAST_ALIASES:
            mixed = {p: 1 + 7 * n for n, p in enumerate(free)}
            return [self._thresholds(mixture(found, places, mixed))], None
        null = null_space(found, places, free)
        return [self._thresholds(null[p]) for p in free], design

    def _thresholds(self, u: Vector) -> Vector:
        """A null vector of the design as one of all pairs: each threshold takes the intercept."""
        at = self.cone.n_features
        if at in u:
            u = u | {at + i: u[at] for i in range(self.cone.family.n_intercepts)}
        return u

    # --- one coefficient after the other ---------------------------------------------------------

    def section(self) -> dict[str, Any]:
        statuses, bound_of = self._statuses()
        pairs = np.array(self.basis, np.int64)
        n_empty = (self.cone.data.d - self.cone.n_features) * self.cone.family.n_blocks
        used = self.cone.data.used
        return {
            "reference": self.reference,
            "used": used.tolist() if used.size < self.cone.data.d else None,
            "status": statuses,
            "prime": PRIME,
            "basis": named_pairs(self.cone, pairs),
            "pivots": self.pivots,
            "null": {"free": list(self.null), **_flat(list(self.null.values()))},
            "bounds": self._flat_bounds(bound_of),
            "directions": _flat(self.directions),
            "aliases": _flat(self.aliases),
            "dimension": len(self.free) + n_empty,
            "rank": None if self.design is None else len(self.design[0]),
            "design": dict(zip(("rows", "places"), self.design or ([], []), strict=True)),
        }

    def _statuses(self) -> tuple[list[str], list[int]]:
        """(the status of each coefficient, for each infinite one the bound that shows it)."""
        aliased = {place for u in self.aliases for place in u}
        statuses, waiting = [], {}
        for number, (place, form) in enumerate(self.space.coefficients(self.reference)):
            require_time()
            statuses.append("aliased" if place in aliased else "finite")
            g = self._reduced(form)
            if place not in aliased and any(g):
                waiting[number] = (form, g)
        bounds = {}  # of single pairs, which are found at once
        for number, (_, g) in waiting.items():
            require_time()
            if (known := self._known_bound(g)) is not None:
                statuses[number], bounds[number] = known
        for number, known in self._sums_of_two(
            {n: g for n, (_, g) in waiting.items() if n not in bounds}
        ).items():
            statuses[number], bounds[number] = known
        open_ones = {n: forms for n, forms in waiting.items() if n not in bounds}
        if open_ones and len(self.free) >= FEWEST:
            self._turn_together(list(open_ones.values()))
        for number, (form, g) in open_ones.items():
            statuses[number], bound = self._fate(form, g)
            if bound is not None:
                bounds[number] = bound
        return statuses, [bounds[number] for number in sorted(bounds)]

    def _flat_bounds(self, bound_of: list[int]) -> dict[str, Any]:
        pairs = [pair for found, _ in self.bounds for pair in found]
        lengths = [len(found) for found, _ in self.bounds]
        return {
            "starts": np.cumsum([0, *lengths]).tolist(),
            **named_pairs(self.cone, np.array(pairs, np.int64)),
            "numerators": [hex(v) for _, weights in self.bounds for v in weights],
            "of": bound_of,
        }

    def _reduced(self, form: Vector) -> list[int]:
        """A form, or the vector of a pair, on the null vectors: one number per free coordinate."""
        return [
            dot(form, self.null[free]) if free in self.null else form.get(free, 0)
            for free in self.free
        ]

    def _fate(self, form: Vector, g: list[int]) -> tuple[str, int | None]:
        """(status, the bound that shows it) of a coefficient that is neither finite nor aliased."""
        signs = [dot(form, direction) for direction in (self.w, *self.directions)]
        if min(signs) < 0 < max(signs):
            return "undetermined", None
        along = max(signs) > 0 or -(min(signs) < 0)
        known = self._known_bound(g)
        if known is not None:
            return known
        if not self._has_room:
            self.reason = LATE
            return "undecided", None
        try:
            with until(self.moment):
                if along == 0:  # w is inside K, so that the form takes both signs near it
                    return self._around(form, g)
                bound, t = self._decide([int(along) * v for v in g])
        except OutOfTime:
            self.reason = LATE
            return "undecided", None
        except TooLarge as error:
            self.reason = self.reason or too_large(error)
            return "undecided", None
        if bound is not None:
            return ("+inf" if along > 0 else "-inf"), self._added(
                bound, [int(along) * v for v in g]
            )
        self.directions.append(self._lifted(t))
        return "undetermined", None

    def _known_bound(self, g: list[int]) -> tuple[str, int] | None:
        """A single pair whose vector is a multiple of the form, or a bound found before."""
        key, sign = _ray(g)
        if key in self.totals:
            index, of_total = self.totals[key]
            return ("+inf" if sign == of_total else "-inf"), index
        for pair in self._candidates(g):
            sign = ratio_sign(self._strict_vector(pair), g)
            if sign:
                found = self._added(([pair], [1]), [sign * v for v in g])
                return ("+inf" if sign > 0 else "-inf"), found
        return None

    def _sums_of_two(self, waiting: dict[int, list[int]]) -> dict[int, tuple[str, int]]:
        """Bounds by two pairs, one of which bounds another coefficient by itself.

        Such are the dummies of constant groups beside a constant baseline, the pair of which bounds
        the intercept: floats find the other pair, of all forms at once.
        """
        singles = [pairs[0] for pairs, _ in self.bounds if len(pairs) == 1][:FEW_SINGLES]
        if not waiting or not singles or len(waiting) * self.strict.size > MANY_COSINES:
            return {}
        C, numbers = self._in_floats(), list(waiting)
        G = np.array([unit_floats(g) for g in waiting.values()])
        signs = np.sign(G @ unit_floats(self._inside())).astype(np.int64)
        G *= signs[:, None]
        found: dict[int, tuple[str, int]] = {}
        for pair in singles:
            require_time()
            c = C[np.searchsorted(self.strict, pair)]
            cosines = _without(G, c) @ _without(C, c).T
            best = cosines.argmax(axis=1)
            near = cosines[np.arange(len(G)), best] > 1.0 - 1e-9
            for at in np.flatnonzero(near & (signs != 0)).tolist():
                number, sign = numbers[at], int(signs[at])
                if number in found:
                    continue
                g = [sign * v for v in waiting[number]]
                bound = self._solved(g, [pair, int(self.strict[best[at]])])
                if bound is not None:
                    found[number] = ("+inf" if sign > 0 else "-inf"), self._added(bound, g)
        return found

    def _added(self, bound: tuple[list[int], list[int]], total: list[int]) -> int:
        key, sign = _ray(total)
        self.totals[key] = len(self.bounds), sign
        self.bounds.append(bound)
        return len(self.bounds) - 1

    def _candidates(self, g: list[int]) -> list[int]:
        """A few strict pairs whose vectors, in floats, are as near to multiples as can be."""
        if self.strict.size == 0:
            return []
        C = self._in_floats()
        target = unit_floats(g)
        cosines = np.abs(C @ target) / (np.linalg.norm(target) or 1.0)
        best = np.flatnonzero(cosines > 1.0 - 1e-9)
        return self.strict[best[:3]].tolist()

    def _around(self, form: Vector, g: list[int]) -> tuple[str, None]:
        """Two directions on either side of w, along a null vector on which the form is not zero."""
        place = next(c for c, v in zip(self.free, g, strict=True) if v)
        v = self.null.get(place, {place: 1})
        factor = 1
        slopes = {pair: dot(self.cone.vector(pair), v) for pair in self.strict.tolist()}
        for pair, slope in slopes.items():
            require_time()
            side = dot(self.cone.vector(pair), self.w)
            factor = max(factor, 1 + abs(slope) // side)
        for sign in (1, -1):
            both = {c: factor * self.w.get(c, 0) + sign * v.get(c, 0) for c in {*self.w, *v}}
            self.directions.append({c: value for c, value in both.items() if value})
        return "undetermined", None

    @property
    def _has_room(self) -> bool:
        """Whether one more direction could still be verified in the time that is kept for it."""
        n_products = (len(self.directions) + 1.0) * self._n_entries
        return n_products * PRODUCT_SECONDS < (1.0 / SHARE - 1.0) * (self.moment - self.start)

    @cached_property
    def _n_entries(self) -> int:
        """How many entries all pairs have: the products that verify a direction."""
        A = self.cone.A
        return int(A.nnz if sp.issparse(A) else np.count_nonzero(A))

    # --- proposed in floats ----------------------------------------------------------------------

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self._in_floats(), unit_floats(self._inside()))

    def _turn_together(self, waiting: list[tuple[Vector, list[int]]]) -> None:
        """Directions along which many coefficients turn against w, one of them first of all."""
        G = np.array([unit_floats(g) for _, g in waiting])
        G *= np.sign(G @ unit_floats(self._inside()))[:, None]
        G = G[np.any(G != 0.0, axis=1)]
        G = np.random.default_rng(0).permutation(G)
        with suppress(OutOfTime), until(self.moment):
            self._turn_sums(self._turn_sums(G))

    def _turn_sums(self, G: np.ndarray) -> np.ndarray:
        """Add directions along which sums of forms turn; those that turn without any other.

        A form that never turns may hide others in a sum: sums become shorter where none turns, and
        longer again after two that do. The forms that turn alone are worth another round, without
        those that do not turn at all.
        """
        alone, size, lucky = [], len(G), 0
        while len(G) > 1 and self._has_room:
            t, turned = self._turn(G[:size].sum(axis=0), G)
            if turned.sum() > 1:
                self.directions.append(self._lifted(t))
                lucky += 1
                size = min(size * (1 + lucky % 2), int((~turned).sum()))
            elif size > 1:
                size, lucky = size // 2, 1
                continue
            else:
                alone += [G[0]] * bool(turned[0])
                turned[:] = np.arange(len(G)) == 0
            G = G[~turned]
        return np.array(alone)

    def _turn(self, g: np.ndarray, G: np.ndarray) -> tuple[list[int], np.ndarray]:
        """(a proven direction against g, which of the forms turn along it)."""
        require_time()
        found = next(self._programs.proposals(g), None)
        t = self._proven(found[0]) if found is not None else None
        if t is None:
            return [], np.zeros(len(G), bool)
        return t, G @ unit_floats(t) < 0.0

    def _proven(self, t: np.ndarray) -> list[int] | None:
        """Whole numbers near a proposed t with c·t > 0 for all strict pairs, if there are any."""
        near = self._programs.inward(t)
        if near is None:
            return None
        whole = primitive(whole_multiples(*near))
        return None if self._outside(self._in_floats(), whole, []) else whole

    def _by_program(
        self, g: list[int]
    ) -> tuple[tuple[list[int], list[int]] | None, list[int]] | None:
        """What `_decide` returns, proposed in floats; None where it is not proven."""
        for found in self._programs.proposals(unit_floats(g)):
            require_time()
            t = self._proven(found[0])
            if t is not None and inner(g, t) < 0:
                return None, t
            bound = self._solved(g, self.strict[found[1]].tolist())
            if bound is not None:
                return bound, []
        return None

    def _solved(self, g: list[int], pairs: list[int]) -> tuple[list[int], list[int]] | None:
        """(pairs, λ > 0) with Σ λ c = g up to a factor on independent ones of some pairs."""
        points = [self._strict_vector(pair) for pair in pairs]
        touched = [c for c, column in enumerate(zip(*points, strict=True)) if any(column)]
        vectors = [{i: point[c] for i, c in enumerate(touched) if point[c]} for point in points]
        chosen, at = independent(vectors, len(touched))
        coordinates = [touched[i] for i in at]
        matrix = [[points[i][c] for i in chosen] for c in coordinates]
        try:
            weights, factor = solve_whole(matrix, [g[c] for c in coordinates])
        except ZeroDivisionError:
            return None
        columns = zip(*(points[i] for i in chosen), strict=True)
        sums = [sum(map(int.__mul__, weights, column)) for column in columns]
        if min(weights, default=-1) < 0 or sums != [factor * v for v in g]:
            return None
        kept = sorted((pairs[i], v) for i, v in zip(chosen, weights, strict=True) if v)
        return [pair for pair, _ in kept], primitive([v for _, v in kept])

    # --- decided in rational numbers -------------------------------------------------------------

    def _decide(self, g: list[int]) -> tuple[tuple[list[int], list[int]] | None, list[int]]:
        """((pairs, λ) with Σ λ c = g up to a factor, []) or (None, t with c·t > 0, g·t < 0)."""
        found = self._by_program(g) if len(self.free) >= FEWEST else None
        if found is not None:
            return found
        if len(self.free) > LARGEST:
            raise TooLarge(f"{len(self.free)} coordinates; at most {LARGEST} are decided exactly")
        C = self._in_floats()
        order = np.argsort(C @ unit_floats(self._inside()), kind="stable")
        chosen = order[:FIRST].tolist()
        while True:
            require_time()
            points = [self._strict_vector(int(self.strict[i])) for i in chosen]
            even, factors = even_lengths([*points, [-v for v in g]])
            weights, t = minimum_norm_point(even)
            if not any(t):
                whole = {i: weight * factors[i] for i, weight in weights.items()}
                whole.pop(len(points))
                common = math.lcm(*(v.denominator for v in whole.values()))
                at = sorted(whole, key=lambda i: chosen[i])
                numbers = primitive([int(whole[i] * common) for i in at])
                return ([int(self.strict[chosen[i]]) for i in at], numbers), []
            outside = self._outside(C, t, chosen)
            if not outside:
                return None, t
            chosen += outside

    def _outside(self, C: np.ndarray, t: list[int], chosen: list[int]) -> list[int]:
        """Some strict pairs with c·t ≤ 0, the worst first; near zero exact numbers decide."""
        sides = C @ unit_floats(t)
        near = np.flatnonzero(sides < 1e-9)
        inside = set(chosen)
        found = []
        for i in near[np.argsort(sides[near], kind="stable")].tolist():
            require_time()
            if i in inside:
                continue
            if sides[i] < -1e-9 or inner(self._strict_vector(int(self.strict[i])), t) <= 0:
                found.append(i)
            if len(found) == FIRST:
                break
        return found

    def _inside(self) -> list[int]:
        """w in the coordinates t, up to a positive factor."""
        factor = math.lcm(*(self.null[c][c] for c in self.free if c in self.null))
        return [
            self.w.get(c, 0) * (factor // self.null[c][c] if c in self.null else factor)
            for c in self.free
        ]

    def _lifted(self, t: list[int]) -> Vector:
        """The direction with coordinates t."""
        found: dict[int, int] = {}
        for c, value in zip(self.free, t, strict=True):
            if value:
                for at, v in self.null.get(c, {c: 1}).items():
                    found[at] = found.get(at, 0) + value * v
        return {c: v for c, v in sorted(found.items()) if v}

    def _strict_vector(self, pair: int) -> list[int]:
        return self._reduced(self.cone.vector(pair))

    def _in_floats(self) -> np.ndarray:
        """The vectors c of the strict pairs as rows of length 1."""
        if not hasattr(self, "_floats"):
            self._floats = np.empty((self.strict.size, len(self.free)))
            for i, pair in enumerate(self.strict.tolist()):
                require_time()
                self._floats[i] = unit_floats(self._strict_vector(pair))
        return self._floats


def _without(rows: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The parts of some rows that are orthogonal to c, of length 1; zero where there is none."""
    parts = rows - np.outer(rows @ c, c)
    lengths = np.linalg.norm(parts, axis=1, keepdims=True)
    return np.where(lengths > 1e-6, parts / np.maximum(lengths, 1e-6), 0.0)


def _ray(g: list[int]) -> tuple[tuple[int, ...], int]:
    """(the shortest multiple of a vector whose first entry is positive, the sign of the factor)."""
    sign = 1 if next(v for v in g if v) > 0 else -1
    return tuple(primitive([sign * v for v in g])), sign


def _flat(vectors: list[Vector]) -> dict[str, Any]:
    """Vectors as three lists: where each starts, coordinates, numbers."""
    entries = [sorted(vector.items()) for vector in vectors]
    return {
        "starts": np.cumsum([0, *map(len, entries)]).tolist(),
        "coordinates": [c for vector in entries for c, _ in vector],
        "numbers": [hex(v) for vector in entries for _, v in vector],
    }
