"""Training a model by mini-batches, the same way for the same seed, and from where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from momentron.errors import InputError, short
from momentron.ntk.labelled import as_batch

Step = Callable[[nn.Module, Tensor, Tensor], Any]
"""One update: the model, a batch of examples, and their labels as whole numbers from 0."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""A number, from the outputs of a batch and its labels."""

USUAL_RATE = 0.01


class Training:
    """One update per batch of a loader, epoch after epoch.

    Parameters
    ----------
    model : Module
    loader : DataLoader
        Gives the batches of an epoch, in an order drawn when the epoch begins.
    read : callable
        Turns the two parts of a batch into examples on the model's device, and whole numbers.
    lr, loss, optimizer, step
        As in `kernel_evolution`.

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
        *,
        lr: float | None,
        loss: Loss | None,
        optimizer: torch.optim.Optimizer | None,
        step: Step | None,
    ) -> None:
        _require_one_way(lr, loss, optimizer, step)
        self.model, self.loader, self._read = model, loader, read
        self._loss = loss or usual_loss
        self.optimizer = optimizer
        if optimizer is not None:
            _require_owner(optimizer, model)
        elif step is None:
            rate = USUAL_RATE if lr is None else float(lr)
            trained = [p for p in model.parameters() if p.requires_grad]
            self.optimizer = torch.optim.SGD(trained, lr=rate)
        self._step = step or self._descend
        self.epochs, self.batches = 0, 0
        self._begun: list[Any] = []  # random states as the epoch began
        self._left: Iterator[Any] | None = None  # of the epoch

    def advance(self, epoch: float) -> None:
        """Train until a number of epochs is done, to the nearest batch."""
        self.model.train()
        end = self._place_of(epoch)
        while (self.epochs, self.batches) < end:
            if self._left is None:
                self._begun, self._left = self._random_states(), iter(self.loader)
            batch = next(self._left, None)
            if batch is None:
                self.epochs, self.batches, self._left = self.epochs + 1, 0, None
                continue
            self.batches += 1
            self._step(self.model, *self._read(*as_batch(batch, "train")))

    def state(self) -> dict[str, Any]:
        """All that it takes to go on from here in another process."""
        return {
            "model": self.model.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "epochs": self.epochs,
            "batches": self.batches,
            "begun": None if self._left is None else self._begun,
            "now": self._random_states(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where another run was."""
        self.model.load_state_dict(state["model"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.epochs, self.batches, self._left = state["epochs"], state["batches"], None
        if state["begun"] is not None:  # draw the order of the epoch again, and skip what is done
            self._begun = state["begun"]
            self._set_random_states(self._begun)
            self._left = iter(self.loader)
            for _ in range(self.batches):
                next(self._left, None)
        self._set_random_states(state["now"])

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

    def _descend(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        self._loss(model(x), y).backward()
        self.optimizer.step()

    def _random_states(self) -> list[Any]:
        own = self.loader.generator
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return [torch.get_rng_state(), None if own is None else own.get_state(), *devices]

    def _set_random_states(self, states: list[Any]) -> None:
        torch.set_rng_state(states[0])
        if self.loader.generator is not None and states[1] is not None:
            self.loader.generator.set_state(states[1])
        if torch.cuda.is_available() and len(states) > 2:
            torch.cuda.set_rng_state_all(states[2:])


def seeded_loader(X: Tensor, codes: Tensor, batch_size: int, seed: int) -> DataLoader:
    """Batches of a tensor, cut out of it at once, in an order that the seed draws."""
    generator = torch.Generator().manual_seed(seed)
    data = TensorDataset(X, codes)
    batches = BatchSampler(RandomSampler(data, generator=generator), batch_size, drop_last=False)
    return DataLoader(data, batch_size=None, sampler=batches, generator=generator)


def usual_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross entropy; of a single output, that of its sign."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y)


def _require_owner(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Refuse an optimiser whose steps would leave the model as it is."""
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not trained & owned:
        raise InputError(
            "the optimizer owns none of the model's parameters; build it from this model's "
            "parameters(), after any copy or move of the model"
        )


def _require_one_way(lr: float | None, loss: Any, optimizer: Any, step: Any) -> None:
    """Refuse parameters that another one would make idle."""
    if lr is not None and (not isinstance(lr, Real) or isinstance(lr, bool) or not lr > 0.0):
        raise InputError(f"lr={short(lr)} must be a number above 0")
    if step is not None:
        given = {"lr": lr, "loss": loss, "optimizer": optimizer}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} has no meaning beside step, which does it all; drop one")
    if optimizer is not None and lr is not None:
        raise InputError("lr has no meaning beside optimizer, which has its own; drop one")
