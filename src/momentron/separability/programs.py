"""Linear programs in floats that propose what a coefficient does on the cone {t : C t ≥ 0}.

The least value of a form g on the part of the cone with |t| ≤ 1 is negative or zero. Where it is
negative its place, moved a little towards the inside, is a direction against g; where it is zero
the multipliers of the rows are weights λ ≥ 0 with Σ λ c = g. Either is only proposed.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from momentron.clock import time_left

LARGEST = 4e6  # entries of C that are not zero, up to which a program is tried
LONGEST = 5.0  # seconds of one program, at most
SPARSE = 0.2  # share of entries below which C is handed over as a sparse matrix
BITS = 40  # of the numbers of a proposed direction
CLEAR = 1e-7  # values of unit rows beyond this are not those of rounding errors
SHARES = 10.0 ** np.arange(-5, 0)  # of the inside in a direction, the least first
NEGLIGIBLE = 1e-9  # multipliers below this share of the largest are rounding errors


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
        self.inside = inside / (np.abs(inside).max() or 1.0)
        n_entries = np.count_nonzero(self.C)
        self.is_small = n_entries <= LARGEST and bool(np.isfinite(self.inside).all())
        self._matrix = sp.csr_array(-self.C) if n_entries < SPARSE * C.size else -self.C

    def least(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(t, λ): where g is least, and the multipliers of the rows; None where it fails."""
        seconds = min(time_left(), LONGEST)
        if not self.is_small or seconds <= 0.0:
            return None
        g = np.ldexp(g, -self.exponents)
        top = np.abs(g).max()
        if not 0.0 < top < np.inf:
            return None
        found = linprog(
            g / top,
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

    def support(self, multipliers: np.ndarray) -> np.ndarray:
        """The rows with a multiplier that is more than a rounding error."""
        return np.flatnonzero(multipliers > NEGLIGIBLE * multipliers.max(initial=0.0))
