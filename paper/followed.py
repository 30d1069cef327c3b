"""A seed of figure 4 that is followed: its kernel at several epochs, and Algorithm 2 in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.spectra import kernel_alignment
from momentron.ntk.tracker import predict
from momentron.problem import KernelChoice, Problem
from momentron.progress import part_of
from momentron.solvers.base import Candidates
from paper.figure import Measured, Report
from paper.grid import Course, Training
from paper.grid_measure import MEMORY, best_predictor, network_answers
from paper.grid_networks import Descent, Trained, build
from paper.images import IMAGE, draw
from paper.kernel_claims import comparison
from paper.recording import log_spaced, record
from paper.sample import Sample
from paper.tangent_curves import Seeded

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
