"""The objective scores every answer itself, in float64 and off the clock.

==========  ===========================================================================
kind        score, smaller is better
==========  ===========================================================================
separable   1 − margin(w)/optimum, with the best intercept for w where there is one;
            the optimum is the least certified upper bound that any q offered proves
witness     ‖Σ q_i y_i x_i‖ / R, q clipped at zero and brought to mass 1 (½ a class)
soft        (P(w, b) − P*)/P*, P = ½‖w‖² + C Σ max(0, 1 − y(x·w + b))², and P* the
            certified lower bound of momentron, or the best P found where there is none
hinge       the same with C Σ max(0, 1 − y(x·w + b)), and P* the best that was found
==========  ===========================================================================

A score may be slightly negative where the reference is the best found by others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.suite.task import TARGET, Answer, Task
from momentron.certificate import certify
from momentron.solvers.problem import Problem

BLOCK = 1 << 22  # entries of X in float64 at a time, so that float32 data are never copied whole


class Objective:
    """The judge of one task.

    `refer` collects what answers prove about the optimum; `score` then judges each against it.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.optimum = math.nan
        """The best margin's upper bound, or the least objective; 0 for a witness."""

    @property
    def target(self) -> float:
        """The score at which an answer counts as having solved the task."""
        return TARGET[self.task.kind]

    def refer(self, answers: Iterable[Answer]) -> None:
        """Set the optimum from everything that was offered."""
        answers = list(answers)
        if self.task.kind == "witness":
            self.optimum = 0.0
            return
        if self.task.kind == "hinge":
            objectives = (self.soft_objective(a.w, a.b) for a in answers)
            self.optimum = min(objectives, default=math.nan)
            return
        bounds = [self._upper(a.q) for a in answers if a.q is not None]
        upper = min(bounds, default=math.inf)
        if self.task.kind == "separable":
            best = max((self.margin(a.w) for a in answers), default=math.nan)
            self.optimum = upper if math.isfinite(upper) else best
            return
        proven = 0.5 / upper**2 if 0.0 < upper < math.inf else 0.0
        found = min((self.soft_objective(a.w, a.b) for a in answers), default=math.nan)
        # a bound that is loose by more than the target would blame everyone alike
        tight = proven > 0.0 and found / proven - 1.0 <= self.target
        self.optimum = proven if tight else found

    def score(self, answer: Answer) -> float:
        """The score of an answer; inf if it is not an answer at all."""
        if self.task.kind == "witness":
            return math.inf if answer.q is None else self.witness(answer.q)
        if not self._sound(answer.w, self.task.shape[1]) or not math.isfinite(answer.b):
            return math.inf
        if self.task.kind == "separable":
            return 1.0 - self.margin(answer.w) / self.optimum
        return self.soft_objective(answer.w, answer.b) / self.optimum - 1.0

    def margin(self, w: np.ndarray) -> float:
        """γ(w) in the units of X, best intercept included; γ(0) = 0, and −inf for nonsense."""
        if not self._sound(w, self.task.shape[1]):
            return -math.inf
        top = float(np.max(np.abs(w), initial=0.0))
        if top == 0.0:
            return 0.0
        w = np.asarray(w, dtype=np.float64) / top
        scores = self._scores(w)
        y, norm = self.task.y, float(np.linalg.norm(w))
        if not self.task.fit_intercept:
            return float(np.min(y * scores)) / norm
        return 0.5 * float(scores[y > 0.0].min() - scores[y < 0.0].max()) / norm

    def soft_objective(self, w: np.ndarray, b: float) -> float:
        """½‖w‖² + C Σ max(0, 1 − y(x·w + b))², or without the square."""
        if not self._sound(w, self.task.shape[1]):
            return math.inf
        w = np.asarray(w, dtype=np.float64)
        slack = np.maximum(0.0, 1.0 - self.task.y * (self._scores(w) + b))
        total = slack.sum() if self.task.kind == "hinge" else slack @ slack
        return 0.5 * float(w @ w) + self.task.C * float(total)

    def witness(self, q: np.ndarray) -> float:
        """‖Zᵀq‖ = ‖Σ q_i y_i x_i‖ / R for q brought into the dual set."""
        if not self._sound(q, self.task.shape[0]):
            return math.inf
        q, y = np.maximum(np.asarray(q, dtype=np.float64), 0.0), self.task.y
        groups = [y > 0.0, y < 0.0] if self.task.fit_intercept else [np.full(y.size, True)]
        masses = [float(q[group].sum()) for group in groups]
        if not min(masses) > 0.0:
            return math.inf
        weights = np.zeros_like(q)
        for group, mass in zip(groups, masses, strict=True):
            weights[group] = q[group] / (mass * len(groups))
        total = np.zeros(self.task.shape[1])
        for rows, block in self._blocks():
            total += block.T @ (weights[rows] * y[rows])
        return float(np.linalg.norm(total)) / self.task.radius

    def _upper(self, q: np.ndarray) -> float:
        """The certified upper bound that q proves; for a soft margin, that of K + I/(2C)."""
        task = self.task
        if not self._sound(q, task.shape[0]):
            return math.inf
        problem = Problem.from_data(task.X, task.y, fit_intercept=task.fit_intercept, C=task.C)
        return certify(problem, problem.zeros(), q).upper

    def _scores(self, w: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(block @ w) for _, block in self._blocks()])

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        X = self.task.X
        n, d = X.shape
        step = n if sp.issparse(X) else max(1, BLOCK // max(1, d))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            yield rows, X[rows].astype(np.float64)

    @staticmethod
    def _sound(vector: Any, size: int) -> bool:
        array = np.asarray(vector)
        return array.shape == (size,) and bool(np.all(np.isfinite(array)))
