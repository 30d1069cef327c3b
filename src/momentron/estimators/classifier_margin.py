"""Classifiers that came from elsewhere, certified: a network's last layer, another library's."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.api import fit, plan_fit
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import down, up
from momentron.certificate import Certificate, classifier_bounds
from momentron.certificate import certify as certify_pair
from momentron.certificate.bounds import to_safe_length
from momentron.data.models import as_coef, as_intercept
from momentron.errors import InputError, short
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.solvers.problem import Problem


@dataclass(frozen=True)
class ClassifierMargin:
    """The proven margin of one classifier, and its share of the best margin.

    Attributes
    ----------
    lower, upper : float
        The least y (x·w + b)/‖w‖ over the rows lies between them, in the units of X: negative if
        the classifier errs. With many classes, the least lead of a row's own class over another,
        divided by ‖W‖. For w = 0 it is 0.
    optimum : Certificate or None
        A proven interval on the best margin of any classifier.
    share, share_upper : float
        The ratio of the margin to the best one lies between them; NaN without an optimum, or if
        nothing separates the rows, so that the best margin is 0.
    """

    lower: float
    upper: float
    optimum: Certificate | None = None

    @property
    def share(self) -> float:
        best = self.optimum
        if best is None or not best.lower > 0.0:
            return math.nan
        return down(self.lower / (best.upper if self.lower > 0.0 else best.lower))

    @property
    def share_upper(self) -> float:
        best = self.optimum
        if best is None or not best.lower > 0.0:
            return math.nan
        return up(self.upper / (best.lower if self.upper > 0.0 else best.upper))

    def __repr__(self) -> str:
        text = f"{type(self).__name__}: in [{self.lower:.9g}, {self.upper:.9g}]"
        if self.optimum is None:
            return text
        share = self.share
        if math.isnan(share):
            return f"{text}; no classifier that separates the rows is known"
        if share < 0.0:
            return f"{text}, where the best margin is positive: it errs on a row"
        return f"{text}, at least {math.floor(1e6 * share) / 1e4:.4f} % of the best margin"


@standard_arithmetic()
def margin_of(
    X: Any, y: Any, W: Any, b: Any = None, *, optimum: Any = "solve", max_time: float | None = None
) -> ClassifierMargin:
    """The proven margin of a classifier with its own intercept, and its share of the best.

    Parameters
    ----------
    X, y
        As in `max_margin`, in memory.
    W : array or tensor of shape (d,) or (1, d), or (k, d) for k ≥ 3 classes
        Like `coef`, `coef_` and `torch.nn.Linear.weight`, of any length: one row per class, in the
        sorted order of the labels. With two classes also (2, d), of which the difference of
        the rows counts.
    b : number, or array with one entry per row of W, optional
        Used as given, even if it is not the best for W. None: no intercept, nor in the optimum.
    optimum : "solve", MarginResult, Certificate or None
        What to compare with: solved here by `max_margin`, an earlier result for the same rows, or
        nothing.
    max_time : float, optional
        Seconds for the optimum.

    Returns
    -------
    ClassifierMargin

    Notes
    -----
    The margin costs one pass over X, in float64 with rounding bounds.

    Examples
    --------
    >>> X = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]]
    >>> found = margin_of(X, [1, 1, 0, 0], [0.0, 3.0], -1.5)
    >>> round(found.lower, 6), round(found.share, 4)
    (1.5, 1.0)
    """
    options = FitOptions.from_arguments(fit_intercept=b is not None, max_time=max_time)
    plan = plan_fit(X, y, options, needs_rows="margin_of")
    assert plan.data is not None, "blocks are refused"
    problem = options.problem_of(plan.data)
    coef = as_coef(W, problem.shown(problem.zeros()).shape)
    intercept = as_intercept(b, W, problem.classes.size)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise InputError("W or b contains NaN or infinity; every weight must be finite")
    best = optimum
    if isinstance(optimum, str) and optimum == "solve":
        best = fit(plan, options).results[0]
    elif max_time is not None:
        raise InputError(f"max_time={short(max_time)} is for optimum='solve'; leave it out")
    lower, upper, _ = proven_margin(problem, coef, intercept)
    return ClassifierMargin(lower, upper, as_optimum(best, problem))


@standard_arithmetic()
def proven_margin(
    problem: Problem, coef: np.ndarray, intercept: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """(sure bounds of the margin of a finite classifier, its outputs), all in the units of X.

    The margin of w = 0 is 0.
    """
    safe = to_safe_length(coef)
    w = problem.from_coef(safe)
    products = problem.operator.scores_in_double(w)
    # w was scaled by a power of two, and b must be; the rows are those of X over 2^exponent
    top = [np.max(np.abs(vector), initial=0.0) for vector in (safe, coef)]
    shift = int(np.frexp(top[0])[1] - np.frexp(top[1])[1]) - problem.exponent
    with np.errstate(over="ignore", under="ignore"):
        outputs = np.ldexp(products, -shift) + intercept
        b = np.ldexp(intercept, shift)
    if not top[0]:
        return 0.0, 0.0, outputs
    # w and b may be differences of two outputs', rounded once: the bounds allow for that
    return *classifier_bounds(problem, w, b, products=products), outputs


def as_optimum(optimum: Any, problem: Problem) -> Certificate | None:
    """The interval of an optimum that may be compared with."""
    if optimum is None or isinstance(optimum, Certificate):
        return optimum
    if not isinstance(optimum, MarginResult):
        raise InputError(
            f"optimum={short(optimum)} must be 'solve', a MarginResult, a Certificate or None"
        )
    if optimum.is_soft:
        raise InputError("optimum is a soft margin, not a margin; pass a result with C=inf")
    is_same = np.array_equal(optimum.classes, problem.classes)
    if optimum.n_rows != problem.n_rows or not is_same:
        raise InputError(
            f"optimum is for {optimum.n_rows} rows of {optimum.classes.size} classes, but X has "
            f"{problem.n_rows} rows of {problem.classes.size}; pass the result for the same rows"
        )
    return optimum.certificate


def certify(problem: Problem, coef: Any, dual: Any, *, sharp: bool = False) -> Certificate:
    """Certify an interval on the best margin from any classifier and any dual weights.

    Parameters
    ----------
    problem : Problem
        A problem with a hard margin, from `Problem.from_data`, which finds the best intercept for
        `coef`; `margin_of` is for classifiers with their own.
    coef : array of shape (d,) or (1, d), or (k, d) for k ≥ 3 classes
        Like `MarginResult.coef`; its length does not matter. With a kernel: one number per example.
    dual : array of shape (n,), or (n, k)
        Like `MarginResult.full_dual()`. Any weights will do: they are clipped at zero and rescaled
        into the dual set.
    sharp : bool
        Use extended precision for the rows that decide, where available. Without it the
        bounds lose about d·u·R, R the longest row; with it some 2,000 times less.

    Returns
    -------
    Certificate

    Notes
    -----
    Costs one pass over the data for the classifier, and one over the rows with weight.

    Examples
    --------
    >>> from momentron import Problem, certify
    >>> problem = Problem.from_data([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> found = certify(problem, coef=[2.0], dual=[0.0, 0.5, 0.5])
    >>> print(f"in [{found.lower:.6f}, {found.upper:.6f}]")
    in [1.000000, 1.000000]
    """
    if not hasattr(problem, "is_soft"):
        raise InputError(f"problem={short(problem)} must be a Problem: Problem.from_data(X, y)")
    if problem.is_soft:
        raise InputError("certify is for hard margins; state the problem with C=inf")
    w = problem.from_coef(as_coef(coef, problem.shown(problem.zeros()).shape, "coef"))
    wanted = problem.labels.dual_of(np.zeros(problem.size)).shape
    if np.shape(dual) != wanted:
        raise InputError(
            f"dual has shape {np.shape(dual)}; these data need {wanted}, the shape of full_dual(): "
            "one weight per row, and with three or more classes per row and label"
        )
    q = problem.labels.from_dual(np.asarray(dual, np.float64))
    return certify_pair(problem, w, q, sharp=sharp)
