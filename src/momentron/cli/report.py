"""`momentron report`: findings about a data set, and the page that shows them.

The page is the template report.html, filled in: one file that needs nothing else.
"""

import base64
import hashlib
import io
import re
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import typer

from momentron.cli.check import EXIT_CODES
from momentron.cli.commands import Source
from momentron.cli.info import versions
from momentron.cli.inputs import load_design
from momentron.cli.output import answer, progress, say_facts
from momentron.data.safefiles import require_writable
from momentron.errors import one_line
from momentron.estimators import MaxMarginClassifier
from momentron.separability.check import check_separability
from momentron.separability.features import FeatureRole, feature_roles
from momentron.separability.verdict import Verdict
from momentron.views.display import MarginDisplay, MarginDistributionDisplay
from momentron.views.display.style import CLASS_COLOURS, GREY, INK, require, saved_figure, styled
from momentron.views.display.views import Fitted
from momentron.views.markup import escape, facts_table, rows_table

FEATURES_SHOWN = 40
MOST_POINTS = 1500
BAR = 12  # characters of the longest bar
SIZE = (5.2, 3.5)  # inches of a picture: its text is readable on a phone
LARGEST_PROOF = 4 << 20  # bytes that are put into the page itself
# the page's colours, in light and in dark, in place of those of a picture on paper
VARIABLES = {colour.lower(): f"var(--c{c})" for c, colour in enumerate(CLASS_COLOURS)} | {
    INK: "var(--ink)",
    "#000000": "var(--ink)",
    GREY: "var(--soft)",
    "#e4e4e4": "var(--line)",
    "#ffffff": "var(--paper)",
}
ROLES = {  # of a feature, by whether it is needed: in a table, and in a sentence
    True: ("needed", "needed, since the classes are not separable without it"),
    False: ("can go", "can be left out, since the others still separate the classes"),
    None: ("not known", "undecided within the time limit"),
}


def report(source: Source, out: Path, intercept: bool, max_time: float | None) -> None:
    """Examine the data, and write the page."""
    require_writable(out)
    require()
    design, _ = load_design(source)
    findings = examine(
        design.X,
        design.y,
        title=source.title,
        feature_names=design.feature_names,
        fit_intercept=intercept,
        max_time=max_time,
    )
    words = [*source.words(), *([] if intercept else ["--no-intercept"])]
    options = "".join(f" {shlex.quote(word)}" for word in words)
    with progress("writing the page"):
        page = render(findings, source=source.data or "digits", options=options)
    verdict = findings.verdict
    margin = ("best margin", f"in [{verdict.lower:.12g}, {verdict.upper:.12g}]")
    show = partial(say_facts, f"{source.title}: {verdict.sentence}", [margin])
    answer(show, out, page, word="written")
    raise typer.Exit(EXIT_CODES[verdict.kind])


@dataclass(frozen=True)
class Findings:
    """Everything that a report shows."""

    title: str  # what to call the data
    X: Any
    y: np.ndarray
    verdict: Verdict
    model: MaxMarginClassifier  # where nothing separates, with the fallback
    roles: list[FeatureRole]  # empty where the classes are not separable
    feature_names: Sequence[str] | None = None

    @property
    def geometry(self) -> MarginDisplay:
        """The rows with the classifier; where the classes overlap, with the rows that show it.

        If there are many rows: some of them, and all that are marked.
        """
        fitted, X, y = Fitted.from_estimator(self.model), self.X, self.y
        if not self.verdict.is_separable and self.verdict.conflict:
            fitted = Fitted.from_verdict(self.verdict)
        if len(y) > MOST_POINTS:
            marked = fitted.marked if fitted.weights is not None else fitted.marked[:MOST_POINTS]
            rows = np.union1d(np.linspace(0, len(y) - 1, MOST_POINTS).astype(int), marked)
            fitted = replace(fitted, marked=np.searchsorted(rows, marked))
            X, y = X[rows], y[rows]
        return MarginDisplay(fitted, X, y, names=self.feature_names)

    @property
    def distances(self) -> MarginDistributionDisplay:
        """How far the classifier keeps the rows."""
        fitted = Fitted.from_estimator(self.model)
        fitted = replace(fitted, lower=self.verdict.lower, upper=self.verdict.upper)
        return MarginDistributionDisplay(fitted, self.X, self.y)


def examine(
    X: Any,
    y: Any,
    *,
    title: str = "data",
    feature_names: Sequence[str] | None = None,
    fit_intercept: bool = True,
    max_time: float | None = None,
) -> Findings:
    """Decide, fit, and ask what each feature does, with `max_time` seconds for each."""
    with progress("deciding separability", max_time=max_time):
        verdict = check_separability(
            X,
            y,
            fit_intercept=fit_intercept,
            decimals="binary",
            feature_names=feature_names,
            max_time=max_time,
        )
    model = MaxMarginClassifier(C=np.inf, fit_intercept=fit_intercept, max_time=max_time)
    with progress("fitting the classifier", max_time=max_time), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says all that they would
        model.fit(X, y)
    roles: list[FeatureRole] = []
    if verdict.is_separable:
        seconds = 10.0 if max_time is None else max_time  # for all features together
        with progress("finding the features needed", max_time=seconds):
            roles = feature_roles(verdict, X, y, max_time=seconds)
    return Findings(title, X, np.asarray(y), verdict, model, roles, feature_names)


def render(findings: Findings, *, source: str = "DATA", options: str = "") -> str:
    """The report as HTML.

    `source` are the data as the command line names them, for the commands to repeat, and `options`
    further options of those commands.
    """
    verdict, text = findings.verdict, findings.verdict.to_json()
    classes, (n, d) = verdict.classes, findings.X.shape
    words = " against ".join(classes) if len(classes) == 2 else f"{len(classes)} classes, jointly"
    digest = hashlib.sha256(text.encode()).hexdigest()  # of the proof as `--proof` writes it
    proof_facts = {"SHA-256 of the proof": digest, "size": f"{len(text):,} bytes"}
    link = "<p>The proof is too large for this page; the first command writes it.</p>"
    if len(text) <= LARGEST_PROOF:
        encoded = base64.b64encode(text.encode()).decode()
        link = (
            f'<p><a class="button" download="proof.json" '
            f'href="data:application/json;base64,{encoded}">Save the proof</a></p>'
        )
    kinds = [role.is_needed for role in findings.roles]
    counts = [f"{kinds.count(kind):,} {ROLES[kind][1]}" for kind in ROLES if kind in kinds]
    template = Template(files("momentron.cli").joinpath("report.html").read_text("utf-8"))
    page = template.substitute(
        title=escape(findings.title),
        kind=verdict.kind,
        n_rows=f"{n:,}",
        n_features=f"{d:,}",
        classes=escape(one_line(words, 80)),
        heading=verdict.kind.capitalize(),
        verdict=verdict._repr_html_(),
        meaning=f"<p>{escape(verdict.paper_sentence)}</p>",
        scatter=_svg(findings.geometry, "the rows in two dimensions"),
        histogram=_svg(findings.distances, "histogram of signed distances"),
        classifier=findings.model.result_._repr_html_(),
        roles=f"Of {len(kinds):,} features: {'; '.join(counts)}." if kinds else "",
        feature_table=_features(findings),
        proof_facts=facts_table(proof_facts),
        proof_link=link,
        source=escape(shlex.quote(source)),
        options=escape(options),
        verify_options=escape(options.replace(" --no-intercept", "")),
        versions=facts_table(versions()),
    )
    return page.replace("<details>", "<details open>")


def _svg(display: MarginDisplay | MarginDistributionDisplay, title: str) -> str:
    """A picture in the colours of the page, which refers to nothing outside itself."""
    text = io.StringIO()
    with styled(**{"svg.fonttype": "none"}):
        figure, axes = saved_figure(size=SIZE)
        display.plot(axes)
        for artist in figure.findobj():
            artist.set_clip_on(False)  # nothing is outside the axes
        figure.savefig(text, format="svg", transparent=True)
    svg = text.getvalue()
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r' id="[A-Za-z]{2}[\w.]*_\d+"', "", body)  # which two pictures share
    body = re.sub("#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), body)
    width, height = (72.0 * side for side in SIZE)
    head = f'<svg class="picture" role="img" aria-label="{title}" viewBox="0 0 {width} {height}">'
    return head + body


def _features(findings: Findings) -> str:
    coef, names = np.atleast_2d(findings.model.coef_), findings.feature_names
    strength, d = np.abs(coef).max(axis=0), coef.shape[1]
    top = max(float(strength.max()), 1e-300)
    roles = {role.feature: ROLES[role.is_needed][0] for role in findings.roles}
    rows = []
    for j in np.argsort(-strength, kind="stable")[:FEATURES_SHOWN].tolist():
        value = float(coef[0, j]) if len(coef) == 1 else float(strength[j])
        name = one_line(names[j], 40) if names is not None else f"feature {j}"
        bar = "█" * max(1, round(BAR * float(strength[j]) / top))
        rows.append((name, value, roles.get(j, ""), bar))
    heads = ("feature", "weight", "role" if roles else "", "")
    left_out = f"<p>{d - len(rows):,} more are not listed.</p>" if len(rows) < d else ""
    return rows_table(heads, rows) + left_out
