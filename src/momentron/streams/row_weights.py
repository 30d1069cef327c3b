"""Weights on single rows of a stream."""

from dataclasses import dataclass

import numpy as np

from momentron.dual.labels import Labels
from momentron.solvers.checkpoint import unusable
from momentron.streams.blocks import Rows, in_float64


@dataclass(frozen=True)
class RowWeights:
    """Weights of some rows, which may be named more than once; every other row has none.

    Attributes
    ----------
    numbers, codes : ndarray of shape (m,)
    weights : ndarray of shape (m,), or (m, k)
    """

    numbers: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def none(cls, labels: Labels) -> "RowWeights":
        return cls(np.empty(0, int), np.empty(0, int), labels.zeros(0))

    def mixed(self, x: float, other: "RowWeights", y: float) -> "RowWeights":
        """x·these + y·the others, each row once, in the order of their numbers."""
        numbers = np.concatenate([self.numbers, other.numbers])
        codes = np.concatenate([self.codes, other.codes])
        weights = np.concatenate([x * self.weights, y * other.weights])
        rows, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        total = np.zeros((rows.size, *weights.shape[1:]))
        np.add.at(total, place, weights)
        return RowWeights(rows, codes[first], total)


def weights_from_arrays(
    rows: Rows, arrays: dict[str, np.ndarray], labels: Labels
) -> tuple[np.ndarray, float]:
    """Weights of these rows and the bound that was claimed for them, from a checkpoint."""
    numbers, weights, upper = (arrays.get(name) for name in ("numbers", "weights", "upper"))
    if numbers is None or weights is None or upper is None:
        raise unusable("it has no weights")
    numbers = row_numbers(numbers)
    dual = labels.zeros(rows.size)
    is_real = weights.dtype.kind == "f" and upper.dtype.kind == "f" and upper.shape == ()
    if not is_real or weights.shape != (numbers.size, *dual.shape[1:]):
        raise unusable(f"its weights have shape {weights.shape} for {numbers.size} rows")
    if not (np.isfinite(weights).all() and (weights >= 0.0).all() and weights.any()):
        raise unusable("its weights are not all numbers of at least 0, or all of them are 0")
    dual[np.searchsorted(rows.numbers, numbers)] = weights
    if labels.is_paired:
        dual[np.arange(rows.size), rows.codes] = 0.0  # no row weighs against its own class
    return dual, 0.0 if np.isnan(upper) else float(upper)


def row_numbers(numbers: np.ndarray) -> np.ndarray:
    """Numbers of rows that a checkpoint names, checked."""
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iu" and numbers.size > 0
    if not is_list or numbers.min() < 0 or np.unique(numbers).size < numbers.size:
        raise unusable("its rows are not numbered by different whole numbers of at least 0")
    return numbers.astype(np.int64)


def worst_weights(labels: Labels, rows: Rows, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Weights of the rows in the dual set, on those that decide the margin of w.

    There is a row of every class, the one that w serves worst; b are the best intercepts where
    there are many classes. Without intercepts the worst row of all has all the weight, and of two
    classes each has half. Among many classes with intercepts, each row leads from its class to the
    one that it is nearest to; whoever follows these arcs runs in a circle in the end, and a circle
    is what the dual set asks for. With the best b all arcs are equally bad, as those of a cycle of
    least mean are.
    """
    scores = labels.block_scores(np.asarray(in_float64(rows.X) @ w), rows.codes)
    if not labels.is_paired:
        if labels.fit_intercept:
            return np.full(rows.size, 0.5)
        return (np.arange(rows.size) == int(scores.argmax())).astype(float)
    scores += b - b[rows.codes][:, None]
    nearest, worst = scores.argmax(axis=1), int(scores.max(axis=1).argmax())
    weights = np.zeros(scores.shape)
    if not labels.fit_intercept:
        weights[worst, nearest[worst]] = 1.0
        return weights
    row_of = dict(zip(rows.codes.tolist(), range(rows.size), strict=True))
    path = [worst]
    while (row := row_of[int(nearest[path[-1]])]) not in path:
        path.append(row)
    cycle = path[path.index(row) :]
    weights[cycle, nearest[cycle]] = 1.0 / len(cycle)
    return weights
