"""A path of 50 values of C on MNIST 0/1, against its slowest single fit, in processor seconds.

    python -m benchmarks.c_path [--rounds 3]

Single fits are cold, at every seventh C; paths and single fits take turns, and the best of the
rounds counts.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from momentron import margin_path, max_margin
from momentron.datasets import load

Cs = np.logspace(-3.0, 3.0, 50)


def seconds_of(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    data = load("mnist", download=False)
    digits = np.isin(data.y, [0, 1])
    X, y = np.ascontiguousarray(data.X[digits], np.float64), np.asarray(data.y)[digits]
    print(f"{'':<16}{'slowest fit, s':>16}{'path, s':>10}{'ratio':>8}")
    for penalty in ("squared_hinge", "hinge"):
        single, path = np.full(Cs[::7].size, np.inf), np.inf
        for _ in range(rounds):
            for k, C in enumerate(Cs[::7].tolist()):
                fit = seconds_of(partial(max_margin, X, y, C=C, penalty=penalty))
                single[k] = min(single[k], fit)
            path = min(path, seconds_of(partial(margin_path, X, y, Cs=Cs, penalty=penalty)))
        slowest = float(single.max())
        print(f"{penalty:<16}{slowest:>16.3f}{path:>10.3f}{path / slowest:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
