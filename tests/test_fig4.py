"""Figure 4: it is written, it resumes, and its claims can fail."""

import csv
import importlib.util
import json
import os
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from momentron.errors import InputError  # noqa: E402
from momentron.experiments import FIGURES, fig4, kernel_claims, runner  # noqa: E402
from momentron.experiments.figure import Measured  # noqa: E402
from momentron.experiments.sample import Sample  # noqa: E402
from momentron.ntk import alexnet  # noqa: E402
from momentron.solvers import Adaptive  # noqa: E402

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)
needs_cifar = pytest.mark.skipif(
    "MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set: no CIFAR-10 at hand"
)


def noise_images(n, n_test):
    """Two kinds of stripes in noise, as images of CIFAR's shape."""
    rng = np.random.default_rng(0)
    y, y_test = np.arange(n) % 10, np.arange(n_test) % 10

    def draw(labels):
        waves = np.sin(np.arange(32.0) * (labels[:, None] + 1) / 3.0)
        images = waves[:, None, None, :] + 0.3 * rng.normal(size=(labels.size, 3, 32, 32))
        return images.reshape(labels.size, -1).astype(np.float32)

    return Sample(draw(y), y, draw(y_test), y_test, "stripes")


def small_figure(**options):
    setting = fig4.Setting(width=1, epochs=(0, 1, 3), few=10, tol=0.3, max_iter=300)
    return fig4.Figure4(
        noise_images(20, 16), setting=setting, more=(1, 100, 1), quick=True, **options
    )


@needs_matplotlib
def test_figure_4_is_written_and_resumes(tmp_path, monkeypatch):
    done = runner.reproduce(small_figure(), tmp_path)
    report = json.loads((done.folder / "claims.json").read_text())
    assert len(report["claims"]) == 8
    assert report["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert (done.folder / "fig4.png").read_bytes().startswith(b"\x89PNG")
    with (done.folder / "fig4.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["curve"] for row in rows] == ["seed-100"] * 3 + ["seed-13579"] * 3 + ["seed-1"] * 2
    assert [int(row["iteration"]) for row in rows] == [0, 1, 3, 0, 1, 3, 0, 3]
    same = report["claims"][1]["measured"]
    assert same["seed 100, kernel"] == float(rows[2]["kernel_error"])
    assert same["seed 100, network"] == float(rows[2]["network_error"])
    assert float(rows[0]["lower"]) <= float(rows[0]["best_upper"])
    text = (done.folder / "fig4.csv").read_bytes()
    next(done.folder.glob("parts/seed-13579-*")).unlink()
    monkeypatch.setattr(runner.style, "render", lambda draw: {})
    again = runner.reproduce(small_figure(), tmp_path)
    assert again.resumed == ["seed-100", "seed-1"]
    assert (again.folder / "fig4.csv").read_bytes() == text
    more = small_figure(seeds=(100,))
    assert [part.name for part in more.parts()] == ["seed-100", "seed-1"]


def test_an_interrupt_is_no_result(monkeypatch):
    def interrupt(self, problem, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(Adaptive, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small_figure().parts()[0].measure(lambda share: None)


def test_he_weights():
    usual, ours = alexnet(width=2, seed=3), fig4.he_alexnet(2, 3)
    for old, new in zip(usual.parameters(), ours.parameters(), strict=True):
        if new.ndim == 1:
            assert not new.any()
        else:
            bound = (6.0 / new[0].numel()) ** 0.5
            assert new.abs().max() <= bound * (1.0 + 1e-6)
            assert torch.allclose(new, 6.0**0.5 * old)


def seeds_with(*pairs):
    """Seeds on 1,000 images, from how many just the first and just the last kernel gets wrong."""
    every = {}
    for seed, (only_first, only_last) in enumerate(pairs):
        first, last = np.zeros((2, 1000), dtype=bool)
        first[:only_first], last[500 : 500 + only_last] = True, True
        columns = {
            "iteration": np.array([0, 5, 9]),
            "train_error": np.array([0.9, 0.1, 0.0]),
            "alignment_last": np.array([0.5, 0.9995, 1.0]),
            "best_lower": np.array([0.1, 0.2, 0.3]),
            "best_upper": np.array([0.1, 0.2, 0.3]),
        }
        every[seed] = Measured(columns, kernel_claims.comparison(first, last))
    return every


def test_preferences_are_judged_by_their_noise():
    facts = seeds_with((60, 40))[0].facts
    assert facts["difference"] == pytest.approx(-0.02)
    assert facts["standard error"] == pytest.approx(0.01)
    assert facts["beyond doubt"]
    assert not seeds_with((59, 41))[0].facts["beyond doubt"]
    assert kernel_claims.switches(seeds_with((60, 40), (30, 70))).holds
    doubtful = kernel_claims.switches(seeds_with((60, 40), (49, 51), (50, 50)))
    assert not doubtful.holds
    assert doubtful.measured["undecided"] == 2
    assert doubtful.measured["initial kernel better"] == 1
    assert kernel_claims.preference("", "", facts, final=True).holds
    assert not kernel_claims.preference("", "", facts, final=False).holds
    assert kernel_claims.errors_improve(seeds_with((2, 1), (2, 1), (1, 2))).holds
    assert not kernel_claims.errors_improve(seeds_with((2, 1), (1, 2))).holds


def test_claims_about_training_can_fail():
    every = seeds_with((1, 2), (2, 1))
    assert kernel_claims.converged(every).holds
    assert kernel_claims.margins_improve(every).holds
    every[1].columns["alignment_last"][1] = 0.998
    assert not kernel_claims.converged(every).holds
    every = seeds_with((1, 2), (2, 1))
    every[0].columns["train_error"][-1] = 0.01
    assert not kernel_claims.converged(every).holds
    every[0].columns["best_lower"][-1] = 0.05
    assert not kernel_claims.margins_improve(every).holds


def test_kernel_and_network_must_be_close():
    def ends(kernel, network):
        columns = {
            "kernel_error": np.array([0.9, kernel]),
            "network_error": np.array([0.9, network]),
        }
        fit = {"lower": np.array([0.96, 0.99]), "best_upper": np.ones(2)}
        return {7: columns | fit | {"best_error": np.array([0.9, kernel])}}

    assert kernel_claims.identical(ends(0.725, 0.72)).holds
    assert not kernel_claims.identical(ends(0.735, 0.72)).holds
    assert kernel_claims.margins_found(ends(0.7, 0.7), 0.05).holds
    assert not kernel_claims.margins_found(ends(0.7, 0.7), 0.03).holds


def test_no_torch_is_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"fig4 needs torch: pip install \"momentron\[ntk\]\""):
        FIGURES["fig4"](True)


@needs_cifar
def test_the_whole_figure_is_the_paper_s_problem():
    figure = FIGURES["fig4"](False)
    assert figure.sample.X.shape == (128, 3072)
    assert figure.sample.y_test.size == 10_000
    assert np.unique(figure.sample.y).size == 10
    assert figure.seeds == (100, 13579)
    assert len(figure.seeds) + len(figure.more) >= 10
    assert len(figure.setting.epochs) >= 10
    channels = figure.sample.X.reshape(128, 3, -1).swapaxes(0, 1).reshape(3, -1)
    assert channels.mean(axis=1) == pytest.approx(0.0, abs=1e-3)
    assert channels.std(axis=1) == pytest.approx(1.0, abs=1e-3)


@needs_cifar
@needs_matplotlib
def test_figure_4_on_cifar(tmp_path):
    done = runner.reproduce(fig4.Figure4.from_cifar(True), tmp_path)
    claims = {claim.claim: claim for claim in done.claims}
    (found,) = (c for text, c in claims.items() if text.startswith("Algorithm 2"))
    assert found.holds
    (counts,) = (c for text, c in claims.items() if text.startswith("Changing the random seed"))
    assert counts.measured["seeds"] == 3
