"""The verifier: checks a proof of separability in exact arithmetic, and trusts no solver.

To be read in this order, beside docs/proof-format.md:

- `duality`: the mathematics, four checks in whole numbers; all that makes a proof true is there;
- `data`: X and y, their SHA-256, and the rows as whole numbers;
- `format`, `numbers`: from JSON to what the proof says;
- `enclosure`: weights that exist without being written, for very large systems;
- `limits`, `deadline`, `errors`: proofs may be hostile, so all is bounded before it is done.

Of the rest of momentron it uses the conversion of X to floats that refuses to round (`exactness`),
the check of the processor's arithmetic (`environment`), the clock, and the class of input errors.
"""

import math
import time
from typing import Any

from momentron.clock import OutOfTime, until
from momentron.environment import standard_arithmetic
from momentron.verify.data import Data
from momentron.verify.duality import check_proof
from momentron.verify.errors import UNREADABLE, ProofError, ProofTooLarge, reason
from momentron.verify.format import read_proof

__all__ = ["ProofError", "ProofTooLarge", "require_proof", "verify"]


def verify(proof: Any, X: Any, y: Any, *, max_time: float | None = None) -> bool:
    """Check a proof of separability against the data it is for, in exact arithmetic.

    Parameters
    ----------
    proof : Verdict, its JSON (str or bytes), or the dict within
    X, y : the data, dense or sparse, and their labels
    max_time : float, optional
        Seconds; a proof that is not checked within them is not accepted.

    Returns
    -------
    bool
        True; where the proof fails, `ProofError` is raised with the first row that fails.

    Examples
    --------
    >>> from momentron import check_separability
    >>> verify(check_separability([[0], [1], [2]], [0, 1, 0]).to_json(), [[0], [1], [2]], [0, 1, 0])
    True
    """
    end = math.inf if max_time is None else time.perf_counter() + max_time
    with standard_arithmetic():
        try:
            with until(end):
                require_proof(proof, Data.read(X, y))
        except ProofError:
            raise
        except OutOfTime:
            if time.perf_counter() < end:
                raise  # the deadline of a caller
            raise ProofError(f"not checked: max_time={max_time} s ended first") from None
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
    return True


def require_proof(proof: Any, data: Data) -> None:
    """Raise unless the proof holds for the data."""
    check_proof(read_proof(proof, data), data)
