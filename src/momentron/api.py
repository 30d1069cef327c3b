"""`max_margin`: the library in one call."""

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from momentron.certificate import certify_margin
from momentron.errors import InputError
from momentron.losses import Exponential, Loss, as_loss
from momentron.problem import Problem, feature_operator
from momentron.reporting import TableReporter
from momentron.result import MarginResult
from momentron.solve import Budget, Callback, Outcome, Reporter, Stopwatch, solve
from momentron.solvers import Solver, Start, as_solver


def max_margin(
    X: Any,
    y: Any,
    *,
    method: str | Solver = "auto",
    fit_intercept: bool = True,
    C: float = math.inf,
    loss: str | Loss = "exponential",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_time: float | None = None,
    initial: MarginResult | None = None,
    callback: Callback | None = None,
    verbose: int = 0,
) -> MarginResult:
    r"""Maximise the margin, and prove how close the result is to the best.

    .. math:: \barγ = \max_{w ≠ 0, b} \min_i y_i (⟨w, x_i⟩ + b) / ‖w‖

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        float32 and float64 are read in place, in any layout.
    y : array of shape (n,)
        Two classes: strings, integers or booleans.
    method : str or Solver
        "auto", or a name from `momentron.solvers.SOLVERS`, or a solver with its own parameters,
        such as ``Momentum(step=0.5)``.
    fit_intercept : bool
        An unpenalised intercept b; without it b = 0.
    C : float
        Infinite for the hard margin. A finite C asks for the soft margin with squared hinge,
        min ½‖w‖² + (C/2) Σ ξ_i², which is the hard margin of the kernel K + I/C: lower and upper
        then bound 1/√(2 · least objective). LinearSVC's C is half of this one.
    loss : {"exponential", "logistic"} or Loss
        For the methods that follow a loss; "logistic" without an intercept only.
    tol : float
        Stop when the certified relative gap (upper − lower)/upper is at most this. Data whose
        upper bound falls below tol · max‖x_i‖ are reported as not separable within tolerance.
    max_iter : int, optional
        The method's own default where None.
    max_time : float, optional
        Seconds; no limit where None.
    initial : MarginResult, optional
        Start from an earlier result, for the same features: another C, or more rows below the old
        ones. Only method="auto" starts warm.
    callback : callable, optional
        Called with each trace row; a true return value stops the run.
    verbose : int
        1 prints a table as the method runs.

    Returns
    -------
    MarginResult

    Examples
    --------
    >>> from momentron import max_margin
    >>> X = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]]
    >>> result = max_margin(X, ["up", "up", "down", "down"], tol=1e-3)
    >>> bool(result.lower <= 1.5 <= result.upper)
    True

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML.
    """
    stopwatch = Stopwatch()
    solver = as_solver(method)
    loss = as_loss(loss)
    if not solver.uses_loss and not isinstance(loss, Exponential):
        raise InputError(
            f"loss={loss.name!r} has no meaning for method={solver.name!r}; leave it out"
        )
    budget = make_budget(solver, tol=tol, max_iter=max_iter, max_time=max_time)
    if initial is not None and not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not start warm; leave `initial` out")
    problem = Problem.from_data(X, y, fit_intercept=fit_intercept, loss=loss, C=check_C(C))
    start = make_start(problem, initial)
    reporter = TableReporter() if verbose else None
    outcome = solve(
        problem,
        solver,
        budget,
        start=start,
        callback=callback,
        reporter=reporter,
        stopwatch=stopwatch,
    )
    if reporter is not None:
        reporter.close()
    return make_result(problem, solver, outcome)


def check_C(C: float) -> float:
    """C as a float, checked."""
    if not isinstance(C, Real) or isinstance(C, bool) or not C > 0.0:
        raise InputError(f"C={C!r} must be a positive number; inf is the hard margin")
    if not math.isinf(C) and not 1e-100 < C < 1e100:
        raise InputError(f"C={C!r} must lie between 1e-100 and 1e100; inf is the hard margin")
    return float(C)


def make_start(problem: Problem, initial: MarginResult | None) -> Start | None:
    """The start that an earlier result gives, checked against the problem."""
    if initial is None:
        return None
    n_features = feature_operator(problem).shape[1]
    if initial.coef.size != n_features:
        raise InputError(
            f"initial has {initial.coef.size} features but X has {n_features}; they must agree"
        )
    # functional margin 1, and the units of the operator, which are those of X over 2^exponent
    scale = initial.lower if initial.lower > 0.0 else initial.upper
    scale = float(np.ldexp(scale, -problem.exponent))
    if not 0.0 < scale < math.inf:
        return None
    intercept = float(np.ldexp(initial.intercept, -problem.exponent))
    return Start(initial.coef / scale, intercept / scale, initial.dual[: problem.n_rows])


def make_budget(
    solver: Solver, *, tol: float, max_iter: int | None, max_time: float | None
) -> Budget:
    """Check the budgets, and fill in the method's defaults."""
    if not isinstance(tol, Real) or not 0.0 <= tol < 1.0:
        raise InputError(f"tol={tol!r} must be a number in [0, 1)")
    if max_iter is None:
        max_iter = solver.default_max_iter
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise InputError(f"max_iter={max_iter!r} must be an integer of at least 1, or None")
    if max_time is None:
        max_time = math.inf
    if not isinstance(max_time, Real) or not max_time > 0.0:
        raise InputError(f"max_time={max_time!r} must be a positive number of seconds, or None")
    return Budget(tol=float(tol), max_iter=int(max_iter), max_time=float(max_time))


def make_result(problem: Problem, solver: Solver, outcome: Outcome) -> MarginResult:
    """The outcome in the user's units, with a classifier of unit length."""
    certificate = outcome.certificate
    w = outcome.w
    if certificate.margin <= 0.0 and outcome.n_iter:
        # nothing separates: the last iterate still follows the loss, and classifies well
        w = outcome.last_w
        certificate = replace(certificate, margin=certify_margin(problem, w))
    if w.dtype == np.longdouble:
        # the interval is proved by w in extended precision; the margin is that of the classifier
        w = w.astype(np.float64)
        certificate = replace(certificate, margin=certify_margin(problem, w, sharp=True))
    coef, intercept = classifier(problem, w)
    return MarginResult(
        status=outcome.status,
        certificate=certificate,
        coef=coef,
        intercept=intercept,
        dual=outcome.q,
        n_iter=outcome.n_iter,
        seconds=outcome.seconds,
        trace=outcome.trace,
        classes=problem.classes,
        method=solver.name,
    )


def classifier(problem: Problem, w: np.ndarray) -> tuple[np.ndarray, float]:
    """(coef, intercept): w at unit length, and the best intercept for it in the units of X.

    Of a soft margin's unit vector (w, √C ξ) only the part w is the classifier.
    """
    top = float(np.max(np.abs(w), initial=0.0))
    if top > 0.0:
        w = w / top
        w = w / np.linalg.norm(w)
    intercept = 0.0
    if problem.dual_set.fits_intercept:
        scores = problem.dual_set.scores(problem.operator.exact_scores(w))
        with np.errstate(over="ignore", under="ignore"):
            intercept = np.ldexp(problem.dual_set.intercept(scores), problem.exponent)
    return w[: feature_operator(problem).shape[1]], float(intercept)


__all__ = [
    "Reporter",
    "check_C",
    "classifier",
    "make_budget",
    "make_result",
    "make_start",
    "max_margin",
]
