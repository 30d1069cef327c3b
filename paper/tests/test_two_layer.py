"""The two-layer ReLU kernel: against its formula, its network in torch, and without torch."""

import doctest
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from momentron.errors import InputError
from paper import two_layer
from paper.two_layer import TwoLayerReLUKernel


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(40, 6)),
        rng.normal(size=(7, 6)),
        rng.normal(size=(9, 6)),
        rng.normal(size=9),
    )


def features(X, V, a):
    """∂f/∂a_j = relu(v_j·x) and ∂f/∂v_j = a_j 1[v_j·x > 0] x, one row per example."""
    Z = X @ V.T
    inner = (a * (Z > 0.0))[:, :, None] * X[:, None, :]
    return np.hstack([np.maximum(Z, 0.0), inner.reshape(len(X), -1)])


def test_kernel_is_the_product_of_gradients(data):
    X, Y, V, a = data
    phi, psi = features(X, V, a), features(Y, V, a)
    assert np.allclose(TwoLayerReLUKernel.from_weights(V, a)(X, Y), phi @ psi.T, rtol=1e-12)
    K = TwoLayerReLUKernel.from_weights(V, a)(X)
    assert np.allclose(K, phi @ phi.T, rtol=1e-12)
    assert np.array_equal(K, K.T)
    kernel = TwoLayerReLUKernel.from_weights(V, a)
    assert np.allclose(kernel.diagonal(X), np.diag(K), rtol=1e-12)


def test_kernel_is_that_of_the_network_in_torch(data):
    torch = pytest.importorskip("torch")
    from momentron.ntk import EmpiricalNTK

    X, Y, V, a = data
    nn = torch.nn
    hidden, outer = nn.Linear(6, 9, bias=False), nn.Linear(9, 1, bias=False)
    model = nn.Sequential(hidden, nn.ReLU(), outer).double()
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor(V))
        outer.weight.copy_(torch.tensor(a[None]))
    expected = EmpiricalNTK(model)(X, Y)
    assert np.allclose(TwoLayerReLUKernel.from_weights(V, a)(X, Y), expected, rtol=1e-12)
    normal = TwoLayerReLUKernel.from_weights(V, a, normalize=True)
    assert np.allclose(normal(X, Y), EmpiricalNTK(model)(X, Y, normalize=True), rtol=1e-12)


@pytest.mark.parametrize("block", [1, 50, 10**6])
@pytest.mark.parametrize("normalize", [False, True])
def test_blocks_and_prepared_rows_give_the_same(data, block, normalize, monkeypatch):
    X, Y, V, a = data
    phi, psi = features(X, V, a), features(Y, V, a)
    if normalize:
        phi, psi = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (phi, psi))
    monkeypatch.setattr(two_layer, "BLOCK", block)
    kernel = TwoLayerReLUKernel.from_weights(V, a, normalize=normalize)
    rows = kernel.prepare(X)
    assert len(rows) == 40
    assert kernel.prepare(rows) is rows
    for left in (X, rows):
        K = kernel(left)
        assert np.allclose(K, phi @ phi.T, rtol=1e-12)
        assert np.array_equal(K, K.T)
        assert np.allclose(kernel(left, Y), phi @ psi.T, rtol=1e-12)
    index = np.array([3, 1, 30])
    assert np.allclose(kernel(rows, rows[index]), phi @ phi[index].T, rtol=1e-12)
    assert np.allclose(kernel(rows[2:5], Y), phi[2:5] @ psi.T, rtol=1e-12)
    if normalize:
        assert np.array_equal(np.diag(kernel(X)), np.ones(40))
        assert np.array_equal(kernel.diagonal(X), np.ones(40))


def test_single_precision(data):
    X, Y, V, a = data
    single = TwoLayerReLUKernel.from_weights(V, a, dtype=np.float32)
    K = single(X, Y)
    assert K.dtype == np.float32
    assert single.prepare(X).gates.dtype == np.float32
    expected = TwoLayerReLUKernel.from_weights(V, a)(X, Y)
    assert np.abs(K - expected).max() <= 1e-5 * np.abs(expected).max()


def test_weights_follow_the_seed():
    first, again, other = (TwoLayerReLUKernel(50, 200, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.V, again.V)
    assert np.array_equal(first.a, again.a)
    assert not np.array_equal(first.V, other.V)
    assert first.V.shape == (200, 50)
    assert first.V.var() == pytest.approx(1 / 50, rel=0.05)
    assert first.a.var() == pytest.approx(1 / 200, rel=0.4)


def test_zero_rows_keep_zeros_when_normalised():
    K = TwoLayerReLUKernel(3, normalize=True)([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    assert np.array_equal(K, [[0.0, 0.0], [0.0, 1.0]])


def test_kernel_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X[:, 0] * X[:, 1] > 0.0  # not linearly separable
    svc = SVC(kernel=TwoLayerReLUKernel(5, normalize=True), C=1e8).fit(X, y)
    assert svc.score(X, y) == 1.0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 5)), r"X has shape \(3, 5\); the kernel needs at least 1 row of 6 features"),
        (np.ones((0, 6)), r"X has shape \(0, 6\)"),
        (np.ones(6), r"X has shape \(6,\)"),
        (np.full((2, 6), np.nan), "not finite"),
        (np.array([[np.inf, -np.inf] * 3]), "not finite"),
        (sp.eye_array(6, format="csr"), "pass X.toarray"),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(InputError, match=message):
        TwoLayerReLUKernel(6)(X)


def test_bad_weights(data):
    _, _, V, a = data
    with pytest.raises(InputError, match=r"hidden has shape \(9, 6\) and outer \(8,\)"):
        TwoLayerReLUKernel.from_weights(V, a[:8])
    with pytest.raises(InputError, match="must be finite"):
        TwoLayerReLUKernel.from_weights(V * np.nan, a)
    with pytest.raises(InputError, match="dtype=int64"):
        TwoLayerReLUKernel(3, dtype=np.int64)
    with pytest.raises(InputError, match="width=0"):
        TwoLayerReLUKernel(3, 0)
    rows = TwoLayerReLUKernel(6).prepare(data[0])
    with pytest.raises(InputError, match="prepared by another kernel"):
        TwoLayerReLUKernel(6)(rows)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_torch_is_not_imported():
    code = "import sys, paper.two_layer; print('torch' in sys.modules)"
    assert run(code) == "False"


def test_examples_in_docstrings():
    failed, attempted = doctest.testmod(two_layer)
    assert failed == 0
    assert attempted > 0
