"""Tensors of torch as arrays on the host with the same values. torch itself is never imported."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError, one_line

BLOCK_BYTES = 1 << 24  # of the host's copy, where rows are converted in parts


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of torch, or of a class derived from it."""
    return is_instance(X, "torch", "Tensor")


def is_instance(thing: Any, module: str, name: str) -> bool:
    """Whether this is of a class, or of one derived from it; its module need not be loaded."""
    classes = type(thing).__mro__
    return any(base.__name__ == name and base.__module__ == module for base in classes)


def copied_bytes(X: Any) -> int:
    """Bytes that a copy of a dense matrix takes on the host: of a tensor whose type numpy lacks,
    or that is on another device. 0 for anything else, which is read where it is.
    """
    if not (is_tensor(X) and is_dense(X) and X.ndim == 2):
        return 0
    size = host_itemsize(X)
    is_readable = X.device.type == "cpu" and size == X.dtype.itemsize
    return 0 if is_readable and not (X.is_neg() or X.is_conj()) else X.numel() * size


def as_host(X: Any) -> Any:
    """The values of a tensor: an array of any shape, or a sparse matrix of scipy.

    What numpy can read is not copied, whether or not it requires gradients. Types that float32
    holds as well (bfloat16, float16, float8) become float64, and tensors on other devices come to
    the host.
    """
    if X.device.type == "meta":
        raise InputError("the tensor is on the meta device and has no values; pass a real one")
    try:
        with _torch().no_grad():
            return _values(X.detach()) if is_dense(X) else _sparse(X.detach())
    except InputError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"a tensor of type {X.dtype} and layout {X.layout} cannot be read as numbers: "
            f"{one_line(error)}"
        ) from error


def row_parts(X: Any) -> Iterator[tuple[int, Any]]:
    """(number of the first row, rows): X itself, or blocks of a tensor that must be converted."""
    if copied_bytes(X) == 0:
        yield 0, X
        return
    size = max(1, BLOCK_BYTES // (host_itemsize(X) * max(1, X.shape[1])))
    for start in range(0, X.shape[0], size):
        yield start, X[start : start + size]


def _torch() -> Any:
    return sys.modules["torch"]  # who has a tensor has loaded it


def is_dense(X: Any) -> bool:
    """Whether a tensor stores every entry."""
    return bool(X.layout == _torch().strided)


def host_itemsize(X: Any) -> int:
    """Bytes of an entry on the host."""
    return 8 if X.dtype.is_floating_point and X.dtype.itemsize < 4 else int(X.dtype.itemsize)


def _values(X: Any) -> np.ndarray:
    """A dense tensor on the host, where small floating types are widened: memory is cheaper."""
    X = X.cpu().resolve_conj().resolve_neg()
    if host_itemsize(X) > X.dtype.itemsize:
        X = X.to(_torch().float64)
    return np.asarray(X.numpy())


def _sparse(X: Any) -> Any:
    """A sparse tensor as scipy has it, stored entries and their places as they are."""
    torch = _torch()
    if X.ndim != 2:
        raise InputError(f"the sparse tensor has shape {tuple(X.shape)}; pass (n, d)")
    if X.layout in (torch.sparse_bsr, torch.sparse_bsc):
        X = X.to_sparse_coo()
    shape = tuple(X.shape)
    if X.layout == torch.sparse_csr:
        places = X.col_indices(), X.crow_indices()
        return sp.csr_array((_entries(X.values()), *map(_values, places)), shape=shape)
    if X.layout == torch.sparse_csc:
        places = X.row_indices(), X.ccol_indices()
        return sp.csc_array((_entries(X.values()), *map(_values, places)), shape=shape)
    rows, columns = _values(X._indices())  # also of a tensor with an entry twice
    return sp.coo_array((_entries(X._values()), (rows, columns)), shape=shape)


def _entries(values: Any) -> np.ndarray:
    if values.ndim != 1:
        raise InputError("the sparse tensor holds dense blocks; pass one number per entry")
    return _values(values)
