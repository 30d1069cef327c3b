"""Data frames: names of columns and rows, categories and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.verify.outcomes import column_name

TEXT = ("object", "str", "string")  # types of columns that may hold text


def is_frame(X: Any) -> bool:
    """Whether X is a pandas data frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def encoded(X: Any) -> Any:
    """A frame whose categories are dummies, one per level but the first; the rest as it is."""
    if not is_frame(X):
        return X
    kinds = [str(kind) for kind in X.dtypes]
    for name, kind in zip(X.columns, kinds, strict=True):
        if kind in TEXT:
            _refuse_text(X[name], name)
    if "category" not in kinds:
        return X
    import pandas as pd

    parts = []
    for name, column in X.items():
        if column.dtype != "category":
            parts.append(column.rename(column_name(name)))
            continue
        if column.isna().any():
            raise InputError(
                f"column {short(name)} of X has {int(column.isna().sum())} missing values; drop "
                "those rows or make them a category of their own"
            )
        seen = column.cat.remove_unused_categories()
        dummies = pd.get_dummies(seen, drop_first=True, dtype=np.float64)
        names = [f"{column_name(name)}[{level}]" for level in dummies.columns]
        parts.append(dummies.set_axis(names, axis=1))
    found = pd.concat(parts, axis=1)
    if not found.shape[1]:
        raise InputError("X has only categories with one level, so it has no column left")
    return found


def _refuse_text(column: Any, name: Any) -> None:
    """Refuse a column in which some cell is text that is not a number."""
    texts = [cell for cell in np.ravel(column.to_numpy(dtype=object)) if isinstance(cell, str)]
    for cell in texts:
        try:
            float(cell)
        except ValueError:
            raise InputError(
                f"column {short(name)} of X has text, such as {short(cell[:40])}; "
                f"X[{name!r}].astype('category') makes dummies of it, and so does a formula"
            ) from None


def require_complete(data: Any, names: list[str]) -> None:
    """Refuse a frame with missing values in some columns, and count them by column."""
    counts = data[names].isna().sum()
    counts = counts[counts > 0]
    if counts.empty:
        return
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    texts = [name for name in counts.index if str(data[name].dtype) in TEXT]
    hint = (
        f" (if {texts[0]!r} says 'None' or 'NA' in the file and means it: pandas.read_csv(…, "
        "keep_default_na=False, na_values=['']))"
        if texts
        else ""
    )
    raise InputError(
        f"data has missing values, by column: {listed}; leave these rows out, "
        f"data.dropna(subset={counts.index.tolist()}){hint}"
    )
