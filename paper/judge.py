"""How a run is judged: claims, findings, confidence intervals, and the page that shows them.

A claim of the paper is confirmed or not. A finding answers a question that the paper leaves open;
it may also be undecided after a run of full size, where its intervals reach over the limit.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

PAPER = (
    "Ziwei Ji, Nathan Srebro, Matus Telgarsky: Fast Margin Maximization via Dual Acceleration, "
    "ICML 2021"
)


@dataclass(frozen=True)
class Claim:
    """One sentence, and what became of it."""

    claim: str  # in the paper's words where they are precise enough to be measured
    source: str  # where the paper says so
    measured: dict[str, Any]  # the numbers that decide
    holds: bool | None  # computed from them; None where the data are too small to judge
    # whether fewer rows, iterations or seeds than the paper's can judge it: a theorem can be put to
    # the test by any run, what a figure shows only by one of its size
    any_size: bool = False
    # what to call the outcome where yes, no and "not judged" would not do: "not testable"
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


FOUND, NOT_FOUND, UNDECIDED = "found", "not found", "undecided"


def finding(
    statement: str,
    source: str,
    measured: Mapping[str, Any],
    holds: bool | None,
    *,
    any_size: bool = False,
) -> Claim:
    """A statement that confidence intervals decide; None where they do not."""
    word = UNDECIDED if holds is None else FOUND if holds else NOT_FOUND
    return Claim(statement, source, dict(measured), holds, any_size, word)


CONFIDENCE = 0.95
"""Of all the intervals that one finding rests on, together."""


@dataclass(frozen=True)
class Estimate:
    """A mean, and the interval that holds the true one with the confidence asked for."""

    mean: float
    low: float
    high: float

    def mapped(self, function: Callable[[float], float]) -> "Estimate":
        """In other units, by a rising function: of a logarithm, exp."""
        return Estimate(function(self.mean), function(self.low), function(self.high))

    def __str__(self) -> str:
        return f"{_word(self.mean)} ({_word(self.low)} to {_word(self.high)})"


def estimate(
    values: np.ndarray, *, shared_by: int = 1, overlap: float = 0.0, confidence: float = CONFIDENCE
) -> Estimate:
    """Student's interval of a mean.

    Parameters
    ----------
    values : ndarray
        One number per independent repetition; one alone gives an interval without ends.
    shared_by : int
        So many intervals are to hold together: each errs with a share of the allowance
        (Bonferroni).
    overlap : float
        For repetitions that split the same rows again: rows tested over rows trained on, by which
        Nadeau and Bengio (2003) widen the interval, since the splits share rows.
    confidence : float

    Examples
    --------
    >>> print(estimate(np.array([1.0, 2.0, 3.0])))
    2.00 (−0.48 to 4.48)
    """
    n, mean = values.size, float(values.mean())
    if n < 2:
        return Estimate(mean, -math.inf, math.inf)
    tail = (1.0 - confidence) / (2.0 * shared_by)
    spread = float(values.std(ddof=1)) * math.sqrt(1.0 / n + overlap)
    reach = float(stdtrit(n - 1, 1.0 - tail)) * spread
    return Estimate(mean, mean - reach, mean + reach)


def words(estimates: Mapping[str, Estimate]) -> dict[str, str]:
    """For a page, where labels end in numbers themselves."""
    return {f"{label}:": str(each) for label, each in estimates.items()}


def all_below(estimates: Iterable[Estimate], limit: float) -> bool | None:
    """True where every interval lies below the limit, False where one lies above it, else None."""
    return all_within(estimates, -math.inf, limit)


def all_within(estimates: Iterable[Estimate], low: float, high: float) -> bool | None:
    """True where every interval lies inside the range, False where one lies outside, else None."""
    found = list(estimates)
    if all(low < each.low and each.high < high for each in found):
        return True
    return False if any(each.low > high or each.high < low for each in found) else None


def since(behind: np.ndarray) -> int | None:
    """The first place from which on nothing is behind; None where the last place is.

    >>> since(np.array([False, True, False])), since(np.array([True]))
    (2, None)
    """
    places = np.flatnonzero(behind)
    first = int(places[-1]) + 1 if places.size else 0
    return first if first < behind.size else None


def _word(value: float) -> str:
    """Two digits after the point, and the true minus."""
    return f"{value:.2f}".replace("-", "−")


Table = Mapping[str, np.ndarray]
"""Source → one number per seed."""

OPEN_PROBLEM = "Section 7, open problem"
NEAR = 0.25
"""An exponent is taken for −2, or −1, where its interval lies within this much of it."""
STEADY = 0.25
"""An exponent has settled that changes by less from one decade to the next."""


def decade_exponent(t: np.ndarray, distance: np.ndarray, last: float) -> float:
    """The slope of ln distance against ln t over the decade of t that ends at `last`.

    Not a number where fewer than two distances are above 0.
    """
    used = (t >= last / 10.0) & (t <= last) & (distance > 0.0)
    if used.sum() < 2:
        return math.nan
    return float(np.polyfit(np.log(t[used]), np.log(distance[used]), 1)[0])


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


TOO_SMALL = verdict_of(None)


def page(report: Mapping[str, Any], title: str, about: str, details: str = "") -> str:
    """Markdown, from what `claims.json` holds, and what a figure has to say beyond it."""
    name, claims = report["figure"], report["claims"]
    quick = " --quick" if report["quick"] else ""
    versions = ", ".join(f"{library} {number}" for library, number in report["versions"].items())
    seed = "nothing is drawn at random" if report["seed"] is None else f"seed {report['seed']}"
    return "\n".join(
        [
            f"# {title}",
            "",
            f"![{title}]({name}.png)",
            "",
            f"`python -m paper {name}{quick}` writes this page, the picture, the curves "
            f"(`{name}.csv`) and `claims.json` to `figures/{name}`. This run took "
            f"{report['seconds']:.0f} s on {report['cpus']} cores.",
            "",
            about,
            "",
            f"## {counted(claims)}",
            "",
            *markdown_table([_row(claim) for claim in claims]),
            "",
            *([details, ""] if details else []),
            f"momentron {report['momentron']}; {versions}; {seed}.",
            "",
            f"Paper: {report['paper']}.",
            "",
        ]
    )


def measured_words(measured: Mapping[str, Any], between: str = "; ") -> str:
    """The numbers in one line, or with a line break between them.

    >>> measured_words({"rows": 12665, "margin": 0.3641458, "kind": "overlapping"})
    'rows 12665; margin 0.36415; kind overlapping'
    """
    return between.join(f"{name} {_cell_word(value)}" for name, value in measured.items())


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many of all claims are confirmed, and what became of the others.

    >>> counted([{"holds": True, "verdict": "yes"}, {"holds": None, "verdict": "not testable"}])
    '1 of 2 claims is confirmed; 1 not testable'
    """
    confirmed = sum(claim["holds"] is True for claim in claims)
    others = Counter(claim["verdict"] for claim in claims if claim["holds"] is not True)
    names = {"no": "not confirmed", TOO_SMALL: "not judged: this run is too small"}
    words = [f"{count} {names.get(word, word)}" for word, count in others.items()]
    verb = "is" if confirmed == 1 else "are"
    return "; ".join([f"{confirmed} of {len(claims)} claims {verb} confirmed", *words])


def _row(claim: Mapping[str, Any]) -> dict[str, str]:
    word = claim["verdict"]
    return {
        "claim": claim["claim"],
        "where": claim["source"],
        "measured": measured_words(claim["measured"], "<br>"),
        "confirmed": f"**{word}**" if word == "no" else word,
    }


def markdown_table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The lines of a table; its titles are the keys of the rows.

    >>> markdown_table([{"a": "1", "b": "x|y"}])
    ['| a | b |', '|---|---|', '| 1 | x\\\\|y |']
    """
    titles = list(rows[0])
    cells = [[cell.replace("|", "\\|") for cell in row.values()] for row in rows]
    lines = [f"| {' | '.join(line)} |" for line in (titles, *cells)]
    return [lines[0], "|---" * len(titles) + "|", *lines[1:]]


def _cell_word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    return "none" if value is None else str(value)
