"""Pictures as objects: what is drawn is what was proven, and the user's backend is left alone."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from momentron import (
    InputError,
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
    check_separability,
    margin_path,
    max_margin,
)
from momentron.datasets import make_separable
from momentron.views.display import (
    MarginDisplay,
    MarginDistributionDisplay,
    PathDisplay,
    TraceDisplay,
)
from momentron.views.display.views import Fitted, principal, signed_distances, view_of

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: no pictures")
from matplotlib.figure import Figure  # noqa: E402

FLAT = make_separable(40, 2, margin=0.4, n_support=3, fit_intercept=True, random_state=1)
DEEP = make_separable(50, 6, margin=0.4, n_support=4, fit_intercept=True, random_state=2)
OVERLAP_X = np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0], [-3.0, 0.0]])
OVERLAP_Y = np.array([0, 0, 1, 1, 0])


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture
def no_windows():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def test_the_boundary_and_the_margin_are_where_the_certificate_says(ax):
    model = MaxMarginClassifier(C=np.inf).fit(FLAT.X, FLAT.y)
    display = MarginDisplay.from_estimator(model, FLAT.X, FLAT.y, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    drawn = sum(len(artist.get_offsets()) for artist in display.points_)
    assert drawn == 40
    rings = np.asarray(display.marked_.get_offsets())
    assert np.array_equal(rings, FLAT.X[model.support_])
    # the marked rows are those on the margin, whose distance is the best margin
    distances = np.abs(model.decision_function(rings))
    assert distances == pytest.approx(0.4, rel=1e-5)
    line = np.vstack([path.vertices for path in display.boundary_.get_paths()])
    assert np.abs(model.decision_function(line)).max() < 1e-9


def test_a_projection_keeps_distances(ax):
    model = MaxMarginClassifier(C=np.inf).fit(DEEP.X, DEEP.y)
    display = MarginDisplay.from_estimator(model, DEEP.X, DEEP.y, ax=ax)
    assert np.array_equal(display.view.points[:, 0], model.decision_function(DEEP.X))
    assert "distance" in ax.get_xlabel()
    # the other axis runs along the boundary
    direction = model.coef_[0]
    moved = principal(DEEP.X + 7.0 * direction, 1, without=direction)
    assert moved == pytest.approx(principal(DEEP.X, 1, without=direction), abs=1e-6)


def test_features_are_chosen_by_position_or_name(ax):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(DEEP.X, columns=list("abcdef"))
    model = MaxMarginClassifier(C=np.inf).fit(frame, DEEP.y)
    display = MarginDisplay.from_estimator(model, frame, DEEP.y, features=["b", "e"], ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "e")
    assert np.array_equal(display.view.points, DEEP.X[:, [1, 4]])
    assert "means" in ax.get_title(loc="left")
    with pytest.raises(InputError, match="no feature 'z'"):
        MarginDisplay.from_estimator(model, frame, DEEP.y, features=["b", "z"], ax=ax)
    with pytest.raises(InputError, match="no feature 6; it has features 0 to 5"):
        MarginDisplay.from_estimator(model, frame, DEEP.y, features=[0, 6], ax=ax)
    with pytest.raises(InputError, match="2 dimensions"):
        MarginDisplay.from_estimator(model, frame, DEEP.y, features=[0], ax=ax)


@pytest.mark.parametrize(
    "shape", ["kernel", "sparse", "pipeline", "one feature", "three classes", "against the rest"]
)
def test_every_kind_of_classifier_is_drawn(ax, shape):
    X, y, model = DEEP.X, DEEP.y, MaxMarginClassifier(C=np.inf)
    if shape == "kernel":
        model = KernelMaxMarginClassifier(C=np.inf, gamma=0.5)
    elif shape == "sparse":
        X = sp.csr_array(DEEP.X)
    elif shape == "pipeline":
        model = make_pipeline(StandardScaler(), MaxMarginClassifier(C=np.inf))
    elif shape == "one feature":
        X, y = np.arange(10.0)[:, None], np.arange(10) > 4
    else:
        X, y = load_iris(return_X_y=True)
        model = MaxMarginClassifier(C=10.0)
        model.set_params(multi_class="ovr" if shape == "against the rest" else "joint")
    model.fit(X, y)
    assert MarginDisplay.from_estimator(model, X, y, ax=ax).marked_ is not None
    display = MarginDistributionDisplay.from_estimator(model, X, y, ax=Figure().subplots())
    assert display.distances.size == len(y)


def test_distances_are_at_least_the_margin(ax):
    result = max_margin(DEEP.X, DEEP.y)
    display = MarginDistributionDisplay.from_result(result, DEEP.X, DEEP.y, ax=ax)
    assert display.distances.min() >= result.margin - 1e-12
    assert display.distances.min() == pytest.approx(0.4, rel=1e-6)
    assert f"[{result.lower:.6g}, {result.upper:.6g}]" in ax.get_legend().get_texts()[-1].get_text()


def test_distances_of_many_classes_are_leads():
    X, y = load_iris(return_X_y=True)
    kept = np.flatnonzero((y == 0) | (np.arange(150) % 10 == 0))
    result = max_margin(X[kept], y[kept])
    fitted = Fitted.from_result(result, X[kept])
    distances = signed_distances(fitted.decide(X[kept]), fitted.codes(y[kept]))
    assert distances.min() == pytest.approx(result.margin, rel=1e-6)


def test_rows_in_conflict_meet_in_a_point_of_both_hulls(ax):
    verdict = check_separability(OVERLAP_X, OVERLAP_Y)
    assert verdict.kind == "overlapping"
    display = verdict.plot(OVERLAP_X, OVERLAP_Y, ax=ax)
    assert isinstance(display, MarginDisplay)
    assert display.boundary_ is None
    star = next(line for line in ax.lines if line.get_marker() == "*")
    fitted = display.fitted
    for c in range(2):
        own = fitted.codes(OVERLAP_Y)[fitted.marked] == c
        meeting = fitted.weights[own] @ OVERLAP_X[fitted.marked[own]]
        assert meeting == pytest.approx([star.get_xdata()[0], star.get_ydata()[0]])
    with pytest.raises(InputError, match="no hyperplane"):
        MarginDistributionDisplay.from_verdict(verdict, OVERLAP_X, OVERLAP_Y)


def test_a_verdict_draws_its_hyperplane(ax):
    verdict = check_separability(FLAT.X, FLAT.y)
    display = verdict.plot(FLAT.X, FLAT.y, ax=ax)
    signs = np.where(FLAT.y > 0, 1.0, -1.0)
    assert (signs * display.view.decide(FLAT.X) > 0.0).all()
    deep = check_separability(DEEP.X, DEEP.y).plot(DEEP.X, DEEP.y, ax=Figure().subplots())
    assert isinstance(deep, MarginDistributionDisplay)
    assert deep.distances.min() > 0.0


def test_quasi_separable_data_mark_the_rows_on_the_boundary(ax):
    X, y = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [2.0, 1.0]], ["a", "a", "b", "b"]
    verdict = check_separability(X, y)
    display = verdict.plot(X, y, ax=ax)
    assert verdict.kind == "quasi-separable"
    assert display.fitted.marked.tolist() == verdict.boundary_rows.tolist()
    assert display.fitted.marked_name == "rows on the boundary"


@pytest.mark.parametrize("x", ["iteration", "passes", "seconds"])
def test_a_trace_closes_in_on_the_certificate(ax, x):
    result = max_margin(FLAT.X, FLAT.y, method="momentum", tol=1e-3)
    display = result.plot(ax=ax, x=x)
    assert isinstance(display, TraceDisplay)
    upper, lower = display.lines_
    assert upper.get_ydata()[-1] >= lower.get_ydata()[-1]
    assert np.array_equal(lower.get_xdata(), result.trace[x])
    model = MaxMarginClassifier(C=np.inf).fit(FLAT.X, FLAT.y)
    assert TraceDisplay.from_estimator(model, ax=Figure().subplots(), gap=True).lines_
    with pytest.raises(InputError, match="must be one of"):
        display.plot(ax=ax, x="hours")


def test_a_path_shows_margins_and_errors(ax):
    Cs = [0.1, 1.0, 10.0, math.inf]
    models = {C: MaxMarginClassifier(C=C).fit(DEEP.X, DEEP.y) for C in reversed(Cs)}
    rows = {"training error": (DEEP.X, DEEP.y), "test error": (DEEP.X[:9], DEEP.y[:9])}
    errors = {
        name: {C: 1.0 - model.score(*these) for C, model in models.items()}
        for name, these in rows.items()
    }
    results = {C: model.result_ for C, model in models.items()}
    display = PathDisplay.from_results(results, errors, ax=ax)
    assert list(display.results) == Cs
    assert list(display.errors) == ["training error", "test error"]
    assert display.errors["training error"][math.inf] == 0.0
    assert display.ax_.get_ylabel() == "soft margin, 1/√(2·objective)"
    named = display.ax_.xaxis.get_major_formatter()
    ticks = display.ax_.xaxis.get_majorticklocs().tolist()
    assert ticks == pytest.approx([0.1, 1.0, 10.0, 100.0])
    assert [named(tick) for tick in ticks][2:] == ["$\\mathdefault{10^{1}}$", "∞"]
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend().get_window_extent()
    assert legend.y0 >= display.ax_.get_window_extent().y1  # above the curves, covering none
    plain = PathDisplay.from_results({1.0: max_margin(FLAT.X, FLAT.y, C=1.0)})
    assert plain.error_ax_ is None
    matplotlib.pyplot.close(plain.figure_)
    with pytest.raises(InputError, match="at least one C"):
        PathDisplay({})
    with pytest.raises(InputError, match="above 0"):
        PathDisplay({0.0: None})


def test_results_choose_the_picture_that_fits(no_windows):
    flat, deep = max_margin(FLAT.X, FLAT.y), max_margin(DEEP.X, DEEP.y)
    assert isinstance(flat.plot(), TraceDisplay)
    assert isinstance(flat.plot(FLAT.X, FLAT.y), MarginDisplay)
    display = deep.plot(DEEP.X, DEEP.y)
    assert isinstance(display, MarginDistributionDisplay)
    assert display.plot().figure_ is not None


def test_what_cannot_be_drawn_is_refused():
    kernel = max_margin(FLAT.X, FLAT.y, kernel="rbf")
    with pytest.raises(InputError, match="40 weights and X has 2 columns"):
        kernel.plot(FLAT.X, FLAT.y)
    with pytest.raises(InputError, match="SVC has no result_"):
        MarginDisplay.from_estimator(SVC().fit(FLAT.X, FLAT.y), FLAT.X, FLAT.y)
    with pytest.raises(InputError, match="SVC has no result_"):
        TraceDisplay.from_estimator(SVC())
    model = MaxMarginClassifier(C=np.inf).fit(FLAT.X, FLAT.y)
    with pytest.raises(InputError, match="label 7"):
        MarginDisplay.from_estimator(model, FLAT.X, np.full(40, 7))


def test_labels_are_drawn_as_they_are(ax):
    names = np.where(FLAT.y > 0, "$x^2_$", "_hidden")
    model = MaxMarginClassifier(C=np.inf).fit(FLAT.X, names)
    MarginDisplay.from_estimator(model, FLAT.X, names, ax=ax)
    shown = [text.get_text().strip("\u200b") for text in ax.get_legend().get_texts()]
    assert shown[:2] == [r"\$x^2_\$", "_hidden"]
    ax.figure.savefig("/dev/null", format="png")


def test_fewer_dimensions_than_the_picture_has():
    fitted = Fitted.from_verdict(check_separability([[0.0], [0.0]], ["a", "b"]))
    view = view_of(fitted, np.zeros((2, 1)))
    assert view.points.shape == (2, 2)
    assert principal(np.ones((3, 4)), 2).shape == (3, 2)


@pytest.mark.slow
def test_the_users_backend_is_left_alone():
    code = (
        "import sys, matplotlib; matplotlib.use('svg')\n"
        "from momentron import max_margin\n"
        "from momentron.views.display import RaceDisplay\n"
        "from momentron.views.display.style import saved_figure\n"
        "result = max_margin([[0.0], [1.0]], [0, 1], method='momentum', tol=1e-3)\n"
        "figure, axes = saved_figure()\n"
        "RaceDisplay({'a': result.trace}, result).plot(axes)\n"
        "figure.savefig('/dev/null', format='png')\n"
        "print('matplotlib.pyplot' in sys.modules, matplotlib.get_backend())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "svg"]


def test_pictures_of_classes_against_the_rest():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 2)) + 2.0 * np.eye(3, 2)[y]
    model = MaxMarginClassifier(C=1.0, multi_class="ovr").fit(X, y)
    with pytest.raises(InputError, match="one of 0, 1, 2: each class has its own solve"):
        TraceDisplay.from_estimator(model)
    display = TraceDisplay.from_estimator(model, label=1)
    assert display.certificate is model.certificate_[1]
    joint = MaxMarginClassifier(C=1.0).fit(X, y)
    with pytest.raises(InputError, match="there is only one solve"):
        TraceDisplay.from_estimator(joint, label=1)
    path = margin_path(X, y, Cs=[0.1, 1.0], multi_class="ovr").plot()
    assert len(path.ax_.lines) == 6
    names = [text.get_text() for text in path.ax_.get_legend().get_texts()]
    assert "2, at least" in names


def test_decision_values_of_soft_margins_are_not_called_distances(ax):
    X, y = load_iris(return_X_y=True)
    X, y = X[:, :3], y == 1  # which overlap
    models = MaxMarginClassifier(C=1.0), MaxMarginClassifierCV(Cs=[0.1, 1.0], cv=3)
    for model in models:
        display = MarginDistributionDisplay.from_estimator(model.fit(X, y), X, y, ax=ax)
        assert display.ax_.get_xlabel() == "label × decision value"
        assert MarginDisplay.from_estimator(model, X, y, ax=ax).ax_.get_xlabel() == "decision value"
