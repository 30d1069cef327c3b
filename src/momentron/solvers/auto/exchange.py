"""The last digits by exchanges: guess which rows are at a bound, solve, swap what is wrong.

On the free rows, 0 < α < u, all functional margins are 1, so that α and b solve one linear system;
the others are at zero or at u. The guess is right where α is between the bounds on the free rows
and no other row is on the wrong side of the margin. Otherwise all rows that violate either change
sides at once: block principal pivoting (Júdice and Pires, 1994; Kim and Park, 2011). From a good
guess that takes two to five factors.
"""

import math

import numpy as np
from scipy.linalg import blas

from momentron.solvers.auto.forms import Form, Point
from momentron.solvers.auto.gram_form import balanced_parts
from momentron.solvers.auto.linear_algebra import back_solve, definite_factor

SATISFIED = 1e-12  # what a functional margin may be off by; in a box ten times as much,
ROUNDING = 4e-16  # or more where weights are large, in units of Σα‖a‖²
EXCHANGES = 10
PATIENCE = 2  # exchanges that leave as many rows on the wrong side as before
MOST_FREE = 2000  # rows whose matrix, or its inverse, is worth its price
SINGULAR = 1e-13  # a pivot, in units of ‖a‖², at which rows are combinations of others
# Rows that come and go between exchanges, and the same as a share of the free ones, up to which the
# last factor serves; what margins may be off by then; and rows below which a new factor is cheaper.
BORDERED_ROWS, BORDERED_SHARE = 16, 0.03
BORDERED_ERROR = 1e-10
BORDERED_LEAST = 150


def exchange(
    form: Form, free: np.ndarray, full: np.ndarray | None = None, upper: np.ndarray | None = None
) -> np.ndarray | None:
    """α at the optimum, with the form taken there; None where exchanges do not get there.

    Parameters
    ----------
    form : Form
    free : ndarray of bool, shape (m,)
        A guess of the rows between the bounds.
    full : ndarray of bool, shape (m,), optional
        A guess of those at u.
    upper : ndarray of shape (m,), optional
        u; None for infinity.
    """
    fewest, patience, margins = form.m + 1, PATIENCE, FreeMargins(form)
    full = np.zeros(form.m, bool) if full is None else full
    for number in range(EXCHANGES):
        size = np.count_nonzero(free)
        if not size or (size > MOST_FREE and form.gram is None):
            return None
        if form.deadline.has_passed(size**3 / 3.0):
            return None
        fixed = np.where(full, upper, 0.0) if upper is not None and full.any() else None
        solved = margins.equalise(free, fixed)
        if solved is None:
            return None
        alpha, point = solved
        if upper is None:
            wrong = np.where(free, alpha <= 0.0, point.p <= 1.0 - SATISFIED)
        else:
            off = max(10.0 * SATISFIED, ROUNDING * float(np.abs(alpha).sum()) * form.scale)
            rises = free & (alpha >= upper)
            wrong = np.where(free, (alpha <= 0.0) | rises, point.p <= 1.0 - off)
            wrong = np.where(full, point.p > 1.0 + off, wrong)
        count = np.count_nonzero(wrong)
        if count == 0:
            form.point = point
            return alpha
        if count >= fewest:
            patience -= 1
            if patience < 0:
                return None
        if number > 0:  # from a guess that is nearly right, the first exchange makes more wrong
            fewest = min(fewest, int(count))
        free = free ^ wrong
        if upper is not None:
            full = (full & ~wrong) | rises
    return None


class FreeMargins:
    """Margins of 1 on the free rows of a form, with the last factor kept."""

    def __init__(self, form: Form) -> None:
        self.form, self.Y, self.smallest = form, form.Y, SINGULAR * form.scale
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # free rows, and their factor
        form.forget()  # its memory may be needed

    def equalise(
        self, free: np.ndarray, fixed: np.ndarray | None = None
    ) -> tuple[np.ndarray, Point] | None:
        """(α, point) with p = 1 on the free rows and given weights elsewhere.

        None where the free rows' matrix is singular. A set that differs in few rows from the last
        one is solved with that one's factor.
        """
        index = free.nonzero()[0]
        found = self._by_last(index, fixed)
        if found is not None:
            return found
        self._last = None
        M = self.form.block(index, index).T
        if self.Y.shape[1]:
            # Yᵀα is known, so that σYYᵀ changes nothing but how definite the matrix is
            scale = self.form.scale
            M = blas.dsyrk(scale, self.Y[index], beta=1.0, c=M, lower=1, overwrite_c=1)
        factor = definite_factor(M, self.smallest)
        if factor is None:
            return None
        self._last = index, factor
        return self._point(index, back_solve(factor, self._targets(index, fixed)), fixed)

    def _targets(self, index: np.ndarray, fixed: np.ndarray | None) -> np.ndarray:
        """The right sides: margins of 1, and the intercepts' columns."""
        targets = np.ones((index.size, 1 + self.Y.shape[1]))
        targets[:, 1:] = self.Y[index]
        if fixed is not None:
            targets[:, 0] -= self.form.margins_of(index, fixed)
            targets[:, 0] -= self.form.scale * (self.Y[index] @ (self.Y.T @ fixed))
        return targets

    def _point(
        self, index: np.ndarray, solved: np.ndarray, fixed: np.ndarray | None
    ) -> tuple[np.ndarray, Point] | None:
        """The weights and the point that solve for those right sides."""
        alpha = np.zeros(self.form.m) if fixed is None else fixed.copy()
        b = -(self.Y.T @ alpha)
        if b.size:
            alpha[index], b = balanced_parts(solved, self.Y[index], b)
        else:
            alpha[index] = solved[:, 0]
        if not np.isfinite(alpha).all():
            return None
        return alpha, self.form.at_weights(alpha, b)

    def _by_last(
        self, index: np.ndarray, fixed: np.ndarray | None
    ) -> tuple[np.ndarray, Point] | None:
        """The same by the last factor, bordered by what has come and gone; None where that is much.

        With z on the last set, t for the rows that came and multipliers for those that went:
        Mz + Bt = 1 on the last set and Bᵀz + Dt = (1, 0), so that (D − BᵀM⁻¹B)t is known.
        """
        if self._last is None or index.size < BORDERED_LEAST:
            return None
        last, factor = self._last
        came = np.setdiff1d(index, last, assume_unique=True)
        gone = np.flatnonzero(np.isin(last, index, assume_unique=True, invert=True))
        size = came.size + gone.size
        if size > max(BORDERED_ROWS, BORDERED_SHARE * index.size):
            return None
        B, D = np.zeros((last.size, size)), np.zeros((size, size))
        B[:, : came.size] = self._block(last, came)
        B[gone, came.size + np.arange(gone.size)] = 1.0
        D[: came.size, : came.size] = self._block(came, came)
        right, below = self._targets(last, fixed), np.zeros((size, 1 + self.Y.shape[1]))
        below[: came.size] = self._targets(came, fixed)
        G, z = back_solve(factor, B), back_solve(factor, right)
        try:
            t = np.linalg.solve(D - B.T @ G, below - B.T @ z)
        except np.linalg.LinAlgError:
            return None
        solved = np.zeros((self.form.m, right.shape[1]))
        solved[last] = z - G @ t
        solved[last[gone]] = 0.0
        solved[came] = t[: came.size]
        found = self._point(index, solved[index], fixed)
        if found is None or np.abs(found[1].p[index] - 1.0).max(initial=0.0) > BORDERED_ERROR:
            return None
        return found

    def _block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """K + σYYᵀ of some rows and columns."""
        scale = self.form.scale
        return self.form.block(rows, columns) + scale * (self.Y[rows] @ self.Y[columns].T)


def gathered(form: Form, alpha: np.ndarray, upper: float | np.ndarray = math.inf) -> np.ndarray:
    """The same w with at most one free row among equal ones: the first are filled up to u.

    Two of them would be a singular system, and which of them has the weight changes nothing.
    """
    index = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    if not 1 < index.size <= MOST_FREE:
        return alpha
    K = form.block(index, index)
    squares = K.diagonal()
    is_twin = squares[:, None] + squares - 2.0 * K <= SINGULAR * form.scale
    if form.Y.shape[1]:
        kinds = np.unique(form.Y[index], axis=0, return_inverse=True)[1].ravel()
        is_twin &= kinds[:, None] == kinds
    first = is_twin.argmax(axis=1)
    if (first == np.arange(index.size)).all():
        return alpha
    alpha, upper = alpha.copy(), np.broadcast_to(upper, alpha.shape)
    for leader in np.unique(first):
        group = index[first == leader]
        total = alpha[group].sum()
        most = np.minimum(upper[group], total)
        alpha[group] = np.clip(total - (np.cumsum(most) - most), 0.0, most)
    return alpha
