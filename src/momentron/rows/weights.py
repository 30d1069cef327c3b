"""How much rows count: `sample_weight` and `class_weight`, with scikit-learn's meaning.

The cost of slack in row i is C·s_i, with s_i the product of its sample weight and class weight. A
weight of 2 is the same as the row twice, and a weight of 0 the same as leaving it out.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from momentron.data.arguments import as_number
from momentron.errors import InputError, short
from momentron.rows.validation import LEAST_WEIGHT, MOST_WEIGHT, WANTED_WEIGHT, TrainingData


def require_class_weight(class_weight: Any) -> None:
    """Raise unless it is None, "balanced" or a table of weights by label."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise InputError(
            f"class_weight={short(class_weight)} must be None, 'balanced' or a dict from labels to "
            "weights"
        )
    for label, given in class_weight.items():
        name = f"class_weight[{label!r}]"
        weight = as_number(name, given, WANTED_WEIGHT)
        if not (weight == 0.0 or LEAST_WEIGHT <= weight <= MOST_WEIGHT):
            raise InputError(f"{name}={short(weight)} must be {WANTED_WEIGHT}")


def class_factors(class_weight: Any, data: TrainingData) -> np.ndarray | None:
    """The weight of each class; None where all are 1.

    "balanced" gives every class the same total weight: n/(k n_c), where rows count as often as
    their own weights say.
    """
    if class_weight is None:
        return None
    k = data.classes.size
    if isinstance(class_weight, str):
        counts = np.bincount(data.codes, data.sample_weight, minlength=k)
        present = counts > 0.0
        factors = np.ones(k)
        factors[present] = counts.sum() / (np.count_nonzero(present) * counts[present])
        return factors
    labels = data.classes.tolist()
    missing = [label for label in labels if label not in class_weight]
    if missing and k - len(missing) != len(class_weight):
        unknown = [label for label in class_weight if label not in labels]
        raise InputError(
            f"class_weight has the key {short(unknown[0])}, but the labels of y are {short(labels)}"
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def weighed(data: TrainingData, class_weight: Any, *, is_square: bool = False) -> TrainingData:
    """The rows that have a weight, with it; the same data where all weights are 1.

    `is_square` says that X is a matrix of kernel values, whose columns are rows, too.
    """
    factors = class_factors(class_weight, data)
    if data.sample_weight is None and factors is None:
        return data
    weights = np.ones(data.codes.size) if data.sample_weight is None else data.sample_weight
    if factors is not None:
        with np.errstate(over="ignore", under="ignore"):
            product = weights * factors[data.codes]
        is_lost = (weights > 0.0) & (factors[data.codes] > 0.0)
        is_lost &= ~((product >= LEAST_WEIGHT) & (product <= MOST_WEIGHT))
        if is_lost.any():
            i = int(is_lost.argmax())
            raise InputError(
                f"row {i} has weight {float(product[i])!r}, the product of its sample and class "
                f"weights; it must be {WANTED_WEIGHT}"
            )
        weights = product
    kept = np.flatnonzero(weights > 0.0)
    if kept.size < weights.size:
        present = np.unique(data.codes[kept])  # classes without any rows are left out
        if present.size < 2:
            raise InputError(
                f"only {present.size} class has rows with a positive weight; max_margin needs at "
                "least 2"
            )
        X = data.X[kept]
        data = TrainingData(
            X=X[:, kept] if is_square else X,
            classes=data.classes[present],
            codes=np.searchsorted(present, data.codes[kept]),
            sample_weight=None if data.sample_weight is None else data.sample_weight[kept],
            kept=kept,
            n_given=data.codes.size,
        )
        weights = weights[kept]
    return replace(data, weights=None if (weights == 1.0).all() else weights)
