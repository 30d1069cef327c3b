"""Many classes by alternating directions, where inner products of all examples are in memory.

The weights α of the pairs are a table B of shape (n, k) with B_ij = −α_ij for a wrong label j and
B_ic = Σ_j α_ij for the own one. The dual problem

    min ½ tr(BᵀKB) − Σ_i B_ic    over    {B_ij ≤ 0 for j ≠ c, each row adds up to zero}

is a quadratic that knows nothing of labels, on a set that knows nothing of K. Alternating
directions (Boyd et al. 2011, section 5.2) treat them in turn,

    B = (K + ρI)⁻¹(E + ρ(Z − U)),    Z = projection of B + U,    U ← U + B − Z,

with E one at the own labels: a product with a matrix that is inverted once, in single precision,
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
from momentron.arithmetic.squares import factor_in_place, strips_of
from momentron.arithmetic.threads import in_threads, own_threads
from momentron.dual.labels import ManyClasses

SINGLE = np.float32
RELAXATION = 1.8  # over-relaxation
GROWTH, LARGEST = 10.0, 1e9  # of ρ where rounding leaves no inverse, and of itself
PANEL = 256  # rows of a factor that are substituted together
FLOPS_OF_A_PASS = 400.0  # as many as all that is done to an entry of a table in one step


class ShiftedInverse:
    """The inverse of K/unit + ρI by a factor L, where `unit` is the mean of K's diagonal.

    A `base`, that of the first rows and columns of K, saves most of the work; its ρ and its unit
    are taken over. `sums` are those of the rows.
    """

    def __init__(self, K: np.ndarray, rho: float, base: "ShiftedInverse | None" = None) -> None:
        self.unit: float = base.unit if base else float(K.diagonal().mean()) or 1.0
        self.rho: float = base.rho if base else rho
        L = self._bordered(K, base)
        while L is None:  # rounding has made it indefinite
            if self.rho > LARGEST:
                raise np.linalg.LinAlgError("inner products that are not positive semidefinite")
            self.rho *= GROWTH
            L = self._bordered(K, None)
        self.L: np.ndarray = L
        self._strips = strips_of(0, K.shape[0], PANEL)
        self._corners = [np.linalg.inv(np.tril(L[own, own])) for own in self._strips]
        self.sums = self.times(np.ones((K.shape[0], 1), SINGLE))[:, 0]

    def _bordered(self, K: np.ndarray, base: "ShiftedInverse | None") -> np.ndarray | None:
        """From the factor of a leading block, if there is one, if that goes well.

        Below it is Yᵀ with LY = B, the columns next to the block; then the factor of what K − YᵀY
        is there. Only lower halves count.
        """
        m, n = 0 if base is None else base.L.shape[0], K.shape[0]
        if base is not None and m == n:
            return base.L
        G = np.divide(K[m:, m:], self.unit, out=np.empty((n - m, n - m), SINGLE)).T
        add_to_diagonal(G, self.rho)
        L = np.empty((n, n), SINGLE, order="F") if base else G
        if base is not None:
            Y = (K[:m, m:] / self.unit).astype(SINGLE)
            base.substitute(Y)
            G -= Y.T @ Y
            L[:m, :m], L[m:, :m] = base.L, Y.T
        factor, exists = factor_in_place(G)
        L[m:, m:] = factor
        return L if exists else None

    def times(self, right: np.ndarray) -> np.ndarray:
        """The inverse times some columns, which threads share."""
        X = right.astype(SINGLE)

        def solve(columns: slice) -> None:
            self.substitute(X[:, columns])
            for own, corner in zip(self._strips[::-1], self._corners[::-1], strict=True):
                below = slice(own.stop, None)
                known = self.L[below, own].T @ X[below, columns]
                X[own, columns] = corner.T @ (X[own, columns] - known)

        threads = own_threads(float(self.L.size) * X.shape[1])
        in_threads(solve, strips_of(0, X.shape[1], -(-X.shape[1] // threads)))
        return X

    def substitute(self, X: np.ndarray) -> None:
        """L⁻¹X, in the place of X."""
        for own, corner in zip(self._strips, self._corners, strict=True):
            require_time()
            done = slice(0, own.start)
            X[own] = corner @ (X[own] - self.L[own, done] @ X[done])


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
            self._B = inverse.times(self._right)
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
