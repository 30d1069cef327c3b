"""What users get of a solve: the classifier, its margin and its weights, in their own units.

And the way back: the start that an earlier result gives to a new solve.
"""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.data.coefficients import as_coef
from momentron.errors import InputError, short
from momentron.fitting.answer import Choice, choose_classifier
from momentron.result import MarginResult
from momentron.rows import Operator
from momentron.solvers import Solver, Start
from momentron.solvers.certified_problem import CertifiedProblem
from momentron.solvers.loop import Outcome
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status

NO_WEIGHTS = np.empty(0)
FARTHEST = 1e12  # outputs of a start, above which exponentials say nothing


def _start_anywhere(problem: Problem, initial: Any, solver: Solver) -> Start:
    """The start at weights that a user names, in the units of X."""
    is_array = isinstance(initial, list | tuple) or bool(getattr(initial, "shape", ()))
    if not is_array or not solver.starts_anywhere:
        also = ", or an array of the shape of coef" if solver.starts_anywhere else ""
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
    return Start(w, np.zeros(problem.dual_set.n_intercepts), NO_WEIGHTS)


def make_result(problem: CertifiedProblem, solver: Solver, outcome: Outcome) -> MarginResult:
    """The outcome in the user's units."""
    begin = time.perf_counter()
    chosen, is_soft = choose_classifier(problem, outcome), problem.is_soft
    dual, status = problem.sparse_dual(outcome.q), outcome.status
    return MarginResult(
        status=status,
        certificate=outcome.certificate.with_margin(chosen.margin, is_bound=not is_soft),
        coef=chosen.coef,
        intercept=chosen.intercept,
        support=dual.rows,
        dual=dual.weights,
        support_labels=problem.classes[dual.codes],
        n_rows=problem.n_rows,
        n_iter=outcome.n_iter,
        passes=outcome.passes,
        seconds=outcome.seconds + time.perf_counter() - begin,
        trace=outcome.trace,
        classes=problem.classes,
        method=solver.name,
        is_fallback=chosen.is_fallback,
        predictor=_predictor(chosen, status),
        is_soft=is_soft,
        penalty=problem.penalty.name,
        bytes_read=problem.bytes_read,
        pass_seconds=problem.pass_seconds,
    )


def _predictor(chosen: Choice, status: Status) -> Predictor:
    """What `predict` uses, as far as the status and the coefficients tell more than the choice."""
    if not chosen.coef.any():
        return Predictor.CONSTANT
    is_best = chosen.predictor is Predictor.BEST_SO_FAR and status is Status.OPTIMAL
    return Predictor.MARGIN if is_best else chosen.predictor


def numbered_among(
    result: MarginResult, kept: np.ndarray, n: int, operator: Operator
) -> MarginResult:
    """The result of a fit to some rows of n, with numbers of rows as among all of them."""
    coef = result.coef
    if operator.has_coefficient_per_row:
        coef = np.zeros((*coef.shape[:-1], n))
        coef[..., kept] = result.coef
    return replace(result, coef=coef, support=kept[result.support], n_rows=n)


def make_start(
    problem: Problem,
    initial: Any,
    solver: Solver,
    kept: np.ndarray | None = None,
    n_given: int | None = None,
) -> Start | None:
    """The start that an earlier result or an array gives, checked against the problem.

    The problem may have some rows of those that were given, which are the result's first ones.
    """
    if initial is None:
        return None
    if not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not support warm starts; leave initial out")
    if not isinstance(initial, MarginResult):
        return _start_anywhere(problem, initial, solver)
    n_features = problem.operator.shape[1]
    coef, dual = initial.coef, initial.full_dual()
    if kept is not None:
        old = dual
        dual = np.zeros((max(n_given or 0, old.shape[0]), *old.shape[1:]))
        dual[: old.shape[0]] = old
        dual = dual[kept]
        if problem.operator.has_coefficient_per_row and coef.shape[-1] <= (n_given or 0):
            whole = np.zeros((*coef.shape[:-1], n_given or 0))
            whole[..., : coef.shape[-1]] = coef
            coef = whole[..., kept]
    if problem.operator.has_coefficient_per_row and coef.shape[-1] < n_features:
        new = np.zeros((*coef.shape[:-1], n_features - coef.shape[-1]))  # rows below the old ones
        coef = np.concatenate([coef, new], axis=-1)
    if coef.shape[-1] != n_features:
        raise InputError(
            f"initial has {coef.shape[-1]} features but X has {n_features}; they must agree"
        )
    n_outputs, n_initial = coef.size // n_features, problem.classes.size
    if max(n_outputs, 2) != n_initial:
        raise InputError(
            f"initial has {max(n_outputs, 2)} classes but y has {n_initial}; they must agree"
        )
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
