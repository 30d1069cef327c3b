"""A first classifier for many classes in many features: a short W that fits the labels."""

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.solvers.auto.deadline import seconds_of
from momentron.solvers.auto.linear_algebra import add_to_diagonal, back_solve, cholesky
from momentron.solvers.auto.rows import gram_of
from momentron.solvers.auto.working_sets import WorkingSets


def suits(sets: WorkingSets) -> bool:
    """Whether the examples are few and wide enough to be fitted exactly, and the pairs many."""
    n, d = sets.operator.shape
    settings = sets.settings
    is_explicit = sets.labels.is_paired and not (sets.is_kernel or sets.problem.is_soft)
    is_few = n <= min(d, settings.interpolated_examples)
    return is_explicit and is_few and sets.size >= settings.interpolated_pairs


def interpolate(sets: WorkingSets) -> np.ndarray:
    """W with an output near 1 for the true label and near 0 for the others.

    Every pair then has a functional margin near 1, so that W proves a positive margin at the price
    of one n × n factor, where the working sets of a hundred classes take minutes.
    """
    assert sets.matrix is not None
    codes, k = sets.labels.codes, sets.labels.n_classes
    n = codes.size
    require_time(seconds_of(n**3 / 3.0))  # nothing ends where there is none: it is one more try
    rows = sets.matrix.working_rows(np.arange(n))
    gram = np.asfortranarray(gram_of(rows))
    add_to_diagonal(gram, sets.settings.interpolation_ridge * float(gram.diagonal().mean()))
    targets = np.zeros((n, k))
    targets[np.arange(n), codes] = 1.0
    return rows.T @ back_solve(cholesky(gram), targets - 1.0 / k)
