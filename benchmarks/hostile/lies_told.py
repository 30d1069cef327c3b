"""Lies in what a solver proposes: classifiers, weights, scores, bounds and endings."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.hostile.liars import tells
from momentron.solvers import Candidates, Primal
from momentron.status import Status

TOO_GOOD = -1e9  # scores are violations: the smaller the better


class Shapeshifter(np.ndarray):
    """An array whose methods lie; each lie is a subclass."""

    @classmethod
    def of(cls, array: Any) -> Any:
        return np.array(array, np.float64).view(cls)


class CopiesItself(Shapeshifter):
    """What is taken for a copy is the liar's own array, which is zeroed at its next use."""

    def copy(self, *_: Any, **__: Any) -> Any:
        return self

    def astype(self, *_: Any, **__: Any) -> Any:
        self *= 0.0
        return self


class SaysNo(Shapeshifter):
    """Nothing in it counts, it says."""

    def any(self, *_: Any, **__: Any) -> Any:
        return False

    def max(self, *_: Any, **__: Any) -> Any:
        return 0.0

    def sum(self, *_: Any, **__: Any) -> Any:
        return 1.0


class ComputesZero(Shapeshifter):
    """All arithmetic with it gives zeros of the shape of the first array."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(v) for v in inputs]
        out = options.pop("out", None)
        found = getattr(ufunc, method)(*plain, **options)
        found = np.zeros_like(found)
        if out is not None:
            out[0][...] = found
            return out[0]
        return found


class ComputesLarge(Shapeshifter):
    """Sums and products with it are a thousand times as large."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(v) for v in inputs]
        options.pop("out", None)
        found = getattr(ufunc, method)(*plain, **options)
        return found * 1000.0 if np.asarray(found).dtype.kind == "f" else found


class ReshapesToZero(Shapeshifter):
    """Every view of it is of zeros."""

    def reshape(self, *shape: Any, **_: Any) -> Any:
        return np.zeros(self.size).reshape(*shape)

    def ravel(self, *_: Any, **__: Any) -> Any:
        return np.zeros(self.size)


class AnswersFunctions(Shapeshifter):
    """numpy's functions get zeros for an answer."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return np.zeros(self.shape)


class EqualsAll(Shapeshifter):
    """Equal to everything, and finite whatever it holds."""

    def __eq__(self, other: Any) -> Any:
        return np.ones(self.shape, bool)

    __hash__ = None  # type: ignore[assignment]


class NotAnArray:
    """An object that turns into another array each time it is asked."""

    def __init__(self, array: Any) -> None:
        self._array, self._times = np.array(array, np.float64), 0
        self.shape, self.dtype, self.size = self._array.shape, np.dtype("f8"), self._array.size
        self.ndim = self._array.ndim

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self._times += 1
        return self._array * (0.0 if self._times % 2 else 1.0)

    def copy(self) -> Any:
        return self


SHIFTING = (
    CopiesItself,
    SaysNo,
    ComputesZero,
    ComputesLarge,
    ReshapesToZero,
    AnswersFunctions,
    EqualsAll,
)


def _with(value: float, at: Any = slice(None)) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        changed = np.array(array, np.float64)
        changed.reshape(-1)[at] = value
        return changed

    return change


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=-1)[..., ::2]


def _beyond(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.longdouble) * np.longdouble(2.0) ** 5000


def _tiny_beyond(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.longdouble) * np.longdouble(2.0) ** -5000


# what can be done to any array of numbers, a classifier or weights
ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "zero": _with(0.0),
    "minus zero": _with(-0.0),
    "NaN": _with(np.nan),
    "one NaN": _with(np.nan, 0),
    "inf": _with(np.inf),
    "one inf": _with(np.inf, -1),
    "one −inf": _with(-np.inf, 0),
    "huge": _with(1e308),
    "one huge": _with(1.7e308, 0),
    "denormal": _with(5e-324),
    "one denormal": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, 5e-324, 0.0),
    "negated": lambda a: -a,
    "all but the first zero": _with(0.0, slice(1, None)),
    "all but the last zero": _with(0.0, slice(None, -1)),
    "twice the length": lambda a: np.concatenate([a, a], axis=-1),
    "doubled columns": lambda a: np.concatenate([a, np.zeros_like(a)], axis=a.ndim - 1),
    "one row more": lambda a: np.concatenate([a, a[:1]]),
    "one short": lambda a: a[..., :-1],
    "empty": lambda a: a[:0],
    "transposed": lambda a: a.T,
    "row vector": lambda a: a[None],
    "column vector": lambda a: a[..., None],
    "scalar": lambda a: np.float64(1.0),
    "0-d": lambda a: np.array(1.0),
    "broadcast": lambda a: np.broadcast_to(np.float64(1.0), a.shape),
    "float16": lambda a: a.astype(np.float16),
    "float32": lambda a: a.astype(np.float32),
    "big-endian": lambda a: a.astype(">f8"),
    "longdouble": lambda a: a.astype(np.longdouble),
    "beyond float64": _beyond,
    "below float64": _tiny_beyond,
    "integers": lambda a: np.rint(4.0 * a / max(1e-300, np.abs(a).max())).astype(int),
    "booleans": lambda a: a > 0.0,
    "complex": lambda a: a * (1.0 + 5.0j),
    "imaginary": lambda a: a * 1j,
    "objects": lambda a: a.astype(object),
    "fractions": lambda a: np.array([Fraction(float(v)) for v in a.ravel()], object),
    "texts": lambda a: a.astype(str),
    "dates": lambda a: np.zeros(a.shape, "datetime64[s]"),
    "records": lambda a: np.zeros(a.shape, [("f", float)]),
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "None": lambda a: None,
    "word": lambda a: "optimal",
    "matrix": lambda a: np.asmatrix(a),
    "masked": lambda a: np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) > 0),
    "strided": _strided,
    "backwards view": lambda a: a[..., ::-1],
    "read-only": _read_only,
    "an object that changes": NotAnArray,
} | {f"array that {cls.__name__}": cls.of for cls in SHIFTING}


def _w_lie(change: Callable[[np.ndarray], Any]) -> Any:
    """A classifier that is changed, with scores that make it look like the best."""

    def told(problem: Any, state: Any, honest: Candidates) -> Any:
        first = honest.primals[0]
        scores = np.full(np.shape(first.scores), TOO_GOOD)
        return replace(honest, primals=[Primal(change(first.w), scores)])

    return told


def _q_lie(change: Callable[[np.ndarray], Any]) -> Any:
    """Weights that are changed, with a bound that makes them look like the best."""

    def told(problem: Any, state: Any, honest: Candidates) -> Any:
        return replace(honest, q=change(honest.q), upper=min(honest.upper, 1e-9) / (1 + state.t))

    return told


def _both(change: Callable[[np.ndarray], Any]) -> Any:
    def told(problem: Any, state: Any, honest: Candidates) -> Any:
        return _q_lie(change)(problem, state, _w_lie(change)(problem, state, honest))

    return told


SCORES: dict[str, Callable[[np.ndarray], Any]] = {
    "too good": lambda s: np.full_like(s, -1e300),
    "−inf": lambda s: np.full_like(s, -np.inf),
    "NaN": lambda s: np.full_like(s, np.nan),
    "one NaN": _with(np.nan, 0),
    "zero": np.zeros_like,
    "one short": lambda s: s[:-1],
    "empty": lambda s: s[:0],
    "row vector": lambda s: s[None],
    "list": lambda s: s.tolist(),
    "None": lambda s: None,
    "complex": lambda s: s * 1j,
    "objects": lambda s: s.astype(object),
}


def _score_lie(change: Callable[[np.ndarray], Any]) -> Any:
    def told(problem: Any, state: Any, honest: Candidates) -> Any:
        first = honest.primals[0]
        return replace(honest, primals=[Primal(first.w, change(first.scores))])

    return told


# what can be done to the other fields
FIELDS: dict[str, dict[str, Any]] = {
    "upper is 0": {"upper": 0.0},
    "upper is negative": {"upper": -1.0},
    "upper is NaN": {"upper": float("nan")},
    "upper is −inf": {"upper": -float("inf")},
    "upper is denormal": {"upper": 5e-324},
    "upper is a word": {"upper": "0"},
    "upper is None": {"upper": None},
    "upper is complex": {"upper": 1j},
    "upper is an array": {"upper": np.zeros(2)},
    "no classifier": {"primals": []},
    "classifiers are None": {"primals": None},
    "a classifier is None": {"primals": [None]},
    "a classifier without scores": {"primals": [Primal(None, None)]},  # type: ignore[arg-type]
    "crossed theorem": {"interval": (5.0, 1.0)},
    "NaN theorem": {"interval": (float("nan"), float("nan"))},
    "closed theorem": {"interval": (0.01, 0.01)},
    "theorem of words": {"interval": ("low", "high")},
    "theorem of one": {"interval": (1.0,)},
    "ending OPTIMAL": {"ending": Status.OPTIMAL},
    "ending NOT_SEPARABLE": {"ending": Status.NOT_SEPARABLE},
    "ending INTERRUPTED": {"ending": Status.INTERRUPTED},
    "ending STOPPED": {"ending": Status.STOPPED},
    "ending STALLED": {"ending": Status.STALLED},
    "ending TIME_BUDGET": {"ending": Status.TIME_BUDGET},
    "ending is a sentence": {"ending": str(Status.OPTIMAL)},
    "ending is a name": {"ending": "OPTIMAL"},
    "ending is junk": {"ending": object()},
    "ending is True": {"ending": True},
    "ending OPTIMAL, upper 0": {"ending": Status.OPTIMAL, "upper": 0.0},
    "ending NOT_SEPARABLE, upper 0": {"ending": Status.NOT_SEPARABLE, "upper": 0.0},
    "ending NOT_SEPARABLE, upper −1": {"ending": Status.NOT_SEPARABLE, "upper": -1.0},
    "ending INTERRUPTED, upper 0": {"ending": Status.INTERRUPTED, "upper": 0.0},
}


def _field_lie(fields: dict[str, Any]) -> Any:
    return lambda problem, state, honest: replace(honest, **fields)


def _stationary(problem: Any, state: Any, honest: Candidates) -> Any:
    """The start as the answer: w = 0 and even weights, said to be optimal."""
    w = np.zeros_like(honest.primals[0].w)
    return Candidates(
        [Primal(w, np.full(problem.size, TOO_GOOD))],
        np.ones(problem.size),
        1e-12,
        (1.0, 1.0),
        Status.OPTIMAL,
    )


def _scores_out_of_step(problem: Any, state: Any, honest: Candidates) -> Any:
    """A kernel's classifier whose kept scores are ten times what its coefficients give."""
    first = honest.primals[0]
    w = np.array(first.w)
    w[1:] *= 10.0
    return replace(honest, primals=[Primal(w, 10.0 * first.scores)])


def _wide(problem: Any, state: Any, honest: Candidates) -> Any:
    """Twice the columns: read row by row, their outputs are k a time of the first half of the data.

    A perceptron makes those outputs separate the labels that they would be taken for.
    """
    labels, k = problem.labels.codes, problem.classes.size
    n = labels.size
    rows = problem.operator.rows(np.arange(n))
    W = np.zeros((rows.shape[1], 2 * k))
    for _ in range(200):
        for i, own in enumerate(labels.tolist()):
            x, first = rows[i // 2], k * (i % 2)
            part = W[:, first : first + k]
            outputs = x @ part
            outputs[own] -= 0.5
            worst = int(outputs.argmax())
            if worst != own:
                part[:, own] += x
                part[:, worst] -= x
    scores = np.full(problem.size, TOO_GOOD * (1 + state.t))
    return replace(honest, primals=[Primal(W, scores)])


def enter() -> None:
    """One line for each lie."""
    for name, change in ARRAYS.items():
        tells(f"w: {name}", told=_w_lie(change))
        tells(f"q: {name}", told=_q_lie(change))
    for name in ("NaN", "objects", "twice the length", "list", "array that CopiesItself"):
        tells(f"w and q: {name}", told=_both(ARRAYS[name]))
    for name, change in SCORES.items():
        tells(f"scores: {name}", told=_score_lie(change))
    for name, fields in FIELDS.items():
        tells(name, told=_field_lie(fields))
    tells("the start as the answer", told=_stationary)
    tells("w: twice the columns, trained", told=_wide)
    tells("kept scores out of step", told=_scores_out_of_step)
    tells("candidates are None", told=lambda problem, state, honest: None)
    tells("candidates are a tuple", told=lambda p, s, honest: (honest.primals, honest.q))
    tells("no lie", told=None)
