"""What the two engines for many classes share: tables of pairs, and proposals made of them."""

import math

import numpy as np

from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.engine import Engine
from momentron.solvers.auto.pair_table import PairTable
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.base import Candidates, Fallback, Primal
from momentron.solvers.problem import Problem


class JointEngine(Engine):
    """The best weights so far, and the classifier to use where nothing separates."""

    def __init__(self, problem: Problem, deadline: Deadline, settings: AutoSettings) -> None:
        self.problem, self.deadline, self.settings = problem, deadline, settings
        self.labels, self.is_soft = problem.labels, problem.is_soft
        self.pairs = PairTable(self.labels.codes, self.labels.n_classes)
        self.q, self.upper = problem.even_weights(), math.inf
        self.fallback: Fallback | None = None

    def example_shares(self) -> float | np.ndarray:
        """The examples' factors of C, as a column; 1 where all are alike."""
        shares = self.problem.penalty.shares
        return shares if isinstance(shares, float) else shares[:: self.labels.per_example, None]

    def offer(self, table: np.ndarray) -> float:
        """‖Zᵀq‖ of a table of weights, which are kept where they are the best so far."""
        q = self.problem.dual_set.normalize(self.labels.from_dual(table))
        upper = self.problem.dual_norm(q)
        if upper < self.upper:
            self.q, self.upper = q, upper
        return upper

    def primal(self, W: np.ndarray, F: np.ndarray, b: np.ndarray) -> Primal:
        """The classifier as the constraints see it, given its outputs; scores in units of X."""
        scores = self.labels.scores(F)
        if not self.is_soft:
            return Primal(W, scores)
        table = np.maximum(self.pairs.ones() - self.pairs.margins(F + b), 0.0)
        slack = self.labels.from_dual(table)
        return Primal(self.problem.with_slack(W, slack), scores - slack)

    def propose(self, W: np.ndarray, F: np.ndarray, b: np.ndarray) -> Candidates:
        """A classifier with its outputs, and the best weights."""
        primal, radius = self.primal(W, F, b), self.problem.radius
        primal.scores = primal.scores / radius
        return Candidates([primal], self.q, self.upper / radius, fallback=self.fallback)
