"""The batches of a training run, epoch after epoch, and the place that it has reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from momentron.errors import InputError
from momentron.ntk.loaders import as_batch, labels_of

Batch = tuple[Tensor, Tensor]
"""Examples as the model reads them, and their labels as whole numbers from 0."""


class Batches(ABC):
    """The batches of one epoch at a time, in an order drawn when the epoch begins."""

    @abstractmethod
    def per_epoch(self) -> int | None:
        """How many there are in an epoch; None where nobody knows before."""

    @abstractmethod
    def epoch(self) -> Iterator[Batch]:
        """All of them, once."""

    @property
    @abstractmethod
    def generator(self) -> torch.Generator | None:
        """What the order is drawn from, if not torch's own state."""


class ArrayBatches(Batches):
    """Parts of a tensor, in an order that a seed draws."""

    def __init__(self, X: Tensor, codes: Tensor, batch_size: int, seed: int) -> None:
        self.X, self.codes, self.batch_size = X, codes, batch_size
        self._generator = torch.Generator().manual_seed(seed)

    @property
    def generator(self) -> torch.Generator | None:
        return self._generator

    def per_epoch(self) -> int | None:
        return -(-len(self.X) // self.batch_size)

    def epoch(self) -> Iterator[Batch]:
        order = torch.randperm(len(self.X), generator=self._generator)
        for batch in order.split(self.batch_size):
            part = batch.to(self.X.device)
            yield self.X[part], self.codes[part]


class LoaderBatches(Batches):
    """What a DataLoader gives, in its own order.

    Parameters
    ----------
    loader : DataLoader
    read : callable
        Moves examples to the model's device and type.
    code : callable
        Turns labels into whole numbers from 0.
    """

    def __init__(
        self,
        loader: DataLoader,
        read: Callable[[Any], Tensor],
        code: Callable[[Any], Tensor],
    ) -> None:
        self.loader, self._read, self._code = loader, read, code

    @property
    def generator(self) -> torch.Generator | None:
        found: torch.Generator | None = self.loader.generator
        return found

    def per_epoch(self) -> int | None:
        try:
            return len(self.loader)
        except TypeError:  # of a dataset that can only be iterated
            return None

    def epoch(self) -> Iterator[Batch]:
        for batch in self.loader:
            x, y = as_batch(batch, "train")
            yield self._read(x), self._code(labels_of(y))


class Place:
    """How far a run is: whole epochs, and batches of the one under way."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self.epochs, self.done = 0, 0
        self._begun: list[Tensor | None] | None = None  # random states as the epoch began
        self._rest: Iterator[Batch] | None = None

    def until(self, epoch: float) -> Iterator[Batch]:
        """The batches from here to a number of epochs, to the nearest batch."""
        whole = int(epoch)
        part = 0
        if epoch > whole:
            count = self.batches.per_epoch()
            if count is None:
                raise InputError(
                    f"epoch {epoch} is a fraction, and the loader does not know its length; "
                    "look after whole epochs"
                )
            part = round((epoch - whole) * count)
            if part == count:
                whole, part = whole + 1, 0
        while (self.epochs, self.done) < (whole, part):
            if self._rest is None:
                self._begun, self._rest = self._states(), self.batches.epoch()
            batch = next(self._rest, None)
            if batch is None:
                self.epochs, self.done, self._rest = self.epochs + 1, 0, None
                continue
            self.done += 1
            yield batch

    def state(self) -> dict[str, Any]:
        """All that it takes to go on from here in another process."""
        begun = self._begun if self._rest is not None else None
        return {"epochs": self.epochs, "done": self.done, "begun": begun, "now": self._states()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where another run was."""
        self.epochs, self.done = state["epochs"], state["done"]
        self._begun, self._rest = state["begun"], None
        if self._begun is not None:
            self._set(self._begun)
            self._rest = self.batches.epoch()
            for _ in range(self.done):
                next(self._rest, None)
        self._set(state["now"])

    def _states(self) -> list[Tensor | None]:
        own = self.batches.generator
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return [torch.get_rng_state(), None if own is None else own.get_state(), *devices]

    def _set(self, states: list[Any]) -> None:
        torch.set_rng_state(states[0])
        if self.batches.generator is not None and states[1] is not None:
            self.batches.generator.set_state(states[1])
        if torch.cuda.is_available() and len(states) > 2:
            torch.cuda.set_rng_state_all(states[2:])
