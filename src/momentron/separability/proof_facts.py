"""What a verified proof says of its coefficients, rows and classes.

A row of class c makes a pair (row, j) with each other class j. A proof shows two things of pairs:
those with s > 0 along its w are *strict*; those with weight in Σ q a = 0 have s = 0 along every w
without errors, and are *on the boundary*. A complete proof leaves none open, so that counting both
tells which classes are separated; docs/explanations/separation.md says why.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from momentron.errors import InputError
from momentron.separability.designs.design import GivenRows
from momentron.separability.family import Family, link_of
from momentron.solvers.rational import primitive
from momentron.verify.proof import whole_numbers


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


class BoundaryPair(NamedTuple):
    """A row that no hyperplane without errors has strictly on its side against some class."""

    row: int
    label: str
    against: str


@dataclass(frozen=True)
class ClassPair:
    """Two classes in a joint model, and whether it separates them.

    Attributes
    ----------
    first, second : str
    kind : {"separable", "quasi-separable", "overlapping", "undecided"}
        "separable": weights without errors have every example of the two strictly on its own side.
        "quasi-separable": some examples of the two at most, whatever the weights without errors.
        "overlapping": along none of them do the odds of the two classes change on any example of
        either. "undecided": the proof is not complete.
    strict : (int, int) or None
        How many examples of the first class are strictly on their side against the second along
        the direction of the proof, and of the second against the first; None where undecided.
    boundary : (int, int)
        How many are on the boundary along every direction without errors.
    """

    first: str
    second: str
    kind: str
    strict: tuple[int, int] | None
    boundary: tuple[int, int]


@dataclass(frozen=True)
class ConflictRow:
    """One row of a conflict: its weight is its share of the average of its class.

    Of grouped data a row may take part with several of its outcomes.
    """

    row: int
    label: str
    against: str
    weight: float


class ProofFacts:
    """What is read off a proof, a dict in the format of docs/proof-format.md."""

    proof: dict[str, Any]
    given: GivenRows | None
    reason: str | None

    @property
    def family(self) -> str:
        """ "binomial", "multinomial", "ordinal", "poisson" or another family of counts."""
        return str(self.proof["family"])

    @property
    def link(self) -> str:
        """The link of the model, such as "logit" or "log"."""
        return str(self.proof["link"])

    @property
    def classes(self) -> list[str]:
        """The labels; the first has weights 0."""
        return list(self.proof["data"]["classes"])

    @property
    def _family(self) -> Family:
        """The model of the proof; refused if there is no such model."""
        link = link_of(self.proof["family"], self.proof["link"])
        return Family(self.family, link, self.classes, self.proof["fit_intercept"])

    @property
    def event(self) -> str | None:
        """The class whose probability is exp(η), or 1 − exp(η), with the links log and logc."""
        return self.classes[1] if self._family.has_event else None

    @property
    def decimals(self) -> str:
        """How floats were read, as "shortest" decimals or as "binary" numbers."""
        return str(self.proof["data"]["decimals"])

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns, where their source has names."""
        names = self.proof.get("names")
        return None if names is None else list(names)

    @property
    def feature_labels(self) -> list[str]:
        """The names of the columns, "column 0" and so on where they have none."""
        return self.feature_names or [f"column {j}" for j in range(self.n_features)]

    @property
    def n_features(self) -> int:
        """How many columns X has."""
        return int(self.proof["data"]["features"])

    @property
    def arithmetic(self) -> str:
        """ "exact", or "enclosure" where weights are proven to exist near those given."""
        return "enclosure" if self.proof["basis"] else "exact"

    @property
    def dimension(self) -> int | None:
        """The dimension of the cone of directions along which no likelihood falls."""
        return self.proof["estimates"] and self.proof["estimates"]["dimension"]

    @property
    def rank(self) -> int | None:
        """The rank of the design, the intercept included; None where it is not proven."""
        return self.proof["estimates"] and self.proof["estimates"]["rank"]

    # --- weights and coefficients ----------------------------------------------------------------

    def whole_weights(self) -> dict[int, int]:
        """The weights that are not zero, in whole numbers, by their place among all of them."""
        found = self.proof["weights"]
        numbers = whole_numbers(found["numbers"])
        return {place: v for place, v in zip(found["coordinates"], numbers, strict=True) if v}

    @property
    def coef(self) -> np.ndarray:
        """Weights as floats, of shape (classes − 1, d); those of the first class are 0."""
        return self._weights()[:, : self.n_features]

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts as floats, of shape (classes − 1,); minus the thresholds of ordinal models."""
        found = self._weights()[:, self.n_features :]
        return found.ravel() if found.size else np.zeros(len(found))

    def _weights(self) -> np.ndarray:
        width = self.n_features + self._family.n_intercepts
        weights = np.zeros(self._family.n_blocks * width)
        found = self.whole_weights()
        top = max(map(abs, found.values()), default=1)
        weights[list(found)] = [v / top for v in found.values()]
        return weights.reshape(-1, width)

    @property
    def estimates(self) -> list[Estimate]:
        """Whether each coefficient is finite, infinite, undetermined or aliased, proven.

        Class by class, each with its columns and then the intercept; with two classes those of the
        second. Empty where the verdict is undecided or no proof was found in time.
        """
        section, d, classes = self.proof["estimates"], self.n_features, self.classes
        if section is None:
            return []
        family, weights = self._family, self.whole_weights()
        last = "threshold" if family.has_thresholds else "intercept"
        features = [*self.feature_labels, *[last] * family.n_intercepts]
        used = range(d) if section["used"] is None else section["used"]
        empty = {*range(d)} - {*used}  # columns that are zero in every row
        aliases = {column: {features[column]: 1} for column in empty}
        aliases |= _aliases(section["aliases"], [*used, *range(d, len(features))], features)
        statuses, found = iter(section["status"]), []
        for c, column, form in family.coefficients(d, section["reference"]):
            label = classes[c] if family.is_classifier or family.has_event else ""
            if family.has_thresholds and column >= d:
                label = f"{classes[column - d]}|{classes[column - d + 1]}"
            status, sign = "aliased" if column in empty else next(statuses), None
            if status == "undetermined" and self.proof["kind"] == "separable":
                along = sum(v * weights.get(at, 0) for at, v in form.items())
                sign = (along > 0) - (along < 0)
            alias = aliases.get(column) if status == "aliased" else None
            reason = self.reason if status == "undecided" else None
            found.append(Estimate(label, features[column], status, sign, alias, reason))
        return found

    # --- rows ------------------------------------------------------------------------------------

    @property
    def _rows(self) -> GivenRows:
        """The rows that were passed; those of the proof where that is all that is known."""
        return self.given or GivenRows(self.proof["data"]["rows"])

    @property
    def n_rows(self) -> int:
        """How many rows were passed."""
        return self._rows.n

    @property
    def row_names(self) -> Sequence[Any] | None:
        """The index of the data frame that was passed; None where rows have only numbers."""
        return self._rows.names

    def row_name(self, row: int) -> Any:
        """The label of a row: its name where it has one, else its number, counted from 0."""
        return row if self.row_names is None else self.row_names[row]

    @property
    def boundary_rows(self) -> np.ndarray:
        """The rows of X that lie on every hyperplane that has no example on the wrong side.

        With three classes or more: that do so against one other class at least; `boundary_pairs`
        says which. All such rows where the proof is complete, which it is for all but very large
        data.
        """
        return self._rows.of(self._boundary_rows())

    def _boundary_rows(self) -> np.ndarray:
        """Those of the proof, one for each pair."""
        return np.array([i for group in self.proof["boundary"] for i in group["rows"]], np.int64)

    @property
    def separated_rows(self) -> np.ndarray:
        """The rows whose likelihood tends to 1, which do not determine the finite estimates.

        Positions, not labels, in what was passed: `drop_separated` leaves these rows out. In
        grouped data a row is separated if all outcomes seen in it are, which is possible only where
        a single outcome was seen: two outcomes of one row are on the boundary. Rows of weight 0 are
        never separated. Empty where the verdict is undecided or its proof is not complete.
        """
        return self._rows.of(self._separated_and_observed()[0])

    def _separated_and_observed(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the proof without any pair on the boundary, and all that are not left out."""
        data, is_split = self.proof["data"], self.proof["kind"] in ("separable", "quasi-separable")
        observed = np.setdiff1d(np.arange(data["rows"]), np.array(data["left_out"], np.int64))
        if not (is_split and self.proof["complete"]):
            return observed[:0], observed
        return np.setdiff1d(observed, self._boundary_rows()), observed

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
        if not self.proof["complete"]:
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
        noun = "rows" if self._rows.frequencies is None else "observations"
        n_separated, n = map(self._rows.counted, self._separated_and_observed())
        return n_separated, n, noun

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

    # --- pairs of a row and a class, and of two classes ------------------------------------------

    @property
    def boundary_pairs(self) -> list[BoundaryPair]:
        """(row, its class, the class against which it is on the boundary) of all boundary pairs.

        Along every direction without errors the odds of the two classes stay as they are on such a
        row. Ordered classes are compared with their neighbours. Empty for counts and for the links
        log and logc, which compare no classes, and where a proof does not hold the classes.
        """
        known, classes = self.proof.get("class_rows"), self.classes
        if known is None or not self._family.compares_classes:
            return []
        rows = self._boundary_rows()
        own = dict(zip(np.unique(rows).tolist(), known["boundary"], strict=True))
        found = set[tuple[int, int]]()
        for group in self.proof["boundary"]:
            # of two classes the other one is known
            others = group.get("others") or [1 - own[i] for i in group["rows"]]
            found |= {*zip(group["rows"], others, strict=True)}
        given = dict(zip(rows.tolist(), self._rows.each_of(rows).tolist(), strict=True))
        return [BoundaryPair(given[i], classes[own[i]], classes[j]) for i, j in sorted(found)]

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
        known, classes = self.proof.get("class_rows"), self.classes
        if known is None or not self._family.compares_classes:
            return []
        counts = dict(zip(classes, known["counts"], strict=True))
        on = Counter((pair.label, pair.against) for pair in self.boundary_pairs)
        found = []
        for c, first in enumerate(classes):
            for second in (classes[j] for j in self._family.pairs(c) if j > c):
                boundary = on[first, second], on[second, first]
                kind, strict = "undecided", None
                if self.proof["complete"]:
                    strict = counts[first] - boundary[0], counts[second] - boundary[1]
                    kind = "quasi-separable" if any(strict) else "overlapping"
                    kind = kind if any(boundary) else "separable"
                found.append(ClassPair(first, second, kind, strict, boundary))
        return found


def _aliases(
    flat: dict[str, Any], columns: list[int], names: list[str]
) -> dict[int, dict[str, int]]:
    """For each column, the shortest combination that sums to zero, with its factors."""
    found = dict[int, dict[str, int]]()
    for begin, end in pairwise(flat["starts"]):
        own = [columns[p] for p in flat["coordinates"][begin:end]]
        numbers = primitive(whole_numbers(flat["numbers"][begin:end]))
        combination = {names[c]: v for c, v in zip(own, numbers, strict=True)}
        for c in own:
            if c not in found or len(combination) < len(found[c]):
                found[c] = combination
    return found
