"""Examples with labels, and what a network makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from momentron.errors import InputError, short
from momentron.ntk.inputs import Examples

BATCH = 256  # examples that pass through the model to be classified at once

Data = Any
"""(X, y): examples with labels."""


class Labelled(NamedTuple):
    """Examples X and their labels y."""

    X: Any
    y: np.ndarray


def as_labelled(data: Data, name: str) -> Labelled:
    """A pair of as many examples as labels."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(f"{name} is {type(data).__name__}; pass a pair (X, y)")
    X, y = data[0], on_host(data[1])
    if y.shape != (len(X),):
        raise InputError(
            f"{name} has {len(X)} examples and labels of shape {y.shape}; "
            f"they must have shape ({len(X)},)"
        )
    return Labelled(X, y)


def on_host(values: Any) -> np.ndarray:
    """An array of numpy, wherever the values are."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        if values.dtype is torch.bfloat16:  # unknown to numpy
            values = values.float()
    return np.asarray(values)


def places_of(y: np.ndarray, classes: np.ndarray) -> Tensor:
    """The place of each label in the sorted classes."""
    places = np.searchsorted(classes, y).clip(0, classes.size - 1)
    wrong = classes[places] != y
    if wrong.any():
        raise InputError(
            f"train has label {short(y[wrong][0])}; the classes are {classes.tolist()}"
        )
    return torch.tensor(places)


def network_error(
    model: nn.Module, examples: Examples, y: np.ndarray, classes: np.ndarray
) -> float:
    """The share of examples that the network itself gets wrong; NaN outputs are an error."""
    wrong = 0
    for start in range(0, len(examples), BATCH):
        stop = min(start + BATCH, len(examples))
        outputs = class_outputs(model, examples.rows(start, stop), classes)
        answers = (outputs[:, 0] > 0.0) if outputs.shape[1] == 1 else outputs.argmax(dim=1)
        wrong += int(np.sum(classes[answers.long().cpu().numpy()] != y[start:stop]))
    return wrong / len(examples)


def class_outputs(model: nn.Module, x: Tensor, classes: np.ndarray) -> Tensor:
    """The outputs of some examples, which must name one class per example."""
    with torch.no_grad():
        outputs = model(x)
    n, k = len(x), classes.size
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != (n, k) and not (k == 2 and shape == (n, 1)):
        raise InputError(
            f"the outputs of {n} examples are {shape}; {k} classes need ({n}, {k})"
            + (f" or ({n}, 1)" if k == 2 else "")
        )
    if not bool(outputs.isfinite().all()):
        raise InputError(
            "the outputs of the network are not finite: training diverged; use a smaller lr"
        )
    return outputs


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Training and evaluation modes come back as they were, module by module."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
