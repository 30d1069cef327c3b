"""Checkpoints: the state of a solve in a file, so that a run that was killed goes on.

A file has a line that says what it is, a line of JSON that says of which problem and method, with
the length and the SHA-256 of the rest, and the arrays in numpy's .npz format. It is written beside
its place and then moved there, so that a reader finds the old one or the new one, whole. A file
that is damaged, foreign or of another problem is an error: it is never written over.
"""

import hashlib
import io
import json
import os
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError
from momentron.problem import Problem
from momentron.trace import Row, Trace

if TYPE_CHECKING:
    from momentron.clock import Stopwatch
    from momentron.solve import Incumbent, Judge
    from momentron.solvers.base import Solver

MAGIC = b"momentron checkpoint 1\n"
EVERY = 5.0  # seconds between two writes
HASHED_ROWS = 64
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Progress:
    """All that a solve carries from one step to the next."""

    problem: Problem
    state: Any
    best: "Incumbent"
    judge: "Judge"
    trace: Trace
    stopwatch: "Stopwatch"

    def to_arrays(self) -> Arrays:
        best = self.best
        arrays = _prefixed("state", state_arrays(self.state))
        arrays |= _prefixed("best", {"w": best.w, "q": best.q, "last_w": best.last_w})
        rows = [astuple(row) for row in self.trace]
        arrays["trace"] = np.array(rows, dtype=np.float64).reshape(len(rows), len(Trace.columns))
        bounds = (best.lower, best.upper, self.judge.next, self.stopwatch.total())
        arrays["numbers"] = np.array(bounds, dtype=np.float64)
        own = getattr(self.problem, "to_arrays", None)
        return arrays | (_prefixed("problem", own()) if own is not None else {})

    def restore(self, arrays: Arrays) -> None:
        """Take everything from the arrays of an earlier run, checked for shape and type.

        Nothing of it is believed: classifiers and weights are proposals, which the certificate
        proves or does not, and the rest are counts.
        """
        best = self.best
        restore_state(self.state, section("state", arrays))
        best.w = taken("best.w", arrays, best.w)
        best.q = taken("best.q", arrays, best.q)
        best.last_w = taken("best.last_w", arrays, best.last_w)
        numbers = taken("numbers", arrays, np.empty(4))
        lower, upper, following, seconds = numbers.tolist()
        if np.isnan(numbers).any() or not (0 <= following < 2**53 and 0 <= seconds < 2**53):
            raise unusable(f"its bounds, next question and seconds are {numbers.tolist()}")
        best.lower, best.upper, best.certificate = lower, upper, None
        self.judge.next = int(following)
        self.stopwatch.before = seconds
        for row in rows_of_trace(arrays):
            self.trace.append(row)
        if self.state.t != len(self.trace):
            raise unusable(f"it has {len(self.trace)} rows of a trace after {self.state.t} steps")
        own = getattr(self.problem, "from_arrays", None)
        if own is not None:
            own(section("problem", arrays))
        else:
            self.problem.operator.passes = max((row.passes for row in self.trace), default=0)


def unusable(reason: str) -> InputError:
    """The error of a checkpoint whose content cannot be, although the file is whole."""
    return InputError(
        f"the checkpoint cannot be used: {reason}; move it away or name another path, it is left "
        "as it is"
    )


def taken(name: str, arrays: Mapping[str, np.ndarray], fresh: np.ndarray) -> np.ndarray:
    """A copy of an array of real numbers that must have the shape of a fresh one."""
    found = arrays.get(name)
    if found is None or found.shape != fresh.shape or found.dtype.kind not in "fiu":
        shown = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise unusable(f"{name} is {shown}, and should be real numbers of shape {fresh.shape}")
    return np.array(found, dtype=fresh.dtype)


def rows_of_trace(arrays: Mapping[str, np.ndarray]) -> list[Row]:
    """The trace of an earlier run; its iterations must be numbered from 1 on."""
    found = arrays.get("trace", np.empty(0))
    if found.ndim != 2:
        raise unusable(f"its trace has shape {found.shape}")
    table = taken("trace", arrays, np.empty((found.shape[0], len(Trace.columns))))
    columns = dict(zip(Trace.columns, table.T, strict=True))
    integers = [field.name for field in fields(Row) if field.type in (int, "int")]
    counts = np.array([columns[name] for name in integers])
    if not np.array_equal(columns["iteration"], np.arange(1, table.shape[0] + 1)):
        raise unusable("its trace does not number the iterations 1, 2, 3 and so on")
    if not ((counts >= 0.0) & (counts < 2.0**53)).all():
        raise unusable("its trace has counts that are none")
    return [
        Row(**{k: int(v) if k in integers else v for k, v in zip(columns, values, strict=True)})
        for values in table.tolist()
    ]


class Checkpoint:
    """A file that holds the progress of one solve.

    Parameters
    ----------
    path : path
    identity : dict of str to str
        What the file is for; one that differs is refused.
    every : float
        Seconds between two writes, at least.
    """

    def __init__(
        self, path: str | os.PathLike[str], identity: Mapping[str, str], every: float = EVERY
    ) -> None:
        self.path = Path(path)
        self.identity = dict(identity)
        self._every = every
        self._written = time.perf_counter()
        if self.path.is_dir() or not self.path.absolute().parent.is_dir():
            raise InputError(f"checkpoint {self.path} is no file in a folder that exists; name one")

    def read(self) -> Arrays | None:
        """The arrays of the file, checked; None where there is no file."""
        if not self.path.exists():
            return None
        header, payload = self._parts(self.path.read_bytes())
        self._require_same(header.get("identity", {}))
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def _parts(self, content: bytes) -> tuple[dict[str, Any], bytes]:
        remedy = "move it away or name another path, it is left as it is"
        if not content.startswith(MAGIC):
            raise InputError(f"{self.path} is not a checkpoint of this version: {remedy}")
        line, _, payload = content[len(MAGIC) :].partition(b"\n")
        try:
            header = json.loads(line)
            is_whole = hashlib.sha256(payload).hexdigest() == header["sha256"]
        except (ValueError, KeyError, TypeError):
            is_whole, header = False, {}
        if not is_whole:
            raise InputError(f"checkpoint {self.path} is damaged: {remedy}")
        return header, payload

    def _require_same(self, found: Mapping[str, str]) -> None:
        for name in self.identity | dict(found):
            mine, theirs = self.identity.get(name), found.get(name)
            if mine != theirs:
                raise InputError(
                    f"checkpoint {self.path} is of another run: its {name} is {theirs}, here it is "
                    f"{mine}; move it away or name another path, it is left as it is"
                )

    def resume(self, progress: Progress) -> bool:
        """Whether there was a file to go on from. Refuses a method whose state no file can hold."""
        state_arrays(progress.state)
        arrays = self.read()
        if arrays is not None:
            progress.restore(arrays)
        self._written = time.perf_counter()
        return arrays is not None

    def save(self, progress: Progress, *, is_last: bool = False) -> None:
        """Write the file, if the last time is long enough ago or there will be no other."""
        if not is_last and time.perf_counter() - self._written < self._every:
            return
        self.write(progress.to_arrays())

    def write(self, arrays: Arrays) -> None:
        """Replace the file by one with these arrays, at once and whole."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        payload = buffer.getvalue()
        digest = hashlib.sha256(payload).hexdigest()
        header = json.dumps({"identity": self.identity, "sha256": digest}).encode()
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            file.write(MAGIC + header + b"\n")
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        self._written = time.perf_counter()


def state_arrays(state: Any) -> Arrays:
    """A solver's state as arrays: its own account of it, or all its fields where they are plain."""
    own = getattr(state, "to_arrays", None)
    if own is not None:
        return dict(own())
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    for name, value in values.items():
        if not isinstance(value, np.ndarray | float | int) or is_dataclass(value):
            raise InputError(
                f"checkpoint needs a method whose state is numbers, such as momentum; here "
                f"{name!r} is {type(value).__name__}: leave checkpoint out"
            )
    return {name: np.asarray(value) for name, value in values.items()}


def restore_state(state: Any, arrays: Arrays) -> None:
    """Set a fresh state to what `state_arrays` gave."""
    own = getattr(state, "from_arrays", None)
    if own is not None:
        own(arrays)
        return
    for field in fields(state):
        fresh = getattr(state, field.name)
        value = taken(field.name, arrays, np.asarray(fresh))
        is_number = not isinstance(fresh, np.ndarray)
        if is_number and (np.isnan(value) or (isinstance(fresh, int) and value < 0)):
            raise unusable(f"{field.name} is {value}, and cannot be")
        setattr(state, field.name, value if isinstance(fresh, np.ndarray) else value.item())


def identity_of(problem: Problem, solver: "Solver", **options: Any) -> dict[str, str]:
    """What tells a problem in memory and a method from others."""
    constraints = problem.constraints
    labels = getattr(constraints, "labels", getattr(constraints, "signs", np.empty(0)))
    return {
        "method": solver.name,
        "parameters": parameters_of(solver),
        "shape": " × ".join(str(size) for size in problem.operator.shape),
        "classes": digest_of(problem.classes.astype(str)),
        "labels": digest_of(np.asarray(labels)),
        "data": digest_of(constraints.row_norms, *_some_rows(problem.operator)),
    } | {name: _shown(value) for name, value in options.items()}


def _some_rows(operator: Any) -> list[np.ndarray]:
    """Rows spread over X, where there is an X to take them from."""
    X = getattr(operator, "X", None)
    if X is None:
        return []
    n = X.shape[0]
    index = np.unique(np.linspace(0, n - 1, min(n, HASHED_ROWS)).astype(int))
    rows = sp.csr_array(X)[index].toarray() if sp.issparse(X) else X[index]
    return [np.ascontiguousarray(rows)]


def digest_of(*arrays: np.ndarray) -> str:
    """A short hash of arrays: their types, shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def parameters_of(solver: "Solver") -> str:
    """The parameters of a method, as text."""
    return ", ".join(f"{name}={_shown(value)}" for name, value in sorted(vars(solver).items()))


def _shown(value: Any) -> str:
    if not callable(value):
        return repr(value)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    try:  # a schedule: its first values tell it from others of the same name
        return f"{name} {[float(value(t)) for t in (0, 1, 2, 10)]}"
    except Exception:
        return name


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {f"{prefix}.{name}": value for name, value in arrays.items()}


def section(prefix: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """The arrays whose names begin with the prefix and a dot, without it."""
    start = prefix + "."
    return {name[len(start) :]: v for name, v in arrays.items() if name.startswith(start)}
