"""Rows of one dataclass, seen as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

R = TypeVar("R")


class Table(Generic[R]):
    """Rows; `table[column]` is an array. Subclasses hold them in `_rows`, and name themselves."""

    noun: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    _rows: Sequence[R]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in self.columns:
            known = list(self.columns)
            raise KeyError(f"the {self.noun} has no column {column!r}; it has {known}")
        return np.array([getattr(row, column) for row in self._rows])

    def to_dict(self) -> dict[str, np.ndarray]:
        """Column name → array."""
        return {column: self[column] for column in self.columns}

    def to_pandas(self) -> Any:
        """A pandas frame; needs pandas to be installed."""
        try:
            import pandas as pd
        except ImportError:
            noun = self.noun
            raise ImportError(
                f"{noun}.to_pandas needs pandas: install it, or use {noun}.to_dict()"
            ) from None
        rows: Any = self._rows  # of a dataclass, which no type can say
        return pd.DataFrame([astuple(row) for row in rows], columns=list(self.columns))
