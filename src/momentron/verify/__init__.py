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
from collections.abc import Sequence
from typing import Any

from momentron.arithmetic.clock import OutOfTime, until
from momentron.arithmetic.environment import standard_arithmetic
from momentron.data.exactness import as_exact
from momentron.verify.data import (
    Data,
    column_names,
    label_texts,
    own_order,
    ungrouped,
    zero_weight_rows,
)
from momentron.verify.duality import check_proof, direction_of
from momentron.verify.errors import UNREADABLE, ProofError, ProofTooLarge, reason
from momentron.verify.estimates import check_estimates
from momentron.verify.format import (
    Proof,
    check_class_rows,
    compare_names,
    load_proof,
    named_reading,
    read_proof,
)
from momentron.verify.limits import Allowance
from momentron.verify.sections import read_estimates

__all__ = ["ProofError", "ProofTooLarge", "require_proof", "verify"]


def verify(
    proof: Any,
    X: Any,
    y: Any,
    *,
    order: Sequence[Any] | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    max_time: float | None = None,
) -> bool:
    """Check a proof of separability against the data it is for, in exact arithmetic.

    Parameters
    ----------
    proof : Verdict, its JSON (str or bytes), or the dict within
    X, y : the data, dense or sparse, and their labels or counts
        Decimals are read as the proof says that it read them. For a formula, a frame with
        categories or a model of statsmodels, pass the X and y that
        `momentron.separability.read_design` makes of it.
    order : sequence of labels, optional
        For a proof of the family "ordinal": the order of the classes, lowest first. By default that
        of y, if it is an ordered categorical or has numbers; of other text the proof's is taken.
    sample_weight : array of shape (n,), optional
        Needed where the proof was made with weights some of which are 0: those rows are left out.
    feature_names : sequence of str, optional
        Of the columns of X; those of a data frame by default. A proof with other names is refused;
        where X or the proof has no names they are not compared.
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
                _require(proof, X, y, order, sample_weight, feature_names)
        except ProofError:
            raise
        except OutOfTime:
            if time.perf_counter() < end:
                raise  # the deadline of a caller
            raise ProofError(f"not checked: max_time={max_time} s ended first") from None
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
    return True


def _require(
    proof: Any, X: Any, y: Any, order: Any, sample_weight: Any, feature_names: Any
) -> None:
    """Raise unless the proof holds for the data, read as it says."""
    _require_numbers(X)
    names = _given_names(X) if feature_names is None else feature_names
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
    found = require_proof(document, data)
    compare_names(found.names, names)
    if found.family.name != "ordinal":
        if order is not None:
            raise ProofError(
                f"order is given, and the proof is of family {found.family.name!r}, whose classes "
                "have no order; leave order out"
            )
    else:
        _check_order(found.classes, own_order(y) if order is None else label_texts(list(order)))


def _require_numbers(X: Any) -> None:
    """Refuse what only stands for numbers: a formula, a frame with categories."""
    kinds = getattr(X, "dtypes", ()) if hasattr(X, "iloc") else ()
    if isinstance(X, str):
        what, call = f"the formula {X[:40]!r}", "read_design(formula, data=frame)"
    elif any(str(kind) == "category" for kind in kinds):
        what, call = "a frame with categories", "read_design(frame, y)"
    else:
        return
    raise ProofError(
        f"X is {what}; pass the X and y of design = momentron.separability.{call}, the numbers "
        "that the proof is about"
    )


def _given_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame, unless they merely count from 0."""
    names = column_names(X)
    return None if names == [str(j) for j in range(len(names or ()))] else names


def _check_order(classes: list[str], wanted: list[str] | None) -> None:
    """Raise unless a proof has its classes in the order that is meant, if one is known."""
    known = set(classes)
    meant = classes if wanted is None else [label for label in wanted if label in known]
    if meant != classes:
        raise ProofError(
            f"this proof orders the classes {' < '.join(classes[:12])}, and the order meant is "
            f"{' < '.join(meant[:12])}; pass order= (--order) if that of the proof is right"
        )


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
