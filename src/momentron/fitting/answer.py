"""What users get of a solve: the classifier, its margin and its weights, in their own units.

Which classifier that is:

separated        w of the largest margin, at unit length, with its best intercepts
soft margin      w and b in the scale of the problem that C poses, as support vector machines are:
                 always those that the certificate was made of, whose objective it bounds
none of these    `momentron.fitting.fallback`
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Stopwatch, until
from momentron.certificate import classifier_bounds
from momentron.fitting.fallback import Candidate, Classifier, fallback
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.solvers import Solver
from momentron.solvers.loop import Run, solve
from momentron.solvers.margin_problem import CertifiedProblem, SparseDual
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status

T = TypeVar("T")

OPEN = 0.1  # the gap of a soft margin above which its classifier may be worse than the fallback


class Choice(NamedTuple):
    """A classifier in the user's units, with a proven lower bound on its own margin."""

    coef: np.ndarray
    intercept: Any
    margin: float
    predictor: Predictor = Predictor.BEST_SO_FAR


def solved(
    problem: CertifiedProblem, options: FitOptions, stopwatch: Stopwatch, **more: Any
) -> MarginResult:
    """Solve a problem as the options say; `more` are arguments of `solve`."""
    outcome = solve(
        problem,
        options.solver,
        options.budget,
        random_state=options.random_state,
        record_every=options.record_every,
        stopwatch=stopwatch,
        **more,
    )
    return make_result(problem, options.solver, outcome)


def make_result(
    problem: CertifiedProblem,
    solver: Solver,
    outcome: Run,
    chosen: Choice | None = None,
    dual: SparseDual | None = None,
) -> MarginResult:
    """The outcome in the user's units; with another classifier and dual weights, if any."""
    begin = time.perf_counter()
    chosen = chosen or choose_classifier(problem, outcome)
    dual = dual or problem.sparse_dual(outcome.q)
    is_soft, status, predictor = problem.is_soft, outcome.status, chosen.predictor
    if not chosen.coef.any():
        predictor = Predictor.CONSTANT
    elif predictor is Predictor.BEST_SO_FAR and status is Status.OPTIMAL:
        predictor = Predictor.MARGIN
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
        is_fallback=chosen.predictor is not Predictor.BEST_SO_FAR,
        predictor=predictor,
        is_soft=is_soft,
        penalty=problem.penalty.name,
        bytes_read=problem.bytes_read,
        pass_seconds=problem.pass_seconds,
    )


def choose_classifier(problem: CertifiedProblem, outcome: Run) -> Choice:
    """The classifier of a result; what takes time ends when the outcome says that it must."""
    margin = outcome.certificate.margin
    if problem.is_soft:
        return _soft(problem, outcome)
    if margin > 0.0:
        return _at_unit_length(problem, outcome.w, margin)
    sample, own = problem.sampled(), None  # a fit to rows that are not here would cost passes
    if sample is not None:
        if sample is problem:
            own = Classifier(outcome.last_w, None)
        choice = _fallback(sample, outcome, own)
        has_all = sample.n_rows == problem.n_rows
        return choice if has_all else choice._replace(margin=-math.inf)  # of the other rows
    margin = _margin_in_time(problem, outcome.last_w, outcome)
    return _at_unit_length(problem, outcome.last_w, margin)


def _in_time(outcome: Run, compute: Callable[[], T], default: T) -> T:
    """What is computed before the result must be there; the default if time or Ctrl-C ends it."""
    try:
        with until(outcome.closing):
            return compute()
    except (OutOfTime, KeyboardInterrupt):
        return default


# --- a margin ------------------------------------------------------------------------------------


def _at_unit_length(problem: CertifiedProblem, w: np.ndarray, margin: float) -> Choice:
    """w at unit length, and the best intercepts for it."""
    coef, intercept, loss = problem.classifier(w)
    margin -= loss
    return Choice(coef, intercept, -math.inf if math.isnan(margin) else margin)


def _margin_in_time(problem: CertifiedProblem, w: np.ndarray, outcome: Run) -> float:
    """A sure lower bound on the margin of w; none where the time for it is over."""
    return _in_time(outcome, lambda: problem.certified_margin(w, sharp=True), -math.inf)


# --- a soft margin -------------------------------------------------------------------------------


def _soft(problem: Any, outcome: Run) -> Choice:
    """The classifier of the certificate; the fallback where that is far from the best and worse.

    With the plain hinge w and b are as they were proposed. With the squared hinge (w, √(2C) ξ) at
    unit length has the margin γ, and divided by γ it is the problem's solution, in whose scale
    y (x·w + b) ≥ 1 − ξ.
    """
    status, lower = outcome.status, outcome.certificate.lower
    is_hinge = problem.penalty.has_box
    if is_hinge:
        own, products = Classifier(*problem.solution(outcome.w)), None
    else:
        own, products = _without_slack(problem, outcome.w)
    # 0 may be what a cut solve began with
    is_near = outcome.certificate.gap <= OPEN and (status is Status.STALLED or bool(own.w.any()))
    if not (is_near or status is Status.OPTIMAL):
        # no handicap: C says how regular it is to be
        choice = _fallback(problem, outcome, own, handicap=1.0)
        if choice.predictor is not Predictor.BEST_SO_FAR:
            return choice
    w, b = own
    if not is_hinge:
        margin, scale = classifier_bounds(problem, w, b, products=products)[0], lower or 1.0
        return Choice(
            problem.coef_of(w) / scale, problem.intercept_in_units_of_x(b) / scale, margin
        )
    margin = classifier_bounds(problem, *problem.to_unit_length(w, b))[0] if w.any() else -math.inf
    with np.errstate(over="ignore", under="ignore"):
        return Choice(np.ldexp(problem.coef_of(w), -problem.exponent), b, margin)


def _without_slack(problem: Problem, w: np.ndarray) -> tuple[Classifier, np.ndarray]:
    """(w without slack and its best intercepts, the products Xw), with slack at unit length."""
    w = problem.normalised(np.asarray(w, np.float64))
    norm = problem.norm(w)
    head, tail = problem.parts(w / norm if norm > 0.0 else w)
    products = problem.operator.exact_scores(head)
    scores = problem.labels.scores(products) - problem.penalty.root * tail
    return Classifier(head, problem.best_intercept(scores)), products


# --- neither -------------------------------------------------------------------------------------


def _fallback(
    problem: Problem, outcome: Run, own: Classifier | None = None, *, handicap: float = 0.5
) -> Choice:
    """The fallback at unit length, or the method's own classifier if that errs much less."""
    candidates: list[Candidate] = []
    if own is not None:
        candidates = _in_time(outcome, lambda: _candidates(problem, own), candidates)
    with until(outcome.closing):
        found = fallback(problem, seconds=outcome.seconds, candidates=candidates, handicap=handicap)
    w, b = problem.to_unit_length(*found)
    margin = 0.0
    if w.any():
        margin = _in_time(outcome, lambda: classifier_bounds(problem, w, b)[0], -math.inf)
    intercept = problem.intercept_in_units_of_x(b)
    return Choice(problem.coef_of(w), intercept, margin, found.predictor)


def _candidates(problem: Problem, own: Classifier) -> list[Candidate]:
    """The method's own classifier, if it is any, with the best intercepts where it names none."""
    w = np.asarray(own.w, np.float64)
    if not (np.isfinite(w).all() and w.any()):
        return []
    w, b = problem.to_unit_length(w, 0.0 if own.b is None else own.b)
    w = problem.operator.recomputed(w)
    products = problem.operator.exact_scores(w)
    if own.b is None:
        b = problem.best_intercept(problem.labels.scores(products))
    return [Candidate(Classifier(w, b), products)]
