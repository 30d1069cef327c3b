"""What commands are told: data, from a file or by the name of a known set, and methods."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from momentron import datasets
from momentron.cli.commands import Source
from momentron.data.arguments import meant
from momentron.data.files import Table, read_data, read_frame
from momentron.data.safefiles import naming
from momentron.errors import InputError, one_line, short, some
from momentron.separability.designs import Design, read_design
from momentron.separability.designs.design_formulas import columns_of
from momentron.solvers import SOLVERS, Solver


def as_order(text: str | None) -> list[str] | None:
    """The labels of --order, which commas separate."""
    return None if text is None else [label.strip() for label in text.split(",")]


def _path(source: Source) -> Path | None:
    """The file, possibly of a bundled table; None for any other known dataset."""
    data = source.data
    if data is not None and Path(data).expanduser().exists():
        return Path(data)
    if data in datasets.TABLES:
        return datasets.table_path(data)
    if data is None or data in datasets.DATASETS:
        return None
    hint = meant(data, [*datasets.DATASETS, *datasets.TABLES]) or "; check the path"
    raise InputError(f"{data} is neither a file nor a known dataset{hint}")


def load_data(source: Source) -> Table:
    """DATA of the command line, which no formula changes."""
    name, path = source.data or "digits", _path(source)
    if path is not None:
        return read_data(path, source.target, classes=source.classes, options=source)
    if source.weight is not None:
        raise InputError(f"--weight {source.weight} needs a file with that column; give DATA")
    with naming(name):
        source.require_plain("it is a known dataset, not a table")
    bunch = datasets.load(name, classes=source.classes)
    return Table(bunch.X, bunch.y)


def load_design(source: Source) -> tuple[Design, list[str]]:
    """(the rows and labels of DATA, one row per outcome that was seen; what was taken as what)."""
    formula = source.formula
    if formula is None:
        data = load_data(source)
        names: dict[str, Any] = {"feature_names": data.feature_names, "index": data.row_names}
        return Design.of(data.X, data.y, data.weights, **names), data.taken
    if source.target is not None or source.classes is not None:
        raise InputError("--formula names its own outcome; leave --target and --classes out")
    path = _path(source)
    if path is None:
        raise InputError("--formula needs DATA, a table whose columns it names")
    frame, notes = read_frame(path, source, lambda names: columns_of(formula, names, source.weight))
    design = read_design(formula, data=frame, sample_weight=source.weight)
    return design, [f"formula {formula}", f"features {some(design.feature_names or [])}", *notes]


def named_solver(method: str) -> Solver:
    """What `--method` names: a solver of ours, or `module:Class` of anybody's.

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
    sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever a module does when it is read
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"--method {short(method)} cannot be imported: {reason}") from error
    finally:
        sys.path.remove("")
    solver = getattr(module, name, None)
    if solver is None:
        offered = [key for key, value in vars(module).items() if _is_offered(value, module_name)]
        raise InputError(
            f"--method {short(method)}: {module_name} ({getattr(module, '__file__', None)}) has no "
            f"{name!r}; its solvers are: {', '.join(offered) or 'none'}"
        )
    if inspect.isabstract(solver):
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


def _is_offered(value: Any, module_name: str) -> bool:
    """Whether a module's value is a solver, and no class that it imports from elsewhere."""
    is_class = isinstance(value, type) and issubclass(value, Solver)
    return isinstance(value, Solver) or (is_class and value.__module__ == module_name)
