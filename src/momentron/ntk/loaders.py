"""Labelled examples as torch users have them: pairs, datasets and loaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from momentron.errors import InputError

BATCH = 256  # examples of a dataset that are read at once

Data = Any
"""(X, y), a Dataset or a DataLoader: what gives examples with labels."""


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
        return X, np.concatenate([labels_of(y) for _, y in batches])
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


def labels_of(y: Any) -> np.ndarray:
    return np.asarray(y.detach().cpu().numpy() if isinstance(y, Tensor) else y)


def _in_order(data: Dataset | DataLoader) -> Any:
    if not isinstance(data, DataLoader):
        return DataLoader(data, batch_size=BATCH)
    if isinstance(data.dataset, IterableDataset) or data.batch_size is None:
        return data
    return DataLoader(data.dataset, batch_size=data.batch_size, collate_fn=data.collate_fn)
