"""The pictures of the page of benchmarks, drawn from the tables on that page.

    python -m benchmarks.chart docs/benchmarks.md

writes `benchmarks.png`, a dot for each row with a ratio of times, and `growth.png` next to the
page, and prints the geometric mean of the ratios in each section.
"""

import argparse
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.growth import Growth, draw
from momentron.views.display.style import BLUE, INK, VERMILLION, saved_figure

Table = dict[str, list[str]]  # cells by the title of their column
RATIOS = "ratio", "peers / ours"
LEAST, MOST = 0.03, 40.0  # ratios beyond are drawn at the ends


def tables_of(text: str) -> list[tuple[str, Table]]:
    """Every table of a page, with the heading that it stands under."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        for block in re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE):
            lines = [line.strip("| ").split("|") for line in block.splitlines()]
            titles, _, *rows = [[cell.strip() for cell in line] for line in lines]
            columns = [[row[j] if j < len(row) else "" for row in rows] for j in range(len(titles))]
            found.append((heading, dict(zip(titles, columns, strict=True))))
    return found


def ratios_of(table: Table) -> list[float]:
    """Time of the fastest peer over ours, for each row that has one."""
    cells = next((table[title] for title in RATIOS if title in table), [])
    numbers = [[float(n) for n in re.findall(r"\d+(?:\.\d+)?", cell)] for cell in cells]
    return [min(row) for row in numbers if row]


def draw_ratios(found: dict[str, list[float]]) -> Any:
    """A line of dots for each question, on a log axis."""
    figure, axes = saved_figure(size=(8.6, 0.9 + 0.5 * len(found)))
    rng = np.random.default_rng(0)
    for place, ratios in enumerate(found.values()):
        wins = sum(ratio > 1.0 for ratio in ratios)
        height = place + rng.uniform(-0.16, 0.16, len(ratios))
        colours = [BLUE if ratio > 1.0 else VERMILLION for ratio in ratios]
        axes.scatter(np.clip(ratios, LEAST, MOST), height, c=colours, s=30, alpha=0.75, linewidth=0)
        axes.text(1.02, place, f"{wins} of {len(ratios)}", transform=axes.get_yaxis_transform())
    axes.axvline(1.0, color=INK, linewidth=1.0)
    axes.set(xscale="log", xlim=(0.8 * LEAST, 1.25 * MOST))
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xticks([0.1, 1.0, 10.0], ["ten times slower", "as fast", "ten times faster"])
    axes.text(1.02, 1.03, "faster", transform=axes.transAxes)
    axes.set_title("momentron against the fastest peer on each problem")
    return figure


def growths_of(tables: list[tuple[str, Table]]) -> list[Growth]:
    """Tables of seconds against n and against d."""
    found = []
    for _, table in tables:
        axis = next(iter(table))
        if axis not in ("n", "d") or "momentron" not in table:
            continue
        rows = [j for j, size in enumerate(table[axis]) if not size.startswith("exponent")]
        sizes = tuple(int(table[axis][j].replace(",", "")) for j in rows)
        names = [name for name in table if name != axis]
        seconds = {name: [_number(table[name][j]) for j in rows] for name in names}
        found.append(Growth(axis, sizes, seconds))
    return found


def _number(cell: str) -> float:
    return math.nan if cell == "–" else float(cell)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    tables = tables_of(page.read_text("utf-8"))
    ratios: dict[str, list[float]] = {}
    for heading, table in tables:
        if found := ratios_of(table):
            ratios.setdefault(heading, []).extend(found)
    for heading, found in ratios.items():
        print(
            f"{heading}: {len(found)} ratios, geometric mean {np.exp(np.mean(np.log(found))):.2f}"
        )
    for name, figure in (("benchmarks", draw_ratios(ratios)), ("growth", draw(growths_of(tables)))):
        figure.savefig(page.with_name(f"{name}.png"), dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
