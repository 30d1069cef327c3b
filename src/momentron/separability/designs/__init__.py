"""Designs: what users pass (arrays, frames, formulas, fitted models, counts) as rows and labels."""

from typing import Any

import numpy as np

from momentron.errors import InputError, counted, short
from momentron.separability.designs.design import Design, index_of
from momentron.separability.designs.design_formulas import TEXT, from_formula, is_frame
from momentron.separability.designs.fitted import from_statsmodels, is_statsmodels
from momentron.verify.outcomes import column_name, column_names

__all__ = ["Design", "read_design"]


def read_design(
    X: Any,
    y: Any = None,
    *,
    data: Any = None,
    sample_weight: Any = None,
    decimals: str = "shortest",
) -> Design:
    """The rows and labels of arrays, frames, a formula or a model of statsmodels.

    Parameters
    ----------
    X, y, data, sample_weight, decimals
        As in `check_separability`; a Design is returned as it is.

    Returns
    -------
    Design
        With one row per outcome that was seen.

    Examples
    --------
    >>> design = read_design([[0.0], [1.0]], [[3, 0], [1, 2]])  # successes, failures
    >>> design.X, design.y.tolist(), design.row_names
    ([[0.0], [1.0], [1.0]], [1, 1, 0], [0, 1, 1])
    """
    if isinstance(X, Design):
        if not (y is None and data is None and sample_weight is None):
            raise InputError("a Design has its own y and weights; leave y, data and weights out")
        return X
    is_formula, is_model = isinstance(X, str) and "~" in X, is_statsmodels(X)
    if y is not None and (is_formula or is_model):
        raise InputError("a formula or a model has its own y; leave y out")
    if is_formula:
        return from_formula(X, data, decimals, sample_weight)
    if data is not None:
        raise InputError("data= goes with a formula, such as check_separability('y ~ x', data=…)")
    if is_model:
        if sample_weight is not None:
            raise InputError("a model of statsmodels has its own weights; leave sample_weight out")
        return from_statsmodels(X)
    for name, given in (("X", X), ("y", y)):
        if isinstance(given, str):
            raise InputError(
                f"{name}={short(given)} is text; pass numbers and labels, as in check_separability("
                f"frame.drop(columns='outcome'), frame['outcome']), or a formula with data=frame"
            )
    if y is None:
        raise InputError("y is None; pass one label for each row, or a formula with data=")
    if isinstance(sample_weight, str):
        raise InputError(f"sample_weight={short(sample_weight)} is not a column of data")
    index = index_of(y) if index_of(X) is None else index_of(X)
    X = _encoded(X)
    return Design.of(X, y, sample_weight, index=index, feature_names=column_names(X))


def _encoded(X: Any) -> Any:
    """A frame whose categories are dummies, one per level but the first; the rest as it is."""
    if not is_frame(X):
        return X
    for name, column in X.items():
        if str(column.dtype) in TEXT:
            _refuse_text(column, name)
    if "category" not in map(str, X.dtypes):
        return X
    import pandas as pd

    parts = []
    for name, column in X.items():
        if column.dtype != "category":
            parts.append(column.rename(column_name(name)))
            continue
        missing = int(column.isna().sum())
        if missing:
            raise InputError(
                f"column {short(name)} of X has {counted(missing, 'missing value')}; "
                "drop those rows or make them a category of their own"
            )
        seen = column.cat.remove_unused_categories()
        dummies = pd.get_dummies(seen, drop_first=True, dtype=np.float64)
        parts.append(dummies.add_prefix(f"{column_name(name)}[").add_suffix("]"))
    found = pd.concat(parts, axis=1)
    if not found.shape[1]:
        raise InputError("X has only categories with one level, so it has no column left")
    return found


def _refuse_text(column: Any, name: Any) -> None:
    """Refuse a column in which some cell is text that is not a number."""
    for cell in (cell for cell in column if isinstance(cell, str)):
        try:
            float(cell)
        except ValueError:
            raise InputError(
                f"column {short(name)} of X has text, such as {short(cell[:40])}; "
                f"X[{name!r}].astype('category') makes dummies of it, and so does a formula"
            ) from None
