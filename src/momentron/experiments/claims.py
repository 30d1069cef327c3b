"""A claim of the paper, the numbers measured, and whether they bear it out."""

from dataclasses import dataclass
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
    holds : bool
        Computed from them.
    """

    claim: str
    source: str
    measured: dict[str, Any]
    holds: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, for JSON."""
        return {
            "claim": self.claim,
            "source": self.source,
            "measured": plain(self.measured),
            "holds": bool(self.holds),
        }


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
