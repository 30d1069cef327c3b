"""Solvers that lie: an honest method, and a lie that is told after each of its steps.

A lie is one line in `lies_told` (in what is proposed) or `lies_done` (in what is done to the
problem); it applies to every kind of problem. Where a lie cannot be told, since an array is
read-only or a name is missing, the liar goes on honestly: that is a defence, too.

Not here, since Python cannot defend against it: what replaces methods, touches names that begin
with an underscore, or follows `ndarray.base` out of what was handed over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from momentron.solvers import Auto, Candidates, Momentum, Solver

Deed = Callable[[Any, Any], None]
Tale = Callable[[Any, Any, Candidates], Any]


@dataclass(frozen=True)
class Lie:
    """What a liar does besides its work.

    Attributes
    ----------
    started, stepped : callable, optional
        (problem, state): done once the state is there, and after each step.
    told : callable, optional
        (problem, state, candidates): what is proposed instead.
    raised : (verb, exception), optional
        Raised in that verb, from the third step on.
    """

    started: Deed | None = None
    stepped: Deed | None = None
    told: Tale | None = None
    raised: tuple[str, BaseException] | None = None


LIES: dict[str, Callable[[], Lie]] = {}


def tells(name: str, **parts: Any) -> None:
    """Enter a lie without a memory of its own."""
    LIES[name] = lambda: Lie(**parts)


class LiarMixin:
    """The three verbs of the method that comes next, with a lie in each of them."""

    lie: Lie = Lie()

    def init(self, problem: Any, *options: Any) -> Any:
        self._raise("init", None)
        state = super().init(problem, *options)  # type: ignore[misc]
        self._try(self.lie.started, problem, state)
        return state

    def step(self, problem: Any, state: Any) -> None:
        self._raise("step", state)
        super().step(problem, state)  # type: ignore[misc]
        self._try(self.lie.stepped, problem, state)

    def candidates(self, problem: Any, state: Any) -> Any:
        self._raise("candidates", state)
        honest = super().candidates(problem, state)  # type: ignore[misc]
        told = self._try(self.lie.told, problem, state, honest)
        return honest if self.lie.told is None or told is FAILED else told

    def _raise(self, verb: str, state: Any) -> None:
        if self.lie.raised is not None and self.lie.raised[0] == verb:
            if state is not None and state.t < 3:
                return
            raise self.lie.raised[1]

    def _try(self, lie: Callable[..., Any] | None, *arguments: Any) -> Any:
        try:
            return None if lie is None else lie(*arguments)
        except Exception:  # it cannot be told
            return FAILED


FAILED = object()


class LyingMomentum(LiarMixin, Momentum):
    """Momentum that lies."""


class LyingAuto(LiarMixin, Auto):
    """Auto that lies."""


def liar(name: str, base: type[LiarMixin] = LyingMomentum) -> Solver:
    """The solver that tells a lie."""
    solver: Any = base()
    solver.lie = LIES[name]()
    return solver


def _enter_all() -> None:
    from benchmarks.hostile import lies_done, lies_told

    lies_told.enter()
    lies_done.enter()


_enter_all()
