"""Labels say the same of all examples and of some constraints."""

import numpy as np
import pytest

from momentron.dual.labels import as_labels
from momentron.dual.losses import Exponential
from momentron.errors import InputError
from momentron.rows import DenseOperator
from momentron.solvers.problem import Problem

SCHEMES = pytest.mark.parametrize(
    ("k", "fit_intercept"), [(2, False), (2, True), (4, False), (4, True)]
)
N, D = 30, 5


def drawn(k, fit_intercept, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.append(np.arange(k), rng.integers(0, k, N - k))
    labels = as_labels(k, fit_intercept, codes)
    return labels, rng.normal(size=(N, D)), rng


def rows_of(labels, X):
    """Z, built row by row: minus the outputs' signs times the example."""
    index = np.arange(labels.size)
    signs = labels.output_signs(index)
    return -(X[labels.examples(index)][:, :, None] * signs[:, None, :]).reshape(labels.size, -1)


@SCHEMES
def test_all_and_some_agree_with_the_rows(k, fit_intercept):
    labels, X, rng = drawn(k, fit_intercept)
    Z, w, q = rows_of(labels, X), rng.normal(size=labels.zeros(D).shape), rng.random(labels.size)
    products = X @ w
    scores = labels.scores(products)
    assert np.allclose(scores, Z @ w.ravel())
    assert np.allclose((X.T @ labels.mix(q)).ravel(), Z.T @ q)
    assert np.all(labels.row_norms(np.linalg.norm(X, axis=1)) >= np.linalg.norm(Z, axis=1))
    index = np.array([3, 8, labels.size - 1])
    assert np.allclose(labels.scores_at(index, products[labels.examples(index)]), scores[index])
    examples, a = labels.mix_at(index, q[index])
    assert np.allclose((X[examples].T @ a).ravel(), Z[index].T @ q[index])
    some = labels.some(np.array([4, 1]))
    assert np.allclose(
        some.scores(products[[4, 1]]), labels.scores(products).reshape(N, -1)[[4, 1]].ravel()
    )


@SCHEMES
def test_layouts_are_inverse_to_each_other(k, fit_intercept):
    labels, X, rng = drawn(k, fit_intercept)
    w, q = rng.normal(size=labels.zeros(D).shape), rng.random(labels.size)
    problem = Problem(DenseOperator(X), labels, labels.dual_set(Exponential()))
    assert np.array_equal(problem.from_coef(problem.in_units_of_x(w, 0.0)[0]), w)
    assert np.array_equal(labels.from_dual(labels.dual_of(q)), q)
    first = labels.from_dual(labels.dual_of(q)[:3])
    assert np.array_equal(first, q[: 3 * labels.per_example])
    b = rng.normal(size=labels.dual_set(Exponential()).n_intercepts)
    assert np.array_equal(labels.free_intercepts(labels.all_intercepts(b)), b)


@SCHEMES
def test_a_dual_set_of_some_rows_is_a_face_of_the_whole(k, fit_intercept):
    labels, _, rng = drawn(k, fit_intercept)
    whole = labels.dual_set(Exponential())
    p = rng.normal(size=labels.size)
    W = np.unique(whole.lowest(p, labels.size // 2))
    part = whole.some(W)
    lam = part.feasible_or_none(rng.normal(size=W.size))
    assert np.abs(part.columns.T @ lam).max(initial=0.0) <= 1e-14
    q = np.zeros(labels.size)
    q[W] = lam
    assert np.allclose(whole.normalize(q), q, rtol=1e-12)
    far = np.where(np.isin(np.arange(labels.size), W), p, 1e9)
    assert part.worst(p[W]) == pytest.approx(whole.margin(-far), rel=1e-12)
    b = rng.normal(size=part.n_intercepts)
    assert np.allclose(part.spread(b), part.columns @ b)


def test_a_dual_set_of_one_class_is_empty():
    labels, _, _ = drawn(2, True)
    whole = labels.dual_set(Exponential())
    part = whole.some(np.flatnonzero(labels.codes == 1))
    assert part.feasible_or_none(np.ones(part.size)) is None
    assert part.worst(np.ones(part.size)) == -np.inf
    with pytest.raises(InputError, match="class −1 has 0 rows"):
        labels.some(np.flatnonzero(labels.codes == 1)).dual_set(Exponential())
    many, _, _ = drawn(4, True)
    one_way = np.flatnonzero(many.codes[many.examples(np.arange(many.size))] == 0)
    assert (
        many.dual_set(Exponential()).some(one_way).feasible_or_none(np.ones(one_way.size)) is None
    )
