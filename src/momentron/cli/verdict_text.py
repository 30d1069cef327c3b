"""A verdict as `momentron check` prints it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from momentron.cli.output import cell, say_facts

ROWS_SHOWN = 10
ESTIMATES_SHOWN = 40


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
    conflict = sorted(summary["conflict"], key=lambda row: -row[3])
    title = f"conflict: {len(conflict)} rows whose weighted class averages coincide"
    rows = [[_named(summary, "row", [i])[0], a, b, f"{w:.6g}"] for i, a, b, w in conflict]
    _print_table(title, ("row", "class", "against", "weight"), rows)


def _facts(summary: dict[str, Any]) -> list[tuple[str, object]]:
    """What is to be said, by name; facts without a value are left out."""
    features, directed = summary["features"], summary["direction"]
    shown = ", ".join(f"{name} ({value:+.4g})" for name, value in directed[:ROWS_SHOWN])
    others = ", …" if len(directed) > ROWS_SHOWN else "; others 0"
    constant = ", ".join(summary["constant"][:ROWS_SHOWN])
    boundary = _named(summary, "row", summary["boundary_rows"])
    pairs = [
        f"{_named(summary, 'row', [row])[0]} ({label} against {against})"
        for row, label, against in summary["boundary_pairs"]
    ]
    strict = [n for pair in summary["class_pairs"] for n in pair["strict"] or ()]
    n_pairs = sum(strict) + len(pairs) if strict else None
    is_asked = summary["needed_features"] or summary["spare_features"]
    needed, spare = (
        _some(_named(summary, "feature", summary[f"{word}_features"]), features) if is_asked else ""
        for word in ("needed", "spare")
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
        ("on the boundary", _some(boundary, summary["rows"]) if is_quasi else ""),
        ("boundary pairs", _some(pairs, n_pairs) if pairs else ""),
        ("needed features", needed),
        ("spare features", spare),
        ("work", f"{summary['seconds']:.3f} s"),
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
