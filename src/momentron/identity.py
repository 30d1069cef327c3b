"""What tells one run from another: its data by content, its method and options by value.

No memory address and no name alone gets in: the same call in another process, or on another
machine, has the same identity.
"""

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from momentron.arrayfile import bytes_of
from momentron.operators.base import row_blocks
from momentron.problem import Problem
from momentron.validation import clean_matrix

if TYPE_CHECKING:
    from momentron.solvers.base import Solver

DEPTH = 6  # of objects within objects that are told apart
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def identity_of(problem: Problem, solver: "Solver", X: Any, **options: Any) -> dict[str, str]:
    """What tells a problem in memory and a method from others. Reads all of X once."""
    return {
        "method": solver.name,
        "parameters": parameters_of(solver),
        "shape": " × ".join(str(size) for size in problem.operator.shape),
        "classes": digest_of(problem.classes.astype(str)),
        "labels": digest_of(problem.constraints.labels.codes),
        "data": _digest_of_rows(clean_matrix(X)),
    } | {name: shown(value) for name, value in options.items()}


def digest_of(*arrays: np.ndarray) -> str:
    """A hash of arrays: their types, shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(bytes_of(np.ascontiguousarray(array)))
    return total.hexdigest()[:32]


def _digest_of_rows(X: Any) -> str:
    """The hash of all rows, whatever the layout in memory; a tile is copied at a time."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        return digest_of(np.array(X.shape), X.data, X.indices, X.indptr)
    total = hashlib.sha256(f"{X.dtype.str}{X.shape}".encode())
    for rows in row_blocks(X.shape[0], max(1, X.size // max(X.shape[0], 1))):
        total.update(bytes_of(np.ascontiguousarray(X[rows])))
    return total.hexdigest()[:32]


def parameters_of(solver: "Solver") -> str:
    """The parameters of a method, as text."""
    return ", ".join(f"{name}={_scheduled(v)}" for name, v in sorted(vars(solver).items()))


def _scheduled(value: Any) -> str:
    """A parameter; a schedule is told from others by its first values too."""
    if not callable(value):
        return shown(value)
    try:
        return f"{shown(value)} {[float(value(t)) for t in (0, 1, 2, 10)]}"
    except Exception:
        return shown(value)


def shown(value: Any, depth: int = DEPTH) -> str:
    """A value as text that is the same in every process: objects by their parts."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {digest_of(value)}"
    if depth == 0:
        return type(value).__qualname__
    deeper = functools.partial(shown, depth=depth - 1)
    if isinstance(value, list | tuple):
        return f"({', '.join(map(deeper, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(deeper, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{deeper(k)}: {deeper(v)}' for k, v in value.items())}}}"
    if isinstance(value, np.random.Generator):
        return deeper(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return deeper(value.get_state(legacy=False))
    if isinstance(value, FunctionType):
        return _shown_function(value, depth)
    if isinstance(value, MethodType):
        return f"{deeper(value.__func__)} of {deeper(value.__self__)}"
    if isinstance(value, functools.partial):
        return f"partial {deeper((value.func, value.args, value.keywords))}"
    name = getattr(value, "__qualname__", None)
    if name is not None:  # classes, and functions that are not written in Python
        return f"{getattr(value, '__module__', '')}.{name}"
    return _shown_object(value, depth)


def _shown_object(value: Any, depth: int) -> str:
    """An object by its type and its attributes, or by its own words where it has none."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        parts = dict(getattr(value, "__dict__", {}))
    if not parts:
        return f"{kind} {_ADDRESS.sub('', repr(value))}"
    return f"{kind}({', '.join(f'{k}={shown(v, depth - 1)}' for k, v in sorted(parts.items()))})"


def _shown_function(function: FunctionType, depth: int) -> str:
    """A function by its name, its code and what it has caught."""
    caught = []
    for cell in function.__closure__ or ():
        try:
            caught.append(cell.cell_contents)
        except ValueError:  # not filled yet
            caught.append(None)
    given = shown((caught, function.__defaults__, function.__kwdefaults__), depth - 1)
    total = hashlib.sha256(_code_words(function.__code__).encode() + given.encode())
    return f"{function.__module__}.{function.__qualname__} {total.hexdigest()[:16]}"


def _code_words(code: CodeType) -> str:
    parts = [_code_words(c) if isinstance(c, CodeType) else shown(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {parts}"
