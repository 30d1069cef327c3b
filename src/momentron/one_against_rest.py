"""One classifier per class, against all the others; each has its own certificate."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from momentron.clock import Stopwatch
from momentron.in_memory import Fit, fit_in_memory
from momentron.options import FitOptions
from momentron.problem import rows_of
from momentron.result import MarginResult
from momentron.solve import Callback
from momentron.validation import CleanData, TrainingData


class Fits(NamedTuple):
    """One fit of all the classes together, or one for each, which is the positive one there."""

    fits: list[Fit]
    classes: np.ndarray

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
    def of(cls, data: TrainingData, options: FitOptions) -> "SharedRows":
        """The rows that have a weight; all kernel values where the cache has room for them."""
        data = options.weighed(data)
        options = replace(options.for_rows(data), class_weight=None)
        rows = rows_of(data.X, options.kernel)
        kernel = rows.operator.as_kernel()
        if kernel is not None and kernel.kernel.matrix is None:
            n = kernel.shape[0]
            if 8 * n * n <= kernel.cache_bytes:  # together the fits need most of them
                rows = replace(rows, operator=kernel.some(np.arange(n)))
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

    `initial` has a start for each.
    """
    stopwatch, data = stopwatch or Stopwatch(), shared.data
    k, fits = data.classes.size, []
    for c in range(k):
        two = replace(
            data, classes=np.array([False, True]), codes=(data.codes == c).astype(np.intp)
        )
        fit = fit_in_memory(
            two,
            replace(options, budget=options.budget.share(stopwatch.seconds(), k - c)),
            initial=None if initial is None else initial[c],
            callback=callback,
            rows=shared.rows,
        )
        fits.append(fit)
    return Fits(fits, data.classes)


def fit_classes(
    data: TrainingData,
    options: FitOptions,
    *,
    is_split: bool,
    initial: Sequence[MarginResult] | None = None,
    callback: Callback | None = None,
    stopwatch: Stopwatch | None = None,
) -> Fits:
    """All the classes together, or each against the rest; two are always together."""
    shared = SharedRows.of(data, options) if is_split else None
    if shared is not None and shared.data.classes.size > 2:
        return fit_against_rest(
            shared, shared.options, initial=initial, callback=callback, stopwatch=stopwatch
        )
    start = None if initial is None else initial[0]
    fit = fit_in_memory(data, options, initial=start, callback=callback, stopwatch=stopwatch)
    return Fits([fit], fit.result.classes)


def fits_along(
    shared: SharedRows, Cs: Sequence[float], *, is_split: bool, callback: Callback | None = None
) -> Iterator[Fits]:
    """Fits for one C after the other, each started from the last where the method can."""
    stopwatch, options, last = Stopwatch(), shared.options, None
    fit = fit_against_rest if is_split and shared.data.classes.size > 2 else fit_together
    for number, C in enumerate(Cs):
        budget = options.budget.share(stopwatch.seconds(), len(Cs) - number)
        found = fit(
            shared,
            replace(options, C=C, budget=budget),
            initial=last if options.solver.warm_starts else None,
            callback=callback,
        )
        last = found.results
        yield found
