"""The problem as it is lent to a solver: whatever a solver does to it, the certificate's stays.

Each of our objects is copied, so that setting an attribute changes the copy alone; arrays are not
copied, which would cost as much as a solve, but lent as views that cannot be made writeable.
"""

from functools import cache
from typing import Any, cast

import numpy as np

PLAIN = frozenset((int, float, str, bool, type(None)))


def lend(value: Any) -> Any:
    """A copy of the value's objects, with read-only views of their arrays.

    A class whose objects guard themselves, and must be one and the same for all, says so with a
    class attribute ``is_lent_whole = True``.
    """
    return _lent(value, {})


def _lent(value: Any, seen: dict[int, Any]) -> Any:
    known = seen.get(id(value))
    if known is not None:
        return known
    kind: Any = type(value)
    lent = value
    if kind is np.ndarray or isinstance(value, np.ndarray):
        lent = read_only(value)
    elif kind is tuple or kind is list:
        lent = kind(item if type(item) in PLAIN else _lent(item, seen) for item in value)
    elif _is_copied(kind):
        lent = object.__new__(kind)
        seen[id(value)] = lent  # before its attributes, which may lead back to it
        attributes = lent.__dict__
        attributes.update(value.__dict__)
        for name, attribute in attributes.items():
            if type(attribute) not in PLAIN:
                attributes[name] = _lent(attribute, seen)
    seen[id(value)] = lent
    return lent


@cache
def _is_copied(kind: type) -> bool:
    """Whether objects of the class are copied: the library's, users' operators, sparse matrices."""
    if getattr(kind, "is_lent_whole", False) or not hasattr(kind, "__dict__"):
        return False
    modules = ("momentron.", "scipy.sparse.")
    return any(base.__module__.startswith(modules) for base in kind.__mro__)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that numpy refuses to make writeable again; of what has no buffer, a copy."""
    try:
        return np.asarray(memoryview(cast(Any, array)).toreadonly())
    except (ValueError, TypeError, BufferError):
        duplicate = array.copy()
        duplicate.flags.writeable = False
        return duplicate
