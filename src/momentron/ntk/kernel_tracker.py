"""The tangent kernel of a network while it is trained, by your own loop or by a plain one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from momentron.api import max_margin
from momentron.data.arguments import as_count, as_number, is_positive
from momentron.data.models import modes_kept
from momentron.errors import InputError, short
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.evolution_table import EvolutionRow, KernelEvolution, Snapshot
from momentron.ntk.selection import Examples, Outputs, Selection, pieces
from momentron.ntk.spectra import kernel_alignment, on_host
from momentron.result import labels_of
from momentron.solvers import Solver, as_solver
from momentron.status import Status
from momentron.views.progress import Progress, Tell, as_progress, part_of

USUAL_RATE = 0.01
BATCH = 256  # examples that pass through the model to be classified at once


class KernelTracker:
    """Record the tangent kernel of a network that you train, whenever you call `look`.

    Each look computes the kernel of the training examples and the kernel of the test with the
    training examples, and fits the maximum-margin predictor; rows are as in `kernel_evolution`.

    Parameters
    ----------
    train, test : (X, y)
        The examples to look at, with labels of any kind. The network has one output per class, or a
        single one for two.
    method, fit_intercept, tol, max_iter
        For the predictor, as in `max_margin`; the paper fits no intercept, and uses
        method="adaptive".
    seed : int
        The seed of method="adaptive".
    normalize, input_shape, max_memory, outputs, parameters
        As in `EmpiricalNTK`; the memory limit is for each kernel.
    progress : bool or callable, optional
        For each look; see `momentron.views.progress`.

    Attributes
    ----------
    rows : list of dict
        The numbers of each look.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import KernelTracker
    >>> X, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> tracker = KernelTracker((X, y), (X, y))
    >>> for epoch in range(101):
    ...     if epoch % 50 == 0:
    ...         snapshot = tracker.look(model, epoch)
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.cross_entropy(model(X), y).backward()
    ...     optimizer.step()
    >>> tracker.evolution["epoch"]
    array([  0,  50, 100])
    """

    def __init__(
        self,
        train: Any,
        test: Any,
        *,
        method: str | Solver = "auto",
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        seed: int = 0,
        normalize: bool = True,
        input_shape: tuple[int, ...] | None = None,
        max_memory: str | int = "1GB",
        outputs: Outputs = None,
        parameters: Selection = None,
        progress: Progress = None,
    ) -> None:
        as_count("seed", seed, 0)
        self._fit = {
            "method": as_solver(method),
            "fit_intercept": fit_intercept,
            "tol": tol,
            "max_iter": max_iter,
            "random_state": seed,
        }
        self._kernel = {
            "normalize": normalize,
            "input_shape": None if input_shape is None else tuple(input_shape),
            "max_memory": max_memory,
            "outputs": outputs,
            "parameters": parameters,
        }
        self.train, self.test = as_labelled(train, "train"), as_labelled(test, "test")
        kinds = [labels.dtype for _, labels in (self.train, self.test)]
        if (kinds[0].kind in "US") != (kinds[1].kind in "US"):
            raise InputError(f"train has labels of type {kinds[0]}, test of {kinds[1]}: use one")
        self.classes = np.unique(np.concatenate([self.train[1], self.test[1]]))
        self._progress = progress
        as_progress(progress, "")  # refused now if it is invalid
        self.rows: list[dict[str, Any]] = []
        self._kernels: list[np.ndarray] = []

    def look(self, model: nn.Module, epoch: float, *, tell: Tell | None = None) -> Snapshot:
        """Record the model as it is now, in evaluation mode, without changing it.

        Parameters
        ----------
        model : torch.nn.Module
        epoch : int or float
            How far the training is, in any unit. A look at an epoch that is not after the last one
            replaces all looks from that epoch on, as if training had been resumed there.
        tell : callable, optional
            Called with the fraction done, instead of `progress`.

        Returns
        -------
        Snapshot
        """
        epoch = as_epoch(epoch)
        tell = tell or as_progress(self._progress, f"look at epoch {epoch:g}")
        ntk = EmpiricalNTK(model, **self._kernel)  # type: ignore[arg-type]
        (X, y), (X_test, y_test) = self.train, self.test
        first = len(y) / (len(y) + len(y_test))  # by the examples that pass the network
        with modes_kept(model):
            model.eval()
            errors = [self._network_error(model, name) for name in ("test", "train")]
            kernel = ntk(X, progress=part_of(tell, 0.0, first))
            result = max_margin(kernel, y, kernel="precomputed", **self._fit)  # type: ignore[arg-type]
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            cross = ntk(X_test, X, progress=part_of(tell, first, 1.0))
        outputs = cross @ result.coef.T + result.intercept
        row = {
            "epoch": epoch,
            "lower": result.lower,
            "upper": result.upper,
            "kernel_error": float(np.mean(labels_of(outputs, result.classes) != y_test)),
            "network_error": errors[0],
            "train_error": errors[1],
        }
        count = sum(seen["epoch"] < epoch for seen in self.rows)
        del self.rows[count:], self._kernels[count:]
        self.rows.append(row)
        self._kernels.append(kernel)
        return Snapshot(epoch, kernel, cross, result)

    def examples(self, model: nn.Module, name: str) -> Examples:
        """The examples of "train" or of "test" as the model reads them."""
        X, _ = getattr(self, name)
        return Examples(X, model, self._kernel["input_shape"], f"{name}[0]")  # type: ignore[arg-type]

    def _network_error(self, model: nn.Module, name: str) -> float:
        """The share of examples that the network itself gets wrong."""
        examples, (_, y) = self.examples(model, name), getattr(self, name)
        outputs = network_outputs(model, examples, self.classes)
        found = outputs.squeeze(1).double().cpu().numpy()
        return float(np.mean(labels_of(found, self.classes) != y))

    @property
    def evolution(self) -> KernelEvolution:
        """The table of all looks so far.

        Raises
        ------
        InputError
            If there was none.
        """
        if not self.rows:
            raise InputError("the tracker has seen nothing yet; call look(model, epoch) first")
        first, last = self._kernels[0], self._kernels[-1]
        return KernelEvolution(
            EvolutionRow(
                **row,
                alignment_first=kernel_alignment(kernel, first),
                alignment_last=kernel_alignment(kernel, last),
            )
            for row, kernel in zip(self.rows, self._kernels, strict=True)
        )

    def kernel(self, epoch: float) -> np.ndarray:
        """The training kernel of the look at this epoch."""
        seen = [row["epoch"] for row in self.rows]
        if epoch in seen:
            return self._kernels[seen.index(epoch)]
        raise InputError(f"there was no look at epoch {short(epoch)}; there were looks at {seen}")

    def __repr__(self) -> str:
        epochs = [f"{row['epoch']:g}" for row in self.rows]
        return f"KernelTracker({len(epochs)} looks, at epochs [{', '.join(epochs)}])"


def as_epoch(epoch: Any) -> float:
    """A number of at least 0; a whole one as an int."""
    wanted = "a number of at least 0"
    number = as_number("epoch", epoch, wanted, lambda number: 0.0 <= number < np.inf)
    return int(number) if number.is_integer() else number


def as_labelled(data: Any, name: str) -> tuple[Any, np.ndarray]:
    """A pair of as many examples as labels."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(f"{name} is {type(data).__name__}; pass a pair (X, y)")
    X, y = data[0], on_host(data[1])
    if y.shape != (len(X),):
        raise InputError(
            f"{name} has {len(X)} examples and labels of shape {y.shape}; "
            f"they must have shape ({len(X)},)"
        )
    return X, y


def class_outputs(model: nn.Module, x: Tensor, classes: np.ndarray) -> Tensor:
    """The outputs of some examples, which must be finite and name one class per example."""
    with torch.no_grad():
        outputs = model(x)
    n, k = len(x), classes.size
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    wanted = [(n, k), (n, 1)][: 2 if k == 2 else 1]
    if shape not in wanted:
        needs = " or ".join(map(str, wanted))
        raise InputError(f"the outputs of {n} examples are {shape}; {k} classes need {needs}")
    if not bool(outputs.isfinite().all()):
        raise InputError(
            "the outputs of the network are not finite: training diverged; use a smaller lr"
        )
    return outputs


def network_outputs(model: nn.Module, examples: Examples, classes: np.ndarray) -> Tensor:
    """The outputs of all examples, some at a time; as `class_outputs`."""
    batches = map(examples.rows, pieces(len(examples), BATCH))
    return torch.cat([class_outputs(model, x, classes) for x in batches])


def kernel_evolution(
    model: nn.Module,
    train: Any,
    test: Any,
    *,
    epochs: int | Iterable[float] = 100,
    lr: float | None = None,
    batch_size: int = 32,
    seed: int = 0,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    progress: Progress = None,
    **options: Any,
) -> KernelEvolution:
    r"""Train a model, and at some epochs fit the maximum-margin predictor in its tangent kernel.

    .. math:: K_t(x, x') = \sum_o ⟨∇_θ A_o(x; θ_t), ∇_θ A_o(x'; θ_t)⟩

    K_0 is the neural tangent kernel; later ones show how training changes it. Each snapshot
    costs the kernels of `EmpiricalNTK` for n and n_test × n examples, and one solve. One n × n
    kernel per snapshot is kept for the alignment with the last. To write your own training loop,
    with a DataLoader for instance, use `KernelTracker`.

    Parameters
    ----------
    model : torch.nn.Module
        One output per class, or a single one for two classes. It is trained in place, in training
        mode; snapshots are taken in evaluation mode.
    train, test : (X, y)
        Arrays or tensors of shape (n, ...), and labels of any kind.
    epochs : int or iterable of numbers
        When to take snapshots; 0 is before training, the largest ends it, and fractions are rounded
        to the nearest batch. An int n means 0, 1, 2, 4, 8 and so on, and n.
    lr : float, optional
        Step size of plain mini-batch gradient descent; 0.01 by default.
    batch_size : int
    seed : int
        Seed for the order of the examples and everything else random in training (dropout), and for
        method="adaptive". The model's initial weights do not depend on it.
    loss : callable, optional
        loss(outputs, y) with y as integers from 0; cross entropy by default.
    optimizer : torch.optim.Optimizer, optional
        Used instead of plain gradient descent. It must own parameters of the model.
    callback : callable, optional
        Called with the `Snapshot` at each epoch that is computed; a true return value ends the
        training there.
    progress : bool or callable, optional
        True for a line on standard error, or a function of the fraction of snapshots done.
    **options
        Passed to `KernelTracker`: method, fit_intercept, tol and max_iter of the predictor, and
        normalize, input_shape, max_memory, outputs and parameters of the kernel.

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
    tell = as_progress(progress, "kernel evolution")
    tracker = KernelTracker(train, test, seed=seed, **options)
    X = tracker.examples(model, "train")
    y = torch.tensor(np.searchsorted(tracker.classes, tracker.train[1])).to(X.device)
    size = as_count("batch_size", batch_size, 1)
    optimizer, loss = _optimizer(model, lr, optimizer), loss or usual_loss
    device = next(model.parameters()).device
    with modes_kept(model), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model.eval()  # its outputs are looked at before it is trained
        class_outputs(model, X.few(2), tracker.classes)
        inputs, trained, per_epoch = X.rows(slice(None)), 0, -(-len(X) // size)
        # each epoch in its own order
        order = (rows for _ in count() for rows in torch.randperm(len(X)).split(size))
        for done, mark in enumerate(marks):
            model.train()
            while trained < round(mark * per_epoch):
                rows = next(order)
                optimizer.zero_grad()
                loss(model(inputs[rows]), y[rows]).backward()
                optimizer.step()
                trained += 1
            part = part_of(tell, done / len(marks), (done + 1) / len(marks))
            snapshot = tracker.look(model, mark, tell=part)
            if callback is not None and callback(snapshot):
                break
    return tracker.evolution


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; for a single output, of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)


def _optimizer(
    model: nn.Module, lr: float | None, optimizer: torch.optim.Optimizer | None
) -> torch.optim.Optimizer:
    """The user's optimiser, or plain gradient descent."""
    rate = USUAL_RATE if lr is None else as_number("lr", lr, "a number above 0", is_positive)
    trained = [p for p in model.parameters() if p.requires_grad]
    if optimizer is None:
        return torch.optim.SGD(trained, lr=rate)
    if lr is not None:
        raise InputError("lr has no effect with optimizer, which has its own; pass only one")
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in owned for p in trained):
        raise InputError(
            "the optimizer owns none of the model's parameters; build it from this model's "
            "parameters(), after any copy or move of the model"
        )
    return optimizer


def snapshot_epochs(epochs: int | Iterable[float]) -> list[float]:
    """The epochs at which to take snapshots, rising; whole ones as ints.

    >>> snapshot_epochs(10), snapshot_epochs([5, 0, 0.5])
    ([0, 1, 2, 4, 8, 10], [0, 0.5, 5])
    """
    try:
        if isinstance(epochs, Integral):
            last = as_count("epochs", epochs, 0)
            return sorted({0, last, *(2**i for i in range(last.bit_length()))})
        found = sorted({as_epoch(mark) for mark in epochs})  # type: ignore[union-attr]
    except (InputError, TypeError):
        found = []
    if not found:
        raise InputError(
            f"epochs={short(epochs)} must be an integer of at least 0, or a list of epochs"
        )
    return found
