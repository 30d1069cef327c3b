"""`python -m paper rates`: exponents, confidence intervals, and verdicts that follow."""

import dataclasses
import importlib.util
import json
import math
import os

import numpy as np
import pytest
from scipy import stats

from momentron.datasets import load
from momentron.solvers import Adaptive
from momentron.solvers.loop import solve
from momentron.solvers.problem import Problem
from momentron.solvers.solver import RunOptions
from paper import FIGURES, Rates, runner
from paper.data import Placed, Rows, Sample
from paper.judge import (
    Estimate,
    all_below,
    all_within,
    below,
    decade_exponent,
    estimate,
    finding,
    near,
    settled,
)
from paper.rates import (
    FURTHER,
    METHODS,
    SAMPLED,
    SCALED,
    THEORY,
    Scale,
    measure_distances,
    part_name,
)
from paper.runner import Measured

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)
needs_mnist = pytest.mark.skipif(
    "MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set: no MNIST at hand"
)
SCALE, FAR = Scale(2, 120, (30, 120)), Scale(2, 200)


def digits():
    data = load("digits", classes=(0, 1))
    return Sample(data.X, data.y, data.X[:0], data.y[:0], "digits 0/1, some")


def small_figure(quick=False):
    sample = digits()
    placed = [Placed(20, 0.3), Placed(40, 0.3), Placed(40, 0.2)]
    sources = [*placed, Rows(sample, "digits 0/1", 60)]
    return Rates(sample, sources, SCALE, FAR, quick=quick)


def powers(exponents, last=1000):
    """Distances that fall with these exponents, one per seed."""
    t = np.arange(1, last + 1)
    curves = {f"seed_{seed}": 3.0 * t**each for seed, each in enumerate(exponents)}
    return Measured({"iteration": t, **curves}, {SCALED: 0.2})


# --- estimates -----------------------------------------------------------------------------------


def test_intervals_are_student_s():
    values = np.array([0.3, 0.1, 0.7, 0.2, 0.5])
    found = estimate(values)
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected)
    together = estimate(values, shared_by=10)
    assert (together.low, together.high) == pytest.approx(
        stats.t.interval(0.995, 4, values.mean(), stats.sem(values))
    )
    widened = estimate(values, overlap=0.3)
    assert widened.high - widened.mean == pytest.approx(
        (found.high - found.mean) * math.sqrt((0.2 + 0.3) / 0.2)
    )


def test_one_value_has_no_interval():
    found = estimate(np.array([2.0]))
    assert (found.mean, found.low, found.high) == (2.0, -math.inf, math.inf)
    assert all_below([found], 1e9) is None


def test_intervals_hold_the_mean_as_often_as_they_say():
    draws = np.random.default_rng(0).standard_normal((2000, 6))
    inside = sum(e.low < 0.0 < e.high for e in map(estimate, draws))
    assert 0.93 < inside / 2000 < 0.97


def test_three_verdicts():
    low, across, high = Estimate(1, 0.9, 1.1), Estimate(2, 1.5, 2.5), Estimate(3, 2.9, 3.1)
    assert all_below([low, low], 2.0) is True
    assert all_below([low, across], 2.0) is None
    assert all_below([across, high], 2.0) is False
    assert all_within([low], 0.8, 1.2) is True
    assert all_within([low, across], 0.8, 2.0) is None
    assert all_within([low, high], 0.8, 2.0) is False
    unknown = Estimate(math.nan, math.nan, math.nan)
    assert all_below([low, unknown], 2.0) is None
    assert all_within([low, unknown], 0.8, 1.2) is None


def test_slopes():
    t = np.arange(1.0, 2001.0)
    assert decade_exponent(t, 7.0 * t**-1.5, 2000) == pytest.approx(-1.5)
    bent = np.where(t < 200, t**-1.0, 200.0 * t**-2.0)
    assert decade_exponent(t, bent, 2000) == pytest.approx(-2.0)
    assert decade_exponent(t, bent, 200) == pytest.approx(-1.0, abs=0.01)
    assert math.isnan(decade_exponent(np.array([1.0]), np.array([1.0]), 1.0))
    assert math.isnan(decade_exponent(t, -t, 2000))  # a distance below zero has no logarithm


# --- findings ------------------------------------------------------------------------------------


def test_statements_can_be_found_and_not_found():
    steep = {"a": np.array([-2.0, -2.01, -1.99]), "b": np.array([-1.98, -2.0, -2.03])}
    flat = {**steep, "b": np.array([-0.2, -0.21, -0.19])}
    noisy = {**steep, "b": np.array([-3.0, 0.5, -1.0])}
    for table, verdict in ((steep, "found"), (flat, "not found"), (noisy, "undecided")):
        assert below("", table, -0.5).verdict == verdict
        assert near("", table, -2.0).verdict == verdict
    assert settled(steep["a"], steep["b"], 100).verdict == "found"
    assert settled(steep["a"], flat["b"], 100).verdict == "not found"
    assert settled(steep["a"], noisy["b"], 100).verdict == "undecided"


def test_findings_have_words_of_their_own():
    words = {True: "found", False: "not found", None: "undecided"}
    for holds, word in words.items():
        claim = finding("", "", {}, holds)
        assert claim.verdict == claim.to_dict()["verdict"] == word
        assert claim.to_dict()["holds"] is holds


def test_the_findings_follow_from_the_curves():
    figure = small_figure()
    shapes = dict(zip((m.name for m in METHODS), (-2.0, -1.0, -0.75, -2.0), strict=True))
    measured = {
        part_name(source, method): powers([shapes[method.name]] * 3, 120)
        for source in figure.sources
        for method in METHODS
    }
    figure.scale = dataclasses.replace(SCALE, seeds=3)
    measured[FURTHER] = powers([-2.0, -2.0], 200)
    assert [claim.verdict for claim in figure.claims(measured)] == ["found"] * 9
    slow = {name: powers([-0.4] * 3, 120) for name in measured if name != FURTHER}
    verdicts = [f.verdict for f in figure.claims({**slow, FURTHER: measured[FURTHER]})]
    assert verdicts[:5] == ["not found"] * 5
    tenfold = measured | {
        part_name(source, SAMPLED): powers([-math.log10(source.n)] * 3, 120)
        for source in figure.sources
    }
    depends = next(f for f in figure.claims(tenfold) if "depends neither" in f.claim)
    assert depends.verdict == "not found"
    assert depends.measured["change when n grows tenfold:"].startswith("−1.00")


# --- measuring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Placed(30, 0.25), Rows(digits(), "digits", 50)])
def test_sources_know_their_best_margin(source):
    drawn = source.draw(3)
    best = Problem.from_data(drawn.X, drawn.y, fit_intercept=False)
    assert drawn.y.size == source.n
    outcome = solve(best, Adaptive(), RunOptions(1e-3, 20_000, random_state=0))
    assert outcome.certificate.lower <= drawn.best * (1 + 1e-9)
    assert outcome.certificate.upper >= drawn.best * (1 - 1e-9)
    assert drawn.width <= 1e-9 * drawn.best
    again, other = source.draw(3), source.draw(4)
    assert np.array_equal(again.X, drawn.X)
    assert not np.array_equal(other.X, drawn.X)


def test_the_theorem_s_runs_are_the_solver_s_own():
    source = Placed(20, 0.3)
    columns = measure_distances(source, THEORY, SCALE, lambda share: None).columns
    assert columns["iteration"].tolist() == [30, 120]
    drawn = source.draw(1)
    own = Adaptive("theory", n_steps=120)
    outcome = solve(drawn.problem(), own, RunOptions(0.0, 120, random_state=1))
    margin = outcome.trace.to_dict()["margin"][-1]
    assert columns["seed_1"][-1] == pytest.approx(1.0 - margin / 0.3, rel=1e-12)


@pytest.mark.slow
@needs_matplotlib
def test_a_run_is_written_and_resumed(tmp_path, monkeypatch):
    done = runner.reproduce(small_figure(), tmp_path)
    assert (done.folder / "rates.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((done.folder / "claims.json").read_text())
    assert {claim["verdict"] for claim in report["claims"]} <= {"found", "not found", "undecided"}
    text = (done.folder / "rates.md").read_text()
    assert all(f"| {claim.verdict} |" in text.replace("**", "") for claim in done.claims)
    monkeypatch.setattr(runner, "render", lambda draw: {})
    for file in (done.folder / "parts").glob("n20-*"):
        file.unlink()
    again = runner.reproduce(small_figure(), tmp_path)
    assert len(again.resumed) == len(small_figure().parts()) - 4
    assert [c.measured for c in again.claims] == [c.measured for c in done.claims]
    quick = runner.reproduce(small_figure(quick=True), tmp_path)
    assert {claim.verdict for claim in quick.claims} == {"not judged"}
    counted = "0 of 9 claims are confirmed; 9 not judged: this run is too small"
    assert counted in (quick.folder / "rates.md").read_text()


@needs_mnist
def test_the_page_says_what_was_cut():
    text = Rates.from_mnist(False).about()
    assert "5 of the 9 pairs" in text
    assert "were set after trial runs" in text


def test_rates_is_a_command():
    assert FIGURES["rates"] == Rates.from_mnist
