"""A folder of files as the library wrote them, with the truth about their data."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile.guard import outcome
from benchmarks.hostile.kinds import rows_for
from momentron import check_separability, max_margin
from tests.oracles.truths import Rows, Truth, kind_of, truth_of

SECONDS = 8.0
TOL = 1e-6
MOMENTUM: dict[str, Any] = {"method": "momentum", "max_iter": 6, "tol": TOL}
PRECIOUS = b"nobody's business\n"


@dataclass(frozen=True)
class Template:
    """A folder of files as the library wrote them, and the truth about them."""

    path: Path
    X: np.ndarray
    y: np.ndarray
    truth: Truth
    kind: str


@cache
def template(is_separable: bool) -> Template:
    """Made once in the parent process; trials copy it."""
    path = Path(tempfile.mkdtemp(prefix="hostile-files-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    X, y = rows_for(2, is_separable)
    _write_data(path, X, y)
    max_margin(X, y, checkpoint=path / "memory.state", **MOMENTUM)
    max_margin(X, y, checkpoint=path / "blocks.state", block_size=120, **MOMENTUM)
    max_margin(X, y, checkpoint=path / "auto.state", block_size=120, tol=TOL)
    max_margin(path / "data.svm", tol=TOL, block_size="16MiB")
    (path / "proof.json").write_text(check_separability(X, y).to_json())
    (path / "precious.txt").write_bytes(PRECIOUS)
    return Template(path, X, y, truth_of(Rows.of(X), y, True), kind_of(X, y, True))


def _write_data(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    import pandas as pd

    np.save(path / "rows.npy", X)
    np.save(path / "labels.npy", y)
    np.save(path / "table.npy", np.column_stack([X, y]))
    np.savez(path / "data.npz", X=X, y=y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y)
    frame.to_csv(path / "data.csv", index=False)
    frame.to_parquet(path / "data.parquet")
    entries = (" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist())) for row in X)
    lines = [f"{label} {row}\n" for label, row in zip(y.tolist(), entries, strict=True)]
    (path / "data.svm").write_text("".join(lines))


Case = Callable[[np.random.Generator, Template, Path], str | None]


def judged(attempt: Callable[[], Any], truth: Truth) -> str | None:
    return outcome(attempt, lambda found: truth.refutes(found, TOL), SECONDS)
