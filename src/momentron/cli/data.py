"""What every command needs of its data: a file, a named set, or the bundled digits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentron import datasets
from momentron.datafiles import read_whole
from momentron.errors import InputError

DataArgument = Annotated[
    str | None,
    typer.Argument(
        help="CSV, TSV, svmlight, NPZ, NPY or Parquet file (also .gz, .bz2), or the name of a "
        "known set; scikit-learn's ten digits where absent."
    ),
]
TargetOption = Annotated[str | None, typer.Option(help="Label column: a name or a position.")]
ClassesOption = Annotated[
    tuple[str, str] | None, typer.Option(help="Keep the rows of these two classes.")
]


@dataclass(frozen=True)
class LoadedData:
    """X, y, and what to call them."""

    X: Any
    y: np.ndarray
    title: str
    feature_names: list[str] | None = None


def load_data(
    source: str | None, target: str | None, classes: tuple[str, str] | None
) -> LoadedData:
    """DATA of the command line: a path, the name of a known set, or nothing (the ten digits)."""
    if source is None:
        return _named("digits", classes)
    if not Path(source).exists() and source in datasets.DATASETS:
        return _named(source, classes)
    file = read_whole(source, target, classes)
    return LoadedData(file.X, file.y, Path(source).name, file.feature_names)


def _named(name: str, classes: tuple[str, str] | None) -> LoadedData:
    bunch = datasets.load(name)
    X, y = bunch.X, np.asarray(bunch.y)
    if classes is None:
        return LoadedData(X, y, name)
    labels = y.astype(str)
    for label in classes:
        if label not in labels:
            known = ", ".join(sorted(set(labels)))
            raise InputError(f"{name} has no class {label!r}; its classes are {known}")
    keep = np.isin(labels, classes)
    return LoadedData(X[keep], y[keep], f"{name}, {classes[0]} against {classes[1]}")
