"""Many classes: the paper's section 5.2, known answers, and agreement with other solvers."""

import math
import os

import numpy as np
import pytest
import scipy.sparse as sp
import test_theorems as theorems
from many_classes import (
    FORMS,
    NOT_SEPARABLE,
    assert_optimal,
    assert_witness,
    blobs,
    explicit,
    imbalance,
    leads,
    orthogonal,
    pairs_problem,
    quadratic_program,
    random_problem,
    whole_numbers,
)
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

from momentron import MaxMarginClassifier, NotSeparableWarning, Status, max_margin
from momentron.certificate import certify_margin
from momentron.datasets import load
from momentron.dual.circulations import Circulations
from momentron.dual.dualsets import ClassBalanced, Simplex
from momentron.dual.labels import Labels
from momentron.dual.losses import Exponential
from momentron.errors import InputError
from momentron.rows import as_operator
from momentron.solvers import SOLVERS, Momentum, as_solver
from momentron.solvers.loop import solve
from momentron.solvers.problem import Problem
from momentron.solvers.solver import RunOptions
from tests.oracles.pairs import ExactPairs

INTERCEPT = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercepts"])
needs_data = pytest.mark.skipif("MOMENTRON_DATA" not in os.environ, reason="set MOMENTRON_DATA")


# --- the reduction ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_joint_margin_is_root_two_times_the_margin_of_the_reduction(seed):
    X, y = blobs(seed)
    problem = Problem.from_data(X, y, fit_intercept=False)
    Z = -explicit(X, y)[0] / np.sqrt(2.0)
    best = max_margin(X, y, fit_intercept=False, tol=1e-9).coef.T
    for U in (np.random.default_rng(seed).normal(size=best.shape), best):
        reduced = (-Z @ U.ravel()).min() / np.linalg.norm(U)
        assert certify_margin(problem, U) == pytest.approx(np.sqrt(2.0) * reduced, rel=1e-11)
    assert problem.longest == pytest.approx(np.sqrt(2) * np.linalg.norm(X, axis=1).max())


CLAIMS = [
    theorems.test_theorem_3_1_part_1_margin_rate,
    theorems.test_theorem_3_1_part_2_interval,
    theorems.test_proposition_half_the_margin,
    theorems.test_lemmas_on_minus_psi_and_the_norm_of_w,
    theorems.test_lemma_on_alternative_form_of_w,
    theorems.test_minus_psi_never_exceeds_the_margin,
]


@pytest.mark.parametrize("kind", ["known", "blobs"])
@INTERCEPT
def test_multiclass_theorem(kind, fit_intercept, monkeypatch):
    """Theorem 3.1 and its lemmas on the reduction, t ≤ 1000; ψ(0) plays ln n with intercepts."""
    rng = np.random.default_rng(0)
    if kind == "blobs":
        X, y = blobs(3)
        best = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-10).lower
    elif fit_intercept:
        X, y, best = orthogonal(rng, np.full(4, 2.0), 6, 20, shift=rng.normal(size=6))
    else:
        X, y, best = orthogonal(rng, np.array([1.0, 2.0, 1.5]), 5, 20)
    problem = Problem.from_data(X, y, fit_intercept=fit_intercept)
    problem = problem.for_solver(tight=True)
    monkeypatch.setattr(theorems, "STEPS", 1000)
    run = theorems.Run(problem, Momentum(), steps=1000)
    for claim in CLAIMS:
        claim((run, best / problem.radius))
    assert fit_intercept or run.psi0 == pytest.approx(np.log(problem.size))


def test_multiclass_theorem_in_the_units_of_the_data():
    """γ(U_t) ≥ γ̄ − 8 ln n/(γ̄ t(t + 3)) where ‖x‖ ≤ 1: √2·√2·4 is 8."""
    X, y, best = orthogonal(np.random.default_rng(1), np.array([1.0, 0.7, 0.3]), 4)
    trace = max_margin(X, y, fit_intercept=False, method="momentum", max_iter=200, tol=0.0).trace
    t = np.arange(1, len(trace) + 1)
    slack = 8 * np.log(6) / (best * t * (t + 3))
    assert np.all(trace.to_dict()["margin"] >= best - slack - 1e-12)


ITERATIVE = [name for name in SOLVERS if name not in ("auto", "adaptive")]
CASES = [(method, "exponential", b) for method in ITERATIVE for b in (False, True)]


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize(
    ("method", "loss", "fit_intercept"), [*CASES, ("momentum", "logistic", False)]
)
def test_implicit_iterates_are_the_explicit_ones(method, loss, fit_intercept, layout):
    X, y = blobs(11, n=12, d=3)
    problem = Problem.from_data(layout(X), y, fit_intercept=fit_intercept, loss=loss)
    problem = problem.for_solver(tight=True)
    rows, source, target = explicit(X, y)
    labels = Labels(2, False, np.ones(source.size, int))
    dual_set = Simplex(source.size, problem.dual_set.loss)
    if fit_intercept:
        dual_set = Circulations(source, target, 4, Exponential())
    other = Problem(as_operator(layout(rows)), labels, dual_set)
    other.radius = problem.radius
    solver = as_solver(method)
    a, b = solver.init(problem), solver.init(other)
    for _ in range(60):
        solver.step(problem, a)
        solver.step(other, b)
        mine, theirs = solver.candidates(problem, a), solver.candidates(other, b)
        for primal, flat in zip(mine.primals, theirs.primals, strict=True):
            assert primal.w.shape == (3, 4)
            error = np.linalg.norm(primal.w.ravel() - flat.w)
            assert error <= 1e-10 * max(1.0, np.linalg.norm(flat.w))
            assert np.allclose(primal.scores, flat.scores, rtol=1e-10, atol=1e-10)
        assert np.allclose(mine.q, theirs.q, rtol=1e-10, atol=1e-10 * mine.q.max())
        assert mine.upper == pytest.approx(theirs.upper, rel=1e-10)


@INTERCEPT
def test_two_classes_have_root_two_times_the_binary_margin(fit_intercept):
    for seed in range(5):
        X, y = blobs(seed, n=30, d=5, k=2)
        problem = pairs_problem(as_operator(X), y, 2, fit_intercept)
        joint = solve(problem, as_solver("auto"), RunOptions(tol=1e-9)).certificate
        binary = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-9)
        assert joint.gap <= 1e-9
        assert joint.lower == pytest.approx(np.sqrt(2.0) * binary.lower, rel=1e-8)


def test_circulations_of_two_classes_are_class_balanced():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 30)
    pairs = Circulations(y, 1 - y, 2, Exponential())
    binary = ClassBalanced(2.0 * y - 1.0, Exponential())
    assert pairs.psi_zero == pytest.approx(binary.psi_zero, rel=1e-14)
    for scale in (1.0, 1e3, 1e6):
        scores = scale * rng.normal(size=30)
        (q, psi), (q_binary, psi_binary) = pairs.link(scores), binary.link(scores)
        assert np.allclose(q, q_binary, rtol=0.0, atol=1e-13)
        assert psi == pytest.approx(psi_binary, rel=1e-13)
        assert pairs.margin(scores) == pytest.approx(binary.margin(scores), rel=1e-13)
        assert np.diff(pairs.intercept(scores))[0] == pytest.approx(binary.intercept(scores))
        assert sorted(pairs.vertex(scores).index) == sorted(binary.vertex(scores).index)
        weights = np.maximum(scores, 0.0)
        assert np.allclose(pairs.normalize(weights), binary.normalize(weights), atol=1e-14)


# --- known answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(3, 9))
@pytest.mark.parametrize("n_behind", [0, 60])
def test_known_margins(k, n_behind):
    rng = np.random.default_rng(k)
    X, y, best = orthogonal(rng, rng.uniform(1.0, 3.0, k), 12, n_behind)
    assert_optimal(max_margin(X, y, fit_intercept=False, tol=1e-9), best)
    X, y, best = orthogonal(rng, np.full(k, 2.0), 12, n_behind, shift=rng.normal(size=12))
    assert_optimal(max_margin(X, y, tol=1e-9), best)


@INTERCEPT
def test_many_features_and_repeated_rows(fit_intercept):
    rng = np.random.default_rng(5)
    X, y, best = orthogonal(rng, np.full(5, 0.7), 300)
    for rows in (np.arange(5), np.r_[np.arange(5), np.arange(1, 5), [4] * 200]):
        assert_optimal(max_margin(X[rows], y[rows], fit_intercept=fit_intercept, tol=1e-9), best)


@pytest.mark.parametrize("name", NOT_SEPARABLE)
@INTERCEPT
def test_not_separable_by_a_witness(name, fit_intercept):
    X, y = NOT_SEPARABLE[name]
    assert_witness(max_margin(X, y, fit_intercept=fit_intercept), X, y, fit_intercept)


def test_a_zero_row_needs_intercepts():
    X, y = np.r_[np.eye(3), np.zeros((1, 3))], np.array([0, 1, 2, 3])
    assert_witness(max_margin(X, y, fit_intercept=False), X, y, False)
    best = ExactPairs(X, y, True).optimum.margin_squared
    assert_optimal(max_margin(X, y, tol=1e-9), math.sqrt(best))


@pytest.mark.parametrize("form", FORMS)
@INTERCEPT
def test_data_of_any_form(form, fit_intercept):
    X, y, best = whole_numbers()
    assert_optimal(max_margin(FORMS[form](X), y, fit_intercept=fit_intercept, tol=1e-9), best)


@pytest.mark.parametrize("names", [list("dbca"), [7, -2, 100, 3], [2.0, 0.0, 1.0, 3.0]], ids=str)
def test_labels_of_any_kind(names):
    X, y, best = whole_numbers()
    labels = np.array(names)[y]
    result = max_margin(X, labels, tol=1e-9)
    assert result.classes.tolist() == sorted(names)
    assert result.lower == pytest.approx(best)
    outputs = X @ result.coef.T + result.intercept
    assert np.array_equal(result.classes[outputs.argmax(axis=1)], labels)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-85, 1e-25, 1e20, 1e85, 1e150, 1e300])
@pytest.mark.parametrize("n", [20, 200])
@INTERCEPT
def test_margins_scale_with_the_data(scale, n, fit_intercept):
    X, y = blobs(4, n=n, d=60, k=8, spread=2.0)
    near = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-9)
    far = max_margin(X * scale, y, fit_intercept=fit_intercept, tol=1e-9)
    assert far.lower == pytest.approx(scale * near.lower, rel=1e-8)
    assert far.upper == pytest.approx(scale * near.upper, rel=1e-8)
    assert np.allclose(far.intercept / scale, near.intercept, atol=1e-4)


# --- other solvers ---------------------------------------------------------------------------


@INTERCEPT
@pytest.mark.parametrize("chunk", range(3))
def test_agrees_with_clarabel(chunk, fit_intercept):
    solved = 0
    for seed in range(20 * chunk, 20 * chunk + 20):
        X, y = random_problem(seed)
        status, objective = quadratic_program(X, y, fit_intercept)
        result = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-8)
        if status == "Solved":
            assert result.status is Status.OPTIMAL, seed
            assert result.lower == pytest.approx(1.0 / np.sqrt(2.0 * objective), rel=1e-7), seed
        elif status == "PrimalInfeasible":
            assert_witness(result, X, y, fit_intercept)
        solved += status in ("Solved", "PrimalInfeasible")
    assert solved >= 17


@INTERCEPT
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0, 1e4])
def test_soft_margins_agree_with_clarabel(C, fit_intercept):
    solved = 0
    for seed in range(12):
        X, y = random_problem(seed)
        status, objective = quadratic_program(X, y, fit_intercept, C)
        result = max_margin(X, y, fit_intercept=fit_intercept, C=C, tol=1e-9)
        assert result.status is Status.OPTIMAL, seed
        W, b = result.coef, result.intercept
        slack = np.maximum(0.0, 1.0 - leads(X @ W.T + b, y))
        own = 0.5 * np.sum(W**2) + C * np.sum(slack**2)
        assert own == pytest.approx(0.5 / result.lower**2, rel=1e-7), seed
        if status == "Solved":
            assert own == pytest.approx(objective, rel=1e-6), seed
        solved += status == "Solved"
    assert solved >= 8


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4, 1e6, 1e8])
@pytest.mark.parametrize(("d", "k"), [(60, 3), (20, 5)])
def test_soft_margins_for_any_C(d, k, C):
    """From plainly soft to nearly hard, where Newton's method needs help."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, d))
    y = (X @ rng.normal(size=(d, k))).argmax(axis=1)
    result = max_margin(X, y, C=C)
    assert result.status is Status.OPTIMAL
    assert result.upper >= max_margin(X, y).lower


@pytest.mark.parametrize("C", [np.inf, 1.0, 1e4])
@INTERCEPT
def test_digits_to_1e8(C, fit_intercept):
    data = load("digits")
    result = max_margin(data.X, data.y, fit_intercept=fit_intercept, C=C, tol=1e-8)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-8


@needs_data
@INTERCEPT
@pytest.mark.parametrize("name", ["khan", "su"])
def test_gene_expression(name, fit_intercept):
    data = load(name, download=False)
    result = max_margin(data.X, data.y, fit_intercept=fit_intercept, tol=1e-8)
    assert result.gap <= 1e-8
    assert leads(data.X @ result.coef.T + result.intercept, data.y).min() > 0.0


@pytest.mark.slow
@needs_data
def test_letters_are_not_separable():
    """A witness on some of the rows is one on all of them."""
    data = load("letter.scale", subset=700, download=False)
    y = np.unique(data.y, return_inverse=True)[1]
    assert_witness(max_margin(data.X, data.y), data.X.toarray(), y, True)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in SOLVERS if name != "auto"])
@INTERCEPT
def test_every_method_agrees_with_auto(method, fit_intercept):
    X, y = blobs(6, n=60, d=5)
    auto = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-9)
    options = {"fit_intercept": fit_intercept, "max_iter": 1000, "tol": 1e-3}
    result = max_margin(X, y, method=method, random_state=0, **options)
    assert result.lower <= auto.upper and auto.lower <= result.upper
    assert result.gap < 0.95
    assert result.dual.sum() == pytest.approx(1.0, abs=1e-12)
    for dual in (result.full_dual(), auto.full_dual()):
        assert not dual[np.arange(60), y].any()
        assert not fit_intercept or imbalance(dual, y) <= 1e-12


# --- results, warm starts, the estimator -----------------------------------------------------


@INTERCEPT
@pytest.mark.parametrize("C", [np.inf, 1.0, 100.0])
def test_warm_starts_give_the_same_answer(C, fit_intercept):
    X, y = blobs(9, n=200, d=8, k=5)
    options = {"fit_intercept": fit_intercept, "tol": 1e-9}
    cold = max_margin(X, y, C=C, **options)
    starts = [max_margin(X, y, C=other, **options) for other in (np.inf, 0.1, 1e3)]
    starts += [max_margin(X[:150], y[:150], C=C, **options)]
    starts += [max_margin(X, y, C=C, fit_intercept=not fit_intercept)]
    for start in starts:
        warm = max_margin(X, y, C=C, initial=start, **options)
        assert warm.status is Status.OPTIMAL
        assert warm.lower == pytest.approx(cold.lower, rel=1e-8)
        assert np.allclose(warm.coef, cold.coef, atol=1e-3)


def test_starts_of_another_shape_are_refused():
    X, y = blobs(9, d=6, k=4)
    start = max_margin(X, y)
    with pytest.raises(InputError, match="initial has 6 features but X has 5"):
        max_margin(X[:, :5], y, initial=start)
    for classes in (2, 3):
        kept = y < classes
        with pytest.raises(InputError, match=f"initial has 4 classes but y has {classes}"):
            max_margin(X[kept], y[kept], initial=start)
    with pytest.raises(InputError, match="initial has 2 classes but y has 4"):
        max_margin(X, y, initial=max_margin(X[y < 2], y[y < 2]))


@INTERCEPT
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_shapes_and_attributes(C, fit_intercept):
    X, y = blobs(10, n=50, d=7, k=5)
    model = MaxMarginClassifier(fit_intercept=fit_intercept, C=C, tol=1e-9).fit(X, y)
    result, outputs = model.result_, model.decision_function(X)
    assert result.coef.shape == model.coef_.shape == (5, 7)
    assert np.shape(result.intercept) == model.intercept_.shape == (5,)
    assert result.full_dual().shape == outputs.shape == (50, 5)
    assert result.dual.shape == (model.support_.size, 5)
    assert model.dual_coef_.shape == (5, model.support_.size)
    assert np.allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-12)
    assert np.array_equal(model.predict(X), model.classes_[outputs.argmax(axis=1)])
    if fit_intercept:
        assert np.allclose(model.dual_coef_.sum(axis=1), 0.0, atol=1e-12)
    else:
        assert not result.intercept.any()
    if np.isinf(C):
        assert np.linalg.norm(model.coef_) == pytest.approx(1.0)
        assert leads(outputs, y).min() == pytest.approx(model.margin_, rel=1e-9)
        # at the optimum W is −Zᵀq at unit length
        W = X[model.support_].T @ model.dual_coef_.T
        assert np.allclose(W.T / np.linalg.norm(W), model.coef_, atol=1e-6)


def test_estimator_works_where_nothing_separates():
    X, y = blobs(12, n=90, d=2, k=3, spread=1.5)
    with pytest.warns(NotSeparableWarning):
        model = MaxMarginClassifier(C=np.inf).fit(X, y)
    assert model.margin_ < 0.0 and model.certificate_.lower == 0.0
    assert model.score(X, y) > 0.6


def test_scikit_learn_checks_three_classes():
    """The contract in test_estimators really fits three classes, for the tag admits them."""
    assert get_tags(MaxMarginClassifier(C=np.inf)).classifier_tags.multi_class
    seen = set()

    class Recorder(MaxMarginClassifier):
        def fit(self, X, y, **options):
            seen.add(np.unique(y).size)
            return super().fit(X, y, **options)

    checks = estimator_checks_generator(Recorder(max_iter=1000))
    named = [(getattr(check, "func", check).__name__, model, check) for model, check in checks]
    next(check(model) for name, model, check in named if name == "check_classifiers_train")
    assert 3 in seen
