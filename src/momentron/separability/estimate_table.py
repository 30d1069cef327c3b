"""The estimates of a verdict as a statistician reads them: a table, and a sentence for a paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from momentron.errors import InputError, short
from momentron.separability.family import Family, link_of
from momentron.verify.proof import integer
from momentron.views.markup import escape

INFINITE = {"+inf": "+∞", "-inf": "−∞"}
KINDS = {
    "separable": "The data are completely separated",
    "quasi-separable": "The data are quasi-completely separated",
    "overlapping": "The data overlap",
    "undecided": "It is undecided whether the data are separated",
}
CITED = {  # (family, link): who has shown that such a model has such kinds
    ("binomial", "logit"): "Albert and Anderson, 1984",
    ("multinomial", "logit"): "Albert and Anderson, 1984",
    ("binomial", "log"): "Schwendinger, Grün and Hornik, 2021",
}
TITLES = {
    "logit": "logistic",
    "probit": "probit",
    "cloglog": "complementary log-log",
    "loglog": "log-log",
    "cauchit": "cauchit",
    "log": "log-binomial",
    "logc": "log-complement binomial",
    "cdf": "binary",
}
COUNTS = {
    "poisson": "Poisson",
    "negative-binomial": "negative binomial",
    "truncated-poisson": "zero-truncated Poisson",
}
LISTED = 8  # names that a sentence lists; of more, the first few
FEW = 5
MANY = 10  # classes numbered without a gap that may still be meant as classes


def model_words(proof: dict[str, Any]) -> str:
    """What to call a model: "logistic regression (binomial model with logit link)"."""
    name, link = proof["family"], proof["link"]
    title = COUNTS.get(name) or TITLES[link]
    title = {"multinomial": "multinomial ", "ordinal": "ordered "}.get(name, "") + title
    with_link = f"{link} link" if link != "cdf" else "a distribution function as its inverse link"
    if family_of(proof).has_event:
        with_link += f" for the event {proof['data']['classes'][1]}"
    return f"{title} regression ({COUNTS.get(name, name)} model with {with_link})"


def notes_on_classes(proof: dict[str, Any]) -> tuple[str, ...]:
    """A hint where numbers that look like counts were taken as classes, nobody having said so."""
    classes = proof["data"]["classes"]
    if proof["family"] != "multinomial" or not all(name.isdecimal() for name in classes):
        return ()
    values = sorted(map(int, classes))
    if len(values) <= MANY and values[-1] - values[0] == len(values) - 1:
        return ()
    return (
        f"y was taken as {len(values)} classes without an order; if these are counts, say "
        "family='poisson' (--family poisson), if they are ordered, family='ordinal'",
    )


@dataclass(frozen=True)
class Estimate:
    """What becomes of one coefficient when the likelihood is maximised.

    Attributes
    ----------
    label : str
        The class whose contrast with the reference it is; with the links log and logc the event;
        "" where the model has one predictor.
        Of a threshold: the two classes between which it is, as in "1|2".
    feature : str
        The name of the column; "intercept", or "threshold" in an ordinal model.
    estimate : {"finite", "+inf", "-inf", "undetermined", "aliased", "undecided"}
        "undetermined": its limit depends on the path along which the supremum is approached.
        "aliased": collinear with others. "undecided": no proof was found in time.
    direction : {1, 0, -1} or None
        Of an undetermined coefficient under complete separation: its sign along the
        maximum-margin direction, to which gradient descent converges, as far as it was found.
    alias : dict of str to int
        Of an aliased coefficient: columns with factors, one of them its own, that sum to zero.
    reason : str or None
        Of an undecided coefficient: why, and what to do; None where the verdict was read from a
        proof, which does not say.
    """

    label: str
    feature: str
    estimate: str
    direction: int | None = None
    alias: dict[str, int] | None = None
    reason: str | None = None

    @property
    def words(self) -> str:
        """The estimate, and for an undecided one the reason."""
        return f"{self.estimate}: {self.reason}" if self.reason else self.estimate


def family_of(proof: dict[str, Any]) -> Family:
    """The model of a proof."""
    name, link = proof["family"], proof["link"]
    return Family(name, link_of(name, link), len(proof["data"]["classes"]), proof["fit_intercept"])


def list_estimates(proof: dict[str, Any], weights: dict[int, int]) -> list[Estimate]:
    """All coefficients of a proof: class by class, each with its columns and then intercepts."""
    section = proof["estimates"]
    if section is None:
        return []
    family, classes = family_of(proof), proof["data"]["classes"]
    d = proof["data"]["features"]
    features = feature_labels(proof)
    features += ["threshold" if family.has_thresholds else "intercept"] * family.n_intercepts
    used = range(d) if section["used"] is None else section["used"]
    # columns without a place are zero in every row
    places = {column: p for p, column in enumerate([*used, *range(d, len(features))])}
    aliases = _aliases(section, [features[column] for column in places])
    statuses, found = iter(section["status"]), []
    for c, column, form in family.coefficients(d, section["reference"]):
        label = classes[c] if family.is_classifier or family.has_event else ""
        if family.has_thresholds and column >= d:
            label = f"{classes[column - d]}|{classes[column - d + 1]}"
        feature = features[column]
        if column not in places:
            found.append(Estimate(label, feature, "aliased", None, {feature: 1}))
            continue
        status, sign = next(statuses), None
        if status == "undetermined" and proof["kind"] == "separable":
            along = sum(v * weights.get(at, 0) for at, v in form.items())
            sign = (along > 0) - (along < 0)
        alias = aliases.get(places[column]) if status == "aliased" else None
        found.append(Estimate(label, feature, status, sign, alias))
    return found


def _aliases(section: dict[str, Any], names: list[str]) -> dict[int, dict[str, int]]:
    """For each place, the shortest combination of columns that sums to zero, with its factors."""
    flat = section["aliases"]
    starts, found = flat["starts"], dict[int, dict[str, int]]()
    for begin, end in pairwise(starts):
        places = flat["coordinates"][begin:end]
        numbers = [integer(text) for text in flat["numbers"][begin:end]]
        common = math.gcd(*numbers)
        combination = {names[p]: v // common for p, v in zip(places, numbers, strict=True)}
        for p in places:
            if p not in found or len(combination) < len(found[p]):
                found[p] = combination
    return found


def feature_labels(proof: dict[str, Any]) -> list[str]:
    """The names of the columns, "column 0" and so on where they have none."""
    return list(proof["names"] or (f"column {j}" for j in range(proof["data"]["features"])))


def sentence_for_paper(
    proof: dict[str, Any],
    estimates: Sequence[Estimate],
    n_separated: int,
    n_rows: int,
    noun: str = "observations",
) -> str:
    """What happened to which estimates of which model, in a sentence or two for a paper."""
    kind, cited = proof["kind"], CITED.get((proof["family"], proof["link"]))
    begin = KINDS[kind] + (f" ({cited})" if cited and kind != "undecided" else "")
    words = f"in the {model_words(proof)}"
    on_estimates = sentence_on_estimates(estimates)
    sentences = [f"{begin}: {words} {on_estimates}." if on_estimates else f"{begin} {words}."]
    if kind in ("separable", "quasi-separable") and n_separated:
        # of three classes or more a row may be separated from some classes only
        verb = "is" if n_separated == 1 else "are"
        sentences.append(f"{n_separated:,} of {n_rows:,} {noun} {verb} separated.")
    return " ".join(sentences)


def sentence_on_estimates(estimates: Sequence[Estimate]) -> str:
    """Which coefficients are infinite, undetermined, aliased, undecided and finite."""
    if estimates and all(e.estimate == "finite" for e in estimates):
        return "all maximum likelihood estimates are finite"
    several = len({e.label for e in estimates if e.feature != "threshold"}) > 1
    parts: list[str] = []
    for status in ("+inf", "-inf", "undetermined", "aliased", "undecided", "finite"):
        these = [e for e in estimates if e.estimate == status]
        if not these:
            continue
        s, those, verb = ("", "that", "is") if len(these) == 1 else ("s", "those", "are")
        if parts:
            subject = f"{those} of {_listed([_named(e, several) for e in these])}"
        else:
            subject = f"the maximum likelihood estimate{s} of {_in_full(these, several)}"
        parts.append(f"{subject} {verb} {INFINITE.get(status, status)}")
    return "; ".join(parts)


def _in_full(estimates: Sequence[Estimate], several: bool) -> str:
    """ "the coefficients of a and b and the intercept"."""
    plain = [e for e in estimates if e.feature not in ("intercept", "threshold")]
    if not plain or len(estimates) > LISTED:
        names = _listed([_named(e, several) for e in estimates])
        return f"the coefficients of {names}" if plain else names
    s = "" if len(plain) == 1 else "s"
    first = f"the coefficient{s} of {_listed([_named(e, several) for e in plain])}"
    return _listed([first, *(_named(e, several) for e in estimates if e not in plain)])


def _named(estimate: Estimate, several: bool) -> str:
    name = "the intercept" if estimate.feature == "intercept" else estimate.feature
    if estimate.feature == "threshold":
        return f"the threshold {estimate.label}"
    return f"{name} ({estimate.label})" if several else name


def _listed(names: list[str]) -> str:
    """Some names; of many, the first few and how many there are besides."""
    if len(names) > LISTED:
        return f"{', '.join(names[:FEW])} and {len(names) - FEW} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def as_frame(estimates: Sequence[Estimate]) -> Any:
    """A pandas data frame of class, feature and estimate."""
    import pandas as pd  # slow to import

    rows = [(e.label, e.feature, e.estimate, e.reason) for e in estimates]
    frame = pd.DataFrame(rows, columns=["class", "feature", "estimate", "reason"])
    return frame if frame["reason"].notna().any() else frame.drop(columns="reason")


def summary_text(
    sentence: str,
    estimates: Sequence[Estimate],
    format: str,
    on_classes: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table of the estimates below some sentences, in fixed width, LaTeX or HTML."""
    if format not in ("text", "latex", "html"):
        raise InputError(f"format={short(format)} must be 'text', 'latex' or 'html'")
    more = [f"{words[0].upper()}{words[1:]}." for words in (on_classes, *notes) if words]
    lines = [sentence, *more]
    if format == "latex":
        caption = _in_latex(" ".join(lines))
        table = as_frame(estimates).to_latex(index=False, caption=caption, escape=True)
        return str(table).replace("+inf", r"$+\infty$").replace("-inf", r"$-\infty$")
    if format == "html":
        above = "".join(f"<p>{escape(line)}</p>\n" for line in lines)
        return f"{above}{as_frame(estimates).to_html(index=False)}"
    if estimates:
        rows = [("class", "feature", "estimate")]
        rows += [(e.label, e.feature, e.words) for e in estimates]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        lines += ["", *(f"{c:<{widths[0]}}  {f:<{widths[1]}}  {e}" for c, f, e in rows)]
    return "\n".join(lines)


def _in_latex(text: str) -> str:
    """Text for LaTeX: special characters escaped, infinities in mathematics."""
    marks: dict[str, str | int | None] = {c: f"\\{c}" for c in "_%&#${}"}
    marks |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    escaped = text.translate(str.maketrans(marks))
    return escaped.replace("+∞", r"$+\infty$").replace("−∞", r"$-\infty$")
