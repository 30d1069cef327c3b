"""One classifier per class, against all the others; each has its own certificate."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Stopwatch, until
from momentron.fitting.answer import OPEN
from momentron.fitting.fallback import Classifier, fallback_against_rest
from momentron.fitting.in_memory import Fit, fit_in_memory
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.rows.validation import CleanData, TrainingData
from momentron.solvers.loop import Callback, Reporter, Turns
from momentron.solvers.problem import rows_of
from momentron.status import Status

GRAM_BYTES = 24  # for each entry of a Gram matrix: that, a copy, and a factor
FALLBACK_SHARE = 0.2  # of the time that is left, for what classes have that time is too short for


class Fits(NamedTuple):
    """One fit of all the classes together, or one for each, which is the positive one there."""

    fits: list[Fit]
    classes: np.ndarray

    def classifies_as(self, other: "Fits") -> bool:
        """Whether the classifiers are the same, to the last bit."""
        pairs = zip(self.results, other.results, strict=True)
        return all(
            np.array_equal(a.coef, b.coef) and np.array_equal(a.intercept, b.intercept)
            for a, b in pairs
        )

    @property
    def are_crowded(self) -> bool:
        """Whether any fit that ended short had too little memory for kernel values."""
        short = (fit for fit in self.fits if not fit.result.status.is_final)
        return any(fit.is_crowded for fit in short)

    @property
    def results(self) -> list[MarginResult]:
        """What each fit ended with."""
        return [fit.result for fit in self.fits]


class SharedRows(NamedTuple):
    """Rows that serve several fits: weighed and measured once, with kernel values kept."""

    data: TrainingData
    options: FitOptions  # the weights of the classes are in the data's own
    rows: CleanData

    @classmethod
    def of(
        cls, data: TrainingData, options: FitOptions, stopwatch: Stopwatch | None = None
    ) -> "SharedRows":
        """The rows that have a weight; all kernel values where cache and time have room for them.

        They take half of the time at most: without them fits compute those that they need.
        """
        stopwatch = stopwatch or Stopwatch()
        data = options.weighed(data)
        options = replace(options.for_rows(data), class_weight=None)
        rows = rows_of(data.X, options.kernel)
        kernel, matrix = rows.operator.as_kernel(), rows.operator.as_matrix()
        memory = options.budget_in_memory.max_memory or 0
        if matrix is not None and GRAM_BYTES * matrix.shape[0] ** 2 <= memory:
            matrix.keep_gram()
        if kernel is not None and kernel.kernel.matrix is None:
            n = kernel.shape[0]
            if 8 * n * n <= kernel.cache_bytes:  # together the fits need most of them
                try:
                    with until(stopwatch.deadline(0.5 * options.budget.max_time)):
                        rows = replace(rows, operator=kernel.some(np.arange(n)))
                except OutOfTime:
                    pass
        return cls(replace(data, sample_weight=None), options, rows)


def fit_together(
    shared: SharedRows,
    options: FitOptions,
    *,
    initial: Sequence[MarginResult] | None = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fits:
    """One fit of all the classes, with the joint margin where there are many."""
    fit = fit_in_memory(
        shared.data,
        options,
        initial=None if initial is None else initial[0],
        callback=callback,
        stopwatch=stopwatch,
        rows=shared.rows,
    )
    return Fits([fit], shared.data.classes)


def fit_against_rest(
    shared: SharedRows,
    options: FitOptions,
    *,
    initial: Sequence[MarginResult] | None = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fits:
    """A fit for each class, each with an equal share of the time that is left when its turn comes.

    `initial` has a start for each. Those for which the time is too short to find anything have the
    classifiers of one logistic regression for all of them. Ctrl-C ends all of them.
    """
    against_rest = _AgainstRest(shared, options, stopwatch or Stopwatch(), callback)
    k = shared.data.classes.size
    starts = [None] * k if initial is None else initial
    return Fits([against_rest.fit(c, starts[c]) for c in range(k)], shared.data.classes)


class _AgainstRest:
    """The classes' fits, one after the other, with one budget and one fallback for all of them."""

    def __init__(
        self,
        shared: SharedRows,
        options: FitOptions,
        stopwatch: Stopwatch,
        callback: Callback | None,
    ) -> None:
        self.shared, self.options, self.callback = shared, options, callback
        self.codes, self.k = shared.data.codes, shared.data.classes.size
        self.stopwatch = stopwatch
        # the other half of what may be spent beyond max_time is for the fallback
        self.budget = replace(options.budget, patience=0.5 * options.budget.grace)
        self.turns = Turns(self.budget, self.k, stopwatch)
        self.fallback: Classifier | None = None
        self.ending = Status.TIME_BUDGET  # of classes for which there is no time

    @property
    def is_over(self) -> bool:
        """Whether there is no time for another class."""
        is_late = self.stopwatch.seconds() >= self.budget.max_time
        return is_late or self.ending is Status.INTERRUPTED

    def fit(self, c: int, initial: MarginResult | None) -> Fit:
        """The fit of one class."""
        two = replace(
            self.shared.data,
            classes=np.array([False, True]),
            codes=(self.codes == c).astype(np.intp),
        )
        if self.is_over:
            fit = Fit.without_time(two, self.options, self.shared.rows, self.ending)
            return self._with_fallback(fit, c)
        own = Stopwatch()
        fit = fit_in_memory(
            two,
            replace(self.options, budget=self.turns.next()),
            initial=initial,
            callback=self.callback,
            stopwatch=own,
            rows=self.shared.rows,
        )
        self.stopwatch.leave_out(own)
        if fit.result.status is Status.INTERRUPTED:
            self.ending = Status.INTERRUPTED
            self.turns.end()
        return self._with_fallback(fit, c) if _is_needy(fit.result) else fit

    def _with_fallback(self, fit: Fit, c: int) -> Fit:
        """The fit with the classifier that one logistic regression for all classes has for it."""
        if self.fallback is None:
            seconds, left = self.budget.grace, self.budget.left(self.stopwatch.seconds()).max_time
            if not (self.is_over or left == math.inf):
                seconds = max(seconds, FALLBACK_SHARE * left)
            assert fit.problem is not None
            self.fallback = fallback_against_rest(fit.problem, self.codes, self.k, seconds=seconds)
        w, b = self.fallback
        return fit.with_classifier(w[..., c], float(b[c]), self.fallback.predictor)


def _is_needy(result: MarginResult) -> bool:
    """Whether time or memory ended before there was a classifier worth the name."""
    if result.status not in (Status.TIME_BUDGET, Status.NO_ROOM, Status.INTERRUPTED):
        return False
    is_far = result.gap > OPEN if result.is_soft else result.margin <= 0.0
    return result.is_fallback or is_far


def fit_classes(
    data: TrainingData,
    options: FitOptions,
    *,
    is_split: bool,
    initial: Sequence[MarginResult] | None = None,
    callback: Callback | None = None,
    reporter: Reporter | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fits:
    """All the classes together, or each against the rest; two are always together."""
    stopwatch = stopwatch or Stopwatch()
    is_split = is_split and data.classes.size > 2
    shared = SharedRows.of(data, options, stopwatch) if is_split else None
    if shared is not None and shared.data.classes.size > 2:
        return fit_against_rest(
            shared, shared.options, initial=initial, callback=callback, stopwatch=stopwatch
        )
    start = None if initial is None else initial[0]
    fit = fit_in_memory(
        data, options, initial=start, callback=callback, reporter=reporter, stopwatch=stopwatch
    )
    return Fits([fit], fit.result.classes)


def fits_along(
    data: TrainingData,
    options: FitOptions,
    Cs: Sequence[float],
    *,
    is_split: bool,
) -> list[Fits]:
    """Fits for one C after the other, each started from the last where the method can.

    The budget is for all of them together: when it is spent, or after Ctrl-C, the others have the
    last classifier.
    """
    stopwatch = Stopwatch()
    shared = SharedRows.of(data, options, stopwatch)
    options, last = shared.options, None
    found: list[Fits] = []
    turns = Turns(options.budget, len(Cs), stopwatch)
    fit = fit_against_rest if is_split and shared.data.classes.size > 2 else fit_together
    ending = None
    for C in Cs:
        if stopwatch.seconds() >= options.budget.max_time:
            ending = ending or Status.TIME_BUDGET
        if ending is not None and last is not None and math.isfinite(C):
            others = replace(options, C=C)
            last = last._replace(
                fits=[one.for_another_C(others, shared.rows, ending) for one in last.fits]
            )
            found.append(last)
            continue
        own = Stopwatch()
        last = fit(
            shared,
            replace(options, C=C, budget=turns.next()),
            initial=last.results if last is not None and options.solver.warm_starts else None,
            stopwatch=own,
        )
        stopwatch.leave_out(own)
        if any(result.status is Status.INTERRUPTED for result in last.results):
            ending = Status.INTERRUPTED
            turns.end()
        found.append(last)
    return found
