"""Test errors of the joint margin and of one class against the rest, for several C.

python -m benchmarks.joint_or_rest

MNIST only where MOMENTRON_DATA names it. The table is in docs/explanations/many-classes.md.
"""

import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from momentron import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.datasets import load

CS = (0.001, 0.01, 0.1, 1.0, 10.0, math.inf)


def problems() -> Iterator[tuple[str, list[tuple[np.ndarray, ...]]]]:
    """(name, parts), each X, y, X_test, y_test: five folds, or MNIST's own test set."""
    for name, loader in (("digits", load_digits), ("wine", load_wine)):
        X, y = loader(return_X_y=True)
        X = scale(X) if name == "wine" else X / 16.0
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
        yield name, [(X[train], y[train], X[test], y[test]) for train, test in folds]
    if "MOMENTRON_DATA" in os.environ:
        data = load("mnist", subset=5000, download=False)
        yield "MNIST, 5,000 rows", [(data.X, data.y, data.X_test, data.y_test)]


def error(model: Any, parts: list[tuple[np.ndarray, ...]]) -> float:
    """The mean share of wrong labels."""
    return float(np.mean([1.0 - model.fit(X, y).score(Z, z) for X, y, Z, z in parts]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of what no hyperplane separates
    print("| data | classifier |", " | ".join(f"C = {C:g}" for C in CS), "|")
    for name, parts in problems():
        for kind in (MaxMarginClassifier, KernelMaxMarginClassifier):
            for multi_class in ("joint", "ovr"):
                models = (kind(C=C, multi_class=multi_class, tol=1e-3, max_time=30) for C in CS)
                errors = " | ".join(f"{error(model, parts):.1%}" for model in models)
                what = "linear" if kind is MaxMarginClassifier else "rbf"
                print(f"| {name} | {what}, {multi_class} | {errors} |", flush=True)
