"""The commands as users type them: their options and help, without what does their work.

That is a function of the same name in the module of the same name, which is imported after the
arguments have been read: help and mistakes in typing are answered at once.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from momentron.data.table_options import TableOptions
from momentron.errors import InputError

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
        tuple[str, str] | None,
        typer.Option(
            help="Keep only the rows of two classes, such as --classes 3 8.", metavar="A B"
        ),
    ] = None
    formula: Annotated[
        str | None, typer.Option(help="Such as 'y ~ C(treat) * dose'; needs the extra formula.")
    ] = None

    @property
    def name(self) -> str:
        """What to call the data."""
        return Path(self.data or "digits").name

    @property
    def title(self) -> str:
        """The same, with the classes that are kept of them."""
        return f"{self.name}, {' against '.join(self.classes)}" if self.classes else self.name

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


def command(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command; its parameter `source` stands for the options of `Source`.

    Some may be left out, where a command has no use for them. The command's own options may have
    their help as a text next to the type, as those of tables do.
    """
    options = [option for option in OPTIONS if option.name not in left_out]

    def declare(declared: Callable[..., None]) -> Callable[..., None]:
        name, listed = declared.__name__, list[inspect.Parameter]()
        own = inspect.signature(declared).parameters
        for key, parameter in own.items():
            listed += options if key == "source" else [_for_typer(parameter)]
        files = [p.name for p in listed if isinstance(p.annotation.__metadata__[0], ArgumentInfo)]

        @wraps(declared)
        def run(**given: Any) -> None:
            for path in (Path(given[argument] or "") for argument in files):
                is_file = path.suffix not in ("", ".scale")  # letter.scale is a known dataset
                if is_file and not path.expanduser().exists():
                    raise InputError(f"{path} does not exist; check the path")
            if "source" in own:
                said = {p.name: given.pop(p.name) for p in options}
                given["source"] = Source(**{k: v for k, v in said.items() if v is not None})
            getattr(import_module(f"momentron.cli.{name}"), name)(**given)

        described: Any = run
        described.__signature__ = inspect.Signature(listed, return_annotation=None)
        described.__annotations__ = {p.name: p.annotation for p in listed}
        return run

    return declare


@command("formula", "failures")
def fit(
    source: Source,
    method: Annotated[
        str, "auto, momentum, batch-perceptron, …, or module:Class of a solver."
    ] = "auto",
    tol: Annotated[float, "Relative gap to certify."] = 1e-6,
    max_iter: Annotated[int | None, "Iteration budget."] = None,
    max_time: MaxTime = None,
    max_memory: Annotated[str | None, "Memory limit, not counting the data, such as 1GB."] = None,
    intercept: Annotated[bool, "Fit an unpenalised intercept."] = True,
    C: Annotated[
        float,
        typer.Option("-C", "--C", help="Cost of slack (soft margin); inf means the hard margin."),
    ] = math.inf,
    penalty: Annotated[str, "What slack costs: squared_hinge or hinge."] = "squared_hinge",
    class_weight: Annotated[
        str | None, "balanced, or weights such as 0=1,1=20: factors of C by class."
    ] = None,
    kernel: Annotated[
        str | None, "rbf, poly, laplacian, linear; precomputed: X is the matrix."
    ] = None,
    gamma: Annotated[str, "Kernel parameter: scale, auto or a number."] = "scale",
    degree: Annotated[int, "Kernel parameter, for poly: its degree."] = 3,
    coef0: Annotated[float, "Kernel parameter, for poly: its constant."] = 0.0,
    cache_size: Annotated[float, "Memory for kernel values, in MB."] = 1000.0,
    save: Annotated[Path | None, "Write the model to this .npz file."] = None,
    out_of_core: Annotated[
        bool | None,
        typer.Option(
            "--out-of-core/--in-memory",
            help="Read DATA from disk in every pass, or once; chosen from its size by default.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        "Memory limit for --out-of-core, about 700MB by default, plus about 200 bytes per row, "
        "or per row and class if there are more than two classes.",
    ] = None,
    dask: Annotated[
        str | None, "Dask scheduler address; its workers read DATA and keep it."
    ] = None,
    checkpoint: Annotated[Path | None, "Save progress to this file, and resume from it."] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the maximum-margin classifier and certify its margin.

    Exit code 0: answered. 1: a budget ended first. 2: bad input.
    """


@command("data", "classes", "formula", "drop_na", "dummies", "weight", "failures")
def predict(
    model: Annotated[Path, typer.Argument(help="A model that `momentron fit --save` wrote.")],
    data: Annotated[
        str, typer.Argument(help="The rows: any file that `fit` reads, with labels or without.")
    ],
    source: Source,
    decision: Annotated[
        bool, typer.Option("--decision", help="Decision values instead of labels.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the CSV to this file.")
    ] = None,
) -> None:
    """Classify rows with a saved model, as CSV with one line per row.

    Rows with a missing feature give an empty line, "", so that lines match rows.

    Columns are found by name where both tables have a header: their order does not matter, a
    missing one is refused, and others are ignored with a note on standard error. Without a header
    they are taken by position: a table with as many columns as the model has features has no
    labels, one with a column more has them. If there are labels, the errors are counted on
    standard error.
    """


@command()
def check(
    source: Source,
    family: Annotated[
        str | None,
        "binomial, multinomial, ordinal, poisson, negative-binomial or truncated-poisson; "
        "binomial or multinomial by default.",
    ] = None,
    link: Annotated[
        str | None,
        "logit (the default), probit, cloglog, loglog, cauchit, cdf; log or logc for "
        "binomial models; log for counts.",
    ] = None,
    order: OrderOption = None,
    intercept: Annotated[bool, "Fit an intercept."] = True,
    decimals: Annotated[
        str, "Read floats as their shortest decimals, or as binary numbers."
    ] = "shortest",
    max_time: MaxTime = None,
    proof: Annotated[Path | None, "Write the proof to this JSON file."] = None,
    reference: Annotated[
        str | None,
        "Reference class of multinomial contrasts; with the links log and logc, the "
        "class that is not the event.",
    ] = None,
    features: Annotated[
        bool, "Find the features without which the classes are not separable."
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide and prove whether a hyperplane separates the classes.

    Exit code 0: separable. 3: quasi-separable. 4: overlapping. 5: undecided. 2: bad input.
    """


@command()
def verify(
    proof: Annotated[Path, typer.Argument(help="A proof written by `momentron check --proof`.")],
    source: Source,
    order: OrderOption = None,
    max_time: MaxTime = None,
) -> None:
    """Check a proof of separability, trusting no solver.

    Use the same table options as for `momentron check`, so that the file is read the same way.

    Exit code 0: the proof holds. 1: it does not hold, or its verdict is undecided. 2: a file cannot
    be read.
    """


@command("formula", "weight", "failures")
def race(
    source: Source,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="A method to run, or module:Class of a solver; repeat for more."
        ),
    ] = None,
    passes: Annotated[int, typer.Option(min=2, help="Passes over the data for each.")] = 1000,
    intercept: Annotated[bool, "Fit an unpenalised intercept."] = True,
    plot: Annotated[Path | None, "Save a plot to this file."] = None,
) -> None:
    """Compare the margins of several methods, pass by pass."""


@command("formula", "weight", "failures")
def report(
    source: Source,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the page to this file.")] = Path(
        "report.html"
    ),
    intercept: Annotated[bool, "Allow an intercept."] = True,
    max_time: MaxTime = None,
) -> None:
    """Write an HTML page with the verdict, its proof and pictures.

    The page needs no network and no scripts; drawing it needs the extra plot (matplotlib). The time
    budget is for each step. Exit codes are the same as for `momentron check`.
    """


@command()
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print versions, libraries, threads and folders, for bug reports."""
