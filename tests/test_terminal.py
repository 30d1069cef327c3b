"""The command line on a terminal: progress, colour, version, help and completion."""

import json
import os
import shlex
import subprocess
import sys

import pytest
import typer
from command_line import run
from rich.console import Console

import momentron
from momentron.cli import app
from momentron.cli.examples import EXAMPLES
from momentron.cli.progress import LiveRow, Progress, TimeLeft, clock
from momentron.views.trace import Row

COMMANDS = ["fit", "predict", "check", "verify", "race", "report", "info"]


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
    for command in COMMANDS:
        assert f"\n  {command}" in out
    assert "momentron fit patients.csv" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_that_parse(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    parser = typer.main.get_command(app).commands[command]
    for example in EXAMPLES[command]:
        assert f"\n    {example}\n" in out
        _, name, *words = shlex.split(example)
        assert name == command
        parser.make_context(name, words)  # raises where an option is not known


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
    with Progress("working") as progress:
        progress.update("still", 0.5)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_a_line_of_progress():
    progress = Progress("deciding", max_time=60.0)
    assert progress.line(10.0) == "deciding  10 s  at most 50 s left"
    progress.update("fitting\x1b[2J", share=0.25)
    line = progress.line(10.0)
    assert r"fitting\x1b[2J" in line
    assert "25%" in line
    assert "30 s left" in line
    progress.update(share=0.01)
    assert "50 s left" in progress.line(10.0)  # never more than the budget has
    assert Progress("deciding").line(75.0) == "deciding  1:15"


def test_time_left_follows_the_gap():
    left = TimeLeft(1e-6)
    rows = [Row(k, float(k), k, 0.5, 1.0 - 10.0**-k, 1.0) for k in range(1, 5)]
    assert left(rows[0]) is None
    assert left(rows[1]) == pytest.approx(4.0)  # a digit per second, and four digits to go
    assert left(rows[3]) == pytest.approx(2.0)
    assert left(Row(5, 5.0, 5, 0.5, 0.0, 1.0)) is None


def test_rows_on_a_terminal():
    live = LiveRow(Console(force_terminal=True), 1e-6)
    assert live.lines(1.0) == ""
    assert live.lines(65.0) == "preparing the first iteration  1:05"
    live(Row(1, 1.0, 1, 0.5, 0.9, 1.0))
    live(Row(2, 2.0, 2, 0.5, 0.99, 1.0))
    assert live.lines(2.0).endswith("about 4 s left")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals here")
@pytest.mark.parametrize("colour", [True, False])
def test_colour_is_for_terminals_that_want_it(colour):
    import pty

    leader, follower = pty.openpty()
    settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    settings |= {"TERM": "xterm-256color"} | ({} if colour else {"NO_COLOR": "1"})
    code = (
        "import momentron.cli.progress as p, time; p.PATIENCE = 0.0\n"
        "with p.Progress('working'): time.sleep(0.6)"
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
    assert b"working" in shown
    assert (b"\x1b[36m" in shown) == colour


def test_clock():
    assert [clock(s) for s in (0.4, 59.4, 60.0, 3600.0)] == ["0 s", "59 s", "1:00", "1:00:00"]
