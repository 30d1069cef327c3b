"""What `check_separability` returns: a kind, an interval, and the proof of both."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.display import MarginDisplay, MarginDistributionDisplay
from momentron.markup import card, escape, facts_table, rows_table
from momentron.verify.errors import UNREADABLE, ProofError, reason
from momentron.verify.format import load_proof, read_interval
from momentron.verify.numbers import whole_numbers

SENTENCES = {
    "separable": "separable: a hyperplane has every example strictly on its own side",
    "quasi-separable": "quasi-separable: a hyperplane has no example on the wrong side, but none "
    "has every example strictly on its own side",
    "overlapping": "overlapping: every hyperplane, unless all examples lie on it, has an example "
    "on the wrong side",
    "undecided": "undecided: no proof was found within the limits of time and memory",
}
SHOWN = 10  # rows in conflict that a notebook lists


@dataclass(frozen=True)
class ConflictRow:
    """One row of a conflict: its weight is its share of the average of its class."""

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

    def to_json(self) -> str:
        """The proof as JSON: numbers in hexadecimal, so that nothing is rounded."""
        return json.dumps(self.proof, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Verdict":
        """Read a proof; `verify` says whether it holds."""
        proof = load_proof(text)
        try:
            kind, ends = proof["kind"], read_interval(proof)
            known = kind in SENTENCES
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
        if not known:
            raise ProofError(f"kind={kind!r} must be one of {list(SENTENCES)}")
        return cls(kind, *ends, proof)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return SENTENCES[self.kind]

    @property
    def arithmetic(self) -> str:
        """ "exact", or "enclosure" where weights are proven to exist near those given."""
        return "enclosure" if self.proof["basis"] else "exact"

    @property
    def is_separable(self) -> bool:
        return self.kind == "separable"

    @property
    def classes(self) -> list[str]:
        """The labels; the first has weights 0."""
        return list(self.proof["data"]["classes"])

    @property
    def boundary_rows(self) -> np.ndarray:
        """The rows of X that lie on every hyperplane that has no example on the wrong side.

        All such rows where the proof is complete, which it is for all but very large data.
        """
        rows = {i for group in self.proof["boundary"] for i in group["rows"]}
        return np.array(sorted(rows), np.int64)

    @property
    def coef(self) -> np.ndarray:
        """Weights as floats, of shape (classes − 1, d): those of the first class are 0."""
        return self._weights()[:, : self.proof["data"]["features"]]

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts as floats, of shape (classes − 1,)."""
        weights, d = self._weights(), self.proof["data"]["features"]
        return weights[:, d] if weights.shape[1] > d else np.zeros(len(weights))

    def _weights(self) -> np.ndarray:
        width = self.proof["data"]["features"] + bool(self.proof["fit_intercept"])
        weights = np.zeros((len(self.classes) - 1) * width)
        found = self.whole_weights()
        top = max(map(abs, found.values()), default=1)
        for place, v in found.items():
            weights[place] = v / top
        return weights.reshape(-1, width)

    def whole_weights(self) -> dict[int, int]:
        """The weights that are not zero, in whole numbers, by their place among all of them."""
        found = self.proof["weights"]
        if isinstance(found, dict):  # from version 2 of the format
            places, texts = found["coordinates"], found["numbers"]
        else:
            places, texts = range(len(found)), found
        return {place: v for place, v in zip(places, whole_numbers(texts), strict=True) if v}

    @property
    def conflict(self) -> list[ConflictRow]:
        """Few rows whose weighted class averages coincide; empty where none are known."""
        rows = []
        for group in self.proof["conflict"]:
            numerators = whole_numbers(group["numerators"])
            sides = list(zip(group["labels"], group["against"], strict=True))
            masses: dict[tuple[str, str], int] = {}
            for side, v in zip(sides, numerators, strict=True):
                masses[side] = masses.get(side, 0) + v
            for i, side, v in zip(group["rows"], sides, numerators, strict=True):
                rows.append(ConflictRow(int(i), *side, v / masses[side]))
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
            "rows × features": f"{data['rows']} × {data['features']}",
            "classes": ", ".join(self.classes[:12]),
            "intercept": "yes" if self.proof["fit_intercept"] else "no",
            "proof": f"{self.arithmetic} arithmetic",
            "digest of the data (SHA-256)": data["sha256"],
            "seconds": f"{self.seconds:.3f}",
        }
        parts = [facts_table(facts)]
        if self.conflict:
            names = ("row", "class", "against", "weight")
            heaviest = sorted(self.conflict, key=lambda s: -s.weight)[:SHOWN]
            rows = [(s.row, s.label, s.against, s.weight) for s in heaviest]
            words = f"{len(self.conflict)} rows in conflict: their weighted class averages coincide"
            parts.append(f"<div>{words}</div>" + rows_table(names, rows))
        return card("Verdict", escape(self.sentence), self.lower, self.upper, *parts)

    def __repr__(self) -> str:
        upper = "inf" if math.isinf(self.upper) else f"{self.upper:.12g}"
        return (
            f"Verdict: {self.sentence}\n"
            f"  best margin in [{self.lower:.12g}, {upper}], proof by {self.arithmetic} "
            f"arithmetic, {self.seconds:.3f} s"
        )
