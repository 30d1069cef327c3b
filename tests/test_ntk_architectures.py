"""The kernel equals the product of Jacobians, whatever the model is made of."""

import numpy as np
import pytest

pytest.importorskip("torch")

from momentron.ntk import EmpiricalNTK
from momentron.ntk.model_structure import examine
from tests.architectures import (
    cut_plans,
    every_architecture,
    jacobian,
    make,
    one_torch_thread,  # noqa: F401
)

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even")


@every_architecture(0)
def test_kernel_is_the_product_of_jacobians(name):
    model, X, rest = make(name)
    J = jacobian(model, X).reshape(len(X), -1)
    expected = J @ J.T
    scale = np.abs(expected).max()
    assert scale > 0.0
    ntk = EmpiricalNTK(model)
    K = ntk(X)
    assert np.abs(K - expected).max() <= 1e-10 * scale
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * scale
    assert np.abs(ntk(X[:3], X[3:]) - expected[:3, 3:]).max() <= 1e-10 * scale
    assert np.abs(ntk.diagonal(X) - np.diagonal(expected)).max() <= 1e-10 * scale
    assert set(examine(model, X[:4]).unstructured) == rest


@every_architecture(1)
def test_every_form_and_every_cut_gives_the_same(name, monkeypatch):
    model, X, _ = make(name)
    ntk = EmpiricalNTK(model)
    expected, normal = ntk(X), ntk(X, normalize=True)
    scale = np.abs(expected).max()
    for cut in (
        (3, 2, 1, True),
        (7, 3, 2, False),
        (1, 1, 9, True),
        (7, 7, 2, False),
        (3, 2, 9, True),
    ):
        cut_plans(monkeypatch, *cut)
        assert np.abs(ntk(X) - expected).max() <= 1e-12 * scale
        assert np.abs(ntk(X[:2], X[2:]) - expected[:2, 2:]).max() <= 1e-12 * scale
        assert np.abs(ntk.diagonal(X) - np.diagonal(expected)).max() <= 1e-12 * scale
        cross = ntk(X[:2], X[2:], normalize=True)
        assert np.abs(cross - normal[:2, 2:]).max() <= 1e-12
