"""A fit to rows in memory: options and checked data in, a result out."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import Stopwatch
from momentron.fitting.make_result import make_result, make_start, numbered_among
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel
from momentron.rows.validation import CleanData, TrainingData
from momentron.solvers.checkpoint import Checkpoint
from momentron.solvers.loop import Callback, Reporter, solve, without_time
from momentron.solvers.problem import Problem
from momentron.status import Predictor, Status
from momentron.views.reporting import TableReporter
from momentron.views.trace import Trace

PAIR_BYTES = 16  # of a Gram matrix in double precision, and of a factor of it


@dataclass(frozen=True)
class Fit:
    """A result, the problem that it answers, and the kernel with its parameters as numbers.

    `data` are the rows of the problem: those that have a weight. There are none of these where the
    rows are in blocks.
    """

    result: MarginResult
    problem: Problem | None = None
    data: TrainingData | None = None
    kernel: Kernel | None = None

    @classmethod
    def without_time(
        cls, data: TrainingData, options: FitOptions, rows: CleanData, status: Status
    ) -> "Fit":
        """What there is without a solve: w = 0, and the widest interval."""
        problem = options.problem_of(data, rows)
        base, k = problem.base, data.classes.size
        result = MarginResult(
            status=status,
            certificate=without_time(problem),
            coef=base.coef_of(base.zeros()),
            intercept=np.zeros(k) if k > 2 else 0.0,
            support=np.empty(0, np.intp),
            dual=np.empty((0, k) if k > 2 else 0),
            support_labels=data.classes[:0],
            n_rows=data.n_given or data.codes.size,
            n_iter=0,
            passes=problem.passes,
            seconds=0.0,
            trace=Trace(options.record_every),
            classes=data.classes,
            method=options.solver.name,
            is_fallback=True,
            predictor=Predictor.CONSTANT,
            is_soft=problem.is_soft,
            penalty=problem.penalty.name,
        )
        kernel = None if options.kernel is None else options.kernel.resolve(data.X)
        return cls(result, problem, data, kernel)

    def for_another_C(self, options: FitOptions, rows: CleanData, status: Status) -> "Fit":
        """This classifier for a soft margin of another C, where there is no time to solve that."""
        assert self.data is not None
        fit, last = Fit.without_time(self.data, options, rows, status), self.result
        predictor = last.predictor
        result = replace(
            fit.result,
            coef=last.coef,
            intercept=last.intercept,
            certificate=fit.result.certificate.with_margin(last.margin, is_bound=False),
            is_fallback=last.is_fallback,
            predictor=Predictor.BEST_SO_FAR if predictor is Predictor.MARGIN else predictor,
        )
        return replace(fit, result=result)

    def with_classifier(self, w: np.ndarray, b: float, predictor: Predictor) -> "Fit":
        """The fit with another classifier of two classes, a fallback, of whose margin nothing is
        known."""
        problem, result, data = self.problem, self.result, self.data
        assert problem is not None and data is not None
        w, b = problem.to_unit_length(w, b)
        coef = problem.coef_of(w)
        if self.kernel is not None and data.kept is not None:
            whole = np.zeros(data.n_given or data.codes.size)
            whole[data.kept] = coef
            coef = whole
        certificate = result.certificate.with_margin(-math.inf, is_bound=not result.is_soft)
        result = replace(
            result,
            coef=coef,
            intercept=problem.intercept_in_units_of_x(b),
            certificate=certificate,
            is_fallback=True,
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
        assert self.problem is not None and self.data is not None
        coef, operator = self.result.coef.T, self.problem.operator
        if self.kernel is None:
            return np.asarray(self.data.X @ coef) + self.result.intercept
        coef = coef if self.data.kept is None else coef[self.data.kept]
        return operator.apply(operator.from_coefficients(coef)) + self.result.intercept


def fit_in_memory(
    data: TrainingData,
    options: FitOptions,
    *,
    initial: Any = None,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
    stopwatch: Stopwatch | None = None,
    rows: CleanData | None = None,
) -> Fit:
    """Fit to data that have been checked; nothing of them is checked again.

    `reporter` takes the place of the table that `options.verbose` asks for; a `stopwatch` may have
    been running already; `rows` are those of the data as `rows_of` gives them, if they are known.
    """
    stopwatch = stopwatch or Stopwatch()
    solver = options.solver
    data = options.weighed(data)
    n_given = data.n_given or data.codes.size
    options = options.for_rows(data)
    problem = options.problem_of(data, rows)
    file = None
    if options.checkpoint is not None:
        file = Checkpoint(options.checkpoint, options.identity(data))
    is_told = bool(options.verbose) and reporter is None
    with TableReporter() if is_told else nullcontext(reporter) as table:
        outcome = solve(
            problem,
            solver,
            options.budget_in_memory,
            start=make_start(problem, initial, solver, data.kept, n_given),
            random_state=options.random_state,
            callback=callback,
            reporter=table,
            stopwatch=stopwatch,
            checkpoint=file,
            record_every=options.record_every,
        )
    result = make_result(problem, solver, outcome)
    if data.kept is not None:
        result = numbered_among(result, data.kept, n_given, problem.operator)
    kernel = None if options.kernel is None else options.kernel.resolve(data.X)
    return Fit(result, problem, data, kernel)
