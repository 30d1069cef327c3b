"""What tells one run from another: its data by content, its method and options by value.

No memory address and no name alone gets in: the same call in another process, or on another
machine, has the same identity. What cannot be told by its content is refused.
"""

import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arrayfile import bytes_of
from momentron.errors import InputError
from momentron.operators.base import row_blocks
from momentron.validation import TrainingData

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range)
NEW_OBJECT = object().__reduce_ex__(4)[0]  # by which pickle makes objects of Python classes
# what Python writes into a class by itself, and where it keeps notes
OWN_NOTES = {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "_abc_impl"}
OWN_NOTES |= {"__firstlineno__", "__static_attributes__", "__annotations__", "__annotate_func__"}
OWN_NOTES |= {"__annotations_cache__", "__abstractmethods__", "__dataclass_params__"}
OWN_NOTES |= {"__dataclass_fields__", "__match_args__", "__parameters__", "__orig_bases__"}


class NoContent(Exception):
    """Something that only its memory address tells from others; says what it is."""


def data_identity(data: TrainingData) -> dict[str, str]:
    """Rows and labels by content. Reads all of X once."""
    return {
        "shape": " × ".join(str(size) for size in data.X.shape),
        "classes": digest_of(data.classes.astype(str)),
        "labels": digest_of(data.codes.astype(np.int64)),
        "data": _digest_of_rows(data.X),
    }


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


def parameters_of(solver: Any) -> str:
    """The parameters of a method, as text; the code too of one that is not momentron's own."""
    parts = [f"{name}={content_of(name, v)}" for name, v in sorted(vars(solver).items())]
    if not _is_installed(type(solver).__module__):
        parts.append(content_of("method", type(solver)))
    return ", ".join(parts)


def content_of(name: str, value: Any) -> str:
    """An option as text that is the same in every process; refused where there is none."""
    try:
        return Description().of(value)
    except NoContent as error:
        raise InputError(
            f"checkpoint cannot recognise {name}={_short(value)} in another process: {error}; "
            "let it hold numbers, text, arrays and functions of these alone, or leave checkpoint "
            "out"
        ) from None


class Description:
    """Values by their content; what lies within itself is named there, not followed again."""

    def __init__(self) -> None:
        self._within: list[Any] = []  # what is being described, from the outside in

    def of(self, value: Any) -> str:
        """The value as text."""
        if isinstance(value, np.generic):
            value = value.item()
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return f"array {digest_of(value)}"
        if any(value is outer for outer in self._within):
            return f"the {type(value).__qualname__} around"
        self._within.append(value)
        try:
            return self._compound(value)
        except RecursionError:
            raise NoContent(f"it holds {_kind(value)} within too many others") from None
        finally:
            self._within.pop()

    def _compound(self, value: Any) -> str:
        kind = type(value)
        if kind in (list, tuple):
            return f"({', '.join(map(self.of, value))})"
        if kind in (set, frozenset):
            return f"{{{', '.join(sorted(map(self.of, value)))}}}"
        if isinstance(value, Mapping) and kind in (dict, type(vars(type))):
            pairs = sorted(f"{self.of(key)}: {self.of(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        if kind is ModuleType:
            return f"module {value.__name__}"
        if kind is FunctionType:
            return self._function(value)
        if kind is MethodType:
            return f"{self.of(value.__func__)} of {self.of(value.__self__)}"
        if kind is CodeType:
            return self._code(value)
        if isinstance(value, type):
            return self._class(value)
        if kind in (BuiltinFunctionType, WrapperDescriptorType, np.ufunc):
            return _name(value)
        if kind in (property, classmethod, staticmethod, functools.cached_property):
            names = ("fget", "fset", "__func__", "func")
            return f"{kind.__name__} {self.of([getattr(value, name, None) for name in names])}"
        return self._object(value)

    def _object(self, value: Any) -> str:
        """An object by what pickle would write of it."""
        if isinstance(value, np.random.RandomState):
            return f"RandomState {self.of(value.get_state(legacy=False))}"
        if isinstance(value, np.random.Generator):
            return f"Generator {self.of(value.bit_generator.state)}"
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            raise NoContent(f"it holds {_kind(value)}") from None
        if isinstance(reduced, str):
            return f"{type(value).__module__}.{reduced}"
        make, arguments, *rest = reduced
        state, items, pairs = [*rest, None, None, None][:3]
        contents = [list(items or ()), list(pairs or ())]
        if make is NEW_OBJECT and arguments == (type(value),) and contents == [[], []]:
            return f"{self.of(type(value))}({'' if state is None else self.of(state)})"
        return f"{self.of(make)}({self.of([arguments, state, *contents])})"

    def _function(self, function: FunctionType) -> str:
        """A function by its name and code, and by all that it has caught or reads from outside."""
        is_installed = _is_installed(function.__module__)
        if is_installed and "<" not in function.__qualname__:
            return _name(function)
        caught = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        parts: list[Any] = [caught, function.__defaults__, function.__kwdefaults__]
        if not is_installed:  # of others the name and version stand for the code
            names = set(_global_names(function.__code__)) & function.__globals__.keys()
            parts += [function.__code__, {name: function.__globals__[name] for name in names}]
        content = "".join(map(self.of, parts))
        return f"{_name(function)} {hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def _code(self, code: CodeType) -> str:
        parts = [code.co_consts, code.co_names, code.co_varnames, code.co_freevars]
        return f"{code.co_code.hex()} {self.of(parts)}"

    def _class(self, cls: type) -> str:
        """A class by its name; one that is not installed by what it and its bases say, too."""
        if _is_installed(cls.__module__):
            return _name(cls)
        own = {k: v for k, v in vars(cls).items() if k not in OWN_NOTES and not _is_slot(v)}
        content = self.of([own, list(cls.__bases__)])
        return f"{_name(cls)} {hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _global_names(code: CodeType) -> Iterator[str]:
    """The names that code reads from its module, that of functions within it included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _name(value: Any) -> str:
    """Module and name; with the version of an installed package, which stands for its content."""
    module = getattr(value, "__module__", None) or "builtins"
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", "") if top != "momentron" else ""
    name = getattr(value, "__qualname__", None) or value.__name__  # ufuncs may lack the first
    return " ".join(filter(None, (f"{module}.{name}", version)))


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module is momentron's, Python's own or an installed package's, not the user's."""
    top = (module or "builtins").partition(".")[0]
    if top in ("momentron", "builtins") or top in sys.stdlib_module_names:
        return top != "__main__"
    file = getattr(sys.modules.get(top), "__file__", None)
    folders = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)


def _is_slot(value: Any) -> bool:
    return type(value).__name__ in ("member_descriptor", "getset_descriptor")


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _kind(value: Any) -> str:
    return f"an object of type {type(value).__module__}.{type(value).__qualname__}"


def _short(value: Any) -> str:
    text = f"<{type(value).__qualname__}>" if " at 0x" in repr(value) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
