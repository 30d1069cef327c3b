"""Soft margins of two classes whose rows are read in blocks, by working sets and sums of rows.

    min ½‖w‖² + Σ C_i h(1 − p_i),   p = y(Xw + b),   h(s) = max(0, s) or its square.

Of every row some numbers are kept: its class, length, C, product with w and dual weight. Rows far
above the margin have no part in the solution, and that of rows far below it is known: in the hinge
each weighs C, so that means of some stand for all of them; in its square they are a quadratic, and
d + 1 rows of each class have the same one. So a round solves a problem in memory, of the rows near
the margin and of those that stand for the rows below, and reads the stream once: the pass evaluates
the classifier, and finds the rows and the sums for the next round. With the hinge such a problem
bounds the objective from below, as its weights are weights of all the rows.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from momentron.errors import InputError
from momentron.fitting.fits import make_result
from momentron.fitting.options import FitOptions
from momentron.solvers.auto.forms import Bounds, Hinge, margin_of
from momentron.solvers.checkpoint import unusable
from momentron.solvers.problem import Problem
from momentron.solvers.solver import DEFAULTS, BudgetWarning, Candidates, Primal, RunOptions, Start
from momentron.status import Status
from momentron.streams.block_problem import BlockProblem
from momentron.streams.blocks import Rows
from momentron.streams.first_pass import FirstPassResult
from momentron.streams.rounds import Rounds, RoundState
from momentron.streams.scan import Findings, SoftScan
from momentron.streams.stream import Stream

CLOSE = 0.03  # the gap from which a working set is solved from the last classifier on
NEAR_SHARE = 4  # one in this many rows that the memory has room for is new in a pass
ENOUGH, ENOUGH_PER_FEATURE = 20_000, 100  # rows of a working set that sums stand by
MOST_GROUPS = 500  # of the rows of a class below the margin, each with its own mean
PATIENCE = 3  # rounds without progress


class Look(NamedTuple):
    """A classifier, the slack 1 − p of all the rows, its objective, and what its pass found."""

    w: np.ndarray
    b: float
    slack: np.ndarray
    value: float
    found: Findings


class SoftBlockProblem(BlockProblem):
    """The soft margin of all the rows of a stream."""

    costs: np.ndarray  # C times the weights of the rows
    task: SoftScan  # what every pass is asked for

    @classmethod
    def of_stream(cls, stream: Stream, found: FirstPassResult, options: FitOptions) -> Self:
        n_classes, C, width, memory = found.classes.size, options.C, found.width, found.memory
        if n_classes > 2:
            raise InputError(
                f"C={C} with {n_classes} classes needs the data in memory; blocks support soft "
                "margins of 2 classes, and the hard margin, C=inf, of many"
            )
        problem = super().of_stream(stream, found, options)
        problem.costs = C * (np.ones(found.n_rows) if problem.weights is None else problem.weights)
        order = 1 if problem.penalty.has_box else 2
        if order == 2 and 16 * (width + 1) ** 2 > memory:  # of both classes
            order = 0
        most = max(ENOUGH, ENOUGH_PER_FEATURE * width) if order else found.room
        problem.room = min(found.room, most)
        problem.task = SoftScan(
            problem.classes,
            options.fit_intercept,
            costs=problem.costs,
            n_worst=problem.room // NEAR_SHARE if order else problem.room,
            order=order,
            n_groups=max(1, min(MOST_GROUPS, memory // (64 * width))),
            centre=0.0 if found.is_sparse else found.centre,
        )
        return problem

    # --- objectives ----------------------------------------------------------------------------

    def look(self, w: np.ndarray, b: float, alpha: np.ndarray, before: Look | None) -> Look:
        """One pass: the classifier on all the rows, and the sum of the rows with weights α."""
        a = self.labels.mix(self._in_dual_set(alpha)) if alpha.any() else None
        is_below = None if before is None else before.slack > 0.0
        found = self.operator.scan(replace(self.task, w=w, b=b, a=a, is_below=is_below))
        slack = 1.0 + self.labels.scores(found.all_products() + b)
        return Look(w, b, slack, self._value(w, slack), found)

    def between(self, a: Look, b: Look) -> Look:
        """The classifier with the least objective on the way from one to another: a pass."""
        dw, rise = b.w - a.w, b.slack - a.slack

        def value(t: float) -> float:
            return self._value(a.w + t * dw, a.slack + t * rise)

        t = float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded").x)
        return self.look(a.w + t * dw, a.b + t * (b.b - a.b), np.zeros(0), a)

    def _value(self, w: np.ndarray, slack: np.ndarray) -> float:
        slack = np.maximum(slack, 0.0)
        loss = slack if self.penalty.has_box else slack * slack
        return 0.5 * float(w @ w) + float(self.costs @ loss)

    def _in_dual_set(self, alpha: np.ndarray) -> np.ndarray:
        return self.dual_set.normalize(np.minimum(alpha, self.penalty.upper))

    def dual_value(self, alpha: np.ndarray) -> float:
        """The dual objective of weights whose rows the last pass has summed."""
        q = self._in_dual_set(alpha)
        bound = Hinge(1.0, self.penalty.upper).shortest(q, self.dual_norm(q))
        return 0.5 / bound**2

    def weights_at(self, slack: np.ndarray) -> np.ndarray:
        """The dual weights of all the rows, with such slack."""
        if self.penalty.has_box:
            return np.where(slack > 0.0, self.costs, 0.0)
        return 2.0 * self.costs * np.maximum(slack, 0.0)

    # --- working sets --------------------------------------------------------------------------

    def stand_ins(self, look: Look, working: Rows) -> tuple[np.ndarray, Rows]:
        """(the numbers of the rows below the margin that are not in the working set, rows that
        stand for them, whose numbers are their costs).
        """
        is_far = look.slack > 0.0
        is_far[working.numbers] = False
        far, task = np.flatnonzero(is_far), self.task
        slack, parts = look.slack[working.numbers], []
        for code, sign in enumerate((-1.0, 1.0)):
            held = far[self.labels.codes[far] == code]
            if held.size == 0 or task.order == 0:
                continue
            near = working.chosen(np.flatnonzero((working.codes == code) & (slack > 0.0)))
            total = look.found.moments[code] - task.moment(near.X, near.numbers)
            if task.order == 1:
                costs = np.bincount(held % task.n_groups, self.costs[held], task.n_groups)
                used = np.flatnonzero(costs)
                X, costs = total[used] / costs[used, None], costs[used]
            else:
                b = look.b + float(np.sum(task.centre * look.w))
                X, costs = equivalent_rows(total, np.append(-sign * look.w, 1.0 - sign * b))
                X = X + task.centre
            X = sp.csr_array(X) if sp.issparse(working.X) else X
            parts.append(Rows(X, np.full(costs.size, code), costs))
        return far, Rows.joined(parts) if parts else working.chosen(np.empty(0))

    def proposed(self, best: Look, q: np.ndarray, dual: float) -> Candidates:
        """The best classifier and weights so far, in units of R."""
        upper = margin_of(dual) / self.radius
        if self.penalty.has_box:
            scores = np.array([margin_of(best.value)])
            return Candidates([Primal(self.joined(best.w, best.b), scores / self.radius)], q, upper)
        slack = np.maximum(best.slack, 0.0)
        scores = self.labels.scores(best.found.all_products()) - slack
        return Candidates([Primal(self.with_slack(best.w, slack), scores / self.radius)], q, upper)

    def spread_means(
        self, dual: np.ndarray, working: Rows, far: np.ndarray, others: Rows
    ) -> np.ndarray:
        """Weights of a working set and of means that stand for others as those of all the rows."""
        alpha = np.zeros(self.size)
        alpha[working.numbers] = dual[: working.size]
        count = self.task.n_groups
        groups = self.labels.codes[far] * count + far % count
        shares = np.zeros(2 * count)
        if others.size:
            shares[np.unique(groups)] = np.minimum(1.0, dual[working.size :] / others.numbers)
        alpha[far] = self.costs[far] * shares[groups]
        return alpha

    def ending(self, look: Look) -> Status:
        """Why rounds bring nothing more."""
        n_below = int(np.count_nonzero(look.slack > 0.0))
        if self.task.order or n_below <= self.room:
            return Status.STALLED
        warnings.warn(
            f"block_size leaves room for working sets of {self.room} rows, but {n_below} are below "
            "the margin: the interval is wider than requested; raise block_size, or take "
            "penalty='hinge'",
            BudgetWarning,
            stacklevel=2,
        )
        return Status.NO_ROOM


def equivalent_rows(M: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, their C) with Σ C (x, 1)(x, 1)ᵀ = M, all below the margin of a given classifier.

    M is such a sum over rows with slack ⟨(x, 1), u⟩ > 0. The rows of any R with RᵀR = M are
    √C (x, 1), up to signs, and a rotation makes √C and √C · slack positive in all of them: the
    angle between these two vectors is below 90°, and so is that of each of them with their
    bisector below 45°. Where the bisector is turned to (1, 1, …) and the difference of both to
    ±1 in turn, no entry of either is negative.
    """
    unit = np.sqrt(np.maximum(M.diagonal(), 1e-300))
    values, vectors = np.linalg.eigh(M / np.outer(unit, unit))
    kept = values > 1e-14 * values[-1]
    R = np.sqrt(values[kept])[:, None] * vectors[:, kept].T * unit
    R = np.vstack([R, np.zeros((R.shape[0] % 2, unit.size))])  # an even number of rows
    even = np.ones(R.shape[0])
    for sign, target in ((1.0, even), (-1.0, np.resize([1.0, -1.0], even.size))):
        source = _direction(R[:, -1]) + sign * _direction(R @ u)
        v = _direction(source) - _direction(target)
        if np.linalg.norm(source) > 1e-12 and v @ v > 1e-24:
            R = R - 2.0 * np.outer(v, v @ R) / (v @ v)
    R = R[R[:, -1] > 1e-12 * np.abs(R[:, -1]).max()]
    return R[:, :-1] / R[:, -1:], R[:, -1] ** 2


def _direction(v: np.ndarray) -> np.ndarray:
    return v / max(float(np.linalg.norm(v)), 1e-300)


# --- rounds --------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class SoftState(RoundState):
    """The best classifier and weights so far, and those that the next pass reads."""

    w: np.ndarray
    b: float = 0.0
    alpha: np.ndarray  # weights of all the rows
    q: np.ndarray  # those with the largest dual objective,
    dual: float = 0.0  # and that
    best: Look | None = None  # the classifier with the least objective
    idle: int = 0  # rounds since the last progress

    def to_arrays(self) -> dict[str, Any]:
        return {"t": self.t, "w": self.w, "b": self.b, "alpha": self.alpha}

    def from_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.t, self.b = arrays["t"], arrays["b"]
        self.w, self.alpha = arrays["w"], arrays["alpha"]
        numbers = np.concatenate([self.w, [self.b], self.alpha])
        if not (np.isfinite(numbers).all() and (self.alpha >= 0.0).all()):
            raise unusable("its classifier is not finite, or its weights are not 0 or more")


class SoftRounds(Rounds):
    """Soft margins by working sets, and rows that stand for those below the margin.

    A working set is exact near the classifier from which it was made. Where the classifier that it
    gives has a larger objective, rows that crossed the margin join the set, and the best classifier
    on the way there is taken.
    """

    def init(self, problem: SoftBlockProblem, options: RunOptions = DEFAULTS) -> SoftState:
        n, d = problem.operator.shape
        even = problem.weights_at(np.ones(n))  # as at w = 0
        problem.working = problem.sample.chosen(np.empty(0))
        stays = np.zeros(n, np.int8)
        return SoftState(options.tol, stays, w=np.zeros(d), alpha=even, q=even)

    def step(self, problem: SoftBlockProblem, state: SoftState) -> None:
        if state.best is not None:
            self._solve(problem, state, state.best)
        elif not state.w.any():  # else a checkpoint has told
            self._solve_rows(state, problem.sampled())  # a first classifier
        before = math.inf if state.best is None else state.best.value
        looks = [problem.look(state.w, state.b, state.alpha, state.best)]
        if state.best is not None and looks[0].value > before:
            looks.append(problem.between(state.best, looks[0]))
        best = looks[-1] if state.best is None or looks[-1].value < before else state.best
        working = problem.working.joined_by(found for look in looks for found in look.found.lists)
        distances, stays = np.abs(best.slack[working.numbers]), state.stays[working.numbers]
        problem.working = working.trimmed(distances, stays, problem.room)
        state.best, dual = best, problem.dual_value(state.alpha)
        if dual > state.dual:
            state.q, state.dual = state.alpha, dual
        gap = Bounds(margin_of(best.value), margin_of(state.dual)).gap
        is_better = gap < 0.9 * state.gap or best.value < (1.0 - state.tol) * before
        state.idle = 0 if is_better else state.idle + 1
        state.gap = min(gap, state.gap)
        if state.idle >= PATIENCE:
            state.ending = problem.ending(best)
        state.proposal = problem.proposed(best, state.q, state.dual)
        state.t += 1

    def _solve(self, problem: SoftBlockProblem, state: SoftState, best: Look) -> None:
        """The working set around the best classifier."""
        working, has_box = problem.working, problem.penalty.has_box
        (far, others), own = problem.stand_ins(best, working), problem.costs[working.numbers]
        alpha = state.alpha if has_box else problem.weights_at(best.slack)
        b = problem.labels.free_intercepts(best.b)
        start = Start(best.w, b, np.append(alpha[working.numbers], others.numbers))
        weights = np.append(own, others.numbers) / problem.options.C
        posed = problem.of_rows(Rows.joined([working, others]), weights)
        dual = self._solve_rows(state, posed, start)
        if others.size and not has_box:  # they have weights of no rows
            state.alpha = alpha
            return
        state.alpha = problem.spread_means(dual, working, far, others)
        if has_box:
            dual = dual[: working.size]
            state.stays[:] = False
            state.stays[working.numbers] = (dual > 0.0) & (dual < own)

    def _solve_rows(
        self, state: SoftState, problem: Problem, start: Start | None = None
    ) -> np.ndarray:
        """The weights of a problem in memory; its classifier is the next."""
        if state.gap > CLOSE or problem.exponent != 0:  # far away, or in another unit
            start = None
        found = make_result(self.solved(problem, state.asked, start))
        state.w, state.b = found.coef.ravel(), float(found.intercept)
        return found.full_dual()
