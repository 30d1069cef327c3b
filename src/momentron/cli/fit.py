"""`momentron fit`: the certified margin of a data set."""

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from momentron.api import check_C, make_budget, make_kernel, make_result
from momentron.checkpoint import Checkpoint
from momentron.cli.data import (
    ClassesOption,
    DataArgument,
    LoadedData,
    TargetOption,
    load_data,
)
from momentron.cli.output import say, write_after_answer
from momentron.cli.progress import LiveRow
from momentron.errors import InputError
from momentron.estimators import labels_of
from momentron.identity import identity_of
from momentron.losses import Exponential
from momentron.operators import KernelOperator
from momentron.problem import KernelChoice, Problem
from momentron.reporting import TableReporter
from momentron.result import MarginResult
from momentron.safefiles import require_writable
from momentron.solve import Budget, Outcome, solve
from momentron.solvers import Solver, as_solver
from momentron.streams import BlockData, Stream, StreamResult, require_plain, stream_margin
from momentron.streams.reporting import HEADER as PASS_HEADER
from momentron.streams.reporting import StreamReporter

BUDGET_REACHED = 1


def fit(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    method: Annotated[str, typer.Option(help="auto, momentum, batch-perceptron, …")] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap to certify.")] = 1e-6,
    max_iter: Annotated[int | None, typer.Option(help="Iteration budget.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Time budget in seconds.")] = None,
    intercept: Annotated[bool, typer.Option(help="Fit an unpenalised intercept.")] = True,
    C: Annotated[
        float, typer.Option("-C", "--C", help="Soft margin with squared hinge; hard where inf.")
    ] = math.inf,
    kernel: Annotated[
        str | None, typer.Option(help="rbf, poly, laplacian, linear; precomputed: X is the matrix.")
    ] = None,
    gamma: Annotated[str, typer.Option(help="Of the kernel: scale, auto or a number.")] = "scale",
    degree: Annotated[int, typer.Option(help="Of the kernel poly.")] = 3,
    coef0: Annotated[float, typer.Option(help="Of the kernel poly.")] = 0.0,
    cache_size: Annotated[float, typer.Option(help="Memory for kernel values, in MB.")] = 1000.0,
    save: Annotated[Path | None, typer.Option(help="Write the model to this .npz file.")] = None,
    out_of_core: Annotated[
        bool, typer.Option("--out-of-core", help="Read DATA from disk in every pass.")
    ] = False,
    memory: Annotated[str, typer.Option(help="What --out-of-core may take.")] = "1GB",
    dask: Annotated[
        str | None, typer.Option(help="Scheduler address: its workers read DATA, and keep it.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write the state here, and go on from it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the maximum-margin classifier and certify its margin.

    Exit code 0: answered. 1: a budget ended first. 2: bad input.
    """
    for path in (save, checkpoint):
        if path is not None:
            require_writable(path)
    solver = as_solver(method)
    budget = make_budget(solver, tol=tol, max_iter=max_iter, max_time=max_time)
    choice = make_kernel(kernel, as_number(gamma), degree, coef0, cache_size)
    if out_of_core or dask is not None:
        require_plain(kernel=kernel, C=check_C(C), loss=Exponential(), initial=None)
        if data is None or classes is not None:
            raise InputError("--out-of-core and --dask need DATA, and take no --classes")
        source = BlockData(data, target, memory, dask)
        with source.opened() as stream:
            found = _run_stream(
                stream, solver, budget, intercept, source.block_size, checkpoint, quiet=as_json
            )
        _report(summarise_stream(data, found), found, save, as_json)
    loaded = load_data(data, target, classes)
    problem = Problem.from_data(
        loaded.X, loaded.y, fit_intercept=intercept, C=check_C(C), kernel=choice
    )
    file = None
    if checkpoint is not None:
        options = {"C": C, "fit_intercept": intercept, "kernel": choice}
        file = Checkpoint(checkpoint, identity_of(problem, solver, loaded.X, **options))
    outcome = _run_with_progress(problem, solver, budget, file, quiet=as_json)
    result = make_result(problem, solver, outcome)
    more = {} if choice is None or save is None else kernel_model(choice, loaded.X, result)
    _report(summarise(loaded, result, problem), result, save, as_json, **more)


def as_number(word: str) -> float | str:
    """A number where the word is one."""
    try:
        return float(word)
    except ValueError:
        return word


def _report(
    summary: dict[str, Any], result: MarginResult, save: Path | None, as_json: bool, **more: Any
) -> NoReturn:
    """Print, save, and leave with the exit code."""
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    if save is not None:
        write_after_answer(save, lambda stream: write_model(stream, result, **more))
        if not as_json:
            say(f"saved           {save}")
    raise typer.Exit(0 if result.status.is_final else BUDGET_REACHED)


def _run_with_progress(
    problem: Problem, solver: Solver, budget: Budget, checkpoint: Checkpoint | None, *, quiet: bool
) -> Outcome:
    """A live line on a terminal, the plain table where the output is piped, nothing if quiet."""
    if quiet:
        return solve(problem, solver, budget, checkpoint=checkpoint)
    console = Console()
    if not console.is_terminal:
        table = TableReporter(sys.stdout)
        outcome = solve(problem, solver, budget, reporter=table, checkpoint=checkpoint)
        table.close()
        return outcome
    with LiveRow(console, budget.tol) as report:
        return solve(problem, solver, budget, reporter=report, checkpoint=checkpoint)


def _run_stream(
    stream: Stream,
    solver: Solver,
    budget: Budget,
    intercept: bool,
    block_size: int,
    checkpoint: Path | None,
    *,
    quiet: bool,
) -> StreamResult:
    """The same for data in blocks, whose passes may take minutes: the line moves within them."""
    run = partial(
        stream_margin,
        stream,
        solver=solver,
        budget=budget,
        fit_intercept=intercept,
        block_size=block_size,
        checkpoint=checkpoint,
    )
    if quiet:
        return run()
    console = Console()
    if not console.is_terminal:
        print(PASS_HEADER)
        reporter = StreamReporter(stream, partial(print, flush=True))
        found = run(reporter=reporter)
        reporter.close()
        return found
    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def show(line: str) -> None:
            live.update(Text(f"{PASS_HEADER}\n{line}", style="cyan"))

        reporter = StreamReporter(stream, show, is_live=True, every=0.2)
        found = run(reporter=reporter)
        reporter.close()
        return found


def summarise(loaded: LoadedData, result: MarginResult, problem: Problem) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    operator = problem.operator
    if isinstance(operator, KernelOperator):
        outputs = operator.apply(operator.from_coefficients(result.coef.T))
    else:
        outputs = np.asarray(loaded.X @ result.coef.T)
    predicted = labels_of(outputs + result.intercept, result.classes)
    n, d = loaded.X.shape
    return {
        "data": loaded.title,
        "rows": n,
        "features": d,
        **_answer(result),
        "training_error": float(np.mean(predicted != loaded.y)),
        "iterations": result.n_iter,
        "passes": int(result.trace["passes"][-1]) if len(result.trace) else 0,
        "seconds": result.seconds,
    }


def _answer(result: MarginResult) -> dict[str, Any]:
    """What all results say."""
    return {
        "classes": [str(label) for label in result.classes],
        "method": result.method,
        "status": str(result.status),
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "margin": result.margin,
        "support": int(result.support.size),
    }


def summarise_stream(data: str, result: StreamResult) -> dict[str, Any]:
    """The same for data in blocks; no pass is spent on the errors of a classifier that has some."""
    return {
        "data": Path(data).name,
        "rows": result.n_rows,
        "features": int(result.coef.shape[-1]),
        **_answer(result),
        "training_error": 0.0 if result.margin > 0.0 else None,
        "iterations": result.n_iter,
        "passes": result.passes,
        "seconds": result.seconds,
        "bytes_read": result.bytes_read,
    }


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact a line."""
    classes = summary["classes"]
    story = " against ".join(classes) if len(classes) == 2 else f"{len(classes)} classes"
    margin = "best margin" if len(classes) == 2 else "joint margin"
    lines = [
        f"{summary['data']}: {summary['rows']} × {summary['features']}, {story}",
        f"verdict         {summary['status']}",
        f"{margin:<15} in [{summary['lower']:.12g}, {summary['upper']:.12g}], "
        f"relative gap {summary['gap']:.2e}",
        f"support         {summary['support']} of {summary['rows']} rows",
        f"training error  {_share(summary['training_error'])}",
        f"work            {summary['method']}, {summary['iterations']} iterations, "
        f"{summary['passes']} passes, {summary['seconds']:.3f} s",
    ]
    if "bytes_read" in summary:
        speed = summary["bytes_read"] / max(summary["seconds"], 1e-9) / 1e6
        lines.append(f"read            {summary['bytes_read'] / 1e9:.3f} GB, {speed:.0f} MB/s")
    say(*lines)


def _share(value: float | None) -> str:
    return "not counted" if value is None else f"{value:.4%}"


def kernel_model(choice: KernelChoice, X: Any, result: MarginResult) -> dict[str, Any]:
    """What predicting with a kernel needs: its parameters as numbers, and the support vectors.

    `rows` are their numbers, and of `coef` only their entries are kept.
    """
    rows = np.flatnonzero(np.atleast_2d(result.coef).any(axis=0))
    kernel = choice.resolve(X)
    numbers = {name: getattr(kernel, name, None) for name in ("gamma", "degree", "coef0")}
    model: dict[str, Any] = {
        "kernel": choice.kernel,
        "coef": result.coef[..., rows],
        "rows": rows,
        "n_rows": X.shape[0],
    }
    if choice.kernel != "precomputed":
        vectors = X[rows]
        model["support_vectors"] = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    return model | {name: value for name, value in numbers.items() if value is not None}


def write_model(stream: IO[bytes], result: MarginResult, **more: Any) -> None:
    """The classifier and its certificate as an .npz file that loads without pickle."""
    classes = result.classes
    if classes.dtype.kind == "O":
        classes = classes.astype(str)
    is_short = isinstance(result, StreamResult)  # it has the support's weights alone
    arrays: dict[str, Any] = {
        "coef": result.coef,
        "intercept": result.intercept,
        "classes": classes,
        "lower": result.lower,
        "upper": result.upper,
        "support": result.support,
        "dual": result.dual if is_short else result.dual[result.support],
        "status": str(result.status),
    }
    np.savez(stream, **(arrays | more))
