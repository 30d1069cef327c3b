"""Every public door with nasty values: an answer, or one short line of an error of momentron's.

Which values are good is no matter here; `test_bad_inputs` and `test_options` say that.
"""

import datetime
import inspect
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import momentron
from momentron.errors import InputError
from momentron.kernels import as_kernel

LONGEST = 320  # characters: a value, a limit and a remedy
X = np.array([[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]])
Y = np.array([1, 1, 0, 0])


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no name")


class LongName:
    def __repr__(self):
        return "word\n" * 1000


NASTY = {
    "None": lambda: None,
    "empty text": lambda: "",
    "long text": lambda: "x" * 10_000,
    "lines": lambda: "a\nb\r\nc",
    "400 digits": lambda: 10**400,
    "5000 digits": lambda: -(10**5000),
    "inf": lambda: float("inf"),
    "nan": lambda: float("nan"),
    "-1": lambda: -1,
    "0": lambda: 0,
    "True": lambda: True,
    "complex": lambda: 1j,
    "bytes": lambda: b"x",
    "[]": lambda: [],
    "{}": lambda: {},
    "set": lambda: {1, 2},
    "object": object,
    "unprintable": Unprintable,
    "long repr": LongName,
    "matrix": lambda: np.zeros((40, 50)),
    "vector": lambda: np.arange(3000.0),
    "0-d": lambda: np.array(3.0),
    "0-d text": lambda: np.array("x"),
    "3-d": lambda: np.zeros((2, 3, 4)),
    "no rows": lambda: np.zeros((0, 2)),
    "no columns": lambda: np.zeros((4, 0)),
    "texts": lambda: ["x" * 1000, "y" * 1000, "z", "z"],
    "dicts": lambda: np.array([[{"a": 1}, 2.0], [3.0, 4.0]], dtype=object),
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "long integers": lambda: [[10**400, 1], [2, 3], [4, 5], [6, 7]],
    "frame": lambda: pd.DataFrame(np.zeros((40, 50))),
    "long names": lambda: pd.DataFrame(np.zeros((4, 2)), columns=["x" * 1000, "y" * 1000]),
    "sparse": lambda: sp.csr_array(np.eye(40)),
    "one argument": lambda: lambda a: a,
    "no argument": lambda: lambda: 0,
    "type": lambda: int,
    "decimal": lambda: Decimal("1e400"),
    "fraction": lambda: Fraction(10**400, 3),
    "date": lambda: datetime.date(2026, 1, 1),
    "long list": lambda: list(range(5000)),
    "long dict": lambda: {i: float(i) for i in range(5000)},
    "dict of arrays": lambda: {0: np.zeros((30, 30)), 1: np.zeros(300)},
}
SKIPPED = {"verbose", "n_jobs", "optimum_every"}  # print, or start processes


def one_solve():
    return momentron.max_margin(X, Y)


def fitted(kind):
    def door(X=X, y=Y, sample_weight=None, **options):
        if "Cs" in inspect.signature(kind).parameters:
            options = {"cv": 2} | options
        return kind(**options).fit(X, y, sample_weight=sample_weight).predict(X)

    door.__signature__ = inspect.Signature(
        [
            *(inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in ("X", "y")),
            inspect.Parameter("sample_weight", inspect.Parameter.KEYWORD_ONLY),
            *inspect.signature(kind).parameters.values(),
        ]
    )
    return door


def predicting(X):
    return momentron.KernelMaxMarginClassifier().fit(globals()["X"], Y).predict(X)


DOORS = {
    "max_margin": (momentron.max_margin, {"X": X, "y": Y}),
    "max_margin, kernel": (momentron.max_margin, {"X": X, "y": Y, "kernel": "poly"}),
    "max_margin, soft": (momentron.max_margin, {"X": X, "y": Y, "C": 1.0, "penalty": "hinge"}),
    "max_margin, momentum": (
        momentron.max_margin,
        {"X": X, "y": Y, "method": "momentum", "max_iter": 5},
    ),
    "max_margin, file": (momentron.max_margin, {"X": "no such file.csv"}),
    "MaxMarginClassifier": (fitted(momentron.MaxMarginClassifier), {}),
    "KernelMaxMarginClassifier": (fitted(momentron.KernelMaxMarginClassifier), {}),
    "MaxMarginClassifierCV": (fitted(momentron.MaxMarginClassifierCV), {"Cs": 2}),
    "predict": (predicting, {}),
    "margin_path": (momentron.margin_path, {"X": X, "y": Y, "Cs": [1.0]}),
    "margin_of": (momentron.margin_of, {"X": X, "y": Y, "W": [0.0, 1.0], "b": 0.0}),
    "check_separability": (momentron.check_separability, {"X": X, "y": Y}),
    "a formula": (
        momentron.check_separability,
        {"X": "y ~ a", "data": pd.DataFrame({"y": [0, 1, 1], "a": [1.0, 2.0, 3.0]})},
    ),
    "MarginTracker": (momentron.MarginTracker, {"X": X, "y": Y}),
    "race": (momentron.race, {"X": X, "y": Y, "methods": ["momentum"], "passes": 3}),
    "as_kernel": (as_kernel, {"kernel": "rbf", "X": X}),
}


@pytest.mark.parametrize("door", DOORS)
def test_messages_are_one_short_line_of_momentrons_own(door, capsys):
    call, good = DOORS[door]
    wrong = []
    for name in inspect.signature(call).parameters:
        if name in SKIPPED:
            continue
        for nasty, make in NASTY.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(**(good | {name: make()}))
            except InputError as error:
                text = str(error)
                if "\n" in text or len(text) > LONGEST:
                    wrong.append((name, nasty, text[:400]))
            except Exception as error:  # whatever else it is, it is not ours
                wrong.append((name, nasty, type(error).__name__, str(error)[:200]))
    for fault in wrong:
        print(fault)
    assert not wrong


@pytest.mark.parametrize("name", ["proof", "X", "y", "order", "sample_weight", "feature_names"])
def test_verify_has_short_messages(name):
    good = {"proof": momentron.check_separability(X, Y).to_json(), "X": X, "y": Y}
    for nasty, make in NASTY.items():
        try:
            momentron.verify(**(good | {name: make()}))
        except (InputError, momentron.ProofError) as error:
            assert "\n" not in str(error) and len(str(error)) <= LONGEST, (nasty, str(error))
