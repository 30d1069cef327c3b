"""What the readers share: the result, the one-line error, labels and positions."""

from __future__ import annotations

import bz2
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import index
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from momentron.data.files.table_options import FeatureColumns
from momentron.data.safefiles import reason, require_regular
from momentron.errors import InputError, counted, one_line, short

LABEL_NAMES = frozenset({"target", "label", "class", "y"})
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, eq=False)
class DataFile:
    """A data file in memory."""

    X: Any  # ndarray of float64 or csr_matrix of shape (n_samples, n_features), all finite
    y: NDArray[Any]  # labels, as `labels` has them; or (n_samples, 2): successes and failures
    feature_names: list[str] | None = None  # where the file names its columns
    row_names: list[str] | None = None  # of a table; or row numbers, if some rows were left out
    weights: NDArray[np.float64] | None = None
    taken: list[str] = field(default_factory=list)  # what was taken as what, for a user to see
    columns: FeatureColumns | None = None  # which columns of a table are the features
    ignored: list[str] = field(default_factory=list)  # columns that are not features of the model
    kept: NDArray[np.bool_] | None = None  # which rows these are, where some were left out


def fail(shown: str, what: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the one-line error of a file."""
    raise InputError(f"{one_line(shown, 120)} {what}") from cause


def require_file(path: str | Path, shown: str | None = None) -> None:
    """Refuse what is not a regular file before it is opened: a pipe would block for ever."""
    shown = str(path) if shown is None else shown
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        fail(shown, "does not exist; check the path")
    except (OSError, ValueError) as error:  # a folder on the way that may not be entered
        fail(shown, f"cannot be reached: {reason(error)}", error)
    require_regular(found, shown)


def unpacked(path: Path) -> bytes:
    """The content of a file, decompressed by its suffix."""
    content = path.read_bytes()
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix.lower())
    return unpack(content) if unpack and content else content


def position(
    shown: str,
    target: str | int,
    names: list[str] | None,
    width: int = 0,
    what: str = "target",
) -> int:
    """Return the column that a target names, or counts to."""
    if isinstance(target, str) and names is not None and target in names:
        if names.count(target) > 1:
            fail(
                shown, f"has {names.count(target)} columns called {short(target)}; give a position"
            )
        return names.index(target)
    width = width or len(names or ())
    try:
        # A command line has only strings: "-1" is a position.
        place = int(target) if isinstance(target, str) else index(target)
    except (ValueError, TypeError):
        listed = some(names) if names else "it has no header, so give a position"
        fail(shown, f"has no column {short(target)}; its columns: {listed}")
    if not -width <= place < width:
        fail(
            shown,
            f"has {counted(width, 'column')}; {what} {place} must be from {-width} to {width - 1}",
        )
    return place % width


def match_columns(shown: str, wanted: Sequence[str], present: Sequence[str]) -> list[int]:
    """Return the positions of the columns that a model was fitted to, in the model's order."""
    counts = Counter(present)
    missing = [name for name in wanted if not counts[name]]
    if missing:
        fail(
            shown,
            f"lacks {len(missing)} of the {len(wanted)} columns that the model was fitted to: "
            f"{some(missing)}; its columns: {some(present)}",
        )
    twice = [name for name in wanted if counts[name] > 1]
    if twice:
        fail(shown, f"has several columns called {some(twice)}; the model was fitted to one")
    places = {name: place for place, name in enumerate(present)}
    return [places[name] for name in wanted]


def is_number(cell: str) -> bool:
    """Say whether a cell reads as a number, nan and inf among them."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000, files do not mean it


def labels(shown: str, values: Any) -> NDArray[Any]:
    """Return labels as int where all are whole, as float where all are numbers, else as str."""
    found = np.asarray(values)
    if found.dtype.kind in "iu":
        return found
    if found.dtype.kind not in "bfUS":
        fail(shown, f"has labels of type {found.dtype}; give numbers or text")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            fail(shown, "has a missing or infinite label; remove that row")
        # Above 2^53 distinct whole numbers share a float.
        is_whole = (found == np.rint(found)).all() and (np.abs(found) < 2.0**53).all()
        return found.astype(np.int64) if is_whole else found
    texts, codes = np.unique(found.astype(str), return_inverse=True)
    return _as_numbers(texts)[codes.ravel()]


def _as_numbers(texts: NDArray[np.str_]) -> NDArray[Any]:
    """Return texts as numbers where each is one, and different ones stay different."""
    cells = texts.tolist()
    if not all(is_number(cell) and np.isfinite(float(cell)) for cell in cells):
        return texts
    numbers = np.array([float(cell) for cell in cells])
    exact = {exact_key(cell) for cell in cells}
    # Above 2^53 distinct whole numbers share a float, so long identifiers stay text.
    if not (np.abs(numbers) < 2.0**53).all() or len(exact) > np.unique(numbers).size:
        return texts
    is_whole = all(number == int(number) for number in exact)
    return numbers.astype(np.int64) if is_whole else numbers


def exact_key(label: Any) -> Any:
    """Return what tells a label from others: its value where it reads as a number ("1" is 1.0)."""
    text = str(label).strip()
    return Decimal(text) if is_number(text) and np.isfinite(float(text)) else text


def some(names: Sequence[Any], limit: int = 12, width: int = 160) -> str:
    """Return the first few names, and how many there are."""
    listed: list[str] = []
    for name in names[:limit]:
        listed.append(one_line(name, 40))
        if sum(map(len, listed)) > width:
            break
    return ", ".join(listed) + (f", … ({len(names)} in all)" if len(names) > len(listed) else "")
