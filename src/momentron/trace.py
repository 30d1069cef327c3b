"""The history of a solve, one row an iteration, in the units of X."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np


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
        Of the current iterate.
    lower, upper : float
        The best bounds met so far, as the method computed them: running estimates, without
        rounding bounds. The certificate of the result has them.
    evaluations : int
        Kernel values computed so far; none where there is no kernel.
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


class Trace:
    """Rows of a solve; converts to a dict of arrays, or to a pandas frame."""

    columns = tuple(field.name for field in fields(Row))

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def append(self, row: Row) -> None:
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in self.columns:
            raise KeyError(f"the trace has no column {column!r}; it has {list(self.columns)}")
        return np.array([getattr(row, column) for row in self._rows])

    def to_dict(self) -> dict[str, np.ndarray]:
        """Column name → array."""
        return {column: self[column] for column in self.columns}

    def to_pandas(self) -> Any:
        """A pandas frame; needs pandas to be installed."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError(
                "trace.to_pandas needs pandas: install it, or use trace.to_dict()"
            ) from None
        return pd.DataFrame([astuple(row) for row in self._rows], columns=list(self.columns))

    def __repr__(self) -> str:
        if not self._rows:
            return "Trace(empty)"
        last = self._rows[-1]
        return (
            f"Trace({len(self)} rows; last: iteration {last.iteration}, margin {last.margin:.6g}, "
            f"in [{last.lower:.6g}, {last.upper:.6g}])"
        )
