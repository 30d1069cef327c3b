"""`momentron predict`: labels or decision values of new rows, by a model of `fit --save`."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from momentron.cli.commands import Source
from momentron.cli.model import load_model
from momentron.cli.output import print_data, say
from momentron.data.files import read_rows
from momentron.data.safefiles import require_writable, write_atomically
from momentron.errors import InputError, some
from momentron.result import labels_of


def predict(model: Path, data: str, source: Source, decision: bool, out: Path | None) -> None:
    """Write the labels or the decision values of all the rows."""
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
