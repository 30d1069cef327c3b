"""`check_separability`: floats propose, whole numbers prove, and the verifier has the last word."""

import json
import math
import time
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from momentron.clock import OutOfTime, deadline, until
from momentron.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.separability.canonical import ProofError, ProofTooLarge, interval
from momentron.separability.correction import (
    Basis,
    NotExact,
    Weights,
    enclosed_plane,
    exact_direction,
    exact_plane,
    find_basis,
    one_sided_column,
    refine,
)
from momentron.separability.data import label_texts
from momentron.separability.faces import exact_pair
from momentron.separability.interval import mean_dual, two_rows, upper_bound
from momentron.separability.limits import TooLarge
from momentron.separability.margin import Interval, margin_interval, reading_seconds
from momentron.separability.proof import build_proof, unread_proof, version_for
from momentron.separability.proposal import Proposal, propose
from momentron.separability.rows import Examples, PairRows
from momentron.separability.story import circuit_story, contradictory_rows, duplicate_story
from momentron.separability.verdict import Verdict
from momentron.threads import one_thread
from momentron.verify import check_claim

SMALL = 20_000  # entries up to which a story that floats miss is found by exact steps
LARGE = 4e9  # flops of an interior-point iteration above which `max_margin` is asked first
GRACE = 0.4  # seconds beyond the budget, for reading the data and for closing
QUICK = 0.1  # seconds in which the classes' means are read exactly
DIRECTION_BITS = (20, 50)  # short weights first: they keep the proof small


def check_separability(
    X: Any, y: Any, *, fit_intercept: bool = True, max_time: float | None = None
) -> Verdict:
    """Decide whether a hyperplane separates the classes, and prove the answer.

    Either some w has y_i (w·x_i + b) > 0 on every row (separable), or some has ≥ 0 everywhere and
    > 0 somewhere (quasi-separable), or none (overlapping). Floats are taken as the exact rationals
    they are, so that exactly one of these holds; no tolerance enters.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
    y : array of shape (n,)
        Two or more classes; more than two are separated jointly, by weights w_c for each class with
        (w_c − w_j)·x + b_c − b_j > 0 for every x of class c and every j ≠ c.
    fit_intercept : bool
        Allow intercepts.
    max_time : float, optional
        Seconds; where they end first the verdict is "undecided". Data beyond about 3,000
        independent features, or 2 GB of work space, may be undecided without it.

    Returns
    -------
    Verdict
        Its JSON has passed `momentron.verify.verify` on these data, "undecided" with its interval
        too. Only where the time ends before the data are read there is nothing to verify: the
        interval is then [0, ∞].

    Notes
    -----
    An interior point of the Goldman–Tucker pair proposes which rows are on the plane, at n·d² flops
    an iteration; one system of d equations in whole numbers makes it exact. Where floats see too
    little, Wolfe's algorithm decides in rational arithmetic.

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
    if not isinstance(fit_intercept, bool | np.bool_):
        raise InputError(f"fit_intercept={fit_intercept!r} must be True or False")
    seconds = seconds_of(max_time)
    grace = max(GRACE, seconds / 20)  # to read the data, and to close
    with standard_arithmetic(), one_thread():
        try:
            with until(start + max(seconds, grace)):
                case = _Case(X, y, fit_intercept=bool(fit_intercept))
            proof = case.decided(start + seconds, grace)
        except OutOfTime:
            n, d = np.shape(X)
            proof = unread_proof(n, d, label_texts(y), fit_intercept=bool(fit_intercept))
    return Verdict(proof["kind"], *interval(proof), proof, time.perf_counter() - start)


def seconds_of(max_time: float | None) -> float:
    """A budget in seconds; infinite where there is none."""
    if max_time is None:
        return math.inf
    if not isinstance(max_time, Real) or isinstance(max_time, bool) or not max_time > 0.0:
        raise InputError(f"max_time={max_time!r} must be a positive number of seconds, or None")
    return float(max_time)


class _Case:
    """One data set under investigation."""

    def __init__(self, X: Any, y: Any, *, fit_intercept: bool) -> None:
        examples = Examples.from_data(X, y, fit_intercept=fit_intercept)
        self.rows = PairRows(examples)
        data = examples.data
        data.digest(version_for(data.n, data.d, len(examples.classes)))  # kept for every proof

    def decided(self, moment: float, grace: float) -> dict[str, Any]:
        """A verified proof; of an interval only, where the moment comes first."""
        try:
            with until(moment):
                return self.proof()
        except (OutOfTime, TooLarge, ProofTooLarge):
            try:
                with until(time.perf_counter() + grace):
                    return self.undecided()
            except (OutOfTime, ProofTooLarge):
                return build_proof(self.rows, "undecided", upper=math.inf)

    def proof(self) -> dict[str, Any]:
        """A verified proof, from floats where they see enough and else from exact steps."""
        twins = contradictory_rows(self.rows.examples)
        story = duplicate_story(self.rows, twins) if twins else None
        n, d = self.rows.example.size, self.rows.n_coordinates
        if story is None and n * d * min(n, d) > LARGE:
            found = margin_interval(self.rows, None)
            if found.lower > 0.0:
                return self._verified(self._with_interval(found))
        proposal = propose(self.rows.A)
        for bits in DIRECTION_BITS:
            try:
                return self._verified(self._from_floats(proposal, story, bits))
            except (TooLarge, ProofTooLarge):
                return self._partly(story)
            except (ProofError, NotExact, ZeroDivisionError):
                continue
        pair = exact_pair(self.rows)
        kind = ("quasi-separable" if pair.w else "overlapping") if pair.plane else "separable"
        if kind == "separable":
            return self._verified(self._separable(pair.w))
        story = story or pair.story
        return self._verified(build_proof(self.rows, kind, w=pair.w, plane=pair.plane, story=story))

    def undecided(self) -> dict[str, Any]:
        """A verified proof of an interval, and of nothing else, in little time."""
        is_quick = reading_seconds(self.rows) < QUICK
        dual = mean_dual(self.rows) if is_quick else two_rows(self.rows)
        upper = upper_bound(self.rows, dual)
        return self._verified(build_proof(self.rows, "undecided", dual=dual, upper=upper))

    def _partly(self, story: Weights | None) -> dict[str, Any]:
        """A proof for data too large for an exact system: a one-sided column, and a story.

        A feature that only one class has is a w without errors; two equal rows with different
        labels rule a strict one out. That is quasi-separation, though not all of it.
        """
        w = one_sided_column(self.rows)
        if w is None or story is None:
            raise TooLarge("no exact system, and no one-sided column")
        return self._verified(
            build_proof(
                self.rows, "quasi-separable", w=w, plane=[story], story=story, complete=False
            )
        )

    def _verified(self, proof: dict[str, Any]) -> dict[str, Any]:
        """The proof, once its JSON has been verified: what is written is what will be read."""
        check_claim(json.dumps(proof), self.rows.examples.data)
        return proof

    def _from_floats(self, proposal: Proposal, story: Weights | None, bits: int) -> dict[str, Any]:
        if proposal.strict.all():
            return self._separable(self.rows.to_whole(proposal.w))
        plane = np.flatnonzero(~proposal.strict)
        q = refine(self.rows, plane, proposal.q[plane])
        weights = np.zeros(proposal.q.size)
        weights[plane] = q
        basis = find_basis(self.rows, plane, weights)
        w = None
        if proposal.strict.any():
            w = exact_direction(self.rows, basis, proposal.w, bits)
        kind = "quasi-separable" if w else "overlapping"
        groups, enclosure = self._plane(basis, q)
        if story is None:
            # the verdict stands without a story; the verification comes first
            with suppress(OutOfTime), until(deadline() - reading_seconds(self.rows, 3.0)):
                story = self._story(basis, q)
        return build_proof(self.rows, kind, w=w, plane=groups, story=story, basis=enclosure)

    def _story(self, basis: Basis, q: np.ndarray) -> Weights | None:
        """A smallest story, from floats or else by exact steps; the verdict stands without one."""
        story = circuit_story(self.rows, basis, q)
        if story is None and self.rows.example.size * self.rows.n_coordinates < SMALL:
            with suppress(TooLarge):
                story = exact_pair(self.rows).story
        return story

    def _plane(self, basis: Basis, q: np.ndarray) -> tuple[list[Weights], Weights | None]:
        try:
            return exact_plane(self.rows, basis, q), None
        except TooLarge:
            return enclosed_plane(self.rows, basis, q)

    def _separable(self, w: list[int]) -> dict[str, Any]:
        return self._with_interval(margin_interval(self.rows, w))

    def _with_interval(self, found: Interval) -> dict[str, Any]:
        return build_proof(
            self.rows,
            "separable",
            w=found.w,
            dual=found.dual,
            lower=found.lower,
            upper=found.upper,
        )
