"""Which classifier a solve ends with: the one with the margin, the soft margin's, or the fallback.

separated        w of the largest margin, at unit length, with its best intercepts
soft margin      w and b in the scale of the problem that C poses, as support vector machines are:
                 always those that the certificate was made of, whose objective it bounds
none of these    `momentron.fitting.fallback`
"""

import math
from typing import Any, NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, until
from momentron.certificate import certify_classifier
from momentron.fitting.fallback import Candidate, Classifier, fallback
from momentron.solvers.certified_problem import CertifiedProblem
from momentron.solvers.loop import Outcome
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status

OPEN = 0.1  # the gap of a soft margin above which its classifier may be worse than the fallback


class Choice(NamedTuple):
    """A classifier in the user's units, with a proven lower bound on its own margin."""

    coef: np.ndarray
    intercept: Any
    margin: float
    is_fallback: bool = False
    predictor: Predictor = Predictor.BEST_SO_FAR


def choose_classifier(problem: CertifiedProblem, outcome: Outcome) -> Choice:
    """The classifier of a result; what takes time ends when the outcome says that it must."""
    certificate, whole = outcome.certificate, problem.in_memory()
    if whole is not None and whole.is_soft:
        return _soft(whole, outcome)
    if certificate.margin > 0.0:
        return _at_unit_length(problem, outcome, outcome.w, certificate.margin)
    if whole is None:  # a fit to rows that are not here would cost passes
        sample = problem.sampled()
        if sample is None:
            margin = _margin_in_time(problem, outcome.last_w, outcome)
            return _at_unit_length(problem, outcome, outcome.last_w, margin)
        choice = _fallback(sample, outcome, [])
        return choice._replace(margin=-math.inf)  # nothing is known of the other rows
    return _fallback(whole, outcome, [Classifier(outcome.last_w, outcome.last_b)])


# --- a margin ------------------------------------------------------------------------------------


def _at_unit_length(
    problem: CertifiedProblem, outcome: Outcome, w: np.ndarray, margin: float
) -> Choice:
    """w at unit length, and the best intercepts for it."""
    if w.dtype == np.longdouble:
        # the interval is proved by w in extended precision; the margin is that of the classifier
        w = w.astype(np.float64)
        margin = _margin_in_time(problem, w, outcome)
    coef, intercept, loss = problem.classifier(w)
    margin -= loss
    return Choice(coef, intercept, -math.inf if math.isnan(margin) else margin)


def _margin_in_time(problem: CertifiedProblem, w: np.ndarray, outcome: Outcome) -> float:
    """A sure lower bound on the margin of w; none where the time for it is over."""
    try:
        with until(outcome.closing):
            return problem.certified_margin(w, sharp=True)
    except OutOfTime:
        return -math.inf


def _intercept(problem: Problem, scores: np.ndarray) -> Any:
    """The intercepts with the largest margin for these scores, in the units of the operator."""
    if problem.dual_set.fits_intercept:
        return problem.dual_set.intercept(scores)
    return np.zeros(problem.classes.size) if problem.classes.size > 2 else 0.0


# --- a soft margin -------------------------------------------------------------------------------


def _is_near(outcome: Outcome, w: np.ndarray) -> bool:
    """Whether w is near enough to the best to be kept: 0 may be what a cut solve began with."""
    if outcome.status is Status.OPTIMAL:
        return True
    return outcome.certificate.gap <= OPEN and (outcome.status is Status.STALLED or bool(w.any()))


def _soft(problem: Any, outcome: Outcome) -> Choice:
    """The classifier of the certificate; the fallback where that is far from the best and worse."""
    is_hinge = problem.penalty.has_box
    w = problem.solution(outcome.w)[0] if is_hinge else problem.without_slack(outcome.w)
    if not _is_near(outcome, w):
        if is_hinge:
            own = Classifier(*problem.solution(outcome.w))
        else:
            own = _soft_classifier(problem, outcome.w)[0]
        # C says how regular it is to be
        choice = _fallback(problem, outcome, [own], handicap=1.0)
        if choice.is_fallback:
            return choice
    return _hinge(problem, outcome) if is_hinge else _squared_hinge(problem, outcome)


def _hinge(problem: Any, outcome: Outcome) -> Choice:
    """w and b as they were proposed, which have the scale of the problem."""
    w, b = problem.solution(outcome.w)
    margin = certify_classifier(problem, *problem.to_unit_length(w, b)) if w.any() else -math.inf
    with np.errstate(over="ignore", under="ignore"):
        coef = np.ldexp(problem.coef_of(w), -problem.exponent)
    return Choice(coef, b, margin)


def _squared_hinge(problem: Problem, outcome: Outcome) -> Choice:
    """w and b in the scale in which y (x·w + b) ≥ 1 − ξ, and the margin that they have themselves.

    (w, √(2C) ξ) at unit length has the margin γ; divided by γ it is the problem's solution.
    """
    (head, b), products = _soft_classifier(problem, outcome.w)
    margin = certify_classifier(problem, head, b, products=products)
    scale = outcome.certificate.lower or 1.0
    intercept = problem.intercept_in_units_of_x(b) / scale
    return Choice(problem.coef_of(head) / scale, intercept, margin)


def _soft_classifier(problem: Problem, w: np.ndarray) -> tuple[Classifier, np.ndarray]:
    """(w without slack and its best intercepts, the products Xw), with slack at unit length."""
    w = problem.settled(np.asarray(w, np.float64))
    norm = problem.norm(w)
    head, tail = problem.parts(w / norm if norm > 0.0 else w)
    products = problem.operator.exact_scores(head)
    scores = problem.labels.scores(products) - problem.penalty.root * tail
    return Classifier(head, _intercept(problem, scores)), products


# --- neither -------------------------------------------------------------------------------------


def _fallback(
    problem: Problem, outcome: Outcome, own: list[Classifier], *, handicap: float = 0.5
) -> Choice:
    """The fallback at unit length, or a classifier of the method's own if that errs much less."""
    candidates: list[Candidate] = []
    try:
        with until(outcome.closing):
            for classifier in own:
                candidates += _candidates(problem, classifier)
    except (OutOfTime, KeyboardInterrupt):
        pass
    with until(outcome.closing):
        found = fallback(problem, seconds=outcome.seconds, candidates=candidates, handicap=handicap)
    (w, b), predictor = found, found.predictor
    w, b = problem.to_unit_length(w, b)
    margin = -math.inf if w.any() else 0.0
    try:
        with until(outcome.closing):
            margin = certify_classifier(problem, w, b) if w.any() else 0.0
    except (OutOfTime, KeyboardInterrupt):
        pass
    coef = problem.coef_of(w)
    intercept = problem.intercept_in_units_of_x(b)
    return Choice(coef, intercept, margin, predictor is not Predictor.BEST_SO_FAR, predictor)


def _candidates(problem: Problem, own: Classifier) -> list[Candidate]:
    """The method's own classifier, if it is any, with the best intercepts where it names none."""
    w = np.asarray(own.w, np.float64)
    if not (np.isfinite(w).all() and w.any()):
        return []
    w, b = problem.to_unit_length(w, 0.0 if own.b is None else own.b)
    w = problem.operator.recomputed(w)
    products = problem.operator.exact_scores(w)
    if own.b is None:
        b = _intercept(problem, problem.labels.scores(products))
    return [Candidate(Classifier(w, b), products)]
