"""What commands are told: data, from a file or by the name of a known set, and methods."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from momentron import datasets
from momentron.data.arguments import meant
from momentron.data.files import Table, TableOptions, read_data, read_frame
from momentron.data.files.table import naming
from momentron.errors import InputError, one_line, short, some
from momentron.separability.designs import Design, read_design
from momentron.separability.designs.design_formulas import columns_of
from momentron.solvers import SOLVERS, Solver

MaxTime = Annotated[float | None, "Time budget in seconds."]
OrderOption = Annotated[
    str | None, "For the family ordinal: its labels, lowest first, such as low,mid,high."
]


@dataclass(frozen=True)
class Source(TableOptions):
    """The data as the command line names them; each field is an argument or an option."""

    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, TSV, svmlight, NPZ, NPY or Parquet file (also .gz, .bz2), or the name of a "
            "known dataset; scikit-learn's digits dataset if omitted."
        ),
    ] = None
    classes: Annotated[
        tuple[str, str] | None, typer.Option(help="Keep only the rows of these two classes.")
    ] = None
    formula: Annotated[
        str | None, typer.Option(help="Such as 'y ~ C(treat) * dose'; needs the extra formula.")
    ] = None

    @property
    def path(self) -> Path | None:
        """The file, possibly of a bundled table; None for any other known dataset."""
        if self.data is None or Path(self.data).exists():
            return None if self.data is None else Path(self.data)
        if self.data in datasets.TABLES:
            return Path(datasets.table_path(self.data))
        return None if self.data in datasets.DATASETS else Path(self.data)

    @property
    def title(self) -> str:
        """What to call the data."""
        name = Path(self.data or "digits").name
        pair = "" if self.path else " against ".join(self.classes or ())
        return f"{name}, {pair}" if pair else name

    def words(self) -> list[str]:
        """The options as a shell takes them, to repeat a command."""
        said: list[str] = []
        for option in OPTIONS:
            name, value = f"--{option.name.replace('_', '-')}", getattr(self, option.name)
            for entry in value if isinstance(value, list) else [value]:
                if entry is True:
                    said.append(name)
                elif entry and option.name != "data":
                    said += [name, *([entry] if isinstance(entry, str) else entry)]
        return said


def _option(field: Field[Any], kind: Any) -> inspect.Parameter:
    """The parameter of commands for a field; options of tables are texts or flags."""
    (about,) = kind.__metadata__
    if isinstance(about, str):
        texts: Any = str | None if field.default is None else list[str] | None
        kind = Annotated[bool if field.default is False else texts, about]
    place, default = inspect.Parameter.POSITIONAL_OR_KEYWORD, field.default or None
    option = inspect.Parameter(field.name, place, default=default, annotation=kind)
    return _for_typer(option, f"--{field.name.replace('_', '-')}")


def _for_typer(option: inspect.Parameter, *names: str) -> inspect.Parameter:
    """The parameter as typer reads it: a text next to a type is the help of an option."""
    kind = option.annotation
    (about,) = getattr(kind, "__metadata__", (None,))
    if not isinstance(about, str):
        return option
    return option.replace(annotation=Annotated[kind.__origin__, typer.Option(*names, help=about)])


KINDS = get_type_hints(Source, include_extras=True)
OPTIONS = [
    _option(f, KINDS[f.name]) for f in fields(Source) if hasattr(KINDS[f.name], "__metadata__")
]


def reads_data(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Source` in place of its parameter `source`.

    Some may be left out, where a command has no use for them. The command's own options may have
    their help as a text next to the type, as those of tables do.
    """
    options = [option for option in OPTIONS if option.name not in left_out]

    def extended(command: Callable[..., None]) -> Callable[..., None]:
        own = list(map(_for_typer, inspect.signature(command).parameters.values()))
        at = [p.name for p in own].index("source")

        @functools.wraps(command)
        def run(**given: Any) -> None:
            said = {p.name: given.pop(p.name) for p in options}
            source = Source(**{name: v for name, v in said.items() if v is not None})
            command(source=source, **given)

        listed = [*own[:at], *options, *own[at + 1 :]]
        described: Any = run
        described.__signature__ = inspect.Signature(listed, return_annotation=None)
        described.__annotations__ = {p.name: p.annotation for p in listed}
        return run

    return extended


def as_order(text: str | None) -> list[str] | None:
    """The labels of --order, which commas separate."""
    return None if text is None else [label.strip() for label in text.split(",")]


def load_data(source: Source) -> Table:
    """DATA of the command line, which no formula changes."""
    name = source.data or "digits"
    if source.path is not None:
        return read_data(source.path, source.target, classes=source.classes, options=source)
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
    if source.path is None:
        raise InputError("--formula needs DATA, a table whose columns it names")
    frame, notes = read_frame(
        source.path, source, lambda names: columns_of(formula, names, source.weight)
    )
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
