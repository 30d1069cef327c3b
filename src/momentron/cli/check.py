"""`momentron check`: are the classes linearly separable, and why."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from momentron.cli.commands import Source
from momentron.cli.inputs import as_order, load_design
from momentron.cli.output import answer, cell, progress, say_facts, say_json
from momentron.data.safefiles import require_writable
from momentron.separability import FeatureRole, Verdict, check_separability, feature_roles
from momentron.separability.designs import Design
from momentron.separability.sentences import most_separated_first

EXIT_CODES = {"separable": 0, "quasi-separable": 3, "overlapping": 4, "undecided": 5}
# what a summary says in the verdict's own words
SAME = ["kind", "sentence", "classes", "family", "link", "model", "lower", "upper", "arithmetic"]
SAME += ["decimals", "caveat", "reason", "seconds"]
ROWS_SHOWN = 10
ESTIMATES_SHOWN = 40


def check(
    source: Source, proof: Path | None, features: bool, as_json: bool, **options: Any
) -> None:
    """Print the verdict; `options` are those of `check_separability`."""
    if proof is not None:
        require_writable(proof)
    design, taken = load_design(source)
    max_time, options["order"] = options["max_time"], as_order(options["order"])
    options["fit_intercept"] = options.pop("intercept")
    with progress("deciding separability", max_time=max_time, quiet=as_json):
        verdict = check_separability(design, **options)
    roles: list[FeatureRole] = []
    if features and verdict.kind in ("separable", "quasi-separable"):
        with progress("finding the features needed", max_time=max_time, quiet=as_json):
            roles = feature_roles(verdict, design.X, design.y, max_time=max_time)
    order_taken = [f"order {' < '.join(verdict.classes)}"] if verdict.family == "ordinal" else []
    found = summarise(design, verdict, roles)
    summary = {"data": source.name, "read": [*taken, *order_taken]} | found
    show = partial(say_json if as_json else print_summary, summary)
    answer(show, proof, verdict.to_json(), word=None if as_json else "saved")
    raise typer.Exit(EXIT_CODES[verdict.kind])


def summarise(design: Design, verdict: Verdict, roles: list[FeatureRole]) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    n_separated, n_observations, noun = verdict.observations
    is_quasi = verdict.kind == "quasi-separable"
    is_joint, is_counted = len(verdict.classes) > 2, noun == "observations"
    row_names = design.given.names
    pairs = most_separated_first(verdict.class_pairs) if is_joint else []
    return {name: getattr(verdict, name) for name in SAME} | {
        "rows": verdict.n_rows,
        "features": design.X.shape[1],
        "observations": n_observations if is_counted else None,
        "separated_observations": n_separated if is_counted else None,
        "notes": list(verdict.notes),
        "in_a_paper": verdict.paper_sentence,
        "estimates": [
            {"class": e.label, "feature": e.feature, "estimate": e.estimate, "reason": e.reason}
            for e in verdict.estimates
        ],
        "boundary_rows": verdict.boundary_rows.tolist() if is_quasi else [],
        "separated_rows": verdict.separated_rows.tolist(),
        "boundary_pairs": list(map(list, verdict.boundary_pairs)) if is_quasi and is_joint else [],
        "class_pairs": [asdict(pair) for pair in pairs],
        "conflict": [[r.row, r.label, r.against, r.weight] for r in verdict.conflict],
        "constant": _constant(design.X, verdict),
        "row_names": None if row_names is None else [str(name) for name in row_names],
        "feature_names": design.feature_names,
        "direction": _direction(verdict) if is_quasi and not is_joint else [],
        "needed_features": [role.feature for role in roles if role.is_needed],
        "spare_features": [role.feature for role in roles if role.is_needed is False],
    }


def _constant(X: Any, verdict: Verdict) -> list[str]:
    """The columns that are the same in every row, which repeat the intercept if there is one."""
    if not verdict.proof["fit_intercept"]:
        return []
    least, most = X.min(axis=0), X.max(axis=0)
    least, most = (np.ravel(v.toarray() if hasattr(v, "toarray") else v) for v in (least, most))
    names = verdict.feature_labels
    return [names[i] for i in np.flatnonzero(least == most).tolist()]


def _direction(verdict: Verdict) -> list[list[Any]]:
    """The features along which no row is on the wrong side, with their weights, largest first."""
    weights, names = np.ravel(verdict.coef), verdict.feature_labels
    order = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
    return [[names[i], float(weights[i] / np.abs(weights).max())] for i in order.tolist()]


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact per line, and what there is of tables."""
    classes = " against ".join(summary["classes"][:2])
    if len(summary["classes"]) > 2:
        classes = f"{len(summary['classes'])} classes, jointly"
    seen = summary["observations"]
    observations = "" if seen in (None, summary["rows"]) else f", {seen:,} observations"
    size = f"{summary['rows']} × {summary['features']}{observations}"
    say_facts(f"{summary['data']}: {size}, {classes}", _facts(summary))
    estimates, pairs = summary["estimates"], summary["class_pairs"]
    if len(estimates) > ESTIMATES_SHOWN:
        estimates = sorted(estimates, key=lambda row: row["estimate"] == "finite")
    names = ("class", "feature", "estimate")
    _print_table("estimates", names, [[e[n] for n in names] for e in estimates], ESTIMATES_SHOWN)
    if summary["kind"] == "quasi-separable":
        columns = ("class", "and", "kind", "strict", "on the boundary")
        rows = []
        for pair in pairs:
            strict = "" if pair["strict"] is None else "{} and {}".format(*pair["strict"])
            on = "{} and {}".format(*pair["boundary"])
            rows.append([pair["first"], pair["second"], pair["kind"], strict, on])
        _print_table("classes in the joint model", columns, rows)
    row_names = summary["row_names"] or range(summary["rows"])
    conflict = sorted(summary["conflict"], key=lambda row: -row[3])
    title = f"conflict: no hyperplane separates these {len(conflict)} rows strictly"
    rows = [[row_names[i], a, b, f"{w:.6g}"] for i, a, b, w in conflict]
    _print_table(title, ("row", "class", "against", "weight"), rows)


def _facts(summary: dict[str, Any]) -> list[tuple[str, object]]:
    """What is to be said, by name; facts without a value are left out."""
    # rows and features are numbers, from 0, where the file does not name them
    row_names = summary["row_names"] or range(summary["rows"])
    feature_names = summary["feature_names"] or range(summary["features"])
    directed = summary["direction"]
    shown = ", ".join(f"{name} ({value:+.4g})" for name, value in directed[:ROWS_SHOWN])
    others = ", …" if len(directed) > ROWS_SHOWN else "; others 0"
    constant = ", ".join(summary["constant"][:ROWS_SHOWN])
    separated = [row_names[i] for i in summary["separated_rows"]]
    is_asked = summary["needed_features"] or summary["spare_features"]
    needed, spare = (
        _some([feature_names[j] for j in found], summary["features"]) if is_asked else ""
        for found in (summary["needed_features"], summary["spare_features"])
    )
    is_decided, is_quasi = summary["kind"] != "undecided", summary["kind"] == "quasi-separable"
    return [
        ("read", "; ".join(summary["read"])),
        ("model", summary["model"]),
        *(("note", note) for note in summary["notes"]),
        ("verdict", summary["sentence"]),
        ("best margin", f"in [{summary['lower']:.12g}, {summary['upper']:.12g}]"),
        ("proof", f"{summary['arithmetic']} arithmetic, verified" if is_decided else ""),
        ("undecided", summary["reason"]),
        ("in a paper", summary["in_a_paper"] if summary["estimates"] else ""),
        ("caveat", summary["caveat"]),
        ("constant", f"{constant}: aliased, each repeats the intercept" if constant else ""),
        ("direction", f"{shown}{others}" if shown else ""),
        ("separated rows", _some(separated, summary["rows"]) if is_quasi else ""),
        ("needed features", needed),
        ("spare features", spare),
        ("time", f"{summary['seconds']:.3f} s"),
    ]


def _print_table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], most: int = ROWS_SHOWN
) -> None:
    """The first rows of a table, and how many more there are; nothing where it has none."""
    if not rows:
        return
    table = Table(*names, title=title, title_justify="left")
    for row in rows[:most]:
        table.add_row(*map(cell, row))
    if len(rows) > most:
        table.add_row("…", *[""] * (len(names) - 2), f"{len(rows) - most} more")
    Console(highlight=False, soft_wrap=True).print(table)


def _some(entries: Sequence[Any], total: int) -> str:
    """How many there are, and the first few of them."""
    if not entries:
        return f"none of {total}"
    shown = ", ".join(map(str, entries[:ROWS_SHOWN]))
    return f"{len(entries)} of {total}: {shown}{', …' if len(entries) > ROWS_SHOWN else ''}"
