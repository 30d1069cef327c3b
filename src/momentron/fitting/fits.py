"""Fits to rows in memory: all classes together or each against the rest, for one C or for many."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Stopwatch, until
from momentron.fitting.answer import OPEN, make_result
from momentron.fitting.fallback import Classifier, fallback_against_rest
from momentron.fitting.options import FitOptions
from momentron.fitting.warm_start import make_start
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel
from momentron.rows.validation import CleanData, TrainingData, operator_of
from momentron.rows.weights import weighed
from momentron.solvers.checkpoint import Checkpoint
from momentron.solvers.loop import Callback, Turns, solve, without_time
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status
from momentron.views.reporting import TableReporter
from momentron.views.trace import Trace

PAIR_BYTES = 16  # of a Gram matrix in double precision, and of a factor of it
GRAM_BYTES = 24  # for each entry of a Gram matrix: that, a copy, and a factor
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
        memory = options.budget_in_memory.max_memory or 0
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


@dataclass(frozen=True)
class Fit:
    """A result, with its rows and the problem that it answers; of blocks the result alone."""

    result: MarginResult
    rows: FitRows | None = None
    problem: Problem | None = None

    def with_classifier(
        self, coef: np.ndarray, intercept: Any, margin: float, predictor: Predictor
    ) -> "Fit":
        """The same question, answered by another classifier."""
        result = self.result
        result = replace(
            result,
            coef=coef,
            intercept=intercept,
            certificate=result.certificate.with_margin(margin, is_bound=not result.is_soft),
            is_fallback=predictor is not Predictor.BEST_SO_FAR,
            predictor=predictor,
        )
        return replace(self, result=result)

    @property
    def is_crowded(self) -> bool:
        """Whether the rows with weight are all that the memory for kernel values holds, or more.

        Working sets take two numbers for each pair of their rows out of `cache_size`.
        """
        kernel = None if self.problem is None else self.problem.operator.as_kernel()
        if kernel is None or kernel.kernel.matrix is not None:
            return False
        capacity = math.isqrt(kernel.cache_bytes // PAIR_BYTES)
        return kernel.shape[0] > capacity and self.result.support.size >= 0.95 * capacity

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
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended one of them."""
        return any(result.status is Status.INTERRUPTED for result in self.results)

    @property
    def are_crowded(self) -> bool:
        """Whether any fit that ended short had too little memory for kernel values."""
        short = (fit for fit in self.fits if not fit.result.status.is_final)
        return any(fit.is_crowded for fit in short)


# --- one fit -------------------------------------------------------------------------------------


def fit_rows(
    rows: FitRows,
    options: FitOptions,
    *,
    initial: Any = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fit:
    """One fit of all the classes, with the joint margin where there are many."""
    solver, kept = options.solver, rows.data.kept
    problem = options.problem_of(rows.data, rows.clean)
    file = None
    if options.checkpoint is not None:
        file = Checkpoint(options.checkpoint, options.identity(rows.data, rows.kernel))
    with TableReporter() if options.verbose else nullcontext() as table:
        outcome = solve(
            problem,
            solver,
            options.budget_in_memory,
            start=make_start(problem, initial, solver, kept, rows.n_given),
            random_state=options.random_state,
            callback=callback,
            reporter=table,
            stopwatch=stopwatch,
            checkpoint=file,
            record_every=options.record_every,
        )
    result = make_result(problem, solver, outcome)
    if kept is not None:
        coef, support = rows.among_given(result.coef), kept[result.support]
        result = replace(result, coef=coef, support=support, n_rows=rows.n_given)
    return Fit(result, rows, problem)


def without_solve(rows: FitRows, options: FitOptions, status: Status) -> Fit:
    """What there is without a solve: w = 0, and the widest interval."""
    problem = options.problem_of(rows.data, rows.clean)
    base, k = problem.base, rows.data.classes.size
    result = MarginResult(
        status=status,
        certificate=without_time(problem),
        coef=rows.among_given(base.coef_of(base.zeros())),
        intercept=np.zeros(k) if k > 2 else 0.0,
        support=np.empty(0, np.intp),
        dual=np.empty((0, k) if k > 2 else 0),
        support_labels=rows.data.classes[:0],
        n_rows=rows.n_given,
        n_iter=0,
        passes=problem.passes,
        seconds=0.0,
        trace=Trace(options.record_every),
        classes=rows.data.classes,
        method=options.solver.name,
        is_fallback=True,
        predictor=Predictor.CONSTANT,
        is_soft=problem.is_soft,
        penalty=problem.penalty.name,
    )
    return Fit(result, rows, problem)


# --- several fits --------------------------------------------------------------------------------


def fit_against_rest(
    rows: FitRows,
    options: FitOptions,
    *,
    initial: Sequence[MarginResult] | None = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch,
) -> list[Fit]:
    """A fit for each class, each with an equal share of the time that is left when its turn comes.

    `initial` has a start for each. Those for which the time is too short to find anything have the
    classifiers of one logistic regression for all of them. Ctrl-C ends all of them.
    """
    codes, k = rows.data.codes, rows.data.classes.size
    # the other half of what may be spent beyond max_time is for the fallback
    budget = replace(options.budget, patience=0.5 * options.budget.grace)
    turns = Turns(budget, k, stopwatch)
    shared: Classifier | None = None
    ending: Status | None = None
    fits = []
    for c in range(k):
        two = rows.against_rest(c)
        if ending is None and stopwatch.seconds() >= budget.max_time:
            ending = Status.TIME_BUDGET
        if ending is not None:
            fit = without_solve(two, options, ending)
        else:
            own = Stopwatch()
            start = None if initial is None else initial[c]
            mine = replace(options, budget=turns.next())
            fit = fit_rows(two, mine, initial=start, callback=callback, stopwatch=own)
            stopwatch.leave_out(own)
        if fit.result.status is Status.INTERRUPTED:
            ending = Status.INTERRUPTED
            turns.end()
        if _is_needy(fit.result):
            problem = fit.problem
            assert problem is not None
            if shared is None:
                seconds, left = budget.grace, budget.max_time - stopwatch.seconds()
                if ending is None and left < math.inf:
                    seconds = max(seconds, FALLBACK_SHARE * left)
                shared = fallback_against_rest(problem, codes, k, seconds=seconds)
            w, b = problem.to_unit_length(shared.w[..., c], float(shared.b[c]))
            coef, intercept = problem.coef_of(w), problem.intercept_in_units_of_x(b)
            coef = rows.among_given(coef)
            fit = fit.with_classifier(coef, intercept, -math.inf, shared.predictor)
        fits.append(fit)
    return fits


def _is_needy(result: MarginResult) -> bool:
    """Whether time or memory ran out before there was a useful classifier."""
    if result.status not in (Status.TIME_BUDGET, Status.NO_ROOM, Status.INTERRUPTED):
        return False
    is_far = result.gap > OPEN if result.is_soft else result.margin <= 0.0
    return result.is_fallback or is_far


def fits_along(
    data: TrainingData,
    options: FitOptions,
    Cs: Sequence[float],
    *,
    is_split: bool = False,
    initial: Sequence[Any] | None = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch,
) -> list[Fits]:
    """Fits for one C after the other, each started from the last where the method can.

    `is_split` asks for every class against the rest where there are more than two. The budget is
    for all fits together: when it is spent, or after Ctrl-C, the others have the last classifier.
    """
    rows = FitRows.of(data, options)
    classes = rows.data.classes
    is_split = is_split and classes.size > 2
    if is_split or len(Cs) > 1:
        rows = rows.for_many(options, stopwatch)
    turns = Turns(options.budget, len(Cs), stopwatch)
    found: list[Fits] = []
    for C in Cs:
        own, mine = stopwatch, options if C == options.C else replace(options, C=C)
        if len(Cs) > 1:
            is_late = stopwatch.seconds() >= options.budget.max_time
            if found and math.isfinite(C) and (is_late or found[-1].is_interrupted):
                ending = Status.INTERRUPTED if found[-1].is_interrupted else Status.TIME_BUDGET
                fits = [_with_last(fit, mine, ending) for fit in found[-1].fits]
                found.append(Fits(fits, classes))
                continue
            own, mine = Stopwatch(), replace(mine, budget=turns.next())
        starts = initial
        if found and options.solver.warm_starts:
            starts = found[-1].results
        if is_split:
            fits = fit_against_rest(rows, mine, initial=starts, callback=callback, stopwatch=own)
        else:
            start = None if starts is None else starts[0]
            fit = fit_rows(rows, mine, initial=start, callback=callback, stopwatch=own)
            fits = [fit]
        found.append(Fits(fits, classes))
        if own is not stopwatch:
            stopwatch.leave_out(own)
        if found[-1].is_interrupted:
            turns.end()
    return found


def _with_last(last: Fit, options: FitOptions, status: Status) -> Fit:
    """The last classifier for a soft margin of another C, where there is no time to solve that."""
    assert last.rows is not None
    fit, result = without_solve(last.rows, options, status), last.result
    is_margin = result.predictor is Predictor.MARGIN
    predictor = Predictor.BEST_SO_FAR if is_margin else result.predictor
    return fit.with_classifier(result.coef, result.intercept, result.margin, predictor)
