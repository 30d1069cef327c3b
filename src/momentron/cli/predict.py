"""`momentron predict`: labels or decision values of new rows, by a model of `fit --save`."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from momentron.cli.inputs import Source, reads_data
from momentron.cli.model import load_model
from momentron.cli.output import print_data, say
from momentron.data.files import read_rows
from momentron.data.safefiles import require_writable, write_atomically
from momentron.errors import InputError, some
from momentron.result import labels_of


@reads_data("data", "classes", "formula", "drop_na", "dummies", "weight", "failures")
def predict(
    model: Annotated[Path, typer.Argument(help="A model that `momentron fit --save` wrote.")],
    data: Annotated[
        str, typer.Argument(help="The rows: any file that `fit` reads, with labels or without.")
    ],
    source: Source,
    decision: Annotated[
        bool, typer.Option("--decision", help="Decision values instead of labels.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the CSV to this file.")
    ] = None,
) -> None:
    """Classify rows with a saved model; the answer is CSV with one line per row.

    Rows with a missing feature give an empty line, "", so that lines match rows.

    Columns are found by name where both tables have a header: their order does not matter, a
    missing one is refused, and others are ignored with a note on standard error. Without a header
    they are taken by position: a table with as many columns as the model has features has no
    labels, one with a column more has them. If there are labels, the errors are counted on
    standard error.
    """
    if out is not None:
        require_writable(out)
    elif getattr(sys.stdout, "is_gone", False):
        raise InputError("standard output is closed; write the answer to a file with --out")
    classifier, columns = load_model(model)
    n_features = classifier.n_features_in_
    rows = read_rows(data, n_features, columns, target=source.target, options=source)
    values = classifier.decision_function(rows.X)
    labels, classes = labels_of(values, classifier.classes_), classifier.classes_
    head = ["decision"] if decision else ["label"]
    if decision and values.ndim == 2:
        head = classes.tolist()
    cells = (values if decision else labels).reshape(len(labels), -1).astype(object)
    kept = np.ones(len(labels), bool) if rows.kept is None else rows.kept
    frame = pd.DataFrame(cells, index=np.flatnonzero(kept), columns=head)
    text = frame.reindex(range(kept.size)).to_csv(index=False, lineterminator="\n")
    if out is None:
        print_data(text)
    else:
        write_atomically(out, text)
    if rows.ignored:
        say(
            f"ignored         {some(rows.ignored)}: not among the model's features", file=sys.stderr
        )
    if rows.kept is not None:
        missing = np.count_nonzero(~kept)
        say(f"empty           {missing} of {kept.size} rows lack a feature", file=sys.stderr)
    known = rows.y.astype(str)
    if n_known := np.count_nonzero(known != ""):
        wrong = np.count_nonzero((labels.astype(str) != known) & (known != ""))
        say(f"errors          {wrong} of {n_known} ({wrong / n_known:.4%})", file=sys.stderr)
