"""Many classes by alternating directions, where inner products of all examples are in memory.

The weights α of the pairs are a table B of shape (n, k) with B_ij = −α_ij for a wrong label j and
B_ic = Σ_j α_ij for the own one. The dual problem

    min ½ tr(BᵀKB) − Σ_i B_ic    over    {B_ij ≤ 0 for j ≠ c, each row adds up to zero}

is a quadratic that knows nothing of labels, on a set that knows nothing of K. Alternating
directions (Boyd et al. 2011, section 5.2) treat them in turn,

    B = (K + ρI)⁻¹(E + ρ(Z − U)),    Z = projection of B + U,    U ← U + B − Z,

with E one at the own labels: a solve with a matrix that is factored once, in single precision,
and a threshold for each row. With intercepts the columns of B add up to zero as well, and their
multipliers are the intercepts. With slack the objective has Σα²/(2C) as well, which goes with the
set: weights are ρC/(1 + ρC) of what the projection would make them. B is the better
classifier, Z the better weights. It takes a hundred or two of these steps where most pairs matter,
and no set of them is worth guessing.
"""

import math

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.linear_algebra import add_to_diagonal
from momentron.arithmetic.squares import Factor, factor_in_place, strips_of
from momentron.arithmetic.threads import in_threads, own_threads
from momentron.dual.labels import ManyClasses

SINGLE = np.float32
RELAXATION = 1.8  # over-relaxation
GROWTH, LARGEST = 10.0, 1e9  # of ρ where rounding leaves no inverse, and of itself
FLOPS_OF_A_PASS = 400.0  # as many as all that is done to an entry of a table in one step


class ShiftedInverse:
    """The inverse of K/unit + ρI by a factor, where `unit` is the mean of K's diagonal.

    A `base`, that of the first rows and columns of K, saves most of the work; its ρ and its unit
    are taken over. `sums` are those of the rows.
    """

    def __init__(self, K: np.ndarray, rho: float, base: "ShiftedInverse | None" = None) -> None:
        self.unit: float = base.unit if base else float(K.diagonal().mean()) or 1.0
        self.rho: float = base.rho if base else rho
        L = self._bordered(K, base.factor if base else None)
        while L is None:  # rounding has made it indefinite
            if self.rho > LARGEST:
                raise np.linalg.LinAlgError("inner products that are not positive semidefinite")
            self.rho *= GROWTH
            L = self._bordered(K, None)
        self.factor: Factor = Factor(L)
        self.sums = self.factor.solve(np.ones((K.shape[0], 1)))[:, 0]

    def _bordered(self, K: np.ndarray, base: Factor | None) -> np.ndarray | None:
        """The factor, from that of a leading block if there is one, if that goes well.

        Below the block's L is Yᵀ with LY = B, the columns next to the block; then comes the factor
        of what YᵀY leaves of K.
        """
        n, m = K.shape[0], 0 if base is None else base.L.shape[0]
        if base is not None and m == n:
            return base.L
        G = np.divide(K[m:, m:], self.unit, out=np.empty((n - m, n - m), SINGLE)).T
        add_to_diagonal(G, self.rho)
        L = G
        if base is not None:
            L = np.empty((n, n), SINGLE, order="F")
            Y = (K[:m, m:] / self.unit).astype(SINGLE)
            base.substitute(Y)
            G -= Y.T @ Y
            L[:m, :m], L[m:, :m] = base.L, Y.T
        L[m:, m:], exists = factor_in_place(G)
        return L if exists else None


class Splitting:
    """B, Z and U, in the units of the inverse, and the intercepts b; C may be one per example."""

    def __init__(
        self, inverse: ShiftedInverse, labels: ManyClasses, C: float | np.ndarray = math.inf
    ) -> None:
        self.inverse, self.labels = inverse, labels
        self.shape = n, k = labels.codes.size, labels.n_classes
        # how much of a step slack leaves: all of it where there is none
        holds = 1.0 / (1.0 + 1.0 / inverse.rho / inverse.unit / np.ravel(C))
        self._holds = np.broadcast_to(holds.astype(SINGLE), n)[:, None]
        self.b = np.zeros(k)
        self._target = np.full((n, k), -1.0 / k, SINGLE)
        self._target[np.arange(n), labels.codes] += 1.0
        self._defect, self._Z, self._U, self._B = (np.zeros((n, k), SINGLE) for _ in range(4))
        self._right = self._target

    def go_to(self, weights: np.ndarray, outputs: np.ndarray) -> None:
        """Begin at weights of the pairs, and at outputs that belong to them."""
        self._Z = (-self.inverse.unit * self.labels.mix(weights)).astype(SINGLE)
        rest = self._target - outputs
        self._U = ((rest - rest.mean(axis=1, keepdims=True)) / self.inverse.rho).astype(SINGLE)

    def advance(self, steps: int) -> None:
        """So many steps."""
        inverse, rho, (n, k) = self.inverse, SINGLE(self.inverse.rho), self.shape
        parts = strips_of(0, n, -(-n // own_threads(FLOPS_OF_A_PASS * self._Z.size)))
        for _ in range(steps):
            require_time()
            self._right = self._target + self._defect + rho * (self._Z - self._U)
            self._B = inverse.factor.solve(self._right)
            if self.labels.fit_intercept:
                b = self._B.sum(axis=0, dtype=np.float64) / inverse.sums.sum(dtype=np.float64)
                self.b = b - b.sum() / k
                self._B -= np.outer(inverse.sums, self.b.astype(SINGLE))
            in_threads(self._project, parts)

    def _project(self, rows: slice) -> None:
        """Z and U of some rows, by the t with t = v_c − hold · Σ_j max(0, t − v_j)."""
        over, hold = SINGLE(RELAXATION), self._holds[rows]
        V = over * self._B[rows] + (SINGLE(1.0) - over) * self._Z[rows] + self._U[rows]
        own = np.arange(V.shape[0]), self.labels.codes[rows]
        first, rest = V[own], V.copy()
        rest[own] = np.inf
        # t is the least that any number of the smallest v_j would give
        sums = np.sort(rest, axis=1)[:, :-1].cumsum(axis=1)
        counts = np.arange(1, self.shape[1], dtype=SINGLE)
        levels = ((first[:, None] + hold * sums) / (SINGLE(1.0) + hold * counts)).min(axis=1)
        level = np.minimum(first, levels)[:, None]
        Z = np.minimum(rest - level, 0.0) * hold
        Z[own] = -Z.sum(axis=1)
        self._U[rows], self._Z[rows] = V - Z, Z

    def coefficients(self) -> np.ndarray:
        """Those of the examples in the classifier, as float64."""
        B = self._B.astype(np.float64)
        B -= B.mean(axis=1, keepdims=True)
        return B / self.inverse.unit

    def weights(self) -> np.ndarray:
        """Those of the pairs."""
        return self.labels.from_dual(-self._Z.astype(np.float64) / self.inverse.unit)

    def correct(self, outputs: np.ndarray) -> None:
        """Learn what the inverse is off by, from accurate outputs (less b) of the coefficients."""
        defect = self._right - outputs - self.b - self.inverse.rho * self._B
        self._defect = (defect - defect.mean(axis=1, keepdims=True)).astype(SINGLE)
