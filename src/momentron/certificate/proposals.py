"""What a solver hands in: a copy that it cannot reach, of the shape and type that is required."""

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
