"""The start that an earlier result, or an array of weights, gives to a new solve."""

import math
from typing import Any

import numpy as np

from momentron.data.models import as_coef
from momentron.errors import InputError, short
from momentron.result import MarginResult
from momentron.solvers import Solver, Start
from momentron.solvers.problem import Problem

FARTHEST = 1e12  # outputs of a start, above which exponentials say nothing


def make_start(
    problem: Problem, initial: Any, solver: Solver, kept: np.ndarray | None, n_given: int
) -> Start | None:
    """The start that an earlier result or an array gives, checked against the problem.

    The rows passed begin with the rows of the result; the problem has the rows `kept` of them.
    """
    if initial is None:
        return None
    if not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not support warm starts; leave initial out")
    if not isinstance(initial, MarginResult):
        return _start_anywhere(problem, initial, solver)
    n_features = problem.operator.shape[1]
    coef, dual = initial.coef, _of_rows(initial.full_dual(), kept, n_given)
    if problem.operator.has_coefficient_per_row:
        coef = _of_rows(coef.T, kept, n_given).T
    if coef.shape[-1] != n_features:
        raise InputError(
            f"initial has {coef.shape[-1]} features but X has {n_features}; they must agree"
        )
    n_initial, n_classes = max(coef.size // n_features, 2), problem.classes.size
    if n_initial != n_classes:
        raise InputError(f"initial has {n_initial} classes but y has {n_classes}; they must agree")
    # functional margin 1, and the units of the operator, which are those of X over 2^exponent
    scale = 1.0 if initial.is_soft else initial.lower or initial.upper
    scale = float(np.ldexp(scale, -problem.exponent))
    if initial.is_fallback or not 0.0 < scale < math.inf:
        return None
    b = np.ldexp(np.atleast_1d(initial.intercept), -problem.exponent) / scale
    b = problem.labels.free_intercepts(b)
    if initial.is_soft and initial.penalty == "hinge":  # α, which has units
        dual = np.ldexp(dual, 2 * problem.exponent)
    return Start(problem.from_coef(coef) / scale, b, problem.labels.from_dual(dual))


def _of_rows(values: np.ndarray, kept: np.ndarray | None, n: int) -> np.ndarray:
    """Values of the first of n rows, for those that are kept; zero for the others."""
    if values.shape[0] < n:
        values = np.concatenate([values, np.zeros((n - values.shape[0], *values.shape[1:]))])
    return values if kept is None else values[kept]


def _start_anywhere(problem: Problem, initial: Any, solver: Solver) -> Start:
    """The start at weights that a user names, in the units of X."""
    is_array = isinstance(initial, list | tuple) or bool(getattr(initial, "shape", ()))
    if not is_array or not solver.starts_anywhere:
        also = ", or an array shaped like coef" if solver.starts_anywhere else ""
        raise InputError(
            f"initial={short(initial)} must be the MarginResult of an earlier call{also}, for "
            f"method={solver.name!r}"
        )
    coef = as_coef(initial, problem.shown(problem.zeros()).shape, "initial")
    if not np.isfinite(coef).all():
        raise InputError("initial contains NaN or infinity; every weight must be finite")
    coef = np.ldexp(coef, problem.exponent)  # the rows are those of X over 2^exponent
    w = problem.from_coef(coef)
    if not problem.length(w) * problem.radius <= FARTHEST:
        raise InputError(f"initial is too long: x·w would be above {FARTHEST:g}; shorten it")
    return Start(w, np.zeros(problem.dual_set.n_intercepts), np.empty(0))
