"""`check_separability`: floats propose, whole numbers prove, and the verifier has the last word."""

import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, deadline, until
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.threads import one_thread
from momentron.data.arguments import as_flag, require_choice, seconds_of
from momentron.data.exactness.decimals import READINGS, is_rounded
from momentron.separability.cone import Cone
from momentron.separability.designs import Design, read_design
from momentron.separability.document import build_proof, empty_proof
from momentron.separability.estimate_prover import LATE, EstimateProver, why
from momentron.separability.exact_weights import (
    ExactWeights,
    Span,
    boundary_weights,
    circuit_conflict,
    duplicate_conflict,
    exact_direction,
    exact_pair,
    one_sided_column,
)
from momentron.separability.family import Family
from momentron.separability.interval import Interval, first_interval, margin_interval
from momentron.separability.projection import DIRECTION_BITS, NotFound, Proposal, propose
from momentron.separability.sentences import notes_on_classes
from momentron.separability.verdict import Verdict
from momentron.solvers.rational import TooLarge
from momentron.verify import ProofError, ProofTooLarge, check_document
from momentron.verify.exact_table import Table
from momentron.verify.limits import LONGEST_NAME, load_proof
from momentron.verify.outcomes import label_texts
from momentron.verify.proof import Proof, read_interval

LARGE = 1_000  # rows and columns above which `max_margin` is asked first
GRACE = 0.4  # seconds beyond the budget, for reading the data and for closing
ESTIMATES_SECONDS = 4.0  # for the estimates of the coefficients, unless `max_time` says how long
FEW_ENTRIES = 200_000  # of X up to which the other reading of decimals is tried, too
OTHER_SECONDS = 1.0  # for that, and of the first reading
ROUNDING = 2.0**-48  # margins above this share of the longest row do not rest on roundings


def check_separability(
    X: Any,
    y: Any = None,
    *,
    data: Any = None,
    fit_intercept: bool = True,
    family: str | None = None,
    link: str | None = None,
    order: Sequence[Any] | None = None,
    sample_weight: Any = None,
    decimals: str = "shortest",
    reference: Any = None,
    feature_names: Sequence[str] | None = None,
    estimates: bool = True,
    max_time: float | None = None,
) -> Verdict:
    """Decide whether a hyperplane separates the classes, and prove the answer.

    Either some w has y_i (w·x_i + b) > 0 on every row (separable), or some w has ≥ 0 everywhere and
    > 0 somewhere (quasi-separable), or none has (overlapping). Numbers are taken as exact
    rationals, so that exactly one of these holds; no tolerance is involved.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d); a formula; a model of statsmodels
        Categories of a pandas frame become dummies, one per level but the first. A formula such as
        "y ~ C(treat) * dose" needs `data` and the extra `formula`; "successes + failures ~ dose"
        has counts on its left side. A result of statsmodels stands for its model.
    y : array of shape (n,), or counts of shape (n, k)
        Two or more classes; more than two are separated jointly, by weights w_c per class with
        (w_c − w_j)·x + b_c − b_j > 0 for every x of class c and every j ≠ c. Of counts, two columns
        are successes and failures, three or more the classes.
    data : pandas data frame, optional
        For a formula; `sample_weight` may then be the name of a column.
    fit_intercept : bool
        Whether hyperplanes may miss the origin; a formula or model without an intercept has none.
    family : {"binomial", "multinomial", "poisson", "negative-binomial", "truncated-poisson", \
"ordinal"}, optional
        The model whose likelihood is meant; by default binomial for two classes and multinomial for
        more. "poisson": counts or other numbers ≥ 0, of which only y = 0 and y > 0 matter, and
        "negative-binomial" likewise. "truncated-poisson": counts without zeros, y = 1 or y > 1.
        "ordinal": classes in order, in a cumulative model; numbers are ordered by value, an ordered
        pandas categorical as it says, other labels by `order`.
    link : str, optional
        "logit" by default, and "log" for counts. Binomial and ordinal models: "logit", "probit",
        "cloglog", "loglog", "cauchit", or "cdf" for the inverse of any other continuous
        distribution function that increases on the whole line; all of these have the same answer.
        Binomial models also "log", P(event) = exp(η), and "logc", P(event) = 1 − exp(η), whose
        answers are different ones; the event is the class that is not `reference`. Estimates with
        other links (identity, square root, …) follow other rules, and are refused.
    order : sequence of labels, optional
        For family="ordinal": every label once, from the lowest to the highest.
    sample_weight : array of shape (n,), optional
        Rows of weight 0 count as if they were not there; the others count alike.
    decimals : {"shortest", "binary"}
        How the floats in X are meant: as the shortest decimals that print as them, so that 0.1 is a
        tenth; or as the binary numbers that they are.
    reference : label, optional
        The class with which the coefficients of the others are contrasted; the first by default.
        Which estimates are finite depends on it, the kind does not, unless the link is "log" or
        "logc".
    feature_names : sequence of str, optional
        Of the columns of X; those of a frame, a formula or a model by default.
    estimates : bool
        Whether to find out, and prove, which coefficients have finite estimates.
    max_time : float, optional
        Seconds; where they end first the verdict is "undecided". What the decision leaves goes to
        the estimates, until all are decided; without it they take four seconds at most. Data with
        more than about 3,000 independent features, or that need more than 2 GB of memory, may be
        undecided without it.

    Returns
    -------
    Verdict
        Its JSON has passed `momentron.verify` on these data; the interval of an "undecided" verdict
        too. Only where the time ends before the data are read is there nothing to verify: the
        interval is then [0, ∞].

    Notes
    -----
    Projections onto the cone of the rows propose which of them are on the boundary, at some d³
    flops and a few passes over X; one system of d equations in whole numbers makes the proposal
    exact. Where floats see too little, the projections are made in rational arithmetic.

    References
    ----------
    Albert, Anderson (1984), *On the existence of maximum likelihood estimates in logistic
    regression models*, Biometrika 71. Schwendinger, Grün, Hornik (2021), *A comparison of
    optimization solvers for log binomial regression including conic programming*, Computational
    Statistics 36. Lawson, Hanson (1974), *Solving least squares problems*, chapter 23.

    Examples
    --------
    >>> check_separability([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]).kind
    'overlapping'
    >>> check_separability([[0.0], [5e-324]], ["a", "b"]).kind
    'separable'
    """
    start = time.perf_counter()
    fit_intercept = as_flag("fit_intercept", fit_intercept)
    require_choice("decimals", decimals, READINGS)
    design = read_design(X, y, data=data, sample_weight=sample_weight, decimals=decimals)
    design = design.modelled(family, link, fit_intercept, reference)
    estimates = as_flag("estimates", estimates)
    names = design.named(feature_names)
    seconds = seconds_of(max_time)
    grace = max(GRACE, seconds / 20)  # to read the data, and to close
    otherwise, reason, notes = None, None, design.notes
    with standard_arithmetic(), one_thread():
        try:
            with until(start + max(seconds, grace)):
                cone = Cone(design, decimals, order)
            decision = _Decision(cone)
            proof = decision.within(start + seconds, grace)
            reason = decision.reason
            if time.perf_counter() - start < OTHER_SECONDS:
                otherwise = _kind_otherwise(design, order, cone, proof, start + seconds)
            if estimates and proof["complete"]:
                end = start + seconds
                if max_time is None:
                    end = time.perf_counter() + ESTIMATES_SECONDS
                proof, reason = _with_estimates(decision, proof, end)
        except OutOfTime:
            reason = LATE
            unread = Family.of(design, label_texts(design.y))
            proof = empty_proof(np.shape(design.X), unread, decimals)
        ends = read_interval(proof)
    if reason == LATE:
        taken = max_time or ESTIMATES_SECONDS
        reason = f"time ran out after {taken:g} s; pass max_time={max(60.0, 10.0 * taken):g}"
    if design.family is None:
        notes += notes_on_classes(proof["family"], proof["data"]["classes"])
    proof["names"] = None if names is None else [name[:LONGEST_NAME] for name in names]
    taken = time.perf_counter() - start
    return Verdict(proof["kind"], *ends, proof, taken, design.given, otherwise, notes, reason)


def _kind_otherwise(
    design: Design, order: Any, cone: Cone, proof: dict[str, Any], moment: float
) -> str | None:
    """The kind in the other reading of decimals; None if it was not decided.

    The two readings differ by half a unit in the last place at most, so if they disagree the
    verdict rests on such differences. A margin far above them settles the question, and numbers
    that both readings share leave none.
    """
    kind, values = proof["kind"], cone.X.data
    if kind == "undecided" or values.size > FEW_ENTRIES:
        return None
    longest = math.sqrt(cone.n_features) * float(np.abs(values).max(initial=0.0))
    if read_interval(proof)[0] > ROUNDING * longest or not is_rounded(values):
        return str(kind)
    reading = next(word for word in READINGS if word != cone.table.decimals)
    end = min(moment, time.perf_counter() + OTHER_SECONDS)
    with suppress(OutOfTime, TooLarge, ProofTooLarge), until(end):
        cone = Cone(replace(design, X=cone.X), reading, order)
        return str(_Decision(cone).proof()["kind"])
    return None


def _with_estimates(
    decision: "_Decision", proof: dict[str, Any], moment: float
) -> tuple[dict[str, Any], str | None]:
    """(the proof with the fate of each coefficient, verified, or without; why some are missing)."""
    cone = decision.cone
    try:
        with until(moment):
            found = decision.read
            boundary = cone.pairs_of(*np.array([*found.on_boundary], np.int64).reshape(-1, 2).T)
            prover = EstimateProver(cone, found.w, boundary)
            full = proof | {"estimates": prover.section()}
            verified(full, cone.table, found)
            return full, prover.reason
    except (OutOfTime, TooLarge, ProofTooLarge, MemoryError) as error:
        return proof, why(error)


def verified(proof: dict[str, Any], table: Table, checked: Proof | None = None) -> Proof:
    """A proof as the verifier reads its JSON; ProofError unless it holds."""
    return check_document(load_proof(json.dumps(proof)), table, checked)


class _Decision:
    """From the cone to a verified proof, by the cheapest way that works."""

    read: Proof  # of the last proof that was verified
    reason: str | None = None  # why nothing is decided, or not all

    def __init__(self, cone: Cone) -> None:
        self.cone = cone

    def within(self, moment: float, grace: float) -> dict[str, Any]:
        """A verified proof; of an interval only, where the moment comes first."""
        try:
            with until(moment):
                return self.proof()
        except (OutOfTime, TooLarge, ProofTooLarge) as error:
            self.reason = why(error)
        with suppress(OutOfTime, ProofTooLarge), until(time.perf_counter() + grace):
            return self._verified("undecided", first_interval(self.cone))
        return build_proof(self.cone, "undecided", Interval(upper=math.inf))

    def proof(self) -> dict[str, Any]:
        """A verified proof, from floats where they see enough and else from exact steps."""
        cone, conflict = self.cone, None
        if cone.family.is_classifier:
            conflict = duplicate_conflict(cone)
            if conflict is None and min(cone.rows.A.shape) > LARGE:
                found = margin_interval(cone, [])
                if found.lower > 0.0:
                    return self._verified("separable", found)
        proposal: Proposal | None = None
        for bits in DIRECTION_BITS:
            try:
                proposal = proposal or propose(cone.rows)
                return self._from_floats(proposal, conflict, bits)
            except (TooLarge, ProofTooLarge) as error:
                self.reason = why(error)
                return self._partial(conflict)
            except (ProofError, NotFound, ZeroDivisionError):
                continue
        w, boundary, smallest = exact_pair(cone)
        return self._closed(w, boundary, conflict=conflict or smallest)

    def _verified(self, kind: str, found: Interval, **parts: Any) -> dict[str, Any]:
        """A proof, once its JSON has been verified: what is written is what will be read."""
        proof = build_proof(self.cone, kind, found, **parts)
        self.read = verified(proof, self.cone.table)
        return proof

    def _closed(self, w: list[int], boundary: list[ExactWeights], **parts: Any) -> dict[str, Any]:
        """The verified proof of a direction, empty if there is none, and weights that cancel."""
        if not boundary:
            return self._verified("separable", margin_interval(self.cone, w))
        kind = "quasi-separable" if w else "overlapping"
        return self._verified(kind, Interval(w=w), boundary=boundary, **parts)

    def _from_floats(
        self, proposal: Proposal, conflict: ExactWeights | None, bits: int
    ) -> dict[str, Any]:
        """The exact proof nearest to the proposal, whose free weights have this many bits."""
        cone, (w, strict, q, support) = self.cone, proposal
        if strict.all():
            return self._closed(cone.rows.whole(w), [])
        boundary = np.flatnonzero(~strict)
        basis = Span(cone.pairs, np.append(support, np.setdiff1d(boundary, support)))
        direction = exact_direction(cone, basis, w, bits) if strict.any() else []
        groups, enclosure = boundary_weights(cone, boundary, basis, q)
        if conflict is None and support.size and cone.family.compares_classes:
            # the verdict stands without a conflict; the verification comes first
            with suppress(OutOfTime), until(deadline() - cone.closing_seconds):
                conflict = circuit_conflict(cone, boundary, support[0])
        return self._closed(direction, groups, conflict=conflict, basis=enclosure)

    def _partial(self, conflict: ExactWeights | None) -> dict[str, Any]:
        """A proof for data too large for an exact system: a one-sided column, and a conflict.

        A feature that only one class has is a w without errors; two equal rows with different
        labels rule a strict one out. That is quasi-separation, though not all that is to be said.
        """
        w = one_sided_column(self.cone)
        if w is None or conflict is None:
            raise TooLarge("no exact system, and no one-sided column")
        return self._closed(w, [conflict], conflict=conflict, complete=False)
