"""A verdict as `momentron check` prints it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from momentron.cli.output import cell, say

ROWS_SHOWN = 10
ESTIMATES_SHOWN = 40


def print_summary(summary: dict[str, Any]) -> None:
    """The verdict, one fact per line, and what there is of tables."""
    say(*_lines(summary))
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
    conflict = sorted(summary["conflict"], key=lambda row: -row[3])
    title = f"conflict: {len(conflict)} rows whose weighted class averages coincide"
    rows = [[_named(summary, "row", [i])[0], a, b, f"{w:.6g}"] for i, a, b, w in conflict]
    _print_table(title, ("row", "class", "against", "weight"), rows)


def _lines(summary: dict[str, Any]) -> list[str]:
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
        rows = _named(summary, "row", summary["boundary_rows"])
        lines.append(f"on the boundary {_some(rows, summary['rows'])}")
    if summary["boundary_pairs"]:
        counts = [n for pair in summary["class_pairs"] for n in pair["strict"] or ()]
        pairs = [
            f"{_named(summary, 'row', [row])[0]} ({label} against {against})"
            for row, label, against in summary["boundary_pairs"]
        ]
        lines.append(
            f"boundary pairs  {_some(pairs, sum(counts) + len(pairs) if counts else None)}"
        )
    if summary["needed_features"] or summary["spare_features"]:
        for word in ("needed", "spare"):
            names = _named(summary, "feature", summary[f"{word}_features"])
            lines.append(f"{f'{word} features':<15} {_some(names, summary['features'])}")
    return [*lines, f"work            {summary['seconds']:.3f} s"]


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


def _named(summary: dict[str, Any], noun: str, places: list[int]) -> list[Any]:
    """What to call rows or features: by name where the file has names, else by number, from 0."""
    names = summary[f"{noun}_names"]
    return places if names is None else [names[i] for i in places]


def _some(entries: Sequence[Any], total: int | None) -> str:
    """How many there are, and the first few of them."""
    if not entries:
        return f"none of {total}"
    of = "" if total is None else f" of {total}"
    shown = ", ".join(map(str, entries[:ROWS_SHOWN]))
    return f"{len(entries)}{of}: {shown}{', …' if len(entries) > ROWS_SHOWN else ''}"
