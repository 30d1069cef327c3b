"""Code blocks of Markdown pages: found, run in order in one namespace, their output compared.

    python -m tests.docs_blocks README.md docs/get-started.md

writes the output that was seen into the pages. A page is a program: its ```python blocks share a
namespace and an empty working directory; a ```text block that follows one shows what it prints,
with the value of its last expression, as in a notebook. In ```console and ```sh blocks the
`momentron` commands run. A comment `<!-- not run: reason -->` before a block leaves it out, but its
commands must parse. `...` stands for any text, and numbers agree up to their last digit shown.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from momentron.cli import load_command, main

ROOT = Path(__file__).parent.parent
CODE = {"python", "console", "sh"}
SHOWN = {"text", "toml", "json", "bibtex", "math", "yaml", "html", "toctree"}
NUMBER = re.compile(
    r"(?<![\w.])[-−+]?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)(?![\d.]*\.\.\.|\w)"
)  # not whole numbers, which must be equal; not 0.76..., whose digits are
EXTRAS = ("torch", "dask", "distributed", "pandas", "pyarrow", "matplotlib")
EXTRAS += ("formulaic", "statsmodels", "firthmodels")
HARMLESS = re.compile(
    r"(git|cd|pytest|pre-commit|ruff|mypy|twine|conda|python -m (build|sphinx|http|venv|tests\.))\b"
)


@dataclass
class Block:
    """A fenced block: its language, its text, and the lines between which it stands."""

    language: str
    text: str
    start: int
    end: int
    reason: str | None = None
    output: "Block | None" = field(default=None, repr=False)

    @property
    def is_run(self) -> bool:
        return self.language in CODE and self.reason is None


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page; a block of text right after a block of code is its output."""
    blocks: list[Block] = []
    lines = text.split("\n")
    reason, at = None, 0
    while at < len(lines):
        opening = re.match(r"(```+|:::+)\s*(\{?[\w-]*\}?)", lines[at])
        note = re.match(r"<!-- not run: (.+?) -->", lines[at])
        if note:
            reason = note[1]
        elif opening and opening[1].startswith("`"):
            end = lines.index(opening[1], at + 1)
            block = Block(opening[2].strip("{}"), "\n".join(lines[at + 1 : end]), at, end, reason)
            last = blocks[-1] if blocks else None
            gap = lines[last.end + 1 : at] if last else ["?"]
            if last and block.language == "text" and last.language in CODE and not any(gap):
                last.output = block
            else:
                blocks.append(block)
            reason, at = None, end
        elif lines[at].strip():
            reason = None
        at += 1
    return blocks


def missing_extras(blocks: list[Block]) -> list[str]:
    """Packages that a page imports, or a command of it needs, and that are not installed."""
    code = "\n".join(block.text for block in blocks if block.is_run)
    wanted = set(re.findall(r"^(?:>>> )?(?:import|from) (\w+)", code, re.MULTILINE))
    return [name for name in EXTRAS if name in wanted and find_spec(name) is None]


def agrees(wanted: str, got: str) -> bool:
    """Whether an output is as the page shows it: `...` is any text, last digits may differ."""
    numbers = NUMBER.findall(wanted)
    parts = [pattern_of(part) for part in NUMBER.split(wanted)]
    found = re.fullmatch(f"({NUMBER.pattern})".join(parts), got.strip(), re.DOTALL)
    return found is not None and all(map(is_close, numbers, found.groups()))


def pattern_of(text: str) -> str:
    """A regular expression for text without numbers, in which `...` is anything."""
    words = re.split(r"(\.\.\.|\s+)", text)
    known = {"...": ".*?"}
    return "".join(r"\s+" if w.isspace() else known.get(w, re.escape(w)) for w in words)


def is_close(shown: str, seen: str) -> bool:
    """Whether a number is the one shown, up to one unit of the last digit that is shown."""
    mantissa, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    one, other = (float(number.replace("−", "-")) for number in (shown, seen))
    return abs(one - other) <= 1.01 * unit


class Session:
    """One page as a program: a namespace, and what the last command ended with."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.code = 0

    def python(self, text: str) -> str:
        """Run a block; what it prints, and the value of its last expression if that is not None."""
        tree = ast.parse(text)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with captured() as out:
            exec(compile(tree, "<page>", "exec"), self.names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<page>", "eval"), self.names)
                if value is not None:
                    print(repr(value))
        return out.getvalue().rstrip()

    def command(self, line: str) -> str:
        """Run one line of a shell: our own commands only; others are checked for what they name."""
        if line.strip() == "echo $?":
            return str(self.code)
        seen = []
        for part in line.split(" && "):
            words = shlex.split(part, comments=True)
            if words[0] == "momentron":
                seen.append(self.momentron(words[1:]))
            else:
                require_sane(part)
        return "\n".join(seen)

    def momentron(self, words: list[str]) -> str:
        """Run a command of ours; what it prints."""
        with captured() as out:
            try:
                main(words)
            except SystemExit as end:
                self.code = int(end.code or 0)
        if self.code == 2:
            raise AssertionError(f"momentron {words} was refused: {out.getvalue()}")
        return out.getvalue().rstrip()


@contextlib.contextmanager
def captured() -> Any:
    """Standard output and standard error in one text."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield out


def require_sane(command: str) -> None:
    """Of commands that are not ours: extras, modules and programs that they name must exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if command.startswith("pip install"):
        for extras in re.findall(r"\[([\w,-]+)\]", command):
            unknown = set(extras.split(",")) - set(project["optional-dependencies"])
            assert not unknown, f"{command}: no extra {sorted(unknown)}"
    elif module := re.match(r"python -m ((?:benchmarks|paper)[\w.]*)", command):
        assert (ROOT / module[1].replace(".", "/")).exists() or (
            ROOT / (module[1].replace(".", "/") + ".py")
        ).is_file(), f"{command}: no such module"
    elif script := re.match(r"python ([\w/]+\.py)", command):
        assert (ROOT / script[1]).is_file(), f"{command}: no such file"
    else:
        assert HARMLESS.match(command), f"nothing is known of the command {command!r}"


def require_parses(line: str) -> None:
    """A command that is not run must still be one: its name and its options exist."""
    words = shlex.split(line, comments=True)
    if words[:1] != ["momentron"]:
        require_sane(line)
        return
    command = load_command(words[1])
    known = {mark for p in command.params for mark in [*p.opts, *p.secondary_opts]} | {"--help"}
    unknown = [
        word for word in words[2:] if word.startswith("--") and word.split("=")[0] not in known
    ]
    assert not unknown, f"{line}: no option {unknown}"


def commands_of(block: Block) -> list[tuple[str, str | None]]:
    """Lines of a shell with the output that the page shows; None where it shows none."""
    if block.language == "sh":
        lines = [line for line in block.text.replace("\\\n", " ").split("\n") if line.strip()]
        lines = [line for line in lines if not line.startswith("#")]
        return [(line, None) for line in lines]
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    pairs = [part.partition("\n") for part in parts]
    return [(line, shown.rstrip("\n")) for line, _, shown in pairs]


def run_block(session: Session, block: Block) -> list[tuple[str, str]]:
    """Pairs of what the page shows and what was seen, for each part that shows something."""
    if block.language == "python" and ">>>" in block.text:
        return run_doctest(session, block)
    if block.language == "python":
        got = session.python(block.text)
        return [(block.output.text, got)] if block.output else []
    pairs, last = [], ""
    for line, shown in commands_of(block):
        last = session.command(line)
        if shown is not None:
            pairs.append((shown, last))
    return [*pairs, (block.output.text, last)] if block.output else pairs


def run_doctest(session: Session, block: Block) -> list[tuple[str, str]]:
    examples = doctest.DocTestParser().get_examples(block.text + "\n")
    return [(e.want.rstrip("\n"), session.python(e.source)) for e in examples]


def updated(block: Block, pairs: list[tuple[str, str]], lines: list[str]) -> None:
    """Write what was seen into the lines of the page, where that is not what it shows."""
    if block.output and not agrees(*pairs[-1]):
        lines[block.output.start + 1 : block.output.end] = [pairs[-1][1]]
    elif block.language == "console" and not all(agrees(*pair) for pair in pairs):
        shown = [
            f"$ {line}\n{got}".rstrip()
            for (line, _), (_, got) in zip(commands_of(block), pairs, strict=True)
        ]
        lines[block.start + 1 : block.end] = ["\n".join(shown)]


def update(path: Path) -> None:
    """Run a page and write the outputs seen into it."""
    text = path.read_text("utf-8")
    lines = text.split("\n")
    session, work = Session(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks_of(text):
            if block.is_run:
                work.append((block, run_block(session, block)))
    for block, pairs in reversed(work):
        updated(block, pairs, lines)
    path.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "88"
    for name in sys.argv[1:]:
        update(Path(name).resolve())
