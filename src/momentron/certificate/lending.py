"""The problem as it is lent to a solver: whatever a solver does to it, the certificate's stays.

Each of our objects is copied, so that setting an attribute changes the copy alone; arrays are not
copied, which would cost as much as a solve, but lent as views that cannot be made writeable.
"""

import copy
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

PLAIN = (int, float, str, bool, type(None))


def lend(value: Any) -> Any:
    """A copy of the value's objects, with read-only views of their arrays.

    A class whose objects guard themselves, and must be one and the same for all, says so with a
    class attribute ``is_lent_whole = True``.
    """
    return _lent(value, {})


def _lent(value: Any, seen: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, np.ndarray):
        lent = read_only(value)
    elif kind in (tuple, list):
        lent = kind(_lent(item, seen) for item in value)
    elif sp.issparse(value):
        lent = _attributes_lent(copy.copy(value), seen)
    elif _is_ours(kind) and not getattr(kind, "is_lent_whole", False):
        lent = object.__new__(kind)
        seen[id(value)] = lent  # before its attributes, which may lead back to it
        lent.__dict__.update(value.__dict__)
        _attributes_lent(lent, seen)
    else:
        lent = value
    seen[id(value)] = lent
    return lent


def _attributes_lent(thing: Any, seen: dict[int, Any]) -> Any:
    for name, value in thing.__dict__.items():
        if type(value) not in PLAIN:
            thing.__dict__[name] = _lent(value, seen)
    return thing


def _is_ours(kind: type) -> bool:
    """Whether the class is one of the library's, or derives from one; users add operators."""
    return hasattr(kind, "__dict__") and any(
        base.__module__.startswith("momentron.") for base in kind.__mro__
    )


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that numpy refuses to make writeable again; of what has no buffer, a copy."""
    try:
        return np.asarray(memoryview(cast(Any, array)).toreadonly())
    except (ValueError, TypeError, BufferError):  # text and objects
        duplicate = array.copy()
        duplicate.flags.writeable = False
        return duplicate
