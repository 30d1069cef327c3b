"""Examples as users pass them, turned into tensors a few rows at a time."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from momentron.errors import InputError
from momentron.ntk.readout import Readout

EVERYTHING = Readout()


class Examples:
    """Rows of an array or tensor, on the model's device and in its type when they are read.

    Real numbers take the type of the model's parameters. Whole numbers do too, but stay int64 if
    the model has an embedding, which reads them as tokens.

    Parameters
    ----------
    X : array-like or Tensor of shape (n, ...)
    model : Module
    input_shape : tuple of int, optional
        Shape of one example, if the rows of a 2-D X have to be reshaped.
    name : str
        For errors.
    readout : Readout
        What is differentiated of the model's outputs for these rows.
    """

    def __init__(
        self,
        X: Any,
        model: nn.Module,
        input_shape: tuple[int, ...] | None,
        name: str,
        readout: Readout = EVERYTHING,
    ) -> None:
        self.readout = readout
        self.X = X.detach() if isinstance(X, Tensor) else np.asarray(X)
        if not isinstance(self.X, Tensor) and self.X.dtype.kind not in "fiub":
            raise InputError(f"{name} has dtype {self.X.dtype}; the kernel needs real numbers")
        if self.X.ndim == 0 or len(self.X) == 0:
            raise InputError(
                f"{name} has shape {tuple(self.X.shape)}; the kernel needs at least 1 row"
            )
        self.shape = tuple(self.X.shape[1:])
        if input_shape is not None and self.shape != input_shape:
            if self.X.ndim != 2 or self.shape[0] != math.prod(input_shape):
                raise InputError(
                    f"{name} has rows of shape {self.shape}; input_shape={input_shape} needs rows "
                    f"of that shape or of {math.prod(input_shape)} entries"
                )
            self.shape = input_shape
        first = next(model.parameters(), None)
        if first is None:
            raise InputError("the model has 0 parameters; its kernel needs at least 1")
        self.device = first.device
        whole = not (self.X.is_floating_point() if isinstance(self.X, Tensor) else _is_real(self.X))
        reads_tokens = any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in model.modules())
        self.dtype = torch.int64 if whole and reads_tokens else first.dtype

    def __len__(self) -> int:
        return len(self.X)

    def with_readout(self, readout: Readout) -> Examples:
        """The same rows, of which something else is differentiated."""
        same = copy(self)
        same.readout = readout
        return same

    def rows(self, start: int, stop: int) -> Tensor:
        """Examples start to stop as a new tensor, in which the model may work in place."""
        return self.like(self.X[start:stop])

    def like(self, part: Any) -> Tensor:
        """Other rows as a new tensor on the same device, of the same type and shape."""
        if not isinstance(part, Tensor):
            part = np.asarray(part)
            wide = part.dtype.kind == "f" and part.itemsize > 8  # unknown to torch
            part = torch.tensor(np.ascontiguousarray(part, np.float64 if wide else None))
        # the type first: not every device knows float64
        moved = part.to(self.dtype).to(self.device)
        return moved.reshape(len(part), *self.shape).clone()

    def few(self, count: int) -> Tensor:
        """The first `count` rows, over and over if there are fewer."""
        n = min(count, len(self))
        return self.rows(0, n)[torch.arange(count) % n]


def _is_real(X: np.ndarray) -> bool:
    return X.dtype.kind == "f"
