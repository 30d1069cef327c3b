"""What tells one run from another: its data by content, its method and options by value.

No memory address gets in: the same call in another process, or on another machine, has the same
identity. Functions and classes are known by their names, and by the values that they captured:
a checkpoint is a proposal, so that a function that was changed costs iterations, never truth.
"""

import functools
import hashlib
import pickle
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError, short
from momentron.rows.base import row_blocks
from momentron.rows.validation import TrainingData

PLAIN = (type(None), bool, int, float, complex, str, bytes, range)


def data_identity(data: TrainingData) -> dict[str, str]:
    """Rows and labels by content. Reads all of X once."""
    return {
        "shape": " × ".join(str(size) for size in data.X.shape),
        "classes": digest_of(data.classes.astype(str)),
        "labels": digest_of(data.codes.astype(np.int64)),
        "data": _digest_of_rows(data.X),
    }


def digest_of(*arrays: np.ndarray) -> str:
    """A hash of arrays: their types, shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()[:32]


def _digest_of_rows(X: Any) -> str:
    """The hash of all rows, whatever the layout in memory; a tile is copied at a time."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        return digest_of(np.array(X.shape), X.data, X.indices, X.indptr)
    total = hashlib.sha256(f"{X.dtype.str}{X.shape}".encode())
    for rows in row_blocks(X.shape[0], max(1, X.size // max(X.shape[0], 1))):
        total.update(np.ascontiguousarray(X[rows]).data)
    return total.hexdigest()[:32]


def parameters_of(solver: Any) -> str:
    """The parameters of a method, as text."""
    parts = [f"{name}={content_of(name, v)}" for name, v in sorted(vars(solver).items())]
    return ", ".join(parts)


def content_of(name: str, value: Any) -> str:
    """An option as text that is the same in every process; refused where there is none."""
    try:
        return _content(value)
    except (TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError) as error:
        shown = f"<{type(value).__qualname__}>" if " at 0x" in repr(value) else short(value)
        raise InputError(
            f"checkpoint cannot recognise {name}={shown} in another process: "
            f"{_plain(error)}; let it hold only numbers, text, arrays and functions of these, or "
            "leave checkpoint out"
        ) from None


def _content(value: Any) -> str:
    """A value as text: numbers as they are, functions by name and what they captured."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return f"array {digest_of(value)}"
    if kind in (list, tuple):
        return f"({', '.join(map(_content, value))})"
    if kind in (set, frozenset):
        return f"{{{', '.join(sorted(map(_content, value)))}}}"
    if kind is dict:
        pairs = sorted(f"{_content(key)}: {_content(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if kind in (BuiltinFunctionType, ModuleType, np.ufunc) or isinstance(value, type):
        return _name(value)
    if kind is FunctionType:
        captured = [cell.cell_contents for cell in value.__closure__ or ()]
        return _name(value) + _content([captured, value.__defaults__, value.__kwdefaults__])
    if kind is MethodType:
        return f"{_name(value.__func__)} of {_content(value.__self__)}"
    if kind is functools.partial:
        return f"partial {_content([value.func, value.args, value.keywords])}"
    is_plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    if is_plain and hasattr(value, "__dict__"):
        return f"{_name(kind)}({_content(vars(value))})"
    return f"{_name(kind)} {hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()[:32]}"


def _name(value: Any) -> str:
    module = getattr(value, "__module__", None) or "builtins"
    return f"{module}.{getattr(value, '__qualname__', None) or value.__name__}"


def _plain(error: BaseException) -> str:
    """The message of an error in one line, without addresses."""
    text = " ".join(str(error).split())
    return type(error).__name__ if "0x" in text or not text else text
