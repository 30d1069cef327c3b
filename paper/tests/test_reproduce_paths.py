"""`python -m paper paths`: three paths, the angles between them, what validation chooses."""

import importlib.util
import json
from types import SimpleNamespace

import numpy as np
import pytest

from momentron.datasets import load
from momentron.solvers import Momentum
from momentron.solvers.problem import Problem
from paper import FIGURES, Paths, data, path_findings, paths, runner
from paper.data import Pool
from paper.paths import Grid, chosen, measure_split
from paper.runner import Measured

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)
GRID = Grid(splits=2, iterations=30, per_decade=1, rows=200)


def digit_pool(slug="digits"):
    """Even against odd, in 2 × 2 blocks: nothing separates them."""
    data = load("digits", subset=300)
    X = data.X.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(data.y), -1)
    return Pool.from_rows(slug, f"{slug}, even/odd", X, data.y % 2)


def random_pool(n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return Pool.from_rows("noise", "noise", X, (X[:, 0] + rng.standard_normal(n) > 0.0).astype(int))


# --- data ----------------------------------------------------------------------------------------


def test_a_pool_has_a_constant_and_length_one():
    pool = random_pool()
    assert np.linalg.norm(pool.X, axis=1).max() == pytest.approx(1.0)
    assert np.ptp(pool.X[:, -1]) == 0.0
    lengths = np.sum(pool.X[:, :-1] ** 2, axis=1)
    assert pool.X[0, -1] == pytest.approx(np.sqrt(lengths.mean()))
    assert set(pool.y) == {-1, 1}


def test_splits_share_no_row_and_lose_none():
    split = random_pool().split(5)
    assert sorted(np.concatenate(split)) == list(range(150))
    assert [part.size for part in split] == [90, 30, 30]
    assert not np.array_equal(split[0], random_pool().split(6)[0])


def test_errors_are_counted():
    pool = Pool("", "", np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), np.array([1, 1, 1]))
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    # the first gets one right, one wrong and ties once; the second ties twice
    assert pool.errors(weights, np.arange(3)).tolist() == pytest.approx([2 / 3, 2 / 3])


def test_cifar_rows_do_not_depend_on_the_number_of_batches(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3072)), np.arange(40) % 10

    def batches(many):
        rows = slice(None) if many else slice(0, 10)
        return SimpleNamespace(X=X[rows], y=y[rows], X_test=X[20:], y_test=y[20:])

    found = []
    for many in (False, True):
        monkeypatch.setattr(data, "load", lambda name, many=many: batches(many))
        found.append(data.animals(20).fingerprint)
    assert found[0] == found[1]
    assert data.animals(20).X.shape == (20, 193)
    assert data.animals(20).y.tolist()[:10] == [-1, -1, 1, 1, 1, 1, 1, 1, -1, -1]


# --- paths ---------------------------------------------------------------------------------------


def training_rows():
    pool = digit_pool()
    train = pool.split(0)[0]
    return pool.rows(train), pool.y[train]


def test_the_momentum_path_is_algorithm_1():
    X, y = training_rows()
    t, path = paths.momentum_path(X, y, [1, 4, 9], lambda share: None)
    problem, solver = Problem.from_data(X, y, fit_intercept=False), Momentum()
    state = solver.init(problem)
    for step in range(1, 10):
        solver.step(problem, state)
        if step in (1, 4, 9):
            assert path[t.tolist().index(step)] == pytest.approx(state.now.w, rel=1e-12)


def test_all_paths_begin_at_the_mean():
    """A tiny C, a huge λ and one step of Algorithm 1 all give the mean of y x."""
    X, y = training_rows()
    mean = (y[:, None] * X).mean(axis=0)[None, :]
    soft = paths.soft_path(X, y, np.array([1e-7]))
    own, _ = paths.ridge_path(X, y, np.array([1e4]))
    _, first = paths.momentum_path(X, y, [1], lambda share: None)
    for path in (soft, own, first):
        assert paths.angles(path, mean)[0, 0] < 0.1


def test_the_ridge_path_is_stationary():
    X, y = training_rows()
    grid = np.array([1.0, 0.1, 0.01])
    path, slope = paths.ridge_path(X, y, grid)
    assert slope < 1e-4
    signed = -y[:, None] * X / np.linalg.norm(X, axis=1).max()
    for w, lam in zip(path, grid, strict=True):
        p = signed @ w
        q = np.exp(p - p.max())
        gradient = signed.T @ (q / q.sum()) + lam * w
        assert np.linalg.norm(gradient) < 1e-4 * lam * np.linalg.norm(w)


def test_the_soft_path_minimises():
    X, y = training_rows()
    C = 3.0
    w = paths.soft_path(X, y, np.array([0.5, C]))[-1]

    def objective(w):
        return 0.5 * w @ w + C * np.sum(np.maximum(0.0, 1.0 - y * (X @ w)) ** 2)

    rng = np.random.default_rng(0)
    nearby = [objective(w + 0.05 * rng.standard_normal(w.size)) for _ in range(20)]
    assert objective(w) * (1 - 1e-3) < min(nearby)


def test_a_split_is_measured():
    found = measure_split(digit_pool(), 1, GRID, lambda share: None)
    columns, facts = found.columns, found.facts
    n_t, n_C = len(GRID.marks), GRID.C.size
    assert all(column.size == n_t + n_C for column in columns.values())
    assert facts["kind"] == "overlapping"
    assert facts["verified"]
    angles = np.array([columns[name][:n_t] for name in columns if name.startswith("angle at")])
    assert angles.shape == (n_C, n_t)
    assert np.array_equal(angles.min(axis=0), columns["nearest_angle"][:n_t])
    assert np.isnan(columns["nearest_angle"][n_t:]).all()
    validation = columns["validation_error"]
    assert validation[columns["iteration"] == facts["chosen t"]][0] == validation[:n_t].min()
    assert validation[columns["C"] == facts["chosen C"]][0] == validation[n_t:].min()


def test_ties_go_to_the_smaller():
    columns = {
        "iteration": np.array([1, 2, 3, 0, 0]),
        "C": np.array([np.nan, np.nan, np.nan, 0.1, 1.0]),
        "validation_error": np.array([0.3, 0.2, 0.2, 0.1, 0.1]),
        "test_error": np.array([0.5, 0.4, 0.3, 0.2, 0.1]),
    }
    assert chosen(columns) == {
        "chosen t": 2.0,
        "test error at chosen t": 0.4,
        "chosen C": 0.1,
        "test error at chosen C": 0.2,
    }


# --- findings ------------------------------------------------------------------------------------


def split_with(angle=5.0, own=2.0, at_t=0.10, at_C=0.10, last=0.10, order=1, kind="overlapping"):
    t = np.array([1, 10, 100])
    columns = {
        "iteration": np.append(t, 0),
        "travelled": np.array([0.0, 30.0, 60.0, np.nan]),
        "nearest_angle": np.array([1.0, 1.0, angle, np.nan]),
        "own_angle": np.array([1.0, 1.0, own, np.nan]),
        "nearest_C": np.append(np.array([0.1, 1.0, 10.0])[::order], np.nan),
        "test_error": np.array([0.4, at_t, last, at_C]),
    }
    facts = {"kind": kind, "verified": True, "chosen t": 10.0, "chosen C": 1.0}
    facts |= {"test error at chosen t": at_t, "test error at chosen C": at_C}
    return Measured(columns, facts)


def verdicts(**changes):
    splits = {"a": [split_with(), split_with()], "b": [split_with(**changes)] * 2}
    return [
        claim.verdict
        for claim in (
            path_findings.not_separable(splits),
            path_findings.stays_close(splits, "nearest_angle", until_chosen=True),
            path_findings.stays_close(splits, "nearest_angle", until_chosen=False),
            path_findings.in_order(splits),
            path_findings.stays_close(splits, "own_angle", until_chosen=False),
            path_findings.nearer_to_its_own(splits),
            path_findings.as_good(splits),
            path_findings.stopping_matters(splits),
        )
    ]


def test_statements_follow_from_the_numbers():
    assert verdicts() == ["found"] * 8
    for changes, missed in (
        ({"kind": "separable"}, {0}),
        ({"angle": 20.0}, {2}),
        ({"order": -1}, {3}),
        ({"own": 20.0}, {4, 5}),
        ({"at_t": 0.2, "last": 0.2}, {6}),
        ({"at_C": 0.2}, {6}),
        ({"last": 0.2}, {7}),
    ):
        found = verdicts(**changes)
        assert {i for i, verdict in enumerate(found) if verdict == "not found"} == missed
        assert found.count("found") == 8 - len(missed)


def test_when_a_path_is_left():
    splits = {"a": [split_with(angle=20.0)] * 2, "b": [split_with(angle=20.0), split_with()]}
    assert path_findings.leaving(splits, "nearest_angle") == {
        "a, left at t =": "100, 60° from the first direction",
        "b, left in": "1 of 2 splits",
    }


def test_the_set_is_the_unit_of_the_average():
    splits = {"a": [split_with(at_t=0.12)] * 2, "b": [split_with(at_t=0.08)] * 2}
    found = path_findings.over_all_sets(splits)
    assert found.verdict == "undecided"
    assert found.measured["t worse than C on"] == 1
    same = path_findings.over_all_sets({"a": [split_with()], "b": [split_with()]})
    assert same.verdict == "found"


@pytest.mark.slow
@needs_matplotlib
def test_a_run_is_written_and_resumed(tmp_path, monkeypatch):
    def figure(quick=False):
        return Paths([digit_pool(), random_pool()], GRID, quick=quick)

    done = runner.reproduce(figure(), tmp_path)
    assert (done.folder / "paths.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((done.folder / "claims.json").read_text())
    assert report["claims"][0]["verdict"] == "found"
    assert report["data"]["name"] == "digits, even/odd, noise"
    head = (done.folder / "paths.csv").read_text().splitlines()[0]
    assert head.startswith("curve,iteration,C,validation_error,test_error,travelled,nearest_angle")
    assert head.endswith("angle at C = 1e+06")
    monkeypatch.setattr(runner, "render", lambda draw: {})
    quick = runner.reproduce(figure(quick=True), tmp_path)
    assert [claim.verdict for claim in quick.claims][1:] == ["not judged"] * 8
    assert quick.claims[0].verdict == "found"  # a proof is one at any size
    assert len(quick.resumed) == 4  # the same splits of the same rows
    sorted((done.folder / "parts").iterdir())[0].unlink()
    again = runner.reproduce(figure(), tmp_path)
    assert len(again.resumed) == 3
    assert [c.measured for c in again.claims] == [c.measured for c in done.claims]


def test_paths_is_a_command():
    assert FIGURES["paths"] == Paths.from_files
