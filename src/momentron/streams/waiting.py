"""Waiting for work that cannot be interrupted itself, as long as the deadline allows."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from momentron.clock import require_time

T = TypeVar("T")

PATIENCE = 0.1  # seconds between two looks at the clock


def in_time(work: Callable[[threading.Event], T]) -> T:
    """work(given_up), in a thread of its own, which is left alone at the deadline or at Ctrl-C.

    The event is then set, for the work to end as soon as it can.
    """
    given_up = threading.Event()
    found: list[Any] = []
    context = copy_context()

    def run() -> None:
        try:
            found.append((context.run(work, given_up), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, name="momentron-work", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PATIENCE)
            if thread.is_alive():
                require_time()
    except BaseException:
        given_up.set()
        raise
    value, error = found[0]
    if error is not None:
        raise error
    return value
