"""Lies in what a solver does: to arrays that it was shown, to its state, and by raising."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.hostile.liars import LIES, Lie, tells
from momentron import max_margin
from momentron.arithmetic.clock import OutOfTime
from momentron.solvers import Candidates, Primal

DEPTH = 5


def reachable(thing: Any, depth: int = DEPTH, seen: set[int] | None = None) -> Iterator[np.ndarray]:
    """Every array that public names lead to from an object of the library."""
    seen = set() if seen is None else seen
    if id(thing) in seen or depth < 0:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif sp.issparse(thing):
        for name in ("data", "indices", "indptr"):
            yield from reachable(getattr(thing, name, None), depth - 1, seen)
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from reachable(part, depth - 1, seen)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from reachable(part, depth - 1, seen)
    elif type(thing).__module__.startswith("momentron"):
        for name in dir(thing):
            if name.startswith("_"):
                continue
            try:
                part = getattr(thing, name)
            except Exception:
                continue
            if not callable(part):
                yield from reachable(part, depth - 1, seen)


def _zero(array: np.ndarray) -> None:
    array[...] = 0


def _nan(array: np.ndarray) -> None:
    array[...] = np.nan


def _shrink(array: np.ndarray) -> None:
    array[...] = array * 1e-9 if array.dtype.kind == "f" else array[::-1]


def _grow(array: np.ndarray) -> None:
    array[...] = array * 1e9 if array.dtype.kind == "f" else array[::-1]


def _negate(array: np.ndarray) -> None:
    array[...] = -array


def _reverse(array: np.ndarray) -> None:
    array[...] = array[::-1].copy()


def _ones(array: np.ndarray) -> None:
    array[...] = 1


SCRIBBLES: dict[str, Callable[[np.ndarray], None]] = {
    "zeroes": _zero,
    "fills with NaN": _nan,
    "shrinks": _shrink,
    "grows": _grow,
    "negates": _negate,
    "reverses": _reverse,
    "fills with ones": _ones,
}


def _scribble(change: Callable[[np.ndarray], None], *, unlock: bool = False) -> Any:
    """A deed that changes every array in reach, those of the state apart."""

    def deed(problem: Any, state: Any) -> None:
        for array in list(reachable(problem)):
            try:
                if unlock:
                    array.flags.writeable = True
                change(array)
            except Exception:  # read-only, or of a type that takes no such value
                continue

    return deed


# numbers and arrays that a public name can be bound to again, on any of the problem's parts
REBOUND: dict[str, tuple[str, ...]] = {
    "radius": ("", "operator"),
    "row_norms": ("", "operator"),
    "kernel_error": ("operator",),
    "shape": ("operator",),
    "passes": ("operator", "stream"),
    "evaluations": ("operator",),
    "exponent": ("",),
    "classes": ("", "dual_set"),
    "tight_radius": ("",),
    "longest": ("",),
    "counts": ("",),
    "signs": ("labels", "dual_set"),
    "labels": ("",),
    "codes": ("labels",),
    "n_classes": ("labels",),
    "size": ("", "dual_set"),
    "penalty": ("",),
    "rho": ("dual_set",),
    "fits_intercept": ("dual_set",),
    "X": ("operator",),
    "found": ("",),
    "weights": ("",),
    "deadline": ("stream",),
    "nbytes": ("stream",),
    "n_blocks": ("stream",),
}


def _other(value: Any, factor: float) -> Any:
    if isinstance(value, np.ndarray):
        return value * factor if value.dtype.kind == "f" else value[::-1].copy()
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(1 for _ in value)
    if isinstance(value, int):
        return value + 40 if factor > 1 else 0
    if isinstance(value, float):
        return value * factor
    if sp.issparse(value):
        return value * factor
    return None


def _rebind(name: str, parts: tuple[str, ...], factor: float) -> Any:
    def deed(problem: Any, state: Any) -> None:
        for part in parts:
            owner = getattr(problem, part, None) if part else problem
            try:
                setattr(owner, name, _other(getattr(owner, name), factor))
            except Exception:  # there is no such name here, or it cannot be set
                continue

    return deed


class ReusedBuffer:
    """Weights whose image was asked for in a buffer that is then filled with others."""

    def told(self, problem: Any, state: Any, honest: Candidates) -> Candidates:
        q = np.linspace(1.0, 2.0, problem.size)
        wanted = problem.labels.mix(problem.dual_set.normalize(q))
        buffer = np.zeros_like(wanted)
        problem.operator.adjoint_norm(buffer)
        buffer[...] = wanted
        return replace(honest, q=q, upper=1e-12)


class LateBuffer:
    """One buffer for all classifiers and one for weights, overwritten before the next step."""

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []

    def stepped(self, problem: Any, state: Any) -> None:
        for array in self._kept:
            array[...] = 0.0

    def told(self, problem: Any, state: Any, honest: Candidates) -> Candidates:
        first = honest.primals[0]
        w, q, scores = np.array(first.w), np.array(honest.q), np.array(first.scores)
        self._kept = [w, q]
        return replace(honest, primals=[Primal(w, scores)], q=q)


class PatientBuffer:
    """The answer in buffers that are spoilt in the very last moment, as the budget ends."""

    def __init__(self) -> None:
        self._w: Any = None
        self._q: Any = None

    def told(self, problem: Any, state: Any, honest: Candidates) -> Candidates:
        if self._w is None:
            self._w, self._q = np.array(honest.primals[0].w), np.array(honest.q)
        first = honest.primals[0]
        self._w[...], self._q[...] = first.w, honest.q
        if state.t > 5:
            self._w[...], self._q[...] = -first.w, 0.0
        return replace(
            honest, primals=[Primal(self._w, np.full_like(first.scores, -1e9))], q=self._q
        )


def _write_into_columns(problem: Any, state: Any) -> None:
    """What the column cache returned is written over."""
    index = np.arange(problem.operator.shape[0])
    operator = problem.operator
    for values in (
        operator.along(index[:3], np.eye(3))[2],
        operator.along(index[:1], np.ones(1))[2],
        operator.block(index, index),
        operator.block(index[:2], index),
        operator.kernel.block(index, index),
        operator.kernel.block(slice(0, 4), slice(0, 12)),
    ):
        values[...] = 0.0


def _write_into_answers(problem: Any, state: Any) -> None:
    """Whatever a public method returned is written over."""
    w, q = problem.zeros() + 1.0, problem.no_weights()
    n = problem.operator.shape[0]
    asked: list[Callable[[], Any]] = [
        lambda: problem.scores(w),
        lambda: problem.gradient(q),
        lambda: problem.operator.apply(w),
        lambda: problem.operator.rows(np.arange(n)),
        lambda: problem.operator.rows(slice(None)),
        lambda: problem.operator.working_rows(np.arange(n)),
        lambda: problem.operator.adjoint_norm(problem.labels.mix(q)),
        lambda: problem.operator.exact_adjoint(problem.labels.mix(q)),
        lambda: problem.operator.stored_rows(np.arange(n)).data,
        lambda: problem.operator.scores_in_double(w),
        lambda: problem.labels.examples(np.arange(problem.size)),
        lambda: problem.in_units_of_x(w, 0.0),
        lambda: problem.labels.dual_of(q),
        lambda: problem.dual_set.normalize(q),
        lambda: problem.dual_set.link(np.zeros(problem.size))[0],
    ]
    for ask in asked:
        try:
            found = ask()
            found[...] = 0.0
        except Exception:
            continue


def bind_all(thing: Any, depth: int = DEPTH, seen: set[int] | None = None) -> None:
    """Bind every public name of an object of the library, and of what it leads to, to another.

    Numbers and arrays become a thousandth of what they were, and methods return nothing.
    """
    seen = set() if seen is None else seen
    if id(thing) in seen or depth < 0 or not type(thing).__module__.startswith("momentron"):
        if sp.issparse(thing):
            thing.data = 1e-3 * thing.data
        return
    seen.add(id(thing))
    for name in dir(thing):
        if name.startswith("_"):
            continue
        try:
            part = getattr(thing, name)
            bind_all(part, depth - 1, seen)
            setattr(thing, name, (lambda *_, **__: None) if callable(part) else _other(part, 1e-3))
        except Exception:  # it cannot be read, or it cannot be set
            continue


def _rebind_parts(problem: Any, state: Any) -> None:
    """All that the parts of a problem have to say is bound to something else."""
    for name in ("penalty", "labels", "dual_set", "operator", "base", "stream"):
        bind_all(getattr(problem, name, None))


def _smaller_unit(problem: Any, state: Any) -> None:
    problem.radius = 1e-9


def _larger_unit(problem: Any, state: Any) -> None:
    problem.radius = 1e9


def _tighten_again(problem: Any, state: Any) -> None:
    vars(problem).update(vars(problem.for_solver(tight=True).for_solver(tight=True)))


def _forget_columns(problem: Any, state: Any) -> None:
    problem.operator.reserve(10**9)
    problem.operator.reserve(10**12)


def _solve_inside(problem: Any, state: Any) -> None:
    max_margin(np.eye(2), [0, 1], max_iter=3)


def _claim_weights(problem: Any, state: Any) -> None:
    """On streams: weights that are zero, as a file might have them."""
    state.mu = 0.0 * state.mu


def _know_classifiers(problem: Any, state: Any) -> None:
    """A stream is told of counts that no run had."""
    arrays = {name: np.zeros_like(array) for name, array in problem.to_arrays().items()}
    problem.from_arrays(arrays, 0)


def _zero_image(problem: Any, state: Any) -> None:
    """Averaged weights and their image are zero, whatever the data."""
    state.mu[...] = 0.0
    state.z_mu[...] = 0.0


def _negative_share(problem: Any, state: Any) -> None:
    """Weights that cancel each other."""
    state.mu = problem.mix(state.mu, 1.0, state.mu, -1.0)


def _zero_even_image(problem: Any, state: Any) -> None:
    problem.gradient(problem.no_weights())[...] = 0.0


def _wild_scores(problem: Any, state: Any) -> None:
    state.now.scores = np.full_like(state.now.scores, -1e9)


def _wild_q(problem: Any, state: Any) -> None:
    state.now.weights = np.zeros_like(state.now.weights)


def _set_t(value: Any) -> Any:
    def deed(problem: Any, state: Any) -> None:
        state.t = value

    return deed


EXCEPTIONS: dict[str, BaseException] = {
    "ValueError": ValueError("a liar's error"),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "SystemExit": SystemExit(3),
    "MemoryError": MemoryError("a liar's lack of memory"),
    "OutOfTime": OutOfTime(),
    "StopIteration": StopIteration("a liar's end"),
    "GeneratorExit": GeneratorExit("a liar's end"),
    "RecursionError": RecursionError("a liar's depth"),
}


def enter() -> None:
    """One line for each lie."""
    for name, change in SCRIBBLES.items():
        tells(f"{name} all arrays at the start", started=_scribble(change))
        tells(f"{name} all arrays after a step", stepped=_scribble(change))
        tells(f"{name} all arrays, unlocked", stepped=_scribble(change, unlock=True))
    for name, parts in REBOUND.items():
        tells(f"{name} bound to more", stepped=_rebind(name, parts, 1e6))
        tells(f"{name} bound to less", stepped=_rebind(name, parts, 1e-6))
    LIES["buffer reused after its image"] = lambda: Lie(told=ReusedBuffer().told)
    LIES["buffer overwritten before the next step"] = _late
    LIES["buffer spoilt at the end"] = lambda: Lie(told=PatientBuffer().told)
    deeds = {
        "writes into kernel columns": _write_into_columns,
        "writes into answers": _write_into_answers,
        "binds all names of the parts": _rebind_parts,
        "takes a smaller unit": _smaller_unit,
        "takes a larger unit": _larger_unit,
        "tightens again": _tighten_again,
        "forgets columns": _forget_columns,
        "solves inside a step": _solve_inside,
        "claims weights of a stream": _claim_weights,
        "claims looks of a stream": _know_classifiers,
        "zeroes the averaged weights": _zero_image,
        "weights that cancel": _negative_share,
        "zeroes the even image": _zero_even_image,
        "scores of its own": _wild_scores,
        "weights of its own": _wild_q,
        "t is negative": _set_t(-5),
        "t stays": _set_t(1),
        "t is huge": _set_t(10**9),
        "t is NaN": _set_t(float("nan")),
        "t is a word": _set_t("three"),
    }
    for name, deed in deeds.items():
        tells(name, stepped=deed)
    for verb in ("init", "step", "candidates"):
        for name, exception in EXCEPTIONS.items():
            tells(f"raises {name} in {verb}", raised=(verb, exception))


def _late() -> Lie:
    buffer = LateBuffer()
    return Lie(stepped=buffer.stepped, told=buffer.told)
