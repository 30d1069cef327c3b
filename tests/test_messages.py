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
from momentron.data.files import read_data
from momentron.errors import InputError
from momentron.rows.kernels import as_kernel

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
# what prints, what starts processes, and what is handed to scikit-learn or called as it is
SKIPPED = {"verbose", "n_jobs", "cv", "scoring", "refit", "callback", "watch", "passes"}


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
    "race": (
        momentron.race,
        {"X": X, "y": Y, "methods": ["momentum"], "passes": 3, "max_time": 0.05},
    ),
    "as_kernel": (
        lambda kernel="rbf", X=X, gamma=1.0, degree=2, coef0=0.0: as_kernel(
            kernel, X=X, gamma=gamma, degree=degree, coef0=coef0
        ),
        {},
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_messages_are_one_short_line_of_momentrons_own(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a text may be the path of a checkpoint
    call, good = DOORS[door]
    wrong = []
    for name, parameter in inspect.signature(call).parameters.items():
        if name in SKIPPED or parameter.kind is parameter.VAR_KEYWORD:
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
            except ValueError as error:  # scikit-learn's, which its checks of estimators ask for
                if "features as input" not in str(error):
                    wrong.append((name, nasty, type(error).__name__, str(error)[:200]))
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


@pytest.mark.parametrize("cell", ["1" * 5000, "x" * 5000, "0." + "3" * 900, '"' + "1" * 999])
def test_a_long_cell_is_not_echoed(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,label\n{cell},2,x\n3,4,y\n")
    with pytest.raises(InputError) as caught:
        read_data(path)
    assert len(str(caught.value)) < LONGEST + len(str(tmp_path))
    assert "column" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3), "Expected 2D array for X, got dim 1"),
        (np.array(3.0), "Expected 2D array for X, got dim 0"),
        (np.zeros((2, 3, 4)), "Expected 2D array for X, got dim 3"),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        ([], "Expected 2D array for X, got dim 1"),
        ({}, "X holds {}, which is not a number"),
        (10**400, "X holds <an integer of 401 digits>"),
    ],
)
def test_x_that_is_no_matrix_is_one_line(value, words):
    for door in (momentron.max_margin, momentron.MaxMarginClassifier().fit):
        with pytest.raises(InputError) as caught:
            door(value, Y)
        assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kernel", [lambda a: a, lambda: 0, lambda a, b, c: a])
def test_a_kernel_is_a_function_of_two_arrays(kernel):
    with pytest.raises(InputError, match=r"cannot be called as f\(A, B\)"):
        momentron.max_margin(X, Y, kernel=kernel)


def test_values_are_shown_shortly():
    from momentron.errors import one_line, short

    assert short(10**400) == "<an integer of 401 digits>"
    assert short(10**30 - 1) == str(10**30 - 1)
    assert short(-(10**30)) == "<an integer of 31 digits>"
    assert short(10**5000 - 1) == "<an integer of 5000 digits>"
    assert short(np.zeros((3, 4))) == "<ndarray of shape (3, 4)>"
    assert short(0.1) == "0.1" and short("rbf") == "'rbf'" and short(None) == "None"
    for make in NASTY.values():
        assert len(short(make())) <= 80 and "\n" not in short(make())
    assert one_line("a\n b", 10) == "a b" and one_line("x" * 20, 10) == "x" * 9 + "…"


def test_memory_that_does_not_suffice_for_a_hinge_is_named_with_the_remedy():
    rows = np.random.default_rng(0).normal(size=(66, 200))
    labels = np.arange(66) % 11
    with pytest.warns(momentron.BudgetWarning, match="raise max_memory or take penalty='squared"):
        short = momentron.max_margin(rows, labels, C=1.0, penalty="hinge", max_memory=300_000)
    assert short.status is momentron.Status.NO_ROOM
    enough = momentron.max_margin(rows, labels, C=1.0, penalty="hinge")
    assert enough.status is momentron.Status.OPTIMAL
    assert short.lower <= enough.lower <= enough.upper <= short.upper
    squared = momentron.max_margin(rows, labels, C=1.0, max_memory=300_000)
    assert squared.status is momentron.Status.OPTIMAL
