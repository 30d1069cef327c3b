"""The errors and warnings that momentron raises on purpose."""


class InputError(ValueError):
    """Bad input: one line that names the value, the limit and the remedy."""


class ArithmeticEnvironmentError(RuntimeError):
    """The processor's arithmetic is not what bounds and proofs assume, and could not be set so."""


class NotSeparableWarning(UserWarning):
    """The fit is a working classifier, but no positive margin was certified."""


class BudgetWarning(UserWarning):
    """A budget ended the fit before the certified gap reached the tolerance."""
