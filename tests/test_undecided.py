"""Estimates use the time they are given, and what stays undecided says why and what to do.

The oracle has two linear programs per coefficient, and shares no code with us.
"""

import json
import time
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run
from scipy.optimize import linprog

from momentron import check_separability, verify
from momentron.errors import InputError
from momentron.separability import Verdict, check, estimate_prover
from momentron.solvers.rational import TooLarge


def groups(n, d, seed):
    """Dummies of d + 1 groups, many of them constant, as the baseline is."""
    rng = np.random.default_rng(seed)
    group = np.r_[np.arange(d + 1), rng.integers(0, d + 1, n - d - 1)]
    X = (group[:, None] == np.arange(1, d + 1)).astype(float)
    effects = rng.normal(size=d + 1)
    y = (rng.random(n) < 1 / (1 + np.exp(-effects[group]))).astype(int)
    y[group == 0] = 1
    return X, y


def by_groups(X, y):
    """What becomes of the coefficients of constant groups and others beside a baseline of ones.

    The baseline's intercept goes to +∞, and a group that tends to a finite odds or to 0 leaves it
    behind; two that go to +∞ differ by anything.
    """
    shares = [y[column == 1.0].mean() for column in X.T]
    return [*("undetermined" if share == 1.0 else "-inf" for share in shares), "+inf"]


def by_programs(X, y, chosen):
    """What becomes of some coefficients, from the least and largest values on the cone."""
    A = sp.csr_array(np.where(y, 1.0, -1.0)[:, None] * np.column_stack([X, np.ones(len(X))]))
    solve = partial(linprog, A_ub=-A, b_ub=np.zeros(len(y)), bounds=(-1, 1), method="highs")
    words = {(False, False): "finite", (True, False): "-inf", (False, True): "+inf"}
    found = []
    for j in chosen:
        goal = np.eye(1, A.shape[1], j).ravel()
        ends = solve(goal).fun < -1e-7, solve(-goal).fun < -1e-7
        found.append(words.get(ends, "undetermined"))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_dummies_of_many_constant_groups_are_all_decided(seed):
    X, y = groups(500, 250, seed)
    verdict = check_separability(X, y, max_time=60)
    found = [e.estimate for e in verdict.estimates]
    assert found == by_groups(X, y)
    some = [*range(0, 250, 12), 250]
    assert [found[j] for j in some] == by_programs(X, y, some)
    assert verdict.reason is None
    assert verify(verdict.to_json(), X, y)


def test_many_coefficients_under_complete_separation():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 210)).round(2), rng.integers(0, 2, 400)  # a thin cone
    verdict = check_separability(X, y, max_time=12)
    assert verdict.kind == "separable"
    assert {e.estimate for e in verdict.estimates} == {"undetermined"}
    assert len(verdict.proof["estimates"]["directions"]["starts"]) < 60  # not one per coefficient


@pytest.mark.parametrize("density", [0.15, 0.5, 1.0])
def test_random_designs_agree_with_programs(density):
    rng = np.random.default_rng(int(100 * density))
    kinds, statuses = set(), set()
    for _ in range(6):
        X = rng.integers(-2, 3, (45, 14)) * (rng.random((45, 14)) < density)
        w = rng.integers(-1, 2, 14) * (rng.random(14) < 0.6)
        y = np.where(X @ w != 0, X @ w > 0, rng.random(45) < 0.5).astype(int)
        verdict = check_separability(X, y, max_time=60)
        decided = [e.estimate for e in verdict.estimates]
        oracle = by_programs(X.astype(float), y, range(15))
        assert all(a in ("aliased", b) for a, b in zip(decided, oracle, strict=True))
        kinds.add(verdict.kind)
        statuses |= set(decided)
    assert "undecided" not in statuses and len(statuses) > 1
    assert kinds & {"separable", "quasi-separable"}


# --- the time that is given -----------------------------------------------------------------------


def test_estimates_have_all_the_time_that_is_left(monkeypatch):
    given = []

    def timed(*args):
        given.append(args[-1] - time.perf_counter())
        return original(*args)

    original = check._with_estimates
    monkeypatch.setattr(check, "_with_estimates", timed)
    X, y = [[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1]
    check_separability(X, y)
    check_separability(X, y, max_time=3000.0)
    assert given[0] == pytest.approx(4.0, abs=0.5)
    assert given[1] > 2900.0


# --- what is undecided says why -------------------------------------------------------------------

X, Y = [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [2.0, 3.0]], [0, 0, 1, 1]
LATE = "time ran out after 4 s; pass max_time=60"


def undetermined():
    """Data with two undetermined coefficients or more, which need directions of their own."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(12, 3)).round(1)
    return X, (X[:, 0] > 0).astype(int)


def test_coefficients_that_are_undecided_say_why(monkeypatch):
    monkeypatch.setattr(estimate_prover.EstimateProver, "_has_room", False)
    X, y = undetermined()
    verdict = check_separability(X, y)
    late = [e for e in verdict.estimates if e.estimate == "undecided"]
    assert late and all(e.reason == LATE for e in late)
    assert verdict.reason == LATE
    assert f"undecided: {LATE}" in verdict.paper_sentence
    lines = [line for line in verdict.summary().splitlines() if line.endswith(f"undecided: {LATE}")]
    assert len(lines) == len(late)
    assert LATE in verdict.summary("html")
    again = Verdict.from_json(verdict.to_json())
    assert again.reason is None and "undecided" in again.summary()


def test_the_frame_has_a_reason(monkeypatch):
    pytest.importorskip("pandas")
    X, y = undetermined()
    assert list(check_separability(X, y).to_frame()) == ["class", "feature", "estimate"]
    monkeypatch.setattr(estimate_prover.EstimateProver, "_has_room", False)
    frame = check_separability(X, y).to_frame()
    late = frame["estimate"] == "undecided"
    assert late.any() and (frame["reason"][late] == LATE).all()
    assert frame["reason"][~late].isna().all()


def test_a_verdict_without_estimates_says_why(monkeypatch):
    monkeypatch.setattr(check, "ESTIMATES_SECONDS", 1e-6)
    verdict = check_separability(X, Y)
    assert verdict.kind == "quasi-separable" and not verdict.estimates
    reason = "time ran out after 1e-06 s; pass max_time=60"
    assert verdict.reason == reason
    assert f"The estimates are undecided: {reason}" in verdict.paper_sentence
    assert reason in verdict.summary()
    assert check_separability(X, Y, estimates=False).reason is None


@pytest.mark.parametrize(("max_time", "more"), [(1e-9, "60"), (1e-3, "60")])
def test_an_undecided_verdict_says_why(max_time, more):
    verdict = check_separability(np.eye(300), np.arange(300) % 2, max_time=max_time)
    assert verdict.kind == "undecided"
    reason = f"time ran out after {max_time:g} s; pass max_time={more}"
    assert verdict.reason == reason
    assert verdict.paper_sentence.endswith(f" Reason: {reason}.")


def test_data_that_are_too_large_say_so(monkeypatch):
    monkeypatch.setattr(estimate_prover, "LARGEST", 1)
    verdict = check_separability(*undetermined())
    assert "too large for exact arithmetic" in verdict.reason
    assert "at most 1 are decided exactly" in verdict.paper_sentence
    assert "max_time" not in verdict.reason  # time does not help


def test_a_proof_that_is_not_complete_says_why(monkeypatch):
    def refused(*args):
        raise TooLarge("9,999 equations")

    monkeypatch.setattr(check._Decision, "_from_floats", refused)
    X, y = [[0, 1], [0, 2], [0, 2], [1, 3], [0, 9]], [0, 0, 1, 1, 0]  # two equal rows, a one-sided
    verdict = check_separability(X, y)
    assert verdict.kind == "quasi-separable" and not verdict.proof["complete"]
    assert verdict.separated_rows.size == 0 and "separated;" not in verdict.paper_sentence
    assert "too large for exact arithmetic (9,999 equations)" in verdict.paper_sentence
    with pytest.raises(InputError, match="not decided"):
        verdict.drop_separated(X)


def test_the_command_line_says_why(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(estimate_prover.EstimateProver, "_has_room", False)
    rows, y = undetermined()
    path = tmp_path / "t.csv"
    lines = [",".join(map(str, [*row, label])) for row, label in zip(rows, y, strict=True)]
    path.write_text("\n".join(["a,b,c,y", *lines]))
    ended = run(capsys, "check", path)
    assert f"undecided       {LATE}" in ended.out
    found = json.loads(run(capsys, "check", path, "--json").out)
    assert found["reason"] == LATE
    late = [e for e in found["estimates"] if e["estimate"] == "undecided"]
    assert late and all(e["reason"] == LATE for e in late)
