"""The table of a page: rows of one model and number of examples take the place of older ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

BEGIN, END = "<!-- tangent kernels -->", "<!-- end of tangent kernels -->"
HEAD = [
    "| model | n | way | s | CPU s | MB | × ours, s | × ours, CPU s |",
    "|---|---|---|---|---|---|---|---|",
]


def write(path: Path, model: str, n: int, rows: Sequence[Sequence[str]]) -> None:
    """Put rows into the table between the two marks of a page."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    if not rest or not after:
        raise SystemExit(f"{path} has no table between {BEGIN} and {END}")
    new = [_line(model, f"{n:,}", *row) for row in rows]
    start = _line(model, f"{n:,}", "").rstrip("| ")
    kept = [line for line in old.splitlines() if line.startswith("| ") and line not in HEAD]
    kept = [line for line in kept if not line.startswith(start)] + new
    kept.sort(key=lambda line: _place(line))  # stable: the rows of one model keep their order
    table = "\n".join(["", *HEAD, *kept, ""])
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _place(line: str) -> tuple[int, str]:
    model, n = (cell.strip() for cell in line.split("|")[1:3])
    return int(n.replace(",", "")), model
