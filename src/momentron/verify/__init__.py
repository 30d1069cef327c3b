"""The verifier: checks a proof of separability in exact arithmetic, and trusts no solver.

To be read in this order, beside docs/proof-format.md:

- `duality`: the mathematics, four checks in whole numbers; all that makes a proof true is there;
- `combination`: sums of weighted vectors;
- `family`: which vectors the rows of each model make;
- `estimates`, `modular`: what becomes of each coefficient;
- `data`: X and y, their SHA-256, and the rows as whole numbers;
- `format`, `sections`, `numbers`: from JSON to what the proof says;
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
from momentron.exactness import as_exact
from momentron.verify.data import Data, ungrouped, zero_weight_rows
from momentron.verify.duality import check_proof, direction_of
from momentron.verify.errors import UNREADABLE, ProofError, ProofTooLarge, reason
from momentron.verify.estimates import check_estimates
from momentron.verify.format import (
    Proof,
    check_class_rows,
    load_proof,
    named_reading,
    read_proof,
)
from momentron.verify.limits import Allowance
from momentron.verify.sections import read_estimates

__all__ = ["ProofError", "ProofTooLarge", "require_proof", "verify"]


def verify(
    proof: Any, X: Any, y: Any, *, sample_weight: Any = None, max_time: float | None = None
) -> bool:
    """Check a proof of separability against the data it is for, in exact arithmetic.

    Parameters
    ----------
    proof : Verdict, its JSON (str or bytes), or the dict within
    X, y : the data, dense or sparse, and their labels or counts
        Decimals are read as the proof says that it read them.
    sample_weight : array of shape (n,), optional
        Needed where the proof was made with weights some of which are 0: those rows are left out.
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
                _require(proof, X, y, sample_weight)
        except ProofError:
            raise
        except OutOfTime:
            if time.perf_counter() < end:
                raise  # the deadline of a caller
            raise ProofError(f"not checked: max_time={max_time} s ended first") from None
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
    return True


def _require(proof: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Raise unless the proof holds for the data, read as it says."""
    decimals = named_reading(proof)  # what it really says is compared below
    counted = ungrouped(y, sample_weight)
    if counted is not None:
        rows, y, sample_weight = counted
        X = as_exact(X, decimals)
        X = (X.tocsr() if hasattr(X, "tocsr") else X)[rows]
    data = Data.read(X, y, decimals=decimals)
    left_out = zero_weight_rows(sample_weight, data.n)
    document = load_proof(proof, Allowance.of(data))
    if document["data"]["decimals"] != decimals:
        raise ProofError("data.decimals must be 'binary' or 'shortest'")
    if left_out:
        data = Data.read(X, y, decimals=decimals, left_out=left_out)
    require_proof(document, data)


def require_proof(proof: Any, data: Data) -> Proof:
    """The proof as it was read; raise unless it holds for the data."""
    document = load_proof(proof, Allowance.of(data))
    found = read_proof(document, data)
    check_proof(found, data)
    check_class_rows(document.get("class_rows"), found)
    _check_estimates(document, found, data)
    return found


def require_estimates(proof: Any, found: Proof, data: Data) -> None:
    """Raise unless the estimates of a proof hold, all else in it having been read and checked."""
    _check_estimates(load_proof(proof, Allowance.of(data)), found, data)


def _check_estimates(document: dict[str, Any], found: Proof, data: Data) -> None:
    estimates = read_estimates(document["estimates"], found, data)
    if estimates is not None:
        check_estimates(estimates, found, data, direction_of(found, data))
