"""`momentron check`: are the classes linearly separable, and why."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from momentron.cli.data import (
    ClassesOption,
    DataArgument,
    LoadedData,
    TargetOption,
    load_data,
)
from momentron.cli.output import cell, say, write_after_answer
from momentron.cli.progress import Progress
from momentron.safefiles import require_writable
from momentron.separability import FeatureRole, Verdict, check_separability, feature_roles

EXIT_CODES = {"separable": 0, "quasi-separable": 3, "overlapping": 4, "undecided": 5}
ROWS_SHOWN = 10


def check(
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    intercept: Annotated[bool, typer.Option(help="Fit an intercept.")] = True,
    max_time: Annotated[float | None, typer.Option(help="Time budget in seconds.")] = None,
    proof: Annotated[Path | None, typer.Option(help="Write the proof to this JSON file.")] = None,
    features: Annotated[
        bool, typer.Option(help="Find the features without which the classes are not separable.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide whether a hyperplane separates the classes, and prove it in exact arithmetic.

    Exit code 0: separable. 3: quasi-separable. 4: overlapping. 5: undecided. 2: bad input.
    """
    if proof is not None:
        require_writable(proof)
    loaded = load_data(data, target, classes)
    with Progress("deciding separability", max_time=max_time, quiet=as_json):
        verdict = check_separability(loaded.X, loaded.y, fit_intercept=intercept, max_time=max_time)
    roles: list[FeatureRole] = []
    if features and verdict.is_separable:
        with Progress("asking what each feature does", max_time=max_time, quiet=as_json):
            roles = feature_roles(verdict, loaded.X, loaded.y, max_time=max_time)
    summary = summarise(loaded, verdict, roles)
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    if proof is not None:
        write_after_answer(proof, verdict.to_json())
        if not as_json:
            say(f"saved           {proof}")
    raise typer.Exit(EXIT_CODES[verdict.kind])


def summarise(loaded: LoadedData, verdict: Verdict, roles: list[FeatureRole]) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    n, d = loaded.X.shape
    return {
        "data": loaded.title,
        "rows": n,
        "features": d,
        "classes": verdict.classes,
        "kind": verdict.kind,
        "sentence": verdict.sentence,
        "lower": verdict.lower,
        "upper": verdict.upper,
        "arithmetic": verdict.arithmetic,
        "boundary_rows": (
            verdict.boundary_rows.tolist() if verdict.kind == "quasi-separable" else []
        ),
        "conflict": [[r.row, r.label, r.against, r.weight] for r in verdict.conflict],
        "direction": _direction(loaded, verdict),
        "needed_features": [role.feature for role in roles if role.is_needed],
        "spare_features": [role.feature for role in roles if role.is_needed is False],
        "seconds": verdict.seconds,
    }


def _direction(loaded: LoadedData, verdict: Verdict) -> list[list[Any]]:
    """The features along which no row is on the wrong side, with their weights, largest first.

    Of two classes: with more there is a direction for each of them.
    """
    if verdict.kind != "quasi-separable" or len(verdict.classes) > 2:
        return []
    weights = np.ravel(verdict.coef)
    used = np.flatnonzero(weights)
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    names = loaded.feature_names or [f"column {i}" for i in range(weights.size)]
    return [[names[i], float(weights[i] / np.abs(weights).max())] for i in order.tolist()]


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact per line, and the conflict as a table."""
    classes = " against ".join(summary["classes"][:2])
    if len(summary["classes"]) > 2:
        classes = f"{len(summary['classes'])} classes, jointly"
    lines = [
        f"{summary['data']}: {summary['rows']} × {summary['features']}, {classes}",
        f"verdict         {summary['sentence']}",
        f"best margin     in [{summary['lower']:.12g}, {summary['upper']:.12g}]",
    ]
    if summary["kind"] != "undecided":
        lines.append(f"proof           {summary['arithmetic']} arithmetic, verified")
    if summary["direction"]:
        shown = [f"{name} ({value:+.4g})" for name, value in summary["direction"][:ROWS_SHOWN]]
        more = ", …" if len(summary["direction"]) > ROWS_SHOWN else "; others 0"
        lines.append(f"direction       {', '.join(shown)}{more}")
    if summary["kind"] == "quasi-separable":
        lines.append(f"on the boundary {_some(summary['boundary_rows'], summary['rows'])}")
    if summary["needed_features"] or summary["spare_features"]:
        needed, spare = summary["needed_features"], summary["spare_features"]
        lines.append(f"needed features {_some(needed, summary['features'])}")
        lines.append(f"spare features  {_some(spare, summary['features'])}")
    lines.append(f"work            {summary['seconds']:.3f} s")
    say(*lines)
    if summary["conflict"]:
        Console(highlight=False, soft_wrap=True).print(_conflict_table(summary["conflict"]))


def _some(indices: list[int], total: int) -> str:
    """How many, and the first few of them."""
    if not indices:
        return f"none of {total}"
    shown = ", ".join(map(str, indices[:ROWS_SHOWN]))
    return f"{len(indices)} of {total}: {shown}{', …' if len(indices) > ROWS_SHOWN else ''}"


def _conflict_table(conflict: list[list[Any]]) -> Table:
    """The rows whose weighted class averages coincide, heaviest first."""
    title = f"conflict: {len(conflict)} rows whose weighted class averages coincide"
    table = Table("row", "class", "against", "weight", title=title, title_justify="left")
    for row, label, against, weight in sorted(conflict, key=lambda row: -row[3])[:ROWS_SHOWN]:
        table.add_row(str(row), cell(label), cell(against), f"{weight:.6g}")
    if len(conflict) > ROWS_SHOWN:
        table.add_row("…", "", "", f"{len(conflict) - ROWS_SHOWN} more")
    return table
