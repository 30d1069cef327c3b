"""Which rows a working set takes."""

import numpy as np

from momentron.dual.dualsets import DualSet
from momentron.rows import MatrixOperator


def sample(
    labels: np.ndarray, size: int, rng: np.random.Generator, least: float = 0.25
) -> np.ndarray:
    """About `size` row numbers in order: the classes in proportion, none below a share `least`."""
    parts = []
    for label in np.flatnonzero(np.bincount(labels))[::-1]:
        rows = np.flatnonzero(labels == label)
        share = max(int(size * rows.size / labels.size), int(least * size), 1)
        parts.append(rng.choice(rows, share, replace=False) if share < rows.size else rows)
    return np.sort(np.concatenate(parts))


def smallest(dual_set: DualSet, p: np.ndarray, size: int, kept: np.ndarray) -> np.ndarray:
    """The rows with the smallest margins, some of every class that has an intercept, and those
    kept; in order.
    """
    pick = np.zeros(p.size, bool)
    pick[dual_set.lowest(p, size)] = True
    pick[kept] = True
    return np.flatnonzero(pick)


def on_support(lam: np.ndarray, p: np.ndarray, squares: np.ndarray, most: int) -> np.ndarray:
    """λ where it outweighs the slack p − 1, on no more rows than so many; zero elsewhere.

    An interior point leaves some weight on every row. `squares` are those of the rows' lengths, in
    which λ is a number like p.
    """
    weight = lam * squares / np.maximum(p - 1.0, 1e-15)
    support = np.flatnonzero(weight > 1.0)
    if support.size > most:
        support = support[np.argpartition(weight[support], -most)[-most:]]
    kept = np.zeros_like(lam)
    kept[support] = lam[support]
    return kept


def opposite_twins(matrix: MatrixOperator, signs: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """Two equal rows with opposite labels, if equal scores x·w + b betray any.

    Whatever w is, one of the two has p ≤ 0: only such rows are looked at, with the rows of the
    other label whose scores are among theirs.
    """
    scores = signs * p
    wrong = np.flatnonzero(p <= 0.0)
    if wrong.size == 0:
        return None
    wrong = wrong[np.argsort(scores[wrong])]
    known = scores[wrong]
    slack = 1e-12 * max(abs(float(known[0])), abs(float(known[-1])))
    others = np.flatnonzero((scores >= known[0] - slack) & (scores <= known[-1] + slack))
    place = np.searchsorted(known, scores[others] - slack)
    place = np.minimum(place, known.size - 1)
    close = np.abs(known[place] - scores[others]) <= slack
    suspects = np.flatnonzero(close & (signs[wrong[place]] != signs[others]))[:50]
    for k in suspects:
        pair = np.array([wrong[place[k]], others[k]])
        first, second = matrix.rows(pair)
        if np.array_equal(first, second):
            return pair
    return None
