"""The last digits of weights in a box: with the sides known, α and b solve one linear system.

On the free rows F, 0 < α < C, functional margins are 1; the others are at their bounds. Rows that
contradict their side change it, as in block principal pivoting, and from an interior point's answer
few do.
"""

import math
from typing import NamedTuple

import numpy as np

from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import balanced_parts
from momentron.solvers.auto.linear_algebra import solve_definite
from momentron.solvers.auto.primal_form import PrimalForm

SATISFIED = 1e-11  # what a functional margin may be off by,
ROUNDING = 4e-16  # or more where weights are large, in units of Σα‖a‖²


class Sides(NamedTuple):
    """Which rows are free, and which are at C; the others are at zero."""

    is_free: np.ndarray
    is_full: np.ndarray


def exchange_in_box(form: Form, alpha: np.ndarray, prices: np.ndarray) -> np.ndarray | None:
    """α at the optimum, with the form taken there; None where exchanges do not get there."""
    sides, point = Sides((alpha > 0.0) & (alpha < prices), alpha >= prices), form.point
    fewest = math.inf
    for _ in range(form.settings.exchanges):
        size = int(np.count_nonzero(sides.is_free))
        if not 0 < size <= form.settings.pivot_support or form.deadline.has_passed(size**3 / 3.0):
            break
        solved = _solve(form, sides, prices)
        if solved is None:
            break
        p = form.p
        off = max(SATISFIED, ROUNDING * float(np.abs(solved).sum()) * form.scale)
        falls = sides.is_free & (solved <= 0.0)
        rises = sides.is_free & (solved >= prices)
        enters = ~sides.is_free & np.where(sides.is_full, p > 1.0 + off, p < 1.0 - off)
        wrong = int(np.count_nonzero(falls | rises | enters))
        if wrong == 0:
            return solved
        if wrong > 2 * fewest:
            break
        fewest = min(fewest, wrong)
        is_free = (sides.is_free & ~falls & ~rises) | enters
        sides = Sides(is_free, (sides.is_full & ~enters) | rises)
    form.point = point
    return None


def gathered(form: Form, alpha: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """The same w with at most one free row among equal ones: the first are filled up to C.

    Two of them would be a singular system, and which of them has the weight changes nothing.
    """
    F = np.flatnonzero((alpha > 0.0) & (alpha < prices))
    if not 1 < F.size <= form.settings.pivot_support:
        return alpha
    K = _products(form, F, alpha)[0]
    squares = K.diagonal()
    is_twin = squares[:, None] + squares - 2.0 * K <= form.settings.singular * form.scale
    Y = form.rows.dual_set.columns
    if Y.shape[1]:
        kinds = np.unique(Y[F], axis=0, return_inverse=True)[1].ravel()
        is_twin &= kinds[:, None] == kinds
    first = is_twin.argmax(axis=1)
    if (first == np.arange(F.size)).all():
        return alpha
    alpha = alpha.copy()
    for leader in np.unique(first):
        group = F[first == leader]
        filled = np.cumsum(prices[group]) - prices[group]
        alpha[group] = np.clip(alpha[group].sum() - filled, 0.0, prices[group])
    return alpha


def _solve(form: Form, sides: Sides, prices: np.ndarray) -> np.ndarray | None:
    """α of these sides, with the form taken to its classifier; None where F is singular."""
    F = np.flatnonzero(sides.is_free)
    alpha = np.where(sides.is_full, prices, 0.0)
    Y = form.rows.dual_set.columns
    K, offset = _products(form, F, alpha)
    M, rhs, missing = K, 1.0 - offset, -(Y.T @ alpha)
    if Y.shape[1]:  # Yᵀα is known, so this changes nothing but the matrix's definiteness
        M = M + form.scale * (Y[F] @ Y[F].T)
        rhs = rhs + form.scale * (Y[F] @ missing)
    solved = solve_definite(
        np.asfortranarray(M), np.column_stack([rhs, Y[F]]), form.settings.singular * form.scale
    )
    if solved is None:
        return None
    b = np.zeros(0)
    if Y.shape[1]:
        alpha[F], b = balanced_parts(solved, Y[F], missing)
    else:
        alpha[F] = solved.ravel()
    if not np.isfinite(alpha).all():
        return None
    form.go_to_weights(alpha, b)
    return alpha


def _products(form: Form, F: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K_FF, what the rows at C add to the margins of F)."""
    if form.gram is not None:
        K = form.gram.K
        return K[np.ix_(F, F)], K[F] @ alpha
    assert isinstance(form, PrimalForm)
    rows = form.rows.take(F)
    return rows @ rows.T, rows @ form.rows.combine(alpha)
