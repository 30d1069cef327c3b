"""Threads of our own: every item once, errors as they come, nothing that hangs."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info

from momentron import threads
from momentron.operators import SparseOperator
from momentron.solvers.auto.linear_algebra import gram_product, submatrix, symmetric_product
from momentron.solvers.auto.rows import gram_columns_of


@pytest.fixture(params=[1, 2, 5])
def number(request, monkeypatch):
    """As many threads as if the user had set so many."""
    pools, _ = threads._pools()
    monkeypatch.setattr(threads, "_pools", lambda: (pools, request.param))
    threads._helpers.cache_clear()
    yield request.param
    threads._helpers.cache_clear()


def test_every_item_once(number):
    for count in (0, 1, 2, 3, 50):
        seen = []
        threads.in_threads(seen.append, range(count))
        assert sorted(seen) == list(range(count))


def test_one_blas_thread_inside_and_all_after(number):
    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, inside = blas(), []
    threads.in_threads(lambda item: inside.append(blas()), range(4))
    if number > 1:
        assert all(pool == 1 for pools in inside for pool in pools)
    assert blas() == before


@pytest.mark.parametrize("error", [ValueError, IndexError, KeyboardInterrupt])
def test_errors_come_out_and_end_the_work(number, error):
    calls = []

    def fail(item):
        calls.append(item)
        if item == 3:
            raise error("three")

    with pytest.raises(error, match="three"):
        threads.in_threads(fail, range(1000))
    assert len(calls) < 1000


def test_calls_within_calls_do_not_wait_for_each_other(number):
    seen = []

    def outer(i):
        threads.in_threads(lambda j: seen.append((i, j)), range(4))

    threads.in_threads(outer, range(6))
    assert sorted(seen) == [(i, j) for i in range(6) for j in range(4)]


def test_many_callers_at_once(number):
    totals = np.zeros(6)

    def call(k):
        found = []
        threads.in_threads(found.append, range(20))
        totals[k] = sum(found)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert (totals == 190).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_starts_its_own():
    code = """
import os, sys
import numpy as np
from momentron import threads
from momentron.operators import SparseOperator
pools, _ = threads._pools()
threads._pools = lambda: (pools, 2)
def work():
    seen = []
    threads.in_threads(seen.append, range(10))
    return sorted(seen) == list(range(10))
assert work()
child = os.fork()
if child == 0:
    os._exit(0 if work() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (700, 3), (400, 300), (0, 4)])
def test_products_in_parts(number, shape, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_OWN_THREADS", 0.0)
    A = np.random.default_rng(0).normal(size=shape)
    assert np.allclose(gram_product(A), A @ A.T, atol=1e-10)
    M = symmetric_product(A)
    assert np.allclose(M, A.T @ A, atol=1e-10)
    assert M.flags.f_contiguous
    if shape[0]:
        new = np.arange(0, shape[0], 2)
        assert np.allclose(gram_columns_of(A, new), A @ A[new].T, atol=1e-10)


def test_submatrix():
    K = np.random.default_rng(0).normal(size=(500, 500))
    index = np.flatnonzero(np.arange(500) % 3)
    assert np.array_equal(submatrix(K, index), K[np.ix_(index, index)])
    single = submatrix(K, index, np.empty((index.size, index.size), np.float32))
    assert np.array_equal(single, K[np.ix_(index, index)].astype(np.float32))
    assert submatrix(K, index[:0]).shape == (0, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_sparse_products_in_runs_of_rows(number, layout, dtype, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_OWN_THREADS", 0.0)
    rng = np.random.default_rng(0)
    for shape, density in [((90, 40), 0.1), ((3, 50), 0.5), ((1, 7), 1.0), ((60, 5), 0.0)]:
        X = sp.random_array(shape, density=density, format=layout, rng=rng).astype(dtype)
        if density:
            X = sp.vstack([X, sp.csr_array((4, shape[1]), dtype=dtype)], format=layout)
        operator, dense = SparseOperator(X), X.toarray().astype(np.float64)
        for trailing in [(), (3,)]:
            w = rng.normal(size=(dense.shape[1], *trailing))
            a = rng.normal(size=(dense.shape[0], *trailing))
            few = a * (np.arange(a.shape[0]) == 1).reshape(-1, *(1 for _ in trailing))
            assert np.allclose(operator.exact_scores(w), dense @ w)
            assert np.allclose(operator.exact_adjoint(a), dense.T @ a)
            assert np.allclose(operator.exact_adjoint(few), dense.T @ few)
            single = 1e-5 if dtype == np.float32 else 1e-12
            assert np.allclose(operator.apply(w), dense @ w, atol=single)
            assert np.allclose(operator.adjoint(a), dense.T @ a, atol=single)
