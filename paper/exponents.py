"""Exponents of t by source and seed, and the statements that their intervals decide."""

from collections.abc import Mapping

import numpy as np

from paper.claims import Claim
from paper.estimates import Estimate, all_below, all_within, estimate, slope, words
from paper.findings import finding

Table = Mapping[str, np.ndarray]
"""Source → one number per seed."""

OPEN_PROBLEM = "Section 7, open problem"
NEAR = 0.25
"""An exponent is taken for −2, or −1, where its interval lies within so much of it."""
STEADY = 0.25
"""An exponent has settled that changes by less from one decade to the next."""


def decade_exponent(t: np.ndarray, distance: np.ndarray, last: float) -> float:
    """The slope of ln distance against ln t over the decade of t that ends at `last`."""
    used = (t >= last / 10.0) & (t <= last) & (distance > 0.0)
    return slope(np.log(t[used]), np.log(distance[used]))


def differences(first: Table, second: Table) -> Table:
    """Seed by seed, the first minus the second."""
    return {label: values - second[label] for label, values in first.items()}


def intervals(table: Table) -> dict[str, Estimate]:
    """The mean of each source, with intervals that hold together."""
    return {label: estimate(values, shared_by=len(table)) for label, values in table.items()}


def below(statement: str, table: Table, limit: float, source: str = OPEN_PROBLEM) -> Claim:
    """Is the exponent below a limit, whatever the source."""
    found = intervals(table)
    return finding(statement, source, words(found), all_below(found.values(), limit))


def near(statement: str, table: Table, value: float, source: str = OPEN_PROBLEM) -> Claim:
    """Is the exponent near a value, whatever the source."""
    found = intervals(table)
    return finding(
        f"{statement} The exponent is within {NEAR:g} of {value:g}.".replace("-", "−"),
        source,
        words(found),
        all_within(found.values(), value - NEAR, value + NEAR),
    )


def settled(last: np.ndarray, before: np.ndarray, t: int) -> Claim:
    """Is the exponent of long runs the same in the last decade and in the one before."""
    change = estimate(last - before)
    return finding(
        f"The exponent with momentum has settled: in runs of {t:,} iterations that of the last "
        f"decade and that of the one before differ by less than {STEADY:g}.",
        "beyond the paper",
        {"last decade": str(estimate(last)), "decade before": str(estimate(before))}
        | {"difference": str(change), "seeds": last.size},
        all_within([change], -STEADY, STEADY),
    )
