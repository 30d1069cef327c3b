"""Damaged and planted files: the answer is that of the data, or one line says what is wrong.

Every trial has a folder of its own with data in each format, caches, checkpoints and a proof, as
the library wrote them. One file is damaged, or another is planted where the library would write;
then it is used. Files that are nobody's business must still be there afterwards.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile.changes import changed_since_checkpoint, changing_sources, full_disk
from benchmarks.hostile.damages import damage
from benchmarks.hostile.guard import outcome
from benchmarks.hostile.templates import (
    MOMENTUM,
    PRECIOUS,
    SECONDS,
    TOL,
    Case,
    Template,
    judged,
    template,
)
from momentron import Verdict, max_margin, verify
from momentron.data.files import read_data
from tests.oracles.truths import Rows, truth_of

LARGEST = 40  # rows and columns of which an exact answer is worked out


def checkpoints(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A damaged checkpoint, from which a run is to go on."""
    name = str(rng.choice(["memory.state", "blocks.state", "auto.state"]))
    options: dict[str, Any] = {"tol": TOL} if name == "auto.state" else dict(MOMENTUM)
    if name != "memory.state":
        options["block_size"] = 120
    if rng.random() < 0.5 and name != "auto.state":
        options["max_iter"] += 4
    how = damage(rng, home / name)
    reason = judged(
        lambda: max_margin(base.X, base.y, checkpoint=home / name, **options), base.truth
    )
    return reason and f"{reason} [checkpoint {how}]"


def stale_caches(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A text that has changed in place, at the same size and time."""
    text = (home / "data.svm").read_text()
    lines = [_other_label(line) for line in text.splitlines()[: int(rng.integers(1, 4))]]
    changed = "\n".join([*lines, *text.splitlines()[len(lines) :]]) + "\n"
    (home / "data.svm").write_text(changed)
    os.utime(home / "data.svm", ns=_times(base.path / "data.svm"))
    y = base.y.copy()
    y[: len(lines)] = 1 - y[: len(lines)]
    truth = truth_of(Rows.of(base.X), y, True)
    reason = judged(lambda: max_margin(home / "data.svm", tol=TOL, block_size="16MiB"), truth)
    return reason and f"{reason} [stale cache, {len(lines)} labels]"


def _other_label(line: str) -> str:
    return ("1" if line[0] == "0" else "0") + line[1:]


def _times(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_atime_ns, found.st_mtime_ns


def proofs(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A damaged proof: what is accepted must be true."""
    how = damage(rng, home / "proof.json")

    def attempt() -> Any:
        content = (home / "proof.json").read_bytes() if _is_plain(home / "proof.json") else b""
        verify(content, base.X, base.y)
        return Verdict.from_json(content)

    def judge(found: Any) -> str | None:
        if found.kind not in (base.kind, "undecided"):
            return f"{found.kind} verified for {base.kind} data"
        return base.truth.contradicts(found.lower, found.upper)

    reason = outcome(attempt, judge, SECONDS)
    return reason and f"{reason} [proof {how}]"


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def data_files(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A damaged data file, read into memory: the answer is true of what was read."""
    suffixes = ("table.npy", "data.npz", "data.csv", "data.parquet", "data.svm")
    path = home / str(rng.choice(suffixes))
    how = damage(rng, path)

    def attempt() -> Any:
        file = read_data(path)
        return file, max_margin(file.X, file.y, tol=TOL, max_time=2.0)

    def judge(found: Any) -> str | None:
        file, result = found
        if max(file.X.shape) > LARGEST:
            return None
        X = file.X.toarray() if hasattr(file.X, "toarray") else np.asarray(file.X, np.float64)
        codes = np.unique(file.y, return_inverse=True)[1]
        if codes.max() > 3:
            return None
        return truth_of(Rows.of(X), codes, True).refutes(result, TOL)

    reason = outcome(attempt, judge, SECONDS)
    return reason and f"{reason} [data {how}]"


def block_files(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """A damaged data file, read in blocks: an interval, or one line."""
    name = str(rng.choice(["rows.npy", "labels.npy", "table.npy", "data.parquet", "data.svm"]))
    how = damage(rng, home / name)
    y: Any = None
    if name in ("rows.npy", "labels.npy"):
        name, y = "rows.npy", home / "labels.npy"
    elif name == "table.npy":
        y = -1

    def judge(found: Any) -> str | None:
        is_interval = 0.0 <= found.lower <= found.upper
        return None if is_interval else f"[{found.lower!r}, {found.upper!r}] is not an interval"

    def attempt() -> Any:
        labels = str(y) if isinstance(y, Path) else y
        return max_margin(home / name, labels, tol=TOL, max_time=2.0, block_size=120)

    reason = outcome(attempt, judge, SECONDS)
    return reason and f"{reason} [blocks {how}]"


def planted(rng: np.random.Generator, base: Template, home: Path) -> str | None:
    """Links and folders under the names that the library writes to: others' files stay."""
    names = ["memory.state.part", "memory.state.tmp", "memory.state.lock", "memory.state"]
    cache_name = "data.svm.momentron-cache"
    shutil.rmtree(home / cache_name, ignore_errors=True)
    (home / "memory.state").unlink()
    sort = str(rng.choice(["link", "hard link", "own folder", "part folder", "cache link"]))
    guarded = [home / "precious.txt"]
    if sort == "link":
        for name in names[: int(rng.integers(1, 5))]:
            (home / name).symlink_to("precious.txt")
    elif sort == "hard link":
        for name in names[:3]:
            os.link(home / "precious.txt", home / name)
    elif sort == "own folder":
        (home / cache_name).mkdir()
        guarded.append(home / cache_name / "mine.txt")
    elif sort == "part folder":
        (home / f"{cache_name}.{os.getpid()}.part").mkdir()
        guarded.append(home / f"{cache_name}.{os.getpid()}.part" / "mine.txt")
    else:
        (home / "elsewhere").mkdir()
        guarded.append(home / "elsewhere" / "mine.txt")
        (home / cache_name).symlink_to("elsewhere")
    for path in guarded:
        path.write_bytes(PRECIOUS)
    uses_state = sort in ("link", "hard link")

    def attempt() -> Any:
        if uses_state:
            return max_margin(base.X, base.y, checkpoint=home / "memory.state", **MOMENTUM)
        return max_margin(home / "data.svm", tol=TOL, block_size="16MiB")

    reason = judged(attempt, base.truth)
    for path in guarded:
        if not path.exists() or path.read_bytes() != PRECIOUS:
            reason = reason or f"FALSE: {path.relative_to(home)} was written over or deleted"
    return reason and f"{reason} [planted {sort}]"


CASES: dict[Case, float] = {
    checkpoints: 0.45,
    stale_caches: 0.03,
    proofs: 0.15,
    data_files: 0.14,
    block_files: 0.1,
    planted: 0.05,
    changing_sources: 0.04,
    changed_since_checkpoint: 0.02,
    full_disk: 0.02,
}


def case_of(seed: int, number: int) -> Case:
    """What a trial does."""
    cases = list(CASES)
    rng = np.random.default_rng([seed, number, 3])
    return cases[int(rng.choice(len(cases), p=np.array(list(CASES.values()))))]


def trial(seed: int, number: int) -> str | None:
    """One damaged file: why what followed is false, or None."""
    rng = np.random.default_rng([seed, number, 4])
    base = template(bool(rng.integers(2)))
    with tempfile.TemporaryDirectory(prefix="hostile-trial-") as folder:
        home = Path(folder) / "home"
        shutil.copytree(base.path, home)
        return case_of(seed, number)(rng, base, home)


def prepare() -> None:
    """Write the templates, before any child is forked."""
    template(True)
    template(False)
