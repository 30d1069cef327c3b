"""What `--method` names: a method of ours, or `module:Class` of anybody's."""

import sys
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any

from momentron.data.arguments import meant
from momentron.errors import InputError, one_line, short
from momentron.solvers import SOLVERS, Solver


def named_solver(method: str) -> Solver:
    """The solver of this name, or the one that a module defines.

    After the colon comes a class, which is instantiated without arguments, or an instance.
    Modules are found in the working directory, as by `python -m`, and among those installed.
    """
    if method in SOLVERS:
        return SOLVERS[method]()
    module_name, _, name = method.partition(":")
    if not (module_name and name):
        raise InputError(
            f"--method {short(method)} is not known; choose one of {', '.join(SOLVERS)}, or name "
            f"your own solver as module:Class{meant(method, SOLVERS)}"
        )
    module = _imported(method, module_name)
    solver = getattr(module, name, None)
    if solver is None:
        offered = [key for key, value in vars(module).items() if _is_offered(value, module_name)]
        raise InputError(
            f"--method {short(method)}: {module_name} ({getattr(module, '__file__', None)}) has no "
            f"{name!r}; its solvers are: {', '.join(offered) or 'none'}"
        )
    if isabstract(solver):
        missing = ", ".join(sorted(solver.__abstractmethods__))
        raise InputError(f"--method {short(method)} is not complete: it does not define {missing}")
    try:
        solver = solver() if isinstance(solver, type) else solver
    except TypeError as error:
        raise InputError(
            f"--method {short(method)} cannot be created without arguments: {error}; create an "
            "instance in the module, and name that instance"
        ) from error
    if not isinstance(solver, Solver):
        raise InputError(
            f"--method {short(method)} is an object of type {type(solver).__name__}; it must be a "
            "subclass of momentron.solvers.Solver, or an instance of one"
        )
    return solver


def _imported(method: str, name: str) -> ModuleType:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        return import_module(name)
    except Exception as error:  # whatever a module does when it is read
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"--method {short(method)} cannot be imported: {reason}") from error
    finally:
        sys.path.remove(folder)


def _is_offered(value: Any, module_name: str) -> bool:
    """Whether a module's value is a solver, and no class that it imports from elsewhere."""
    is_class = isinstance(value, type) and issubclass(value, Solver)
    return isinstance(value, Solver) or (is_class and value.__module__ == module_name)
