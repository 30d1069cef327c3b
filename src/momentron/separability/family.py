"""The models that a verdict may be about: which pairs a row makes, and which vector each pair has.

Every model asks one question of the linear predictors: is there a direction along which the
likelihood of no row falls? Each row x makes some *pairs* (row, j), and along a direction w each of
them changes by s = w·a, which must not be negative. The coordinates of w come in blocks of equal
width, d features and then the intercepts; x̃ is x with a last 1 if there is an intercept. The
vector a of a pair is a sum of *terms* (block, sign, shift): ±x̃ in that block, with the last 1 moved
on by `shift` places. The table in docs/proof-format.md has the pairs of every family and link, and
docs/explanations/separation.md the reasons. Two pairs with opposite vectors hold η where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from momentron.data.arguments import require_choice
from momentron.errors import InputError, one_line, short, some
from momentron.verify.exact_table import Table
from momentron.verify.outcomes import label_texts, own_order

if TYPE_CHECKING:
    from momentron.separability.designs.design import Design

Term = tuple[int, int, int]  # (block, sign, shift of the intercept)
Form = dict[int, int]  # a linear form: coordinate of w → factor

LEFT_OUT = -1  # the class of a row that makes no pair
DISTRIBUTIONS = ("logit", "probit", "cloglog", "loglog", "cauchit", "cdf")  # inverses of an F
MODELS = {  # the first link of each family is its default
    "binomial": (*DISTRIBUTIONS, "log", "logc"),
    "multinomial": ("logit",),
    "poisson": ("log",),
    "negative-binomial": ("log",),
    "truncated-poisson": ("log",),
    "ordinal": DISTRIBUTIONS,
}
COUNTS = {"poisson": 0, "negative-binomial": 0, "truncated-poisson": 1}  # family: least count


@dataclass(frozen=True)
class Family:
    """A family and a link, for some classes in their order."""

    name: str
    link: str
    classes: list[str]
    fit_intercept: bool

    @classmethod
    def of(cls, design: "Design", labels: Sequence[str]) -> "Family":
        """The model of some labels: binomial for two and multinomial for more, without a name."""
        name = design.family or ("binomial" if len(set(labels)) == 2 else "multinomial")
        link, fit_intercept = link_of(name, design.link), design.fit_intercept is not False
        return cls(name, link, classes_of(name, labels), fit_intercept)

    def code_of(self, label: str) -> int:
        """The class to which a label belongs, as an index."""
        if self.name not in COUNTS:
            return self.classes.index(label)
        value, least = Decimal(label, Context(traps=[])), COUNTS[self.name]  # NaN of other text
        is_count = value.is_finite() and value >= least
        if not is_count or (least and value != value.to_integral_value()):
            wanted = "whole numbers ≥ 1" if least else "finite numbers ≥ 0"
            raise InputError(f"y has {label[:40]!r}; counts of this family must be {wanted}")
        return int(value > least)

    @property
    def k(self) -> int:
        return len(self.classes)

    @property
    def has_event(self) -> bool:
        """Whether class 1 is an event, and the classes cannot change places."""
        return self.name == "binomial" and self.link in ("log", "logc")

    @property
    def has_thresholds(self) -> bool:
        """Whether each intercept is minus a threshold."""
        return self.name == "ordinal"

    @property
    def compares_classes(self) -> bool:
        """Whether a pair (row, j) tells the class of the row from class j; a margin is defined."""
        return not (self.name in COUNTS or self.has_event)

    @property
    def is_classifier(self) -> bool:
        """Whether `max_margin` solves it, and coefficients are contrasts with a reference class."""
        return self.compares_classes and not self.has_thresholds

    @property
    def n_blocks(self) -> int:
        return self.k - 1 if self.is_classifier else 1

    @property
    def n_intercepts(self) -> int:
        """Intercepts per block."""
        return self.k - 1 if self.has_thresholds else int(self.fit_intercept)

    def pairs(self, own: int) -> dict[int, list[Term]]:
        """The j of the pairs (row, j) of a row of a class, and what their vectors are made of."""
        if not self.compares_classes:
            others = [1] if own == (self.link == "logc") else [0, 1]
            return {j: [(0, 1 - 2 * j, 0)] for j in others}
        if self.has_thresholds:
            others = [j for j in (own - 1, own + 1) if 0 <= j < self.k]
            return {j: [(0, own - j, min(own, j))] for j in others}
        others = [j for j in range(self.k) if j != own]
        return {j: [(c - 1, sign, 0) for c, sign in ((own, 1), (j, -1)) if c > 0] for j in others}

    def coefficients(self, n_features: int, reference: int) -> list[tuple[int, int, Form]]:
        """(class, place in a block, form) of each coefficient, class by class.

        With classes that have weights of their own a coefficient is the contrast of its class with
        the reference; w_0 = 0. A threshold is minus the intercept of its place.
        """
        width = n_features + self.n_intercepts
        if not self.is_classifier:
            last = -1 if self.has_thresholds else 1
            return [(1, p, {p: 1 if p < n_features else last}) for p in range(width)]
        found = []
        for c in range(self.k):
            for p in range(width) if c != reference else ():
                form = {(c - 1) * width + p: 1} if c else {}
                if reference:
                    form[(reference - 1) * width + p] = -1
                found.append((c, p, form))
        return found


def classes_of(name: str, labels: Sequence[str]) -> list[str]:
    """The classes of some labels: numbers by value, others as text; counts have two."""
    if name in COUNTS:
        return [f"{COUNTS[name]}", f"> {COUNTS[name]}"]
    names = sorted(set(labels))
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def link_of(name: str, link: str | None) -> str:
    """The link of a family, by default its first; refused if the theory does not cover it."""
    require_choice("family", name, MODELS)
    if link is None:
        return MODELS[name][0]
    if not isinstance(link, str) or link not in MODELS[name]:
        raise InputError(
            f"link={short(link)} is not supported for family={name!r}, whose links are "
            f"{', '.join(MODELS[name])}; with other links estimates are finite or infinite by "
            "other rules"
        )
    return link


def modelled(table: Table, design: "Design", order: Sequence[Any] | None) -> Family:
    """The model of the labels of a table, classes in order; refused if there is no such model."""
    family, y = Family.of(design, table.kept_labels), design.y
    name, k = family.name, family.k
    if k < 2 or (name == "binomial" and k != 2):
        needs = "exactly 2" if name == "binomial" and k > 2 else "at least 2"
        what = f"1 class; check_separability needs {needs}: add rows of another class"
        raise InputError(
            f"y has {what if k == 1 else f'{k} classes; family={name!r} needs {needs}'}"
        )
    if family.has_thresholds and not family.fit_intercept:
        raise InputError(
            "family='ordinal' has a threshold between neighbouring classes in place of an "
            "intercept; fit_intercept=False has no meaning for it"
        )
    if family.has_event and not family.fit_intercept:
        raise InputError(
            f"link={family.link!r} needs an intercept: without one there may be no coefficients "
            "for which every probability is at most 1"
        )
    is_ordered = getattr(getattr(y, "cat", y), "ordered", False) and name not in COUNTS
    if order is None and not (family.has_thresholds or is_ordered):
        return family
    known = own_order(y) if order is None else _given_order(order, family.name, {*table.labels})
    if known is None:
        listed = some([repr(name) for name in family.classes])
        raise InputError(
            f"family='ordinal': the labels {listed} have no natural order; give it, lowest "
            "first, as order=[…] (--order on the command line), or make y an ordered categorical, "
            "pd.Categorical(y, […], ordered=True), or numbers"
        )
    return replace(family, classes=sorted(family.classes, key=known.index))


def _given_order(order: Sequence[Any], name: str, known: set[str]) -> list[str]:
    """The labels in the order that the user gives, who must name each once."""
    if name != "ordinal":
        raise InputError(f"family={name!r} has no order of classes; order goes with 'ordinal'")
    if isinstance(order, str) or not np.iterable(order):
        raise InputError(f"order={short(order)} must be a sequence of labels, lowest first")
    given, labels = label_texts(list(order)), one_line(sorted(known)[:20])
    wrong = [f"has {short(v)}, which is no label in y: {labels}" for v in given if v not in known]
    wrong += [f"has {short(label)} twice" for label in given if given.count(label) > 1]
    wrong += [f"lacks the label {short(label)}" for label in sorted(known - set(given))]
    if wrong:
        raise InputError(f"order {wrong[0]}; name each label once, lowest first")
    return given
