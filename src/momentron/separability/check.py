"""`check_separability`: floats propose, whole numbers prove, and the verifier has the last word."""

import json
import math
import time
from contextlib import suppress
from typing import Any

import numpy as np

from momentron.arguments import as_flag, as_number
from momentron.clock import OutOfTime, deadline, until
from momentron.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.separability.basis import (
    Basis,
    ExactWeights,
    NotExact,
    enclosed_boundary,
    exact_boundary,
    exact_direction,
    find_basis,
    one_sided_column,
    refine_weights,
)
from momentron.separability.conflict import (
    circuit_conflict,
    contradictory_rows,
    duplicate_conflict,
)
from momentron.separability.interior_point import Proposal, propose
from momentron.separability.interval import (
    Interval,
    class_means,
    margin_interval,
    reading_seconds,
    two_rows,
    upper_bound,
)
from momentron.separability.memory import TooLarge
from momentron.separability.pairs import Pairs
from momentron.separability.proof import build_proof, unread_proof, version_for
from momentron.separability.verdict import Verdict
from momentron.separability.wolfe import exact_pair
from momentron.threads import one_thread
from momentron.verify import ProofError, ProofTooLarge, require_proof
from momentron.verify.data import label_texts
from momentron.verify.format import read_interval

SMALL = 20_000  # entries up to which a conflict that floats miss is found by exact steps
LARGE = 4e9  # flops of an interior-point iteration above which `max_margin` is asked first
GRACE = 0.4  # seconds beyond the budget, for reading the data and for closing
QUICK = 0.1  # seconds within which the means of the classes must be read exactly
DIRECTION_BITS = (20, 50)  # short weights first: they keep the proof small


def check_separability(
    X: Any, y: Any, *, fit_intercept: bool = True, max_time: float | None = None
) -> Verdict:
    """Decide whether a hyperplane separates the classes, and prove the answer.

    Either some w has y_i (w·x_i + b) > 0 on every row (separable), or some w has ≥ 0 everywhere and
    > 0 somewhere (quasi-separable), or none has (overlapping). Floats are taken as the exact
    rationals they are, so that exactly one of these holds; no tolerance is involved.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array of shape (n,)
        Two or more classes; more than two are separated jointly, by weights w_c per class with
        (w_c − w_j)·x + b_c − b_j > 0 for every x of class c and every j ≠ c.
    fit_intercept : bool
        Whether hyperplanes may miss the origin.
    max_time : float, optional
        Seconds; where they end first the verdict is "undecided". Data with more than about 3,000
        independent features, or that need more than 2 GB of memory, may be undecided without it.

    Returns
    -------
    Verdict
        Its JSON has passed `momentron.verify` on these data; the interval of an "undecided" verdict
        too. Only where the time ends before the data are read is there nothing to verify: the
        interval is then [0, ∞].

    Notes
    -----
    An interior-point method for the Goldman–Tucker pair proposes which rows are on the boundary, at
    n·d² flops per iteration; one system of d equations in whole numbers makes the proposal exact.
    Where floats see too little, Wolfe's algorithm decides in rational arithmetic.

    References
    ----------
    Albert, Anderson (1984), *On the existence of maximum likelihood estimates in logistic
    regression models*, Biometrika 71. Ye, Todd, Mizuno (1994), *An O(√n L)-iteration homogeneous
    and self-dual linear programming algorithm*, Math. of OR 19.

    Examples
    --------
    >>> check_separability([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]).kind
    'overlapping'
    >>> check_separability([[0.0], [5e-324]], ["a", "b"]).kind
    'separable'
    """
    start = time.perf_counter()
    fit_intercept = as_flag("fit_intercept", fit_intercept)
    seconds = seconds_of(max_time)
    grace = max(GRACE, seconds / 20)  # to read the data, and to close
    with standard_arithmetic(), one_thread():
        try:
            with until(start + max(seconds, grace)):
                pairs = Pairs(X, y, fit_intercept=fit_intercept)
                # kept for every proof
                pairs.data.digest(version_for(pairs.data.n, pairs.data.d, pairs.k))
            proof = _Decision(pairs).within(start + seconds, grace)
        except OutOfTime:
            n, d = np.shape(X)
            proof = unread_proof(n, d, label_texts(y), fit_intercept=fit_intercept)
    return Verdict(proof["kind"], *read_interval(proof), proof, time.perf_counter() - start)


def seconds_of(max_time: float | None) -> float:
    """A budget in seconds; infinite where there is none."""
    if max_time is None:
        return math.inf
    wanted = "a positive number of seconds, or None"
    seconds = as_number("max_time", max_time, wanted)
    if not seconds > 0.0:
        raise InputError(f"max_time={max_time!r} must be {wanted}")
    return seconds


class _Decision:
    """From the pairs to a verified proof, by the cheapest way that works."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def within(self, moment: float, grace: float) -> dict[str, Any]:
        """A verified proof; of an interval only, where the moment comes first."""
        try:
            with until(moment):
                return self.proof()
        except (OutOfTime, TooLarge, ProofTooLarge):
            try:
                with until(time.perf_counter() + grace):
                    return self.undecided()
            except (OutOfTime, ProofTooLarge):
                return build_proof(self.pairs, "undecided", upper=math.inf)

    def proof(self) -> dict[str, Any]:
        """A verified proof, from floats where they see enough and else from exact steps."""
        equal = contradictory_rows(self.pairs)
        conflict = duplicate_conflict(self.pairs, *equal) if equal else None
        n, d = self.pairs.size, self.pairs.n_coordinates
        if conflict is None and n * d * min(n, d) > LARGE:
            found = margin_interval(self.pairs, None)
            if found.lower > 0.0:
                return self._verified(self._separable(found))
        proposal = propose(self.pairs.A)
        for bits in DIRECTION_BITS:
            try:
                return self._verified(self._from_floats(proposal, conflict, bits))
            except (TooLarge, ProofTooLarge):
                return self._partial(conflict)
            except (ProofError, NotExact, ZeroDivisionError):
                continue
        return self._verified(self._by_exact_steps(conflict))

    def undecided(self) -> dict[str, Any]:
        """A verified proof of an interval, and of nothing else, in little time."""
        is_quick = reading_seconds(self.pairs) < QUICK
        dual = class_means(self.pairs) if is_quick else two_rows(self.pairs)
        upper = upper_bound(self.pairs, dual)
        return self._verified(build_proof(self.pairs, "undecided", dual=dual, upper=upper))

    def _verified(self, proof: dict[str, Any]) -> dict[str, Any]:
        """The proof, once its JSON has been verified: what is written is what will be read."""
        require_proof(json.dumps(proof), self.pairs.data)
        return proof

    def _separable(self, found: Interval) -> dict[str, Any]:
        return build_proof(
            self.pairs,
            "separable",
            w=found.w,
            dual=found.dual,
            lower=found.lower,
            upper=found.upper,
        )

    def _from_floats(
        self, proposal: Proposal, conflict: ExactWeights | None, bits: int
    ) -> dict[str, Any]:
        """The exact proof nearest to a proposal, with a direction of so many bits."""
        pairs = self.pairs
        if proposal.strict.all():
            return self._separable(margin_interval(pairs, pairs.to_whole(proposal.w)))
        boundary = np.flatnonzero(~proposal.strict)
        q = refine_weights(pairs, boundary, proposal.q[boundary])
        weights = np.zeros(proposal.q.size)
        weights[boundary] = q
        basis = find_basis(pairs, boundary, weights)
        w = None
        if proposal.strict.any():
            w = exact_direction(pairs, basis, proposal.w, bits)
        kind = "quasi-separable" if w else "overlapping"
        try:
            groups, enclosure = exact_boundary(pairs, basis, q), None
        except TooLarge:
            groups, enclosure = enclosed_boundary(pairs, basis, q)
        if conflict is None:
            # the verdict stands without a conflict; the verification comes first
            with suppress(OutOfTime), until(deadline() - reading_seconds(pairs, 3.0)):
                conflict = self._conflict(basis, q)
        return build_proof(pairs, kind, w=w, boundary=groups, conflict=conflict, basis=enclosure)

    def _conflict(self, basis: Basis, q: np.ndarray) -> ExactWeights | None:
        """A smallest conflict, from floats or else by exact steps, if one is found."""
        conflict = circuit_conflict(self.pairs, basis, q)
        if conflict is None and self.pairs.size * self.pairs.n_coordinates < SMALL:
            with suppress(TooLarge):
                conflict = exact_pair(self.pairs).conflict
        return conflict

    def _by_exact_steps(self, conflict: ExactWeights | None) -> dict[str, Any]:
        found = exact_pair(self.pairs)
        if not found.boundary:
            return self._separable(margin_interval(self.pairs, found.w))
        return build_proof(
            self.pairs,
            "quasi-separable" if found.w else "overlapping",
            w=found.w,
            boundary=found.boundary,
            conflict=conflict or found.conflict,
        )

    def _partial(self, conflict: ExactWeights | None) -> dict[str, Any]:
        """A proof for data too large for an exact system: a one-sided column, and a conflict.

        A feature that only one class has is a w without errors; two equal rows with different
        labels rule a strict one out. That is quasi-separation, though not all that is to be said.
        """
        w = one_sided_column(self.pairs)
        if w is None or conflict is None:
            raise TooLarge("no exact system, and no one-sided column")
        return self._verified(
            build_proof(
                self.pairs,
                "quasi-separable",
                w=w,
                boundary=[conflict],
                conflict=conflict,
                complete=False,
            )
        )
