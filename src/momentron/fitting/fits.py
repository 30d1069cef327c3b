"""One fit to rows in memory, and what users get of it: the classifier, its margin, its weights.

Which classifier that is:

separated        w of the largest margin, at unit length, with its best intercepts
soft margin      w and b in the scale of the problem that C poses, as support vector machines are:
                 always those that the certificate was made of, whose objective it bounds
none of these    `momentron.fitting.fallback`
"""

import math
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, TimeLimit, until
from momentron.certificate import classifier_bounds
from momentron.data.models import as_coef
from momentron.errors import InputError, short
from momentron.fitting.fallback import OPEN, Choice, Classifier, fallback_choice
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.rows import Operator
from momentron.rows.kernels import Kernel
from momentron.rows.validation import TrainingData, operator_of, weighed
from momentron.solvers import Solver, Start
from momentron.solvers.checkpoint import Checkpoint, data_identity
from momentron.solvers.loop import Callback, Run, solve
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status
from momentron.views.progress import TableReporter

PAIR_BYTES = 16  # of a Gram matrix in double precision, and of a factor of it
GRAM_BYTES = 24  # for each entry of a Gram matrix: that, a copy, and a factor
FARTHEST = 1e12  # outputs of a start, above which exponentials say nothing


class FitRows(NamedTuple):
    """The rows of a fit or of several: weighed, measured and seen through the kernel, once."""

    data: TrainingData  # the rows that have a weight
    operator: Operator  # the same, as a linear map
    kernel: Kernel | None  # with its parameters as numbers

    @classmethod
    def of(cls, data: TrainingData, options: FitOptions) -> "FitRows":
        """The rows of data, as the options weigh and see them."""
        choice = options.kernel
        is_square = choice is not None and choice.is_precomputed
        if not (data.sample_weight is None and options.class_weight is None):
            data = weighed(data, options.class_weight, is_square=is_square)
        if choice is None:
            return cls(data, operator_of(data.X), None)
        kernel = choice.resolve(data.X, data.sample_weight)
        return cls(data, choice.operator(data.X, kernel), kernel)

    def for_many(self, options: FitOptions, limit: TimeLimit) -> "FitRows":
        """The same for several fits: Gram matrix or kernel values kept where there is room.

        Kernel values take half of the time at most: without them fits compute those they need.
        """
        kernel, matrix = self.operator.as_kernel(), self.operator.as_matrix()
        memory = options.budget.memory or 0
        if matrix is not None and GRAM_BYTES * matrix.shape[0] ** 2 <= memory:
            matrix.keep_gram()
        if kernel is None or kernel.kernel.matrix is not None:
            return self
        n = kernel.shape[0]
        if 8 * n * n > kernel.cache_bytes:  # together the fits need most of them
            return self
        try:
            with until(limit.moment(0.5)):
                return self._replace(operator=kernel.some(np.arange(n)))
        except OutOfTime:
            return self

    def against_rest(self, c: int) -> "FitRows":
        """The same with two classes, the second of which is one of these."""
        codes = (self.data.codes == c).astype(np.intp)
        return self._replace(data=replace(self.data, classes=np.array([False, True]), codes=codes))

    @property
    def n_given(self) -> int:
        """How many rows were passed."""
        return self.data.n_given or self.data.codes.size

    def among_given(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients in the numbering of the rows that were passed, if they are one per row."""
        kept = self.data.kept
        if kept is None or not self.operator.has_coefficient_per_row:
            return coef
        full = np.zeros((*coef.shape[:-1], self.n_given))
        full[..., kept] = coef
        return full

    def numbered(self, result: MarginResult) -> MarginResult:
        """A result in the numbering of the rows that were passed."""
        kept = self.data.kept
        if kept is None:
            return result
        coef, support = self.among_given(result.coef), kept[result.support]
        return replace(result, coef=coef, support=support, n_rows=self.n_given)


class Fits(NamedTuple):
    """One fit of all the classes together, or one for each, which is the positive one there."""

    results: list[MarginResult]
    classes: np.ndarray
    rows: FitRows | None = None  # of all the classes; none of rows in blocks

    @property
    def are_crowded(self) -> bool:
        """Whether a fit ended short with as many rows of weight as `cache_size` has room for.

        Working sets take two numbers out of it for each pair of their rows.
        """
        kernel = None if self.rows is None else self.rows.operator.as_kernel()
        if kernel is None or kernel.kernel.matrix is not None:
            return False
        capacity = math.isqrt(kernel.cache_bytes // PAIR_BYTES)
        sizes = [r.support.size for r in self.results if not r.status.is_final]
        return kernel.shape[0] > capacity and max(sizes, default=0) >= 0.95 * capacity


# --- one fit -------------------------------------------------------------------------------------


def fit_rows(
    rows: FitRows,
    options: FitOptions,
    limit: TimeLimit,
    callback: Callback | None = None,
    initial: Any = None,
) -> MarginResult:
    """One fit of all the classes, with the joint margin where there are many."""
    problem = options.problem_of(rows.data, rows.operator)
    file = None
    if options.checkpoint is not None:
        question = options.question(rows.data.weights, rows.kernel)
        file = Checkpoint(options.checkpoint, question | data_identity(rows.data))
    if initial is not None:
        start = make_start(problem, initial, options.solver, rows)
        options = replace(options, budget=replace(options.budget, start=start))
    with TableReporter() if options.verbose else nullcontext() as table:
        result = solved(problem, options, limit, callback=callback, reporter=table, checkpoint=file)
    return rows.numbered(result)


# --- what users get of it ------------------------------------------------------------------------


def solved(problem: Problem, options: FitOptions, limit: TimeLimit, **more: Any) -> MarginResult:
    """Solve a problem as the options say; `more` are arguments of `solve`."""
    more = {"record_every": options.record_every, "limit": limit} | more
    return make_result(solve(problem, options.solver, options.budget, **more))


def make_result(outcome: Run, chosen: Choice | None = None) -> MarginResult:
    """The outcome in the user's units; with another classifier and no weights, if there is one."""
    begin = time.perf_counter()
    problem, q, is_proven = outcome.problem, outcome.q, chosen is None
    chosen = chosen or choose_classifier(problem, outcome)
    if problem.penalty.has_box and outcome.certificate.upper == math.inf:
        is_proven = False  # and to scale q may take longer than the solve
    support, dual = problem.support(q if is_proven else np.zeros_like(q))
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
        support=support,
        dual=dual,
        support_labels=problem.classes[problem.labels.codes[support]],
        n_rows=problem.n_rows,
        n_iter=outcome.n_iter,
        passes=outcome.passes,
        seconds=outcome.seconds + time.perf_counter() - begin,
        trace=outcome.trace,
        classes=problem.classes,
        method=outcome.solver.name,
        is_fallback=chosen.predictor is not Predictor.BEST_SO_FAR,
        predictor=predictor,
        is_soft=is_soft,
        penalty=problem.penalty.name,
    )


def choose_classifier(problem: Problem, outcome: Run) -> Choice:
    """The classifier of a result; what takes time ends when the outcome says that it must."""
    margin = outcome.certificate.margin
    if problem.is_soft:
        return _soft(problem, outcome)
    if margin > 0.0:
        coef, intercept, loss = problem.classifier(outcome.w)  # at unit length
        margin -= loss
        return Choice(coef, intercept, -math.inf if math.isnan(margin) else margin)
    sample = problem.sampled()  # a fit to rows that are not here would cost passes
    own = Classifier(outcome.last_w, None) if sample is problem else None
    return fallback_choice(sample, outcome, own)


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
    else:  # w without slack and its best intercepts, with slack at unit length
        w = problem.normalised(np.asarray(outcome.w, np.float64))
        norm = problem.norm(w)
        head, tail = problem.parts(w / norm if norm > 0.0 else w)
        products = problem.operator.scores_in_double(head)
        scores = problem.labels.scores(products) - problem.penalty.root * tail
        own = Classifier(head, problem.best_intercept(scores))
    # 0 may be what a cut solve began with
    is_near = outcome.certificate.gap <= OPEN and (status is Status.STALLED or bool(own.w.any()))
    if not (is_near or status is Status.OPTIMAL):
        # no handicap: C says how regular it is to be
        choice = fallback_choice(problem.sampled(), outcome, own, handicap=1.0)
        if choice.predictor is not Predictor.BEST_SO_FAR:
            return choice
    w, b, _ = own
    coef, intercept = problem.in_units_of_x(w, b)
    if not is_hinge:
        margin, scale = classifier_bounds(problem, w, b, products=products)[0], lower or 1.0
        return Choice(coef / scale, intercept / scale, margin)
    margin = -math.inf
    if w.any():
        unit, b_of_unit = problem.to_unit_length(w, b)
        products = problem.operator.scores_in_double(unit)
        margin = classifier_bounds(problem, unit, b_of_unit, products=products)[0]
    with np.errstate(over="ignore", under="ignore"):
        return Choice(np.ldexp(coef, -problem.exponent), b, margin)


# --- where a fit starts --------------------------------------------------------------------------


def make_start(problem: Problem, initial: Any, solver: Solver, rows: FitRows) -> Start | None:
    """The start that an earlier result or an array gives, checked against the problem.

    The rows that were passed begin with the rows of the result.
    """
    if not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not support warm starts; leave initial out")
    if not isinstance(initial, MarginResult):
        return _start_anywhere(problem, initial, solver)
    n_features = problem.operator.shape[1]
    coef, dual = initial.coef, _of_rows(initial.full_dual(), rows)
    if problem.operator.has_coefficient_per_row:
        coef = _of_rows(coef.T, rows).T
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


def _of_rows(values: np.ndarray, rows: FitRows) -> np.ndarray:
    """Values of the first rows that were passed, for those that are kept; zero for the others."""
    n_more = rows.n_given - values.shape[0]
    if n_more > 0:
        values = np.concatenate([values, np.zeros((n_more, *values.shape[1:]))])
    return values if rows.data.kept is None else values[rows.data.kept]


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
    if not problem.norm(w) * problem.radius <= FARTHEST:
        raise InputError(f"initial is too long: x·w would be above {FARTHEST:g}; shorten it")
    return Start(w, np.zeros(problem.dual_set.n_intercepts), np.empty(0))
