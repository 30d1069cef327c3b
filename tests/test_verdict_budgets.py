"""Verdicts keep to their time and memory, hear Ctrl-C, and write what the verifier reads."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from floating_point import run

from momentron.separability import Verdict, check_separability, feature_roles, interval
from momentron.solvers import rational
from momentron.status import Status
from momentron.verify import limits, verify
from momentron.verify.outcomes import read_table

pytestmark = pytest.mark.clock

SLACK = 2.5  # seconds beyond the budget that a busy machine is allowed


def noise(n, d, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, classes, n)


def quasi():
    X, y = noise(2000, 400)
    X[:, 0] = np.where(np.arange(2000) < 1000, 0.0, 3.0 * (2 * y - 1))
    return X, y


def scales():
    X, y = noise(300, 40)
    return X * 10.0 ** np.random.default_rng(1).integers(-150, 150, X.shape), y


CASES = {
    "more columns than rows": lambda: noise(600, 1000),
    "a large exact system": lambda: noise(2500, 700),
    "many classes": lambda: noise(1500, 40, 12),
    "a plane": quasi,
    "distant scales": scales,
    "many rows": lambda: noise(200_000, 50),
}


@pytest.mark.parametrize("name", CASES)
def test_max_time_holds(name):
    X, y = CASES[name]()
    start = time.perf_counter()
    verdict = check_separability(X, y, max_time=1.0)
    assert time.perf_counter() - start < 1.0 + SLACK
    if verdict.proof["data"]["sha256"]:  # else a busy machine has not even read the data
        assert verify(verdict.to_json(), X, y)


def test_features_share_one_budget():
    X, y = noise(300, 40)
    X[:, 0] += 20.0 * y
    verdict = check_separability(X, y)
    assert verdict.is_separable
    start = time.perf_counter()
    roles = feature_roles(verdict, X, y, max_time=0.5)
    assert time.perf_counter() - start < 0.5 + SLACK
    assert len(roles) == 40


INTERRUPTED = """
import os, signal, threading, time, warnings
import numpy as np
from test_verdict_budgets import CASES
from momentron.separability import check_separability
X, y = CASES[{name!r}]()
sent = []
def interrupt():
    time.sleep({after})
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    check_separability(X, y)
    print("ended", flush=True)
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0], flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("name", "after"),
    [("a large exact system", 2.5), ("many classes", 1.5), ("a plane", 1.5), ("many rows", 2.0)],
)
def test_ctrl_c_is_heard(name, after):
    printed = run(INTERRUPTED.format(name=name, after=after)).strip()
    assert printed == "ended" or float(printed) < 1.0 + SLACK


LIMITED = """
import resource
import numpy as np, scipy.sparse as sp
from momentron.separability import check_separability
from momentron.verify import verify
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
"""


def limited(script, room=400 << 20):
    """What a script prints with so much more address space than its imports need."""
    return run(LIMITED.format(room=room) + script)


pytestmark_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytestmark_linux
@pytest.mark.parametrize(
    ("features", "rows"), [(10**8, [0, 1]), (7_000_000, [0, 1, 2, 3]), (7_000_000, [0, 0, 1, 1])]
)
def test_cost_is_by_stored_entries(features, rows):
    printed = limited(
        "import time\n"
        f"n, d = {len(set(rows))}, {features}\n"
        f"at = (np.array({rows}), np.array([3, d - 1, d // 2, 7][:{len(rows)}]))\n"
        "X, y = sp.csr_array((np.ones(at[0].size), at), shape=(n, d)), np.arange(n) % 2\n"
        "start = time.process_time()\n"
        "verdict = check_separability(X, y)\n"
        "text = verdict.to_json()\n"
        "print(verdict.kind, verify(text, X, y), len(text) < 2000, time.process_time() - start)\n"
    )
    *answers, seconds = printed.split()
    assert answers == ["separable", "True", "True"]
    assert float(seconds) < 5.0


def test_empty_columns_change_nothing():
    X, y = noise(40, 3)
    wide = np.zeros((40, 9))
    wide[:, [2, 5, 6]] = X
    for fit_intercept in (True, False):
        narrow = check_separability(X, y, fit_intercept=fit_intercept)
        verdict = check_separability(wide, y, fit_intercept=fit_intercept)
        assert (verdict.kind, verdict.lower, verdict.upper) == (
            narrow.kind,
            narrow.lower,
            narrow.upper,
        )
    apart = wide.copy()
    apart[:, 5] += 20.0 * y
    verdict = check_separability(apart, y)
    assert verify(verdict.to_json(), apart, y)
    assert np.flatnonzero(verdict.coef[0]).tolist() == [2, 5, 6]
    assert check_separability(np.zeros((4, 3)), [0, 1, 1, 0]).kind == "overlapping"


@pytest.mark.parametrize("classes", [2, 3])
def test_every_storage_has_one_proof(classes):
    X, y = noise(60, 4, classes)
    X[:, 0] += 20.0 * y
    X[np.abs(X) < 0.3] = 0.0
    for data, kind in ((X, "separable"), (X[:, 1:], "overlapping")):
        verdict = check_separability(data, y)
        text = verdict.to_json()
        assert verdict.kind == kind
        assert verify(text, data, y)
        assert verify(text, sp.csc_array(data), y.astype(float))
        assert Verdict.from_json(text).coef.shape == (classes - 1, data.shape[1])
        if kind == "separable":
            assert feature_roles(verdict, data, y)[0].is_needed


def test_memory_is_bounded_before_work_begins(monkeypatch):
    X, y = noise(400, 30)
    monkeypatch.setattr(rational, "MEMORY", 100_000)
    verdict = check_separability(X, y)
    assert verdict.kind == "undecided"
    assert verify(verdict.to_json(), X, y)
    with pytest.raises(ValueError, match="check the classes two by two"):
        check_separability(X, np.arange(400))


def test_a_proof_that_would_not_be_read_is_not_written(monkeypatch):
    X, y = noise(50, 3)
    X[:, 0] += 20.0 * y
    size = len(json.dumps(check_separability(X, y, estimates=False).proof))
    monkeypatch.setattr(limits, "MAX_CHARACTERS", size - 1)
    verdict = check_separability(X, y)
    assert verdict.kind == "undecided"
    assert verify(verdict.to_json(), X, y)


def test_estimates_that_would_not_be_read_are_left_out(monkeypatch):
    X, y = noise(50, 3)
    X[:, 0] += 20.0 * y
    whole = check_separability(X, y)
    assert whole.estimates
    monkeypatch.setattr(limits, "MAX_CHARACTERS", len(json.dumps(whole.proof)) - 1)
    verdict = check_separability(X, y)
    assert verdict.kind == "separable" and not verdict.estimates
    assert verify(verdict.to_json(), X, y)


def test_time_that_ends_before_the_data_are_read(monkeypatch):
    monkeypatch.setattr("momentron.separability.check.GRACE", 0.0)
    verdict = check_separability(*noise(50, 3), max_time=1e-9)
    assert (verdict.kind, verdict.lower, verdict.upper) == ("undecided", 0.0, np.inf)
    assert Verdict.from_json(verdict.to_json()).kind == "undecided"
    with pytest.raises(ValueError, match="different data"):
        verify(verdict, *noise(50, 3))


def test_an_exact_system_that_the_time_does_not_allow_is_enclosed(monkeypatch):
    monkeypatch.setattr(rational, "solving_seconds", lambda *_: 1e9)
    X, y = noise(60, 4)
    verdict = check_separability(X, y, max_time=60.0)
    assert (verdict.kind, verdict.arithmetic) == ("overlapping", "enclosure")
    assert verify(verdict.to_json(), X, y)


def test_duplicates_are_summed_exactly():
    def sparse(values):
        return sp.csr_array((values, np.zeros(3, int), np.array([0, 2, 3])), shape=(2, 1))

    X = sparse(np.array([200, 100, 3], np.uint8))
    table = read_table(X, ["a", "b"])
    assert X.data.tolist() == [200, 100, 3]
    _, ends, places, integers = next(table.pieces(np.arange(2)))
    assert (ends.tolist(), places.tolist()) == ([0, 1, 2], [0, 0])
    assert integers.tolist() == [300 * table.scale, 3 * table.scale]
    assert check_separability(sparse(np.array([200, 56, 0], np.uint8)), [0, 1]).is_separable
    with pytest.raises(ValueError, match="several entries at"):
        check_separability(sparse(np.array([1e300, 1e-300, 1.0])), [0, 1])


def test_what_max_margin_hands_over_when_interrupted_is_no_verdict(monkeypatch):
    X, y = noise(50, 3)
    X[:, 0] += 20.0 * y
    solve = interval.max_margin

    def interrupted(*args, **options):
        return replace(solve(*args, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr(interval, "max_margin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_separability(X, y)


def test_the_command_line_keeps_to_its_time(tmp_path):
    X, y = noise(600, 300)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    command = [sys.executable, "-m", "momentron", "check", str(tmp_path / "data.npz")]
    done = subprocess.run([*command, "--max-time", "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 4, 5), done.stderr
