"""Data and disks that change under a solve: blocks between passes, rows since a checkpoint."""

import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile.guard import outcome
from benchmarks.hostile.templates import MOMENTUM, SECONDS, TOL, Template, judged
from momentron import max_margin
from tests.oracles.truths import Rows, truth_of

BLOCK = 2  # rows


class ChangingSource:
    """Rows in small blocks, of which one is another from some reading on."""

    def __init__(self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
        self._X, self._y = X, y
        self._number = int(rng.integers(len(self)))
        self._from = int(rng.integers(2, 8))
        self._readings = 0
        self._factor = float(rng.choice([-1.0, 0.0, 1e-6, 3.0, 1.0]))

    def __len__(self) -> int:
        return len(self._y) // BLOCK

    def block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(BLOCK * number, BLOCK * number + BLOCK)
        X, y = self._X, self._y
        if number == self._number:
            self._readings += 1
            if self._readings >= self._from:
                X, y = self.changed()
        return X[rows].copy(), y[rows].copy()

    def changed(self) -> tuple[np.ndarray, np.ndarray]:
        """All the rows, as they are from then on."""
        X, y = self._X.copy(), self._y.copy()
        rows = slice(BLOCK * self._number, BLOCK * self._number + BLOCK)
        X[rows] *= self._factor
        if self._factor == 1.0:
            y[rows] = 1 - y[rows]
        return X, y


def changing_sources(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A source that changes between passes: the answer is true before or after, or an error."""
    source = ChangingSource(base.X, base.y, rng)
    options: dict[str, Any] = dict(MOMENTUM) if rng.random() < 0.5 else {"tol": TOL}
    X, y = source.changed()
    after = truth_of(Rows.of(X), y, True)

    def judge(found: Any) -> str | None:
        return base.truth.refutes(found, TOL) and after.refutes(found, TOL)

    reason = outcome(lambda: max_margin(source, **options), judge, SECONDS)
    return reason and f"{reason} [changing source]"


def changed_since_checkpoint(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A run that goes on over rows that are no longer those it began with."""
    size = 8 * BLOCK * base.X.shape[1]
    options: dict[str, Any] = MOMENTUM | {"checkpoint": home / "new.state"}
    if rng.random() < 0.7:
        options["block_size"] = size
    max_margin(base.X, base.y, **options)
    X, y = base.X.copy(), base.y.copy()
    row = int(rng.integers(len(y)))
    if rng.random() < 0.5:
        X[row] = -X[row]
    else:
        y[row] = 1 - y[row]
    truth = truth_of(Rows.of(X), y, True)
    options["max_iter"] += int(rng.integers(0, 5))
    reason = judged(lambda: max_margin(X, y, **options), truth)
    return reason and f"{reason} [changed since the checkpoint]"


def full_disk(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """No file may grow beyond some bytes: the answer is there all the same."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = int(rng.integers(0, 4000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    blocks: dict[str, Any] = {"block_size": 120} if rng.random() < 0.5 else {}
    reason = outcome(
        lambda: max_margin(base.X, base.y, checkpoint=home / "new.state", **MOMENTUM, **blocks),
        lambda found: base.truth.refutes(found, TOL),
        SECONDS,
        may_refuse=False,
    )
    return reason and f"{reason} [full disk after {limit} bytes]"
