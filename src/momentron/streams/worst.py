"""The weights that are worst for a classifier, from the worst row of each class."""

import numpy as np

from momentron.labels import Labels
from momentron.streams.blocks import in_float64
from momentron.streams.working_set import Rows


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
