"""Checkpoints: the state of a solve in a file, so that a run that was killed goes on.

The file says of which problem and method it is, and has the arrays of the state:

    a line that says what the file is
    the SHA-256 of all that follows
    a `.npz` of the arrays; the words are one of them, as JSON

Nothing is unpacked or unpickled, and nothing larger than the file is ever made from it. It is
written next to its place and then moved there, so that a reader finds the old one or the new one,
whole. A file that is damaged, foreign or of another problem is an error: it is never written over.

What tells one run from another are its data by content, its method and options by value. No memory
address gets in: the same call in another process, or on another machine, has the same identity.
Functions and classes are known by their names, and by the values that they captured: a checkpoint
is a proposal, so that a function that was changed costs iterations, never truth.
"""

import hashlib
import io
import json
import os
import pickle
import time
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from momentron.data.arguments import machine_memory
from momentron.data.safefiles import (
    PRIVATE,
    Lock,
    open_regular,
    reason,
    require_writable,
    write_atomically,
)
from momentron.errors import InputError, WriteWarning, one_line, short
from momentron.rows.operator import row_blocks
from momentron.rows.validation import TrainingData
from momentron.solvers.solver import State
from momentron.views.trace import Row, Trace

if TYPE_CHECKING:
    from momentron.solvers.loop import Run

Arrays = dict[str, np.ndarray]
TITLE = b"momentron checkpoint 5\n"
PROBLEM = "problem."  # with which the names of its arrays begin
EVERY = 5.0  # seconds between two writes
REMEDY = "move it away or name another path (it was not changed)"
WORDS = "words"  # the array of the identity


def unusable(reason: str) -> InputError:
    """The error for a checkpoint with impossible content, although the file is complete."""
    return InputError(f"the checkpoint cannot be used: {reason}; {REMEDY}")


def taken(name: str, arrays: Mapping[str, np.ndarray], fresh: np.ndarray) -> np.ndarray:
    """A copy of an array that must have the shape of a fresh one: of real numbers, or of flags."""
    found = arrays.get(name)
    kinds, what = ("b", "flags") if fresh.dtype.kind == "b" else ("fiu", "real numbers")
    if found is None or found.shape != fresh.shape or found.dtype.kind not in kinds:
        shown = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise unusable(f"{name} is {shown}, but should be {what} of shape {fresh.shape}")
    return np.array(found, dtype=fresh.dtype)


def rows_of_trace(arrays: Mapping[str, np.ndarray]) -> list[Row]:
    """The trace of an earlier run; its iterations must be in order, and its counts whole."""
    found = arrays.get("trace", np.empty(0))
    is_count = [field.type is int for field in fields(Row)]
    table = taken("trace", arrays, np.empty((*found.shape[:1], len(is_count))))
    counts = table[:, is_count]  # the first are the iterations
    is_sound = ((counts >= 0.0) & (counts < 2.0**53)).all()
    if not (is_sound and (np.diff(counts[:, 0], prepend=0.0) > 0.0).all()):
        raise unusable("its trace does not have its iterations in order, or counts below 0")
    return [
        Row(*[int(v) if whole else v for v, whole in zip(values, is_count, strict=True)])
        for values in table.tolist()
    ]


class Checkpoint(Lock):
    """A file that holds the progress of one solve; a context in which no other run may write it.

    Parameters
    ----------
    path : path
        A regular file, or none yet, in a folder that can be written to.
    identity : dict of str to str
        What the file is for; one that differs is refused.
    every : float
        Seconds between two writes, at least.
    """

    def __init__(
        self, path: str | os.PathLike[str], identity: Mapping[str, str], every: float = EVERY
    ) -> None:
        super().__init__(path)
        self.path = Path(path)
        self.identity = dict(identity)
        self._every = every
        self._written = time.perf_counter()
        require_writable(self.path)

    def read(self) -> Arrays | None:
        """The arrays of the file, checked; None where there is no file."""
        try:
            with open_regular(self.path, follow_links=False) as file:
                identity, arrays = read_arrays(file, TITLE)
        except FileNotFoundError:
            return None
        except UnreadableFile as error:
            raise InputError(f"checkpoint {self.path} {error}: {REMEDY}") from None
        except OSError as error:
            raise InputError(f"checkpoint {self.path} cannot be read: {reason(error)}") from error
        for name in self.identity | identity:
            mine, theirs = self.identity.get(name), identity.get(name)
            if mine != theirs:
                raise InputError(
                    f"checkpoint {self.path} is from another run: its {name} is "
                    f"{one_line(theirs, 80)}, here it is {one_line(mine, 80)}; {REMEDY}"
                )
        return arrays

    def resume(self, run: "Run") -> bool:
        """Whether there was a file to continue from; refuses a method whose state no file holds."""
        state_arrays(run.state)
        arrays = self.read()
        if arrays is not None:
            restore_run(run, arrays)
        self._written = time.perf_counter()
        return arrays is not None

    def save(self, run: "Run", *, is_last: bool = False) -> None:
        """Write the file, if the last time is long enough ago or there will be no other.

        A run is not lost because its file cannot be written: it warns, and tries again later.
        """
        if not is_last and time.perf_counter() - self._written < self._every:
            return
        try:
            self.write(run_arrays(run))
        except OSError as error:
            warnings.warn(
                f"checkpoint {self.path} could not be written ({reason(error)}); the run goes on, "
                "and the file is as it was",
                WriteWarning,
                stacklevel=2,
            )
        self._written = time.perf_counter()

    def write(self, arrays: Arrays) -> None:
        """Replace the file by one with these arrays, at once and whole."""
        write_atomically(
            self.path, lambda file: write_arrays(file, TITLE, self.identity, arrays), PRIVATE
        )


def run_arrays(run: "Run") -> Arrays:
    """All that a solve carries from one step to the next."""
    problem, trace = run.seen, run.trace
    counts = (run.next, run.limit.total(), trace.n_iter, problem.operator.passes)
    return {
        "best.w": run.w,
        "best.q": run.q,
        "best.last_w": run.last_w,
        "trace": np.array([astuple(row) for row in trace]).reshape(-1, len(Trace.columns)),
        "numbers": np.array((run.lower, run.upper, *counts)),
        **state_arrays(run.state),
        **{PROBLEM + name: array for name, array in problem.to_arrays().items()},
    }


def restore_run(run: "Run", arrays: Arrays) -> None:
    """Take everything from the arrays of an earlier run, checked for shape and type.

    Nothing of it is believed: classifiers and weights are proposals, which the certificate proves
    or does not, and the rest are counts.
    """
    problem, trace = run.seen, run.trace
    numbers = taken("numbers", arrays, np.empty(6))
    lower, upper, following, seconds, n_iter, passes = numbers.tolist()
    counts = (following, seconds, n_iter, passes)
    if np.isnan(numbers).any() or not all(0 <= count < 2**53 for count in counts):
        raise unusable(f"its bounds and counts are {numbers.tolist()}")
    problem.from_arrays({k.removeprefix(PROBLEM): v for k, v in arrays.items()}, int(passes))
    restore_state(run.state, arrays)
    run.w, run.q = taken("best.w", arrays, run.w), taken("best.q", arrays, run.q)
    run.last_w = taken("best.last_w", arrays, run.last_w)
    run.lower, run.upper, run.next = lower, upper, int(following)
    run.limit.before = seconds
    for row in rows_of_trace(arrays):
        trace.append(row)
    trace.n_iter = int(n_iter)
    last, t = trace[-1].iteration if len(trace) else 0, run.state.t
    if t != n_iter or last > n_iter:
        raise unusable(f"it counts {n_iter:g} iterations, but {t} steps and a trace up to {last}")


def _parts_of(state: Any) -> dict[str, Any]:
    """What a file keeps of a state: its own account, or else all its attributes."""
    if hasattr(state, "to_arrays"):
        return state.to_arrays()
    return {"t": state.t} | vars(state) if isinstance(state, State) else vars(state)


def _has_parts(value: Any) -> bool:
    return hasattr(value, "to_arrays") or is_dataclass(value)


def state_arrays(state: Any, prefix: str = "state.") -> Arrays:
    """A solver's state as arrays; an error where some part of it is not numbers."""
    arrays: Arrays = {}
    for name, value in _parts_of(state).items():
        if _has_parts(value):
            arrays |= state_arrays(value, f"{prefix}{name}.")
        elif isinstance(value, np.ndarray | float | int):
            arrays[prefix + name] = np.asarray(value)
        else:
            raise InputError(
                f"checkpoint needs a method whose state is numbers, such as momentum; here "
                f"{name!r} is {type(value).__name__}: leave checkpoint out"
            )
    return arrays


def restore_state(state: Any, arrays: Arrays, prefix: str = "state.") -> None:
    """Set a fresh state to what `state_arrays` gave."""
    found: dict[str, Any] = {}
    for name, fresh in _parts_of(state).items():
        if _has_parts(fresh):
            restore_state(fresh, arrays, f"{prefix}{name}.")
            continue
        found[name] = value = taken(prefix + name, arrays, np.asarray(fresh))
        if not isinstance(fresh, np.ndarray):
            if np.isnan(value) or (isinstance(fresh, int) and value < 0):
                raise unusable(f"{name} is {value}, which is impossible")
            found[name] = value.item()
    getattr(state, "from_arrays", vars(state).update)(found)


# --- the file -------------------------------------------------------------------------------------


class UnreadableFile(ValueError):
    """The file is of another kind or damaged, or larger than memory; its text goes on after the
    name of the file.
    """


def write_arrays(
    stream: IO[bytes], title: bytes, words: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a file of this title."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.kind not in "biuf":
            raise TypeError(f"array {name!r} has type {array.dtype}, which no file can hold")
    packed = io.BytesIO()
    text = np.frombuffer(json.dumps(dict(words)).encode(), np.uint8)
    np.savez(packed, **{WORDS: text}, **arrays)  # type: ignore[arg-type]
    body = packed.getbuffer()
    stream.write(title + hashlib.sha256(body).hexdigest().encode() + b"\n")
    stream.write(body)


def read_arrays(stream: IO[bytes], title: bytes) -> tuple[dict[str, str], Arrays]:
    """The words and the arrays of a file of this title; nothing is read if memory is too small."""
    if stream.read(len(title)) != title:
        raise UnreadableFile("is not a checkpoint of this version")
    digest = stream.read(65)  # in hexadecimal, and the end of its line
    size, memory = os.fstat(stream.fileno()).st_size, machine_memory()
    if size > memory:
        raise UnreadableFile(f"takes {size} bytes, but only {memory:.0f} fit into memory")
    body = stream.read()
    try:
        if hashlib.sha256(body).hexdigest().encode() + b"\n" != digest:
            raise ValueError
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = archive.infolist()
        is_plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_plain or sum(member.file_size for member in members) > size:
            raise ValueError
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        words = json.loads(arrays.pop(WORDS).tobytes())
        is_sound = len(arrays) == len(members) - 1 and all(map(_is_numbers, arrays.values()))
        if not (is_sound and all(type(word) is str for word in words.values())):
            raise ValueError
    except Exception as error:  # zipfile, numpy and json raise anything for files nobody wrote
        raise UnreadableFile("is damaged") from error
    return words, arrays


def _is_numbers(array: np.ndarray) -> bool:
    """Whether an array has numbers, or flags that are 0 or 1."""
    if array.dtype.kind == "b":
        return int(array.view(np.uint8).max(initial=0)) <= 1
    return array.dtype.kind in "iuf"


# --- what a run is -------------------------------------------------------------------------------


def data_identity(data: TrainingData) -> dict[str, str]:
    """Rows and labels by content, whatever their layout in memory. Reads all of X once."""
    X = data.X
    if sp.issparse(X):
        X = sp.csr_array(X)
        rows: Iterable[np.ndarray] = X.data, X.indices, X.indptr
    else:  # a block is copied at a time
        blocks = row_blocks(X.shape[0], max(1, X.size // max(X.shape[0], 1)))
        rows = (np.asarray(X[block]) for block in blocks)
    return {
        "shape": " × ".join(str(size) for size in data.X.shape),
        "classes": digest_of(data.classes.astype(str)),
        "labels": digest_of(data.codes.astype(np.int64)),
        "data": digest_of(*rows),
    }


def digest_of(*arrays: np.ndarray) -> str:
    """A hash of arrays: their types, shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()[:32]


def parameters_of(solver: Any) -> str:
    """The parameters of a method, as text."""
    return ", ".join(f"{name}={content_of(name, v)}" for name, v in sorted(vars(solver).items()))


def content_of(name: str, value: Any) -> str:
    """An option as text that is the same in every process; refused where there is none."""
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    shown = short(value)
    shown = f"<{type(value).__qualname__}>" if "0x" in shown else shown
    try:
        content = _pickled(value)
    except (TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError) as error:
        because = type(error).__name__ if "0x" in str(error) else one_line(error)
        raise InputError(
            f"checkpoint cannot recognise {name}={shown} in another process: {because}; let it "
            "hold only numbers, text, arrays and functions of these, or leave checkpoint out"
        ) from None
    return f"{shown} {hashlib.sha256(content).hexdigest()[:32]}"


def _pickled(value: Any) -> bytes:
    content = io.BytesIO()
    pickler = _ByContent(content, protocol=4)
    pickler.fast = True  # what is equal is written alike, whether it is one object or two
    pickler.dump(value)
    return content.getvalue()


class _ByContent(pickle.Pickler):
    """Writes functions by name and by what they captured, sets and dicts in one order, arrays
    whatever their layout; nothing ever reads it.
    """

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return digest_of(value)
        if isinstance(value, set | frozenset):
            return sorted(map(_pickled, value))
        if isinstance(value, dict):
            return sorted((_pickled(key), _pickled(item)) for key, item in value.items())
        if not isinstance(value, FunctionType | type):
            return None
        name = f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, type):
            return name
        captured = [cell.cell_contents for cell in value.__closure__ or ()]
        return name, captured, value.__defaults__, value.__kwdefaults__
