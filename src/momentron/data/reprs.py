"""Objects as the call that makes them, for their reprs."""

import inspect
from dataclasses import is_dataclass
from typing import Any

import numpy as np


def call_of(thing: Any) -> str:
    """The call that makes an object like this one; parameters at their defaults are left out.

    Parameters are read from attributes of their name, or of their name and "_size".
    """
    try:
        usual = {key: words_of(value) for key, value in vars(type(thing)()).items()}
    except Exception:  # it needs arguments
        usual = {}
    words = []
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        given = vars(thing).get(name)
        if parameter.kind is parameter.VAR_KEYWORD and isinstance(given, dict):
            words += [f"{key}={words_of(value)}" for key, value in given.items()]
            continue
        key = next((key for key in (name, f"{name}_size") if key in vars(thing)), None)
        word = None if key is None else words_of(vars(thing)[key])
        if word is not None and word != usual.get(str(key), words_of(parameter.default)):
            words.append(f"{name}={word}")
    return f"{type(thing).__name__}({', '.join(words)})"


def words_of(value: Any) -> str:
    """A value in a call: functions by name, numbers as Python's, records by what is changed."""
    if is_dataclass(value) and not isinstance(value, type) and not callable(value):
        return call_of(value)
    if isinstance(value, np.generic):
        value = value.item()
    return str(getattr(value, "__name__", None) or repr(value))
