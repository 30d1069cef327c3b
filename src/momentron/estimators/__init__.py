"""Estimators in scikit-learn's manner."""

from momentron.estimators.classifiers import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.estimators.cross_validated import KernelMaxMarginClassifierCV, MaxMarginClassifierCV

__all__ = [
    "KernelMaxMarginClassifier",
    "KernelMaxMarginClassifierCV",
    "MaxMarginClassifier",
    "MaxMarginClassifierCV",
]
