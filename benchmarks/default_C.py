"""What users get who do not name C: with C = 1, the hard margin, or C = 1 where that fails.

python -m benchmarks.default_C

Test error over five folds (in brackets: how many of the five fits warned), and CPU milliseconds
of the fastest fit. The tables are in docs/howto/replace-svc.md.
"""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.datasets import make_classification as make
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC

from momentron import KernelMaxMarginClassifier, MaxMarginClassifier

LOADERS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
DATA = {name: load(return_X_y=True) for name, load in LOADERS.items()}
DATA |= {f"{name}, scaled": (scale(X), y) for name, (X, y) in DATA.items()}
X, Y = DATA["digits"] = load_digits(return_X_y=True)
DATA["digits 3 and 8"] = X[(Y == 3) | (Y == 8)], Y[(Y == 3) | (Y == 8)]
DATA["1,000 × 20, 5 % wrong labels"] = make(1000, 20, flip_y=0.1, random_state=0)
DATA["5,000 × 50, 5 % wrong labels"] = make(5000, 50, flip_y=0.1, random_state=0)


def fitted(kind: Any, C: str, X: np.ndarray, y: np.ndarray) -> Any:
    """The classifier of a column."""
    if C != "C=inf, then 1":
        return kind(C=float(C.removeprefix("C="))).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hard = kind(C=np.inf).fit(X, y)
    return hard if hard.margin_ > 0.0 else kind(C=1.0).fit(X, y)


def measured(kind: Any, C: str, X: np.ndarray, y: np.ndarray) -> str:
    errors, warned, times = [], 0, []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            begin = time.process_time()
            model = fitted(kind, C, X[train], y[train])
            times.append(time.process_time() - begin)
        errors.append(np.mean(model.predict(X[test]) != y[test]))
        warned += bool(told)
    return f"{np.mean(errors):.1%}{f' ({warned})' * bool(warned)}, {1000 * min(times):.1f}"


if __name__ == "__main__":
    for ours, theirs in ((MaxMarginClassifier, LinearSVC), (KernelMaxMarginClassifier, SVC)):
        columns = [(ours, "C=1"), (ours, "C=inf"), (ours, "C=inf, then 1"), (theirs, "C=1")]
        print("\n|", " | ".join(f"{kind.__name__} {C}" for kind, C in columns), "|")
        for name, (X, y) in DATA.items():
            cells = [measured(kind, C, X, y) for kind, C in columns]
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
