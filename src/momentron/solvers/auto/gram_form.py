"""The |S| × |S| form: w = Aᵀu, seen through the Gram matrix K = AAᵀ alone."""

import math
from weakref import proxy

import numpy as np
from scipy.linalg import blas

from momentron.arithmetic.submatrices import submatrix
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import (
    UNBOUNDED,
    Bounds,
    Direction,
    Form,
    InteriorDirection,
    Point,
    ratio,
)
from momentron.solvers.auto.linear_algebra import (
    add_to_diagonal,
    back_solve,
    cholesky_of,
    definite_factor,
    matvec,
    single_cholesky,
)
from momentron.solvers.auto.primal_form import ReducedForm
from momentron.solvers.auto.rows import WorkingRows
from momentron.solvers.auto.settings import SETTINGS, AutoSettings


class GramForm(Form):
    """For fewer rows than features, and for kernels: p = Ku + Yb, a point's x is u."""

    def __init__(
        self,
        rows: WorkingRows,
        K: np.ndarray,
        deadline: Deadline,
        settings: AutoSettings = SETTINGS,
        *,
        is_explicit: bool = True,
    ) -> None:
        self.rows, self.deadline, self.settings = rows, deadline, settings
        self.Y = rows.dual_set.columns
        self.K = K
        self.is_explicit = is_explicit and rows.is_explicit
        self.squares = K.diagonal().astype(np.float64)
        self.scale = max(float(self.squares.sum()) / self.m, 1e-300)
        self.soft = self._soft = GramSoft(self)
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # a set of rows, and its factor
        self.reset()

    @property
    def gram(self) -> "GramForm":
        return self

    @property
    def step_flops(self) -> float:
        return self.m**3 / 3.0

    @property
    def smallest_pivot(self) -> float:
        """Of a factor: below it, rows count as combinations of others."""
        return self.settings.singular * self.scale

    def reset(self) -> None:
        self.point = Point(np.zeros(self.m), np.zeros(self.Y.shape[1]), np.zeros(self.m))

    def margins(self, x: np.ndarray, b: np.ndarray, *, from_rows: bool = False) -> np.ndarray:
        # K has squared the condition number of the rows; A(Aᵀu) has not
        if from_rows and self.is_explicit:
            product = self.rows.products(self.rows.combine(x))
        else:
            product = matvec(self.K, x)
        return product + self.dual_set.spread(b)

    def warm(self, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        self.go_to_weights(u, b)

    def go_to_weights(self, u: np.ndarray, b: np.ndarray) -> None:
        self.point = Point(u, b, self.margins(u, b))

    def norm(self) -> float:
        u, b, p = self.point
        return math.sqrt(max(float(u @ (p - self.dual_set.spread(b))), 0.0))

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.combine(self.point.x), self.point.b

    def dual_norm(self, q: np.ndarray) -> float:
        return math.sqrt(max(float(q @ matvec(self.K, q)), 0.0))

    def true_bounds(self, lam: np.ndarray) -> Bounds:
        if not self.is_explicit:  # of a kernel's rows nothing but the Gram matrix is known
            return self.bounds(lam)
        q = self.dual_set.feasible_or_none(lam)
        w, b = self.answer()
        norm = float(np.linalg.norm(w))
        if q is None or not norm > 0.0:
            return UNBOUNDED
        p = self.rows.products(w) + self.dual_set.spread(b)
        return Bounds(self.dual_set.worst(p) / norm, float(np.linalg.norm(self.rows.combine(q))))

    # --- systems -------------------------------------------------------------------------------

    def along_mean(self) -> Direction:
        return self.towards(np.ones(self.m) * self.shares, np.zeros(self.Y.shape[1]))

    def towards(self, du: np.ndarray, db: np.ndarray) -> Direction:
        """A step of u and b as a direction."""
        product = matvec(self.K, du)
        dp = product + self.dual_set.spread(db)
        return Direction.of(du, db, dp, float(self.point.x @ product), float(du @ product))

    def start_interior(self, lam: np.ndarray) -> None:
        self.go_to_weights(lam, np.zeros(self.Y.shape[1]))  # here u and λ are the same

    def interior(self, lam: np.ndarray, s: np.ndarray) -> "GramInterior":
        return GramInterior(self, lam, s)

    def reduced(self) -> Form | None:
        rows = self.rows.written_out() if self.is_explicit else None
        if rows is None or rows.is_sparse:
            return None
        return ReducedForm(rows, self.deadline, self.settings)

    def without_twins(self, S: np.ndarray) -> np.ndarray:
        """S with one of each set of rows that are equal, as far as the Gram matrix tells."""
        index = np.flatnonzero(S)
        if index.size > self.settings.pivot_support:
            return S
        K, squares = submatrix(self.K, index), self.squares[index]
        is_twin = squares[:, None] + squares - 2.0 * K <= self.smallest_pivot
        if self.Y.shape[1]:
            kinds = np.unique(self.Y[index], axis=0, return_inverse=True)[1].ravel()
            is_twin &= kinds[:, None] == kinds
        single = S.copy()
        single[index[np.tril(is_twin, -1).any(axis=1)]] = False
        return single

    def equalise(self, S: np.ndarray) -> Point | None:
        """The point with p = 1 and u free on S, u = 0 elsewhere; None where K_SS is singular.

        A set that differs in few rows from the last one is solved with that one's factor.
        """
        self._soft.forget()  # its memory may be needed
        index = S.nonzero()[0]
        point = self._equalised_by_last(index)
        if point is not None:
            return point
        self._last = None
        M = submatrix(self.K, index).T
        if self.Y.shape[1]:
            # Yᵀu = 0 makes (K + σYYᵀ)u the same as Ku; definite with one row more than features
            M = blas.dsyrk(self.scale, self.Y[index], beta=1.0, c=M, lower=1, overwrite_c=1)
        factor = definite_factor(M, self.smallest_pivot)
        if factor is None:
            return None
        self._last = index, factor
        return self._point_on(index, back_solve(factor, self._targets(index)))

    def _targets(self, index: np.ndarray) -> np.ndarray:
        """The right sides of `equalise`: margins of 1, and the intercepts' columns."""
        targets = np.ones((index.size, 1 + self.Y.shape[1]))
        targets[:, 1:] = self.Y[index]
        return targets

    def _point_on(self, index: np.ndarray, solved: np.ndarray) -> Point:
        """The point whose coefficients solve for those right sides."""
        u, b = np.zeros(self.m), np.zeros(self.Y.shape[1])
        if not b.size:
            u[index] = solved[:, 0]
            return Point(u, b, matvec(self.K, u))
        u[index], b = balanced_parts(solved, self.Y[index], b)
        return Point(u, b, self.margins(u, b))

    def _equalised_by_last(self, index: np.ndarray) -> Point | None:
        """The same by the last factor, bordered by what has come and gone; None where that is much.

        With z on the last set, t for the rows that came and multipliers for those that went:
        Mz + Bt = 1 on the last set and Bᵀz + Dt = (1, 0), so that (D − BᵀM⁻¹B)t is known.
        """
        if self._last is None or index.size < self.settings.bordered_least:
            return None
        last, factor = self._last
        came = np.setdiff1d(index, last, assume_unique=True)
        gone = np.flatnonzero(np.isin(last, index, assume_unique=True, invert=True))
        size = came.size + gone.size
        if size > max(self.settings.bordered_rows, self.settings.bordered_share * index.size):
            return None
        B, D = np.zeros((last.size, size)), np.zeros((size, size))
        B[:, : came.size] = self._shifted_block(last, came)
        B[gone, came.size + np.arange(gone.size)] = 1.0
        D[: came.size, : came.size] = self._shifted_block(came, came)
        right, below = self._targets(last), np.zeros((size, 1 + self.Y.shape[1]))
        below[: came.size] = self._targets(came)
        G, z = back_solve(factor, B), back_solve(factor, right)
        try:
            t = np.linalg.solve(D - B.T @ G, below - B.T @ z)
        except np.linalg.LinAlgError:
            return None
        solved = np.zeros((self.m, right.shape[1]))
        solved[last] = z - G @ t
        solved[last[gone]] = 0.0
        solved[came] = t[: came.size]
        point = self._point_on(index, solved[index])
        error = float(np.abs(point.p[index] - 1.0).max(initial=0.0))
        return point if error <= self.settings.bordered_error else None

    def _shifted_block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K + σYYᵀ of some rows and columns."""
        return self.K[rows[:, None], cols] + self.scale * (self.Y[rows] @ self.Y[cols].T)


class GramSoft:
    """Soft margins on a Gram matrix: K_SS + I/C, factored; the last factor is kept.

    Where rows have shares of C, the identity is divided by them.
    """

    def __init__(self, form: GramForm) -> None:
        self.form: GramForm = proxy(form)  # which holds this: a cycle would keep its memory
        self._K_single: np.ndarray | None = None
        self._last: tuple[tuple[float, bytes], np.ndarray] | None = None
        self._room: np.ndarray | None = None

    def forget(self) -> None:
        """Give up the memory of the last factor."""
        self._last = self._room = None

    def direction(
        self, S: np.ndarray, target: np.ndarray | float, C: float, *, rough: bool
    ) -> Direction:
        form, (u, _, p) = self.form, self.form.point
        index = np.flatnonzero(S)
        off = u.copy()
        off[index] = 0.0
        rhs = (target - p)[index] - u[index] * self._ridge(index, C)
        if off.any():
            rhs += matvec(form.K, off)[index]
        du, Y = -off, form.Y[index]
        missing = -(Y.T @ u[index])
        du[index], db = bordered_solve(self._factor(index, C, rough), rhs, Y, missing)
        return form.towards(du, db)

    def _ridge(self, index: np.ndarray, C: float) -> float | np.ndarray:
        """1/C of the named rows."""
        shares = self.form.shares
        return 1.0 / C if isinstance(shares, float) else 1.0 / (C * shares[index])

    def _factor(self, index: np.ndarray, C: float, rough: bool) -> np.ndarray:
        """The factor of K_SS + I/C; rough ones are in single precision."""
        key = (C, index.tobytes())
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # its memory may be needed for the next
        if rough and index.size > self.form.settings.single_size:
            factor = self._single_factor(index, C)
            if factor is not None:
                return factor
        factor = cholesky_of(lambda: self._shifted(index, C))
        self._last = (key, factor)
        return factor

    def _single_factor(self, index: np.ndarray, C: float) -> np.ndarray | None:
        K = self.form.K
        if self._K_single is None and self.form.is_explicit:
            self._K_single = K.astype(np.float32)
        source = K if self._K_single is None else self._K_single
        M = submatrix(source, index, self._square(index.size)).T
        add_to_diagonal(M, self._ridge(index, C))
        return single_cholesky(M)

    def _square(self, size: int) -> np.ndarray:
        """A matrix in single precision to be overwritten, in the same memory each time: pages that
        are new to the process take as long as the factor of few rows.
        """
        if self._room is None:
            self._room = np.empty(self.form.m**2, np.float32)
        return self._room[: size * size].reshape(size, size)

    def _shifted(self, index: np.ndarray, C: float) -> np.ndarray:
        """K_SS + I/C, F-ordered."""
        M = submatrix(self.form.K, index).T
        add_to_diagonal(M, self._ridge(index, C))
        return M


class GramInterior:
    """The interior point on a Gram matrix: K + D⁻¹ with D = λ/s, factored."""

    def __init__(self, form: GramForm, lam: np.ndarray, s: np.ndarray) -> None:
        self.form, self.lam = form, lam
        self.residual = form.p - s - 1.0
        self.missing = -(form.Y.T @ lam)
        self.factor = cholesky_of(lambda: self._shifted(s))

    def _shifted(self, s: np.ndarray) -> np.ndarray:
        M = self.form.K.T.copy(order="F")
        add_to_diagonal(M, 1.0 / ratio(self.lam, s))
        return M

    def direction(self, rc: np.ndarray) -> InteriorDirection:
        form, rhs = self.form, -rc / self.lam - self.residual
        dlam, db = bordered_solve(self.factor, rhs, form.Y, self.missing)
        dp = form.margins(dlam, db)
        return InteriorDirection(dlam, db, dp + self.residual, dlam)


def bordered_solve(
    factor: np.ndarray, rhs: np.ndarray, Y: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(z, db) with Mz + Y db = rhs and Yᵀz = missing."""
    if not Y.shape[1]:
        return back_solve(factor, rhs), missing
    return balanced_parts(back_solve(factor, np.column_stack([rhs, Y])), Y, missing)


def balanced_parts(
    both: np.ndarray, Y: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same from M⁻¹(rhs, Y)."""
    curvature = Y.T @ both[:, 1:]
    wanted = Y.T @ both[:, 0] - missing
    if wanted.size == 1:
        db = wanted / curvature[0] if curvature[0, 0] > 0.0 else np.zeros(1)
    else:
        if not np.isfinite(curvature).all():
            # LAPACK prints a line of its own for NaN, and may not return from infinities
            raise np.linalg.LinAlgError("the intercepts' matrix overflowed")
        # classes that the rows do not connect leave intercepts open: the least change is taken
        db = np.linalg.lstsq(curvature, wanted, rcond=1e-12)[0]
    return both[:, 0] - both[:, 1:] @ db, db
