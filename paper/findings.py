"""Questions that the paper leaves open: statements that a run finds, does not find, or leaves open.

A claim of the paper is borne out or not; a finding may also be undecided after a run of full size,
where its intervals of confidence reach over the limit.
"""

from collections.abc import Mapping
from typing import Any

from paper.claims import Claim

FOUND, NOT_FOUND, UNDECIDED = "found", "not found", "undecided"


def finding(
    statement: str,
    source: str,
    measured: Mapping[str, Any],
    holds: bool | None,
    *,
    any_size: bool = False,
) -> Claim:
    """A statement that intervals of confidence decide; None where they do not."""
    word = UNDECIDED if holds is None else FOUND if holds else NOT_FOUND
    return Claim(statement, source, dict(measured), holds, any_size, word)
