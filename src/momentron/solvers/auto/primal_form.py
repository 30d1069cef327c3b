"""The d × d form: w itself, with the intercepts as more, unpenalised, coordinates."""

import numpy as np
from scipy.linalg import blas

from momentron.clock import require_time
from momentron.solvers.auto.forms import Deadline, Form
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky,
    column_parts,
    copied,
    matvec,
    pieces_for,
    rmatvec,
    symmetric_product,
    thin_qr,
)
from momentron.solvers.auto.rows import Rows
from momentron.threads import own_threads

BLOCK_ENTRIES = 4_000_000  # of rows that are densified or copied at a time


class PrimalForm(Form):
    """For more rows than features. The intercepts' columns are βY, β a typical row length.

    A working set is copied, signed and bordered, which makes every product one BLAS call. Sparse
    rows, and those of sets too large to copy (`borrow`), are read as they are; they are of two
    classes.
    """

    rows: Rows

    def __init__(self, rows: Rows, deadline: Deadline, *, borrow: bool = False) -> None:
        self.rows, self.deadline = rows, deadline
        self.n_intercepts = rows.balance.n_intercepts
        squares = rows.squares()
        self.scale = max(float(squares.mean()), 1e-300)
        self.beta = float(np.sqrt(self.scale)) if self.n_intercepts else 0.0
        self.squares = squares + self.beta**2
        self.k = rows.d + self.n_intercepts
        self.ridge = np.ones(self.k)
        self.ridge[rows.d :] = 0.0
        self.has_copy = not (rows.is_sparse or borrow)
        if self.has_copy:
            self.A = self._bordered(rows.take(slice(None)), slice(None))
        self.H: np.ndarray | None = None
        self.H_rows, self.H_sums = np.zeros(rows.m, bool), np.zeros(rows.d)
        self.reset()

    @property
    def step_flops(self) -> float:
        return self.k**3 / 3.0 + float(self.m) * self.k**2

    def reset(self) -> None:
        self.w, self.p = np.zeros(self.k), np.zeros(self.m)

    def _bordered(self, rows: np.ndarray, index: np.ndarray | slice) -> np.ndarray:
        """Rows with the intercepts' columns beside them."""
        if not self.n_intercepts:
            return rows
        return np.column_stack([rows, self.beta * self.balance.columns[index]])

    def products(self, w: np.ndarray) -> np.ndarray:
        """A w with the intercepts' columns."""
        if self.has_copy:
            return matvec(self.A, w)
        d = self.rows.d
        return self.rows.products(w[:d]) + self.balance.spread(self.beta * w[d:])

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Aᵀ v with the intercepts' columns."""
        if self.has_copy:
            return rmatvec(self.A, v)
        g = self.rows.combine(v)
        return np.append(g, self.beta * (v @ self.balance.columns)) if self.n_intercepts else g

    def take(self, index: np.ndarray) -> np.ndarray:
        """Some of the rows, dense, with the intercepts' columns."""
        return self.A[index] if self.has_copy else self._bordered(self.rows.take(index), index)

    def hessian(self, S: np.ndarray) -> np.ndarray:
        """A copy of A_SᵀA_S (lower half), updated from the last one where few rows changed."""
        changed = np.flatnonzero(self.H_rows != S)
        if self.H is None or changed.size > 0.6 * np.count_nonzero(S):
            size = self.k if self.has_copy else self.rows.d
            self.H, self.H_sums = np.zeros((size, size), order="F"), np.zeros(self.rows.d)
            self._add(1.0, np.flatnonzero(S))
        else:
            self._add(1.0, changed[S[changed]])
            self._add(-1.0, changed[~S[changed]])
        self.H_rows = S.copy()
        if self.H.shape[0] == self.k:
            return copied(self.H)
        # one intercept, whose column is βy as the rows are yx
        d, M = self.rows.d, np.zeros((self.k, self.k), order="F")
        for part in column_parts(d, d):
            require_time()
            M[:d, part] = self.H[:, part]
        M[d, :d] = self.beta * self.H_sums
        M[d, d] = self.beta**2 * np.count_nonzero(S)
        return M

    def _add(self, sign: float, index: np.ndarray) -> None:
        """H += sign · A_iᵀA_i over the named rows, in blocks where they are not a working set."""
        size = index.size if self.has_copy else max(1, BLOCK_ENTRIES // self.k)
        for start in range(0, index.size, max(size, 1)):
            require_time()
            self._add_block(sign, index[start : start + size])

    def _add_block(self, sign: float, index: np.ndarray) -> None:
        """Rows that are no copy are taken as they are: the labels cancel, since y² = 1."""
        assert self.H is not None
        if self.has_copy:
            B = self.A[index]
        else:
            B = self.rows.X[index]
            if self.n_intercepts:
                self.H_sums += sign * (B.T @ np.ones(index.size))
            if self.rows.is_sparse:
                if 100.0 * (B.nnz / index.size) ** 2 < self.rows.d**2:
                    for part in column_parts(*self.H.shape):
                        require_time()
                        self.H[:, part] += sign * (B.T @ B[:, part]).toarray()
                    return
                B = B.toarray()
        flops = float(index.size) * self.k**2
        if own_threads(flops) > 1 or pieces_for(flops) > 1:
            self.H += sign * symmetric_product(B)
        else:
            self.H = blas.dsyrk(sign, B.T, lower=1, beta=1.0, c=self.H, overwrite_c=1)

    def newton(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> tuple[np.ndarray, float, float]:
        M = self.hessian(S)
        add_to_diagonal(M, self.ridge / C)
        residual = np.where(S, target - self.p, 0.0)
        g = self.combine(residual) - self.ridge * self.w / C
        return self._towards(back_solve(cholesky(M), g))

    def along_mean(self) -> tuple[np.ndarray, float, float]:
        return self._towards(self.combine(np.ones(self.m)) * self.ridge)

    def _towards(self, dw: np.ndarray) -> tuple[np.ndarray, float, float]:
        self.dw, self.dp = dw, self.products(dw)
        penalised = self.ridge * dw
        return self.dp, float(self.w @ penalised), float(dw @ penalised)

    def move(self, t: float) -> None:
        self.w = self.w + t * self.dw
        self.p = self.p + t * self.dp

    def refresh(self, *, from_rows: bool = False) -> None:
        self.p = self.products(self.w)

    def norm(self) -> float:
        return float(np.sqrt((self.ridge * self.w) @ self.w))

    def dual_norm(self, q: np.ndarray) -> float:
        z = self.combine(q)
        return float(np.sqrt((self.ridge * z) @ z))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        d = self.rows.d
        return self.w[:d].copy(), self.beta * self.w[d:]

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        self.w = np.append(w, b / self.beta) if self.n_intercepts else w.copy()
        self.refresh()

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.w, self.p

    def restore(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        self.w, self.p = state

    def ip_start(self, lam: np.ndarray) -> None:
        self.reset()

    def ip_factor(self, D: np.ndarray) -> None:
        keep = np.flatnonzero(D * self.squares > 1e-12)
        M = symmetric_product(self.take(keep) * np.sqrt(D[keep])[:, None])
        add_to_diagonal(M, self.ridge)
        self.factor, self.D = cholesky(M), D

    def ip_residual(self, lam: np.ndarray, s: np.ndarray) -> np.ndarray:
        self.dual_residual = self.ridge * self.w - self.combine(lam)
        return self.p - s - 1.0

    def ip_direction(
        self, rc: np.ndarray, rp: np.ndarray, lam: np.ndarray, s: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rhs = -self.dual_residual - self.combine(rc / s + self.D * rp)
        self.dw = back_solve(self.factor, rhs)
        self.dp = self.products(self.dw)
        ds = self.dp + rp
        return ds, -(rc + lam * ds) / s

    def ip_move(self, t: float, lam: np.ndarray) -> None:
        self.w = self.w + t * self.dw
        self.refresh()  # keeps the primal residual honest


class ReducedForm(PrimalForm):
    """Few rows in many features, rewritten in their span by QR: no squared condition number."""

    def __init__(self, rows: Rows, deadline: Deadline) -> None:
        self.Q, R = thin_qr(rows.X.T)
        super().__init__(Rows(np.ascontiguousarray(R.T), rows.signs, rows.balance), deadline)

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        w, b = super().answer()
        return self.Q @ w, b
