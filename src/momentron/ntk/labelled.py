"""Examples with labels as torch users have them (pairs, datasets and loaders), and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from momentron.errors import InputError, short
from momentron.ntk.inputs import Examples

BATCH = 256  # examples that are read, or pass through the model to be classified, at once

Data = Any
"""(X, y), a Dataset or a DataLoader: what gives examples with labels."""


class Labelled:
    """Examples with labels, as a model reads them.

    Parameters
    ----------
    pair : (X, y)
    model : Module
    input_shape : tuple of int, optional
    name : str
        For errors.
    """

    def __init__(
        self,
        pair: tuple[Any, Any],
        model: nn.Module,
        input_shape: tuple[int, ...] | None,
        name: str,
    ) -> None:
        self.examples = Examples(pair[0], model, input_shape, f"{name}[0]")
        self.y = on_host(pair[1])
        if self.y.shape != (len(self.examples),):
            raise InputError(
                f"{name} has {len(self.examples)} examples and labels of shape {self.y.shape}; "
                f"they must have shape ({len(self.examples)},)"
            )

    def __len__(self) -> int:
        return len(self.examples)

    def codes(self, classes: np.ndarray) -> Tensor:
        """The place of each label in the sorted classes."""
        return places_of(self.y, classes).to(self.examples.device)

    def network_error(self, model: nn.Module, classes: np.ndarray) -> float:
        """The share of examples that the network itself gets wrong; NaN outputs are an error."""
        wrong, codes = 0, self.codes(classes)
        with torch.no_grad():
            for start in range(0, len(self), BATCH):
                stop = min(start + BATCH, len(self))
                outputs = model(self.examples.rows(start, stop))
                require_outputs(outputs, stop - start, classes)
                if outputs.shape[1] == 1:
                    answers = (outputs[:, 0] > 0.0).long()
                else:
                    answers = outputs.argmax(dim=1)
                wrong += int((answers != codes[start:stop]).sum())
        return wrong / len(self)


def as_pair(data: Data, name: str) -> tuple[Any, Any]:
    """(X, y), in the order of the dataset; torch's random state is left as it was.

    A loader's own order, and what it leaves out (`drop_last`), is for training alone. A dataset
    that can only be iterated is read as its loader gives it.
    """
    if isinstance(data, Dataset | DataLoader):
        with torch.random.fork_rng([]):
            batches = [as_batch(batch, name) for batch in _in_order(data)]
        if not batches:
            raise InputError(f"{name} has 0 examples; it needs at least 1")
        X = torch.cat([torch.as_tensor(x) for x, _ in batches])
        return X, np.concatenate([on_host(y) for _, y in batches])
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(
            f"{name} is {type(data).__name__}; pass a pair (X, y), a Dataset or a DataLoader"
        )
    return data[0], data[1]


def as_batch(batch: Any, name: str) -> tuple[Any, Any]:
    """The two parts of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InputError(f"{name} gives {type(batch).__name__} as a batch; it must give (X, y)")
    return batch[0], batch[1]


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


def require_outputs(outputs: Any, n: int, classes: np.ndarray) -> None:
    """Refuse outputs that do not name one class per example."""
    k = classes.size
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != (n, k) and not (k == 2 and shape == (n, 1)):
        raise InputError(
            f"the outputs of {n} examples are {shape}; {k} classes need ({n}, {k})"
            + (f" or ({n}, 1)" if k == 2 else "")
        )
    if not bool(outputs.isfinite().all()):
        raise InputError(
            "the outputs of the network are not finite: training went astray; take a smaller lr"
        )


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Training and evaluation modes come back as they were, module by module."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _in_order(data: Dataset | DataLoader) -> Any:
    if not isinstance(data, DataLoader):
        return DataLoader(data, batch_size=BATCH)
    if isinstance(data.dataset, IterableDataset) or data.batch_size is None:
        return data
    return DataLoader(data.dataset, batch_size=data.batch_size, collate_fn=data.collate_fn)
