"""Fits to rows in memory: all classes together or each against the rest, for one C or for many."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Stopwatch, until
from momentron.data.models import as_coef
from momentron.errors import InputError, short
from momentron.fitting.answer import OPEN, Choice, make_result, solved
from momentron.fitting.fallback import Classifier, fallback_against_rest
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel
from momentron.rows.validation import CleanData, TrainingData, operator_of
from momentron.rows.weights import weighed
from momentron.solvers import Solver, Start
from momentron.solvers.checkpoint import Checkpoint
from momentron.solvers.loop import NO_TIME, Callback, Run, without_time
from momentron.solvers.margin_problem import SparseDual
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status
from momentron.views.reporting import TableReporter

PAIR_BYTES = 16  # of a Gram matrix in double precision, and of a factor of it
GRAM_BYTES = 24  # for each entry of a Gram matrix: that, a copy, and a factor
FARTHEST = 1e12  # outputs of a start, above which exponentials say nothing
FALLBACK_SHARE = 0.2  # of the time that is left, for what classes have that time is too short for


class FitRows(NamedTuple):
    """The rows of a fit or of several: weighed, measured and seen through the kernel, once."""

    data: TrainingData  # the rows that have a weight
    clean: CleanData  # the same as an operator
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
        return cls(data, CleanData(choice.operator(data.X, kernel), 0), kernel)

    def for_many(self, options: FitOptions, stopwatch: Stopwatch) -> "FitRows":
        """The same for several fits: Gram matrix or kernel values kept where there is room.

        Kernel values take half of the time at most: without them fits compute those they need.
        """
        operator = self.clean.operator
        kernel, matrix = operator.as_kernel(), operator.as_matrix()
        memory = options.budget.max_memory or 0
        if matrix is not None and GRAM_BYTES * matrix.shape[0] ** 2 <= memory:
            matrix.keep_gram()
        if kernel is None or kernel.kernel.matrix is not None:
            return self
        n = kernel.shape[0]
        if 8 * n * n > kernel.cache_bytes:  # together the fits need most of them
            return self
        try:
            with until(stopwatch.deadline(0.5 * options.budget.max_time)):
                return self._replace(clean=replace(self.clean, operator=kernel.some(np.arange(n))))
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
        if kept is None or not self.clean.operator.has_coefficient_per_row:
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


@dataclass(frozen=True)
class Fit:
    """A result, with its rows and the problem that it answers; of blocks the result alone."""

    result: MarginResult
    rows: FitRows | None = None
    problem: Problem | None = None

    def with_classifier(self, choice: Choice) -> "Fit":
        """The same question, answered by another classifier."""
        certificate = self.result.certificate
        result = replace(
            self.result,
            coef=choice.coef,
            intercept=choice.intercept,
            certificate=certificate.with_margin(choice.margin, is_bound=not self.result.is_soft),
            is_fallback=choice.predictor is not Predictor.BEST_SO_FAR,
            predictor=choice.predictor,
        )
        return replace(self, result=result)

    def outputs(self) -> np.ndarray:
        """What the classifier says of the rows of the problem, shape (n,) or (n, k)."""
        assert self.rows is not None
        coef, operator = self.result.coef.T, self.rows.clean.operator
        if not operator.has_coefficient_per_row:
            return np.asarray(self.rows.data.X @ coef) + self.result.intercept
        coef = coef if self.rows.data.kept is None else coef[self.rows.data.kept]
        return operator.apply(operator.from_coefficients(coef)) + self.result.intercept


class Fits(NamedTuple):
    """One fit of all the classes together, or one for each, which is the positive one there."""

    fits: list[Fit]
    classes: np.ndarray

    @property
    def results(self) -> list[MarginResult]:
        """What each fit ended with."""
        return [fit.result for fit in self.fits]

    @property
    def are_crowded(self) -> bool:
        """Whether a fit ended short with as many rows of weight as `cache_size` has room for.

        Working sets take two numbers out of it for each pair of their rows.
        """
        for fit in self.fits:
            kernel = None if fit.problem is None else fit.problem.operator.as_kernel()
            if fit.result.status.is_final or kernel is None or kernel.kernel.matrix is not None:
                continue
            capacity = math.isqrt(kernel.cache_bytes // PAIR_BYTES)
            if kernel.shape[0] > capacity and fit.result.support.size >= 0.95 * capacity:
                return True
        return False


# --- one fit -------------------------------------------------------------------------------------


def fit_rows(
    rows: FitRows,
    options: FitOptions,
    *,
    initial: Any = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch,
) -> Fit:
    """One fit of all the classes, with the joint margin where there are many."""
    problem = options.problem_of(rows.data, rows.clean)
    file = None
    if options.checkpoint is not None:
        file = Checkpoint(options.checkpoint, options.identity(rows.data, rows.kernel))
    start = None if initial is None else make_start(problem, initial, options.solver, rows)
    with TableReporter() if options.verbose else nullcontext() as table:
        result = solved(
            problem,
            options,
            stopwatch,
            start=start,
            callback=callback,
            reporter=table,
            checkpoint=file,
        )
    return Fit(rows.numbered(result), rows, problem)


def without_solve(rows: FitRows, options: FitOptions, status: Status, choice: Choice) -> Fit:
    """What there is without a solve: a classifier that is known, and the widest interval."""
    problem, k = options.problem_of(rows.data, rows.clean), rows.data.classes.size
    run = Run(problem, options.solver, options.budget, record_every=options.record_every)
    run.status, run.certificate, run.seconds = status, without_time(problem), 0.0
    nowhere = np.empty(0, np.intp)
    dual = SparseDual(nowhere, nowhere, np.empty((0, k) if k > 2 else 0))
    result = make_result(problem, options.solver, run, choice, dual)
    return Fit(replace(result, n_rows=rows.n_given), rows, problem)


# --- several fits --------------------------------------------------------------------------------


def fits_along(
    data: TrainingData,
    options: FitOptions,
    Cs: Sequence[float],
    stopwatch: Stopwatch,
    callback: Callback | None = None,
    *,
    is_split: bool = False,
    initial: Sequence[Any] | None = None,
) -> list[Fits]:
    """Fits for one C after the other, each started from the last where the method can.

    `is_split` asks for every class against the rest where there are more than two; `initial` has a
    start for each. The budget is for all fits together.
    """
    rows = FitRows.of(data, options)
    classes = rows.data.classes
    is_split = is_split and classes.size > 2
    if len(Cs) == 1 and not is_split:
        start = None if initial is None else initial[0]
        fit = fit_rows(rows, options, initial=start, callback=callback, stopwatch=stopwatch)
        return [Fits([fit], classes)]
    rows = rows.for_many(options, stopwatch)
    parts = [rows.against_rest(c) for c in range(classes.size)] if is_split else [rows]
    series = _Series(rows, options, len(Cs) * len(parts), stopwatch, callback)
    found: list[Fits] = []
    for C in Cs:
        fits = []
        for c, part in enumerate(parts):
            last = found[-1].fits[c].result if found else None
            start = None if initial is None else initial[c]
            if last is not None and options.solver.warm_starts:
                start = last
            fits.append(series.fit(part, c, replace(options, C=C), start, last))
        found.append(Fits(fits, classes))
    return found


class _Series:
    """Several fits to the same rows within one budget, which each has a share of in its turn.

    Once the time is over, or after Ctrl-C, soft margins have the classifier of the last C. Classes
    for which the time is too short to find anything have the classifiers of one logistic
    regression for all of them.
    """

    def __init__(
        self,
        rows: FitRows,
        options: FitOptions,
        n_fits: int,
        stopwatch: Stopwatch,
        callback: Callback | None,
    ) -> None:
        # the other half of what may be spent beyond max_time is for the fallback
        self._budget = replace(options.budget, patience=0.5 * options.budget.grace)
        self._n_fits = self._n_left = n_fits
        self._rows, self._stopwatch, self._callback = rows, stopwatch, callback
        self._ending: Status | None = None
        self._shared: Classifier | None = None

    def fit(
        self, rows: FitRows, c: int, options: FitOptions, start: Any, last: MarginResult | None
    ) -> Fit:
        """The next fit, of class c where they are several; `last` is the result for the last C."""
        is_split, seconds = rows is not self._rows, self._stopwatch.seconds()
        if self._ending is None and seconds >= self._budget.max_time:
            self._ending = Status.TIME_BUDGET
        budget = self._budget.share(seconds, self._n_left, self._n_fits)
        self._n_left -= 1
        if self._ending is not None:
            if is_split:
                problem = options.problem_of(rows.data, rows.clean)
                return without_solve(rows, options, self._ending, self._choice_of(c, problem))
            if last is not None and math.isfinite(options.C):
                is_margin = last.predictor is Predictor.MARGIN
                predictor = Predictor.BEST_SO_FAR if is_margin else last.predictor
                known = Choice(last.coef, last.intercept, last.margin, predictor)
                return without_solve(rows, options, self._ending, known)
            budget = replace(budget, max_time=NO_TIME)
        own = Stopwatch()
        mine = replace(options, budget=budget)
        fit = fit_rows(rows, mine, initial=start, callback=self._callback, stopwatch=own)
        self._stopwatch.leave_out(own)
        if fit.result.status is Status.INTERRUPTED:
            self._ending = Status.INTERRUPTED
        if is_split and _is_needy(fit.result):
            assert fit.problem is not None
            return fit.with_classifier(self._choice_of(c, fit.problem))
        return fit

    def _choice_of(self, c: int, problem: Problem) -> Choice:
        """The classifier that a class has of one regression for all, which any problem poses."""
        if self._shared is None:
            seconds, left = self._budget.grace, self._budget.max_time - self._stopwatch.seconds()
            if self._ending is None and left < math.inf:
                seconds = max(seconds, FALLBACK_SHARE * left)
            data = self._rows.data
            k = data.classes.size
            self._shared = fallback_against_rest(problem, data.codes, k, seconds=seconds)
        shared = self._shared
        w, b = problem.to_unit_length(shared.w[..., c], float(shared.b[c]))
        coef = self._rows.among_given(problem.coef_of(w))
        return Choice(coef, problem.intercept_in_units_of_x(b), -math.inf, shared.predictor)


def _is_needy(result: MarginResult) -> bool:
    """Whether time or memory ran out before there was a useful classifier."""
    if result.status not in (Status.TIME_BUDGET, Status.NO_ROOM, Status.INTERRUPTED):
        return False
    is_far = result.gap > OPEN if result.is_soft else result.margin <= 0.0
    return result.is_fallback or is_far


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
    if not problem.length(w) * problem.radius <= FARTHEST:
        raise InputError(f"initial is too long: x·w would be above {FARTHEST:g}; shorten it")
    return Start(w, np.zeros(problem.dual_set.n_intercepts), np.empty(0))
