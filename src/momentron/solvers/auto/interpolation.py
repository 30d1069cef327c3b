"""A first classifier for many classes in many features: a short W that fits the labels."""

import numpy as np

from momentron.solvers.auto.forms import Deadline
from momentron.solvers.auto.linear_algebra import add_to_diagonal, back_solve, cholesky
from momentron.solvers.auto.rows import gram_of
from momentron.solvers.auto.working_sets import WorkingSets

MIN_PAIRS = 100_000  # below, working sets find a better one as fast
MAX_EXAMPLES = 8000
# of the mean ‖x‖²: an exact fit would spend its length on examples that are nearly equal. On
# sector.scale 1e-4 proves a margin of 6.0e-3, 1e-2 one of 2.1e-3 and 1e-8 one of 1.0e-3
RIDGE = 1e-4


def suits(sets: WorkingSets) -> bool:
    """Whether the examples are few and wide enough to be fitted exactly, and the pairs many."""
    n, d = sets.operator.shape
    is_explicit = sets.labels.is_paired and not sets.is_kernel
    return is_explicit and n <= min(d, MAX_EXAMPLES) and sets.size >= MIN_PAIRS


def interpolate(sets: WorkingSets, deadline: Deadline) -> np.ndarray:
    """W with an output near 1 for the true label and near 0 for the others.

    Every pair then has a functional margin near 1, so that W proves a positive margin at the price
    of one n × n factor, where the working sets of a hundred classes take minutes.
    """
    codes, k = sets.labels.codes, sets.labels.n_classes
    n = codes.size
    deadline.require(n**3 / 3.0)
    rows = sets.operator.working_rows(np.arange(n))
    gram = np.asfortranarray(gram_of(rows))
    add_to_diagonal(gram, RIDGE * float(gram.diagonal().mean()))
    targets = np.zeros((n, k))
    targets[np.arange(n), codes] = 1.0
    return rows.T @ back_solve(cholesky(gram), targets - 1.0 / k)
