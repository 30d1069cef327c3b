"""The errors and warnings that momentron raises on purpose."""


class InputError(ValueError):
    """Bad input: one line that names the value, the limit and the remedy."""


class ArithmeticEnvironmentError(RuntimeError):
    """The processor's arithmetic is not what bounds and proofs assume, and could not be set so."""


class NotSeparableWarning(UserWarning):
    """The fit is a working classifier, but no positive margin was certified."""


class SolverError(ValueError):
    """A solver proposed something unusable: one line that says what was wanted instead."""


class ContradictionError(RuntimeError):
    """Two proven bounds contradict each other: what they were proven of must have changed."""


class WriteWarning(UserWarning):
    """A file could not be written; the answer is not affected."""
