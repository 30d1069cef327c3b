"""What statisticians read about a verdict: sentences for a paper, and notes."""

from collections.abc import Sequence

from momentron.separability.proof_facts import ClassPair, Estimate

INFINITE = {"+inf": "+∞", "-inf": "−∞"}
CITED = {  # (family, link): who has shown that such a model has such kinds
    ("binomial", "logit"): "Albert and Anderson, 1984",
    ("multinomial", "logit"): "Albert and Anderson, 1984",
    ("binomial", "log"): "Schwendinger, Grün and Hornik, 2021",
}
TITLES = {
    "logit": "logistic",
    "cloglog": "complementary log-log",
    "loglog": "log-log",
    "log": "log-binomial",
    "logc": "log-complement binomial",
    "cdf": "binary",
}
COUNTS = {
    "poisson": "Poisson",
    "negative-binomial": "negative binomial",
    "truncated-poisson": "zero-truncated Poisson",
}
WORDS = {
    "separable": "are completely separated",
    "quasi-separable": "are quasi-completely separated",
    "overlapping": "overlap",
    "undecided": "are undecided",
}
LISTED = 8  # names that a sentence lists; of more, the first few
FEW = 5
LISTED_PAIRS = 10  # pairs of classes that a sentence names
MANY = 10  # classes numbered without a gap that may still be meant as classes


def model_words(name: str, link: str, event: str | None) -> str:
    """What to call a model: "logistic regression (binomial model with logit link)"."""
    title = COUNTS.get(name) or TITLES.get(link, link)
    title = {"multinomial": "multinomial ", "ordinal": "ordered "}.get(name, "") + title
    with_link = f"{link} link" if link != "cdf" else "a distribution function as its inverse link"
    if event is not None:
        with_link += f" for the event {event}"
    return f"{title} regression ({COUNTS.get(name, name)} model with {with_link})"


def notes_on_classes(family: str, classes: list[str]) -> tuple[str, ...]:
    """A hint where numbers that look like counts were taken as classes, nobody having said so."""
    if family != "multinomial" or not all(name.isdecimal() for name in classes):
        return ()
    values = sorted(map(int, classes))
    if len(values) <= MANY and values[-1] - values[0] == len(values) - 1:
        return ()
    return (
        f"y was taken as {len(values)} classes without an order; if these are counts, say "
        "family='poisson' (--family poisson), if they are ordered, family='ordinal'",
    )


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


def most_separated_first(pairs: Sequence[ClassPair]) -> list[ClassPair]:
    """By kind, and otherwise in order: separation is what makes estimates infinite."""
    kinds = list(WORDS)
    return sorted(pairs, key=lambda pair: kinds.index(pair.kind))


def sentence_on_classes(pairs: Sequence[ClassPair]) -> str:
    """Which classes separate from which, kind by kind."""
    parts = []
    for kind, words in WORDS.items():
        named = [f"{pair.first} and {pair.second}" for pair in pairs if pair.kind == kind]
        more = len(named) - LISTED_PAIRS
        if more > 0:
            named[LISTED_PAIRS - 1 :] = [f"{named[LISTED_PAIRS - 1]} and {more} more pairs"]
        if named:
            parts.append(f"{', '.join(named)} {words}")
    return f"in the joint model {'; '.join(parts)}" if parts else ""


def in_latex(text: str) -> str:
    """Text for LaTeX: special characters escaped, infinities in mathematics."""
    marks: dict[str, str | int | None] = {c: f"\\{c}" for c in "_%&#${}"}
    marks |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    escaped = text.translate(str.maketrans(marks))
    return escaped.replace("+∞", r"$+\infty$").replace("−∞", r"$-\infty$")
