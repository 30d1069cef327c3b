"""Soft margins by products alone: Newton with conjugate gradients on all the rows, as they are.

A step costs some dozens of products with the rows, whatever the number of features; a factor costs
its cube. Every step ends in a pass over all the rows, so that a duality gap within `tol` ends the
solve, or the time, with what it has.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.clock import time_left
from momentron.arithmetic.threads import one_thread
from momentron.solvers.auto.box_interior import Values
from momentron.solvers.auto.deadline import seconds_of
from momentron.solvers.auto.newton import soft_margin, step_along_mean
from momentron.solvers.auto.pass_form import PassForm, product_seconds
from momentron.solvers.auto.phases import End, Phase, Reason, Search
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.base import Start

UNKNOWN = Values(math.inf, 0.0)
STIFF = 100.0  # C in units of 1/mean‖a‖² to which a cold start goes by smaller ones


def suits_products(sets: WorkingSets, price: float = 0.0) -> bool:
    """Whether products are the faster way to solve all the rows, or the only one.

    They are where rows are sparse and factors take long beside the products of a step; and where
    the memory, or the time left, has no room for factors. `price` is C of the plain hinge in units
    of 1/mean‖a‖²: the larger it is, the more products its updates take.
    """
    settings = sets.settings
    if not sets.is_plain or sets.matrix is None:
        return False
    if not has_room_for_factors(sets):
        return True
    products = settings.pass_products * (1.0 + 2.0 * price) * product_seconds(sets.matrix.X)
    return not sets.is_dense and _factor_seconds(sets) > max(settings.pass_seconds, products)


def has_room_for_factors(sets: WorkingSets) -> bool:
    """Whether the memory has room for a factor of all the rows, and the time left for some."""
    settings = sets.settings
    fits = settings.form_bytes * _order(sets) ** 2 <= settings.memory
    return fits and settings.pass_factors * _factor_seconds(sets) <= time_left()


def _order(sets: WorkingSets) -> int:
    """Of the matrices of all the rows."""
    n, d = sets.operator.shape
    return n if sets.is_wide(n) else d


def _factor_seconds(sets: WorkingSets) -> float:
    return seconds_of(float(_order(sets)) ** 3 / 3.0)


def open_by_products(sets: WorkingSets) -> PassForm:
    """A form on all the rows, with directions good enough to solve them."""
    rows, squares = sets.plain_rows(np.arange(sets.size)), sets.base.row_norms**2
    return PassForm(rows, squares, sets.deadline, sets.settings, is_scaled=True)


@dataclass(frozen=True)
class SolveByProducts(Phase):
    """A Newton step on the squared hinge, and a pass; what they leave open is for `otherwise`.

    Attributes
    ----------
    otherwise : callable, optional
        The phase that goes on from an answer; None where nothing else has room.
    best : Values
        The smallest P and the largest D so far.
    idle : int
        The steps since one of them has improved.
    C : float
        Of the next step: a cold start goes up to a large one, from which few rows come and go.
    """

    is_step = True
    otherwise: Callable[[Start], Phase] | None
    start: Start | None = None
    form: PassForm | None = None
    best: Values = UNKNOWN
    idle: int = 0
    C: float = math.inf

    def advance(self, search: Search) -> Phase:
        form, settings, C = self.form, search.settings, min(self.C, search.C)
        with one_thread():
            if form is None:
                form = open_by_products(search.sets)
                C = self._begin(search, form)
            elif C < search.C:
                soft_margin(form, C, max_steps=settings.path_steps, slack=settings.path_slack)
                C *= settings.path_growth
            else:
                soft_margin(form, C, max_steps=1)
            form.refresh()
        lam = form.shares * (search.C * np.maximum(1.0 - form.p, 0.0))
        search.set_answer(*form.answer(), lam, is_exact=False)
        values, best = self._values(search, form, lam), self.best
        if values.gap <= 0.25 * search.tol:
            return End(Reason.SOLVED)
        # near the end rounding is all that is left of the gap, and moves neither by a share of it
        step = 0.01 * min(best.gap, 1.0)
        falls = values.primal < (1.0 - step) * best.primal
        moves = falls or values.dual > (1.0 + step) * best.dual or C < search.C
        idle = 0 if moves else self.idle + 1
        if idle > settings.pass_patience:
            if self.otherwise is not None and has_room_for_factors(search.sets):
                return self.otherwise(Start(search.answer.w, search.answer.b, lam))
            return End(Reason.ROOM)
        best = Values(min(values.primal, best.primal), max(values.dual, best.dual))
        return SolveByProducts(self.otherwise, None, form, best, idle, C)

    def _begin(self, search: Search, form: PassForm) -> float:
        """Move to a first point; the C of the step that follows."""
        start = self.start
        if start is not None and np.any(start.w):
            form.warm(start.w, start.b, search.weights_of(start))
            return search.C
        C = min(search.C, search.settings.path_start / form.scale)
        step_along_mean(form, C)
        return C if search.C * form.scale > STIFF else search.C

    def _values(self, search: Search, form: PassForm, lam: np.ndarray) -> Values:
        """P and D, as far as floats tell: 1/√(2D) is the answer's upper bound."""
        slack, upper = np.maximum(1.0 - form.p, 0.0), search.answer.upper
        primal = 0.5 * form.norm() ** 2 + 0.5 * float(lam @ slack)
        return Values(primal, 0.5 / upper**2 if upper > 0.0 else 0.0)
