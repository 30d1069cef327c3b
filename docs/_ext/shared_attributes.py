"""Attributes that share a line of a docstring, `lower, upper : float`, each with a line of its own.

Napoleon splits such lines among parameters, but not among attributes. And it takes what stands
before a colon in the first line of a property for its type; here it is part of a sentence.
"""

import re
from typing import Any

COLON = "\ue000"  # stands for a colon while napoleon reads
LINE = re.compile(r"(\w+(?:, \w+)+) : (.+)")


def split(lines: list[str]) -> list[str]:
    """The same docstring; names that shared a description have a copy of it each."""
    found: list[str] = []
    is_inside, place = False, 0
    while place < len(lines):
        line = lines[place]
        if place + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[place + 1].strip()):
            is_inside = line.strip() == "Attributes"
        match = LINE.fullmatch(line) if is_inside else None
        place += 1
        if match is None:
            found.append(line)
            continue
        description = []
        while place < len(lines) and (not lines[place] or lines[place].startswith(" ")):
            description.append(lines[place])
            place += 1
        for name in match[1].split(", "):
            found += [f"{name} : {match[2]}", *description]
    return found


def on_docstring(
    app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = split(lines)
    if kind == "property" and lines:
        lines[0] = lines[0].replace(":", COLON)


def on_end(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line.replace(COLON, ":") for line in lines]


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", on_docstring, priority=400)  # before napoleon's
    app.connect("autodoc-process-docstring", on_end, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
