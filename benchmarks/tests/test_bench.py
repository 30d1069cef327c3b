"""The benchmark suite: scores on known answers, and workers that misbehave."""

import math
import os
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.suite import problems as problems_module
from benchmarks.suite.objective import Objective
from benchmarks.suite.problems import PROBLEMS, BenchProblem, real
from benchmarks.suite.saved import append_result, read_results
from benchmarks.suite.solvers import CLASSICS, REFERENCE, SOLVERS, BenchSolver
from benchmarks.suite.task import Answer, Task, read_task, tiny_task, write_task
from benchmarks.suite.turns import FULL, QUICK, Entry, Limits, run_suite
from benchmarks.suite.worker import Worker
from momentron.datasets import make_separable
from momentron.errors import InputError
from tests.makers import make_nonseparable

COMPILED = {"skglm"}  # its first call compiles with numba
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in COMPILED else n for n in SOLVERS]
MARGIN = 0.25


def known(fit_intercept=False, form=np.asarray):
    data = make_separable(40, 5, margin=MARGIN, fit_intercept=fit_intercept, random_state=3)
    return Task(form(data.X), data.y.astype(float), fit_intercept=fit_intercept), data


def dual(data):
    q = np.zeros(data.y.size)
    q[data.support] = data.weights
    return q


def known_data():
    task, _ = known()
    return task.X, task.y


def is_warm_up(task):
    return task.shape == (24, 3)


def sleeps(task):
    if not is_warm_up(task):
        time.sleep(60.0)
    return Answer(np.ones(task.shape[1]))


def dies(task):
    if not is_warm_up(task):
        print("out of luck", flush=True)
        os._exit(3)
    return Answer(np.ones(task.shape[1]))


def dies_at_once(task):
    os._exit(4)


def raises(task):
    raise MemoryError("too large\nby far")


def nonsense(task):
    return Answer(np.ones(task.shape[1]), certified=True)


def not_a_number(task):
    return Answer(np.full(task.shape[1], np.nan))


def hesitates(task):
    time.sleep(0.0 if is_warm_up(task) else 0.3)
    return Answer(np.ones(task.shape[1]))


def too_big(task):
    return "too big"


# ---- the runner ----------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_that_misbehave_are_reported_and_never_hang():
    fakes = [sleeps, dies, dies_at_once, raises, nonsense, not_a_number, hesitates]
    solvers = [BenchSolver(fake.__name__, fake) for fake in fakes]
    solvers += [
        BenchSolver("refuses", nonsense, too_big),
        BenchSolver("absent", nonsense, requires="no_such_module"),
    ]
    limits = Limits(least=1.0, most=5.0, repeat_below=0.2, rounds=2, short_rounds=2)
    lines = []
    begin = time.perf_counter()
    problems = [BenchProblem("missing", partial(real, "no-such-set"))]
    problems += [BenchProblem("tiny", known_data)]
    (result,) = run_suite(problems, solvers, limits=limits, say=lines.append)
    assert time.perf_counter() - begin < 60.0

    assert lines[0].startswith("missing: skipped, unknown data set")
    entries = {entry.solver: entry for entry in result.entries}
    assert next(iter(entries)) == REFERENCE  # added by the runner
    assert entries[REFERENCE].status == "ok"
    assert result.optimum == pytest.approx(MARGIN, rel=1e-2)

    assert entries["sleeps"].status == "timeout"
    assert 1.0 <= entries["sleeps"].seconds <= 5.0
    assert entries["dies"].status == "failed"
    assert "exit code 3" in entries["dies"].note
    assert "out of luck" in entries["dies"].note
    assert "exit code 4" in entries["dies_at_once"].note
    assert entries["raises"].note == "MemoryError: too large by far"
    assert entries["nonsense"].status == "ok"
    assert entries["nonsense"].error > 0.1
    assert len(entries["nonsense"].runs) == 2
    assert entries["not_a_number"].error == math.inf
    assert len(entries["hesitates"].runs) == 1  # too slow to be repeated
    assert entries["hesitates"].runs == (entries["hesitates"].cold,)
    assert entries["nonsense"].cold > 0.0
    assert entries["refuses"] == Entry("refuses", "skipped", note="too big")
    assert entries["absent"].note == "no_such_module is not installed"


def test_time_limits():
    assert FULL.of(0.01) == 5.0
    assert FULL.of(1.0) == 20.0
    assert FULL.of(math.inf) == 60.0
    assert FULL.rounds == 3
    assert QUICK.of(0.01) < FULL.of(0.01)


@pytest.mark.slow
def test_a_worker_answers_in_order_and_cleans_up(tmp_path):
    task, _ = known()
    write_task(tmp_path / "task.npz", task)
    worker = Worker(nonsense, tmp_path / "task.npz", tmp_path / "log")
    assert worker.wait_until_ready() is None
    first, second = worker.run(5.0), worker.run(5.0)
    assert first.status == second.status == "ok"
    assert first.seconds < 1.0
    worker.close()
    assert worker.run(5.0).status == "failed"


@pytest.mark.slow
def test_short_runs_are_repeated_and_rows_that_are_done_are_not_run(tmp_path):
    file = tmp_path / "rows.jsonl"
    limits = Limits(least=1.0, most=5.0, rounds=1, short=1.0, short_rounds=7)
    problems = [BenchProblem("tiny", known_data), BenchProblem("other", known_data)]
    solvers = [BenchSolver("nonsense", nonsense)]
    run_suite(
        problems[:1],
        solvers,
        limits=limits,
        say=lambda _: None,
        keep=lambda result: append_result(file, result),
    )
    done = read_results(file)
    assert [len(entry.runs) for entry in done["tiny"].entries] == [7, 7]
    lines = []
    again = run_suite(problems[:1], solvers, limits=limits, say=lines.append, done=done)
    assert again == [done["tiny"]]
    assert lines == []
    assert read_results(tmp_path / "none") == {}
    file.write_text("{}\n")
    with pytest.raises(InputError, match="line 1"):
        read_results(file)


# ---- tasks and problems --------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_matrix])
def test_tasks_survive_the_file(tmp_path, form):
    task = replace(known(form=form)[0], kind="soft", C=2.0, fit_intercept=True)
    write_task(tmp_path / "task.npz", task)
    back = read_task(tmp_path / "task.npz")
    assert (back.kind, back.C, back.fit_intercept) == ("soft", 2.0, True)
    assert back.X.dtype == task.X.dtype
    assert back.is_sparse == task.is_sparse
    assert abs(back.X - task.X).max() == 0.0
    assert np.array_equal(back.y, task.y)
    assert tiny_task(back).X.dtype == task.X.dtype


def test_contradicting_rows_are_dropped(monkeypatch):
    X = sp.csr_matrix(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [2.0, 0.0]]))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    monkeypatch.setattr(problems_module, "real", lambda name: (X, y))
    kept, labels = problems_module.consistent("any")
    assert kept.toarray().tolist() == [[0.0, 1.0], [0.0, 1.0], [2.0, 0.0]]
    assert labels.tolist() == [1.0, 1.0, -1.0]


def test_the_suite_is_the_one_of_the_issue():
    assert len(PROBLEMS) == 26
    assert {p.kind for p in PROBLEMS.values()} == {"separable", "witness", "soft", "hinge"}
    assert all(math.isfinite(p.C) == (p.kind in ("soft", "hinge")) for p in PROBLEMS.values())
    for name in ("teacher-200x5", "noise-60x300", "iris-01"):
        assert PROBLEMS[name].fit_intercept
    assert set(CLASSICS) < set(SOLVERS)
    X, y = PROBLEMS["wide-100x5000"].load()
    assert X.shape == (100, 5000)
    assert set(y) == {-1.0, 1.0}


# ---- the objective -------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_scores_of_known_margins(fit_intercept, form):
    task, data = known(fit_intercept, form)
    best = Answer(data.coef, data.intercept, dual(data))
    judge = Objective(task)
    judge.refer([best, Answer(np.ones(5))])
    assert judge.optimum == pytest.approx(MARGIN, rel=1e-12)
    assert judge.score(best) == pytest.approx(0.0, abs=1e-12)
    assert judge.score(replace(best, w=1e200 * data.coef)) == pytest.approx(0.0, abs=1e-12)
    assert judge.score(replace(best, w=-data.coef)) > 1.0
    assert judge.score(replace(best, w=0.0 * data.coef)) == 1.0
    assert judge.score(replace(best, w=np.ones(3))) == math.inf
    assert judge.score(replace(best, w=np.full(5, np.inf))) == math.inf


def test_float32_rows_are_scored_in_float64():
    task, data = known(form=np.float32)
    exact = float(np.min(task.y * (task.X.astype(np.float64) @ data.coef)))
    assert Objective(task).margin(data.coef) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scores_of_witnesses(fit_intercept):
    data = make_nonseparable(40, 5, fit_intercept=fit_intercept, random_state=0)
    judge = Objective(Task(data.X, data.y.astype(float), "witness", fit_intercept))
    judge.refer([])
    assert judge.score(Answer(np.zeros(5), q=7.0 * dual(data))) < 1e-15
    assert judge.score(Answer(np.zeros(5), q=np.ones(40))) > 1e-3
    assert judge.score(Answer(np.zeros(5))) == math.inf
    assert judge.score(Answer(np.zeros(5), q=np.zeros(40))) == math.inf


def test_scores_of_soft_margins():
    # one row x = 1, y = 1: min ½w² + C(1 − w)² is C/(1 + 2C), at w = 2C/(1 + 2C)
    task = Task(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), "soft", C=1.0)
    judge = Objective(task)
    best = Answer(np.array([0.8]), q=np.array([0.5, 0.5]))  # two rows: C counts twice
    judge.refer([best, Answer(np.array([5.0]))])
    assert judge.optimum == pytest.approx(0.4, rel=1e-12)
    assert judge.score(best) == pytest.approx(0.0, abs=1e-12)
    assert judge.score(Answer(np.array([1.0]))) == pytest.approx(0.25)


# ---- the solvers ---------------------------------------------------------------------------


def installed(name):
    solver = SOLVERS[name]
    if solver.requires is not None:
        pytest.importorskip(solver.requires)
    return solver


def answer_of(solver, task):
    if solver.refuse(task) is not None:
        pytest.skip(solver.refuse(task))
    return solver.run(task)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("shape", [(40, 5), (12, 60)])
def test_every_solver_finds_a_known_margin(name, fit_intercept, form, shape):
    data = make_separable(*shape, margin=MARGIN, fit_intercept=fit_intercept, random_state=3)
    task = Task(form(data.X), data.y.astype(float), fit_intercept=fit_intercept)
    answer = answer_of(installed(name), task)
    judge = Objective(task)
    judge.refer([Answer(data.coef, data.intercept, dual(data))])
    penalises = fit_intercept and name.startswith(("liblinear", "rehline"))
    assert judge.score(answer) <= (1e-2 if penalises else 1e-4)
    if answer.q is not None and answer.q.shape == data.y.shape:
        assert judge._upper(answer.q) == pytest.approx(MARGIN, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_soft_margins_agree(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.choice([-1.0, 1.0], 60)
    task = Task(sp.csr_matrix(X), y, "soft", C=1.0)
    ours = SOLVERS[REFERENCE].run(task)
    judge = Objective(task)
    judge.refer([ours])
    assert judge.score(answer_of(installed(name), task)) <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_plain_hinges_agree(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.choice([-1.0, 1.0], 60)
    task = Task(sp.csr_matrix(X), y, "hinge", C=1.0)
    ours = SOLVERS[REFERENCE].run(task)
    assert ours.certified
    judge = Objective(task)
    judge.refer([ours])
    assert judge.score(answer_of(installed(name), task)) <= 1e-4


@pytest.mark.parametrize("name", ["piqp", "osqp", "clarabel", REFERENCE])
def test_witnesses(name):
    data = make_nonseparable(60, 4, n_support=60, overlap=0.5, random_state=0)
    task = Task(data.X, data.y.astype(float), "witness")
    answer = answer_of(installed(name), task)
    assert Objective(task).witness(answer.q) < 1e-5
