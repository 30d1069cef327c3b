"""Threads of our own: every item once, errors as they come, nothing that hangs."""

import linecache
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from momentron import max_margin
from momentron.arithmetic import clock, threads
from momentron.arithmetic.squares import gram_product, submatrix, symmetric_product
from momentron.rows import SparseOperator

pytestmark = pytest.mark.clock


@pytest.fixture(params=[1, 2, 5])
def number(request, monkeypatch):
    """As many threads as if the user had set so many."""
    monkeypatch.setattr(threads._calls, "threads", lambda: request.param)
    threads._helpers.cache_clear()
    yield request.param
    threads._helpers.cache_clear()


def test_every_item_once(number):
    for count in (0, 1, 2, 3, 50):
        seen = []
        threads.in_threads(seen.append, range(count))
        assert sorted(seen) == list(range(count))


def blas():
    """How many threads each BLAS has."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def separable(kernel=None):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 60))
    w = rng.normal(size=60) / 8.0
    y = np.sign(X @ w)
    return {"X": X + 0.3 * y[:, None] * w, "y": y, "kernel": kernel}


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_fits_at_once_are_those_one_after_the_other(kernel):
    """The same to the last bit, and in about the same time."""
    problem, found = separable(kernel), []

    def fit():
        for _ in range(3):
            found.append(max_margin(**problem))

    with threadpool_limits(2, user_api="blas"):
        before = blas()
        max_margin(**problem)
        start = time.perf_counter()
        for _ in range(4):
            fit()
        alone = time.perf_counter() - start
        callers = [threading.Thread(target=fit) for _ in range(4)]
        start = time.perf_counter()
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(120)
        together = time.perf_counter() - start
        assert blas() == before
    assert len(found) == 24
    assert len({(result.lower, result.upper) for result in found}) == 1
    assert all(np.array_equal(result.coef, found[0].coef) for result in found)
    assert together < 4.0 * alone + 0.5


def test_each_thread_has_one_blas_thread_and_the_last_restores_them():
    seen, begun, go = [], threading.Barrier(3), threading.Event()

    def work():
        with threads.one_thread():
            begun.wait(30)
            seen.append(blas())
            go.wait(30)

    with threadpool_limits(2, user_api="blas"):
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        begun.wait(30)
        with threads.one_thread():
            seen.append(blas())
        seen.append(blas())  # the others are at work still
        go.set()
        for worker in workers:
            worker.join(30)
        assert set(blas()) == {2}
    assert {count for counts in seen for count in counts} == {1}


def test_what_the_user_sets_meanwhile_stays():
    with threadpool_limits(1, user_api="blas"):
        pass
    before = blas()
    with threads.one_thread(), threads.one_thread():
        for library in threads._found()[0]:
            library.set(2)
    assert set(blas()) == {2}
    for library, count in zip(threads._found()[0], before, strict=True):
        library.set(count)


# inside a weak reference's callback Python has nobody to raise to, and only says so
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_line_restores_them():
    def work():
        with threads.one_thread():
            threads.in_threads(lambda item: None, range(3))

    with threadpool_limits(2, user_api="blas"):
        work()
        at = 1
        while _interrupted(work, at):
            assert set(blas()) == {2}, f"at line event {at}"
            assert not threads._calls.active
            at += 1
    assert at > 30


def test_a_call_that_ctrl_c_ends_before_it_counts_ends_in_silence():
    call = threads._Call()
    reference = weakref.ref(call, threads._calls.leave)
    del call
    assert reference() is None and not threads._calls.active


def _interrupted(work, at):
    """Do the work, with Ctrl-C at the given line of threads.py; whether it came."""
    left, came = at, False

    def look(frame, event, argument):
        nonlocal left, came
        if frame.f_code.co_filename != threads.__file__:
            return None
        # signals are heard inside a with statement and in its exit, but not between the two
        line = linecache.getline(threads.__file__, frame.f_lineno).strip()
        if event in ("line", "call") and not line.startswith("with "):
            left -= 1
            if left == 0:
                came = True
                raise KeyboardInterrupt
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return came


def test_one_blas_thread_inside_and_all_after(number):
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
from momentron.arithmetic import threads
from momentron.rows import SparseOperator
threads._calls.threads = lambda: 2
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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads cannot be counted here")
def test_a_fit_in_a_forked_child_wakes_no_blas_threads():
    script = """
import os
import numpy as np
from momentron import max_margin
from momentron.arithmetic.threads import _found
A = np.random.default_rng(0).normal(size=(300, 300))
X, y = A[:200, :5], np.where(A[:200, :5].sum(axis=1) > 0.0, 1, -1)
blas = lambda: [library.count() for library in _found()[0]]
before, result, product = blas(), max_margin(X, y), A @ A
child = os.fork()
if child == 0:
    again = max_margin(X, y)
    is_same = (again.lower, again.upper) == (result.lower, result.upper)
    is_same = is_same and np.array_equal(again.coef, result.coef) and blas() == before
    is_alone = len(os.listdir("/proc/self/task")) == 1
    is_working = np.array_equal(A @ A, product)  # by threads that are started now
    os._exit(0 if is_same and is_alone and is_working else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment)


def test_more_threads_than_were_started_are_started():
    libraries = threads.loaded_blas()
    before = [library.count() for library in libraries]
    A = np.random.default_rng(0).normal(size=(300, 300))
    product = A @ A
    try:
        for count in (max(before) + 2, 1, max(before) + 1):
            for library in libraries:
                library.set(count)
            assert {library.count() for library in libraries} == {count}
            assert np.allclose(A @ A, product)
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set(count)


@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (700, 3), (400, 300), (0, 4)])
def test_products_in_parts(number, shape, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_OWN_THREADS", 0.0)
    A = np.random.default_rng(0).normal(size=shape)
    assert np.allclose(gram_product(A), A @ A.T, atol=1e-10)
    M = symmetric_product(A)
    assert np.allclose(M, A.T @ A, atol=1e-10)
    assert M.flags.f_contiguous


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
            assert np.allclose(operator.scores_in_double(w), dense @ w)
            assert np.allclose(operator.exact_adjoint(a), dense.T @ a)
            assert np.allclose(operator.exact_adjoint(few), dense.T @ few)
            single = 1e-5 if dtype == np.float32 else 1e-12
            assert np.allclose(operator.apply(w), dense @ w, atol=single)
            assert np.allclose(operator.adjoint(a), dense.T @ a, atol=single)


# ---- the libraries -------------------------------------------------------------------------


def counted(libraries):
    return sorted(library.count() for library in libraries)


def test_all_libraries_are_found(monkeypatch):
    quick = threads.loaded_blas()
    monkeypatch.setattr(threads, "_wheel_paths", list)  # as on other systems
    searched = threads.loaded_blas()
    assert len(quick) == len(searched)
    assert counted(quick) == counted(searched) == sorted(blas())


def test_what_is_not_openblas_is_left_to_the_search(monkeypatch):
    other = "/lib/libmkl_rt.so.2"
    monkeypatch.setattr(threads, "_wheel_paths", lambda: [other])
    assert threads.loaded_blas()


def test_without_memory_for_another_thread_the_caller_does_the_work(number, monkeypatch):
    monkeypatch.setattr(clock, "THREAD_BYTES", 2**62)
    assert not clock.has_room_for_thread()
    seen = []
    threads.in_threads(lambda item: seen.append(threading.current_thread()), range(20))
    assert set(seen) == {threading.current_thread()} and len(seen) == 20


def test_an_openblas_with_openmp_is_not_told_directly():
    class Library:
        @staticmethod
        def openblas_get_num_threads():
            return 2

        openblas_set_num_threads = print

        @staticmethod
        def openblas_get_parallel():
            return threads.OPENMP

    assert threads.Blas.of_openblas(Library) is None
    Library.openblas_get_parallel = staticmethod(lambda: 1)
    assert threads.Blas.of_openblas(Library).count() == 2
