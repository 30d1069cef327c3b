"""Why a proof is refused."""

from momentron.errors import InputError
from momentron.verify.proof import Refused

UNREADABLE = (  # what a hostile proof, or data that are not data, can make Python raise
    *(LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError),
    RuntimeError,  # RecursionError too, and arrays that refuse to be converted
)


class ProofError(InputError):
    """The proof does not hold for these data, or is not a proof: says which row, or what, fails."""


class ProofTooLarge(ProofError):
    """The proof has more characters, entries or digits, or needs more work, than is allowed."""


class NotJSON(ProofError):
    """The proof cannot be read at all: it is no JSON text, or one that was cut off."""


def reason(error: BaseException) -> str:
    """Why a proof could not be read, in one line."""
    if isinstance(error, InputError | Refused):  # says it already
        return str(error)
    return f"malformed: {type(error).__name__}: {str(error)[:200]}"
