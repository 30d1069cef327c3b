"""A claim of the paper, the numbers measured, and whether they bear it out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

PAPER = (
    "Ziwei Ji, Nathan Srebro, Matus Telgarsky: Fast Margin Maximization via Dual Acceleration, "
    "ICML 2021"
)


@dataclass(frozen=True)
class Claim:
    """One sentence, and what became of it.

    Attributes
    ----------
    claim : str
        In the paper's words where they are precise enough to be measured.
    source : str
        Where the paper says so.
    measured : dict
        The numbers that decide.
    holds : bool or None
        Computed from them; None where the data are too small to judge.
    any_size : bool
        Whether fewer rows, iterations or seeds than the paper's can judge it: a theorem can be
        put to the test by any run, what a figure shows only by one of its size.
    word : str, optional
        What to call the outcome where yes, no and "not judged" would not do: "not testable".
    """

    claim: str
    source: str
    measured: dict[str, Any]
    holds: bool | None
    any_size: bool = False
    word: str | None = None

    @property
    def verdict(self) -> str:
        """ "yes", "no" or "not judged", or a word of its own."""
        return self.word or verdict_of(self.holds)

    def left_open(self) -> "Claim":
        """The same of a run too small to judge it."""
        return replace(self, holds=None, word=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, for JSON."""
        return {
            "claim": self.claim,
            "source": self.source,
            "measured": plain(self.measured),
            "holds": None if self.holds is None else bool(self.holds),
            "verdict": self.verdict,
        }


def verdict_of(holds: bool | None) -> str:
    """What became of a claim, in words."""
    return "not judged" if holds is None else "yes" if holds else "no"


def plain(value: Any) -> Any:
    """The value without numpy types; what is not a number becomes None, which JSON has a word for.

    >>> plain({"a": np.float64(0.5), "b": [np.int64(2), float("nan")]})
    {'a': 0.5, 'b': [2, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
