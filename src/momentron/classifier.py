"""What users get of a solve: the classifier, its margin and its weights, in their own units.

And the way back: the start that an earlier result gives to a new solve.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.certificate import LONG, SHORT, Certificate, certify_margin, to_safe_length
from momentron.clock import OutOfTime, until
from momentron.errors import InputError
from momentron.operators import KernelOperator
from momentron.problem import Problem
from momentron.result import MarginResult
from momentron.rounding import UNIT_ROUNDOFF
from momentron.solve import Outcome
from momentron.solvers import Solver, Start


def make_result(problem: Problem, solver: Solver, outcome: Outcome) -> MarginResult:
    """The outcome in the user's units, with a classifier of unit length."""
    certificate, w, b = choose_classifier(problem, outcome)
    if w.dtype == np.longdouble:
        # the interval is proved by w in extended precision; the margin is that of the classifier
        w = w.astype(np.float64)
        certificate = replace(certificate, margin=_margin_in_time(problem, w, outcome, sharp=True))
    w = w if b is not None else _settled(problem, w)
    margin = certificate.margin - _rounding_loss(problem, w)
    certificate = replace(certificate, margin=-math.inf if math.isnan(margin) else margin)
    coef, intercept = classifier(problem, w, b)
    return MarginResult(
        status=outcome.status,
        certificate=certificate,
        coef=coef,
        intercept=intercept,
        dual=problem.constraints.dual_of(outcome.q),
        n_iter=outcome.n_iter,
        seconds=outcome.seconds,
        trace=outcome.trace,
        classes=problem.classes,
        method=solver.name,
        is_fallback=b is not None,
    )


def choose_classifier(
    problem: Problem, outcome: Outcome
) -> tuple[Certificate, np.ndarray, np.ndarray | None]:
    """(certificate with the margin of w, w, b): what classifies; b None for the best intercept."""
    certificate = outcome.certificate
    if certificate.margin > 0.0 or not outcome.n_iter:
        return certificate, outcome.w, None
    # nothing separates: the last iterate still follows the loss, and classifies well
    w, b = outcome.last_w, outcome.last_b
    # what is proven is for the best intercept, and b is another
    margin = _margin_in_time(problem, w, outcome) if b is None else -math.inf
    return replace(certificate, margin=margin), w, b


def _margin_in_time(
    problem: Problem, w: np.ndarray, outcome: Outcome, *, sharp: bool = False
) -> float:
    """A sure lower bound on the margin of w; none where the time for it is over."""
    try:
        with until(outcome.closing):
            return certify_margin(problem, w, sharp=sharp)
    except OutOfTime:
        return -math.inf


def _settled(problem: Problem, w: np.ndarray) -> np.ndarray:
    """w at a safe length, with all that a solver kept beside its coefficients computed anew."""
    constraints = problem.constraints
    w = constraints.refreshed(w)
    return w if SHORT < constraints.norm(w) < LONG else to_safe_length(w)


def _rounding_loss(problem: Problem, w: np.ndarray) -> float:
    """What the margin may lose when w is brought to unit length, which rounds each entry twice."""
    constraints = problem.constraints
    norm = constraints.norm(w)
    if not norm > 0.0:
        return 0.0
    share = problem.operator.magnitude(constraints.split(w)[0], norm) / norm
    return problem.to_units_of_x(8.0 * UNIT_ROUNDOFF * share * constraints.radius / problem.radius)


def classifier(
    problem: Problem, w: np.ndarray, b: np.ndarray | None = None
) -> tuple[np.ndarray, Any]:
    """(coef, intercept): w at unit length, and the best intercept for it in the units of X.

    Where nothing separates, the best intercept is that of a few outliers; b, if it is given, is
    better there.

    Of a soft margin's unit vector (w, √C ξ) only the part w is the classifier.
    """
    constraints = problem.constraints
    norm = constraints.norm(w)
    if not SHORT < norm < LONG:
        top = float(np.max(np.abs(w), initial=0.0))
        w, b = (w / top, _over(b, top)) if top > 0.0 else (w, b)
        norm = constraints.norm(w)
    w, b = (w / norm, _over(b, norm)) if norm > 0.0 else (w, b)
    intercept: Any = np.zeros(problem.classes.size) if problem.classes.size > 2 else 0.0
    if problem.dual_set.fits_intercept:
        with np.errstate(over="ignore", under="ignore"):
            best = problem.dual_set.intercept(constraints.exact_scores(w)) if b is None else b
            intercept = np.ldexp(best, problem.exponent)
    return constraints.coef_of(w), intercept if np.ndim(intercept) else float(intercept)


def _over(b: np.ndarray | None, length: float) -> np.ndarray | None:
    return None if b is None else b / length


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
    return Start(constraints.from_coef(coef) / scale, b, constraints.from_dual(initial.dual))
