"""What users get of a solve: the classifier, its margin and its weights, in their own units.

And the way back: the start that an earlier result gives to a new solve.
"""

import math
import time

import numpy as np

from momentron.choice import choose_classifier
from momentron.errors import InputError
from momentron.margin_problem import MarginProblem
from momentron.problem import Problem
from momentron.result import MarginResult
from momentron.solve import Outcome
from momentron.solvers import Solver, Start


def make_result(problem: MarginProblem, solver: Solver, outcome: Outcome) -> MarginResult:
    """The outcome in the user's units."""
    begin = time.perf_counter()
    chosen, is_soft = choose_classifier(problem, outcome), problem.is_soft
    dual = problem.sparse_dual(outcome.q)
    return MarginResult(
        status=outcome.status,
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
        is_soft=is_soft,
        bytes_read=problem.bytes_read,
        pass_seconds=problem.pass_seconds,
    )


def make_start(problem: Problem, initial: MarginResult | None) -> Start | None:
    """The start that an earlier result gives, checked against the problem."""
    if initial is None:
        return None
    if not isinstance(initial, MarginResult):
        raise InputError(
            f"initial={initial!r} must be the MarginResult of an earlier call, or None"
        )
    n_features = problem.operator.shape[1]
    coef = initial.coef
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
    constraints = problem.constraints
    b = constraints.labels.free_intercepts(b)
    return Start(constraints.from_coef(coef) / scale, b, constraints.from_dual(initial.full_dual()))
