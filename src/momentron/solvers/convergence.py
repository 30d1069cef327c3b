"""The warning of a fit that ended early; apart from the errors, which do without scikit-learn."""

from sklearn.exceptions import ConvergenceWarning


class BudgetWarning(ConvergenceWarning):
    """A budget ended the fit before the certified gap reached the tolerance."""
