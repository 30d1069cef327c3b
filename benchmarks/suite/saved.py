"""Rows of the suite that were run already: one line of JSON per problem, so that a run goes on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.suite.turns import Entry, ProblemResult
from momentron.errors import InputError


def append_result(path: Path, result: ProblemResult) -> None:
    """Add a row; NaN and infinity are written as Python's json does."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def read_results(path: Path) -> dict[str, ProblemResult]:
    """The rows of a file by problem, the last of each; none where there is no file."""
    if not path.exists():
        return {}
    results = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            entries = tuple(
                Entry(**(entry | {"runs": tuple(entry["runs"])})) for entry in fields["entries"]
            )
            result = ProblemResult(**(fields | {"entries": entries}))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path}, line {number}: no row of the suite ({error}); delete that line"
            ) from None
        results[result.name] = result
    return results
