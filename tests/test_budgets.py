"""max_time and Ctrl-C, on paths where single steps used to take many times as long.

Bounds are generous: the tests share their machine. `python -m benchmarks.budgets` has the table.
"""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from momentron import max_margin
from momentron.arithmetic import squares
from momentron.arithmetic.clock import OutOfTime, until
from momentron.arithmetic.linear_algebra import back_solve, thin_qr
from momentron.arithmetic.squares import ONE_CALL, factor_in_place, gram_product

pytestmark = pytest.mark.clock


def noise(n, d, classes=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, classes, n)


PATHS = {
    "rbf momentum": ((12_000, 30), {"kernel": "rbf", "method": "momentum"}),
    "rbf": ((12_000, 30), {"kernel": "rbf"}),
    "laplacian": ((4000, 400), {"kernel": "laplacian", "method": "momentum"}),
    "laplacian, hinge": ((30_000, 30), {"kernel": "laplacian", "C": 1.0, "penalty": "hinge"}),
    "Gram matrix and factor": ((5000, 3500), {}),
}


@pytest.mark.parametrize("name", PATHS)
def test_max_time(name):
    shape, options = PATHS[name]
    X, y = noise(*shape)
    start = time.perf_counter()
    result = max_margin(X, y, max_time=1.0, tol=1e-12, **options)
    assert time.perf_counter() - start < 4.0
    assert result.lower <= result.upper


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize("name", PATHS)
def test_ctrl_c(name):
    shape, options = PATHS[name]
    X, y = noise(*shape)
    struck = []

    def strike():
        struck.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.7, strike)
    timer.start()
    try:
        max_margin(X, y, tol=1e-12, **options)
    except KeyboardInterrupt:
        pass
    finally:
        end = time.perf_counter()
        timer.cancel()
    assert struck and end - struck[0] < 3.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 300, ONE_CALL + 1, 1500])
def test_factors_by_panels(n, dtype):
    A = np.random.default_rng(n).normal(size=(n, n + 5))
    M = np.asfortranarray(A @ A.T + n * np.eye(n), dtype=dtype)
    factor, exists = factor_in_place(M.copy(order="F"))
    assert exists
    L = np.tril(factor).astype(np.float64)
    assert np.abs(L @ L.T - M).max() < 100 * np.finfo(dtype).eps * np.abs(M).max()
    M[n - 1, n - 1] = -1.0
    assert not factor_in_place(M)[1]


@pytest.mark.parametrize("shape", [(90, 400), (400, 90), (300, 300)])
def test_what_is_cut_is_the_same(shape, monkeypatch):
    monkeypatch.setattr(squares, "PIECE", 1e5)
    A = np.random.default_rng(0).normal(size=shape)
    assert np.allclose(gram_product(A), A @ A.T, atol=1e-10)
    Q, R = thin_qr(A)
    assert np.allclose(Q @ R, A, atol=1e-10)
    assert np.allclose(Q.T @ Q, np.eye(min(shape)), atol=1e-12)
    K = np.asfortranarray(A @ A.T + np.eye(shape[0]))
    sides = np.random.default_rng(1).normal(size=(shape[0], 7))
    factor, _ = factor_in_place(K.copy(order="F"))
    assert np.allclose(K @ back_solve(factor, sides), sides, atol=1e-8)


def test_a_passed_deadline_is_heard_inside_them():
    M = np.asfortranarray(np.eye(2000))
    with until(time.perf_counter()), pytest.raises(OutOfTime):
        factor_in_place(M)
    with until(time.perf_counter()), pytest.raises(OutOfTime):
        thin_qr(np.zeros((2000, 1000)))
