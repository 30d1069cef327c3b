"""Several fits to the same rows: one C after the other, each class against the rest."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from momentron.arithmetic.clock import NO_TIME, TimeLimit
from momentron.fitting.fallback import OPEN, Choice, Classifier, fallback
from momentron.fitting.fits import FitRows, Fits, fit_rows, make_result
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.solvers.loop import Callback, Run, without_time
from momentron.status import Predictor, Status

FALLBACK_SHARE = 0.2  # of the time that is left, for what classes have that time is too short for


class Series:
    """Several fits to the same rows within one budget, which each has a share of in its turn.

    Split, every class is fitted against the rest. Once the time is over, or after Ctrl-C, soft
    margins have the classifier of the last C. Classes for which the time is too short to find
    anything have the classifiers of one logistic regression for all of them.
    """

    def __init__(
        self, rows: FitRows, limit: TimeLimit, callback: Callback | None, *, is_split: bool
    ) -> None:
        self._rows, self._limit, self._callback = rows, limit, callback
        self._is_split = is_split
        self._ending: Status | None = None
        self._shared: Classifier | None = None

    def along(
        self, options: FitOptions, Cs: Sequence[float], initial: Sequence[Any] | None
    ) -> list[Fits]:
        """Fits for one C after the other, each started from the last where the method can."""
        self._rows = rows = self._rows.for_many(options, self._limit)
        classes, found = rows.data.classes, []
        parts = [rows]
        if self._is_split:
            parts = [rows.against_rest(c) for c in range(classes.size)]
        self._n_fits = self._n_left = len(Cs) * len(parts)
        last: Sequence[Any] = [None] * len(parts)
        starts = last if initial is None else initial
        for C in Cs:
            options = replace(options, C=C)
            each = zip(parts, range(len(parts)), starts, last, strict=True)
            last = [self.fit(options, *one) for one in each]
            found.append(Fits(last, classes, rows))
            starts = last if options.solver.warm_starts else starts
        return found

    def fit(
        self, options: FitOptions, rows: FitRows, c: int, start: Any, last: MarginResult | None
    ) -> MarginResult:
        """The next fit, of class c where they are several; `last` is the result for the last C."""
        if self._ending is None and self._limit.left() <= 0.0:
            self._ending = Status.TIME_BUDGET
        # half of what may be spent beyond max_time is for the fallback
        own = self._limit.share(self._n_left, 2 * self._n_fits)
        self._n_left -= 1
        if self._ending is not None:
            if self._is_split:
                choice = self._choice_of(c, rows, options)
                return without_solve(rows, options, self._ending, choice)
            if last is not None and math.isfinite(options.C):
                is_margin = last.predictor is Predictor.MARGIN
                predictor = Predictor.BEST_SO_FAR if is_margin else last.predictor
                known = Choice(last.coef, last.intercept, last.margin, predictor)
                return without_solve(rows, options, self._ending, known)
            own.max_time = NO_TIME
        result = fit_rows(rows, options, own, self._callback, start)
        if result.status is Status.INTERRUPTED:
            self._ending = Status.INTERRUPTED
        has_ended = result.status in (Status.TIME_BUDGET, Status.NO_ROOM, Status.INTERRUPTED)
        is_far = result.gap > OPEN if result.is_soft else result.margin <= 0.0
        if self._is_split and has_ended and (result.is_fallback or is_far):  # nothing useful
            choice, certificate = self._choice_of(c, rows, options), result.certificate
            return replace(
                result,
                coef=choice.coef,
                intercept=choice.intercept,
                certificate=certificate.with_margin(choice.margin, is_bound=not result.is_soft),
                is_fallback=choice.predictor is not Predictor.BEST_SO_FAR,
                predictor=choice.predictor,
            )
        return result

    def _choice_of(self, c: int, rows: FitRows, options: FitOptions) -> Choice:
        """The classifier that a class has of one regression for all, which any problem poses."""
        problem = options.problem_of(rows.data, rows.operator)
        if self._shared is None:
            seconds, left = 0.5 * self._limit.grace, self._limit.left()
            if self._ending is None and left < math.inf:
                seconds = max(seconds, FALLBACK_SHARE * left)
            self._shared = fallback(problem, seconds=seconds, codes=self._rows.data.codes)
        shared = self._shared
        w, b = problem.to_unit_length(shared.w[..., c], float(shared.b[c]))
        coef, intercept = problem.in_units_of_x(w, b)
        return Choice(self._rows.among_given(coef), intercept, -math.inf, shared.predictor)


def without_solve(
    rows: FitRows, options: FitOptions, status: Status, choice: Choice
) -> MarginResult:
    """What there is without a solve: a classifier that is known, and the widest interval."""
    problem = options.problem_of(rows.data, rows.operator)
    run = Run(problem, options.solver, options.budget, record_every=options.record_every)
    run.status, run.certificate = status, without_time(problem)
    return replace(make_result(run, choice), n_rows=rows.n_given)
