"""`momentron predict`: labels or decision values of new rows, by a model of `fit --save`."""

import csv
import io
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentron.cli.data import PLAIN, with_table_options
from momentron.cli.output import print_data, require_reader, say, try_to_write
from momentron.data.files import TableOptions
from momentron.data.files.features import read_rows
from momentron.data.safefiles import open_regular, reason, require_writable
from momentron.errors import InputError
from momentron.estimators import labels_of
from momentron.rows.kernels import Kernel, as_kernel

NUMBERS = ("coef", "intercept")
BLOCK = 1 << 22  # kernel values that are computed at a time


@with_table_options("drop_na", "dummies", "weight", "failures")
def predict(
    model: Annotated[Path, typer.Argument(help="A model that `momentron fit --save` wrote.")],
    data: Annotated[
        str, typer.Argument(help="The rows: any file that `fit` reads, labels or not.")
    ],
    target: Annotated[
        str | None, typer.Option(help="Label column, if there is one: a name or a position.")
    ] = None,
    table: TableOptions = PLAIN,
    decision: Annotated[
        bool, typer.Option("--decision", help="Decision values instead of labels.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the CSV here, not to the output.")
    ] = None,
) -> None:
    """Classify rows with a saved model; the answer is CSV with one line per row.

    A row of a table with a missing feature has an empty line, "", so that lines match rows.

    A table with as many columns as the model has features has no labels; one with a column more
    has them, and then the errors are counted on standard error.
    """
    if out is None:
        require_reader()
    else:
        require_writable(out)
    loaded = load_model(model)
    options = replace(table, levels=loaded.levels) if loaded.levels else table
    rows = read_rows(data, loaded.n_features, target=target, options=options)
    values = loaded.decide(rows.X)
    labels = labels_of(values, loaded.classes)
    text = as_csv(values if decision else labels, loaded.classes if decision else None, rows.kept)
    failure = try_to_write(out, text)
    if out is None or failure is not None:
        print_data(text)
    if failure is not None:
        raise failure
    if rows.kept is not None:
        missing = np.count_nonzero(~rows.kept)
        say(f"empty           {missing} of {rows.kept.size} rows lack a feature", file=sys.stderr)
    known = rows.y.astype(str)
    if n_known := np.count_nonzero(known != ""):
        wrong = np.count_nonzero((labels.astype(str) != known) & (known != ""))
        say(f"errors          {wrong} of {n_known} ({wrong / n_known:.4%})", file=sys.stderr)


@dataclass(frozen=True, eq=False)
class Model:
    """A saved classifier.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (k, d); with a kernel, one number per support vector
    intercept : ndarray
    classes : ndarray of shape (k,)
    kernel : Kernel or None
    vectors : ndarray or None
        The support vectors of a kernel; None where it was precomputed.
    rows : ndarray or None
        Their numbers among the rows of the fit.
    levels : dict
        The levels of text columns that `fit --dummies` encoded, the one left out first.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    kernel: Kernel | None = None
    vectors: np.ndarray | None = None
    rows: np.ndarray | None = None
    n_fitted: int = 0
    levels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Columns of the rows that it classifies."""
        if self.kernel is None:
            return int(self.coef.shape[-1])
        return self.n_fitted if self.vectors is None else int(self.vectors.shape[1])

    def decide(self, X: Any) -> np.ndarray:
        """Signed distances of shape (n,), or outputs of shape (n, k)."""
        outputs = np.empty((X.shape[0], *self.coef.shape[:-1]))
        bound = None
        if self.kernel is not None and self.vectors is not None:
            bound = self.kernel.bind(self.vectors)
        step = max(1, BLOCK // max(self.coef.shape[-1], 1))
        for start in range(0, X.shape[0], step):
            part = X[start : start + step]
            if bound is not None:
                part = bound.cross(part)
            elif self.rows is not None:
                part = part[:, self.rows]
            outputs[start : start + step] = np.asarray(part @ self.coef.T)
        return outputs + self.intercept


def load_model(path: Path) -> Model:
    """Read a model; nothing in the file is executed.

    Raises
    ------
    InputError
        Where the file is not such a model.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; momentron fit --save writes models") from None
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(
            f"{path} cannot be read as a model: {reason(error)}; momentron fit --save writes models"
        ) from error
    try:
        levels = json.loads(str(found["levels"])) if "levels" in found else {}
        return replace(_model(found), levels=levels)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{path} is not a model of momentron fit --save: {reason(error)}"
        ) from error


def _model(found: dict[str, np.ndarray]) -> Model:
    for name in (*NUMBERS, "classes"):
        if name not in found:
            raise ValueError(f"it has no array {name!r}")
    coef, intercept = (np.asarray(found[name], np.float64) for name in NUMBERS)
    classes = found["classes"]
    outputs = coef.shape[:-1]
    is_whole = coef.ndim in (1, 2) and classes.ndim == 1 and intercept.shape in ((), outputs)
    if not is_whole or outputs not in ((), (classes.size,)) or classes.size < 2:
        raise ValueError("its arrays do not fit each other")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("it has a number that is not finite")
    if "kernel" not in found:
        return Model(coef, intercept, classes)
    name = str(found["kernel"])
    rows = np.asarray(found["rows"], np.int64)
    if rows.shape != coef.shape[-1:]:
        raise ValueError("its arrays do not fit each other")
    if name == "precomputed":
        width = int(found.get("n_rows", rows.max(initial=-1) + 1))
        kernel = as_kernel(name, X=np.empty((0, 0)))
        return Model(coef, intercept, classes, kernel, None, rows, width)
    vectors = np.asarray(found["support_vectors"], np.float64)
    if vectors.ndim != 2 or len(vectors) != rows.size or not np.isfinite(vectors).all():
        raise ValueError("its support vectors do not fit its coefficients")
    options: dict[str, Any] = {
        key: cast(found[key])
        for key, cast in (("gamma", float), ("degree", int), ("coef0", float))
        if key in found
    }
    kernel = as_kernel(name, X=vectors, **options)
    return Model(coef, intercept, classes, kernel, vectors, rows, 0)


def as_csv(values: np.ndarray, classes: np.ndarray | None, kept: np.ndarray | None = None) -> str:
    """One line per row: a label, a decision value, or one output per class; empty if not kept."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if classes is None:
        head, rows = ["label"], [[label] for label in values.tolist()]
    elif values.ndim == 1:
        head, rows = ["decision"], [[repr(value)] for value in values.tolist()]
    else:
        head, rows = classes.tolist(), [list(map(repr, row)) for row in values.tolist()]
    writer.writerow(head)
    if kept is None:
        writer.writerows(rows)
    else:
        answered = iter(rows)
        writer.writerows(next(answered) if is_kept else [""] * len(head) for is_kept in kept)
    return text.getvalue()
