"""What every command needs of its data: a file, a named set, or the bundled digits."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentron import datasets
from momentron.data.files import DataFile, TableOptions, read_frame, read_whole
from momentron.data.files._common import some
from momentron.errors import InputError, short
from momentron.separability.designs import Design, read_design
from momentron.separability.designs.rows import GivenRows
from momentron.separability.designs.spelling import columns_of

DataArgument = Annotated[
    str | None,
    typer.Argument(
        help="CSV, TSV, svmlight, NPZ, NPY or Parquet file (also .gz, .bz2), or the name of a "
        "known set; scikit-learn's ten digits where absent."
    ),
]
TargetOption = Annotated[str | None, typer.Option(help="Label column: a name or a position.")]
ClassesOption = Annotated[
    tuple[str, str] | None, typer.Option(help="Keep the rows of these two classes.")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(help="Features to use: names or positions, with commas or the option repeated."),
]
DropOption = Annotated[
    list[str] | None, typer.Option(help="Columns to leave out, such as an identifier.")
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Between cells: , ; | tab or space; detected automatically by default."),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(help="Decimal mark: . or , (detected automatically where it is clear)."),
]
NaOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What stands for a missing value; by default NA, NaN, null, . and an empty cell."
    ),
]
DropNaOption = Annotated[
    bool, typer.Option("--drop-na", help="Leave out rows with a missing value.")
]
DummiesOption = Annotated[
    bool, typer.Option("--dummies", help="Text columns become 0/1 columns, one per level but one.")
]
FormulaOption = Annotated[
    str | None, typer.Option(help="Such as 'y ~ C(treat) * dose'; needs the extra formula.")
]
WeightOption = Annotated[
    str | None,
    typer.Option(help="Column of weights or frequencies; rows of weight 0 are left out."),
]
FailuresOption = Annotated[
    str | None,
    typer.Option(
        help="This column counts the failures of each row of grouped data, and the column of "
        "--target the successes."
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(help="For the family ordinal: its labels, lowest first, such as low,mid,high."),
]
PLAIN = TableOptions()


@dataclass(frozen=True)
class LoadedData:
    """X, y, and what to call them; what was taken as what; the levels behind dummies."""

    X: Any
    y: np.ndarray
    title: str
    feature_names: list[str] | None = None
    row_names: list[str] | None = None
    weights: np.ndarray | None = None
    taken: list[str] = field(default_factory=list)
    levels: dict[str, list[str]] = field(default_factory=dict)
    fit_intercept: bool = True
    given: GivenRows | None = None

    @property
    def design(self) -> Design:
        """The rows and labels, with the rows of the file that they were made from."""
        return Design(
            self.X,
            self.y,
            self.weights,
            fit_intercept=self.fit_intercept,
            feature_names=self.feature_names,
            given=self.given,
        )


def table_options(
    columns: ColumnsOption = None,
    drop: DropOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    na: NaOption = None,
    drop_na: DropNaOption = False,
    dummies: DummiesOption = False,
    weight: WeightOption = None,
    failures: FailuresOption = None,
) -> TableOptions:
    """What the options of a command say of a table."""
    return TableOptions(
        columns=tuple(columns or ()),
        drop=tuple(drop or ()),
        delimiter=delimiter,
        decimal=decimal,
        na=None if na is None else tuple(na),
        drop_na=drop_na,
        dummies=dummies,
        weight=weight,
        failures=failures,
    )


def with_table_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `table_options`, in place of its parameter `table`.

    Some may be left out, where a command has no use for them.
    """
    declared = inspect.signature(table_options).parameters
    options = [p for name, p in declared.items() if name not in left_out]

    def extended(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())
        at = [p.name for p in own].index("table")

        @functools.wraps(command)
        def run(**given: Any) -> None:
            said = {p.name: given.pop(p.name) for p in options}
            command(table=table_options(**said), **given)

        listed = [*own[:at], *options, *own[at + 1 :]]
        described: Any = run
        described.__signature__ = inspect.Signature(listed, return_annotation=None)
        described.__annotations__ = {p.name: p.annotation for p in listed}
        return run

    return extended


def as_order(text: str | None) -> list[str] | None:
    """The labels of --order, which commas separate."""
    return None if text is None else [label.strip() for label in text.split(",")]


def load_data(
    source: str | None,
    target: str | None,
    classes: tuple[str, str] | None,
    options: TableOptions | None = None,
) -> LoadedData:
    """DATA of the command line: a path, the name of a known set, or nothing (the ten digits)."""
    known = "digits" if source is None else source
    if source is None or (not Path(source).exists() and source in datasets.DATASETS):
        if options is not None and options.weight is not None:
            raise InputError(f"--weight {options.weight} names a column of a file; give one")
        if options is not None:
            options.require_plain(known, "it is a known set, not a table")
        return _named(known, classes)
    file = read_whole(_path(source), target, classes, options=options)
    return loaded_from(file, Path(source).name)


def _path(source: str) -> str | Path:
    """A file; of a bundled table, its own."""
    is_table = source in datasets.TABLES and not Path(source).exists()
    return datasets.table_path(source) if is_table else source


def load_formula(source: str | None, formula: str, options: TableOptions) -> LoadedData:
    """The design of a formula in the columns of DATA."""
    if source is None:
        raise InputError("--formula needs DATA, a table whose columns it names")
    weight = options.weight if isinstance(options.weight, str) else None
    frame, notes = read_frame(
        _path(source), options, lambda names: columns_of(formula, names, weight)
    )
    design = read_design(formula, data=frame, sample_weight=options.weight)
    return LoadedData(
        design.X,
        design.y,
        Path(source).name,
        design.feature_names,
        _row_names(design),
        design.sample_weight,
        [f"formula {formula}", f"features {some(design.feature_names or [])}", *notes],
        fit_intercept=design.fit_intercept is not False,
        given=design.given,
    )


def loaded_from(file: DataFile, title: str) -> LoadedData:
    """A file that has been read, under a title; counts as one row per outcome that was seen."""
    design = Design(file.X, file.y, file.weights, row_names=file.row_names).ungrouped()
    return LoadedData(
        design.X,
        np.asarray(design.y),
        title,
        file.feature_names,
        _row_names(design),
        design.sample_weight,
        file.taken,
        file.levels,
        given=design.given,
    )


def _row_names(design: Design) -> list[str] | None:
    """The names of the rows of the file."""
    names = None if design.given is None else design.given.names
    return None if names is None else [str(name) for name in names]


def _named(name: str, classes: tuple[str, str] | None) -> LoadedData:
    bunch = datasets.load(name)
    X, y = bunch.X, np.asarray(bunch.y)
    if classes is None:
        return LoadedData(X, y, name)
    labels = y.astype(str)
    for label in classes:
        if label not in labels:
            known = ", ".join(sorted(set(labels)))
            raise InputError(f"{name} has no class {short(label)}; its classes are {known}")
    keep = np.isin(labels, classes)
    return LoadedData(X[keep], y[keep], f"{name}, {classes[0]} against {classes[1]}")
