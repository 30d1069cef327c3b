"""Certified maximum-margin classification.

`max_margin` finds the best margin and proves an interval that contains it; `MaxMarginClassifier`
and `KernelMaxMarginClassifier` are scikit-learn estimators around it; `check_separability` proves
whether any margin exists, and `verify` checks such a proof in exact arithmetic. Importing this
loads neither torch, dask nor matplotlib.
"""

from momentron.api import max_margin
from momentron.certificate import Certificate
from momentron.convergence import BudgetWarning
from momentron.errors import InputError, NotSeparableWarning, WriteWarning
from momentron.estimators import (
    KernelMaxMarginClassifier,
    KernelMaxMarginClassifierCV,
    MaxMarginClassifier,
    MaxMarginClassifierCV,
)
from momentron.iterate import Iterate
from momentron.own_margin import ClassifierMargin, certify, margin_of
from momentron.paths import MarginPath, margin_path
from momentron.problem import Problem
from momentron.racing import Race, race
from momentron.result import MarginResult
from momentron.separability import Verdict, check_separability
from momentron.status import Status
from momentron.tracker import MarginTracker
from momentron.verify import ProofError, verify

__version__ = "0.1.0"

__all__ = [
    "BudgetWarning",
    "Certificate",
    "ClassifierMargin",
    "InputError",
    "Iterate",
    "KernelMaxMarginClassifier",
    "KernelMaxMarginClassifierCV",
    "MarginPath",
    "MarginResult",
    "MarginTracker",
    "MaxMarginClassifier",
    "MaxMarginClassifierCV",
    "NotSeparableWarning",
    "Problem",
    "ProofError",
    "Race",
    "Status",
    "Verdict",
    "WriteWarning",
    "certify",
    "check_separability",
    "margin_of",
    "margin_path",
    "max_margin",
    "race",
    "verify",
]
