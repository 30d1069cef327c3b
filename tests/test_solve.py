"""The loop: budgets, callbacks, trace, table, interruption."""

import cProfile
import io
import pstats
import time

import numpy as np
import pytest
from makers import make_nonseparable

from momentron import Status, max_margin
from momentron.datasets import make_separable
from momentron.solvers import Momentum
from momentron.views import progress
from momentron.views.progress import HEADER


@pytest.fixture(scope="module")
def data():
    return make_separable(50, 4, margin=0.5, n_support=3, random_state=0)


def solve(data, **options):
    options = {"method": "momentum", "fit_intercept": False} | options
    return max_margin(data.X, data.y, **options)


def test_stops_on_the_certified_gap(data):
    result = solve(data, tol=1e-4)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-4
    assert result.lower <= data.margin <= result.upper


def test_iteration_budget(data):
    result = solve(data, max_iter=7)
    assert result.status is Status.ITERATION_BUDGET
    assert result.n_iter == 7
    assert len(result.trace) == 7


def test_time_budget(data):
    result = solve(data, tol=0.0, max_iter=10**9, max_time=0.1)
    assert result.status is Status.TIME_BUDGET
    assert result.seconds < 1.0


def test_callback_stops(data):
    seen = []

    def stop_at_five(row):
        seen.append(row.iteration)
        return row.iteration == 5

    result = solve(data, callback=stop_at_five)
    assert result.status is Status.STOPPED
    assert seen == [1, 2, 3, 4, 5]


def test_interrupt_returns_the_best_so_far(data):
    class Impatient(Momentum):
        def step(self, problem, state):
            if state.t == 20:
                state.now.w[:] = np.nan  # a step torn in the middle must not reach the result
                raise KeyboardInterrupt
            super().step(problem, state)

    result = solve(data, method=Impatient())
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 20
    assert np.all(np.isfinite(result.coef))
    assert 0.0 < result.lower <= data.margin <= result.upper


def test_interrupt_before_the_first_step(data):
    class Hasty(Momentum):
        def init(self, problem, options):
            raise KeyboardInterrupt

    result = solve(data, method=Hasty())
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 0
    assert 0.0 <= result.lower <= data.margin <= result.upper


def test_verbose_prints_a_fixed_width_table(data, capsys):
    solve(data, verbose=1, max_iter=20)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == HEADER
    assert {len(line) for line in lines} == {len(HEADER)}
    assert lines[-1].split()[0] == "20"


def test_silent_by_default(data, capsys):
    solve(data, max_iter=5)
    assert capsys.readouterr().out == ""


def test_trace_converts(data):
    trace = solve(data, max_iter=10).trace
    columns = trace.to_dict()
    assert list(columns)[:6] == ["iteration", "seconds", "passes", "margin", "lower", "upper"]
    assert columns["iteration"].tolist() == list(range(1, 11))
    assert columns["passes"].tolist() == list(range(2, 21, 2))
    frame = trace.to_pandas()
    assert frame.shape == (10, len(trace.columns))
    assert np.array_equal(frame["margin"], trace["margin"])
    assert "10 rows" in repr(trace)
    with pytest.raises(KeyError, match="no column 'gamma'"):
        trace["gamma"]


def test_theorem_interval_is_in_the_trace(data):
    trace = solve(data, max_iter=500, tol=0.0).trace
    low, high = trace["theorem_lower"][1:], trace["theorem_upper"][1:]
    assert np.all(low <= data.margin * (1 + 1e-12))
    assert np.all(high >= data.margin * (1 - 1e-12))
    assert low[-1] > 0.9 * data.margin
    other = solve(data, method="batch-perceptron", max_iter=5).trace
    assert np.all(np.isnan(other["theorem_lower"]))


def test_repr_reads_well(data):
    text = repr(solve(data, tol=1e-3))
    assert "certified optimal" in text
    assert "best margin in [" in text


def test_dual_reproduces_the_upper_bound(data):
    result = solve(data, tol=1e-3)
    norm = np.linalg.norm((data.y * result.full_dual()) @ data.X)
    assert norm == pytest.approx(result.upper, rel=1e-10)
    assert result.dual.sum() == pytest.approx(1.0)


def test_certificates_do_not_eat_the_budget(data):
    """tol below what the method can reach: certificates become rare, the budget still ends it."""
    result = solve(data, tol=0.0, max_iter=3000)
    assert result.status is Status.ITERATION_BUDGET


def test_a_table_breaks_a_long_silence(monkeypatch):
    monkeypatch.setattr(progress, "SILENCE", 0.05)
    text = io.StringIO()
    with progress.TableReporter(text):
        time.sleep(0.3)
    assert text.getvalue().count("working: ") >= 2
    said = text.getvalue()
    time.sleep(0.2)
    assert text.getvalue() == said  # nothing after the end


def test_a_small_fit_makes_few_calls():
    data = make_separable(200, 5, margin=0.5, random_state=3)
    for _ in range(2):  # the first call looks for BLAS libraries
        profile = cProfile.Profile()
        profile.runcall(max_margin, data.X, data.y)
    pivots = sum(
        calls
        for (_, _, name), (_, calls, *_) in pstats.Stats(profile).stats.items()
        if name == "_enter"
    )
    assert pstats.Stats(profile).total_calls <= 900 + 25 * pivots


def test_a_method_that_gives_up_leaves_margins_below_the_tolerance_alone():
    class Patient(Momentum):
        vanishing = 1e-12

    class Resigned(Patient):
        def candidates(self, problem, state):
            found = super().candidates(problem, state)
            found.gives_up = True
            return found

    data = make_nonseparable(60, 6, random_state=3)
    options = {"fit_intercept": False, "tol": 0.05, "max_iter": 300}
    ended = max_margin(data.X, data.y, method=Resigned(), **options)
    assert ended.status is Status.NOT_SEPARABLE
    assert 0.0 == ended.lower < ended.upper <= 0.05 * np.linalg.norm(data.X, axis=1).max()
    went_on = max_margin(data.X, data.y, method=Patient(), **options)
    assert went_on.status is not Status.NOT_SEPARABLE
