"""The rows that a user passed, and how the rows of a design were made from them."""

from __future__ import annotations

from collections.abc import Sequence
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
    names : list or None
        The index of a data frame, unless it merely counts from 0.
    index : pandas index or None
        The same as pandas has it; None where what was passed has no index.
    source : ndarray or None
        Of each row of the design, the position of the row that was passed; None where they are the
        same rows.
    frequencies : ndarray or None
        How often each row of the design was observed; None where weights or counts are not whole
        numbers, so that they are not frequencies.
    """

    n: int
    names: Sequence[Any] | None = None
    index: Any = None
    source: np.ndarray | None = None
    frequencies: np.ndarray | None = None

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
        kept = np.setdiff1d(np.arange(self.n), rows)
        if hasattr(frame, "iloc"):
            return frame.iloc[kept].copy()
        if hasattr(frame, "tocsr"):
            return frame.tocsr()[kept]
        if hasattr(frame, "itercolumns"):  # pyarrow
            return frame.take(kept)
        if isinstance(frame, list | tuple):
            return type(frame)(frame[i] for i in kept.tolist())
        return (frame if hasattr(frame, "__getitem__") else np.asarray(frame))[kept]

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
        index = getattr(frame, "index", None) if hasattr(frame, "iloc") else None
        if index is None or self.index is None or self.index.equals(index):
            return
        at = next(
            i for i, (a, b) in enumerate(zip(self.index, index, strict=True)) if not _same(a, b)
        )
        raise InputError(
            f"the index of frame is not that of the data that were checked: row {at} is "
            f"{index[at]!r} and was {self.index[at]!r}; pass the frame that was checked, in its "
            "order"
        )


def _same(first: Any, second: Any) -> bool:
    return bool(first == second) or (first != first and second != second)


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


def row_labels(given: Any) -> Any:
    """The index of the rows that a model of statsmodels, or the model of a result, has."""
    model = getattr(given, "model", given)
    labels = getattr(model.data, "row_labels", None)
    if labels is not None and len(labels) != len(model.exog):
        labels = labels[np.asarray(model.data.endog) > model.truncation]  # it drops the others
    return labels


def model_frequencies(given: Any) -> np.ndarray | None:
    """How often a model of statsmodels, or that of a result, says that each row was observed.

    Variance weights are frequencies only for proportions, which have their numbers of trials there.
    """
    model = getattr(given, "model", given)
    often = getattr(model, "freq_weights", None)
    if often is None:
        return None
    y = np.asarray(model.endog, np.float64)
    is_proportion = bool(((y != 0.0) & (y != 1.0)).any()) and np.all(
        getattr(model, "n_trials", 0) == 1
    )
    trials = model.var_weights if is_proportion else 1.0
    return np.asarray(often, np.float64) * trials
