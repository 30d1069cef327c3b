"""Figure 4: its grid is run in pieces that resume, its images are pinned, its claims can fail."""

import csv
import importlib.util
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from momentron import max_margin  # noqa: E402
from momentron.errors import InputError  # noqa: E402
from momentron.ntk import EmpiricalNTK  # noqa: E402
from momentron.solvers import Adaptive  # noqa: E402
from paper import FIGURES, data, fig4, grid_measure, grid_report, runner  # noqa: E402
from paper.data import Sample  # noqa: E402
from paper.grid import (  # noqa: E402
    CELLS,
    CONVOLUTIONAL,
    DENSE,
    HE,
    TORCH,
    Cell,
    Course,
    Grid,
    Stage,
    Training,
)
from paper.networks import (  # noqa: E402
    Descent,
    alexnet,
    build,
)
from paper.runner import Measured  # noqa: E402
from tests.architectures import one_torch_thread  # noqa: E402, F401

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)
needs_cifar = pytest.mark.skipif(
    "MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set: no CIFAR-10 at hand"
)
PAGES = Path(__file__).parent.parent.parent / "docs" / "figures"
HE_CELL, TORCH_CELL = Cell(DENSE, True, 0.1, HE), Cell(CONVOLUTIONAL, False, 0.1, TORCH)


def stripes(n, n_test):
    """Ten kinds of stripes in noise, as images of CIFAR's shape."""
    rng = np.random.default_rng(0)
    y, y_test = np.arange(n) % 10, np.arange(n_test) % 10

    def draw(labels):
        waves = np.sin(np.arange(32.0) * (labels[:, None] + 1) / 3.0)
        images = waves[:, None, None, :] + 0.3 * rng.normal(size=(labels.size, 3, 32, 32))
        return images.reshape(labels.size, -1).astype(np.float32)

    return Sample(draw(y), y, draw(y_test), y_test, "stripes")


def small_figure():
    training = Training(images=16, batch_size=8, loss=2.25, max_epochs=3, stuck_epoch=3)
    grid = Grid(
        cells=(HE_CELL, TORCH_CELL),
        training=training,
        screen=Stage((1, 2), 10, 1),
        large=Stage((3,), 12, 1),
        wide=Stage((3,), 12, 2),
        mixed=1,
        least_fitted=1,
        course=Course(HE_CELL, 1, (0, 1), tests=10, iterations=30),
        checked=(),
    )
    return fig4.Figure4(stripes(40, 40), grid=grid, quick=False)


class Stop:
    """A watch that interrupts the run when a part is half done."""

    def __init__(self, part):
        self.part, self.calls = part, 0

    def __call__(self, part, share):
        self.calls += part == self.part
        if self.calls > 2:
            raise KeyboardInterrupt


@pytest.mark.slow
@needs_matplotlib
def test_a_killed_run_resumes_and_the_large_stage_follows_the_screen(tmp_path, monkeypatch):
    begun = []
    measure = grid_measure.measure_job

    def counted(pool, job, report):
        begun.append(job.name)
        return measure(pool, job, report)

    monkeypatch.setattr(grid_measure, "measure_job", counted)
    names = [part.name for part in small_figure().parts()]
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(small_figure(), tmp_path, watch=Stop(names[4]))
    next(tmp_path.glob("fig4/parts/seed-13579*")).unlink()
    assert begun == [*names[:2], names[4]]  # two networks, the seeds that are followed, a third
    assert names[2:4] == ["seed-100", "seed-13579"]
    shown = runner.reproduce(small_figure(), tmp_path, max_time=0.0)  # what is there, and no more
    assert shown.resumed == names[:3]
    assert "2 of 4 networks ran" in (shown.folder / "fig4.md").read_text()
    assert (shown.folder / "fig4.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(runner, "render", lambda draw: {})  # once is enough
    done = runner.reproduce(small_figure(), tmp_path)
    assert done.resumed == names[:3]
    assert begun[3:5] == names[4:]
    large = begun[5:]
    assert [name.split("width")[1] for name in large] == [
        "-1-tests-12-seed-3",
        "-2-tests-12-seed-3",
    ]
    assert large[0].startswith(HE_CELL.name)  # the only cell with a fitted network
    text = (done.folder / "fig4.md").read_text()
    assert "4 of 4 networks ran" in text
    assert "Unfitted, which the registered verdict leaves out" in text
    with (done.folder / "fig4.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["curve"] for row in rows} == {*names, *large}
    report = json.loads((done.folder / "claims.json").read_text())
    verdicts = [claim["verdict"] for claim in report["claims"]]
    assert verdicts[3:5] == ["not testable"] * 2
    assert [claim["holds"] for claim in report["claims"]][3:5] == [None, None]
    assert verdicts[6] == "undecided"
    again = runner.reproduce(small_figure(), tmp_path)
    assert len(again.resumed) == len(names) + len(large)
    assert len(begun) == 7


def test_too_little_for_a_picture_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "render", lambda draw: {})
    monkeypatch.setattr(runner, "require", lambda: None)
    with pytest.raises(InputError, match="0 of 6 parts are finished, too few for a picture"):
        runner.reproduce(small_figure(), tmp_path, max_time=0.0)


def test_an_interrupt_is_no_result(monkeypatch):
    def interrupt(self, problem, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(Adaptive, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small_figure().parts()[2].measure(lambda share: None)


def test_the_grid_is_the_registered_one():
    grid, text = Grid(), (PAGES / "fig4-grid.md").read_text()
    assert len(set(grid.cells)) == len({cell.name for cell in grid.cells}) == 16
    assert {cell.words.count("step 0.01") for cell in CELLS} == {0, 1}
    words = " ".join(text.split())
    t, large = grid.training, grid.large.seeds
    for phrase in (
        f"seeds {', '.join(map(str, grid.screen.seeds))} in all sixteen cells",
        f"on {grid.screen.tests:,} test images",
        f"seeds {large[0]} to {large[-1]}, on {grid.large.tests:,} test images",
        f"seeds {grid.wide.seeds[0]} to {grid.wide.seeds[-1]} in the same two cells at width 64",
        f"The seed draws {t.images} images",
        f"{t.batch_size} images per step",
        f"below {t.loss:g} at the end of an epoch",
        f"after {t.max_epochs:,} epochs",
        f"after {t.stuck_epoch} epochs if the cross entropy is still above {t.stuck_loss:g}",
        f"a gap of {grid.tol:.0e}".replace("e-04", "e-4"),
        f"is at most {grid.small:g}",
        "Holm at 5%",
        f"fewer than {grid.enough} fitted seeds each",
    ):
        assert phrase in words, phrase
    assert grid.level == 0.05
    assert len(large) == 60


# --- images ----------------------------------------------------------------------------------


def test_a_seed_draws_its_images():
    pool = stripes(200, 50)
    first, again, other = (data.draw(pool, seed, 20, 10) for seed in (5, 5, 6))
    assert first.fingerprint == again.fingerprint
    assert not np.array_equal(first.X, other.X)
    assert first.X.shape == (20, 3072)
    assert np.array_equal(first.y_test, pool.y_test[::5])
    assert len(np.unique(first.X, axis=0)) == 20


def test_images_are_scaled():
    bright = np.array([[0.0, 0.5, 1.0]], dtype=np.float32)
    pool = data.pool_of(bright, np.array([3]), bright, np.array([3]))
    assert np.array_equal(pool.X, [[-1.0, 0.0, 1.0]])
    assert pool.X.dtype == np.float32


@pytest.mark.slow
@needs_cifar
def test_one_batch_and_five_give_the_same_images(tmp_path, monkeypatch):
    source = Path(os.environ["MOMENTRON_DATA"]) / "cifar10"
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for path in source.glob("*_batch*"):
        if path.name.startswith(("data_batch_1", "test_batch")):
            (folder / path.name).symlink_to(path)
    monkeypatch.setenv("MOMENTRON_DATA", str(tmp_path))
    one = data.cifar_pool()
    for batch in range(2, 6):
        (folder / f"data_batch_{batch}.bin").write_bytes(bytes([batch]) * 3073 * 7)
    five = data.cifar_pool()
    assert one.fingerprint == five.fingerprint == data.PINNED
    assert one.X.shape == five.X.shape == (10_000, 3072)
    assert (one.X.min(), one.X.max()) == (-1.0, 1.0)
    next(folder.glob("data_batch_1*")).unlink()
    shutil.copy(folder / "data_batch_2.bin", folder / "data_batch_1.bin")
    with pytest.raises(InputError, match="is not the published file"):
        data.cifar_pool()


# --- networks --------------------------------------------------------------------------------


def test_cells_share_their_numbers():
    usual = alexnet(width=2, seed=3)
    same = build(Cell(DENSE, True, 0.1, TORCH), 2, 3)
    for old, new in zip(usual.parameters(), same.parameters(), strict=True):
        assert torch.equal(old, new)
    he = build(Cell(DENSE, True, 0.1, HE), 2, 3)
    for old, new in zip(usual.parameters(), he.parameters(), strict=True):
        assert torch.equal(new, torch.zeros_like(new) if new.ndim == 1 else 6.0**0.5 * old)
    bare = build(Cell(DENSE, False, 0.1, HE), 2, 3)
    assert [p.shape for p in bare.parameters()] == [p.shape for p in he.parameters() if p.ndim > 1]
    state = torch.random.get_rng_state()
    head = build(Cell(CONVOLUTIONAL, True, 0.1, TORCH), 2, 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert len(list(head.parameters())) == 12  # five convolutions and one linear map
    assert torch.equal(head[0].weight, usual[0].weight)
    assert head[-1].weight.shape == (10, 8)
    assert head[-1].weight.abs().max() <= 8**-0.5


def test_training_ends_where_it_should():
    sample = stripes(16, 10)
    X, y = torch.as_tensor(sample.X), torch.as_tensor(sample.y)

    def train(step, **settings):
        model = torch.nn.Sequential(torch.nn.Linear(3072, 10))
        torch.nn.init.zeros_(model[0].weight)
        torch.nn.init.zeros_(model[0].bias)
        descent = Descent(model, X, y, step=step, settings=Training(**settings), seed=0)
        return descent, descent.until(50, lambda share: None)

    descent, fitted = train(0.003, loss=0.1, max_epochs=50)
    assert fitted.fitted
    assert fitted.loss < 0.1
    assert fitted.epochs < 50
    descent.further(2, lambda share: None)
    assert descent.epochs == fitted.epochs + 2
    assert descent.loss < fitted.loss
    _, stuck = train(1e-9, stuck_epoch=4, max_epochs=9)
    assert (stuck.epochs, stuck.fitted, stuck.is_finite) == (4, False, True)
    _, slow = train(1e-9, stuck_epoch=4, stuck_loss=3.0, max_epochs=9)
    assert (slow.epochs, slow.fitted) == (9, False)
    _, late = train(1e-9, stuck_epoch=0, max_epochs=9)  # still above it later, but not there
    assert (late.epochs, late.fitted) == (9, False)
    _, astray = train(1e38, max_epochs=9)
    assert not astray.is_finite
    assert not astray.fitted
    descent, more = train(1e-9, max_epochs=100)
    assert more is None
    assert descent.epochs == 50


def test_a_network_that_went_astray_has_no_last_kernel():
    figure = small_figure()
    job = figure._screen()[0]
    wild = replace(job, cell=replace(job.cell, step=1e30))
    measured = grid_measure.measure_job(figure.sample, wild, lambda share: None)
    assert measured.facts["loss"] is None
    assert not measured.facts["fitted"]
    assert measured.columns["iteration"].tolist() == [0]
    json.dumps(measured.facts, allow_nan=False)


def test_the_pair_reading_is_a_linear_problem_for_a_linear_network():
    """⟨U, x(e_c − e_j)ᵀ⟩: the margin of many classes, each row over √10 times its length."""
    sample = stripes(20, 30)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10, bias=False)).double()
    ntk = EmpiricalNTK(model, input_shape=data.IMAGE, normalize=True)
    lower, upper, wrong = grid_measure.pair_reading(ntk, sample, 1e-6)
    X = sample.X.astype(np.float64)
    X /= np.sqrt(10.0) * np.linalg.norm(X, axis=1, keepdims=True)
    best = max_margin(X, sample.y, fit_intercept=False, tol=1e-6)
    assert lower <= best.upper * (1.0 + 1e-6)
    assert best.lower <= upper * (1.0 + 1e-6)
    assert lower == pytest.approx(best.lower, rel=1e-5)
    expected = (sample.X_test @ best.coef.T).argmax(axis=1) != sample.y_test
    assert np.mean(wrong != expected) <= 0.1  # both within the tolerance of the same direction


def test_an_image_without_features_is_no_error():
    """A network whose units are all dead on an image: nothing separates, and nothing fails."""
    sample = stripes(20, 30)
    sample.X[3] = 0.0
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10, bias=False))
    look = grid_measure.take_look(model, sample, 1e-4, lambda share: None)
    pair = grid_measure.pair_reading(look.ntk, sample, 1e-4)
    assert look.best.lower == pair.lower == 0.0
    assert look.wrong.shape == pair.wrong.shape == (30,)


def test_a_kernel_that_rounding_spoiled_is_mended():
    kernel = np.ones((4, 4)) + 1e-6 * np.diag([1.0, -1.0, 1.0, -1.0])
    kernel[:2, 2:] = kernel[2:, :2] = -1.0
    y = np.array([0, 0, 1, 1])
    with pytest.raises(InputError, match="not positive semidefinite"):
        max_margin(kernel, y, kernel="precomputed", fit_intercept=False)
    assert grid_measure.best_predictor(kernel, y, 1e-4).lower == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(InputError):
        grid_measure.best_predictor(-kernel, y, 1e-4)


# --- claims ----------------------------------------------------------------------------------


def looks_of(kernel, network, aligned=0.9995, lower=0.995):
    """A seed with three looks of two iterations each."""
    return {
        "iteration": np.array([1, 9] * 3),
        "epoch": np.repeat([0, 5, 10], 2),
        "test_error": np.array([0.9, 0.8, 0.9, 0.75, 0.9, kernel]),
        "best_error": np.full(6, kernel),
        "network_error": np.repeat([0.9, 0.8, network], 2),
        "train_error": np.repeat([0.9, 0.0, 0.0], 2),
        "lower": np.full(6, lower),
        "best_upper": np.ones(6),
        "alignment_last": np.repeat([0.5, aligned, 1.0], 2),
    }


def test_the_last_iteration_of_each_look_counts():
    looks = grid_report.by_epoch(looks_of(0.7, 0.71))
    assert looks["epoch"].tolist() == [0, 5, 10]
    assert looks["test_error"].tolist() == [0.8, 0.75, 0.7]


def test_claims_about_training_can_fail():
    def converged(aligned, fitted=True):
        facts = {"fitted": fitted, "epochs": 5}
        return grid_report.converged({7: Measured(looks_of(0.7, 0.7, aligned), facts)}, []).holds

    assert converged(0.9995)
    assert not converged(0.9985)
    assert not converged(0.9995, fitted=False)

    def looks(*numbers):
        return {7: grid_report.by_epoch(looks_of(*numbers))}

    assert grid_report.identical(looks(0.725, 0.72), []).holds
    assert not grid_report.identical(looks(0.735, 0.72), []).holds
    assert grid_report.margins_found(looks(0.7, 0.7)).holds
    assert not grid_report.margins_found(looks(0.7, 0.7, 0.9995, 0.98)).holds


def test_an_intermediate_kernel_can_be_the_best_or_not():
    def claim(*leads, epoch=5):
        checked = {}
        for seed, lead in enumerate(leads):
            looks = grid_report.by_epoch(looks_of(0.7, 0.7))
            checked[seed] = looks | {"best_error": np.array([0.8, 0.7 + lead, 0.7])}
        return grid_report.intermediate_best({100: checked[0]}, checked, epoch)

    best = claim(-0.02, -0.021, -0.019)
    assert best.verdict == "found"
    assert best.measured["mean of the others:"].startswith("−2.00 (")
    assert best.measured["seed 100:"] == "−2.00 points"
    assert claim(0.02, 0.021, 0.019).verdict == "not found"
    assert claim(-0.02, 0.01).verdict == claim(-0.02).verdict == "undecided"
    assert claim(-0.02, -0.02, epoch=10).verdict == "undecided"  # the last one is no intermediate


def test_followed_seeds_are_shown_look_by_look():
    looks = {7: grid_report.by_epoch(looks_of(0.7, 0.71))}
    looks[8] = {name: column[:2] for name, column in looks[7].items()}
    text = grid_report.followed_details(looks)
    assert "| 7 | 0: 70.0%, 90.0% | 5: 70.0%, 80.0% | 10: 70.0%, 71.0% |" in text
    assert "| 8 | 0: 70.0%, 90.0% | 5: 70.0%, 80.0% | – |" in text


def test_followed_seeds_are_looked_at_twice_after_the_end():
    figure = small_figure()
    measured = grid_measure.follow(
        figure.sample, figure.grid.course, figure.grid.training, 100, lambda share: None
    )
    epochs = np.unique(measured.columns["epoch"])
    assert epochs[0] == 0
    if measured.facts["fitted"]:
        assert epochs[-1] == 2 * measured.facts["epochs"]
    assert measured.columns["iteration"].max() == 30
    looks = grid_report.by_epoch(measured.columns)
    assert measured.facts["last"] == looks["test_error"][-1]
    assert measured.facts["first"] == looks["test_error"][0]


def test_no_torch_is_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"fig4 needs torch: pip install \"momentron\[ntk\]\""):
        FIGURES["fig4"](True)


@pytest.mark.slow
@needs_cifar
def test_the_whole_figure_is_the_paper_s_problem():
    figure = FIGURES["fig4"](False)
    assert figure.sample.X.shape == (10_000, 3072)
    assert figure.sample.y_test.size == 10_000
    assert tuple(fig4.SAID) == (100, 13579)
    assert figure.grid.course.tests == 10_000
    assert figure.grid.large.seeds == tuple(range(301, 361))
    assert figure.grid == Grid()


# the network


def test_alexnet_depends_on_its_seed_alone():
    state = torch.get_rng_state()
    first, again, other = alexnet(width=2), alexnet(width=2), alexnet(width=2, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert all(
        torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True)
    )
    assert not torch.equal(first[0].weight, other[0].weight)
    assert first(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert all(p.abs().max() <= 1.0 for p in first.parameters())
    with pytest.raises(InputError, match="width=0"):
        alexnet(width=0)


def test_alexnet_has_the_size_that_is_written():
    assert sum(p.numel() for p in alexnet().parameters()) == 20_344_650
    assert "20,344,650" in alexnet.__doc__
