"""The page of a figure: its picture, its claims, and how long it took; every number computed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from paper.claims import verdict_of

TOO_SMALL = verdict_of(None)


def page(report: Mapping[str, Any], title: str, about: str, details: str = "") -> str:
    """Markdown, from what `claims.json` holds, and what a figure has to say beyond it."""
    name, claims = report["figure"], report["claims"]
    judged = [claim for claim in claims if claim["holds"] is not None]
    borne_out = sum(claim["holds"] for claim in judged)
    quick = " --quick" if report["quick"] else ""
    rows = [_row(claim) for claim in claims]
    versions = ", ".join(f"{library} {number}" for library, number in report["versions"].items())
    seed = "nothing is drawn at random" if report["seed"] is None else f"seed {report['seed']}"
    return "\n".join(
        [
            f"# {title}",
            "",
            f"![{title}]({name}.png)",
            "",
            f"`python -m paper {name}{quick}` wrote this page, the picture, the curves "
            f"(`{name}.csv`) and `claims.json` in {report['seconds']:.0f} s on "
            f"{report['cpus']} cores.",
            "",
            about,
            "",
            f"## {borne_out} of {len(judged)} claims are borne out{_open_words(claims)}",
            "",
            "| claim | where | measured | borne out |",
            "|---|---|---|---|",
            *rows,
            "",
            *([details, ""] if details else []),
            f"momentron {report['momentron']}; {versions}; {seed}.",
            "",
            f"Paper: {report['paper']}.",
            "",
        ]
    )


def measured_words(measured: Mapping[str, Any]) -> str:
    """The numbers in one line.

    >>> measured_words({"rows": 12665, "margin": 0.3641458, "kind": "overlapping"})
    'rows 12665; margin 0.36415; kind overlapping'
    """
    return "; ".join(f"{name} {_word(value)}" for name, value in measured.items())


def _open_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many claims are open, and why."""
    left = Counter(claim["verdict"] for claim in claims if claim["holds"] is None)
    small = left.pop(TOO_SMALL, 0)
    words = [f"{small} are not judged: this run is too small"] if small else []
    words += [f"{count} {word}" for word, count in left.items()]
    return "".join(f"; {word}" for word in words)


def _row(claim: Mapping[str, Any]) -> str:
    word = claim["verdict"]
    verdict = f"**{word}**" if claim["holds"] is False else word
    cells = (claim["claim"], claim["source"], measured_words(claim["measured"]), verdict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    return "none" if value is None else str(value)
