"""Paths of C: every fit has its own certificate, and warm starts change nothing but the time."""

import time

import numpy as np
import pandas as pd
import pytest
from makers import make_nonseparable
from sklearn.datasets import load_iris

from momentron import (
    InputError,
    MarginPath,
    MaxMarginClassifierCV,
    Status,
    margin_path,
    max_margin,
)
from momentron.api import fit_path, plan_fit
from momentron.fitting.options import FitOptions

Cs = [0.01, 0.1, 1.0, 10.0]


@pytest.fixture(scope="module")
def data():
    data = make_nonseparable(150, 4, random_state=0)
    return data.X, data.y


@pytest.mark.parametrize("penalty", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("weights", [False, True])
def test_every_interval_holds_the_value_of_a_single_fit(data, penalty, kernel, weights):
    X, y = data
    options = {"penalty": penalty, "kernel": kernel}
    if weights:
        options["sample_weight"] = np.random.default_rng(0).integers(0, 3, y.size)
        options["class_weight"] = {y[0]: 2.0}
    path = margin_path(X, y, Cs=Cs[::-1], **options)
    assert path["C"].tolist() == Cs
    for C, row in zip(Cs, path, strict=True):
        alone = max_margin(X, y, C=C, **options)
        assert row.status is Status.OPTIMAL and row.gap <= 1e-6 and row.label is None
        assert max(row.lower, alone.lower) <= min(row.upper, alone.upper)
        result = path.results[C]
        assert result.n_rows == y.size and row.support == result.support.size
        np.testing.assert_allclose(result.coef, alone.coef, atol=2e-3 * np.abs(alone.coef).max())


@pytest.mark.parametrize("penalty", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_many_classes(penalty, multi_class, kernel):
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    options = {"penalty": penalty, "kernel": kernel, "Cs": [0.1, 1.0]}
    path = margin_path(
        X[::2], y[::2], multi_class=multi_class, X_test=X[1::2], y_test=y[1::2], **options
    )
    assert (path["gap"] <= 1e-6).all()
    labels = [None] if multi_class == "joint" else ["a", "b", "c"]
    assert [(row.C, row.label) for row in path] == [(C, c) for C in (0.1, 1.0) for c in labels]
    assert set(path.errors) == {0.1, 1.0} and max(path.errors.values()) < 0.35
    for row in path:
        target = y if row.label is None else y == row.label
        alone = max_margin(X[::2], target[::2], C=row.C, penalty=penalty, kernel=kernel)
        assert max(row.lower, alone.lower) <= min(row.upper, alone.upper)


def test_the_hard_margin_ends_a_path():
    X, y = load_iris(return_X_y=True)
    path = margin_path(X, y == 0, Cs=[1.0, np.inf])
    hard = max_margin(X, y == 0)
    assert np.isinf(path[-1].C)
    assert max(path[-1].lower, hard.lower) <= min(path[-1].upper, hard.upper)


@pytest.mark.parametrize("C", [0.5, np.inf])
def test_a_path_of_a_single_C_solves_the_problem_of_that_C(data, C):
    alone, (row,) = max_margin(*data, C=C), margin_path(*data, Cs=[C])
    assert (row.lower, row.upper) == (alone.lower, alone.upper)


def test_folds_are_scored_for_a_single_C_as_for_several(data):
    single, several = (
        MaxMarginClassifierCV(Cs=grid, cv=3, refit=False).fit(*data).scores_
        for grid in ([0.5], [0.5, 1.0])
    )
    assert np.array_equal(single[:, 0], several[:, 0])


def test_errors_are_those_of_the_held_out_rows(data):
    X, y = data
    path = margin_path(X[:100], y[:100], Cs=Cs, X_test=X[100:], y_test=y[100:])
    for row in path:
        result = path.results[row.C]
        said = np.where(X[100:] @ result.coef + result.intercept > 0.0, *result.classes[::-1])
        assert row.error == pytest.approx(np.mean(said != y[100:]))
    assert path.errors[path.best_C] == min(path["error"])
    without = margin_path(X, y, Cs=Cs)
    assert np.isnan(without["error"]).all()
    with pytest.raises(InputError, match="X_test"):
        _ = without.best_C


def test_tables_and_pictures(data):
    pytest.importorskip("matplotlib")
    X, y = data
    path = margin_path(X, y, Cs=Cs, X_test=X, y_test=y)
    frame = path.to_frame()
    assert isinstance(frame, pd.DataFrame) and list(frame["C"]) == Cs
    assert "4 values of C from 0.01 to 10" in repr(path)
    assert "<table" in path._repr_html_()
    display = path.plot()
    assert len(display.ax_.lines) == 2 and display.error_ax_ is not None
    many = load_iris(return_X_y=True)
    each = margin_path(*many, Cs=[0.1, 1.0], multi_class="ovr")
    assert len(each.plot().ax_.lines) == 6
    assert len(path[:2]) == 2


def test_a_number_of_values_and_what_is_no_path(data):
    X, y = data
    assert len(margin_path(X, y, Cs=3)) == 3
    for wrong in ([], [0.0], [-1.0], [1.0, 1.0], "1", None, [np.nan], 0, True, ["a"]):
        with pytest.raises(InputError):
            margin_path(X, y, Cs=wrong)
    with pytest.raises(InputError, match="y_test"):
        margin_path(X, y, Cs=Cs, X_test=X)
    with pytest.raises(InputError, match="no C"):
        margin_path(X, y, C=1.0)
    with pytest.raises(InputError, match="multi_class"):
        margin_path(X, y, Cs=Cs, multi_class="ovo")
    with pytest.raises(TypeError):
        margin_path(X, y, Cs=Cs, colour="blue")


@pytest.mark.clock
def test_the_time_is_that_of_the_whole_path():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60))
    y = X[:, 0] + rng.normal(size=3000) > 0.0
    begin = time.perf_counter()
    path = margin_path(X, y, Cs=Cs, method="momentum", tol=1e-12, max_time=0.6)
    assert isinstance(path, MarginPath) and len(path) == 4
    assert time.perf_counter() - begin < 4.0
    assert set(path["status"]) <= {Status.TIME_BUDGET, Status.ITERATION_BUDGET}


def test_ctrl_c_leaves_no_time_for_the_rest_of_a_path():
    X, y = load_iris(return_X_y=True)
    seen = []

    def interrupt_first(row):
        seen.append(row.iteration)
        if len(seen) == 1:
            raise KeyboardInterrupt

    options = FitOptions.from_arguments(method="momentum", tol=0.0, max_iter=3000)
    plan = plan_fit(X[:100], y[:100], options)
    soft, other, hard = fit_path(plan, options, [1.0, 2.0, np.inf], callback=interrupt_first)
    assert soft.results[0].status is other.results[0].status is Status.INTERRUPTED
    assert np.array_equal(soft.results[0].coef, other.results[0].coef)
    assert hard.results[0].status is Status.TIME_BUDGET and len(seen) <= 2
