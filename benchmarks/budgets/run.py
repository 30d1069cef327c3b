"""One run of one path in a process of its own, so that nothing can hang the table."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

from benchmarks.budgets.timed_calls import PATHS
from momentron import InputError

MOST_SECONDS = 60.0  # of a call, after which it is killed
MOST_BUILDING = 120.0


def run(path: str, *, max_time: float | None = None, strike: float | None = None) -> dict[str, Any]:
    """Seconds of a call with a budget, or from Ctrl-C after `strike` seconds to its end."""
    options = json.dumps({"path": path, "max_time": max_time, "strike": strike})
    command = [sys.executable, "-m", "benchmarks.budgets.run", options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_BUILDING + MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"ending": "killed", "seconds": float("inf")}
    lines = done.stdout.strip().splitlines()
    if not lines:
        return {"ending": f"failed: {done.stderr.strip()[-200:]}", "seconds": float("inf")}
    return json.loads(lines[-1])


def _work(path: str, max_time: float | None, strike: float | None) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    call = PATHS[path]()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.alarm(int(MOST_SECONDS))
    struck: list[float] = []

    def interrupt() -> None:
        struck.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(strike, interrupt) if strike is not None else None
    start = time.perf_counter()
    try:
        if timer is not None:
            timer.start()
        ending = _ending(call(max_time))
    except KeyboardInterrupt:
        ending = "KeyboardInterrupt"
    except InputError as error:  # no answer is an answer, if it comes in time
        ending = f"error: {error}"
    end = time.perf_counter()
    if timer is None:
        return {"ending": ending, "seconds": end - start}
    timer.cancel()
    if not struck:
        return {"ending": f"{ending}, before Ctrl-C", "seconds": 0.0}
    return {"ending": ending, "seconds": end - struck[0]}


def _ending(answer: Any) -> str:
    """How the call says it ended: a status, an estimator's status, or a verdict's kind."""
    for name in ("status", "status_", "kind"):
        if hasattr(answer, name):
            return str(getattr(answer, name))
    return type(answer).__name__


if __name__ == "__main__":
    print(json.dumps(_work(**json.loads(sys.argv[1]))))
