"""`momentron fit`: the certified margin of a data set."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer

from momentron.api import fit as fit_plan
from momentron.api import plan_fit, reads_in_blocks
from momentron.cli.data import (
    PLAIN,
    ClassesOption,
    DataArgument,
    TargetOption,
    load_data,
    with_table_options,
)
from momentron.cli.methods import named_solver
from momentron.cli.model import kernel_model, write_model
from momentron.cli.output import say, try_to_write
from momentron.cli.reporters import progress, progress_of_passes
from momentron.cli.summary import print_summary, summarise, summarise_stream
from momentron.data.files import TableOptions
from momentron.data.safefiles import require_writable
from momentron.errors import InputError, short
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.streams import BlockData

BUDGET_REACHED = 1


@with_table_options("weight", "failures")
def fit(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    table: TableOptions = PLAIN,
    method: Annotated[
        str, typer.Option(help="auto, momentum, batch-perceptron, …, or module:Class of a solver.")
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap to certify.")] = 1e-6,
    max_iter: Annotated[int | None, typer.Option(help="Iteration budget.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Time budget in seconds.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory beside the data, such as 1GB.")
    ] = None,
    intercept: Annotated[bool, typer.Option(help="Fit an unpenalised intercept.")] = True,
    C: Annotated[
        float,
        typer.Option("-C", "--C", help="Cost of slack (soft margin); inf means the hard margin."),
    ] = math.inf,
    penalty: Annotated[
        str, typer.Option(help="What slack costs: squared_hinge or hinge.")
    ] = "squared_hinge",
    weight: Annotated[
        str | None,
        typer.Option(help="Column of the rows' weights, which multiply C: a name or a position."),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="balanced, or weights such as 0=1,1=20: factors of C by class."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="rbf, poly, laplacian, linear; precomputed: X is the matrix.")
    ] = None,
    gamma: Annotated[
        str, typer.Option(help="Kernel parameter: scale, auto or a number.")
    ] = "scale",
    degree: Annotated[int, typer.Option(help="Kernel parameter, for poly: its degree.")] = 3,
    coef0: Annotated[float, typer.Option(help="Kernel parameter, for poly: its constant.")] = 0.0,
    cache_size: Annotated[float, typer.Option(help="Memory for kernel values, in MB.")] = 1000.0,
    save: Annotated[Path | None, typer.Option(help="Write the model to this .npz file.")] = None,
    out_of_core: Annotated[
        bool | None,
        typer.Option(
            "--out-of-core/--in-memory",
            help="Read DATA from disk in every pass, or once; chosen from its size by default.",
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What --out-of-core may take; 700MB where it is not given.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Scheduler address: its workers read DATA, and keep it.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write the state here, and continue from it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the maximum-margin classifier and certify its margin.

    Exit code 0: answered. 1: a budget ended first. 2: bad input.
    """
    for path in (save, checkpoint):
        if path is not None:
            require_writable(path)
    table = replace(table, weight=weight)
    wants_blocks = bool(out_of_core) or dask is not None or memory is not None
    if wants_blocks and (data is None or classes is not None or out_of_core is False):
        raise InputError(
            "--out-of-core, --memory and --dask need DATA, and take no --classes or --in-memory"
        )
    source = BlockData(data or "", target, memory, dask)
    options = FitOptions.from_arguments(
        method=named_solver(method),
        kernel=kernel,
        gamma=as_number(gamma),
        degree=degree,
        coef0=coef0,
        cache_size=cache_size,
        fit_intercept=intercept,
        C=C,
        penalty=penalty,
        class_weight=None if class_weight is None else as_class_weight(class_weight),
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        max_memory=max_memory,
        block_size=source.block_size if wants_blocks else None,
        checkpoint=checkpoint,
    )
    is_file = data is not None and Path(data).expanduser().exists()  # else a known set, or an error
    may_choose = is_file and out_of_core is None and classes is None
    if wants_blocks or (may_choose and reads_in_blocks(data, options)):
        assert data is not None
        if weight is not None:
            raise InputError(
                f"--weight {weight} is for data that are read whole (--in-memory); blocks have the "
                "hard margin, of which weights change nothing: leave rows without weight out"
            )
        table.require_plain(data, "it is read in blocks; pass --in-memory")
        with source.opened() as stream, progress_of_passes(stream, is_quiet=as_json) as reporter:
            found = fit_plan(plan_fit(stream, None, options), options, reporter=reporter).results[0]
        _report(summarise_stream(data, found), found, save, as_json)
    loaded = load_data(data, target, classes, table)
    plan = plan_fit(loaded.X, loaded.y, options, sample_weight=loaded.weights)
    rows = plan.data
    assert rows is not None, "arrays are in memory"
    options = replace(options, class_weight=by_label(options.class_weight, rows.classes))
    with progress(options.budget.tol, is_quiet=as_json) as show:
        (fitted,) = fit_plan(plan, options, reporter=show).fits
    more: dict[str, Any] = {}
    if kernel is not None and save is not None:
        more = kernel_model(kernel, rows.X, fitted)
    if loaded.levels:
        more["levels"] = json.dumps(loaded.levels)
    summary = summarise(loaded.title, rows, fitted) | {"read": loaded.taken}
    _report(summary, fitted.result, save, as_json, **more)


def as_class_weight(text: str) -> str | dict[str, float]:
    """ "balanced", or a table of weights by the labels' text."""
    if text == "balanced":
        return text
    table: dict[str, float] = {}
    for part in text.split(","):
        label, _, weight = part.rpartition("=")
        number = as_number(weight)
        if not label or isinstance(number, str):
            raise InputError(
                f"--class-weight {short(text)} must be 'balanced', or label=weight pairs such as "
                "0=1,1=20"
            )
        table[label] = number
    return table


def by_label(class_weight: Any, classes: np.ndarray) -> Any:
    """Weights by the labels themselves, of which a command line has the text."""
    if not isinstance(class_weight, dict):
        return class_weight
    labels = {str(label): label for label in classes.tolist()}
    for text in class_weight:
        if text not in labels:
            raise InputError(
                f"--class-weight names {short(text)}; the labels are {', '.join(list(labels)[:12])}"
            )
    return {labels[text]: weight for text, weight in class_weight.items()}


def as_number(word: str) -> float | str:
    """A number where the word is one."""
    try:
        return float(word)
    except ValueError:
        return word


def _report(
    summary: dict[str, Any], result: MarginResult, save: Path | None, as_json: bool, **more: Any
) -> NoReturn:
    """Save, print, and leave with the exit code."""
    failure = try_to_write(save, lambda stream: write_model(stream, result, **more))
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    if failure is not None:
        raise failure
    if save is not None and not as_json:
        say(f"saved           {save}")
    raise typer.Exit(0 if result.status.is_final else BUDGET_REACHED)
