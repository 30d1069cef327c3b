"""Certified maximum-margin classification.

`max_margin` finds the best margin and proves an interval that contains it; `MaxMarginClassifier`
and `KernelMaxMarginClassifier` are scikit-learn estimators around it; `check_separability` proves
whether any margin exists, and `verify` checks such a proof in exact arithmetic. Importing this
loads neither torch, dask nor matplotlib.
"""

from momentron.api import max_margin
from momentron.certificate import Certificate, certify
from momentron.convergence import BudgetWarning
from momentron.errors import InputError, NotSeparableWarning, WriteWarning
from momentron.estimators import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.problem import Problem
from momentron.result import MarginResult
from momentron.separability import Verdict, check_separability
from momentron.status import Status
from momentron.verify import ProofError, verify

__version__ = "0.1.0"

__all__ = [
    "BudgetWarning",
    "Certificate",
    "InputError",
    "KernelMaxMarginClassifier",
    "MarginResult",
    "MaxMarginClassifier",
    "NotSeparableWarning",
    "Problem",
    "ProofError",
    "Status",
    "Verdict",
    "WriteWarning",
    "certify",
    "check_separability",
    "max_margin",
    "verify",
]
