"""`python -m momentron.verify proof.json data.csv`: check a proof where only numpy is installed.

The table is a CSV file with a header, with numbers in all columns but that of the labels: the last
one, unless `--target` names another. `momentron verify` reads more: formulas, weights, other files.
The exit code is 0 if the proof holds, 1 if it is rejected, and 2 if a file cannot be read.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.verify import check_document, compare_names
from momentron.verify.errors import UNREADABLE, reason
from momentron.verify.exact_table import Table
from momentron.verify.limits import load_proof


def read_csv(path: Path, target: str | None) -> tuple[list[str], np.ndarray, list[str]]:
    """(names of the columns, X, labels) of a table; ValueError if it is not one."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        names, *rows = [*csv.reader(file)] or [[]]
    if not names or target not in (None, *names):
        column = "column" if target is None else f"column {target!r}"
        raise ValueError(f"{path} has no {column}; its columns: {', '.join(names)[:500]}")
    at = len(names) - 1 if target is None else names.index(target)
    if {*map(len, rows)} - {len(names)}:
        raise ValueError(f"{path} has rows that are not as long as its header")
    labels, _ = [row.pop(at) for row in rows], names.pop(at)
    return names, np.array(rows, dtype=np.float64).reshape(len(rows), len(names)), labels


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m momentron.verify", description=__doc__)
    parser.add_argument("proof", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--target", help="the column of the labels; the last one by default")
    given = parser.parse_args()
    with standard_arithmetic():
        try:
            text = given.proof.read_bytes()
            names, X, labels = read_csv(given.data, given.target)
        except (OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        try:
            document = load_proof(text)
            proof = check_document(document, Table(X, labels, document["data"]["decimals"]))
            compare_names(proof.names, names)
        except UNREADABLE as error:
            print(f"rejected: {reason(error)}")
            return 1
    has_event = proof.model.family == "binomial" and not proof.model.is_simple
    event = f" with the event {proof.classes[1]!r}" if has_event else ""
    order = f" in the order {' < '.join(proof.classes)}" if proof.model.family == "ordinal" else ""
    print(f"verified: {given.data} is {proof.kind}{event}{order}, in exact arithmetic")
    return 0


if __name__ == "__main__":
    sys.exit(main())
