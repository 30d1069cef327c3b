"""Ctrl-C at a random line of the library: the answer is true, or there is none.

The lines that an attempt runs through are counted once; each trial raises KeyboardInterrupt at one
of them. Afterwards the same objects must still give true answers.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

import momentron
from benchmarks.hostile.guard import outcome
from benchmarks.hostile.kinds import GAMMA, KINDS, Kind, rows_for
from benchmarks.hostile.random_problems import draw
from momentron import Problem, certify, check_separability, max_margin, verify
from momentron.solvers.problem import KernelChoice
from tests.oracles.truths import CLOSE, Rows, Truth, kind_of

HOME = str(Path(momentron.__file__).parent)
SECONDS = 30.0
TOL = 1e-6


Place = tuple[str, int]  # a file and a line
Moment = tuple[Place, int]  # and the so-manieth time that it runs


class Lines:
    """Counts how often lines of the library run in this thread, and may raise at one of them."""

    def __init__(self, stop_at: Moment | None = None) -> None:
        self.runs: dict[Place, int] = {}
        self._stop_at = stop_at
        self.where = "no line"

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(HOME) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            place = frame.f_code.co_filename, frame.f_lineno
            self.runs[place] = self.runs.get(place, 0) + 1
            if (place, self.runs[place]) == self._stop_at:
                self.where = f"{place[0][len(HOME) + 1 :]}:{place[1]}"
                raise KeyboardInterrupt
        return self._line

    def pick(self, rng: np.random.Generator) -> Moment:
        """Any moment, or half the time any line: what runs once is interrupted as often."""
        places, counts = list(self.runs), np.array(list(self.runs.values()), np.float64)
        shares = counts / counts.sum() if rng.random() < 0.5 else None
        place = places[int(rng.choice(len(places), p=shares))]
        return place, int(rng.integers(1, self.runs[place] + 1))

    @contextmanager
    def watched(self) -> Iterator[None]:
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)


@dataclass(frozen=True)
class Attempt:
    """Something to interrupt.

    Attributes
    ----------
    run : callable
        The attempt itself, which may be repeated.
    judge : callable
        Why its answer is false, or None.
    check : callable
        Why what it left behind is spoilt, or None.
    """

    run: Callable[[], Any]
    judge: Callable[[Any], str | None]
    check: Callable[[], str | None] = lambda: None


def _fit(X: np.ndarray, y: np.ndarray, kind: Kind, method: dict[str, Any]) -> Attempt:
    truth = kind.truth(X, y)
    data, labels = kind.pack(X.copy(), y)
    options = kind.options | method | {"tol": TOL}
    return Attempt(
        lambda: max_margin(data, labels, **options), lambda found: truth.refutes(found, TOL)
    )


def certificates(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Attempt:
    """One problem with four columns in memory, certified again and again.

    Both ends are held against the margin of that w and the length for that q, which leaves no room
    for an error that happens to keep the best margin inside.
    """
    n = len(y)
    K = Rows.of_exponentials(X, GAMMA, 2)
    choice = KernelChoice("rbf", GAMMA, cache_size=8.1e-6 * 4 * n)
    problem = Problem.from_data(X, y, fit_intercept=False, kernel=choice)
    signs = np.where(y == 1, 1.0, -1.0)

    def run() -> Any:
        rounds = []
        for _ in range(8):
            coef = signs * rng.random(n) * (rng.random(n) < 0.5)
            q = rng.random(n) * (rng.random(n) < 0.5)
            q[0] += 0.5
            rounds.append((coef, q, certify(problem, coef, q)))
        return rounds

    def judge(rounds: Any) -> str | None:
        for coef, q, found in rounds:
            low, high = _reach(K, signs, coef), _length(K, signs, q)
            reason = Truth(high, 1.0, CLOSE).contradicts(0.0, found.upper)
            if found.margin > 0.0 and Fraction(found.margin) ** 2 > low + CLOSE:
                reason = f"margin {found.margin!r} is above that of w, the root of {float(low)!r}"
            if reason is not None:
                return reason
        return None

    return Attempt(run, judge)


def _square(K: Rows, a: np.ndarray) -> tuple[fmpq_mat, Fraction]:
    """(K a, aᵀKa)."""
    weights = fmpq_mat(a.size, 1, [fmpq(*map(int, float(v).as_integer_ratio())) for v in a])
    numerators, denominator = weights.numer_denom()
    products = fmpq_mat(K.times(numerators)) / denominator
    total = (weights.transpose() * products)[0, 0]
    return products, Fraction(int(total.p), int(total.q)) * K.unit


def _reach(K: Rows, signs: np.ndarray, coef: np.ndarray) -> Fraction:
    """γ(w)² for w = Σ coef φ(x), zero where it errs."""
    products, squared = _square(K, coef)
    least = min(int(s) * products[i, 0] for i, s in enumerate(signs))
    if not least > 0 or squared == 0:
        return Fraction(0)
    return (Fraction(int(least.p), int(least.q)) * K.unit) ** 2 / squared


def _length(K: Rows, signs: np.ndarray, q: np.ndarray) -> Fraction:
    """‖Zᵀq‖² for q brought to mass 1."""
    mass = sum((Fraction(float(v)) for v in q), Fraction(0))
    return _square(K, signs * q)[1] / mass**2


def _checkpoint(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> Attempt:
    """A file that is written at the end of each run, and read at the beginning of the next."""
    kind = KINDS["dense, intercept"]
    truth = kind.truth(X, y)
    path = Path(tempfile.mkdtemp(prefix="hostile-")) / "state"
    options = kind.options | options | {"tol": TOL, "checkpoint": path, "method": "momentum"}

    def check() -> str | None:
        found = max_margin(X, y, **options)
        path.unlink(missing_ok=True)
        return truth.refutes(found, TOL)

    return Attempt(
        lambda: max_margin(X, y, **options), lambda found: truth.refutes(found, TOL), check
    )


def _verdict(X: np.ndarray, y: np.ndarray) -> Attempt:
    kind = kind_of(X, y, True)

    def judge(found: Any) -> str | None:
        if found.kind not in (kind, "undecided"):
            return f"{found.kind} for {kind} data"
        verify(found.to_json(), X, y)
        return None

    return Attempt(lambda: check_separability(X, y, decimals="binary"), judge)


def _attempt(rng: np.random.Generator) -> tuple[str, Attempt]:
    """An attempt of any sort over rows of its own."""
    names = ["fit", "fit", "fit", "certificates", "checkpoint", "verdict"]
    sort = str(rng.choice(names))
    if sort == "verdict":
        drawn = draw(rng, widest=3, most=7)
        X = np.clip(drawn.X, -1e6, 1e6)
        return sort, _verdict(X, drawn.y)
    fits = ("dense", "csr", "rbf", "rbf, small cache", "rbf, small cache", "poly", "soft", "many")
    name = str(rng.choice([*fits, "many, intercepts", "blocks", "many blocks"]))
    kind = KINDS[name] if sort == "fit" else KINDS["dense"]
    drawn = draw(rng, n_classes=kind.n_classes, most=12)
    X = np.clip(np.rint(8.0 * np.clip(drawn.X, -1e3, 1e3)) / 8.0, -1e3, 1e3)
    if sort == "certificates":
        return sort, certificates(X, drawn.y, rng)
    if sort == "checkpoint":
        blocks = {"block_size": 100} if rng.random() < 0.5 else {}
        return sort, _checkpoint(X, drawn.y, blocks | {"max_iter": int(rng.integers(1, 5))})
    method: dict[str, Any] = {"method": "auto"}
    if rng.random() < 0.4:
        method = {"method": "momentum", "max_iter": int(rng.integers(1, 8))}
    return f"{sort} {name} {method['method']}", _fit(X, drawn.y, kind, method)


@cache
def _lines(seed: int, group: int) -> Lines:
    """The lines that an attempt runs through, which several trials interrupt."""
    _, attempt = _attempt(np.random.default_rng([seed, group]))
    lines = Lines()
    with lines.watched():
        attempt.run()
    return lines


EACH = 10  # trials of an attempt


def trial(seed: int, number: int) -> str | None:
    """One interrupt: why what followed is false, or None."""
    moment = _lines(seed, number // EACH).pick(np.random.default_rng([seed, number, 1]))
    name, attempt = _attempt(np.random.default_rng([seed, number // EACH]))
    reason = interrupted(attempt, moment)
    return reason and f"{reason} [{name}]"


def interrupted(attempt: Attempt, moment: Moment) -> str | None:
    """Interrupt an attempt: why what followed is false, or None."""
    lines = Lines(moment)

    def run() -> Any:
        try:
            with lines.watched():
                return attempt.run()
        except KeyboardInterrupt:
            return None

    def judge(found: Any) -> str | None:
        return None if found is None else attempt.judge(found)

    parts: list[tuple[Callable[[], Any], Callable[[Any], str | None]]] = [
        (run, judge),
        (attempt.check, lambda found: found),
        (attempt.run, attempt.judge),
    ]
    for part, verdict in parts:
        reason = outcome(part, verdict, SECONDS, may_refuse=False)
        if reason is not None:
            return f"{reason}, interrupted at {lines.where}"
    return None


def sweep_of_columns(seed: int) -> list[str]:
    """Interrupt certificates at every line of the cache of kernel columns: what was false."""
    X, y = rows_for(2, is_separable=True)
    lines = Lines()
    with lines.watched():
        certificates(X, y, np.random.default_rng(seed)).run()
    runs = [(place, n) for place, n in lines.runs.items() if place[0].endswith("column_cache.py")]
    if not runs:
        raise AssertionError("no line of the column cache ran: has its file another name?")
    moments = [(place, time) for place, n in runs for time in sorted({1, n // 3 + 1, n})]
    found = (
        interrupted(certificates(X, y, np.random.default_rng(seed)), moment) for moment in moments
    )
    return [reason for reason in found if reason is not None]
