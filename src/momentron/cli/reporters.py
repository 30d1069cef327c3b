"""What is seen of a solve while it runs.

A live line on a terminal, a plain table where the output is piped, nothing where only JSON is
wanted.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.live import Live
from rich.text import Text

from momentron.cli.progress import LiveRow
from momentron.solvers.loop import Reporter
from momentron.streams import Stream
from momentron.views.reporting import PASS_HEADER, PassReporter, TableReporter


@contextmanager
def progress(tol: float, *, is_quiet: bool) -> Iterator[Reporter | None]:
    """The reporter of a solve in memory."""
    if is_quiet:
        yield None
        return
    console = Console()
    if not console.is_terminal:
        with TableReporter(sys.stdout) as table:
            yield table
        return
    with LiveRow(console, tol) as report:
        yield report


@contextmanager
def progress_of_passes(stream: Stream, *, is_quiet: bool) -> Iterator[Reporter | None]:
    """The same for data in blocks, whose passes may take minutes: the line moves within them."""
    if is_quiet:
        yield None
        return
    console = Console()
    if not console.is_terminal:
        print(PASS_HEADER)
        reporter = PassReporter(stream, partial(print, flush=True))
        yield reporter
        reporter.close()
        return
    with _live_line(console, PASS_HEADER) as show:
        reporter = PassReporter(stream, show, is_live=True, every=0.2)
        yield reporter
        reporter.close()


@contextmanager
def _live_line(console: Console, header: str) -> Iterator[Callable[[str], None]]:
    """A way to show a line below its header, in place of the last one."""
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda line: live.update(Text(f"{header}\n{line}", style="cyan"))
