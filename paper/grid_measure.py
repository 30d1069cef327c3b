"""The kernels of one network of figure 4, and where their predictors are wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from momentron.api import max_margin
from momentron.errors import InputError
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.results import block_matrix
from momentron.ntk.spectra import kernel_alignment
from momentron.ntk.tracker import predict
from momentron.result import MarginResult
from momentron.solvers.base import Candidates
from momentron.solvers.problem import KernelChoice, Problem
from momentron.views.progress import part_of
from paper.curves import log_spaced, record
from paper.data import IMAGE, Sample, draw, require_end
from paper.figure import Measured, Report
from paper.grid import Course, Job, Training
from paper.grid_report import comparison
from paper.grid_statistics import PAIRS, TRACED, packed
from paper.networks import Descent, Trained, build
from paper.tangent import Seeded

MEMORY = "2GB"
RIDGE = 1e-6  # times the diagonal
CHUNK = 500  # test images that pass the network at once
TRAINING = 0.5  # share of the work between the two looks, roughly


@dataclass(frozen=True)
class Look:
    """The kernel of a network at one epoch, and what its predictors make of the test images.

    Attributes
    ----------
    kernel : ndarray of shape (n, n)
        Traced over outputs, normalised.
    lower, upper : float
        Certified bounds of the best margin in it.
    wrong : ndarray of bool
        Test images that the maximum-margin predictor gets wrong.
    pair_lower, pair_upper, pair_wrong
        The same of the other reading, in which a row is the feature ∇(A_c − A_j)(x) itself.
    network_wrong : ndarray of bool
    """

    kernel: np.ndarray
    lower: float
    upper: float
    wrong: np.ndarray
    pair_lower: float
    pair_upper: float
    pair_wrong: np.ndarray
    network_wrong: np.ndarray


def measure_job(pool: Sample, job: Job, report: Report) -> Measured:
    """Draw the images, build and train the network, and look at its kernel before and after."""
    start = time.perf_counter()
    sample = draw(pool, job.seed, job.training.images, job.tests)
    model = build(job.cell, job.width, job.seed)
    y = torch.as_tensor(sample.y)
    images = torch.as_tensor(sample.X).reshape(-1, *IMAGE)
    edge = (1.0 - TRAINING) / 2.0
    looks = [take_look(model, sample, job.tol, part_of(report, 0.0, edge))]
    descent = Descent(model, images, y, step=job.cell.step, settings=job.training, seed=job.seed)
    trained = descent.until(job.training.max_epochs, part_of(report, edge, edge + TRAINING))
    assert trained is not None  # max_epochs ends it at the latest
    if trained.is_finite:
        looks.append(take_look(model, sample, job.tol, part_of(report, edge + TRAINING, 1.0)))
    return Measured(*_outcome(looks, trained, time.perf_counter() - start))


def take_look(model: nn.Module, sample: Sample, tol: float, report: Report) -> Look:
    """Both kernels of the network as it is, their predictors, and their errors."""
    ntk = EmpiricalNTK(model, input_shape=IMAGE, normalize=True, max_memory=MEMORY)
    kernel = ntk(sample.X)
    best = best_predictor(kernel, sample.y, tol)
    cross = ntk(sample.X_test, sample.X, progress=part_of(report, 0.0, 0.7))
    lower, upper, pair_wrong = pair_reading(ntk, sample, tol)
    report(1.0)
    return Look(
        kernel,
        best.lower,
        best.upper,
        predict(best, cross) != sample.y_test,
        lower,
        upper,
        pair_wrong,
        network_answers(model, sample.X_test) != sample.y_test,
    )


def best_predictor(kernel: np.ndarray, y: np.ndarray, tol: float) -> MarginResult:
    """The maximum-margin predictor in a kernel, certified.

    Networks compute in single precision: where that leaves a kernel that is not semidefinite, a
    little of its diagonal is added.
    """

    def fit(values: np.ndarray) -> MarginResult:
        return max_margin(values, y, kernel="precomputed", fit_intercept=False, tol=tol)

    try:
        best = fit(kernel)
    except InputError:
        best = fit(kernel + RIDGE * np.diag(np.diag(kernel)))
    require_end(best.status)
    return best


def pair_reading(ntk: EmpiricalNTK, sample: Sample, tol: float) -> tuple[float, float, np.ndarray]:
    """The best margin on the rows ∇(A_c − A_j)(x), and where its direction errs on test images.

    A direction θ classifies x by the largest ⟨θ, ∇A_o(x)⟩. It is kept as a combination of the
    training rows, and never written out.
    """
    kernel = block_matrix(ntk.pairs(sample.X, sample.y))
    # all rows have to be on one side; a problem needs two classes, so every other one is mirrored
    signs = np.where(np.arange(len(kernel)) % 2 == 0, 1, -1)
    kernel *= np.outer(signs, signs)
    best = best_predictor(kernel, signs, tol)
    n, rows = len(sample.y), np.arange(len(sample.y))
    combination = (np.ravel(best.coef) * signs).reshape(n, -1)
    lengths = np.sqrt(ntk.diagonal(sample.X, normalize=False))
    # an image on which every unit is dead has no features, as in the kernel
    combination *= np.divide(1.0, lengths, out=np.zeros(n), where=lengths > 0.0)[:, None]
    weights = np.zeros((n, combination.shape[1] + 1))
    is_wrong = np.ones(weights.shape, bool)
    is_wrong[rows, sample.y] = False
    weights[is_wrong] = -combination.ravel()
    weights[rows, sample.y] = combination.sum(axis=1)
    scores = ntk.jvp(sample.X_test, ntk.vjp(sample.X, weights))
    return best.lower, best.upper, scores.argmax(axis=1) != sample.y_test


def network_answers(model: nn.Module, X: np.ndarray) -> np.ndarray:
    """The network's own labels."""
    with torch.no_grad():
        chunks = torch.as_tensor(X).reshape(-1, *IMAGE).split(CHUNK)
        return torch.cat([model(chunk).argmax(dim=1) for chunk in chunks]).numpy()


def _outcome(
    looks: list[Look], trained: Trained, seconds: float
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Columns with one row per look, and facts that hold every answer on the test images."""
    names = ("lower", "upper", "pair_lower", "pair_upper")
    columns = {"iteration": np.array([0, trained.epochs][: len(looks)])}
    columns |= {name: np.array([getattr(look, name) for look in looks]) for name in names}
    for column, answers in ERRORS.items():
        columns[column] = np.array([getattr(look, answers).mean() for look in looks])
    aligned = [kernel_alignment(look.kernel, looks[0].kernel) for look in looks]
    columns["alignment_first"] = np.array(aligned)
    facts: dict[str, Any] = {
        "fitted": trained.fitted,
        "epochs": trained.epochs,
        "loss": trained.loss if math.isfinite(trained.loss) else None,
        "tests": int(looks[0].wrong.size),
        "seconds": round(seconds, 2),
    }
    for answers in ERRORS.values():
        facts[answers] = [packed(getattr(look, answers)) for look in looks]
    return columns, facts


ERRORS = {
    "kernel_error": TRACED,
    "pair_error": PAIRS,
    "network_error": "network_wrong",
}
"""Column → the answers behind it."""


REPEATED = ("best_lower", "best_upper", "best_error", "network_error", "train_error")


@dataclass(frozen=True)
class Sight:
    """One look: the kernel, Algorithm 2's curve, the best predictor, and the network."""

    epoch: int
    kernel: np.ndarray
    curve: Mapping[str, np.ndarray]
    numbers: Mapping[str, float]
    wrong: np.ndarray


def follow(pool: Sample, course: Course, training: Training, seed: int, report: Report) -> Measured:
    """Train the network of a seed, and look at its kernel on the way."""
    sample = draw(pool, seed, training.images, course.tests)
    model = build(course.cell, course.width, seed)
    images = torch.as_tensor(sample.X).reshape(-1, *IMAGE)
    descent = Descent(
        model,
        images,
        torch.as_tensor(sample.y),
        step=course.cell.step,
        settings=training,
        seed=seed,
    )
    count = len(course.epochs) + 2
    parts = [part_of(report, i / count, (i + 1) / count) for i in range(count)]
    sights, trained = [], None
    for epoch, tell in zip((*course.epochs, training.max_epochs), parts, strict=False):
        trained = descent.until(epoch, _silent)
        if trained is not None and not trained.is_finite:
            break
        sights.append(_see(model, sample, course, descent.epochs, tell))
        if trained is not None:
            break
    assert trained is not None  # max_epochs ends it at the latest
    if trained.fitted:
        descent.further(trained.epochs, _silent)
        sights.append(_see(model, sample, course, descent.epochs, parts[-1]))
    return Measured(_columns(sights), _facts(sights, trained))


def _silent(share: float) -> None:
    """Of the training, which takes less time than the looks."""


def _see(model: nn.Module, sample: Sample, course: Course, epoch: int, report: Report) -> Sight:
    ntk = EmpiricalNTK(model, input_shape=IMAGE, normalize=True, max_memory=MEMORY)
    kernel = ntk(sample.X)
    cross = ntk(sample.X_test, sample.X, progress=part_of(report, 0.0, 0.9))
    best = best_predictor(kernel, sample.y, course.tol)
    classes = np.unique(sample.y)
    last = np.zeros(sample.y_test.size, bool)

    def errors(proposal: Candidates) -> dict[str, float]:
        scores = cross @ proposal.primals[0].w[0]
        last[:] = classes[scores.argmax(axis=1)] != sample.y_test
        return {"test_error": float(last.mean())}

    def pose() -> Problem:
        choice = KernelChoice("precomputed")
        return Problem.from_data(kernel, sample.y, fit_intercept=False, kernel=choice)

    marks = log_spaced(course.iterations, course.per_decade)
    tell = part_of(report, 0.9, 1.0)
    curve = record(pose, Seeded(), course.iterations, tell, extras=errors, marks=marks)
    numbers = {
        "best_lower": best.lower,
        "best_upper": best.upper,
        "best_error": float(np.mean(predict(best, cross) != sample.y_test)),
        "network_error": float(np.mean(network_answers(model, sample.X_test) != sample.y_test)),
        "train_error": float(np.mean(network_answers(model, sample.X) != sample.y)),
    }
    return Sight(epoch, kernel, curve, numbers, last.copy())


def _columns(sights: list[Sight]) -> dict[str, np.ndarray]:
    """All curves below each other; what belongs to a look stands in each of its rows."""
    kept = ("iteration", "margin", "lower", "upper", "test_error")
    lengths = [sight.curve["iteration"].size for sight in sights]
    columns = {name: np.concatenate([sight.curve[name] for sight in sights]) for name in kept}
    columns["epoch"] = np.repeat([sight.epoch for sight in sights], lengths)
    for name in REPEATED:
        columns[name] = np.repeat([sight.numbers[name] for sight in sights], lengths)
    aligned = [kernel_alignment(sight.kernel, sights[-1].kernel) for sight in sights]
    columns["alignment_last"] = np.repeat(aligned, lengths)
    return columns


def _facts(sights: list[Sight], trained: Trained) -> dict[str, Any]:
    return {
        "fitted": trained.fitted,
        "epochs": trained.epochs,
        **comparison(sights[0].wrong, sights[-1].wrong),
    }
