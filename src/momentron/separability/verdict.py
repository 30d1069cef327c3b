"""What `check_separability` returns: a kind, an interval, and the proof of both."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from momentron.arithmetic.environment import standard_arithmetic
from momentron.certificate.picture import card
from momentron.errors import InputError, short
from momentron.separability.designs.design import GivenRows
from momentron.separability.proof_facts import ProofFacts
from momentron.separability.sentences import (
    CITED,
    WORDS,
    in_latex,
    model_words,
    sentence_on_classes,
    sentence_on_estimates,
)
from momentron.verify.errors import UNREADABLE, ProofError, reason
from momentron.verify.limits import load_proof
from momentron.verify.proof import read_interval
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
LIKELIHOODS = SENTENCES | {  # of models that are not about hyperplanes
    "separable": "separable: along some direction of the coefficients the likelihoods of all "
    "examples tend to 1",
    "quasi-separable": "quasi-separable: along some direction of the coefficients the likelihoods "
    "of some examples rise and none falls, but along no direction do all of them tend to 1",
    "overlapping": "overlapping: along every direction of the coefficients that changes the fit "
    "some example becomes ever less likely, or impossible",
}
SHOWN = 10  # rows in conflict that a notebook lists


@dataclass(frozen=True)
class Verdict(ProofFacts):
    """Whether the classes are linearly separable, with a proof that `verify` checks.

    Attributes
    ----------
    kind : {"separable", "quasi-separable", "overlapping", "undecided"}
        Complete separation, quasi-complete separation and overlap, as statisticians call them.
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
                found = cls(proof["kind"], *read_interval(proof), proof)
            is_known = found.kind in SENTENCES and found._family is not None
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
        if not is_known:
            raise ProofError(f"kind={found.kind!r} must be one of {list(SENTENCES)}")
        return found

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return (SENTENCES if self._family.is_classifier else LIKELIHOODS)[self.kind]

    @property
    def caveat(self) -> str | None:
        """A sentence where the verdict depends on the last digit of the floats; else None."""
        if self.kind_otherwise in (None, self.kind):
            return None
        here, there = "as written in decimals", "as binary floats"
        if self.decimals == "binary":
            here, there = there, here
        return (
            f"the verdict rests on differences of 1e-16: {here} the data are {self.kind}, "
            f"{there} {self.kind_otherwise}"
        )

    @property
    def paper_sentence(self) -> str:
        """What happened to which estimates, in a sentence for a paper."""
        cited, estimates = CITED.get((self.family, self.link)), self.estimates
        sentence = f"The data {WORDS[self.kind]}"
        if self.kind == "undecided":
            sentence = "It is undecided whether the data are separated"
        elif cited:
            sentence += f" ({cited})"
        on_estimates = sentence_on_estimates(estimates)
        sentence += f"{':' if on_estimates else ''} in the {self.model} {on_estimates}".rstrip()
        sentences = [f"{sentence}."]
        n_separated, n, noun = self.observations
        if n_separated:  # of three classes or more a row may be separated from some classes only
            verb = "is" if n_separated == 1 else "are"
            sentences.append(f"{n_separated:,} of {n:,} {noun} {verb} separated.")
        if self.kind == "undecided" and self.reason:
            sentences.append(f"Reason: {self.reason}.")
        elif self.reason:
            what = "Some estimates are" if estimates else "The estimates are"
            sentences.append(f"{what} undecided: {self.reason}.")
        return " ".join(sentences)

    def to_frame(self) -> Any:
        """The estimates as a pandas data frame with columns class, feature and estimate."""
        import pandas as pd  # slow to import

        rows = [(e.label, e.feature, e.estimate, e.reason) for e in self.estimates]
        frame = pd.DataFrame(rows, columns=["class", "feature", "estimate", "reason"])
        return frame if frame["reason"].notna().any() else frame.drop(columns="reason")

    def summary(self, format: str = "text") -> str:
        """The sentence for a paper and the table of estimates, as text, LaTeX or HTML."""
        if format not in ("text", "latex", "html"):
            raise InputError(f"format={short(format)} must be 'text', 'latex' or 'html'")
        lines = [self.paper_sentence, *self._remarks]
        if format == "latex":
            caption = in_latex(" ".join(lines))
            table = self.to_frame().to_latex(index=False, caption=caption, escape=True)
            return str(table).replace("+inf", r"$+\infty$").replace("-inf", r"$-\infty$")
        if format == "html":
            above = "".join(f"<p>{escape(line)}</p>\n" for line in lines)
            return f"{above}{self.to_frame().to_html(index=False)}"
        rows = [("class", "feature", "estimate")]
        rows += [(e.label, e.feature, e.words) for e in self.estimates]
        if len(rows) > 1:
            widths = [max(len(row[i]) for row in rows) for i in range(2)]
            lines += ["", *(f"{c:<{widths[0]}}  {f:<{widths[1]}}  {e}" for c, f, e in rows)]
        return "\n".join(lines)

    @property
    def is_separable(self) -> bool:
        return self.kind == "separable"

    @property
    def model(self) -> str:
        """What the estimates are of: "logistic regression (binomial model with logit link)"."""
        return model_words(self.family, self.link, self.event)

    @property
    def as_proof(self) -> "Verdict":
        """The same verdict with row numbers that count the rows of the proof."""
        return replace(self, given=None)

    @property
    def classes_sentence(self) -> str:
        """Which classes separate from which; empty where the verdict says it of all alike."""
        if self.kind != "quasi-separable" or len(self.classes) < 3:
            return ""
        return sentence_on_classes(self.class_pairs)

    @property
    def _remarks(self) -> list[str]:
        """What is said besides the sentence for a paper."""
        found = (self.classes_sentence, *self.notes)
        return [f"{words[0].upper()}{words[1:]}." for words in found if words]

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
            "rows × features": f"{self.n_rows} × {self.n_features}",
            "model": self.model,
            "classes": ", ".join(self.classes[:12]),
            "intercept": "yes" if self.proof["fit_intercept"] else "no",
            "proof": f"{self.arithmetic} arithmetic",
            "digest of the data (SHA-256)": data["sha256"],
            "seconds": f"{self.seconds:.3f}",
        }
        parts = [facts_table(facts), *(f"<div>{escape(words)}</div>" for words in self._remarks)]
        if self.conflict:
            names = ("row", "class", "against", "weight")
            heaviest = sorted(self.conflict, key=lambda s: -s.weight)[:SHOWN]
            named = [(self.row_name(s.row), s.label, s.against, s.weight) for s in heaviest]
            words = f"{len(self.conflict)} rows in conflict: no hyperplane separates them strictly"
            parts.append(f"<div>{words}</div>" + rows_table(names, named))
        return card("Verdict", escape(self.sentence), self.lower, self.upper, *parts)

    def __repr__(self) -> str:
        upper = "inf" if math.isinf(self.upper) else f"{self.upper:.12g}"
        return (
            f"Verdict: {self.sentence}\n"
            f"  best margin in [{self.lower:.12g}, {upper}], proof by {self.arithmetic} "
            f"arithmetic, {self.seconds:.3f} s\n  model: {self.model}"
            + "".join(f"\n  {words}" for words in (self.caveat, *self.notes) if words)
        )
