"""The command line on a terminal: progress, colour, version, help and completion."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from command_line import run

import momentron
from momentron.cli import COMMANDS, app, load_command
from momentron.cli.output import progress

NAMES = ["fit", "predict", "check", "verify", "race", "report", "info"]


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out == f"momentron {momentron.__version__}\n"


def test_info(capsys):
    code, out, _ = run(capsys, "info")
    assert code == 0
    for word in ("numpy", "processors", "data folder", "cache", "library"):
        assert word in out
    code, out, _ = run(capsys, "info", "--json")
    found = json.loads(out)
    assert found["versions"]["momentron"] == momentron.__version__
    assert found["blas"]


def test_help_lists_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in NAMES:
        assert f"\n  {command}" in out
    assert "momentron fit patients.csv" in out
    assert "..." not in out.partition("Commands:")[2]  # sentences that were cut
    assert "\x1b" not in out


@pytest.mark.parametrize("command", NAMES)
def test_help_shows_examples_that_parse(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    parser = load_command(command)
    for example in COMMANDS[command]:
        assert f"\n    {example}\n" in out
        _, name, *words = shlex.split(example)
        assert name == command
        parser.make_context(name, words)  # raises where an option is not known


def test_help_and_mistyped_arguments_need_no_heavy_imports():
    script = (
        "import sys; from momentron.cli import main\n"
        "for line in sys.argv[1:]:\n"
        "    try: main(line.split())\n"
        "    except SystemExit as end: print('code', end.code)\n"
        "print('heavy', {'scipy', 'pandas', 'sklearn', 'rich'} & {*sys.modules})"
    )
    path = "momentron: no.csv does not exist; check the path"
    said = {
        "fit no.csv": path,
        "fit --target y no.csv": path,
        "verify no.csv x": path,
        "report --nope": "momentron: No such option: --nope",
        "race --passes many": "momentron: Invalid value for '--passes'",
    }
    helped = ["--help", *(f"{name} --help" for name in NAMES)]
    command = [sys.executable, "-c", script, *helped, *said]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = [line for line in done.stdout.splitlines() if line.startswith(("code", "heavy"))]
    assert ended == ["code 0"] * len(helped) + ["code 2"] * len(said) + ["heavy set()"]
    for line, words in zip(done.stderr.splitlines(), said.values(), strict=True):
        assert line.startswith(words)


@pytest.mark.slow
def test_completion_names_commands_and_options():
    script = "import sys; sys.argv[0] = 'momentron'; from momentron.cli import main; main()"

    def complete(words):
        settings = {
            "_MOMENTRON_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    assert complete("momentron re") == ["report"]
    assert "--max-time" in complete("momentron report --ma")
    assert app.registered_commands


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    with progress("working") as tell:
        tell("still", 0.5)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals here")
@pytest.mark.parametrize("colour", [True, False])
def test_colour_is_for_terminals_that_want_it(colour):
    import pty

    leader, follower = pty.openpty()
    settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    settings |= {"TERM": "xterm-256color"} | ({} if colour else {"NO_COLOR": "1"})
    code = (
        "import time; from momentron.cli.output import progress\n"
        "with progress('working') as tell: tell('working\\x1b[2J', 0.25); time.sleep(0.6)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=follower, stderr=follower, env=settings
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    os.close(leader)
    assert rb"working\x1b[2J" in shown
    assert b"25%" in shown
    assert (b"\x1b[36m" in shown) == colour
