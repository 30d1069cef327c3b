"""Ctrl-C or a deadline between any two instructions of the column cache leaves it right."""

import sys

import numpy as np
import pytest

from momentron.rows import column_cache
from momentron.rows.column_cache import ColumnCache

N, COLUMNS = 11, 4  # of which the cache holds few
K = np.add.outer(np.arange(N), np.arange(N)) ** 1.5 + np.diag(np.arange(1.0, N + 1.0))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(column_cache, "COLUMNS", 2)
    monkeypatch.setattr(column_cache, "STRIP", 3)
    monkeypatch.setattr(column_cache, "TILE_VALUES", 12)


def values(rows, cols):
    return K[rows][:, cols]


def work(cache):
    """Columns that come, stay and go; blocks; and less memory, for which columns move."""
    for index in ([0, 1, 2], [3, 4, 5], [1, 7, 8, 9]):
        cache.product(np.array(index), np.ones(len(index)))
    cache.block(np.arange(5, N), np.array([1, 9, 10]))
    cache.product(np.array([3]), np.ones((1, 2)))
    cache.resize(3 * 8 * N)
    everything = np.arange(N)
    cache.block(everything, everything)
    cache.product(np.array([9, 10]), np.ones(2))
    cache.resize(2 * 8 * N)
    cache.product(np.array([0, 6]), np.ones(2))


def interrupted(cache, at, error, event):
    """Do the work, with the error raised at the given event in the cache; whether it came."""
    left, came = at, False

    def look(frame, name, argument):
        nonlocal left, came
        if frame.f_code.co_filename != column_cache.__file__:
            return None
        frame.f_trace_opcodes = event == "opcode"
        if name == event:
            left -= 1
            if left == 0:
                came = True
                raise error
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work(cache)
    except error:
        pass
    finally:
        sys.settrace(before)
    return came


def require_right(cache):
    """Every later answer is that of K, whatever the cache holds."""
    everything, weights = np.arange(N), np.arange(1.0, N + 1.0)
    assert np.array_equal(cache.block(everything, everything.copy()), K)
    held = np.array([j for j in range(N) if cache.holds(np.array([j]))], int)
    assert np.allclose(cache.product(held, weights[held]), K[:, held] @ weights[held], rtol=1e-14)
    for j in range(N):  # one by one, so that all come and go
        assert np.array_equal(cache.product(np.array([j]), np.ones(1)), K[:, j])
    assert np.allclose(cache.product(everything, weights), K @ weights, rtol=1e-14)
    cache.resize(8 * N)
    assert np.array_equal(cache.block(everything, everything), K)
    assert cache.size <= 1


@pytest.mark.adversarial
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_at_every_line(error):
    at = 1
    while True:
        cache = ColumnCache(values, N, COLUMNS * 8 * N)
        came = interrupted(cache, at, error, "line")
        require_right(cache)
        if not came:
            break
        at += 1
    assert at > 100  # the work was looked at


@pytest.mark.adversarial
def test_between_instructions():
    """Some thousand places; every seventh of them is tried, and the lines cover the rest."""
    at = 1
    while True:
        cache = ColumnCache(values, N, COLUMNS * 8 * N)
        came = interrupted(cache, at, KeyboardInterrupt, "opcode")
        require_right(cache)
        if not came:
            break
        at += 7
    assert at > 1000


def test_while_columns_are_computed():
    """What computes the columns may fail at any call."""
    for failing in range(1, 100):
        calls = 0

        def compute(rows, cols, failing=failing):
            nonlocal calls
            calls += 1
            if calls == failing:
                raise KeyboardInterrupt
            return values(rows, cols)

        cache = ColumnCache(compute, N, COLUMNS * 8 * N)
        try:
            work(cache)
        except KeyboardInterrupt:
            require_right(cache)
        else:
            assert failing > 20
            return
    raise AssertionError("the work never ended")
