"""scikit-learn estimators: linear, and through a kernel."""

from momentron.estimators.kernel import KernelMaxMarginClassifier
from momentron.estimators.linear import MaxMarginClassifier
from momentron.estimators.shared import labels_of

__all__ = ["KernelMaxMarginClassifier", "MaxMarginClassifier", "labels_of"]
