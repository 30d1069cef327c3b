"""A small part of each campaign of `python -m benchmarks.hostile`: no liar, no accident, no lie.

Every failure is a line with the command that repeats it.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from benchmarks.hostile import environments, files, interrupts, liar_matrix
from benchmarks.hostile.campaigns import CAMPAIGNS, run
from benchmarks.hostile.children import run_trials
from benchmarks.hostile.kinds import KINDS, arguments, known_truth
from benchmarks.hostile.liars import LIES
from momentron import Status, max_margin
from tests.oracles.margins import best_margin_squared
from tests.oracles.pairs import ExactPairs, least_mean_cycle
from tests.oracles.truths import Rows, Truth, kind_of, truth_of

SEED = 20_000  # not the campaign's own, so that the tests add to it
SHARE, STREAMS_SHARE = 3, 6  # each kind but the first meets one liar in so many


def failures(name, numbers):
    tally = run(name, SEED, numbers)
    assert tally.trials == len(numbers)
    return tally.failures


# --- liars ---------------------------------------------------------------------------------------


def test_there_are_liars_of_every_sort():
    assert len(LIES) >= 40
    assert len({kind for _, kind, _ in liar_matrix.all_cells()}) == len(KINDS)


GROUPS = sorted({(kind, with_auto) for _, kind, with_auto in liar_matrix.all_cells()})


@pytest.mark.adversarial
@pytest.mark.parametrize(("kind", "with_auto"), GROUPS)
def test_no_liar_gets_a_false_answer(kind, with_auto):
    if kind == "dask":
        pytest.importorskip("dask")
    numbers = [i for i, c in enumerate(liar_matrix.all_cells()) if c[1:] == (kind, with_auto)]
    if kind != "dense":
        share = STREAMS_SHARE if KINDS[kind].is_streamed else SHARE
        numbers = numbers[(list(KINDS).index(kind) + with_auto) % share :: share]
    assert failures("liars", numbers) == []


@pytest.mark.parametrize("is_separable", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dask"])
@pytest.mark.filterwarnings("ignore::momentron.BudgetWarning")
def test_honest_methods_answer_every_kind(kind, is_separable):
    (X, y), options = arguments(kind, is_separable)
    truth = known_truth(kind, is_separable)
    found = max_margin(X, y, tol=liar_matrix.TOL, **options)
    assert truth.refutes(found, liar_matrix.TOL) is None
    if "small cache" not in kind:
        assert found.status in (Status.OPTIMAL, Status.NOT_SEPARABLE)


def test_a_least_mean_cycle_has_each_arc_once():
    """Cycles of the same mean that share an arc: a walk through both has it twice."""
    heights, free = [0, 3, 2, 2, 8], {(0, 4), (2, 0), (2, 4), (3, 2), (4, 2), (4, 3)}
    D = {(c, j): heights[c] - heights[j] for c, j in permutations(range(5), 2)}
    D = {arc: slope + 5 * (arc not in free) for arc, slope in D.items()}
    mean, loop = least_mean_cycle(D, 5)
    assert mean == 0 and len(set(loop)) == len(loop)


# --- campaigns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_random_problems(part):
    assert failures("problems", range(40 * part, 40 * part + 40)) == []


@pytest.mark.adversarial
@pytest.mark.parametrize("part", range(10))
def test_random_models(part):
    pytest.importorskip("formulaic")
    pytest.importorskip("statsmodels")
    assert failures("models", range(part, 190, 10)) == []


@pytest.mark.adversarial
def test_bounds_of_a_soft_margin_that_cross_by_a_rounding():
    """A working set through a kernel whose gap was −1e-17: its square root was a crash."""
    assert run("soft", 78, range(368, 369)).is_clean


@pytest.mark.adversarial
def test_soft_margins():
    assert failures("soft", range(60)) == []


@pytest.mark.adversarial
@pytest.mark.parametrize("part", range(2))
def test_interrupts_at_random_lines(part):
    assert failures("interrupts", range(60 * part, 60 * part + 60)) == []


@pytest.mark.adversarial
@pytest.mark.parametrize("part", range(2))
def test_estimators_cut_at_random_moments(part):
    assert failures("cuts", range(30 * part, 30 * part + 30)) == []


@pytest.mark.adversarial
@pytest.mark.parametrize("seed", range(3))
def test_interrupts_at_every_line_of_the_column_cache(seed):
    assert interrupts.sweep_of_columns(seed) == []


@pytest.mark.adversarial
@pytest.mark.parametrize("case", list(files.CASES), ids=lambda case: case.__name__)
def test_damaged_and_planted_files(case):
    pytest.importorskip("pyarrow")
    numbers = [i for i in range(80) if files.case_of(SEED, i) is case]
    assert failures("files", numbers) == []


@pytest.mark.adversarial
@pytest.mark.skipif(not environments.is_supported(), reason="for x86-64 with glibc")
@pytest.mark.parametrize("part", range(2))
def test_odd_floating_point_environments(part):
    assert failures("environments", range(27 * part, 27 * part + 27)) == []


# --- the suites themselves -----------------------------------------------------------------------


def test_oracles_agree():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, d, k = rng.integers(4, 10), rng.integers(1, 4), rng.integers(2, 5)
        X = rng.integers(-3, 4, (n, d)) if rng.random() < 0.5 else rng.normal(size=(n, d))
        y = np.r_[np.arange(k), rng.integers(0, k, n)][:n]
        if y.max() < k - 1:
            continue
        fit_intercept = bool(rng.integers(2))
        X = X.astype(np.float64)
        squared = truth_of(Rows.of(X), y, fit_intercept).squared
        if k == 2:
            assert squared == best_margin_squared(X, 2.0 * y - 1.0, fit_intercept)
            assert (squared > 0) == (kind_of(X, y, fit_intercept) == "separable")
        else:
            assert squared == ExactPairs(X, y, fit_intercept).optimum.margin_squared


def test_truths_refute_what_is_false():
    truth = Truth(Fraction(1, 4), 1.0)
    assert truth.contradicts(0.5, 0.5) is None
    assert truth.contradicts(0.0, np.inf) is None
    for lower, upper in [
        (0.5000001, 1.0),
        (0.0, 0.4999999),
        (0.6, 0.4),
        (np.nan, 1.0),
        (0.0, np.nan),
    ]:
        assert truth.contradicts(lower, upper)
    assert truth.denies(Status.OPTIMAL, 0.4, 0.6, 1e-6)
    assert truth.denies(Status.NOT_SEPARABLE, 0.0, 0.6, 1e-6)
    assert truth.denies("certified", 0.5, 0.5, 1e-6)
    assert truth.denies(Status.ITERATION_BUDGET, 0.0, 0.6, 1e-6) is None


def test_children_that_crash_or_hang_are_findings():
    def trial(number):
        if number == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 5:
            time.sleep(60.0)
        if number == 7:
            raise RuntimeError("two\nlines")
        return "FALSE: as asked" if number == 9 else None

    found = dict(run_trials(trial, range(12), seconds=1.0))
    assert Counter(reason.split(":")[0] for reason in found.values() if reason) == Counter(
        {"CRASH": 2, "HANG": 1, "FALSE": 1}
    )
    assert found[3] == "CRASH: the process ended by SIGSEGV"
    assert sorted(found) == list(range(12))


@pytest.mark.adversarial
def test_the_command_prints_a_table():
    root = Path(__file__).parents[2]
    none = [text for name in CAMPAIGNS if name != "problems" for text in (f"--{name}", "0")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.hostile", "--problems", "3", "--seed", "3", *none],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[:5] == ["problems", "3", "0", "0", "0"]
