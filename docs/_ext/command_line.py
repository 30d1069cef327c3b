"""The page of the command line, from what the program itself declares."""

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

from momentron.cli import COMMANDS, load_command


def usage_lines(command: Any, context: Any) -> list[str]:
    """How the command is typed, as its help shows it."""
    usage = command.get_usage(context).removeprefix("Usage:").split()
    return ["```text", " ".join(usage), "```", ""]


def option_lines(command: Any, context: Any) -> list[str]:
    """The arguments and options of a command with their types, as a list of definitions."""
    lines = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        mark, _ = parameter.get_help_record(context)
        default = parameter.default
        is_plain = isinstance(default, (str, float, int)) and not isinstance(default, bool)
        told = as_code(" ".join((getattr(parameter, "help", None) or "").split()))
        rest = f" Default: `{default}`." if is_plain else ""
        lines += [
            f"`{mark}`",
            f": {told or 'No more is known.'}{rest}",
            "",
        ]
    return lines


def as_code(text: str) -> str:
    """Options in a text, such as --target, as code: else two hyphens would become a dash."""
    parts = re.split(r"(`[^`]*`)", text)  # what is code already stays
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "".join(parts)


def write(app: Any) -> None:
    """The commands with their options, as the program itself declares them."""
    lines = ["# Command line", "", "`momentron COMMAND --help` says the same on a terminal.", ""]
    for name in COMMANDS:
        command = load_command(name)
        context = command.make_context(f"momentron {name}", [], resilient_parsing=True)
        lines += [f"## momentron {name}", "", *usage_lines(command, context)]
        lines += [as_code(inspect.cleandoc(command.help or "")), ""]
        lines += option_lines(command, context)
    folder = Path(app.srcdir) / "reference" / "names"
    shutil.rmtree(folder, ignore_errors=True)  # pages of names that are gone, too
    folder.mkdir(parents=True)
    (folder / "command-line.md").write_text("\n".join(lines), "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write, priority=400)  # before autosummary writes its pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
