"""Kernels against scikit-learn and exact arithmetic; what is no kernel is refused with a reason."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from momentron.errors import InputError
from momentron.rows.kernel_rows import KernelOperator
from momentron.rows.kernels import (
    GaussianKernel,
    LaplacianKernel,
    LinearKernel,
    as_kernel,
    negative_part,
    require_semidefinite,
)
from tests.oracles.kernels import exact_kernel

PARAMETERS = {
    "linear": {},
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "degree": 3, "coef0": 0.7},
    "laplacian": {"gamma": 0.4},
}
REFERENCES = {
    "linear": pairwise.linear_kernel,
    "rbf": pairwise.rbf_kernel,
    "poly": pairwise.polynomial_kernel,
    "laplacian": pairwise.laplacian_kernel,
}
LAYOUTS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csr-matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "csr32": lambda X: sp.csr_array(X.astype(np.float32)),
}


def rows_with_zeros(n=60, d=9, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    # multiples of 1/64 are the same in float32
    return np.round(rng.normal(size=(n, d)) * 64) / 64 * (rng.random((n, d)) < density)


# --- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("density", [0.03, 0.6])
def test_values_are_those_of_scikit_learn(name, layout, density):
    X, B = rows_with_zeros(density=density), rows_with_zeros(7, seed=1)
    K = REFERENCES[name](X, **PARAMETERS[name])
    data = LAYOUTS[layout](X)
    bound = as_kernel(name, X=data, **PARAMETERS[name]).bind(data)
    index = np.array([5, 58, 3, 3])
    assert np.allclose(bound.block(slice(0, 60), slice(0, 60)), K, rtol=1e-12, atol=1e-14)
    assert np.allclose(bound.block(index, slice(10, 40)), K[index, 10:40], rtol=1e-12, atol=1e-14)
    assert np.allclose(bound.block(index, index), K[np.ix_(index, index)], rtol=1e-12, atol=1e-14)
    assert np.allclose(bound.block(slice(None, None, -7), index), K[::-7, index], atol=1e-12)
    assert np.allclose(bound.diagonal(), np.diagonal(K), rtol=1e-12)
    expected = REFERENCES[name](B, X, **PARAMETERS[name])
    for other in (B, sp.csr_array(B), B.astype(np.float32)):
        assert np.allclose(bound.cross(other), expected, rtol=1e-12, atol=1e-14)
        assert np.allclose(bound.cross(other, index), expected[:, index], rtol=1e-12, atol=1e-14)
    assert np.allclose(bound.kernel.block(B, data), expected, rtol=1e-12, atol=1e-14)
    assert np.allclose(bound.kernel.diagonal(data), np.diagonal(K), rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
def test_gamma_is_that_of_svc(layout, gamma):
    X = LAYOUTS[layout](rows_with_zeros() + 0.0)
    svc = SVC(gamma=gamma).fit(X, np.arange(60) % 2)
    assert as_kernel("rbf", gamma=gamma, X=X).gamma == pytest.approx(svc._gamma, rel=1e-12)
    assert as_kernel("rbf", X=np.ones((3, 2))).gamma == 1.0  # no variance: as SVC has it


def test_names_and_instances():
    X = rows_with_zeros()
    assert as_kernel("poly", X=X, degree=2) == as_kernel("polynomial", X=X, degree=2)
    assert as_kernel("linear", gamma="nonsense", X=X) == LinearKernel()
    kernel = LaplacianKernel(0.5)
    assert as_kernel(kernel, X=X) is kernel


def test_rows_are_held_not_copied_and_temporaries_are_small():
    X = np.ones((40_000, 300), np.float32)
    bound = GaussianKernel(1e-3).bind(X)
    assert np.shares_memory(bound.points.X, X)
    tracemalloc.start()
    values = bound.block(np.arange(16), slice(0, 40_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes + 33e6  # X itself would be 96 MB in float64


# --- rounding bounds -------------------------------------------------------------------------

DATA = {
    "plain": lambda rng: rng.normal(size=(9, 5)),
    "float32": lambda rng: rng.normal(size=(9, 5)).astype(np.float32),
    "one-feature": lambda rng: rng.normal(size=(9, 1)),
    "scales": lambda rng: rng.normal(size=(9, 6)) * 10.0 ** np.arange(-5, 1),
    "offset": lambda rng: rng.normal(size=(9, 5)) + 1e6,
    "far": lambda rng: rng.normal(size=(9, 5)) + 1e10,
    "tiny": lambda rng: rng.normal(size=(9, 5)) * np.logspace(-165, 0, 9)[:, None],
    "sparse": lambda rng: sp.csr_array(rows_with_zeros(9, 40, density=0.1)),
    "sparse-far": lambda rng: sp.csr_array(rng.normal(size=(9, 5)) + 1e5),
    "zero": lambda rng: np.zeros((3, 2)),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", REFERENCES)
def test_values_are_within_the_bound(name, data):
    X = DATA[data](np.random.default_rng(7))
    kernel = as_kernel(name, X=X, **PARAMETERS[name])
    bound = kernel.bind(X)
    n = X.shape[0]
    K = exact_kernel(kernel, X.toarray() if sp.issparse(X) else X)
    computed = bound.block(slice(0, n), np.arange(n))
    norms = [Fraction(float(r)) for r in bound.row_norms]
    error = Fraction(bound.relative_error)
    for i in range(n):
        assert norms[i] ** 2 >= K[i][i]
        for j in range(n):
            limit = error * norms[i] * norms[j]
            assert abs(Fraction(float(computed[i, j])) - K[i][j]) <= limit
    roots = np.sqrt([float(K[i][i]) for i in range(n)])
    assert np.allclose(bound.row_norms, roots, rtol=1e-12, atol=1e-140)
    if data != "sparse-far" or name != "rbf":
        assert bound.relative_error < 1e-12


def test_a_gaussian_far_from_the_origin_keeps_its_digits():
    X = DATA["far"](np.random.default_rng(7))
    near = GaussianKernel(0.3).bind(X)
    assert near.points.centre is not None
    assert near.relative_error < 1e-13
    # where it cannot be moved, differences are squared one by one
    X = DATA["sparse-far"](np.random.default_rng(7))
    left = GaussianKernel(0.3).bind(X)
    K = np.array(exact_kernel(GaussianKernel(0.3), X.toarray()), dtype=float)
    lost = np.abs(left.block(np.arange(9), np.arange(9)) - K).max()
    assert lost < left.relative_error < 1e-13


@pytest.mark.parametrize("gamma", [1e-300, 1e-20, 1.0, 1e20, 1e300])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e6, 1e150])
@pytest.mark.parametrize("kind", [GaussianKernel, LaplacianKernel])
def test_no_parameter_makes_a_value_that_is_not_a_number(kind, gamma, scale):
    X = scale * np.random.default_rng(3).normal(size=(7, 3))
    bound = kind(gamma).bind(X)
    K = bound.block(slice(0, 7), slice(0, 7))
    assert np.all((K >= 0.0) & (K <= 1.0))
    assert np.all(np.abs(np.diagonal(K) - 1.0) <= bound.relative_error)


def test_the_bound_is_capped_where_nothing_is_known():
    # squares of differences would overflow
    bound = GaussianKernel(1e30).bind(sp.csr_array(1e154 * np.eye(3)))
    assert bound.relative_error == 1.0
    assert np.array_equal(bound.block(slice(0, 3), slice(0, 3)), np.eye(3))


def test_distances_that_overflow_are_refused():
    with pytest.raises(InputError, match="rescale X"):
        LaplacianKernel(1e-308).bind(np.array([[1e308], [-1e308]]))


# --- functions and matrices of the user's ----------------------------------------------------


def single(A, B):
    """Products in float32, in an order that depends on the number of rows."""
    parts = [slice(0, 100), slice(100, 300)] if len(A) > len(B) else [slice(0, 300)]
    A, B = A.astype(np.float32), B.astype(np.float32)
    return sum(A[:, part] @ B[:, part].T for part in parts)


def transposed(A, B):
    return B @ A.T


def lopsided(A, B):
    return A[:, :1] - B[:, 0]


def undefined(A, B):
    return np.full((len(A), len(B)), np.nan)


def test_a_function_is_called_with_rows_as_given():
    X = rows_with_zeros()
    bound = as_kernel(pairwise.rbf_kernel, X=X).bind(X)
    K = pairwise.rbf_kernel(X)
    index = np.array([4, 1])
    assert np.allclose(bound.block(index, slice(0, 60)), K[index], rtol=1e-14)
    assert np.allclose(bound.diagonal(), 1.0)
    assert np.allclose(bound.cross(X[:3], index), K[:3, index], rtol=1e-14)
    assert bound.relative_error < 1e-14
    assert bound.diagonal_evaluations == 32**2 + 28**2 + 31**2 + 2 * 16 * 15
    sparse = as_kernel(pairwise.rbf_kernel, X=X).bind(sp.csr_array(X))
    assert np.allclose(sparse.block(index, index), K[np.ix_(index, index)])


def test_the_precision_of_a_function_is_measured():
    X = np.random.default_rng(0).normal(size=(40, 300))
    assert 1e-9 < as_kernel(single, X=X).bind(X).relative_error < 1e-5
    assert as_kernel(lambda A, B: A @ B.T, X=X).bind(X).relative_error < 1e-13


@pytest.mark.parametrize(
    "function, message",
    [
        (transposed, r"transposed returned an array of shape \(15, 16\).*shape \(16, 15\)"),
        (undefined, "undefined gives nan"),
        (lopsided, r"lopsided gives -.* for rows 0 and .*symmetric function of two rows"),
        (lambda A, B: -(A @ B.T), "gives -.* for row 4 with itself"),
        (lambda A, B: A @ B.T + 0j, "type complex128"),
    ],
)
def test_functions_that_are_no_kernels_are_named(function, message):
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match=message):
        as_kernel(function, X=X).bind(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_a_matrix_is_used_where_it_is(dtype, order):
    K = pairwise.rbf_kernel(rows_with_zeros()).astype(dtype)
    K = np.repeat(K, 2, axis=1)[:, ::2] if order == "strided" else np.asarray(K, order=order)
    before = K.copy()
    bound = as_kernel("precomputed", X=K).bind(K)
    index = np.array([3, 50])
    assert np.array_equal(bound.block(index, slice(0, 60)), K[index])
    assert np.array_equal(bound.block(index, index), K[np.ix_(index, index)])
    assert np.array_equal(bound.cross(K[:5], index), K[:5, index])
    assert bound.relative_error == pytest.approx(16 * 2.0**-53, rel=1e-6)
    operator = KernelOperator(bound, 8 * 60 * 10)
    a = np.random.default_rng(0).normal(size=60)
    assert np.allclose(operator.adjoint(a)[1], K.astype(np.float64) @ a)
    operator._cache.resize(0)
    assert np.allclose(operator.combine(index, a[index])[1], K[:, index].astype(float) @ a[index])
    assert np.array_equal(K, before)
    is_read = dtype == np.float64 and order != "strided"
    assert operator.evaluations == (0 if is_read else 60 * 62)


def test_asymmetry_within_rounding_is_part_of_the_error():
    K = np.eye(1500)
    K[3, 1400], K[1400, 3] = 0.5, 0.5 + 4e-9
    assert as_kernel("precomputed", X=K).bind(K).relative_error == pytest.approx(2e-9, rel=1e-4)


def spoiled(i, j, value, n=1100):
    K = np.eye(n)
    K[i, j] = value
    return K


@pytest.mark.parametrize(
    "K, message",
    [
        (np.ones((3, 4)), r"shape \(3, 4\); pass the square matrix"),
        (sp.eye_array(3), "X.toarray"),
        (spoiled(1, 1050, 0.25), r"K\[1, 1050\] = 0.25 but K\[1050, 1\] = 0.0; pass \(K \+ K"),
        (spoiled(7, 7, -0.5), r"K\[7, 7\] = -0.5; the diagonal"),
        (spoiled(1090, 2, np.inf), r"K\[1090, 2\] = inf"),
        (np.array([[1.0, 1.5], [1.5, 1.0]]), r"not positive semidefinite: K\[0, 1\] = 1.5"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), r"K\[0, 1\] = 1.0, but K\[0, 0\] = 0.0"),
        (np.array([[1j]]), "Complex data"),
    ],
)
def test_matrices_that_are_no_kernels_are_refused(K, message):
    with pytest.raises(InputError, match=message):
        as_kernel("precomputed", X=K).bind(K)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kernel": "sigmoid"}, "kernel='sigmoid' is unknown; choose one of linear, rbf"),
        ({"kernel": np.eye(2)}, "pass it as X with kernel='precomputed'"),
        ({"kernel": "rbf", "gamma": "big"}, "gamma='big' must be 'scale'"),
        ({"kernel": "rbf", "gamma": 0.0}, "gamma=0.0 must be .* above 0"),
        ({"kernel": "laplacian", "gamma": float("nan")}, "gamma=nan"),
        ({"kernel": "poly", "gamma": None}, "gamma=None"),
        ({"kernel": "poly", "degree": 2.5}, "degree=2.5 must be an integer"),
        ({"kernel": "poly", "degree": 0}, "degree=0"),
        ({"kernel": "poly", "coef0": -1.0}, "coef0=-1.0 gives a polynomial that is not"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(InputError, match=message):
        as_kernel(X=rows_with_zeros(), **options)


def test_bad_rows():
    X = np.array([[1e200, 0.0], [0.0, 1e-3]])
    with pytest.raises(InputError, match="gives inf for a pair of rows"):
        as_kernel("poly", gamma=1.0, X=X).bind(X)
    with pytest.raises(InputError, match=r"shape=\(3,\)"):
        as_kernel("rbf", X=np.ones(3))
    with pytest.raises(InputError, match=r"have 3 features.*with 2"):
        LinearKernel().bind(X / 1e200).cross(np.ones((1, 3)))
    for scale, value in ((1e-155, "inf"), (1e200, "0.0")):
        with pytest.raises(InputError, match=f"gamma='scale' is {value} for X"):
            as_kernel("rbf", X=scale * np.eye(2))


def test_semidefinite():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 10))
    K = A @ A.T  # rank 10: eigenvalues of about −1e-15 are rounding
    rows, error = np.arange(100, 140), 16 * 2.0**-53
    for good in (K, K * 1e200, np.zeros((3, 3)), np.empty((0, 0)), np.diag([1.0, 0.0, 1e-300])):
        few = rows[: len(good)]
        assert require_semidefinite(good, few, error) is None
        assert negative_part(good, few, error) == 0.0
    scale = 1.0 / np.sqrt(np.diagonal(K))
    N = K * np.outer(scale, scale)
    values, vectors = np.linalg.eigh(N)
    v = vectors[:, 0]
    nearly = N - 0.5e-8 * values[-1] * np.outer(v, v)  # no rounding of 16u explains that
    with pytest.raises(InputError, match="not positive semidefinite"):
        require_semidefinite(nearly, rows, error)
    widened = negative_part(nearly, rows, error)
    assert 0.5e-8 * values[-1] <= widened <= 0.6e-8 * values[-1]
    assert require_semidefinite(nearly, rows, widened) is None
    worst = rows[np.abs(v).argmax()]
    for check in (require_semidefinite, negative_part):
        with pytest.raises(InputError, match=rf"eigenvalue -0.2.*of row {worst}"):
            check(N - 0.25 * np.outer(v, v), rows, error)
