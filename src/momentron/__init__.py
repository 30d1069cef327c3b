"""Certified maximum-margin classification.

`max_margin` finds the best margin and proves an interval that contains it; `MaxMarginClassifier` is
the scikit-learn estimator around it. Importing this loads neither torch, dask nor matplotlib.
"""

from momentron.api import max_margin
from momentron.certificate import Certificate, certify
from momentron.errors import BudgetWarning, InputError, NotSeparableWarning
from momentron.estimators import MaxMarginClassifier
from momentron.problem import Problem
from momentron.result import MarginResult
from momentron.status import Status

__version__ = "0.1.0"

__all__ = [
    "BudgetWarning",
    "Certificate",
    "InputError",
    "MarginResult",
    "MaxMarginClassifier",
    "NotSeparableWarning",
    "Problem",
    "Status",
    "certify",
    "max_margin",
]
