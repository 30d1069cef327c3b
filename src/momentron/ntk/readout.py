"""What is differentiated: all outputs of a model, some of them, or differences of two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentron.errors import InputError, short

Outputs = int | slice | Iterable[int] | None
"""As users choose them: one, a slice, several, or None for all."""


@dataclass(frozen=True)
class Readout:
    """Turns the outputs A of some examples into what is differentiated.

    With labels c, example i has one difference A_c − A_j for each wrong output j, in rising order:
    the features of the paper's reduction from many classes to two. A single output stands for the
    difference of two classes and only takes the sign of the label.

    Attributes
    ----------
    chosen : int, slice, sequence of int or None
        The outputs that are read; None for all.
    labels : ndarray of shape (n,) or None
        The number of each example's true output.
    """

    chosen: Outputs = None
    labels: np.ndarray | None = None

    def numbers(self, k: int) -> list[int]:
        """The outputs that are read, of k.

        Raises
        ------
        InputError
            If there is no such output, or none is chosen, or one twice.
        """
        chosen = self.chosen
        if chosen is None:
            return list(range(k))
        if isinstance(chosen, slice):
            found = list(range(k))[chosen]
        else:
            asked: list[Any] = list(chosen) if isinstance(chosen, Iterable) else [chosen]
            bad = [o for o in asked if not isinstance(o, Integral) or not -k <= int(o) < k]
            if bad or any(isinstance(o, bool | np.bool_) for o in asked):
                raise InputError(
                    f"outputs={short(chosen)} must be whole numbers; the model has {k} outputs, "
                    "from 0"
                )
            found = [int(o) % k for o in asked]
        if not found or len(set(found)) < len(found):
            raise InputError(
                f"outputs={short(chosen)} must choose at least 1 of {k} outputs, each once"
            )
        return found

    def width(self, k: int) -> int:
        """How many numbers are read for each example of a model with k outputs."""
        m = len(self.numbers(k))
        if self.labels is not None:
            self._places(k, slice(None))
            return max(m - 1, 1)
        return m

    def __call__(self, outputs: Tensor, rows: slice) -> Tensor:
        """Of the outputs of examples `rows`, as an (n, k) matrix, what is read."""
        k = outputs.shape[1]
        numbers = self.numbers(k)
        if self.chosen is not None:
            outputs = outputs[:, numbers]
        if self.labels is None:
            return outputs
        places = torch.as_tensor(self._places(k, rows), device=outputs.device).unsqueeze(1)
        if len(numbers) == 1:
            return outputs * (2 * places - 1)
        wrong = torch.arange(len(numbers) - 1, device=outputs.device).unsqueeze(0)
        wrong = wrong + (wrong >= places)
        return outputs.gather(1, places) - outputs.gather(1, wrong)

    def _places(self, k: int, rows: slice) -> np.ndarray:
        """Where the true output of each example is among those that are read."""
        assert self.labels is not None
        numbers, labels = self.numbers(k), self.labels[rows]
        known = [0, 1] if k == 1 else sorted(numbers)
        missing = np.setdiff1d(labels, known)
        if missing.size:
            raise InputError(
                f"y has label {missing[0]}; labels are numbers of outputs, here {_short(known)}"
            )
        if k == 1:
            return labels
        if len(numbers) == 1:
            raise InputError("1 output is chosen; differences of outputs need at least 2")
        place = np.zeros(k, np.int64)
        place[numbers] = np.arange(len(numbers))
        return place[labels]


def as_labels(y: Any, n: int, name: str) -> np.ndarray:
    """Labels as numbers of outputs."""
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"{name} has shape {labels.shape}; it must be ({n},), one per example")
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"{name} has dtype {labels.dtype}; labels are whole numbers, those of the outputs"
        )
    return labels.astype(np.int64)


def _short(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
