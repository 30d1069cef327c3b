"""Bad and extreme inputs: the right answer, or one line that names the value and the remedy."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import momentron
from momentron import KernelMaxMarginClassifier, MaxMarginClassifier, max_margin
from momentron.errors import InputError
from momentron.rows.kernels import PrecomputedKernel

NAN, INF = float("nan"), float("inf")
GOOD = np.array([[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]])
LABELS = np.array([1, 1, 0, 0])  # best margin with an intercept: 1.5


def with_entry(value, dtype=np.float64):
    X = GOOD.astype(dtype)
    X[1, 0] = value
    return X


ERRORS = {
    "nan": (with_entry(NAN), LABELS, r"X\[1, 0\] is nan.*impute"),
    "inf": (with_entry(INF), LABELS, r"X\[1, 0\] is inf.*impute"),
    "minus inf": (with_entry(-INF), LABELS, r"X\[1, 0\] is -inf"),
    "nan float32": (with_entry(NAN, np.float32), LABELS, r"X\[1, 0\] is nan"),
    "nan sparse": (sp.csr_array(with_entry(NAN)), LABELS, r"X\[1, 0\] is nan"),
    "inf sparse": (sp.csc_array(with_entry(INF)), LABELS, r"X\[1, 0\] is inf"),
    "nan in a frame": (pd.DataFrame(with_entry(NAN)), LABELS, r"X\[1, 0\] is nan"),
    "text": ([["a", "b"], ["c", "d"]], [0, 1], "could not convert"),
    "ragged": ([[1.0], [1.0, 2.0]], [0, 1], "inhomogeneous|setting an array"),
    "one class": (GOOD, [1, 1, 1, 1], "y has 1 class; .* at least 2"),
    "no rows": (np.zeros((0, 2)), [], "0 sample"),
    "no features": (np.zeros((4, 0)), LABELS, r"0 feature\(s\)"),
    "one dimension": (np.zeros(4), LABELS, "Expected 2D"),
    "three dimensions": (np.zeros((2, 2, 2)), [0, 1], "dim 3"),
    "short y": (GOOD, [0, 1], "4 rows but y has 2"),
    "no y": (GOOD, None, "y is None"),
    "nan among texts in y": (GOOD, ["a", "b", NAN, "b"], r"y\[2\] is nan"),
    "nan in y": (GOOD, [0.0, 1.0, NAN, 1.0], r"y\[2\] is nan"),
    "None in y": (GOOD, np.array(["a", "b", None, "b"], dtype=object), r"y\[2\] is None"),
    "continuous y": (GOOD, [0.5, 1.0, 0.0, 1.0], r"continuous: y\[0\] is 0.5"),
    "complex y": (GOOD, [1j, 1.0, 0.0, 1.0], "(?i)complex"),
    "matrix y": (GOOD, np.zeros((4, 2)), "1d array"),
    "complex X": (GOOD * 1j, LABELS, "Complex data"),
    "huge integers": (np.array([[2**60 + 1], [1]]), [0, 1], r"2\*\*53"),
    "just beyond 2**53": (np.array([[2**53], [2**53 + 1]]), [0, 1], "9007199254740993"),
    "huge integers in lists": ([[2**60 + 1], [0.5]], [0, 1], "1152921504606846977"),
    "huge integers in a frame": (
        pd.DataFrame({"a": [2**60 + 1, 1], "b": [0.5, 0.5]}),
        [0, 1],
        "1152921504606846977",
    ),
    "huge integers, sparse": (sp.csr_array(np.array([[2**60 + 1], [1]])), [0, 1], "float64"),
    "long doubles": (
        np.array([[np.longdouble(1) + np.finfo(np.longdouble).eps], [0]]),
        [0, 1],
        "float64 cannot hold",
    ),
    "labels that numpy merges": (GOOD, [2**53, 2**53 + 1, 3.0, 3.0], "y has 3 labels"),
    "masked entries": (np.ma.masked_equal(GOOD, 3.0), LABELS, "masked entries; drop"),
    "complex in a list": ([[1j], [2.0]], [0, 1], "Complex data"),
    "None among labels": (GOOD, [None, 1, 1, None], r"y\[0\] is None"),
    "decimals": ([[Decimal("0.1")], [Decimal(2)]], [0, 1], "X holds 0.1"),
}

OPTION_ERRORS = {
    "tol negative": ({"tol": -1.0}, r"tol=-1.0 must be .* \[0, 1\)"),
    "tol one": ({"tol": 1.0}, "tol=1.0"),
    "tol nan": ({"tol": NAN}, "tol=nan"),
    "tol text": ({"tol": "small"}, "tol='small'"),
    "max_iter zero": ({"max_iter": 0}, "max_iter=0 must be .* at least 1"),
    "max_iter float": ({"max_iter": 2.5}, "max_iter=2.5"),
    "max_iter bool": ({"max_iter": True}, "max_iter=True"),
    "max_time zero": ({"max_time": 0.0}, "max_time=0.0 must be .* positive"),
    "max_time nan": ({"max_time": NAN}, "max_time=nan"),
    "method": ({"method": "newton"}, "method='newton' is not known"),
    "loss": ({"loss": "hinge"}, "loss='hinge' is not known"),
    "method list": ({"method": []}, r"method=\[\] is not known"),
    "loss list": ({"loss": []}, r"loss=\[\] is not known"),
    "tol bool": ({"tol": False}, "tol=False must be"),
    "max_time bool": ({"max_time": True}, "max_time=True must be"),
    "max_time beyond floats": (
        {"max_time": 10**400},
        "max_time=<an integer of 401 digits> must be",
    ),
    "fit_intercept text": ({"fit_intercept": "False"}, "fit_intercept='False' must be True or"),
    "fit_intercept number": ({"fit_intercept": 0}, "fit_intercept=0 must be True or False"),
    "fit_intercept None": ({"fit_intercept": None}, "fit_intercept=None must be True or False"),
    "verbose": ({"verbose": "no"}, "verbose='no' must be 0"),
    "verbose negative": ({"verbose": -1}, "verbose=-1 must be 0"),
    "callback": ({"callback": 3}, "callback=3 must be a function"),
    "seed text": ({"random_state": "a"}, "random_state='a' must be an integer"),
    "seed negative": ({"random_state": -1}, "random_state=-1 must be an integer"),
    "initial": ({"initial": 1}, "initial=1 must be the MarginResult"),
    "cache_size inf": ({"kernel": "rbf", "cache_size": INF}, "cache_size=inf must be .* finite"),
    "cache_size nan": ({"kernel": "rbf", "cache_size": NAN}, "cache_size=nan must be"),
    "cache_size bool": ({"kernel": "rbf", "cache_size": True}, "cache_size=True must be"),
    "cache_size alone": ({"cache_size": INF}, "cache_size=inf must be"),
    "gamma unused": ({"kernel": "linear", "gamma": "big"}, "gamma='big' must be 'scale'"),
    "gamma bool": ({"kernel": "rbf", "gamma": True}, "gamma=True must be"),
    "gamma beyond floats": (
        {"kernel": "rbf", "gamma": 10**400},
        "gamma=<an integer of 401 digits> must be",
    ),
    "gamma array": ({"gamma": np.ones(2)}, "no meaning without a kernel"),
    "degree unused": ({"kernel": "rbf", "degree": 2.5}, "degree=2.5 must be an integer"),
    "coef0 unused": ({"kernel": "rbf", "coef0": "a"}, "coef0='a' must be a finite number"),
    "kernel class": ({"kernel": PrecomputedKernel}, "is unknown; choose one of"),
    "block_size": ({"block_size": "."}, r"block_size='\.' must be a positive number"),
    "block_size bool": ({"block_size": True}, "block_size=True must be"),
    "C": ({"C": "1"}, "C='1' must be a positive number"),
    "C bool": ({"C": True}, "C=True must be a positive number"),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("estimator", [False, True])
def test_errors(case, estimator):
    X, y, words = ERRORS[case]
    if estimator and case == "no y":
        words = "y is None"
    with pytest.raises(ValueError, match=words) as caught:
        if estimator:
            MaxMarginClassifier().fit(X, y)
        else:
            max_margin(X, y)
    assert len(str(caught.value).splitlines()[0]) > 10


@pytest.mark.parametrize("case", OPTION_ERRORS)
def test_option_errors(case):
    options, words = OPTION_ERRORS[case]
    with pytest.raises(ValueError, match=words):
        max_margin(GOOD, LABELS, **options)


@pytest.mark.parametrize("case", OPTION_ERRORS)
def test_estimators_check_options_in_fit(case):
    options, words = OPTION_ERRORS[case]
    has_kernel = "kernel" in options
    model = KernelMaxMarginClassifier() if has_kernel else MaxMarginClassifier()
    if not options.keys() <= model.get_params().keys():
        pytest.skip("no parameter of the estimator")
    model.set_params(**options)
    with pytest.raises(ValueError, match=words):
        model.fit(GOOD, LABELS)


def test_warm_start_is_a_flag():
    with pytest.raises(InputError, match="warm_start='no' must be True or False"):
        MaxMarginClassifier(warm_start="no").fit(GOOD, LABELS)


def test_numpy_flags_and_numbers_are_taken():
    result = max_margin(
        GOOD,
        LABELS,
        fit_intercept=np.True_,
        tol=np.float32(1e-3),
        max_iter=np.int64(1000),
        verbose=np.False_,
        random_state=np.random.default_rng(0),
    )
    assert result.gap <= 1e-3


def frame():
    return pd.DataFrame(GOOD, columns=["a", "b"])


# name → (X, y, best margin with an intercept)
ANSWERS = {
    "plain": (GOOD, LABELS, 1.5),
    "float32": (GOOD.astype(np.float32), LABELS, 1.5),
    "float16": (GOOD.astype(np.float16), LABELS, 1.5),
    "int64": (GOOD.astype(np.int64), LABELS, 1.5),
    "int8": (GOOD.astype(np.int8), LABELS, 1.5),
    "bool X": (np.array([[True], [False]]), [1, 0], 0.5),
    "lists": (GOOD.tolist(), LABELS.tolist(), 1.5),
    "data frame": (frame(), LABELS, 1.5),
    "series labels": (frame(), pd.Series(["u", "u", "d", "d"]), 1.5),
    "categorical labels": (frame(), pd.Series(["u", "u", "d", "d"], dtype="category"), 1.5),
    "object labels": (GOOD, np.array(["u", "u", "d", "d"], dtype=object), 1.5),
    "boolean labels": (GOOD, LABELS.astype(bool), 1.5),
    "float labels": (GOOD, LABELS.astype(float), 1.5),
    "fortran": (np.asfortranarray(GOOD), LABELS, 1.5),
    "scale 1e-300": (GOOD * 1e-300, LABELS, 1.5e-300),
    "scale 1e300": (GOOD * 1e300, LABELS, 1.5e300),
    "scale 1e-320": (GOOD * 1e-320, LABELS, 1.5e-320),
    "near overflow": (GOOD * 4e307, LABELS, 6e307),
    "float32 1e-40": ((GOOD * 1e-40).astype(np.float32), LABELS, 1.5e-40),
    "float32 1e37": ((GOOD * 1e37).astype(np.float32), LABELS, 1.5e37),
    "sparse 1e200": (sp.csr_array(GOOD * 1e200), LABELS, 1.5e200),
    "duplicates": (np.repeat(GOOD, 3, axis=0), np.repeat(LABELS, 3), 1.5),
    "zero column": (np.hstack([GOOD, np.zeros((4, 1))]), LABELS, 1.5),
    "repeated column": (np.repeat(GOOD, 2, axis=1) / np.sqrt(2), LABELS, 1.5),
    "two rows": ([[0.0], [3.0]], [0, 1], 1.5),
    "one feature": ([[5.0], [2.0], [1.0], [0.0]], [1, 1, 0, 0], 0.5),
    "far from the origin": (GOOD + 1e6, LABELS, 1.5),
    "contradictory duplicates": ([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]], [0, 1, 1], 0.0),
    "all zero": (np.zeros((4, 2)), LABELS, 0.0),
    "empty sparse": (sp.csr_array((4, 2)), LABELS, 0.0),
    "xor": ([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1], 0.0),
    "touching": ([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1], 0.0),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers(case):
    X, y, best = ANSWERS[case]
    before = X.copy() if isinstance(X, np.ndarray) else None
    result = max_margin(X, y, tol=1e-3, max_iter=20_000)
    slack = 1e-5 if "float32" in case else 1e-12  # float32 itself rounds, more so near 1e-40
    assert result.lower <= best * (1 + slack) + 5e-324
    assert result.upper >= best * (1 - slack) - 5e-324
    if best > 0.0:
        assert result.upper <= 1.1 * best
        assert result.lower >= 0.9 * best
    else:
        assert result.lower == 0.0
        assert result.upper <= 5e-3
    assert np.all(np.isfinite(result.coef))
    if before is not None:
        assert np.array_equal(before, X)


def test_zero_row_without_intercept_has_no_margin():
    X = np.vstack([GOOD, np.zeros((1, 2))])
    result = max_margin(X, [*LABELS, 0], fit_intercept=False, tol=1e-3)
    assert result.lower == 0.0
    assert result.upper <= 5e-3


def test_masked_labels_and_weights_are_refused():
    X, mask = [[0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [6.0, 7.0]], [0, 1, 0, 0]
    y, weights = [0, 0, 1, 1], np.ma.masked_array(np.ones(4), mask=mask)
    labels = np.ma.masked_array(y, mask=mask)
    verdict = momentron.check_separability(X, y)
    for call in (
        lambda: momentron.max_margin(X, labels),
        lambda: momentron.max_margin(X, y, C=1.0, sample_weight=weights),
        lambda: momentron.MaxMarginClassifier().fit(X, labels),
        lambda: momentron.check_separability(X, labels),
        lambda: momentron.check_separability(X, y, sample_weight=weights),
        lambda: momentron.verify(verdict, X, labels),
    ):
        with pytest.raises(momentron.InputError, match=r"masked|missing|different data"):
            call()
