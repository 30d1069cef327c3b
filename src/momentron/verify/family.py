"""The models that a proof may speak of: which pairs a row makes, and which vector each pair has.

Every model asks one question of the linear predictors: is there a direction along which the
likelihood of no row falls? Each row x makes some *pairs* (row, j), and along a direction w each of
them changes by s = w·a, which must not be negative. The coordinates of w come in blocks of equal
width, d features and then the intercepts; x̃ is x with a last 1 if there is an intercept. The
vector a of a pair is a sum of *terms* (block, sign, shift): ±x̃ in that block, with the last 1 moved
on by `shift` places.

A model is a family and a link, with η = w·x̃. F is any continuous distribution function that
increases on the whole line: its inverse is the link.

==================  =====================  =========================================================
family, link        classes 0 … k − 1      pairs of a row, and their vectors a
==================  =====================  =========================================================
binomial,           the two labels         P(y = 1) = F(η); (row, other class): ±x̃
inverse of an F
binomial, log       the two labels; 1 is   P(y = 1) = exp(η); y = 0: (row, 1), −x̃;
                    the event              y = 1: (row, 0), x̃, and (row, 1), −x̃
binomial, logc      the two labels; 1 is   P(y = 1) = 1 − exp(η); y = 1: (row, 1), −x̃;
                    the event              y = 0: (row, 0), x̃, and (row, 1), −x̃
multinomial, logit  the labels, w_0 = 0    (row, j) for each other class j: w·a = (w_c − w_j)·x̃
poisson and         0: y = 0; 1: y > 0     mean exp(η); y = 0: (row, 1), −x̃;
negative-binomial,                         y > 0: (row, 0), x̃, and (row, 1), −x̃
log
truncated-poisson,  0: y = 1; 1: y > 1     mean exp(η) before zeros are cut off; as in poisson
log
ordinal,            the labels in order    P(y ≤ c) = F(θ_c − w·x); (row, c − 1): x̃ with the
inverse of an F                            intercept −θ of the threshold below c; (row, c + 1): −x̃
                                           with that of the threshold above c
==================  =====================  =========================================================

Two pairs with opposite vectors hold η where it is. A positive count does so, since its likelihood
vanishes as the mean µ tends to 0 and as it tends to infinity. In a zero-truncated model a 1 has the
probability µ/(exp(µ) − 1), which tends to 1 as µ tends to 0, and larger counts vanish at both ends.
With the log link no probability is above 1, so that η ≤ 0, and an event keeps η away from −∞; a
non-event has 1 − exp(η), which tends to 1 as η → −∞ (Schwendinger, Grün and Hornik 2021). The link
logc exchanges the classes.

A row that is left out (its class is −1) makes no pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from momentron.errors import InputError, short

Term = tuple[int, int, int]  # (block, sign, shift of the intercept)

LEFT_OUT = -1  # the class of a row that makes no pair


@dataclass(frozen=True)
class Family:
    """Two classes or more, each with weights of its own: binomial and multinomial models.

    Attributes
    ----------
    name : str
        One of `MODELS`.
    link : str
        One of the links of that family.
    k : int
        Classes.
    fit_intercept : bool
    """

    name: str
    link: str
    k: int
    fit_intercept: bool

    least_classes = 2
    has_margin = True  # whether a best margin is defined
    is_classifier = True  # whether `max_margin` solves it
    has_reference = True  # whether coefficients are contrasts with one of the classes
    compares_classes = True  # whether a pair (row, j) tells the class of the row from class j
    has_event = False  # whether class 1 is an event, and the classes cannot change places
    has_thresholds = False  # whether each intercept is minus a threshold
    has_counts = False  # whether y are numbers, not labels of classes

    @property
    def has_one_pair(self) -> bool:
        """Whether each row makes one pair, with the other of two classes."""
        return self.name == "binomial" and self.is_classifier

    @property
    def n_blocks(self) -> int:
        return self.k - 1

    @property
    def n_intercepts(self) -> int:
        """Intercepts per block."""
        return int(self.fit_intercept)

    def others(self, own: int) -> Sequence[int]:
        """The j of the pairs (row, j) of a row of this class."""
        return [j for j in range(self.k) if j != own] if own >= 0 else ()

    def terms(self, own: int, j: int) -> list[Term]:
        """What the vector of a pair is made of."""
        return [(c - 1, sign, 0) for c, sign in ((own, 1), (j, -1)) if c > 0]

    def require_rows(self, codes: Sequence[int]) -> None:
        """Refuse rows of which this model has no estimates that could be known."""

    @staticmethod
    def class_names(labels: Sequence[str]) -> list[str]:
        """The classes of some labels: numbers by value, others as text."""
        names = sorted(set(labels))
        try:
            return sorted(names, key=float)
        except ValueError:
            return names

    @staticmethod
    def class_name(label: str) -> str:
        """The class to which a label belongs."""
        return label

    @staticmethod
    def are_classes(names: list[str], labels: Sequence[str]) -> bool:
        """Whether these are the classes of the labels, in an order of the writer's choice."""
        return sorted(names) == sorted(set(labels))


class OneSided(Family):
    """One class whose predictor may tend to −∞, and another that holds its predictor."""

    has_margin = False
    is_classifier = False
    has_reference = False
    compares_classes = False

    @property
    def n_blocks(self) -> int:
        return 1

    def others(self, own: int) -> Sequence[int]:
        return ((1,), (0, 1))[own] if own >= 0 else ()

    def terms(self, own: int, j: int) -> list[Term]:
        return [(0, 1 - 2 * j, 0)]


class Events(OneSided):
    """Two labels with P(event) = exp(η): the log-binomial model."""

    has_event = True


class Complements(Events):
    """Two labels with P(event) = 1 − exp(η)."""

    def others(self, own: int) -> Sequence[int]:
        return ((0, 1), (1,))[own] if own >= 0 else ()


class Counts(OneSided):
    """y = 0 against y > 0, as in Poisson regression: the mean of a positive row cannot vanish."""

    least_classes = 1
    has_counts = True
    least = 0
    names = ("0", "> 0")
    wanted = "finite numbers ≥ 0"

    @classmethod
    def class_names(cls, labels: Sequence[str]) -> list[str]:
        return list(cls.names)

    @classmethod
    def class_name(cls, label: str) -> str:
        try:
            value = Decimal(label)
        except InvalidOperation:
            value = Decimal("nan")
        if not (value.is_finite() and cls.is_count(value)):
            raise InputError(f"y has {label[:40]!r}; counts of this family must be {cls.wanted}")
        return cls.names[value > cls.least]

    @staticmethod
    def is_count(value: Decimal) -> bool:
        return value >= 0

    @classmethod
    def are_classes(cls, names: list[str], labels: Sequence[str]) -> bool:
        return names == list(cls.names)


class Dispersed(Counts):
    """Counts with a dispersion that is estimated, too, unless it is known."""

    def require_rows(self, codes: Sequence[int]) -> None:
        if 1 not in codes:
            raise InputError(
                "y has no count above 0; family='negative-binomial' needs one: zeros alone are "
                "explained by an infinite dispersion, whatever the coefficients"
            )


class Truncated(Counts):
    """y = 1 against y > 1 where zeros cannot be observed."""

    least = 1
    names = ("1", "> 1")
    wanted = "whole numbers ≥ 1"

    @staticmethod
    def is_count(value: Decimal) -> bool:
        return value >= 1 and value == value.to_integral_value()


class Ordered(Family):
    """Ordered classes in a cumulative model: P(y ≤ c) = F(θ_c − w·x), an intercept −θ_c each."""

    is_classifier = False
    has_reference = False
    has_thresholds = True

    @property
    def n_blocks(self) -> int:
        return 1

    @property
    def n_intercepts(self) -> int:
        return self.k - 1

    def others(self, own: int) -> Sequence[int]:
        return [j for j in (own - 1, own + 1) if 0 <= j < self.k] if own >= 0 else ()

    def terms(self, own: int, j: int) -> list[Term]:
        return [(0, own - j, min(own, j))]


DISTRIBUTIONS = ("logit", "probit", "cloglog", "loglog", "cauchit", "cdf")  # inverses of an F
MODELS: dict[str, dict[str, type[Family]]] = {  # the first link of each family is its default
    "binomial": dict.fromkeys(DISTRIBUTIONS, Family) | {"log": Events, "logc": Complements},
    "multinomial": {"logit": Family},
    "poisson": {"log": Counts},
    "negative-binomial": {"log": Dispersed},
    "truncated-poisson": {"log": Truncated},
    "ordinal": dict.fromkeys(DISTRIBUTIONS, Ordered),
}


def default_family(labels: Sequence[str]) -> str:
    """Binomial for two classes, multinomial for more."""
    return "binomial" if len(set(labels)) == 2 else "multinomial"


def link_of(name: str, link: str | None) -> str:
    """The link of a family, its default where None; refused where the theory does not cover it."""
    if not isinstance(name, str) or name not in MODELS:
        raise InputError(f"family={short(name)} must be one of {list(MODELS)}")
    links = list(MODELS[name])
    if link is None:
        return links[0]
    if not isinstance(link, str) or link not in links:
        raise InputError(
            f"link={short(link)} is not supported for family={name!r}, whose links are "
            f"{', '.join(links)}; with other links estimates are finite or infinite by other rules"
        )
    return link


def family_named(name: str, link: str | None, n_classes: int, fit_intercept: bool) -> Family:
    """A family with a number of classes; refused where there is no such model."""
    link = link_of(name, link)
    kind = MODELS[name][link]
    if n_classes < kind.least_classes or (name == "binomial" and n_classes != 2):
        needs = "exactly 2" if name == "binomial" and n_classes > 2 else "at least 2"
        what = f"1 class; check_separability needs {needs}: add rows of another class"
        if n_classes != 1:
            what = f"{n_classes} classes; family={name!r} needs {needs}"
        raise InputError(f"y has {what}")
    if kind.has_thresholds and not fit_intercept:
        raise InputError(
            "family='ordinal' has a threshold between neighbouring classes in place of an "
            "intercept; fit_intercept=False has no meaning for it"
        )
    if kind.has_event and not fit_intercept:
        raise InputError(
            f"link={link!r} needs an intercept: without one there may be no coefficients for which "
            "every probability is at most 1"
        )
    return kind(name, link, n_classes, fit_intercept)
