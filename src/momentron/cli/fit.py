"""`momentron fit`: the certified margin of a data set."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from momentron.api import check_C, make_budget, make_result
from momentron.cli.data import (
    ClassesOption,
    DataArgument,
    LoadedData,
    TargetOption,
    load_data,
)
from momentron.estimators import labels_of
from momentron.problem import Problem
from momentron.reporting import HEADER, TableReporter, format_row
from momentron.result import MarginResult
from momentron.solve import Outcome, Reporter, solve
from momentron.solvers import Solver, as_solver
from momentron.trace import Row

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
    save: Annotated[Path | None, typer.Option(help="Write the model to this .npz file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the maximum-margin classifier and certify its margin.

    Exit code 0: answered. 1: a budget ended first. 2: bad input.
    """
    solver = as_solver(method)
    budget = make_budget(solver, tol=tol, max_iter=max_iter, max_time=max_time)
    loaded = load_data(data, target, classes)
    problem = Problem.from_data(loaded.X, loaded.y, fit_intercept=intercept, C=check_C(C))
    outcome = _run_with_progress(problem, solver, budget, quiet=as_json)
    result = make_result(problem, solver, outcome)
    summary = summarise(loaded, result, problem)
    if save is not None:
        save_model(save, result)
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary, save)
    raise typer.Exit(0 if result.status.is_final else BUDGET_REACHED)


def _run_with_progress(problem: Problem, solver: Solver, budget: Any, *, quiet: bool) -> Outcome:
    """A live line on a terminal, the plain table where the output is piped, nothing if quiet."""
    if quiet:
        return solve(problem, solver, budget)
    console = Console()
    if not console.is_terminal:
        table = TableReporter(sys.stdout)
        outcome = solve(problem, solver, budget, reporter=table)
        table.close()
        return outcome
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        return solve(problem, solver, budget, reporter=_live_reporter(live))


def _live_reporter(live: Live) -> Reporter:
    def report(row: Row) -> None:
        live.update(Text(f"{HEADER}\n{format_row(row)}", style="cyan"))

    return report


def summarise(loaded: LoadedData, result: MarginResult, problem: Problem) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    decision = np.asarray(loaded.X @ result.coef.T) + result.intercept
    predicted = labels_of(decision, result.classes)
    n, d = problem.operator.shape
    return {
        "data": loaded.title,
        "rows": n,
        "features": d,
        "classes": [str(label) for label in result.classes],
        "method": result.method,
        "status": str(result.status),
        "lower": result.lower,
        "upper": result.upper,
        "gap": result.gap,
        "margin": result.margin,
        "support": int(result.support.size),
        "training_error": float(np.mean(predicted != loaded.y)),
        "iterations": result.n_iter,
        "passes": problem.passes,
        "seconds": result.seconds,
    }


def print_summary(summary: dict[str, Any], save: Path | None) -> None:
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
        f"training error  {summary['training_error']:.4%}",
        f"work            {summary['method']}, {summary['iterations']} iterations, "
        f"{summary['passes']} passes, {summary['seconds']:.3f} s",
    ]
    if save is not None:
        lines.append(f"saved           {save}")
    print("\n".join(lines))


def save_model(path: Path, result: MarginResult) -> None:
    """The classifier and its certificate as an .npz file that loads without pickle."""
    classes = result.classes
    if classes.dtype.kind == "O":
        classes = classes.astype(str)
    with path.open("wb") as file:
        np.savez(
            file,
            coef=result.coef,
            intercept=result.intercept,
            classes=classes,
            lower=result.lower,
            upper=result.upper,
            support=result.support,
            dual=result.dual[result.support],
            status=str(result.status),
        )
