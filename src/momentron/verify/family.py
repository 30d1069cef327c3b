"""The models that a proof may speak of: which pairs a row makes, and which vector each pair has.

Every family asks one question of the linear predictors: is there a direction along which the
likelihood of no row falls? Each row x makes some *pairs* (row, j), and along a direction w each of
them changes by s = w·a, which must not be negative. The coordinates of w come in blocks of equal
width, d features and then the intercepts; x̃ is x with a last 1 if there is an intercept. The
vector a of a pair is a sum of *terms* (block, sign, shift): ±x̃ in that block, with the last 1 moved
on by `shift` places.

=============  =======================================  ============================================
family         classes 0 … k − 1                        pairs of a row, and their vectors a
=============  =======================================  ============================================
binomial       the two labels                           (row, other class): ±x̃
multinomial    the labels, w_0 = 0                      (row, j) for each other class j:
                                                        w·a = (w_c − w_j)·x̃
poisson        0: y = 0; 1: y > 0                       y = 0: (row, 1), −x̃;
                                                        y > 0: (row, 0), x̃, and (row, 1), −x̃
ordinal        the labels in order                      (row, c − 1): x̃ with the intercept of the
                                                        threshold below c; (row, c + 1): −x̃ with
                                                        that of the threshold above c
=============  =======================================  ============================================

A row that is left out (its class is −1) makes no pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from momentron.errors import InputError, short

Term = tuple[int, int, int]  # (block, sign, shift of the intercept)

COUNT_CLASSES = ["0", "> 0"]
LEFT_OUT = -1  # the class of a row that makes no pair


@dataclass(frozen=True)
class Family:
    """Two classes or more, each with weights of its own: binomial and multinomial models.

    Attributes
    ----------
    name : {"binomial", "multinomial", "poisson", "ordinal"}
    k : int
        Classes.
    fit_intercept : bool
    """

    name: str
    k: int
    fit_intercept: bool

    least_classes = 2
    has_margin = True  # whether a best margin is defined
    is_classifier = True  # whether `max_margin` solves it
    has_reference = True  # whether coefficients are contrasts with one of the classes
    compares_classes = True  # whether a pair (row, j) tells the class of the row from class j

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


class Counts(Family):
    """y = 0 against y > 0, as in Poisson regression: the mean of a positive row cannot vanish."""

    least_classes = 1
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

    @staticmethod
    def class_names(labels: Sequence[str]) -> list[str]:
        return list(COUNT_CLASSES)

    @staticmethod
    def class_name(label: str) -> str:
        try:
            value = Decimal(label)
        except InvalidOperation:
            value = Decimal("nan")
        if not value.is_finite() or value < 0:
            raise InputError(f"y has {label[:40]!r}; family='poisson' needs finite numbers ≥ 0")
        return COUNT_CLASSES[value > 0]

    @staticmethod
    def are_classes(names: list[str], labels: Sequence[str]) -> bool:
        return names == COUNT_CLASSES


class Ordered(Family):
    """Ordered classes in a cumulative model: P(y ≤ c) = F(θ_c − w·x), an intercept −θ_c each."""

    is_classifier = False
    has_reference = False

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


FAMILIES = {"binomial": Family, "multinomial": Family, "poisson": Counts, "ordinal": Ordered}


def family_named(name: str, n_classes: int, fit_intercept: bool) -> Family:
    """A family of so many classes; refused where there is no such model."""
    if name not in FAMILIES:
        raise InputError(f"family={short(name)} must be one of {list(FAMILIES)}")
    kind = FAMILIES[name]
    if n_classes < kind.least_classes or (name == "binomial" and n_classes != 2):
        needs = "exactly 2" if name == "binomial" and n_classes > 2 else "at least 2"
        what = f"1 class; check_separability needs {needs}: add rows of another class"
        if n_classes != 1:
            what = f"{n_classes} classes; family={name!r} needs {needs}"
        raise InputError(f"y has {what}")
    if kind is Ordered and not fit_intercept:
        raise InputError(
            "family='ordinal' has a threshold between neighbouring classes in place of an "
            "intercept; fit_intercept=False has no meaning for it"
        )
    return kind(name, n_classes, fit_intercept)
