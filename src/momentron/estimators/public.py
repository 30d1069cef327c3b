"""What makes a class a public estimator: a complete docstring, and hints for newcomers.

A parameter is documented once, in `max_margin` or in the class that adds it, and so are attributes.
"""

import inspect
import re
from dataclasses import fields
from functools import wraps
from itertools import product
from typing import Any, TypeVar

from momentron.api import max_margin
from momentron.data.arguments import meant
from momentron.errors import InputTypeError, short

Class = TypeVar("Class")
PARAMETERS, ATTRIBUTES, EXAMPLES = (
    f"{word}\n{'-' * len(word)}\n" for word in ("Parameters", "Attributes", "Examples")
)

CHOSEN = "leave it out, the way to solve is chosen from the data"
KERNEL = "kernels are for KernelMaxMarginClassifier"
HINTS = {  # for parameters of other libraries, and of other classifiers here
    "probability": "wrap the classifier in sklearn.calibration.CalibratedClassifierCV",
    "decision_function_shape": 'leave it out; multi_class="ovr" fits one classifier per class',
    "break_ties": "leave it out, predict takes the class with the largest decision value",
    "intercept_scaling": "leave it out, intercepts are not penalised",
    "n_jobs": "MaxMarginClassifierCV and GridSearchCV fit folds in parallel",
    "C": "pass Cs, the values to choose from",
    "warm_start": "leave it out, each fit along a path of C starts from the last",
    **dict.fromkeys(("shrinking", "dual", "solver"), CHOSEN),
    **dict.fromkeys(("kernel", "gamma", "degree", "coef0", "cache_size"), KERNEL),
}


def estimator(cls: type[Class]) -> type[Class]:
    """Complete the docstring of a dataclass, and let its constructor name remedies."""
    names = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    if max_margin.__doc__:  # python -OO drops docstrings
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
    """The docstring with all parameters and attributes, those of its family first."""
    head, _, examples = inspect.cleandoc(cls.__doc__ or "").partition(EXAMPLES)
    found: dict[str, dict[str, str]] = {PARAMETERS: {}, ATTRIBUTES: {}}
    for source, section in product((cls.__mro__[1], max_margin, *reversed(cls.__mro__)), found):
        found[section] |= _entries(source.__doc__ or "", section)
    told, attributes = found.values()
    parameters = [_with_default(told[name], defaults[name]) for name in told if name in defaults]
    sections = {PARAMETERS: parameters, ATTRIBUTES: attributes.values(), EXAMPLES: [examples]}
    return head + "\n\n".join(name + "\n".join(texts) for name, texts in sections.items()) + "\n"


def _entries(docstring: str, section: str) -> dict[str, str]:
    """The entries of a section by name, as they are written."""
    text = inspect.cleandoc(docstring).partition(section)[2].split("\n\n")[0].rstrip()
    return {entry.split(" : ")[0]: entry for entry in re.split(r"\n(?=\w)", text) if entry}


def _with_default(entry: str, default: Any) -> str:
    """The entry of a parameter with the default that the class gives it."""
    first, _, rest = entry.partition("\n")
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{first.partition(', default=')[0]}, default={shown}\n{rest}"
