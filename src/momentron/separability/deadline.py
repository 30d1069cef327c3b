"""Long calls of numpy and scipy, which neither a deadline nor Ctrl-C could end from within."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from momentron.arithmetic.clock import require_time

FLOPS_PER_SECOND = 2e10  # that a dense factorisation may count on
LONG = 2e9  # flops from which a call gets a thread of its own
INTERVAL = 0.05  # seconds between two looks at the clock


def call_within_deadline(
    flops: float, function: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """function(*args, **options), which takes so many flops, unless the time ends first.

    A long call runs in a thread of its own, which is left alone to its end when the deadline comes
    or the user interrupts; the function must not hold the interpreter's lock while it computes.

    Raises
    ------
    OutOfTime
        Where the time will not suffice, or did not.
    """
    require_time(flops / FLOPS_PER_SECOND)
    if flops < LONG:
        return function(*args, **options)
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(function(*args, **options))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(INTERVAL)
        if thread.is_alive():
            require_time()
    if failure:
        raise failure[0]
    return outcome[0]
