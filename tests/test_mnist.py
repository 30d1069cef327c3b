"""The claims on MNIST, digits 0 and 1, where the data are at hand."""

import os

import numpy as np
import pytest
from sklearn.svm import SVC

from momentron import max_margin
from momentron.datasets import load

pytestmark = pytest.mark.skipif(
    "MOMENTRON_DATA" not in os.environ, reason="MOMENTRON_DATA is not set: no MNIST at hand"
)


@pytest.fixture(scope="module")
def zero_one():
    mnist = load("mnist", classes=(0, 1))
    return mnist.X, mnist.y


@pytest.mark.slow
def test_figure_1_order(zero_one):
    """After 1,000 iterations each: momentum, batch perceptron, normalised gradient, gradient."""
    X, y = zero_one
    options = {"fit_intercept": False, "max_iter": 1000}
    momentum = max_margin(X, y, method="momentum", **options)
    assert momentum.gap <= 0.03
    assert momentum.lower >= 0.97 * momentum.upper
    order = ["momentum", "batch-perceptron", "normalized-gradient", "gradient-descent"]
    margins = [momentum.trace["margin"][-1]]
    margins += [max_margin(X, y, method=m, **options).trace["margin"][-1] for m in order[1:]]
    assert np.all(np.diff(margins) < 0.0), dict(zip(order, margins, strict=True))


@pytest.mark.slow
def test_intercept_agrees_with_svc(zero_one):
    X, y = zero_one
    ours = max_margin(X, y, method="momentum", max_iter=3000)
    svc = SVC(kernel="linear", C=1e10, tol=1e-6).fit(X, y)
    theirs = 1.0 / np.linalg.norm(svc.coef_)
    assert ours.lower >= 0.998 * theirs
    assert ours.upper >= theirs * (1 - 1e-5)
