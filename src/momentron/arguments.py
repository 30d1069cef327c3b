"""Arguments as users pass them: each a value of the right kind, or one line that says which."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from momentron.errors import InputError


def as_flag(name: str, value: Any) -> bool:
    """True or False; anything else, "False" included, would be taken for True."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r} must be True or False")
    return bool(value)


def as_number(name: str, value: Any, wanted: str) -> float:
    """A real number that is not NaN, as a float; infinities are numbers here."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if not math.isnan(number):
            return number
    raise InputError(f"{name}={value!r} must be {wanted}")


def require_verbose(verbose: Any) -> None:
    """Raise unless verbose is a whole number of at least 0."""
    if not isinstance(verbose, Integral | np.bool_) or verbose < 0:
        raise InputError(f"verbose={verbose!r} must be 0, or 1 to print a table")


def require_callback(callback: Any) -> None:
    """Raise unless the callback can be called."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback={callback!r} must be a function of a trace row, or None")


def require_seed(random_state: Any) -> None:
    """Raise unless a generator can be made of random_state."""
    random = np.random
    sources = random.Generator | random.RandomState | random.SeedSequence | random.BitGenerator
    if random_state is None or isinstance(random_state, sources):
        return
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not is_integer or random_state < 0:
        raise InputError(
            f"random_state={random_state!r} must be an integer of at least 0, a Generator or None"
        )
