"""Certified maximum-margin classification.

`max_margin` finds the best margin and proves an interval that contains it; `MaxMarginClassifier`
and `KernelMaxMarginClassifier` are scikit-learn estimators around it; `check_separability` proves
whether any margin exists, and `verify` checks such a proof in exact arithmetic. Importing this
loads neither torch, dask nor matplotlib.
"""

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from momentron.errors import InputError, NotSeparableWarning, WriteWarning
from momentron.status import Predictor, Status
from momentron.verify import ProofError, verify

if TYPE_CHECKING:
    from momentron.api import max_margin as max_margin
    from momentron.certificate import Certificate as Certificate
    from momentron.estimators import KernelMaxMarginClassifier as KernelMaxMarginClassifier
    from momentron.estimators import KernelMaxMarginClassifierCV as KernelMaxMarginClassifierCV
    from momentron.estimators import MaxMarginClassifier as MaxMarginClassifier
    from momentron.estimators import MaxMarginClassifierCV as MaxMarginClassifierCV
    from momentron.estimators.c_path import MarginPath as MarginPath
    from momentron.estimators.c_path import margin_path as margin_path
    from momentron.estimators.classifier_margin import ClassifierMargin as ClassifierMargin
    from momentron.estimators.classifier_margin import certify as certify
    from momentron.estimators.classifier_margin import margin_of as margin_of
    from momentron.estimators.racing import Race as Race
    from momentron.estimators.racing import race as race
    from momentron.estimators.tracker import MarginTracker as MarginTracker
    from momentron.result import MarginResult as MarginResult
    from momentron.separability import Verdict as Verdict
    from momentron.separability import check_separability as check_separability
    from momentron.solvers.loop import Iterate as Iterate
    from momentron.solvers.problem import Problem as Problem
    from momentron.solvers.solver import BudgetWarning as BudgetWarning

__version__ = "0.1.0"

# loaded when a name of theirs is first asked for: `python -m momentron.verify` needs numpy only
_LATER = {
    "api": ("max_margin",),
    "certificate": ("Certificate",),
    "estimators.c_path": ("MarginPath", "margin_path"),
    "estimators.classifier_margin": ("ClassifierMargin", "certify", "margin_of"),
    "estimators.classifiers": ("KernelMaxMarginClassifier", "MaxMarginClassifier"),
    "estimators.cross_validated": ("KernelMaxMarginClassifierCV", "MaxMarginClassifierCV"),
    "estimators.racing": ("Race", "race"),
    "estimators.tracker": ("MarginTracker",),
    "result": ("MarginResult",),
    "separability": ("Verdict", "check_separability"),
    "solvers.solver": ("BudgetWarning",),
    "solvers.loop": ("Iterate",),
    "solvers.problem": ("Problem",),
}

__all__ = ["InputError", "NotSeparableWarning", "Predictor", "ProofError", "Status", "WriteWarning"]
__all__ += ["verify", *chain.from_iterable(_LATER.values())]
__all__.sort()


def __getattr__(name: str) -> Any:
    if name in {module.partition(".")[0] for module in _LATER}:
        return import_module(f"momentron.{name}")
    for module, names in _LATER.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"momentron.{module}"), name)
            return value
    raise AttributeError(f"module 'momentron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
