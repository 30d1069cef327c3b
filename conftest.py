"""Rules of the whole suite: Ctrl-C works however it was started, and what is slow is marked so."""

import os
import signal
import time

import pytest

LIMIT = 1.5  # processor seconds of a test without a marker: the clock counts others' work, too
PACE = 0.0071  # processor seconds of `counting` where the limit was set, on an idle core
MARKERS = {"slow", "adversarial", "docs", "browser", "cluster", "clock"}


@pytest.fixture(autouse=True, scope="session")
def ctrl_c():
    """Jobs in the background begin with SIGINT ignored, and so would the processes they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def seconds_spent():
    """Processor seconds of this thread, and of children that have ended; BLAS threads may spin."""
    return time.thread_time() + sum(os.times()[2:4])


def counting():
    """Processor seconds of a fixed loop: more on a slow machine, or where a neighbour is busy."""
    begun = time.thread_time()
    total = 0
    for i in range(200_000):
        total += i * i % 7
    return time.thread_time() - begun


def slowness():
    """How many times slower than an idle core this machine is at the moment."""
    return max(1.0, min(counting() for _ in range(5)) / PACE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test without a marker that takes long: marked ones run in `.ci/run` alone."""
    begun = seconds_spent()
    result = yield
    spent = seconds_spent() - begun
    is_marked = bool(MARKERS & {mark.name for mark in item.iter_markers()})
    if not is_marked and spent > LIMIT and spent > LIMIT * slowness():
        pytest.fail(
            f"took {spent:.1f} processor seconds; a test above {LIMIT} s needs one of the markers "
            f"{', '.join(sorted(MARKERS))}",
            pytrace=False,
        )
    return result
