"""The errors and warnings that momentron raises on purpose."""


class InputError(ValueError):
    """Bad input: one line that names the value, the limit and the remedy."""


class NotSeparableWarning(UserWarning):
    """The fit is a working classifier, but no positive margin was certified."""


class BudgetWarning(UserWarning):
    """A budget ended the fit before the certified gap reached the tolerance."""


class WriteWarning(UserWarning):
    """A file could not be written; the answer is not affected."""
