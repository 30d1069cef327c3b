"""What makes a class a public estimator: all parameters in its docstring, and hints for newcomers.

A parameter is documented once, where it is declared: in `max_margin`, or in the class that adds it.
"""

import inspect
import re
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from momentron.api import max_margin
from momentron.data.arguments import meant
from momentron.errors import InputTypeError, short

Class = TypeVar("Class")
SECTION = "Parameters\n----------\n"
AFTER = "Attributes\n----------\n"

CHOSEN = "leave it out, the way to solve is chosen from the data"
KERNEL = "kernels are for KernelMaxMarginClassifier"
HINTS = {  # for parameters of other libraries, and of other classifiers here
    "probability": "wrap the classifier in sklearn.calibration.CalibratedClassifierCV",
    "decision_function_shape": 'leave it out; multi_class="ovr" fits one classifier per class',
    "break_ties": "leave it out, predict takes the class with the largest decision value",
    "shrinking": CHOSEN,
    "dual": CHOSEN,
    "solver": CHOSEN,
    "intercept_scaling": "leave it out, intercepts are not penalised",
    "n_jobs": "MaxMarginClassifierCV and GridSearchCV fit folds in parallel",
    "C": "pass Cs, the values to choose from",
    "warm_start": "leave it out, each fit along a path of C starts from the last",
    **dict.fromkeys(("kernel", "gamma", "degree", "coef0", "cache_size"), KERNEL),
}


def estimator(cls: type[Class]) -> type[Class]:
    """Complete the docstring of a dataclass, and let its constructor name remedies."""
    names = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    if cls.__doc__ is not None:  # as it is under python -OO
        cls.__doc__ = _completed(cls, names)
    construct: Any = cls.__init__

    @wraps(construct)
    def __init__(self: Any, *args: Any, **parameters: Any) -> None:
        for name in parameters.keys() - names.keys():
            remedy = HINTS.get(name)
            hint = meant(name, names) if remedy is None else f": {remedy}"
            raise InputTypeError(f"{type(self).__name__} has no parameter {short(name)}{hint}")
        construct(self, *args, **parameters)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


def _completed(cls: type, defaults: dict[str, Any]) -> str:
    """The docstring with each parameter, its type and its default; those of its family first."""
    texts: dict[str, str] = {}
    for source in (cls.__mro__[1], max_margin, *reversed(cls.__mro__)):
        texts |= _parameters(source.__doc__ or "")
    entries = [_entry(name, texts[name], defaults[name]) for name in texts if name in defaults]
    head, _, tail = inspect.cleandoc(cls.__doc__ or "").partition(AFTER)
    head = head.partition(SECTION)[0]
    return f"{head}{SECTION}{''.join(entries)}\n{AFTER}{tail}\n"


def _parameters(docstring: str) -> dict[str, str]:
    """The entries of a section of parameters, as they are written."""
    section = inspect.cleandoc(docstring).partition(SECTION)[2]
    section = re.split(r"\n\n\w+\n---", section)[0]
    return {entry.split(" : ")[0]: entry for entry in re.split(r"\n(?=\w)", section) if entry}


def _entry(name: str, text: str, default: Any) -> str:
    """The entry of a parameter, with the default that the class gives it."""
    first, _, rest = text.partition("\n")
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    kind = first.partition(" : ")[2].partition(", default=")[0]
    return f"{name} : {kind}, default={shown}\n{rest}\n"
