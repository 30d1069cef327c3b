"""The arrays that kernels are returned in: of numpy, or of torch on the model's device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentron.errors import InputError, short

_NUMPY = {np.dtype(np.float64): torch.float64, np.dtype(np.float32): torch.float32}
_TORCH = (torch.float64, torch.float32)


@dataclass(frozen=True)
class ResultType:
    """The type of a result, and the library that it belongs to.

    Attributes
    ----------
    dtype : torch.dtype
    is_tensor : bool
        A tensor on the model's device, else an array of numpy.
    """

    dtype: torch.dtype
    is_tensor: bool

    @classmethod
    def parse(cls, dtype: Any) -> ResultType:
        """From what users pass: None, or float64 or float32 of numpy or of torch."""
        if isinstance(dtype, torch.dtype):
            if dtype in _TORCH:
                return cls(dtype, True)
        else:
            try:
                found = np.dtype(np.float64 if dtype is None else dtype)
            except TypeError:
                found = np.dtype(object)
            if found in _NUMPY:
                return cls(_NUMPY[found], False)
        raise InputError(f"dtype={short(dtype)} must be float64 or float32, of numpy or of torch")

    def zeros(self, device: torch.device, *shape: int) -> Tensor:
        """Where a result is added up."""
        return torch.zeros(shape, dtype=self.dtype, device=device if self.is_tensor else "cpu")

    def finished(self, total: Tensor) -> Any:
        """The result as users get it; no copy."""
        return total if self.is_tensor else total.numpy()
