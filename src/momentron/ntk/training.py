"""Training a model by mini-batches, the same way for the same seed, and from where it stopped."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from momentron.data.safefiles import open_regular, write_atomically
from momentron.errors import InputError
from momentron.ntk.labelled import as_batch

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""

FORMAT = 2


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

    def save(self, path: Path, epoch: float, settings: Mapping[str, str]) -> None:
        """Write all that it takes to go on from here in another process."""
        own = self.loader.generator
        content = {
            "format": FORMAT,
            "settings": settings,
            "epoch": epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "place": (self.epochs, self.batches),
            "generator": own.get_state() if own and self._left is None else self._own_state,
        }
        write_atomically(path, lambda stream: torch.save(content, stream))

    def resume(self, path: Path, settings: Mapping[str, str]) -> float:
        """Go to where the run that wrote this file was; the epoch of its last snapshot."""
        try:
            with open_regular(path) as stream:
                # numbers and tensors alone: a file cannot run code
                content = torch.load(stream, weights_only=True, map_location="cpu")
            form, old, epoch = (content[name] for name in ("format", "settings", "epoch"))
        except (OSError, ValueError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read: {error}; delete the folder") from None
        if form != FORMAT:
            raise InputError(f"{path} has format {form}, not {FORMAT}; delete the folder")
        for name, value in settings.items():
            if old.get(name) != value:
                raise InputError(
                    f"{path} is of a training with {name}={old.get(name)}, now {value}; "
                    "name another folder, or delete it"
                )
        try:
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
            (self.epochs, batches), own = content["place"], content["generator"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is of another model or optimizer: {error}") from None
        if self.loader.generator is not None and own is not None:
            self.loader.generator.set_state(own)
        for _ in range(batches):  # draw the order of the epoch again, and skip what is done
            self._next()
        return float(epoch)


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; of a single output, that of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)
