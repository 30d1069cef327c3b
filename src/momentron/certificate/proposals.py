"""What a solver is handed: arrays that are read-only; and what it hands in: checked copies."""

from typing import Any

import numpy as np

from momentron.errors import SolverError


def admitted(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A private copy of a proposed w or q, as float64, or in extended precision if it came so.

    Values that are not finite pass: they bound nothing, which is what the bounds will say.

    Raises
    ------
    SolverError
        Unless it is an array of real numbers of exactly this shape.
    """
    try:
        copy = np.array(values, copy=True, order="C", subok=False)
    except (TypeError, ValueError) as error:
        raise SolverError(f"{name} is not an array of numbers: {error}") from None
    if copy.dtype.kind not in "fiu" or copy.shape != shape:
        raise SolverError(
            f"{name} has type {copy.dtype} and shape {copy.shape}; this problem needs real numbers "
            f"of shape {shape}"
        )
    return copy if copy.dtype == np.longdouble else copy.astype(np.float64, copy=False)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that numpy refuses to make writeable again; of what has no buffer, a copy."""
    try:
        return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
    except (ValueError, TypeError, BufferError):
        duplicate = array.copy()
        duplicate.flags.writeable = False
        return duplicate
