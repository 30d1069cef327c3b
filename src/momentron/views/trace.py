"""Tables: rows of one dataclass, seen as columns; and the history of a solve, which is one."""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from momentron.certificate.picture import card
from momentron.errors import counted
from momentron.views.markup import rows_table

SHOWN = 12  # rows of a long trace in a notebook

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

    def __contains__(self, key: object) -> bool:
        return key in self.columns if isinstance(key, str) else key in self._rows

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

        return pd.DataFrame(self._rows, columns=list(self.columns))


@dataclass(frozen=True)
class Row:
    """One iteration.

    Attributes
    ----------
    iteration, passes : int
        Iterations done, and passes over the data spent.
    seconds : float
        Since the start; printing and callbacks are not counted.
    margin : float
        The margin of the current iterate.
    lower, upper : float
        The best bounds so far, as the method computed them: running estimates, without
        rounding bounds, which only the certificate of the result has.
    evaluations : int
        Kernel values computed so far; 0 without a kernel.
    theorem_lower, theorem_upper : float
        The interval of the method's own theory at this iteration; NaN for methods without one.
    """

    iteration: int
    seconds: float
    passes: int
    margin: float
    lower: float
    upper: float
    evaluations: int = 0
    theorem_lower: float = float("nan")
    theorem_upper: float = float("nan")


class Trace(Table[Row], noun="trace", rows=Row):
    """Rows of a solve; converts to a dict of arrays, or to a pandas frame.

    `trace["margin"]` is a column, `trace[-1]` the last row, and `trace[100:200]` a shorter trace.

    Parameters
    ----------
    every : int
        Keep one iteration in this many, and always the first and the last.

    Attributes
    ----------
    n_iter : int
        Iterations so far, kept or not.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        self._every = every
        self.n_iter = 0

    @property
    def wants_row(self) -> bool:
        """Whether the present iteration is one of those that are kept."""
        return self.n_iter == 1 or self.n_iter % self._every == 0

    def __repr__(self) -> str:
        if not self._rows:
            return "Trace(empty)"
        last = self._rows[-1]
        return (
            f"Trace({counted(len(self), 'row')}; last: iteration {last.iteration}, margin "
            f"{last.margin:.6g}, in [{last.lower:.6g}, {last.upper:.6g}])"
        )

    def _repr_html_(self) -> str:
        if not self._rows:
            return "<div><strong>Trace</strong>: empty</div>"
        last, count = self._rows[-1], len(self._rows)
        # the first row, the last, and some between, ever further apart
        shown = sorted({0, *(round((count - 1) ** (k / (SHOWN - 1))) for k in range(SHOWN))})
        names = ("iteration", "seconds", "passes", "margin", "lower", "upper")
        rows = [[getattr(self._rows[k], name) for name in names] for k in shown if k < count]
        work = f"{counted(count, 'row')}, {counted(last.passes, 'pass')} in {last.seconds:.3g} s"
        words = f"{work}. These are running estimates; the certificate of the result is proven"
        lower, upper = sorted((last.lower, last.upper))
        return card("Trace", words, max(lower, 0.0), upper, rows_table(names, rows))
