"""A table as a pandas data frame, for formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from momentron.data.files._common import fail, some
from momentron.data.files.layout import find_layout
from momentron.data.files.lines import split_lines
from momentron.data.files.options import TableOptions
from momentron.data.files.readers import open_file
from momentron.data.files.table import read_columns, text_of


def read_frame(
    path: str | PathLike[str],
    options: TableOptions,
    columns_used: Callable[[list[str]], list[str]],
) -> tuple[Any, list[str]]:
    """(a data frame of a CSV, TSV or TXT file with a header, what was found in it).

    Rows with a missing value in a column that is used, of all that there are, or in the weights
    are refused, or left out if the options say so.
    """
    shown = str(path)
    try:
        import pandas as pd
    except ImportError as error:
        fail(shown, "needs pandas for a formula; run: pip install pandas", error)
    for name in ("target", "columns", "drop", "dummies", "failures"):
        if getattr(options, name) not in (None, (), False):
            fail(shown, f"takes no --{name} beside --formula, which names its own columns")
    plain, content = open_file(path)
    if plain not in (".csv", ".tsv", ".txt"):
        fail(shown, f"has suffix {plain!r}; --formula reads .csv, .tsv and .txt")
    lines = split_lines(shown, text_of(shown, content))
    layout = find_layout(shown, lines, options, {".csv": ",", ".tsv": "\t"}.get(plain))
    if not layout.is_header:
        fail(shown, "has no header, so a formula cannot name its columns")
    table = read_columns(shown, lines, layout, options, labels_as_text=False)
    twice = [name for name, count in Counter(table.names).items() if count > 1]
    if twice:
        fail(shown, f"has several columns called {some(twice)}; a formula needs one name for each")
    frame = pd.DataFrame({column.name: _values(column) for column in table.columns})
    if table.row_names is not None:
        frame.index = table.row_names
    named = {*columns_used([column.name for column in table.columns]), options.weight}
    used = [c for c in table.columns if c.name in named]
    gone = np.zeros(len(frame), bool)
    for column in used:
        gone |= column.missing
    if not gone.any():
        return frame, table.notes
    listed = [f"{c.name} {int(c.missing.sum())}" for c in used if c.missing.any()]
    if not options.drop_na:
        fail(
            shown,
            f"has missing values in {int(gone.sum())} of {gone.size} rows, by column: "
            f"{some(listed)}; leave these rows out with --drop-na",
        )
    note = f"{int(gone.sum())} of {gone.size} rows left out, missing values: {some(listed)}"
    return frame[~gone], [*table.notes, note]


def _values(column: Any) -> Any:
    """What a formula sees: numbers, truth values where all are there, or text."""
    if column.kind == "boolean" and not column.missing.any():
        return column.values.astype(bool)
    if column.kind != "text":
        return column.values
    return [
        None if is_gone else v for v, is_gone in zip(column.values, column.missing, strict=True)
    ]
