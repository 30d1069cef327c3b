"""Arguments as users pass them: each a value of the right kind, or one line that says which."""

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from momentron.errors import InputError, short

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
MOST_BYTES = 2**63 - 1
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def as_flag(name: str, value: Any) -> bool:
    """True or False; anything else, "False" included, would be taken for True."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={short(value)} must be True or False")
    return bool(value)


def meant(word: Any, known: Iterable[str]) -> str:
    """ "; did you mean …?" where a word is nearly one that is known; else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


def require_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise unless the value is one of the words that an option knows."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={short(value)} must be one of {', '.join(map(repr, known))}")


def is_positive(number: float) -> bool:
    """Above zero, and finite."""
    return 0.0 < number < math.inf


def as_number(
    name: str, value: Any, wanted: str, is_wanted: Callable[[float], bool] | None = None
) -> float:
    """A real number as a float: any but NaN, or one of those that are wanted."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if number == number and (is_wanted is None or is_wanted(number)):  # not NaN
            return number
    raise InputError(f"{name}={short(value)} must be {wanted}")


def seconds_of(max_time: Any) -> float:
    """A budget in seconds; infinite where there is none."""
    if max_time is None:
        return math.inf
    wanted = "a positive number of seconds, or None"
    return as_number("max_time", max_time, wanted, lambda seconds: seconds > 0.0)


def as_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """An integer of at least `least`, and of at most `most`."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < least or (most is not None and value > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name}={short(value)} must be an integer {limit}")
    return int(value)


def require_verbose(verbose: Any) -> None:
    """Raise unless verbose is a whole number of at least 0."""
    if not isinstance(verbose, Integral | np.bool_) or verbose < 0:
        raise InputError(f"verbose={short(verbose)} must be 0, or 1 to print a table")


def require_callback(callback: Any) -> None:
    """Raise unless the callback can be called."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback={short(callback)} must be a function of an iterate, or None")


def require_seed(random_state: Any) -> None:
    """Raise unless a generator can be made of random_state."""
    random = np.random
    sources = random.Generator | random.RandomState | random.SeedSequence | random.BitGenerator
    if random_state is None or isinstance(random_state, sources):
        return
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not is_integer or random_state < 0:
        raise InputError(
            f"random_state={short(random_state)} must be an integer of at least 0, a Generator or "
            "None"
        )


def as_generator(random_state: Any) -> np.random.Generator:
    """The generator of a seed; a legacy RandomState seeds one with its next draw."""
    require_seed(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    return np.random.default_rng(random_state)


def as_path(name: str, value: Any) -> Path | None:
    """The path of a file, or None."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name}={short(value)} must be the path of a file, or None")
    return Path(value)


def parse_size(size: int | str, name: str = "block_size") -> int:
    """A number of bytes, from an integer or a text such as "64MB"."""
    if isinstance(size, Integral) and not isinstance(size, bool) and 0 < size <= MOST_BYTES:
        return int(size)
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-zA-Z]*)\s*", size)
        unit = _UNITS.get(match.group(2).lower()) if match else None
        if match and unit is not None:
            value = int(min(float(match.group(1)) * unit, 2.0 * MOST_BYTES))
            if 0 < value <= MOST_BYTES:
                return value
    raise InputError(
        f"{name}={short(size)} must be a positive number of bytes, or a text like '64MB'"
    )


@cache
def machine_memory() -> float:
    """Bytes of the machine's memory; infinite where the system does not say."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
    return size if size > 0 else math.inf
