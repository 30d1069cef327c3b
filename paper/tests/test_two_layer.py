"""The two-layer ReLU kernel: against its formula, its network in torch, and without torch."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.svm import SVC

from paper.two_layer import TwoLayerReLUKernel, values


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 6)), rng.normal(size=(7, 6))


def features(X, V, a):
    """∂f/∂a_j = relu(v_j·x) and ∂f/∂v_j = a_j 1[v_j·x > 0] x, one row per example."""
    Z = X @ V.T
    inner = (a * (Z > 0.0))[:, :, None] * X[:, None, :]
    return np.hstack([np.maximum(Z, 0.0), inner.reshape(len(X), -1)])


def test_kernel_is_the_product_of_gradients(data):
    X, Y = data
    kernel = TwoLayerReLUKernel(6, 9)
    phi, psi = (features(rows, kernel.V, kernel.a) for rows in (X, Y))
    assert np.allclose(kernel(X, Y), phi @ psi.T, rtol=1e-12)
    K = kernel(X, X)
    assert np.allclose(K, phi @ phi.T, rtol=1e-12)
    assert np.array_equal(K, K.T)
    assert np.allclose(kernel.diagonal(X), np.diag(K), rtol=1e-12)


def test_kernel_is_that_of_the_network_in_torch(data):
    torch = pytest.importorskip("torch")
    from momentron.ntk import EmpiricalNTK

    X, Y = data
    plain, normal = (TwoLayerReLUKernel(6, 9, normalize=normalize) for normalize in (False, True))
    nn = torch.nn
    hidden, outer = nn.Linear(6, 9, bias=False), nn.Linear(9, 1, bias=False)
    model = nn.Sequential(hidden, nn.ReLU(), outer).double()
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor(plain.V))
        outer.weight.copy_(torch.tensor(plain.a[None]))
    assert np.allclose(plain(X, Y), EmpiricalNTK(model)(X, Y), rtol=1e-12)
    assert np.allclose(normal(X, Y), EmpiricalNTK(model)(X, Y, normalize=True), rtol=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
def test_prepared_rows_give_the_same(data, normalize):
    X, Y = data
    kernel = TwoLayerReLUKernel(6, 9, normalize=normalize)
    phi, psi = (features(rows, kernel.V, kernel.a) for rows in (X, Y))
    if normalize:
        phi, psi = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (phi, psi))
    rows, others, index = kernel.prepare(X), kernel.prepare(Y), np.array([3, 1, 30])
    assert np.allclose(values(rows, others), phi @ psi.T, rtol=1e-12)
    assert np.allclose(values(rows, rows[index]), phi @ phi[index].T, rtol=1e-12)
    assert np.allclose(values(rows[2:5], others), phi[2:5] @ psi.T, rtol=1e-12)
    if normalize:
        assert np.array_equal(kernel.diagonal(X), np.ones(40))
        assert np.array_equal(np.diag(kernel(X, X)), np.ones(40))


def test_weights_follow_the_seed():
    first, again, other = (TwoLayerReLUKernel(50, 200, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.V, again.V)
    assert np.array_equal(first.a, again.a)
    assert not np.array_equal(first.V, other.V)
    assert first.V.shape == (200, 50)
    assert first.V.var() == pytest.approx(1 / 50, rel=0.05)
    assert first.a.var() == pytest.approx(1 / 200, rel=0.4)


def test_zero_rows_keep_zeros_when_normalised():
    X = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    kernel = TwoLayerReLUKernel(3, normalize=True)
    assert np.array_equal(kernel(X, X), [[0.0, 0.0], [0.0, 1.0]])
    assert np.array_equal(kernel.diagonal(X), [0.0, 1.0])


def test_kernel_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X[:, 0] * X[:, 1] > 0.0  # not linearly separable
    svc = SVC(kernel=TwoLayerReLUKernel(5, normalize=True), C=1e8).fit(X, y)
    assert svc.score(X, y) == 1.0


@pytest.mark.slow
def test_torch_is_not_imported():
    code = "import sys, paper.two_layer; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
