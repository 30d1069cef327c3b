"""What a coefficient does on the cone {t : C t ≥ 0}, proposed in floats.

The point of cone{c} nearest to a form g, Σ λ c with λ ≥ 0, leaves a residual r with C r ≤ 0 and
g·r = r·r. Where r is not zero, −r, moved a little towards the inside, is a direction against g;
where it is zero the λ are a bound, Σ λ c = g. Non-negative least squares find it, on few of the
rows at a time. Where rounding errors hide the answer a linear program is asked: the least value of
g on the part of the cone with |t| ≤ 1 is negative, or zero with multipliers λ. Either is only
proposed.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog, nnls

from momentron.arithmetic.clock import require_time, time_left

LARGEST = 4e6  # entries of C that are not zero, up to which a program is tried
LONGEST = 5.0  # seconds of one call; a quarter of those that are left if that is more
FLOPS = 5e8  # per second, of non-negative least squares
SPARSE = 0.2  # share of entries below which C is handed over as a sparse matrix
BITS = 40  # of the numbers of a proposed direction
CLEAR = 1e-7  # values of unit rows beyond this are not those of rounding errors
SHARES = 10.0 ** np.arange(-5, 0)  # of the inside in a direction, the least first
CENTRAL = 1e-3  # values of unit rows at a point inside that is far enough from all faces
NEGLIGIBLE = 1e-9  # multipliers below this share of the largest are rounding errors


def _projection(
    C: np.ndarray, g: np.ndarray, inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(−r, λ): the residual g − Σ λ c of the nearest point of cone{c}, with its sign changed.

    Begins with the rows that are least along `inside`, and adds those that −r violates.
    """
    n, size = C.shape
    chosen = np.argsort(C @ inside, kind="stable")[: 2 * size]
    while True:
        require_time()
        part = C[chosen]
        steps = min(3 * max(part.shape), int(_seconds() * FLOPS / (2.0 * part.size)))
        if steps < 1:
            return None
        try:
            found, _ = nnls(part.T, g, maxiter=steps)
        except RuntimeError:  # after so many steps
            return None
        t = part.T @ found - g
        multipliers = np.zeros(n)
        multipliers[chosen] = found
        sides = C @ t
        outside = np.setdiff1d(np.flatnonzero(sides < -NEGLIGIBLE * np.abs(t).max()), chosen)
        if not outside.size or np.linalg.norm(t) <= CLEAR * np.linalg.norm(g):
            return t, multipliers
        worst = outside[np.argsort(sides[outside], kind="stable")[:size]]
        chosen = np.union1d(chosen, worst)


def _seconds() -> float:
    """What one call may take, which nothing can interrupt."""
    left = time_left()
    return min(left, LONGEST if left == np.inf else max(LONGEST, left / 4))


class Programs:
    """The cone of some rows c, of length 1, and a point t with c·t > 0 on all of them."""

    def __init__(self, C: np.ndarray, inside: np.ndarray) -> None:
        top = np.abs(C).max(axis=0, initial=0.0)
        # powers of two, so that a direction is brought back without a rounding
        self.exponents = np.where(top > 0.0, np.frexp(top)[1], 0).astype(np.int64)
        scaled = np.ldexp(C, -self.exponents)
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        self.lengths = np.where(lengths > 0.0, lengths, 1.0)
        self.C = scaled / self.lengths
        inside = np.ldexp(inside, self.exponents)
        inside = inside / (np.abs(inside).max() or 1.0)
        n_entries = np.count_nonzero(self.C)
        self.is_small = n_entries <= LARGEST and bool(np.isfinite(inside).all())
        self.inside = self._centred(inside)
        self._found: dict[tuple[str, bytes], tuple[np.ndarray, np.ndarray] | None] = {}
        self._matrix = sp.csr_array(-self.C) if n_entries < SPARSE * C.size else -self.C

    def proposals(self, g: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(t, rows with λ > 0) by either method, the one that is faster for such rows first."""
        g = g + 0.0  # without −0
        methods = (self.nearest, self.least)
        for method in reversed(methods) if sp.issparse(self._matrix) else methods:
            key = method.__name__, g.tobytes()
            if key not in self._found:
                proposed = method(g)
                if proposed is not None:
                    proposed = proposed[0], self._support(proposed[1])
                self._found[key] = proposed
            if (found := self._found[key]) is not None:
                yield found

    def nearest(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(−r, λ) of the point of cone{c} nearest to g; None where that is not found."""
        form = self._scaled(g)
        if form is None or not self.is_small:
            return None
        found = _projection(self.C, form, self.inside)
        if found is None:
            return None
        t, multipliers = found
        if np.linalg.norm(t) <= CLEAR * np.linalg.norm(form):
            t = np.zeros(t.size)
        return t / (np.abs(t).max() or 1.0), multipliers / self.lengths.ravel()

    def _centred(self, inside: np.ndarray) -> np.ndarray:
        """A point inside that is far from all faces, if the one given is near to some.

        It is the point of the convex hull of the rows nearest to zero, v, with c·v ≥ v·v: with a
        last coordinate 1 for each row, the residual of (0, …, 0, 1) is (−v, ·) up to a factor.
        """
        if (self.C @ inside).min(initial=1.0) > CENTRAL or not self.is_small:
            return inside
        C = np.column_stack([self.C, np.ones(len(self.C))])
        found = _projection(C, np.eye(C.shape[1])[-1], np.append(inside, 0.0))
        if found is None or not (top := np.abs(found[0][:-1]).max()):
            return inside
        v = found[0][:-1] / top
        return v if (self.C @ v).min() > (self.C @ inside).min() else inside

    def _scaled(self, g: np.ndarray) -> np.ndarray | None:
        """A form in the coordinates of the rows, up to a factor; None if it is zero or too long."""
        scaled = np.ldexp(g, -self.exponents)
        top = np.abs(scaled).max()
        return scaled / top if 0.0 < top < np.inf else None

    def least(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(t, λ): where g is least, and the multipliers of the rows; None where it fails."""
        seconds = _seconds()
        form = self._scaled(g)
        if form is None or not self.is_small or seconds <= 0.0:
            return None
        found = linprog(
            form,
            A_ub=self._matrix,
            b_ub=np.zeros(len(self.C)),
            bounds=(-1.0, 1.0),
            method="highs",
            options={"time_limit": seconds},
        )
        if found.status != 0:
            return None
        return found.x, np.maximum(-found.ineqlin.marginals, 0.0) / self.lengths.ravel()

    def inward(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(whole numbers m, e) with m·2^e in the cone, near t; None where none is."""
        for share in SHARES:
            mixed = (1.0 - share) * t + share * self.inside
            if (self.C @ mixed).min(initial=1.0) > CLEAR:
                return np.rint(mixed * 2.0**BITS), -self.exponents
        return None

    def _support(self, multipliers: np.ndarray) -> np.ndarray:
        """The rows with a multiplier that is more than a rounding error."""
        return np.flatnonzero(multipliers > NEGLIGIBLE * multipliers.max(initial=0.0))
