"""The page of a figure: its picture, its claims, and how long it took; every number computed."""

from collections.abc import Mapping
from typing import Any


def page(report: Mapping[str, Any], title: str, about: str) -> str:
    """Markdown, from what `claims.json` holds."""
    name, claims = report["figure"], report["claims"]
    borne_out = sum(claim["holds"] for claim in claims)
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
            f"`momentron reproduce {name}{quick}` wrote this page, the picture, the curves "
            f"(`{name}.csv`) and `claims.json` in {report['seconds']:.0f} s on "
            f"{report['cpus']} cores.",
            "",
            about,
            "",
            f"## {borne_out} of {len(claims)} claims are borne out",
            "",
            "| claim | where | measured | borne out |",
            "|---|---|---|---|",
            *rows,
            "",
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


def _row(claim: Mapping[str, Any]) -> str:
    verdict = "yes" if claim["holds"] else "**no**"
    cells = (claim["claim"], claim["source"], measured_words(claim["measured"]), verdict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    return "none" if value is None else str(value)
