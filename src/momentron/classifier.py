"""What users get of a solve: the classifier, its margin and its weights, in their own units.

And the way back: the start that an earlier result gives to a new solve.
"""

import math
from dataclasses import replace

import numpy as np

from momentron.clock import OutOfTime, until
from momentron.errors import InputError
from momentron.margin_problem import MarginProblem
from momentron.operators import KernelOperator
from momentron.problem import Problem
from momentron.result import MarginResult
from momentron.solve import Outcome
from momentron.solvers import Solver, Start


def make_result(problem: MarginProblem, solver: Solver, outcome: Outcome) -> MarginResult:
    """The outcome in the user's units, with a classifier of unit length."""
    certificate, w, b = outcome.certificate, outcome.w, None
    if certificate.margin <= 0.0 and outcome.n_iter:
        # nothing separates: the last iterate still follows the loss, and classifies well
        w, b = outcome.last_w, outcome.last_b
        # what is proven is for the best intercept, and b is another
        margin = _margin_in_time(problem, w, outcome) if b is None else -math.inf
        certificate = replace(certificate, margin=margin)
    if w.dtype == np.longdouble:
        # the interval is proved by w in extended precision; the margin is that of the classifier
        w = w.astype(np.float64)
        certificate = replace(certificate, margin=_margin_in_time(problem, w, outcome, sharp=True))
    w = w if b is not None else problem.settled(w)
    margin = certificate.margin - problem.rounding_loss(w)
    certificate = replace(certificate, margin=-math.inf if math.isnan(margin) else margin)
    coef, intercept = problem.classifier(w, b)
    dual = problem.sparse_dual(outcome.q)
    return MarginResult(
        status=outcome.status,
        certificate=certificate,
        coef=coef,
        intercept=intercept,
        support=dual.rows,
        dual=dual.weights,
        support_labels=problem.classes[dual.codes],
        n_rows=problem.n_rows,
        n_iter=outcome.n_iter,
        passes=outcome.passes,
        seconds=outcome.seconds,
        trace=outcome.trace,
        classes=problem.classes,
        method=solver.name,
        is_fallback=b is not None,
        bytes_read=problem.bytes_read,
        pass_seconds=problem.pass_seconds,
    )


def _margin_in_time(
    problem: MarginProblem, w: np.ndarray, outcome: Outcome, *, sharp: bool = False
) -> float:
    """A sure lower bound on the margin of w; none where the time for it is over."""
    try:
        with until(outcome.closing):
            return problem.certified_margin(w, sharp=sharp)
    except OutOfTime:
        return -math.inf


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
    if isinstance(problem.operator, KernelOperator) and coef.shape[-1] < n_features:
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
    scale = initial.lower if initial.lower > 0.0 else initial.upper
    scale = float(np.ldexp(scale, -problem.exponent))
    if not 0.0 < scale < math.inf:
        return None
    b = np.ldexp(np.atleast_1d(initial.intercept), -problem.exponent) / scale
    constraints = problem.constraints
    b = constraints.labels.free_intercepts(b)
    return Start(constraints.from_coef(coef) / scale, b, constraints.from_dual(initial.full_dual()))
