"""What users choose: examples (and ranges of them), outputs and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from momentron.errors import InputError, short
from momentron.ntk.spectra import on_host
from momentron.views.progress import Tell

Outputs = int | slice | Iterable[int] | None
"""As users choose them: one, a slice, several, or None for all."""


@dataclass(frozen=True)
class Readout:
    """Turns the outputs A of some examples into what is differentiated.

    With labels c, example i has one difference A_c − A_j for each wrong output j, in rising order:
    the features of the paper's reduction from many classes to two. A single output stands for the
    difference of two classes and only takes the sign of the label.
    """

    chosen: Outputs = None

    def numbers(self, k: int) -> list[int]:
        """The outputs that are read, of k."""
        chosen: Any = list(self.chosen) if isinstance(self.chosen, Iterable) else self.chosen
        try:
            if np.asarray(chosen).dtype == bool:  # a mask for numpy
                raise IndexError
            found = np.arange(k)[chosen].ravel().tolist()
        except IndexError:
            raise InputError(
                f"outputs={short(chosen)} must be whole numbers; the model has {k} outputs, from 0"
            ) from None
        if not found or len(set(found)) < len(found):
            raise InputError(
                f"outputs={short(chosen)} must choose at least 1 of {k} outputs, each once"
            )
        return found

    def __call__(self, outputs: Tensor, places: Tensor | None = None) -> Tensor:
        """What is read of an (n, k) matrix of outputs; of labelled examples, differences."""
        if self.chosen is not None:
            outputs = outputs[:, self.numbers(outputs.shape[1])]
        if places is None:
            return outputs
        true, k = places.to(outputs.device).unsqueeze(1), outputs.shape[1]
        if k == 1:
            return outputs * (2 * true - 1)
        wrong = torch.arange(k - 1, device=outputs.device).unsqueeze(0)
        # differentiated as they are: the difference of two kernels would lose digits
        return outputs.gather(1, true) - outputs.gather(1, wrong + (wrong >= true))

    def places(self, y: Any, n: int, name: str, k: int) -> Tensor:
        """Labels, numbers of outputs, as places among those that are read.

        A single output stands for the difference of two classes, whose places are 0 and 1.
        """
        labels = on_host(y)
        if labels.shape != (n,):
            raise InputError(f"{name} has shape {labels.shape}; it must be ({n},), one per example")
        if labels.dtype.kind not in "iu":
            raise InputError(
                f"{name} has dtype {labels.dtype}; labels must be integers, the numbers of outputs"
            )
        known = [0, 1] if k == 1 else self.numbers(k)
        missing = np.setdiff1d(labels, known)
        if missing.size:
            raise InputError(
                f"y has label {missing[0]}; labels are numbers of outputs, here {short(known)}"
            )
        if len(known) == 1:
            raise InputError("1 output is chosen; differences of outputs need at least 2")
        return torch.tensor([known.index(label) for label in labels.tolist()])


def pieces(n: int, size: int, tell: Tell = lambda share: None) -> Iterator[slice]:
    """0 to n in parts of a size; the last may be smaller. `tell` hears the share that is done."""
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield slice(start, stop)
        tell(stop / n)


def shifted(rows: slice, by: int) -> slice:
    """The same rows, counted from another first one."""
    return slice(rows.start + by, rows.stop + by)


class Examples:
    """Rows of an array or tensor, on the model's device and in its type when they are read.

    Real numbers take the type of the model's parameters. Whole numbers do too, but stay int64 if
    the model has an embedding, which reads them as tokens. Rows of a 2-D X are reshaped to
    `input_shape`, the shape of one example; `name` is for errors.
    """

    def __init__(
        self, X: Any, model: nn.Module, input_shape: tuple[int, ...] | None, name: str
    ) -> None:
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
        self.places: Tensor | None = None  # of their labels among the outputs, if labelled
        first = next(model.parameters(), None)
        if first is None:
            raise InputError("the model has 0 parameters; its kernel needs at least 1")
        self.device = first.device
        is_real = (
            self.X.is_floating_point() if isinstance(self.X, Tensor) else self.X.dtype.kind == "f"
        )
        reads_tokens = any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in model.modules())
        self.dtype = torch.int64 if reads_tokens and not is_real else first.dtype

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, rows: slice) -> Tensor:
        """These examples as a new tensor, in which the model may work in place."""
        part = self.X[rows]
        if not isinstance(part, Tensor):
            wide = part.dtype.kind == "f" and part.itemsize > 8  # unknown to torch
            part = torch.tensor(np.ascontiguousarray(part, np.float64 if wide else None))
        # the type first: not every device knows float64
        moved = part.to(self.dtype).to(self.device)
        return moved.reshape(len(part), *self.shape).clone()

    def few(self, count: int) -> Tensor:
        """The first `count` rows, over and over if there are fewer."""
        n = min(count, len(self))
        return self.rows(slice(n))[torch.arange(count) % n]


Selection = str | Iterable[str] | Callable[[str, nn.Parameter], bool] | None
"""Patterns of names, a predicate of name and parameter, or None for all."""


def chosen_parameters(model: nn.Module, selection: Selection = None) -> dict[str, nn.Parameter]:
    """The parameters with requires_grad=True that were chosen, by name, each once.

    A pattern chooses a parameter if it matches its name or the name of a module that holds it:
    "head.weight", "head", "blocks.0", "*.bias", "blocks.[0-3]". A parameter that modules share
    has several names, each of which will do.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise InputError(
            "the model has 0 parameters with requires_grad=True; its kernel needs at least 1"
        )
    for name, p in trained.items():
        if p.is_complex():
            raise InputError(
                f"parameter {short(name)} is {p.dtype}; the kernel needs real parameters"
            )
    if selection is None:
        return trained
    words = f"the trained parameters {short(list(trained))}"
    if callable(selection):
        found = {name: p for name, p in trained.items() if selection(name, p)}
        if not found:
            raise InputError(f"parameters={short(selection)} chose none of {words}")
        return found
    patterns: list[Any] = [selection] if isinstance(selection, str) else list(selection)
    if not patterns:
        raise InputError("parameters is empty; a kernel needs at least 1, or None for all")
    chosen: set[int] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"parameters has {short(pattern)}; pass names, patterns or a function")
        named = model.named_parameters(remove_duplicate=False)
        both = (pattern, f"{pattern}.*")  # of the parameter, and of a module that holds it
        matched = [p for name, p in named if any(fnmatchcase(name, each) for each in both)]
        if not matched:
            raise InputError(f"parameters={short(pattern)} matches none of {words}")
        if not any(p.requires_grad for p in matched):
            raise InputError(
                f"parameters={short(pattern)} matches frozen parameters only; call "
                "requires_grad_(True) on those that the kernel should cover"
            )
        chosen.update(id(p) for p in matched)
    return {name: p for name, p in trained.items() if id(p) in chosen}
