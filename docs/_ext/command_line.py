"""The reference: a page for each public name and one for the command line, from the code."""

import inspect
import re
import shutil
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = {
    "momentron": "Everything most programs need.",
    "momentron.views.display": "Pictures of results, in scikit-learn's manner.",
    "momentron.separability": "What a verdict is made of.",
    "momentron.solvers": "The methods, and what a method of your own is made of.",
    "momentron.rows": "Rows in memory, and how to bring your own.",
    "momentron.rows.kernels": "Kernels with a name, and how to bring your own.",
    "momentron.dual.losses": "The losses that first-order methods follow.",
    "momentron.ntk": "Tangent kernels of networks.",
    "momentron.onnx": "Fitted classifiers as ONNX graphs.",
    "momentron.datasets": "Problems with known answers, and loaders of known sets.",
}


def modules() -> list[ModuleType]:
    """Those of the modules above that there are, and that name what is public in them."""
    found = []
    for name in MODULES:
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        if hasattr(module, "__all__"):
            found.append(module)
    return found


def public_names(module: ModuleType) -> list[str]:
    """The public names of a module that are not at the top of the package as well."""
    top = import_module("momentron")
    is_top = module is top
    return [n for n in module.__all__ if is_top or getattr(module, n) is not getattr(top, n, None)]


def first_line(thing: Any) -> str:
    """What a thing is, in its own words."""
    return (inspect.getdoc(thing) or "").strip().split("\n\n")[0].replace("\n", " ")


def directive(thing: Any) -> str:
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction"


def page_of(module: ModuleType, name: str) -> str:
    """The page of one name, which autodoc fills in."""
    thing = getattr(module, name)
    head = (
        f"{name}\n{'=' * len(name)}\n\n``{module.__name__}.{name}``\n\n"
        f".. currentmodule:: {module.__name__}\n\n"
    )
    if callable(thing):
        return f"{head}.. {directive(thing)}:: {name}\n{inherited(thing)}"
    return f"{head}.. py:data:: {name}\n\n   {contents_of(thing)}\n"


SCORE = """\
   .. py:method:: score(X, y, sample_weight=None)

      The share of the rows that get their label, as scikit-learn counts it.
"""


def inherited(thing: Any) -> str:
    """Directives for what a class has from bases without a page, and for its `__call__`.

    What a base with a page has is told there.
    """
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return ""
    own = [base for base in thing.__mro__ if base.__module__.startswith("momentron.")]
    if any(base.__module__.startswith("momentron.rows.kernels.") for base in own):
        return ""  # bases that compute values, for nobody to call
    told = {name for base in own if base in pages() for name in vars(base) if name != "__call__"}
    told |= {"get_metadata_routing"}  # scikit-learn's own
    lines = []
    for name in sorted({name for base in own for name in vars(base)} - told):
        member = inspect.getattr_static(thing, name)
        kind = "autoproperty" if isinstance(member, property | cached_property) else "automethod"
        is_public = name == "__call__" or not name.startswith("_")
        is_told = kind == "autoproperty" or inspect.isroutine(getattr(thing, name))
        if is_public and is_told and inspect.getdoc(getattr(thing, name)):
            lines.append(f"   .. {kind}:: {name}\n")
    if hasattr(thing, "score") and not any("score" in vars(base) for base in own):
        lines.append(SCORE)
    return "\n".join(["", *lines]) if lines else ""


def pages() -> set[type]:
    """The classes that have a page."""
    things = (getattr(module, name) for module in modules() for name in module.__all__)
    return {thing for thing in things if inspect.isclass(thing)}


def contents_of(thing: Any) -> str:
    """What a public table or tuple holds."""
    return "Holds " + ", ".join(f"``{key!r}``" for key in thing) + "."


def write_names(folder: Path) -> None:
    """A page for each name, and for each module a list that leads there."""
    for module in modules():
        word = module.__name__
        inside = folder / word
        inside.mkdir()
        rows = [".. list-table::", "   :widths: 30 70", ""]
        for name in public_names(module):
            thing = getattr(module, name)
            (inside / f"{name}.rst").write_text(page_of(module, name), "utf-8")
            told = first_line(thing) if callable(thing) else contents_of(thing)
            rows += [f"   * - :doc:`{name} </reference/names/{word}/{name}>`", f"     - {told}"]
        hidden = "\n".join(f"   {word}/{name}" for name in public_names(module))
        head = f"{word}\n{'=' * len(word)}\n\n{MODULES[word]}\n\n"
        tree = f".. toctree::\n   :hidden:\n\n{hidden}\n"
        (folder / f"{word}.rst").write_text(head + "\n".join(rows) + f"\n\n{tree}", "utf-8")


def option_lines(command: Any) -> list[str]:
    """The arguments and options of a command, as a list of definitions."""
    lines = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts]
        marks = names if is_option else [parameter.name.upper()]
        default = parameter.default
        is_plain = isinstance(default, (str, float, int)) and not isinstance(default, bool)
        told = as_code(" ".join((getattr(parameter, "help", None) or "").split()))
        rest = f" Default: `{default}`." if is_plain else ""
        lines += [
            ", ".join(f"`{mark}`" for mark in marks),
            f": {told or 'No more is known.'}{rest}",
            "",
        ]
    return lines


def as_code(text: str) -> str:
    """Options in a text, such as --target, as code: else two hyphens would become a dash."""
    parts = re.split(r"(`[^`]*`)", text)  # what is code already stays
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "".join(parts)


def write_commands(folder: Path) -> None:
    """The commands with their options, as the program itself declares them."""
    from momentron.cli import COMMANDS, load_command

    lines = ["# Command line", "", "`momentron COMMAND --help` says the same on a terminal.", ""]
    for name in COMMANDS:
        command = load_command(name)
        lines += [f"## momentron {name}", "", as_code(inspect.cleandoc(command.help or "")), ""]
        lines += option_lines(command)
    (folder / "command-line.md").write_text("\n".join(lines), "utf-8")


def write(app: Any) -> None:
    folder = Path(app.srcdir) / "reference" / "names"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_names(folder)
    write_commands(folder)


def escape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write |t| and coef_ as they are; in reStructuredText both would be links."""
    is_formula = False
    for place, line in enumerate(lines):
        if line.strip():
            is_formula = ".. math::" in line or (is_formula and line.startswith(" "))
        if not is_formula and not line.lstrip().startswith(("..", ">>>")):
            parts = re.split(r"(`+[^`]*`+|^\s*:[^:]*:)", line)  # literals and fields stay
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[place] = "".join(parts)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", escape)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
