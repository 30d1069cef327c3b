"""The race on data larger than memory, and the model of how far it scales."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.out_of_core import Case, write_case
from benchmarks.scaling_model import Drawn, Fit, Model, fitted, measure_fit, simulate
from momentron import max_margin


def test_benchmark_case_has_its_margin(tmp_path):
    case = Case.named(tmp_path, "small")
    write_case(case, 20_000, 160, separable=True)
    result = max_margin(case.rows, str(case.labels), tol=1e-6)
    assert result.lower == pytest.approx(0.1, rel=1e-5)
    write_case(case, 20_000, 160, separable=False)
    twin = max_margin(case.rows, str(case.labels), tol=1e-4)
    assert twin.status.name == "NOT_SEPARABLE"
    assert twin.upper < 1e-11


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own count")
def test_benchmark_reports_memory_and_throughput(tmp_path):
    case = Case.named(tmp_path, "small")
    write_case(case, 5_000, 160, separable=True)
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--worker"]
    found = subprocess.run(
        [*command, case.rows, case.labels], check=True, capture_output=True, text=True
    )
    report = json.loads(found.stdout.splitlines()[-1])
    assert report["status"] == "OPTIMAL"
    assert report["gap"] <= 1e-4
    assert report["passes"] <= 25
    assert 0.0 <= report["memory beyond imports, MB"] < 300.0


def test_drawn_rows_are_the_same_every_time_and_have_their_margin():
    fit = measure_fit(4000, 8)
    assert fit.gap <= 1e-4
    source = Drawn(4000, 8, block=1000)
    X, y = source.block(2)
    again, labels = source.block(2)
    assert np.array_equal(X, again)
    assert np.array_equal(y, labels)
    margins = y * (X @ source.made.coef + source.made.intercept)
    assert margins.min() == pytest.approx(0.1, rel=1e-5)


def test_model_recovers_its_coefficients():
    truth = Model(rate=1e9, linear=1e-3, cubic=1e-8, level=2.0, slope=0.5)
    sizes = [(10**4, 50), (10**5, 50), (10**6, 100), (10**5, 200), (10**7, 400)]
    fits = []
    for n, d in sizes:
        passes = truth.passes(n, d)
        rounds = passes - 1.0
        fits.append(Fit(n, d, passes, rounds, 0.0, truth.solving(n, d), 0.0))
    found = fitted(fits, 1e9)
    for name in ("linear", "cubic", "level", "slope"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=1e-6)
    one, many = truth.seconds(10**9, 1000, 1), truth.seconds(10**9, 1000, 16)
    assert one / 17.0 < many < one
    # the simulation with workers that differ little brackets the model
    simulated = [simulate(truth, 10**9, 1000, 16, seed) for seed in range(5)]
    assert many * 0.8 < np.mean(simulated) < many * 1.5
    assert math.isclose(simulated[0], simulate(truth, 10**9, 1000, 16, 0))
