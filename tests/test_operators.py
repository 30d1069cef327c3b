"""Operators and dual sets: every layout gives the same answers, nothing is copied or written."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.dual.dualsets import ClassBalanced, Simplex
from momentron.dual.losses import Exponential
from momentron.rows import DenseOperator, SparseOperator, as_operator
from momentron.rows.validation import as_matrix, operator_of
from momentron.solvers.problem import Problem


def memory_mapped(X, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def read_only(X, tmp_path):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "c": lambda X, _: np.ascontiguousarray(X),
    "fortran": lambda X, _: np.asfortranarray(X),
    "read-only": read_only,
    "memory-mapped": memory_mapped,
    "row-strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "column-strided": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X, _: np.ascontiguousarray(X[::-1])[::-1],
    "csr": lambda X, _: sp.csr_array(X),
    "csr-matrix": lambda X, _: sp.csr_matrix(X),
    "csc": lambda X, _: sp.csc_array(X),
    "coo": lambda X, _: sp.coo_array(X),
}


def sparse_problem(dtype=np.float64):
    data = make_separable(60, 8, margin=0.2, random_state=1)
    rng = np.random.default_rng(0)
    X = data.X.astype(dtype)
    X[:, 3] = 0.0
    X[rng.random(X.shape) < 0.1] = 0.0
    return X, data.y


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_layouts_agree(layout, fit_intercept, tmp_path):
    X, y = sparse_problem()
    other = LAYOUTS[layout](X, tmp_path)
    options = {"method": "momentum", "fit_intercept": fit_intercept, "max_iter": 200, "tol": 1e-9}
    one, two = max_margin(X, y, **options), max_margin(other, y, **options)
    assert two.lower == pytest.approx(one.lower, rel=1e-9, abs=1e-12)
    assert two.upper == pytest.approx(one.upper, rel=1e-9)
    assert np.allclose(one.coef, two.coef, atol=1e-9)


@pytest.mark.parametrize("layout", ["c", "fortran", "csr", "csc"])
def test_float32_agrees_and_is_certified_in_float64(layout, tmp_path):
    X, y = sparse_problem(np.float32)
    other = LAYOUTS[layout](X, tmp_path)
    options = {"method": "momentum", "max_iter": 300}
    exact = max_margin(X.astype(np.float64), y, **options)
    single = max_margin(other, y, **options)
    assert single.lower <= exact.upper
    assert single.upper >= exact.lower
    assert single.upper == pytest.approx(exact.upper, rel=1e-4)
    assert single.certificate.lower.__class__ is float


@pytest.mark.parametrize("layout", ["c", "fortran", "row-strided", "read-only", "memory-mapped"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_data_are_not_copied(layout, dtype, tmp_path):
    X = LAYOUTS[layout](sparse_problem(dtype)[0], tmp_path)
    assert np.shares_memory(operator_of(as_matrix(X)).X, X)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("parts", [1, 3])
def test_sparse_data_are_not_copied(layout, parts, monkeypatch):
    monkeypatch.setattr("momentron.rows.sparse.own_threads", lambda flops: parts)
    X = LAYOUTS[layout](sparse_problem()[0], None)
    operator = operator_of(as_matrix(X))
    assert np.shares_memory(operator.X.data, X.data)
    lines = operator._lines
    assert len(lines._parts) == parts
    for part in (*lines._parts, *lines._transposed):
        assert np.shares_memory(part.data, X.data)
        assert np.shares_memory(part.indices, X.indices)


@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_and_norms(kind, dtype):
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(700, 40)) * (rng.random((700, 40)) < 0.3)).astype(dtype)
    operator = as_operator(X if kind == "dense" else sp.csr_array(X).asformat(kind))
    assert isinstance(operator, DenseOperator if kind == "dense" else SparseOperator)
    w, a = rng.normal(size=40), rng.normal(size=700)
    a[rng.random(700) < 0.4] = 0.0
    precision = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-11}
    X64 = X.astype(np.float64)
    assert np.allclose(operator.apply(w), X64 @ w, **precision)
    assert np.allclose(operator.adjoint(a), X64.T @ a, **precision)
    assert operator.passes == 2
    assert np.allclose(operator.scores_in_double(w), X64 @ w, rtol=1e-11)
    assert np.allclose(operator.exact_adjoint(a), X64.T @ a, rtol=1e-11)
    rows = np.array([5, 3, 699])
    assert np.array_equal(operator.rows(rows), X64[rows])
    assert np.allclose(operator.combine(rows, a[rows]), X64[rows].T @ a[rows])
    norms = np.linalg.norm(X64, axis=1)
    assert np.all(operator.row_norms >= norms)
    assert np.allclose(operator.row_norms, norms, rtol=1e-12, atol=1e-100)


def test_duplicate_sparse_entries_are_summed_in_a_copy():
    X = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), (2, 2))
    operator = operator_of(as_matrix(X))
    assert operator.row_norms == pytest.approx([3.0, 5.0])
    assert X.nnz == 3


def make(cls, signs):
    return cls(signs, Exponential()) if cls is ClassBalanced else cls(signs.size, Exponential())


def random_scores(seed, n=30):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    signs[:2] = [1.0, -1.0]
    return signs, rng.normal(size=n) * 3.0


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cls", [Simplex, ClassBalanced])
def test_dual_set_margin_is_a_linear_program(cls, seed):
    signs, scores = random_scores(seed)
    dual_set = make(cls, signs)
    rows = [np.ones(30)] if cls is Simplex else [signs > 0, signs < 0]
    mass = [1.0] if cls is Simplex else [0.5, 0.5]
    program = linprog(-scores, A_eq=np.array(rows, float), b_eq=mass, bounds=(0, None))
    assert dual_set.margin(scores) == pytest.approx(program.fun, abs=1e-9)
    vertex = dual_set.vertex(scores)
    assert -vertex.weight @ scores[vertex.index] == pytest.approx(dual_set.margin(scores))


@pytest.mark.parametrize("seed", range(10))
def test_intercept_is_the_midpoint_and_best(seed):
    signs, scores = random_scores(seed)
    dual_set = ClassBalanced(signs, Exponential())
    b = dual_set.intercept(scores)
    margins = -scores + signs * b  # y (x·w + b)
    assert margins.min() == pytest.approx(dual_set.margin(scores))
    assert margins[signs > 0].min() == pytest.approx(margins[signs < 0].min())


@pytest.mark.parametrize("cls", [Simplex, ClassBalanced])
def test_link_lies_in_the_set_and_normalize_keeps_it(cls):
    signs, scores = random_scores(3)
    dual_set = make(cls, signs)
    q, psi = dual_set.link(scores)
    assert psi >= -dual_set.margin(scores)
    assert q.sum() == pytest.approx(1.0)
    assert np.allclose(dual_set.normalize(7.0 * q), q, rtol=1e-12)
    if cls is ClassBalanced:
        assert q[signs > 0].sum() == pytest.approx(0.5)


def test_normalize_survives_anything():
    signs = np.array([1.0, -1.0, 1.0])
    for q in ([0.0, 0.0, 0.0], [-1.0, np.nan, np.inf], [1e308, 1e308, 1e308], [1e-320, 0.0, 0.0]):
        for cls in (Simplex, ClassBalanced):
            clean = make(cls, signs).normalize(np.array(q))
            assert np.all(clean >= 0.0)
            assert clean.sum() == pytest.approx(1.0)


def test_float_passes_are_counted():
    X, y = sparse_problem()
    problem = Problem.from_data(X, y)
    problem.scores(np.zeros(8))
    problem.gradient(np.ones(60))
    assert problem.operator.passes == 2
