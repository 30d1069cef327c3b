"""How a network's tangent kernel evolves while the network is trained."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from momentron.data.arguments import as_count
from momentron.data.safefiles import Pathname, open_regular, write_atomically
from momentron.errors import InputError, short
from momentron.ntk.evolution_table import KernelEvolution
from momentron.ntk.labelled import Data, as_batch, class_outputs, modes_kept, on_host, places_of
from momentron.ntk.tracker import KernelTracker, Snapshot, as_epoch
from momentron.views.progress import Progress, as_progress, part_of

USUAL_BATCH = 32
USUAL_RATE = 0.01

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""


def kernel_evolution(
    model: nn.Module,
    train: Data,
    test: Data,
    *,
    epochs: int | Iterable[float] = 100,
    lr: float | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    folder: Pathname | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    progress: Progress = None,
    **options: Any,
) -> KernelEvolution:
    r"""Train a model, and at some epochs fit the maximum-margin predictor in its tangent kernel.

    .. math:: K_t(x, x') = \sum_o ⟨∇_θ A_o(x; θ_t), ∇_θ A_o(x'; θ_t)⟩

    K_0 is the neural tangent kernel; later ones tell what training has made of it. Each snapshot
    costs the kernels of `EmpiricalNTK` for n and n_test × n examples, and one solve. One n × n
    kernel per snapshot is kept for the alignment with the last, in memory or in `folder`. To train
    in a loop of your own, use `KernelTracker`.

    Parameters
    ----------
    model : torch.nn.Module
        One output per class, or a single one for two classes. It is trained in place, in training
        mode; snapshots are taken in evaluation mode.
    train, test : (X, y), Dataset or DataLoader
        Arrays or tensors of shape (n, ...), and labels of any kind. A DataLoader to train on gives
        the batches of the training; kernels are those of its dataset, in order.
    epochs : int or iterable of numbers
        When to take snapshots; 0 is before training, the largest ends it, and a fraction is taken
        to the nearest batch. An int asks for 0, 1, 2, 4, 8 and so on, and itself.
    lr : float, optional
        Step size of plain mini-batch gradient descent; 0.01 unless given.
    batch_size : int, optional
        32 unless given; a DataLoader has its own.
    seed : int
        Draws the order of the examples and all else that training draws (dropout), and is the seed
        of method="adaptive". The model's weights are as they come.
    loss : callable, optional
        loss(outputs, y) with y as whole numbers from 0; cross entropy unless given.
    optimizer : torch.optim.Optimizer, optional
        In place of plain steps. It must own parameters of the model.
    folder : path, optional
        Keep the kernels there, and after each snapshot the state of the training: the same call
        goes on from the last snapshot, and to further epochs.
    callback : callable, optional
        Called with the `Snapshot` at each epoch that is computed; a true return value ends the
        training there.
    progress : bool or callable, optional
        True for a line on standard error, or a function of the share of the snapshots that is done.
    **options
        Of `KernelTracker`: method, fit_intercept, tol and max_iter of the predictor, and normalize,
        input_shape, max_memory, outputs and parameters of the kernel.

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
    as_count("seed", seed, 0)
    tracker = KernelTracker(train, test, seed=seed, **options)
    tracker.settings |= {"lr": repr(lr), "batch_size": repr(batch_size)}
    if folder is not None:
        tracker.open_folder(folder)
    loader, read = _batches(train, tracker, model, batch_size)
    optimizer = _optimizer(model, lr, optimizer)
    training = Training(model, loader, read, optimizer, loss or usual_loss, int(seed))
    path = None if folder is None else Path(folder) / "training.pt"
    device = next(model.parameters()).device
    with (
        modes_kept(model),
        torch.random.fork_rng([device] if device.type == "cuda" else []),
    ):
        model.eval()  # its outputs are looked at before it is trained
        class_outputs(model, tracker.examples(model, tracker.train).few(2), tracker.classes)
        reached = -1.0
        if path is not None and path.exists():
            reached = training.resume(path)
        tracker.drop_after(reached)
        for done, mark in enumerate(marks):
            if mark > reached:
                training.advance(mark)
                part = part_of(tell, done / len(marks), (done + 1) / len(marks))
                snapshot = tracker.look(model, mark, tell=part)
                if path is not None:
                    training.save(path, mark)
                if callback is not None and callback(snapshot):
                    break
    return tracker.evolution


class Training:
    """One update per batch of a loader, epoch after epoch.

    All that torch draws on the way, the order of the examples and dropout alike, is drawn from the
    seed and from the place in the training: a training that goes on elsewhere draws the same.

    Parameters
    ----------
    model : Module
    loader : DataLoader
    read : callable
        Turns the two parts of a batch into examples on the model's device, and whole numbers.
    optimizer : torch.optim.Optimizer
    loss : callable
    seed : int

    Attributes
    ----------
    epochs, batches : int
        What is done: whole epochs, and batches of the next.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: DataLoader,
        read: Callable[[Any, Any], tuple[Tensor, Tensor]],
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        seed: int,
    ) -> None:
        trained = {id(p) for p in model.parameters() if p.requires_grad}
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not trained & owned:
            raise InputError(
                "the optimizer owns none of the model's parameters; build it from this model's "
                "parameters(), after any copy or move of the model"
            )
        self.model, self.loader, self.optimizer = model, loader, optimizer
        self._read, self._loss, self._seed = read, loss, seed
        self.epochs, self.batches = 0, 0
        self._left: Iterator[Any] | None = None  # of the epoch
        self._own_state: Tensor | None = None  # of the loader's generator, as the epoch began

    def advance(self, epoch: float) -> None:
        """Train until a number of epochs is done, to the nearest batch."""
        self.model.train()
        end = self._place_of(epoch)
        while (self.epochs, self.batches) < end:
            batch = self._next()
            if batch is not None:
                x, y = self._read(*as_batch(batch, "train"))
                self.optimizer.zero_grad()
                self._loss(self.model(x), y).backward()
                self.optimizer.step()

    def _next(self) -> Any:
        """The next batch; None at the end of an epoch."""
        entropy = np.random.SeedSequence([self._seed, self.epochs, self.batches])
        torch.manual_seed(int(entropy.generate_state(1)[0]))
        if self._left is None:
            own = self.loader.generator
            self._own_state = None if own is None else own.get_state()
            self._left = iter(self.loader)
        batch = next(self._left, None)
        self.batches += 1
        if batch is None:
            self.epochs, self.batches, self._left = self.epochs + 1, 0, None
        return batch

    def _place_of(self, epoch: float) -> tuple[int, int]:
        """Whole epochs, and batches of the next."""
        whole = int(epoch)
        if epoch == whole:
            return whole, 0
        try:
            count = len(self.loader)
        except TypeError:  # of a dataset that can only be iterated
            raise InputError(
                f"epoch {epoch} is a fraction, and the loader does not know its length; "
                "look after whole epochs"
            ) from None
        part = round((epoch - whole) * count)
        return (whole + 1, 0) if part == count else (whole, part)

    def save(self, path: Path, epoch: float) -> None:
        """Write all that it takes to go on from here in another process."""
        own = self.loader.generator
        content = {
            "epoch": epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "place": (self.epochs, self.batches),
            "generator": own.get_state() if own and self._left is None else self._own_state,
        }
        write_atomically(path, lambda stream: torch.save(content, stream))

    def resume(self, path: Path) -> float:
        """Go to where the run that wrote this file was; the epoch of its last snapshot."""
        try:
            with open_regular(path) as stream:
                # numbers and tensors alone: a file cannot run code
                content = torch.load(stream, weights_only=True, map_location="cpu")
            epoch, (self.epochs, batches) = content["epoch"], content["place"]
        except (OSError, ValueError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read: {error}; delete the folder") from None
        try:
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is of another model or optimizer: {error}") from None
        if self.loader.generator is not None and content["generator"] is not None:
            self.loader.generator.set_state(content["generator"])
        for _ in range(batches):  # draw the order of the epoch again, and skip what is done
            self._next()
        return float(epoch)


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; of a single output, that of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)


def _optimizer(
    model: nn.Module, lr: float | None, optimizer: torch.optim.Optimizer | None
) -> torch.optim.Optimizer:
    """The user's optimiser, or that of plain steps."""
    if lr is not None and (not isinstance(lr, Real) or isinstance(lr, bool) or not lr > 0.0):
        raise InputError(f"lr={short(lr)} must be a number above 0")
    if optimizer is None:
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, lr=USUAL_RATE if lr is None else float(lr))
    if lr is not None:
        raise InputError("lr has no meaning beside optimizer, which has its own; drop one")
    return optimizer


def _batches(
    train: Data, tracker: KernelTracker, model: nn.Module, batch_size: int | None
) -> tuple[DataLoader, Callable[[Any, Any], tuple[Tensor, Tensor]]]:
    """What gives the batches, and what turns them into examples and whole numbers."""
    examples = tracker.examples(model, tracker.train)

    def read(x: Any, y: Any) -> tuple[Tensor, Tensor]:
        return examples.like(x), places_of(on_host(y), tracker.classes).to(examples.device)

    if isinstance(train, DataLoader):
        if batch_size is not None:
            raise InputError("batch_size has no meaning beside a DataLoader, which has its own")
        return train, read
    size = as_count("batch_size", USUAL_BATCH if batch_size is None else batch_size, 1)
    codes = places_of(tracker.train.y, tracker.classes)
    data = TensorDataset(examples.rows(0, len(examples)), codes.to(examples.device))
    sampler = BatchSampler(RandomSampler(data), size, drop_last=False)  # cut out at once
    return DataLoader(data, batch_size=None, sampler=sampler), lambda x, codes: (x, codes)


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
            f"epochs={short(epochs)} must be a whole number of at least 0, or some numbers"
        )
    return found
