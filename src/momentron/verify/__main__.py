"""`python -m momentron.verify proof.json data.csv`: check a proof where only numpy is installed.

The table is a CSV file with a header, with numbers in all columns but that of the labels, which is
the last one unless `--target` names another. `momentron verify` reads more: formulas, weights,
dummies, and other files.
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


def main() -> int:
    """0 if the proof holds, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m momentron.verify", description=__doc__)
    parser.add_argument("proof", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--target", help="the column of the labels; the last one by default")
    given = parser.parse_args()
    try:
        document = load_proof(given.proof.read_bytes())
        with given.data.open(newline="", encoding="utf-8-sig") as file:
            names, *rows = csv.reader(file)
        at = len(names) - 1 if given.target is None else names.index(given.target)
        labels, _ = [row.pop(at) for row in rows], names.pop(at)
        with standard_arithmetic():
            X = np.array(rows, dtype=np.float64)
            proof = check_document(document, Table(X, labels, document["data"]["decimals"]))
        compare_names(proof.names, names)
    except (OSError, *UNREADABLE) as error:
        print(f"rejected: {reason(error)}")
        return 1
    print(f"verified: {given.data} is {proof.kind}, in exact arithmetic")
    return 0


if __name__ == "__main__":
    sys.exit(main())
