"""A fit to rows in memory: options and checked data in, a result out."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arguments import require_callback
from momentron.checkpoint import Checkpoint
from momentron.classifier import make_result, make_start
from momentron.clock import Stopwatch
from momentron.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.kernels import Kernel
from momentron.options import FitOptions
from momentron.problem import Problem
from momentron.reporting import TableReporter
from momentron.result import MarginResult
from momentron.solve import Callback, Reporter, solve
from momentron.threads import with_one_thread
from momentron.validation import TrainingData


@dataclass(frozen=True)
class Fit:
    """A result, the problem that it answers, and the kernel with its parameters as numbers."""

    result: MarginResult
    problem: Problem
    kernel: Kernel | None = None

    def outputs(self, X: Any) -> np.ndarray:
        """What the classifier says of the rows X of the fit, shape (n,) or (n, k)."""
        coef, operator = self.result.coef.T, self.problem.operator
        if self.kernel is None:
            return np.asarray(X @ coef) + self.result.intercept
        return operator.apply(operator.from_coefficients(coef)) + self.result.intercept


@with_one_thread
@standard_arithmetic()
def fit_in_memory(
    data: TrainingData,
    options: FitOptions,
    *,
    initial: MarginResult | None = None,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fit:
    """Fit to data that have been checked; nothing of them is checked again.

    `reporter` takes the place of the table that `options.verbose` asks for; a `stopwatch` may have
    been running already.
    """
    stopwatch = stopwatch or Stopwatch()
    solver = options.solver
    require_callback(callback)
    if initial is not None and not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not support warm starts; leave initial out")
    options = options.for_rows(data.X)
    problem = Problem.of(
        data,
        fit_intercept=options.fit_intercept,
        loss=options.loss,
        C=options.C,
        kernel=options.kernel,
    )
    file = None
    if options.checkpoint is not None:
        file = Checkpoint(options.checkpoint, options.identity(data))
    is_told = bool(options.verbose) and reporter is None
    with TableReporter() if is_told else nullcontext(reporter) as table:
        outcome = solve(
            problem,
            solver,
            options.budget_in_memory,
            start=make_start(problem, initial),
            random_state=options.random_state,
            callback=callback,
            reporter=table,
            stopwatch=stopwatch,
            checkpoint=file,
        )
    kernel = None if options.kernel is None else options.kernel.resolve(data.X)
    return Fit(make_result(problem, solver, outcome), problem, kernel)
