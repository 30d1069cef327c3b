"""The rows that a user passed, and how the rows of a design were made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.errors import InputError

LARGEST_SUM = 2**53  # up to which floats add whole numbers without a rounding


@dataclass(frozen=True, eq=False)
class GivenRows:
    """What a row of a design is called by the user, who may have passed a table of counts.

    Attributes
    ----------
    n : int
        How many rows were passed.
    index : pandas index, list or None
        What they are called; None where what was passed has no index.
    source : ndarray or None
        Of each row of the design, the position of the row that was passed; None where they are the
        same rows.
    frequencies : ndarray or None
        How often each row of the design was observed; None where weights or counts are not whole
        numbers, so that they are not frequencies.
    """

    n: int
    index: Any = None
    source: np.ndarray | None = None
    frequencies: np.ndarray | None = None

    @property
    def names(self) -> list[Any] | None:
        """The index, unless it merely counts from 0."""
        names = None if self.index is None else list(self.index)
        return None if names == list(range(self.n)) else names

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The rows that were passed from which some rows of the design were made, in order."""
        return np.unique(self.each_of(rows))

    def each_of(self, rows: np.ndarray) -> np.ndarray:
        """Of each of some rows of the design, the row that was passed."""
        return rows if self.source is None else self.source[rows]

    def counted(self, rows: np.ndarray) -> int:
        """How many observations some rows of the design are; rows, if there are no frequencies."""
        if self.frequencies is None:
            return int(self.of(rows).size)
        return int(self.frequencies[rows].sum())

    def without(self, frame: Any, rows: np.ndarray) -> Any:
        """A copy of a frame or array with the rows that were passed, less some of these."""
        self._require_same_rows(frame)
        kept = take_rows(frame, np.setdiff1d(np.arange(self.n), rows))
        return kept.copy() if hasattr(frame, "iloc") else kept

    def _require_same_rows(self, frame: Any) -> None:
        """Refuse a frame or array that does not have the rows that were passed, in their order."""
        shape = np.shape(frame)
        n = shape[0] if shape else None
        if n != self.n:
            has = "is not a table" if n is None else f"has {n} rows"
            raise InputError(
                f"the verdict is about {self.n} rows and frame {has}; pass the frame that was "
                "checked, after the same dropna()"
            )
        index = index_of(frame)
        if index is None or self.index is None or index.equals(self.index):
            return
        both = enumerate(zip(self.index, index, strict=True))
        at, (was, now) = next((i, (a, b)) for i, (a, b) in both if a != b and (a == a or b == b))
        raise InputError(
            f"the index of frame is not that of the data that were checked: row {at} is {now!r} "
            f"and was {was!r}; pass the frame that was checked, in its order"
        )


def index_of(X: Any) -> Any:
    """The index of a pandas frame or series; None where X is not one."""
    return getattr(X, "index", None) if hasattr(X, "iloc") else None


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, matrix, array or list, as the same kind of thing."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if hasattr(X, "itercolumns"):  # pyarrow
        return X.take(rows)
    if isinstance(X, list | tuple):
        return type(X)(X[i] for i in rows.tolist())
    return (X if hasattr(X, "__getitem__") else np.asarray(X))[rows]


def whole_frequencies(*factors: Any) -> np.ndarray | None:
    """The product of counts and weights where it has whole numbers only; else None.

    Weights that cannot be read are refused elsewhere.
    """
    try:
        product = np.prod(
            np.broadcast_arrays(*(np.asarray(f, np.float64) for f in factors)), axis=0
        )
    except (TypeError, ValueError, OverflowError):
        return None
    if not (np.isfinite(product).all() and 0.0 <= product.sum() < LARGEST_SUM):
        return None
    near = np.rint(product)
    # a share of successes times the number of trials misses a whole number by a rounding
    return near.astype(np.int64) if (np.abs(product - near) <= 1e-9 * near).all() else None
