"""A verdict as `momentron check` prints it."""

from typing import Any

from rich.console import Console
from rich.table import Table

from momentron.cli.output import cell, say

ROWS_SHOWN = 10
ESTIMATES_SHOWN = 40


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact per line, and the conflict as a table."""
    classes = " against ".join(summary["classes"][:2])
    if len(summary["classes"]) > 2:
        classes = f"{len(summary['classes'])} classes, jointly"
    seen = summary["observations"]
    observations = "" if seen in (None, summary["rows"]) else f", {seen:,} observations"
    lines = [
        f"{summary['data']}: {summary['rows']} × {summary['features']}{observations}, {classes}",
        *([f"read            {'; '.join(summary['read'])}"] if summary["read"] else []),
        f"model           {summary['model']}",
        *(f"note            {note}" for note in summary["notes"]),
        f"verdict         {summary['sentence']}",
        f"best margin     in [{summary['lower']:.12g}, {summary['upper']:.12g}]",
    ]
    if summary["kind"] != "undecided":
        lines.append(f"proof           {summary['arithmetic']} arithmetic, verified")
    if summary["reason"]:
        lines.append(f"undecided       {summary['reason']}")
    if summary["estimates"]:
        lines.append(f"in a paper      {summary['in_a_paper']}")
    if summary["caveat"]:
        lines.append(f"caveat          {summary['caveat']}")
    if summary["constant"]:
        listed = ", ".join(summary["constant"][:ROWS_SHOWN])
        lines.append(f"constant        {listed}: aliased, each repeats the intercept")
    if summary["direction"]:
        shown = [f"{name} ({value:+.4g})" for name, value in summary["direction"][:ROWS_SHOWN]]
        more = ", …" if len(summary["direction"]) > ROWS_SHOWN else "; others 0"
        lines.append(f"direction       {', '.join(shown)}{more}")
    if summary["kind"] == "quasi-separable":
        rows = _row_names(summary, summary["boundary_rows"])
        lines.append(f"on the boundary {_some(rows, summary['rows'])}")
        if summary["boundary_pairs"]:
            lines.append(f"boundary pairs  {_boundary_pairs(summary)}")
    if summary["needed_features"] or summary["spare_features"]:
        needed, spare = (
            _feature_names(summary, summary[name]) for name in ("needed_features", "spare_features")
        )
        lines.append(f"needed features {_some(needed, summary['features'])}")
        lines.append(f"spare features  {_some(spare, summary['features'])}")
    lines.append(f"work            {summary['seconds']:.3f} s")
    say(*lines)
    console = Console(highlight=False, soft_wrap=True)
    if summary["estimates"]:
        console.print(_estimates_table(summary["estimates"]))
    if summary["class_pairs"] and summary["kind"] == "quasi-separable":
        console.print(_classes_table(summary["class_pairs"]))
    if summary["conflict"]:
        named = [[_row_names(summary, [row])[0], *more] for row, *more in summary["conflict"]]
        console.print(_conflict_table(named))


def _estimates_table(estimates: list[dict[str, str]]) -> Table:
    """What becomes of each coefficient; where they are many, those that are not finite first."""
    table = Table("class", "feature", "estimate", title="estimates", title_justify="left")
    shown = estimates
    if len(estimates) > ESTIMATES_SHOWN:
        shown = sorted(estimates, key=lambda row: row["estimate"] == "finite")[:ESTIMATES_SHOWN]
    for row in shown:
        table.add_row(*(cell(row[name]) for name in ("class", "feature", "estimate")))
    if len(estimates) > len(shown):
        table.add_row("…", "", f"{len(estimates) - len(shown)} more")
    return table


def _classes_table(pairs: list[dict[str, Any]]) -> Table:
    """Which classes separate from which, with how many of their examples are on the boundary."""
    title = "classes in the joint model"
    names = ("class", "and", "kind", "strict", "on the boundary")
    table = Table(*names, title=title, title_justify="left")
    for pair in pairs[:ROWS_SHOWN]:
        strict = "" if pair["strict"] is None else "{} and {}".format(*pair["strict"])
        on = "{} and {}".format(*pair["boundary"])
        table.add_row(*map(cell, (pair["first"], pair["second"], pair["kind"], strict, on)))
    if len(pairs) > ROWS_SHOWN:
        table.add_row("…", "", f"{len(pairs) - ROWS_SHOWN} more", "", "")
    return table


def _boundary_pairs(summary: dict[str, Any]) -> str:
    """How many pairs of an example and another class are on the boundary, and the first few."""
    pairs = summary["boundary_pairs"]
    shown = [
        f"{_row_names(summary, [row])[0]} ({label} against {against})"
        for row, label, against in pairs[:ROWS_SHOWN]
    ]
    counts = [n for pair in summary["class_pairs"] for n in pair["strict"] or ()]
    total = f" of {sum(counts) + len(pairs)}" if counts else ""
    more = ", …" if len(pairs) > ROWS_SHOWN else ""
    return f"{len(pairs)}{total}: {', '.join(shown)}{more}"


def _row_names(summary: dict[str, Any], rows: list[int]) -> list[Any]:
    """What to call rows: by name where the file has names, else by number, from 0."""
    names = summary["row_names"]
    return rows if names is None else [names[i] for i in rows]


def _feature_names(summary: dict[str, Any], features: list[int]) -> list[Any]:
    """What to call features: by name where the file has names, else by number, from 0."""
    names = summary["feature_names"]
    return features if names is None else [names[j] for j in features]


def _some(indices: list[Any], total: int) -> str:
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
        table.add_row(cell(row), cell(label), cell(against), f"{weight:.6g}")
    if len(conflict) > ROWS_SHOWN:
        table.add_row("…", "", "", f"{len(conflict) - ROWS_SHOWN} more")
    return table
