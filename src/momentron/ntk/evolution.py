"""How a network's tangent kernel evolves while the network is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import nn

from momentron.api import max_margin
from momentron.errors import InputError
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.evolution_table import EvolutionRow, KernelEvolution
from momentron.ntk.training import (
    Labelled,
    Loss,
    Step,
    Training,
    network_error,
    require_classes,
    seeded,
)
from momentron.result import MarginResult
from momentron.solvers import Solver, as_solver
from momentron.status import Status


@dataclass(frozen=True)
class Snapshot:
    """What is seen of the kernel at one epoch.

    Attributes
    ----------
    epoch : int
    kernel : ndarray of shape (n, n)
        Of the training examples.
    cross : ndarray of shape (n_test, n)
        Of the test examples with them.
    result : MarginResult
        The maximum-margin predictor in this kernel.
    """

    epoch: int
    kernel: np.ndarray
    cross: np.ndarray
    result: MarginResult


def kernel_evolution(
    model: nn.Module,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    *,
    epochs: int | Iterable[int] = 100,
    lr: float | None = None,
    batch_size: int = 32,
    seed: int = 0,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    step: Step | None = None,
    method: str | Solver = "auto",
    fit_intercept: bool = False,
    tol: float = 1e-4,
    max_iter: int | None = None,
    normalize: bool = True,
    input_shape: tuple[int, ...] | None = None,
    max_memory: str | int = "1GB",
    callback: Callable[[Snapshot], Any] | None = None,
    progress: Callable[[float], Any] | None = None,
) -> KernelEvolution:
    r"""Train a model, and at some epochs fit the maximum-margin predictor in its tangent kernel.

    .. math:: K_t(x, x') = \sum_o ⟨∇_θ A_o(x; θ_t), ∇_θ A_o(x'; θ_t)⟩

    K_0 is the neural tangent kernel; later ones tell what training has made of it. Each snapshot
    costs the kernels of `EmpiricalNTK` for n and n_test × n examples, and one solve. One n × n
    kernel per snapshot is held until the end, for the alignment with the last.

    Parameters
    ----------
    model : torch.nn.Module
        One output a class, or a single one for two classes. It is trained in place, in training
        mode; snapshots are taken in evaluation mode.
    train, test : (X, y)
        Arrays or tensors of shape (n, ...), and labels of any kind.
    epochs : int or iterable of int
        When to take snapshots; 0 is before training, and the largest ends it. An int asks for 0, 1,
        2, 4, 8 and so on, and itself.
    lr : float, optional
        Step size of plain mini-batch gradient descent; 0.01 unless given.
    batch_size : int
    seed : int
        Draws the order of the examples and all else that training draws (dropout), and is the seed
        of method="adaptive". The model's weights are as they come.
    loss : callable, optional
        loss(outputs, y) with y as whole numbers from 0; cross entropy unless given.
    optimizer : torch.optim.Optimizer, optional
        In place of plain steps.
    step : callable, optional
        step(model, x, y) does one whole update, in place of lr, loss and optimizer.
    method, fit_intercept, tol, max_iter
        Of the predictor, as in `max_margin`; "adaptive" is the paper's. The paper fits no
        intercept.
    normalize : bool
        Divide K_ij by √(K_ii K_jj), as in the paper.
    input_shape, max_memory
        As in `EmpiricalNTK`; the limit holds for each kernel.
    callback : callable, optional
        Called with the `Snapshot` at each epoch; a true return value ends the training there.
    progress : callable, optional
        Told the share of the snapshots that is done, from 0 to 1.

    Returns
    -------
    KernelEvolution
        One row per snapshot.

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML, section 6.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import kernel_evolution
    >>> X, y = torch.eye(4), ["a", "a", "b", "b"]
    >>> evolution = kernel_evolution(torch.nn.Linear(4, 2), (X, y), (X, y), epochs=[0, 200], lr=1.0)
    >>> evolution["network_error"][-1], evolution["kernel_error"][-1]
    (np.float64(0.0), np.float64(0.0))
    """
    marks = snapshot_epochs(epochs)
    ntk = EmpiricalNTK(model, input_shape=input_shape, normalize=normalize, max_memory=max_memory)
    seen, unseen = (
        Labelled(pair, model, input_shape, name)
        for pair, name in ((train, "train"), (test, "test"))
    )
    classes = np.unique(np.concatenate([seen.y, unseen.y]))
    training = Training(
        model,
        seen,
        classes,
        lr=lr,
        batch_size=batch_size,
        seed=seed,
        loss=loss,
        optimizer=optimizer,
        step=step,
    )
    fit = {
        "method": as_solver(method),
        "fit_intercept": fit_intercept,
        "tol": tol,
        "max_iter": max_iter,
        "random_state": seed,
    }
    rows: list[dict[str, Any]] = []
    kernels: list[np.ndarray] = []
    epoch = 0
    with seeded(model, seed):
        require_classes(model, seen, classes)
        for done, mark in enumerate(marks):
            for _ in range(mark - epoch):
                training.epoch()
            epoch = mark
            model.eval()
            errors = {
                "network_error": network_error(model, unseen, classes),
                "train_error": network_error(model, seen, classes),
            }
            told = _teller(progress, done, len(marks), len(seen), len(unseen))
            snapshot = take_snapshot(ntk, mark, seen, unseen, fit, told)
            rows.append(_numbers(snapshot, unseen.y) | errors)
            kernels.append(snapshot.kernel)
            if callback is not None and callback(snapshot):
                break
    return _align(rows, kernels)


def take_snapshot(
    ntk: EmpiricalNTK,
    epoch: int,
    seen: Labelled,
    unseen: Labelled,
    fit: dict[str, Any],
    progress: Callable[[str, int, int], None],
) -> Snapshot:
    """Both kernels at the present weights, and the predictor."""
    X, X_test = seen.examples.X, unseen.examples.X
    kernel = ntk(X, progress=lambda done, total: progress("kernel", done, total))
    result = max_margin(kernel, seen.y, kernel="precomputed", **fit)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    cross = ntk(X_test, X, progress=lambda done, total: progress("cross", done, total))
    return Snapshot(epoch, kernel, cross, result)


def _align(rows: list[dict[str, Any]], kernels: list[np.ndarray]) -> KernelEvolution:
    """The table, now that the last kernel is known."""
    return KernelEvolution(
        EvolutionRow(
            **row,
            alignment_first=kernel_alignment(kernel, kernels[0]),
            alignment_last=kernel_alignment(kernel, kernels[-1]),
        )
        for row, kernel in zip(rows, kernels, strict=True)
    )


def predict(result: MarginResult, cross: np.ndarray) -> np.ndarray:
    """The labels that a predictor gives to examples, from their kernel with the training ones."""
    outputs = cross @ result.coef.T + result.intercept
    if outputs.ndim == 1:
        return result.classes[(outputs > 0.0).astype(int)]
    return result.classes[outputs.argmax(axis=1)]


def kernel_alignment(K: np.ndarray, L: np.ndarray) -> float:
    """⟨K, L⟩/(‖K‖ ‖L‖) of two matrices: 1 where they agree up to a factor.

    >>> kernel_alignment(np.eye(2), 3.0 * np.eye(2)), kernel_alignment(np.eye(2), np.ones((2, 2)))
    (1.0, 0.7071067811865475)
    """
    if K is L:
        return 1.0
    lengths = float(np.linalg.norm(K)) * float(np.linalg.norm(L))
    return min(float(np.vdot(K, L)) / lengths, 1.0) if lengths > 0.0 else 0.0


def snapshot_epochs(epochs: int | Iterable[int]) -> list[int]:
    """The epochs at which to take snapshots, rising.

    >>> snapshot_epochs(10), snapshot_epochs([5, 0, 5])
    ([0, 1, 2, 4, 8, 10], [0, 5])
    """
    if isinstance(epochs, Integral) and not isinstance(epochs, bool):
        last = int(epochs)
        marks = {0, last, *(2**i for i in range(max(last, 0).bit_length()) if 2**i <= last)}
    else:
        marks = set(epochs)  # type: ignore[arg-type]
    bad = [m for m in marks if not isinstance(m, Integral) or isinstance(m, bool) or m < 0]
    if bad or not marks:
        raise InputError(f"epochs={epochs!r} must be a whole number of at least 0, or some of them")
    return sorted(int(mark) for mark in marks)


def _numbers(snapshot: Snapshot, y_test: np.ndarray) -> dict[str, Any]:
    return {
        "epoch": snapshot.epoch,
        "lower": snapshot.result.lower,
        "upper": snapshot.result.upper,
        "kernel_error": float(np.mean(predict(snapshot.result, snapshot.cross) != y_test)),
    }


def _teller(
    progress: Callable[[float], Any] | None, done: int, snapshots: int, n: int, n_test: int
) -> Callable[[str, int, int], None]:
    """Progress within a snapshot, by the examples that have passed through the network."""
    first = n / (n + n_test)

    def tell(kernel: str, blocks: int, total: int) -> None:
        share = first * blocks / total
        if kernel == "cross":
            share = first + (1.0 - first) * blocks / total
        if progress is not None:
            progress((done + share) / snapshots)

    return tell
