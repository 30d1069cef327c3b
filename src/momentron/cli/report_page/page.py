"""The page: sections in the order in which a reader asks."""

import base64
import shlex
from collections.abc import Sequence

import numpy as np

from momentron.cli.report_page.findings import Findings
from momentron.cli.report_page.style import STYLE
from momentron.cli.report_page.svg import MOST_POINTS, histogram, legend, scatter, shortened
from momentron.cli.versions import versions
from momentron.views.markup import escape, interval_svg, number, proven

ROWS_SHOWN = 20  # support vectors, or rows in conflict
FEATURES_SHOWN = 40
LARGEST_PROOF = 4 << 20  # bytes that are put into the page itself
# the page asks nothing of anybody: browsers enforce it
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

MEANING = {
    "separable": "Some hyperplane has every row strictly on the side of its own class. In the "
    "statisticians' words this is complete separation: the maximum likelihood estimates of a "
    "{model} on these columns do not exist, and its coefficients grow without bound.",
    "quasi-separable": "Some hyperplane has no row on the wrong side, but every such hyperplane "
    "has rows on it. In the statisticians' words this is quasi-complete separation: some maximum "
    "likelihood estimates of a {model} on these columns are infinite.",
    "overlapping": "Every hyperplane has a row on its wrong side. The maximum likelihood estimates "
    "of a {model} on these columns exist, where the columns are independent.",
    "undecided": "The time ended before a proof was found. The interval below is proven all the "
    "same; a larger --max-time may decide.",
}


def render(findings: Findings, *, source: str = "DATA", options: str = "") -> str:
    """The report as HTML: one file that needs nothing else.

    Parameters
    ----------
    findings : Findings
    source : str
        The data as the command line names them, for the commands to repeat.
    options : str
        Further options of those commands.
    """
    sections = [
        _verdict(findings),
        _geometry(findings),
        _distribution(findings),
        _rows(findings),
        _features(findings),
        _proof(findings, source, options),
        _origin(findings, source, options),
    ]
    title = f"{findings.title}: {findings.verdict.kind}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(filter(None, sections))
        + "\n</main>\n</body>\n</html>\n"
    )


def _section(name: str, title: str, *parts: str) -> str:
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def _verdict(findings: Findings) -> str:
    verdict, (n, d) = findings.verdict, findings.X.shape
    classes = verdict.classes
    words = " against ".join(classes) if len(classes) == 2 else f"{len(classes)} classes, jointly"
    kind, _, rest = verdict.sentence.partition(":")
    lower, upper = verdict.lower, verdict.upper
    margin = [
        f'<p class="number">Best margin: {proven(lower, upper)}</p>',
        interval_svg(lower, upper),
        "<p class='note'>Margins up to the solid line's end are reached by a hyperplane; none "
        "has a margin right of the bar. The ends are rounded outward; digits that they share are "
        "in bold. Margins are distances in the units of the data.</p>",
    ]
    if upper == 0.0:
        margin = ['<p class="number">Best margin: <b>0</b>, proven. No hyperplane has more.</p>']
    meaning = [MEANING[verdict.kind].format(model=verdict.model), *verdict.notes]
    if verdict.estimates:
        meaning.insert(1, verdict.paper_sentence)
    return (
        f"<header>\n<p class='kicker'>{escape(findings.title)}: {n:,} rows × {d:,} features, "
        f"{escape(shortened(words, 80))}</p>\n<h1>{escape(kind.capitalize())}</h1>\n"
        f"<p class='lead'>{escape(rest.strip().capitalize())}.</p>\n</header>\n"
        + _section("margin", "The margin", *margin, *(f"<p>{escape(line)}</p>" for line in meaning))
    )


def _geometry(findings: Findings) -> str:
    fitted, view = findings.fitted, findings.view
    notes = [view.note] if view.note else []
    if fitted.decide is not None and fitted.lower > 0.0 and fitted.classes.size == 2:
        notes.append("solid: the boundary; dashed: the margin")
    if fitted.marked.size:
        notes.append(f"ringed: {fitted.marked.size:,} {fitted.marked_name}")
    if fitted.weights is not None:
        notes.append("cross: a point that the hulls of both classes share")
    if len(view.points) > MOST_POINTS:
        notes.append(f"{MOST_POINTS:,} of {len(view.points):,} rows are drawn, and all ringed ones")
    caption = "; ".join(notes)
    return _section(
        "geometry",
        "Geometry",
        f"<figure>{scatter(fitted, view, fitted.codes(findings.y))}"
        f"<figcaption>{legend([str(c) for c in fitted.classes.tolist()])}"
        f"<p class='note'>{escape(caption[:1].upper() + caption[1:])}.</p></figcaption></figure>",
    )


def _distribution(findings: Findings) -> str:
    display = findings.distances
    wrong = int(np.count_nonzero(display.distances <= 0.0))
    n = display.distances.size
    errors = f"{wrong:,} of {n:,} rows ({wrong / n:.2%}) are on the wrong side."
    if findings.verdict.upper > 0.0:
        errors += " Dashed: the certified interval."
    else:
        errors += " No hyperplane separates these classes: this is a classifier for such data."
    return _section(
        "distribution",
        "How far the rows are from the boundary",
        f"<figure>{histogram(display)}<figcaption><p class='note'>{errors}</p>"
        "</figcaption></figure>",
    )


def _rows(findings: Findings) -> str:
    if findings.verdict.conflict:
        return _conflict(findings)
    result = findings.model.result_
    weights = result.dual if result.dual.ndim == 1 else result.dual.sum(axis=1)
    order = np.argsort(-weights, kind="stable")[: min(ROWS_SHOWN, result.support.size)]
    distances = findings.distances.distances
    rows = []
    for place in order.tolist():
        i = int(result.support[place])
        weight, distance = float(weights[place]), float(distances[i])
        rows.append((str(i), str(findings.y[i]), number(weight), number(distance)))
    if not rows:
        return ""
    return _section(
        "support",
        "Support vectors",
        f"<p>{result.support.size:,} of {result.n_rows:,} rows hold the margin in place; the "
        "others could be dropped without changing it. "
        f"{_first(len(rows), result.support.size)}</p>",
        _table(("row", "class", "weight", "distance"), rows),
    )


def _conflict(findings: Findings) -> str:
    conflict = sorted(findings.verdict.conflict, key=lambda entry: -entry.weight)
    rows = [(str(e.row), e.label, e.against, number(e.weight)) for e in conflict[:ROWS_SHOWN]]
    return _section(
        "conflict",
        "Rows in conflict",
        f"<p>With these weights the averages of the classes coincide exactly, so no hyperplane can "
        f"have them all strictly on their own sides. {_first(len(rows), len(conflict))}</p>",
        _table(("row", "class", "against", "weight"), rows),
    )


def _features(findings: Findings) -> str:
    coef = np.atleast_2d(findings.model.coef_)
    strength = np.abs(coef).max(axis=0)
    order = np.argsort(-strength, kind="stable")[:FEATURES_SHOWN].tolist()
    roles = {role.feature: _role(role.is_needed) for role in findings.roles}
    top = max(float(strength.max()), 1e-300)
    words = "<p>Weights are those of the classifier above, in the features' own units."
    names: tuple[str, ...] = ("feature", "weight", "")
    if roles:
        words += f" {_needed(findings)}"
        names = (*names, "role")
    rows = []
    for j in order:
        bar = f'<span class="strength" style="width:{100 * strength[j] / top:.1f}%"></span>'
        value = float(coef[0, j]) if len(coef) == 1 else float(strength[j])
        row = [escape(shortened(findings.name_of(j), 40)), escape(number(value)), bar]
        rows.append([*row, roles.get(j, "")] if roles else row)
    words += f" {_first(len(rows), strength.size)}</p>"
    return _section("features", "What each feature does", words, _table(names, rows, is_html=True))


def _needed(findings: Findings) -> str:
    """How many features the separation depends on."""
    kinds = [role.is_needed for role in findings.roles]
    sentences = {
        True: "needed, since the classes are not separable without it",
        False: "can go, since they stay separable without it alone",
        None: "not known in the time given",
    }
    counts = [
        f"{kinds.count(kind):,} {words}" for kind, words in sentences.items() if kind in kinds
    ]
    return f"Of {len(kinds):,} features: {'; '.join(counts)}."


def _role(is_needed: bool | None) -> str:
    return {True: "needed", False: "can go", None: "not known"}[is_needed]


def _proof(findings: Findings, source: str, options: str) -> str:
    verdict, data = findings.verdict, findings.verdict.proof["data"]
    text = verdict.to_json()
    name = shlex.quote(source)
    facts = [
        ("what it proves", f"{verdict.kind}, and the interval above"),
        ("arithmetic", f"{verdict.arithmetic}; no rounding enters"),
        ("SHA-256 of the proof", findings.proof_digest),
        ("SHA-256 of the data", str(data["sha256"])),
        ("size", f"{len(text):,} bytes"),
    ]
    link = "<p>The proof is too large for this page; the first command writes it.</p>"
    if len(text) <= LARGEST_PROOF:
        encoded = base64.b64encode(text.encode()).decode()
        link = (
            f'<p><a class="button" download="proof.json" '
            f'href="data:application/json;base64,{encoded}">Save the proof</a></p>'
        )
    commands = (
        f"momentron check {name}{options} --proof proof.json\n"
        f"momentron verify proof.json {name}{options.replace(' --no-intercept', '')}"
    )
    words = (
        "<p>Whoever has the data can check this verdict without trusting the program that found "
        "it. The verifier is a short program of its own that solves nothing: it reads the proof "
        "and the data and compares whole numbers.</p>"
    )
    if verdict.kind == "undecided":
        words = "<p>There is no proof of a kind yet, only of the interval.</p>"
    return _section(
        "proof", "The proof", words, _facts(facts), link, f"<pre>{escape_lines(commands)}</pre>"
    )


def _origin(findings: Findings, source: str, options: str) -> str:
    result = findings.model.result_
    command = f"momentron report {shlex.quote(source)}{options} -o report.html"
    code = (
        "from momentron import MaxMarginClassifier, check_separability\n"
        "verdict = check_separability(X, y)\nmodel = MaxMarginClassifier().fit(X, y)"
    )
    facts = [
        ("solver", f"{result.method}: {result.status}"),
        (
            "work",
            f"{result.n_iter:,} iterations, {findings.verdict.seconds + result.seconds:.2f} s",
        ),
        *versions().items(),
    ]
    return _section(
        "origin",
        "How this was made",
        _facts(facts),
        f"<pre>{escape_lines(command)}\n\n{escape_lines(code)}</pre>",
    )


def escape_lines(text: str) -> str:
    """Escaped, with the line breaks kept."""
    return "\n".join(escape(line) for line in text.split("\n"))


def _first(shown: int, total: int) -> str:
    return f"The first {shown:,} are listed." if shown < total else ""


def _facts(facts: list[tuple[str, str]]) -> str:
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<dl>{entries}</dl>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, is_html: bool = False) -> str:
    """Rows of text, or of HTML that is escaped already."""

    def cell(content: str) -> str:
        return f"<td>{content if is_html else escape(shortened(content, 60))}</td>"

    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
