"""A design: the rows and labels of a regression, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.verify.data import ungrouped


@dataclass(frozen=True, eq=False)
class Design:
    """What a verdict is asked of, whatever it was made from.

    Attributes
    ----------
    X : array, sparse matrix or data frame of numbers, shape (n, d)
        Without the intercept.
    y : array of shape (n,)
    sample_weight : array of shape (n,) or None
    fit_intercept : bool or None
        Whether the model has an intercept; None where its source does not say.
    family : str or None
        Likewise.
    feature_names : list of str or None
    row_names : list or None
        The index of a data frame, or the row of the grouped data from which each row was made; None
        where rows have no names but their numbers.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    fit_intercept: bool | None = None
    family: str | None = None
    feature_names: list[str] | None = None
    row_names: Sequence[Any] | None = None

    def named(self, feature_names: Sequence[str] | None) -> list[str] | None:
        """The names of the features: those given, which must be one per column, or its own."""
        if feature_names is None:
            return self.feature_names
        if isinstance(feature_names, str) or not np.iterable(feature_names):
            raise InputError(f"feature_names={short(feature_names)} must be a list of names")
        names = [str(name) for name in feature_names]
        if len(names) != np.shape(self.X)[1]:
            raise InputError(
                f"feature_names has {len(names)} names; X has {np.shape(self.X)[1]} columns"
            )
        return names

    def ungrouped(self) -> Design:
        """With one row per outcome that was seen, where y has counts of outcomes per row."""
        found = ungrouped(self.y, self.sample_weight)
        if found is None:
            return self
        rows, labels, weights = found
        if np.shape(self.X)[0] != np.shape(self.y)[0]:
            raise InputError(
                f"X has {np.shape(self.X)[0]} rows but y has {np.shape(self.y)[0]}; they must agree"
            )
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else _take(self.X, rows)
        names = range(np.shape(self.y)[0]) if self.row_names is None else self.row_names
        return replace(
            self, X=X, y=labels, sample_weight=weights, row_names=[names[i] for i in rows]
        )


def _take(X: Any, rows: np.ndarray) -> Any:
    if isinstance(X, list | tuple):
        return [X[i] for i in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else np.asarray(X))[rows]
