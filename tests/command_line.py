"""Commands in this process: how they end, and what they print."""

from typing import NamedTuple

import pytest

from momentron.cli import main


class Ended(NamedTuple):
    """The exit code of a command, its standard output and its standard error."""

    code: int
    out: str
    err: str


def run(capsys, *words) -> Ended:
    """Run `momentron` with these words."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    return Ended(int(ended.value.code or 0), printed.out, printed.err)
