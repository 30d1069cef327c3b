"""Data frames: names of columns and rows, categories and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.verify.outcomes import column_name


def is_frame(X: Any) -> bool:
    """Whether X is a pandas data frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def index_of(X: Any) -> Any:
    """The index of a pandas frame or series; None where X is not one."""
    return getattr(X, "index", None) if hasattr(X, "iloc") else None


def rows_of(X: Any) -> list[Any] | None:
    """The index of a pandas frame or series, unless it merely counts from 0."""
    index = index_of(X)
    if index is None:
        return None
    found = index.tolist()
    return None if found == list(range(len(found))) else found


def encoded(X: Any) -> Any:
    """A frame whose categories are dummies, one per level but the first; the rest as it is."""
    if not is_frame(X):
        return X
    kinds = [str(kind) for kind in X.dtypes]
    for name, kind in zip(X.columns, kinds, strict=True):
        if kind in ("object", "str", "string"):
            _refuse_text(X[name], name)
    if "category" not in kinds:
        return X
    import pandas as pd

    parts = []
    for j, (name, kind) in enumerate(zip(X.columns, kinds, strict=True)):
        column = X.iloc[:, j]
        if kind != "category":
            parts.append(column.rename(column_name(name)))
            continue
        if column.isna().any():
            raise InputError(
                f"column {short(name)} of X has {int(column.isna().sum())} missing values; drop "
                "those rows or make them a category of their own"
            )
        seen = column.cat.remove_unused_categories()
        for level in seen.cat.categories[1:]:
            parts.append((seen == level).astype(np.float64).rename(f"{column_name(name)}[{level}]"))
    if not parts:
        raise InputError("X has only categories with one level, so it has no column left")
    return pd.concat(parts, axis=1)


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
    counts = {name: int(data[name].isna().sum()) for name in names}
    listed = [f"{name} {count}" for name, count in counts.items() if count]
    if listed:
        gone = [name for name, count in counts.items() if count]
        texts = [name for name in gone if str(data[name].dtype) in ("object", "str", "string")]
        hint = (
            f" (if {texts[0]!r} says 'None' or 'NA' in the file and means it: pandas.read_csv(…, "
            "keep_default_na=False, na_values=[''])"
            if texts
            else ""
        )
        raise InputError(
            f"data has missing values, by column: {', '.join(listed)}; leave these rows out, "
            f"data.dropna(subset={gone}){hint and hint + ')'}"
        )
