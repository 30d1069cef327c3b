"""Rules of the whole suite: Ctrl-C works however it was started, and what is slow is marked so."""

import os
import signal
import time

import pytest

LIMIT = 1.5  # processor seconds of a test without a marker: the clock counts others' work, too
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test without a marker that takes long: marked ones run in `.ci/run` alone."""
    begun = seconds_spent()
    result = yield
    spent = seconds_spent() - begun
    if spent > LIMIT and not MARKERS & {mark.name for mark in item.iter_markers()}:
        pytest.fail(
            f"took {spent:.1f} processor seconds; a test above {LIMIT} s needs one of the markers "
            f"{', '.join(sorted(MARKERS))}",
            pytrace=False,
        )
    return result
