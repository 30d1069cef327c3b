"""Estimators in scikit-learn's manner."""

from momentron.estimators.cross_validated import (
    KernelMaxMarginClassifierCV,
    MaxMarginClassifierCV,
)
from momentron.estimators.kernel_classifier import KernelMaxMarginClassifier
from momentron.estimators.linear_classifier import MaxMarginClassifier

__all__ = [
    "KernelMaxMarginClassifier",
    "KernelMaxMarginClassifierCV",
    "MaxMarginClassifier",
    "MaxMarginClassifierCV",
]
