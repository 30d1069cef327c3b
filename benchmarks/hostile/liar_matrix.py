"""One cell of the matrix: a liar, a kind of problem, and whether the answer was true."""

from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.hostile.guard import outcome
from benchmarks.hostile.kinds import KINDS, arguments, known_truth
from benchmarks.hostile.liars import LIES, LyingAuto, LyingMomentum, liar
from momentron import max_margin

TOL = 1e-6
STEPS = 8
SECONDS = 10.0


def _refuted(truth: Any, found: Any) -> str | None:
    return None if found is None else truth.refutes(found, TOL)


def cell(name: str, kind: str, *, with_auto: bool = False) -> str | None:
    """Why the liar got a false answer out of problems of this kind, or None."""
    for is_separable in (True, False):
        solver = liar(name, LyingAuto if with_auto else LyingMomentum)
        (X, y), options = arguments(kind, is_separable)

        def attempt(solver: Any = solver, X: Any = X, y: Any = y, options: Any = options) -> Any:
            try:
                return max_margin(X, y, method=solver, tol=TOL, max_iter=STEPS, **options)
            except BaseException as error:
                if solver.lie.raised is not None and error is solver.lie.raised[1]:
                    return None  # what the liar raised is the liar's own
                raise

        truth = known_truth(kind, is_separable)
        reason = outcome(
            attempt,
            partial(_refuted, truth),
            SECONDS,
        )
        if reason is not None:
            return f"{reason} ({'' if is_separable else 'not '}separable)"
    return None


@cache
def all_cells() -> list[tuple[str, str, bool]]:
    """(lie, kind, with auto) of every cell; streams take Momentum's subclasses alone.

    In an order without a pattern, so that any part of the list has liars and kinds of all sorts.
    """
    cells = [
        (name, kind, with_auto)
        for kind in KINDS
        for with_auto in ((False,) if KINDS[kind].is_streamed else (False, True))
        for name in LIES
    ]
    return [cells[i] for i in np.random.default_rng(0).permutation(len(cells))]


def trial(seed: int, number: int) -> str | None:
    """One cell of the matrix, which needs no seed: why the answer is false, or None."""
    name, kind, with_auto = all_cells()[number]
    reason = cell(name, kind, with_auto=with_auto)
    method = "auto" if with_auto else "momentum"
    return reason and f"{reason} [{name!r} on {kind!r}, {method}]"
