"""What `check_separability` returns: a kind, an interval, and the proof of both."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.certificate.picture import card
from momentron.errors import InputError
from momentron.separability.class_pairs import (
    BoundaryPair,
    ClassPair,
    list_boundary_pairs,
    list_class_pairs,
    most_separated_first,
    sentence_on_classes,
)
from momentron.separability.designs.design import GivenRows
from momentron.separability.estimate_table import (
    Estimate,
    as_frame,
    family_of,
    list_estimates,
    model_words,
    sentence_for_paper,
    summary_text,
)
from momentron.separability.family import Family
from momentron.verify.errors import UNREADABLE, ProofError, reason
from momentron.verify.limits import load_proof
from momentron.verify.proof import read_interval, whole_numbers
from momentron.views.display import MarginDisplay, MarginDistributionDisplay
from momentron.views.markup import escape, facts_table, rows_table

SENTENCES = {
    "separable": "separable: a hyperplane has every example strictly on its own side",
    "quasi-separable": "quasi-separable: a hyperplane has no example on the wrong side, but none "
    "has every example strictly on its own side",
    "overlapping": "overlapping: every hyperplane, unless all examples lie on it, has an example "
    "on the wrong side",
    "undecided": "undecided: no proof was found within the limits of time and memory",
}
LIKELIHOODS = {  # of models that are not about hyperplanes
    "separable": "separable: along some direction of the coefficients the likelihoods of all "
    "examples tend to 1",
    "quasi-separable": "quasi-separable: along some direction of the coefficients the likelihoods "
    "of some examples rise and none falls, but along no direction do all of them tend to 1",
    "overlapping": "overlapping: along every direction of the coefficients that changes the fit "
    "some example becomes ever less likely, or impossible",
    "undecided": SENTENCES["undecided"],
}
SHOWN = 10  # rows in conflict, or pairs of classes, that a notebook lists


@dataclass(frozen=True)
class ConflictRow:
    """One row of a conflict: its weight is its share of the average of its class.

    Of grouped data a row may take part with several of its outcomes.
    """

    row: int
    label: str
    against: str
    weight: float


@dataclass(frozen=True)
class Verdict:
    """Whether the classes are linearly separable, with a proof that `verify` checks.

    Attributes
    ----------
    kind : {"separable", "quasi-separable", "overlapping", "undecided"}
        Complete separation, quasi-complete separation and overlap, in the statisticians' words.
        With more than two classes they speak of joint separation: weights w_c with
        (w_c − w_j)·x > 0 for every x of class c and every other class j.
    lower, upper : float
        The best margin lies between them, in the units of X: proven, and part of the proof. Both
        are 0 where the classes are not separable.
    proof : dict
        What `to_json` writes; the format is that of docs/proof-format.md.
    seconds : float
    given : GivenRows or None
        The rows that were passed to `check_separability`, which all row numbers of a verdict count,
        from 0: `boundary_rows`, `separated_rows`, `conflict` and `boundary_pairs`. A proof has one
        row per outcome that was seen, which differs for grouped data. Not part of the proof, and
        None where the verdict was read from one: numbers then are those of the proof.
    kind_otherwise : str or None
        The kind in the other reading of decimals; None where that was not decided, as for large
        data. Not part of the proof.
    notes : sequence of str
        What a reader should know about where the data came from. Not part of the proof.
    reason : str or None
        Why the verdict, or the estimates of some coefficients, are undecided and what to do: "time
        ran out after 4 s; pass max_time=60". Not part of the proof.

    Examples
    --------
    >>> from momentron import check_separability
    >>> verdict = check_separability([[0.0], [1.0], [1.0], [2.0]], ["a", "a", "b", "b"])
    >>> verdict.kind, verdict.boundary_rows.tolist()
    ('quasi-separable', [1, 2])
    >>> Verdict.from_json(verdict.to_json()).kind
    'quasi-separable'
    """

    kind: str
    lower: float
    upper: float
    proof: dict[str, Any] = field(repr=False)
    seconds: float = 0.0
    given: GivenRows | None = field(default=None, repr=False, compare=False)
    kind_otherwise: str | None = field(default=None, repr=False, compare=False)
    notes: Sequence[str] = field(default=(), repr=False, compare=False)
    reason: str | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> str:
        """The proof as JSON: numbers in hexadecimal, so that nothing is rounded."""
        return json.dumps(self.proof, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Verdict":
        """Read a proof; `verify` says whether it holds.

        A proof does not know the table that was checked. Row numbers count the rows of the proof,
        one per outcome that was seen in grouped data, and `drop_separated` is not available.
        """
        proof = load_proof(text)
        try:
            with standard_arithmetic():  # else the smallest floats might be read as zero
                kind, ends = proof["kind"], read_interval(proof)
            known = kind in SENTENCES
            family_of(proof)  # refused here where there is no such model
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
        if not known:
            raise ProofError(f"kind={kind!r} must be one of {list(SENTENCES)}")
        return cls(kind, *ends, proof)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return (SENTENCES if self._family.is_classifier else LIKELIHOODS)[self.kind]

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns, where their source has names."""
        names = self.proof.get("names")
        return None if names is None else list(names)

    @property
    def decimals(self) -> str:
        """How floats were read, as "shortest" decimals or as "binary" numbers."""
        return str(self.proof["data"]["decimals"])

    @property
    def caveat(self) -> str | None:
        """A sentence where the verdict depends on the last digit of the floats; else None."""
        if self.kind_otherwise in (None, self.kind):
            return None
        words = {"shortest": "as written in decimals", "binary": "as binary floats"}
        here = self.decimals
        there = "binary" if here == "shortest" else "shortest"
        return (
            f"the verdict rests on differences of 1e-16: {words[here]} the data are {self.kind}, "
            f"{words[there]} {self.kind_otherwise}"
        )

    def row_name(self, row: int) -> Any:
        """What to call a row: its name where it has one, else its number, counted from 0."""
        return row if self.row_names is None else self.row_names[row]

    @property
    def row_names(self) -> Sequence[Any] | None:
        """The index of the data frame that was passed; None where rows have only numbers."""
        return self._rows.names

    @property
    def n_rows(self) -> int:
        """How many rows were passed; those of the proof where that is all that is known."""
        return self._rows.n

    @property
    def _rows(self) -> GivenRows:
        """The rows that were passed; those of the proof where that is all that is known."""
        return self.given or GivenRows(self.proof["data"]["rows"])

    @property
    def estimates(self) -> list[Estimate]:
        """Whether each coefficient is finite, infinite, undetermined or aliased, proven.

        Class by class, each with its columns and then the intercept; with two classes those of the
        second. Empty where the verdict is undecided or no proof was found in time.
        """
        found = list_estimates(self.proof, self.whole_weights())
        if self.reason is None:
            return found
        return [replace(e, reason=self.reason) if e.estimate == "undecided" else e for e in found]

    @property
    def separated_rows(self) -> np.ndarray:
        """The rows whose likelihood tends to 1, which do not determine the finite estimates.

        Positions, not labels, in what was passed: `drop_separated` leaves these rows out. In
        grouped data a row is separated if all outcomes seen in it are, which is possible only where
        a single outcome was seen: two outcomes of one row are on the boundary. Rows of weight 0 are
        never separated. Empty where the verdict is undecided or its proof is not complete.
        """
        return self._rows.of(self._separated())

    def _separated(self) -> np.ndarray:
        """The rows of the proof that are not left out and have no pair on the boundary."""
        if self.kind not in ("separable", "quasi-separable") or not self.proof["complete"]:
            return np.zeros(0, np.int64)
        return np.setdiff1d(self._observed(), self._boundary())

    def _observed(self) -> np.ndarray:
        """The rows of the proof that are not left out."""
        data = self.proof["data"]
        return np.setdiff1d(np.arange(data["rows"]), np.array(data["left_out"], np.int64))

    def left_out_rows(self, *, grouped: bool) -> np.ndarray:
        """The rows of weight 0, of the table that was passed if it is grouped, or of the proof."""
        rows = np.array(self.proof["data"]["left_out"], np.int64)
        if not grouped or not rows.size:
            return rows
        if self.given is None:
            raise InputError(
                "this verdict was read from a proof, which does not know the rows of grouped data; "
                "pass the X and y of read_design"
            )
        return self.given.of(rows)

    def _boundary(self) -> np.ndarray:
        """The rows of the proof that are on the boundary against some class."""
        rows = [i for group in self.proof["boundary"] for i in group["rows"]]
        return np.unique(np.array(rows, np.int64))

    def drop_separated(self, frame: Any) -> Any:
        """The frame that was checked without its separated rows, as a copy.

        A fit of the rows that are left has the finite estimates of the full model, of which it is
        the limit: what goes to ±∞ does not change their likelihood. (Columns that only separated
        rows have are then zero or collinear: leave them out of the fit.)

        Parameters
        ----------
        frame : data frame, series, array or sparse matrix
            With the rows that were passed to `check_separability`, in their order: that frame, or
            others with the same index. Rows are found by position, so that labels may repeat. Rows
            of weight 0, and rows of grouped data without any outcome, stay.

        Returns
        -------
        frame of the same kind

        Examples
        --------
        >>> from momentron import check_separability
        >>> X, y = [[0], [1], [1], [2]], [0, 0, 1, 1]
        >>> check_separability(X, y).drop_separated(X)
        [[1], [1]]
        """
        if self.given is None:
            raise InputError(
                "this verdict was read from a proof, which does not know the table that was "
                "checked; call check_separability on the table, and drop_separated of its verdict"
            )
        if self.kind == "undecided" or not self.proof["complete"]:
            why = self.reason or "pass a larger max_time to check_separability"
            raise InputError(f"which rows are separated is not decided: {why}")
        return self.given.without(frame, self.separated_rows)

    @property
    def observations(self) -> tuple[int, int, str]:
        """(number separated, number in all, "observations" or "rows").

        Observations are counted by frequency: in grouped data each count, and each row as often as
        its weight says. Where these are not whole numbers, so that they are not frequencies, and
        for a verdict that was read from a proof, rows are counted. Rows of weight 0 are not there.
        """
        rows = self._rows
        noun = "rows" if rows.frequencies is None else "observations"
        return rows.counted(self._separated()), rows.counted(self._observed()), noun

    @property
    def dimension(self) -> int | None:
        """The dimension of the cone of directions along which no likelihood falls."""
        return self.proof["estimates"] and self.proof["estimates"]["dimension"]

    @property
    def rank(self) -> int | None:
        """The rank of the design, the intercept included; None where it is not proven."""
        return self.proof["estimates"] and self.proof["estimates"]["rank"]

    @property
    def paper_sentence(self) -> str:
        """What happened to which estimates, in a sentence for a paper."""
        n_separated, n, noun = self.observations
        sentence = sentence_for_paper(self.proof, self.estimates, n_separated, n, noun)
        if self.reason is None:
            return sentence
        if self.kind == "undecided":
            return f"{sentence} Reason: {self.reason}."
        what = "Some estimates are" if self.estimates else "The estimates are"
        return f"{sentence} {what} undecided: {self.reason}."

    def to_frame(self) -> Any:
        """The estimates as a pandas data frame with columns class, feature and estimate."""
        return as_frame(self.estimates)

    def summary(self, format: str = "text") -> str:
        """The sentence for a paper and the table of estimates, as text, LaTeX or HTML."""
        return summary_text(
            self.paper_sentence, self.estimates, format, self.classes_sentence, self.notes
        )

    @property
    def arithmetic(self) -> str:
        """ "exact", or "enclosure" where weights are proven to exist near those given."""
        return "enclosure" if self.proof["basis"] else "exact"

    @property
    def is_separable(self) -> bool:
        return self.kind == "separable"

    @property
    def family(self) -> str:
        """ "binomial", "multinomial", "ordinal", "poisson" or another family of counts."""
        return str(self.proof["family"])

    @property
    def link(self) -> str:
        """The link of the model, such as "logit" or "log"."""
        return str(self.proof["link"])

    @property
    def model(self) -> str:
        """What the estimates are of: "logistic regression (binomial model with logit link)"."""
        return model_words(self.proof)

    @property
    def event(self) -> str | None:
        """The class whose probability is exp(η), or 1 − exp(η), with the links log and logc."""
        return self.classes[1] if self._family.has_event else None

    @property
    def classes(self) -> list[str]:
        """The labels; the first has weights 0."""
        return list(self.proof["data"]["classes"])

    @property
    def boundary_rows(self) -> np.ndarray:
        """The rows of X that lie on every hyperplane that has no example on the wrong side.

        With three classes or more: that do so against one other class at least; `boundary_pairs`
        says which. All such rows where the proof is complete, which it is for all but very large
        data.
        """
        return self._rows.of(self._boundary())

    @property
    def boundary_pairs(self) -> list[BoundaryPair]:
        """(row, its class, the class against which it is on the boundary) of all boundary pairs.

        Along every direction without errors the odds of the two classes stay as they are on such a
        row; all other pairs are strict along the direction of the proof, where that is complete.
        Ordered classes are compared with their neighbours. Empty for counts and for the links log
        and logc, which compare no classes, and where a proof does not hold the classes.
        """
        found = list_boundary_pairs(self.proof, self._family)
        rows = self._rows.each_of(np.array([pair.row for pair in found], np.int64)).tolist()
        return [pair._replace(row=row) for pair, row in zip(found, rows, strict=True)]

    @property
    def as_proof(self) -> "Verdict":
        """The same verdict with row numbers that count the rows of the proof."""
        return replace(self, given=None)

    @property
    def class_pairs(self) -> list[ClassPair]:
        """For every two classes whether the joint model separates them, with counts of examples.

        What is separable there is so without the other classes, too, and what overlaps without
        them overlaps there; but the joint model may be unable to separate two classes that are
        separable by themselves. Ordered classes are compared with their neighbours. Empty where
        `boundary_pairs` cannot be known.

        Examples
        --------
        >>> from momentron import check_separability
        >>> verdict = check_separability([[0], [2], [1], [9]], ["a", "a", "b", "c"])
        >>> [(pair.first, pair.second, pair.kind) for pair in verdict.class_pairs]
        [('a', 'b', 'overlapping'), ('a', 'c', 'separable'), ('b', 'c', 'separable')]
        """
        return list_class_pairs(self.proof, self._family)

    @property
    def classes_sentence(self) -> str:
        """Which classes separate from which; empty where the verdict says it of all alike."""
        if self.kind != "quasi-separable" or len(self.classes) < 3:
            return ""
        return sentence_on_classes(self.class_pairs)

    @property
    def coef(self) -> np.ndarray:
        """Weights as floats, of shape (classes − 1, d); those of the first class are 0."""
        return self._weights()[:, : self.proof["data"]["features"]]

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts as floats, of shape (classes − 1,); minus the thresholds of ordinal models."""
        weights, d = self._weights(), self.proof["data"]["features"]
        return weights[:, d:].ravel() if weights.shape[1] > d else np.zeros(len(weights))

    def _weights(self) -> np.ndarray:
        width = self.proof["data"]["features"] + self._family.n_intercepts
        weights = np.zeros(self._family.n_blocks * width)
        found = self.whole_weights()
        top = max(map(abs, found.values()), default=1)
        for place, v in found.items():
            weights[place] = v / top
        return weights.reshape(-1, width)

    def whole_weights(self) -> dict[int, int]:
        """The weights that are not zero, in whole numbers, by their place among all of them."""
        found = self.proof["weights"]
        numbers = whole_numbers(found["numbers"])
        return {place: v for place, v in zip(found["coordinates"], numbers, strict=True) if v}

    @property
    def _family(self) -> Family:
        return family_of(self.proof)

    @property
    def conflict(self) -> list[ConflictRow]:
        """Few rows whose weighted class averages coincide; empty where none are known."""
        rows = []
        for group in self.proof["conflict"]:
            numerators = whole_numbers(group["numerators"])
            sides = list(zip(group["labels"], group["against"], strict=True))
            masses = Counter[tuple[str, str]]()
            for side, v in zip(sides, numerators, strict=True):
                masses[side] += v
            given = self._rows.each_of(np.array(group["rows"], np.int64)).tolist()
            for i, side, v in zip(given, sides, numerators, strict=True):
                rows.append(ConflictRow(i, *side, v / masses[side]))
        return rows

    def plot(self, X: Any, y: Any, *, ax: Any = None, **options: Any) -> Any:
        """Draw what fits these data; needs the extra `plot` (matplotlib).

        With two features, or where the classes overlap: the rows in two dimensions, with the
        hyperplane, or with the rows that rule one out. Otherwise how far the rows are from the
        hyperplane. Returns a MarginDisplay or a MarginDistributionDisplay.
        """
        is_flat = np.shape(X)[1] == 2 or not self.coef.any()
        fitting = MarginDisplay if is_flat else MarginDistributionDisplay
        return fitting.from_verdict(self, X, y, ax=ax, **options)

    def _repr_html_(self) -> str:
        data = self.proof["data"]
        facts = {
            "rows × features": f"{self.n_rows} × {data['features']}",
            "model": self.model,
            "classes": ", ".join(self.classes[:12]),
            "intercept": "yes" if self.proof["fit_intercept"] else "no",
            "proof": f"{self.arithmetic} arithmetic",
            "digest of the data (SHA-256)": data["sha256"],
            "seconds": f"{self.seconds:.3f}",
        }
        parts = [facts_table(facts), *(f"<div>{escape(note)}</div>" for note in self.notes)]
        if self.classes_sentence:
            parts.append(self._classes_markup())
        if self.conflict:
            names = ("row", "class", "against", "weight")
            heaviest = sorted(self.conflict, key=lambda s: -s.weight)[:SHOWN]
            rows = [(self.row_name(s.row), s.label, s.against, s.weight) for s in heaviest]
            words = f"{len(self.conflict)} rows in conflict: their weighted class averages coincide"
            parts.append(f"<div>{words}</div>" + rows_table(names, rows))
        return card("Verdict", escape(self.sentence), self.lower, self.upper, *parts)

    def _classes_markup(self) -> str:
        """The table of classes that separate, or do not."""
        pairs = most_separated_first(self.class_pairs)
        left = len(pairs) - SHOWN
        words = "classes in the joint model" + (f", and {left} more pairs" if left > 0 else "")
        names = ("class", "and", "kind", "examples on the boundary")
        rows = [(p.first, p.second, p.kind, sum(p.boundary)) for p in pairs[:SHOWN]]
        return f"<div>{words}</div>" + rows_table(names, rows)

    def __repr__(self) -> str:
        upper = "inf" if math.isinf(self.upper) else f"{self.upper:.12g}"
        return (
            f"Verdict: {self.sentence}\n"
            f"  best margin in [{self.lower:.12g}, {upper}], proof by {self.arithmetic} "
            f"arithmetic, {self.seconds:.3f} s\n  model: {self.model}"
            + "".join(f"\n  {words}" for words in (self.caveat, *self.notes) if words)
        )
