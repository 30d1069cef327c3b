"""Proves which estimates are finite; the mathematics is in `verify.estimates`.

Null vectors of the boundary pairs give coordinates t of the space in which K has an interior, one
per free coordinate. There each strict pair is a vector c, and each coefficient a form g: it is
finite if g = 0, and infinite or undetermined according to whether g or −g lies in the cone of the
c's. Either g = Σ λ c with λ ≥ 0, a *bound*, or some t has c·t ≥ 0 for all of them and g·t < 0
(Farkas). The projection of g to that cone proposes which, for many coefficients at once; where
floats see too little, it is made in rational numbers.
"""

import math
import time
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import OutOfTime, require_time, time_left, until
from momentron.separability.cone import Cone
from momentron.separability.document import named_pairs
from momentron.separability.exact_weights import ExactWeights, Span, project_exactly, whole_weights
from momentron.separability.projection import DIRECTION_BITS, NotFound, Rows
from momentron.solvers.rational import PRIME, TooLarge, Vector, primitive, require_memory
from momentron.verify.limits import MAX_BASIS

FEWEST = 8  # coordinates t from which floats propose
LARGEST = 80  # coordinates t up to which rational numbers are asked
SHARE = 2 / 3  # of the time is for finding, what is left for verifying
PRODUCT_SECONDS = 4e-7  # of one product of two entries when directions are verified
FIRST = 40  # pairs to look at first, and how many are added at a time
LATE = "time ran out"


def why(error: Exception) -> str:
    """Why something is undecided: LATE, or what no more time would decide."""
    if isinstance(error, OutOfTime):
        return LATE
    return f"too large for exact arithmetic ({error})" if str(error) else "too little memory"


class EstimateProver:
    """The status of each coefficient, with what proves it; w > 0 off the boundary pairs.

    `section` makes that part of a proof. Then `reason` says why some coefficients are undecided:
    None if all are decided, and LATE if more time would help.
    """

    def __init__(self, cone: Cone, w: Vector, boundary: np.ndarray) -> None:
        self.cone, self.w = cone, [w.get(c, 0) for c in range(cone.n_coordinates)]
        self.strict = np.setdiff1d(np.arange(cone.size), boundary)
        self.basis = Span(cone.pairs, np.sort(boundary))
        self.design = Span(cone.design, cone.kept)
        size = max(self.basis.rows.size, self.design.rows.size)
        if size > MAX_BASIS:
            raise TooLarge(f"{size} independent rows; at most {MAX_BASIS} are read")
        self.free, self.null = self.basis.free, self.basis.null()
        # those of the others are unit vectors
        self.touched = [c for c in self.free if len(self.null[c]) > 1]
        self.aliases = list(self.design.null().values())
        for u in self.aliases:  # each threshold takes the intercept
            if cone.n_features in u:
                one = u[cone.n_features]
                u |= dict.fromkeys(range(cone.n_features, cone.width), one)
        # what is found by then is still to be verified
        self.start = time.perf_counter()
        self.moment = self.start + SHARE * time_left()
        self.directions: list[list[int]] = []
        self.bounds: list[ExactWeights] = []
        self.reason: str | None = None

    # --- the section of a proof ------------------------------------------------------------------

    def section(self) -> dict[str, Any]:
        cone, used = self.cone, self.cone.table.used
        statuses = self._statuses()
        n_empty = (cone.table.d - cone.n_features) * cone.family.n_blocks
        pairs = np.concatenate([self.strict[:0], *(bound.pairs for bound in self.bounds)])
        return {
            "reference": cone.reference,
            "used": used.tolist() if used.size < cone.table.d else None,
            "status": statuses,
            "prime": PRIME,
            "basis": named_pairs(cone, self.basis.rows),
            "pivots": self.basis.columns,
            "null": {"free": self.touched, **_flat([self.null[c] for c in self.touched])},
            "bounds": {
                "starts": np.cumsum([0, *(bound.pairs.size for bound in self.bounds)]).tolist(),
                **named_pairs(cone, pairs),
                "numerators": [hex(v) for bound in self.bounds for v in bound.numerators],
                "of": list(range(len(self.bounds))),
            },
            "directions": _flat([{c: v for c, v in enumerate(w) if v} for w in self.directions]),
            "aliases": _flat(self.aliases),
            "dimension": len(self.free) + n_empty,
            "rank": self.design.rows.size,
            "design": {"rows": self.design.rows.tolist(), "places": self.design.columns},
        }

    def _statuses(self) -> list[str]:
        """The status of each coefficient; the infinite ones have one bound each, in their order."""
        aliased = {place for u in self.aliases for place in u}
        statuses, waiting = [], dict[int, tuple[Vector, list[int]]]()
        coefficients = self.cone.family.coefficients(self.cone.n_features, self.cone.reference)
        for number, (_, place, form) in enumerate(coefficients):
            require_time()
            statuses.append("aliased" if place in aliased else "finite")
            g = self._reduced(form)
            if place not in aliased and any(g):
                waiting[number] = form, g
        if waiting and len(self.free) >= FEWEST:
            with suppress(OutOfTime, TooLarge), until(self.moment):
                G = np.array([self._rows.unit(g, is_form=True) for _, g in waiting.values()])
                G *= np.sign(G @ self._inside)[:, None]
                self._turn_sums(np.random.default_rng(0).permutation(G[np.any(G, axis=1)]))
        for number, (form, g) in waiting.items():
            try:
                statuses[number] = self._status(form, g)
            except (OutOfTime, TooLarge) as error:
                statuses[number] = "undecided"
                self.reason = self.reason if self.reason == LATE else why(error)
        return statuses

    # --- coordinates t ---------------------------------------------------------------------------

    def _reduced(self, form: Vector) -> list[int]:
        """A form, or the vector of a pair, on the null vectors: one number per free coordinate."""
        return [dot(self.null[free], form) for free in self.free]

    def _lifted(self, t: list[int]) -> list[int]:
        """The direction with coordinates t."""
        found = [0] * self.cone.n_coordinates
        for c, value in zip(self.free, t, strict=True):
            for at, v in self.null[c].items() if value else ():
                found[at] += value * v
        return found

    @cached_property
    def _rows(self) -> Rows:
        """The vectors c of strict pairs in floats."""
        cone, scale, size = self.cone, self.cone.scale, self.strict.size
        require_memory(32.0 * size * len(self.free), f"{size} strict pairs in floats")
        A, exponents = cone.rows.A[self.strict][:, self.free], cone.rows.exponents[self.free]
        C = A.toarray() if sp.issparse(A) else A
        for m in np.flatnonzero(np.isin(self.free, self.touched)).tolist():
            require_time()
            u = self.null[self.free[m]]
            values = cone.pairs.sides([u.get(c, 0) for c in range(cone.n_coordinates)], self.strict)
            top = max(map(abs, values), default=0)
            e = top.bit_length() - scale.bit_length()
            C[:, m] = [(v << max(0, -e)) / (scale << max(0, e)) for v in values]
            exponents[m] = e
        return Rows(C, exponents)

    @cached_property
    def _inside(self) -> np.ndarray:
        """w in the coordinates t: c·t > 0 on all strict pairs."""
        factor = math.lcm(*(self.null[c][c] for c in self.free))
        t = [self.w[c] * (factor // self.null[c][c]) for c in self.free]
        return self._rows.unit(t)

    # --- one coefficient -------------------------------------------------------------------------

    def _status(self, form: Vector, g: list[int]) -> str:
        """The status of a coefficient that is neither finite nor aliased."""
        directions = (self.w, *self.directions)
        signs = [sum(v * w[c] for c, v in form.items()) for w in directions]
        if not min(signs) < 0 < max(signs):
            if not self._has_room:
                raise OutOfTime
            sign = 1 if max(signs) > 0 else -1
            with until(self.moment):
                bound, t = self._decide([sign * v for v in g])
                if not any(signs):  # w is inside K, so that the form takes both signs near it
                    back = self._decide([-sign * v for v in g])[1]
                    self.directions.append(self._lifted(back))
            if bound is not None:
                self.bounds.append(bound)
                return "+inf" if sign > 0 else "-inf"
            self.directions.append(self._lifted(t))
        return "undetermined"

    @property
    def _has_room(self) -> bool:
        """Whether one more direction could still be verified in the time that is kept for it."""
        n_entries = self.cone.design.places.nnz * (2 if self.cone.k > 2 else 1)
        seconds = (len(self.directions) + 1.0) * n_entries * PRODUCT_SECONDS
        return seconds < (1.0 / SHARE - 1.0) * (self.moment - self.start)

    def _decide(self, g: list[int]) -> tuple[ExactWeights | None, list[int]]:
        """(λ with Σ λ c = g up to a factor, []) or (None, t with c·t ≥ 0, g·t < 0)."""
        chosen = np.zeros(0, np.int64)
        if len(self.free) >= FEWEST:
            t, chosen = self._proposed(self._rows.unit(g, is_form=True))
            if sum(map(int.__mul__, g, t)) < 0:
                return None, t
        while True:
            require_time()
            pairs = self.strict[chosen]
            points = [self._reduced(a) for a in self.cone.pairs.vectors(pairs)]
            weights, t = project_exactly(points, g)
            if not any(t):
                return whole_weights({int(pairs[i]): v for i, v in weights.items()}), []
            if len(self.free) > LARGEST:
                raise TooLarge(
                    f"{len(self.free)} coordinates; at most {LARGEST} are decided exactly"
                )
            outside = self._outside(t)
            if not outside:
                return None, t
            chosen = np.append(chosen, outside)

    def _outside(self, t: list[int]) -> list[int]:
        """Some strict pairs with c·t < 0, the worst first."""
        sides = self.cone.pairs.sides(self._lifted(t), self.strict)
        return sorted((i for i, s in enumerate(sides) if s < 0), key=sides.__getitem__)[:FIRST]

    # --- proposed in floats ----------------------------------------------------------------------

    def _proposed(self, g: np.ndarray) -> tuple[list[int], np.ndarray]:
        """(a proven t with c·t ≥ 0 on all strict pairs, near g·t < 0, or none; pairs of a bound).

        The projection of g to the cone of the c's shows which: if g is not in it, then along the
        way from g to its projection g falls, and no c does.
        """
        every = np.arange(self.strict.size)
        first = np.argsort(-self._rows.sides(g), kind="stable")[:FIRST]
        try:
            support, _, t = self._rows.project(g, every, first)
        except NotFound:
            return [], every[:0]
        if not t.any():
            return [], support
        distance = np.linalg.norm(t)
        t /= distance
        # half of what g falls along t is spent on the way inside, where roundings do no harm
        t += self._inside * min(1.0, 0.5 * distance / max(g @ self._inside, 1e-300))
        for bits in DIRECTION_BITS:
            whole = primitive(self._rows.whole(np.rint(t / np.abs(t).max() * 2.0**bits)))
            if not self._outside(whole):
                return whole, every[:0]
        return [], every[:0]

    def _turn_sums(self, G: np.ndarray) -> None:
        """Add directions along which sums of forms turn.

        A form that never turns may hide others in a sum: sums become shorter if none turns, and
        longer again after two that do.
        """
        size, lucky = len(G), 0
        while size > 1 and self._has_room:
            t, _ = self._proposed(G[:size].sum(axis=0))
            turned = G @ self._rows.unit(t) < 0.0 if t else np.zeros(len(G), bool)
            if turned.sum() > 1:
                self.directions.append(self._lifted(t))
                G, lucky = G[~turned], lucky + 1
                size = min(size * (1 + lucky % 2), len(G))
            else:
                size, lucky = size // 2, 1


def dot(first: Vector, second: Vector) -> int:
    if len(second) < len(first):
        first, second = second, first
    return sum(v * second.get(c, 0) for c, v in first.items())


def _flat(vectors: list[Vector]) -> dict[str, Any]:
    """Vectors as three lists: where each starts, coordinates, numbers."""
    entries = [sorted(vector.items()) for vector in vectors]
    return {
        "starts": np.cumsum([0, *map(len, entries)]).tolist(),
        "coordinates": [c for vector in entries for c, _ in vector],
        "numbers": [hex(v) for vector in entries for _, v in vector],
    }
