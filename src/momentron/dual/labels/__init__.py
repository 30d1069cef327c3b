"""Two classes or many, with or without intercepts: the one description of what labels ask."""

import numpy as np

from momentron.dual.labels.base import NO_CODES, Labels
from momentron.dual.labels.many_classes import ManyClasses
from momentron.dual.labels.two_classes import TwoClasses


def as_labels(n_classes: int, fit_intercept: bool, codes: np.ndarray = NO_CODES) -> Labels:
    """The labels of examples whose classes are 0..k−1; of none where examples come in blocks."""
    kind = TwoClasses if n_classes == 2 else ManyClasses
    return kind(n_classes, fit_intercept, codes)


__all__ = ["Labels", "ManyClasses", "TwoClasses", "as_labels"]
