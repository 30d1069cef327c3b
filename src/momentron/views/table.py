"""Rows of one dataclass, seen as columns."""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields
from numbers import Integral
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from momentron.errors import counted

R = TypeVar("R")


class Table(Generic[R]):
    """Rows: `table["column"]` is an array, `table[-1]` a row, `table[10:20]` a shorter table.

    A subclass is named, and given the dataclass of its rows, whose fields are the columns.
    """

    noun: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, *, noun: str, rows: Any) -> None:
        cls.noun, cls.columns = noun, tuple(field.name for field in fields(rows))

    def __init__(self, rows: Iterable[R] = ()) -> None:
        self._rows = list(rows)

    def append(self, row: R) -> None:
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: int) -> R: ...

    @overload
    def __getitem__(self, key: slice) -> Self: ...

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, slice):
            part = copy.copy(self)
            part._rows = self._rows[key]
            return part
        if isinstance(key, Integral):
            try:
                return self._rows[int(key)]
            except IndexError:
                raise IndexError(
                    f"the {self.noun} has {counted(len(self), 'row')}; no row {key}"
                ) from None
        if key not in self.columns:
            known = list(self.columns)
            raise KeyError(f"the {self.noun} has no column {key!r}; it has {known}")
        return np.array([getattr(row, key) for row in self._rows])

    def to_dict(self) -> dict[str, np.ndarray]:
        """Column name → array."""
        return {column: self[column] for column in self.columns}

    def to_pandas(self) -> Any:
        """A pandas frame."""
        import pandas as pd

        rows: Any = self._rows  # of a dataclass, which no type can say
        return pd.DataFrame([astuple(row) for row in rows], columns=list(self.columns))
