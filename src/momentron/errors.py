"""The errors and warnings that momentron raises on purpose, and how they show a value."""

import reprlib
from collections.abc import Sequence
from typing import Any


class InputError(ValueError):
    """Bad input: one line that names the value, the limit and the remedy."""


class InputTypeError(InputError, TypeError):
    """Bad input of a type that cannot be read at all."""


class ArithmeticEnvironmentError(RuntimeError):
    """The processor's arithmetic is not what proofs assume, and could not be changed to it."""


class NotSeparableWarning(UserWarning):
    """The fit is a working classifier, but no positive margin was certified."""


class SolverError(ValueError):
    """A solver proposed something unusable: one line that says what was wanted instead."""


class ContradictionError(RuntimeError):
    """Two proven bounds contradict each other: the data must have changed in between."""


class WriteWarning(UserWarning):
    """A file could not be written; the answer is not affected."""


def short(value: Any) -> str:
    """A value of a user's as messages show it: its repr, in one line and not long.

    >>> short("rbf"), short(10**400), short(list(range(100)))
    ("'rbf'", '<an integer of 401 digits>', '[0, 1, 2, 3, 4, 5, ...]')
    """
    return one_line(_SHORT.repr(value), limit=80)


def counted(number: int, noun: str) -> str:
    """A number of things: "1 row", "2 rows", "3 passes"."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending * (number != 1)}"


def some(names: Sequence[Any], limit: int = 12, width: int = 160) -> str:
    """The first few of many names, and how many there are."""
    listed: list[str] = []
    for name in names[:limit]:
        listed.append(one_line(name, 40))
        if sum(map(len, listed)) > width:
            break
    return ", ".join(listed) + (f", … ({len(names)} in all)" if len(names) > len(listed) else "")


def one_line(text: object, limit: int = 160) -> str:
    """A text, such as another error's message, without line breaks and cut to a length."""
    found = " ".join(str(text).split())
    if not found and isinstance(text, BaseException):
        found = type(text).__name__
    return found if len(found) <= limit else found[: limit - 1] + "…"


class _Short(reprlib.Repr):
    """The repr of a value, cut in parts; arrays by their shape."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        if abs(x) < 10**30:
            return repr(x)
        digits = int(x.bit_length() * 0.30102999566398120)  # log10(2); one too few, or right
        digits += abs(x) >= 10**digits
        return f"<an integer of {digits} digits>"

    def repr_instance(self, x: Any, level: int) -> str:
        shape = getattr(x, "shape", ())
        if isinstance(shape, tuple) and shape:
            return f"<{type(x).__name__} of shape {shape}>"
        return super().repr_instance(x, level)


_SHORT = _Short()
