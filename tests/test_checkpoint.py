"""Checkpoints: a run that was killed ends as if it had not been; no file is lost by mistake."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from momentron import InputError, Status, max_margin
from momentron.datasets import make_separable
from momentron.solvers import Momentum
from momentron.solvers.checkpoint import Checkpoint


class Killed(Exception):
    """Stands for SIGKILL: nothing after it runs in the loop."""


@pytest.fixture(scope="module")
def data():
    return make_separable(600, 6, margin=0.2, fit_intercept=True, random_state=4)


@pytest.fixture
def eager(monkeypatch):
    """Write after every step."""
    original = Checkpoint.__init__

    def init(self, path, identity, every=0.0):
        original(self, path, identity, every)

    monkeypatch.setattr(Checkpoint, "__init__", init)


def killer(after):
    def callback(row):
        if row.iteration >= after:
            raise Killed

    return callback


OPTIONS = {
    "memory": {"method": "momentum", "max_iter": 60, "tol": 0.0},
    "memory-gradient": {"method": "normalized-gradient", "max_iter": 60, "tol": 0.0},
    "blocks": {"method": "momentum", "max_iter": 60, "tol": 0.0, "block_size": 4000},
}


@pytest.mark.parametrize("case", list(OPTIONS))
def test_a_killed_run_ends_as_if_it_had_not_been(case, data, tmp_path, eager):
    options, path = OPTIONS[case], tmp_path / "state"
    straight = max_margin(data.X, data.y, **options)
    for after in (7, 20, 21, 48):
        with pytest.raises(Killed):
            max_margin(data.X, data.y, checkpoint=path, callback=killer(after), **options)
    resumed = max_margin(data.X, data.y, checkpoint=path, **options)
    assert resumed.n_iter == straight.n_iter == 60
    assert np.array_equal(resumed.coef, straight.coef)
    for column in ("iteration", "margin", "lower", "upper"):
        assert np.array_equal(resumed.trace[column], straight.trace[column])
    again = max_margin(data.X, data.y, checkpoint=path, **options)
    if case == "blocks":  # whose weights are averaged anew: nothing that a file says is believed
        assert resumed.lower == again.lower == straight.lower <= data.margin
        assert data.margin <= min(resumed.upper, again.upper)
        assert resumed.passes > straight.passes
        return
    assert np.array_equal(resumed.trace["passes"], straight.trace["passes"])
    assert resumed.certificate == again.certificate == straight.certificate


@pytest.mark.parametrize("many", [False, True], ids=["two", "many"])
def test_auto_on_blocks_goes_on_from_its_working_set(many, tmp_path, eager):
    rng = np.random.default_rng(0)
    d = 8 if many else 30  # few features are solved in two rounds
    X = rng.standard_normal((6000, d))
    W = rng.standard_normal((d, 4))
    y = (X @ W).argmax(axis=1) if many else (X @ W[:, 0] > 0.0).astype(int)
    options = {"block_size": 2500 * d, "tol": 1e-7}
    straight = max_margin(X, y, **options)
    assert straight.n_iter >= 3
    path = tmp_path / "state"
    for after in (1, 2, straight.n_iter - 1):
        with pytest.raises(Killed):
            max_margin(X, y, checkpoint=path, callback=killer(after), **options)
    resumed = max_margin(X, y, checkpoint=path, **options)
    assert resumed.certificate == straight.certificate
    assert resumed.passes > straight.passes  # a run opens with a pass, whatever its file says
    assert np.array_equal(resumed.support, straight.support)
    assert np.array_equal(resumed.dual, straight.dual)
    again = max_margin(X, y, checkpoint=path, **options)
    assert again.status is Status.OPTIMAL
    assert again.n_iter == straight.n_iter
    assert again.lower == straight.lower
    assert again.upper == pytest.approx(straight.upper, rel=1e-11)
    assert np.array_equal(again.dual, straight.dual)


SCRIPT = """
import sys, numpy as np
from momentron import max_margin
from momentron.solvers import checkpoint as module
module.Checkpoint.__init__.__defaults__ = (0.05,)
rng = np.random.default_rng(0)
X = rng.standard_normal((20000, 20))
y = np.where(X @ rng.standard_normal(20) > 0.0, 1, -1)
result = max_margin(X, y, method="momentum", max_iter=300, tol=0.0, block_size=400_000,
                    fit_intercept=False, checkpoint=sys.argv[1] if len(sys.argv) > 1 else None)
print(result.n_iter, result.lower.hex(), [value.hex() for value in result.coef.tolist()])
"""


@pytest.mark.slow
def test_sigkill_at_random_moments(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(SCRIPT)
    rng = np.random.default_rng(1)
    straight = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True
    ).stdout
    command = [sys.executable, script, tmp_path / "state"]
    kills = 0
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        begin = time.perf_counter()
        changed = (tmp_path / "state").stat().st_mtime_ns if kills else None
        while process.poll() is None and time.perf_counter() - begin < 60.0:
            state = tmp_path / "state"
            if state.exists() and state.stat().st_mtime_ns != changed:
                break
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.3)))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 1
    resumed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert resumed == straight


class Flagged(Momentum):
    """A method whose state has flags, alone and in an array."""

    name = "flagged"

    def init(self, problem, options):
        state = super().init(problem, options)
        state.is_cold, state.seen = True, np.zeros(3, bool)
        return state

    def step(self, problem, state):
        super().step(problem, state)
        state.is_cold = False
        state.seen[state.t % 3] = True


def test_flags_of_a_state_come_back(data, tmp_path, eager):
    path, options = tmp_path / "state", {"method": Flagged(), "max_iter": 30, "tol": 0.0}
    with pytest.raises(Killed):
        max_margin(data.X, data.y, checkpoint=path, callback=killer(7), **options)
    resumed = max_margin(data.X, data.y, checkpoint=path, **options)
    assert resumed.lower == max_margin(data.X, data.y, **options).lower


def test_damaged_foreign_and_other_files_are_refused_and_left_alone(data, tmp_path):
    path = tmp_path / "state"
    options = {"method": "momentum", "max_iter": 30}
    max_margin(data.X, data.y, checkpoint=path, **options)
    good = path.read_bytes()

    def refused(content, message, X=data.X, y=data.y, **changed):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            max_margin(X, y, checkpoint=path, **(options | changed))
        assert path.read_bytes() == content

    middle = len(good) // 2
    flipped = bytes([good[middle] ^ 1])
    refused(good[:middle] + flipped + good[middle + 1 :], "is damaged")
    refused(good[:-100], "is damaged")
    refused(b"", "not a checkpoint")
    refused(b"my only copy of something", "not a checkpoint")
    refused(good.replace(b"checkpoint 5", b"checkpoint 9", 1), "not a checkpoint of this version")
    refused(good, "its labels", y=-data.y[::-1])
    refused(good, "its data", X=data.X + 1e-9)
    refused(good, "its shape", X=data.X[:-1], y=data.y[:-1])
    refused(good, "its method", method="normalized-gradient")
    refused(good, "its parameters", method=Momentum(step=0.5))
    refused(good, "its fit_intercept", fit_intercept=False)
    refused(good, "its method", block_size=4000)


def test_methods_that_cannot_are_refused_before_they_work(data, tmp_path):
    with pytest.raises(InputError, match="a method whose state is numbers"):
        max_margin(data.X, data.y, checkpoint=tmp_path / "state")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"parent directory of .* does not exist"):
        max_margin(data.X, data.y, method="momentum", checkpoint=tmp_path / "no" / "state")


def test_writes_are_rare_and_whole(data, tmp_path, monkeypatch):
    writes = []
    original = Checkpoint.write

    def write(self, arrays):
        original(self, arrays)
        writes.append(time.perf_counter())

    monkeypatch.setattr(Checkpoint, "write", write)
    path = tmp_path / "state"
    (tmp_path / "state.part").write_bytes(b"not ours")
    result = max_margin(data.X, data.y, method="momentum", max_iter=200, tol=0.0, checkpoint=path)
    assert result.status is Status.ITERATION_BUDGET
    assert len(writes) <= 1 + result.seconds / 5.0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state", "state.part"]


def test_a_larger_budget_goes_on_where_the_smaller_ended(data, tmp_path):
    path = tmp_path / "state"
    options = {"method": "momentum", "tol": 0.0}
    max_margin(data.X, data.y, max_iter=25, checkpoint=path, **options)
    more = max_margin(data.X, data.y, max_iter=50, checkpoint=path, **options)
    straight = max_margin(data.X, data.y, max_iter=50, **options)
    assert more.certificate == straight.certificate
    assert more.n_iter == 50


@pytest.mark.clock
def test_a_run_that_the_deadline_ends_leaves_its_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50))
    y = np.sign(X @ rng.normal(size=50))
    options = {"method": "momentum", "tol": 0.0, "max_iter": 10**6, "max_time": 0.5}
    iterations = [max_margin(X, y, checkpoint=tmp_path / "state", **options).n_iter]
    assert (tmp_path / "state").exists()
    iterations.append(max_margin(X, y, checkpoint=tmp_path / "state", **options).n_iter)
    assert iterations[1] > iterations[0]
