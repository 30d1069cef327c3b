"""The verifier: checks a proof of separability in exact arithmetic, and trusts no solver.

To be read in this order, next to docs/proof-format.md:

- `proof`: the heart, which decides whether a proof is accepted; it imports nothing of momentron;
- `exact_table`: X and y, their SHA-256, and the rows as integers;
- `estimates`: what becomes of each coefficient;
- `limits`: proofs may be hostile, so that everything is bounded before it is done;
- `outcomes`: labels, counts and weights as users pass them.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, until
from momentron.arithmetic.environment import standard_arithmetic
from momentron.verify.errors import UNREADABLE, ProofError, ProofTooLarge, reason
from momentron.verify.estimates import Estimates
from momentron.verify.exact_table import Table
from momentron.verify.limits import LONGEST_NAME, load_proof, require_modest
from momentron.verify.outcomes import column_names, label_texts, own_order, read_table, ungrouped
from momentron.verify.proof import Proof, Refused, read_model

__all__ = ["ProofError", "ProofTooLarge", "check_document", "verify"]


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
        Needed if the proof was made with weights some of which are 0: those rows are left out.
    feature_names : sequence of str, optional
        Of the columns of X; those of a data frame by default. A proof with other names is refused;
        if X or the proof has no names they are not compared.
    max_time : float, optional
        Seconds; a proof that is not checked within them is not accepted.

    Returns
    -------
    bool
        True; if the proof fails, `ProofError` is raised with the first row that fails.

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
                _verify(proof, X, y, order, sample_weight, feature_names)
        except OutOfTime:
            if time.perf_counter() < end:
                raise  # the deadline of a caller
            raise ProofError(f"not checked: max_time={max_time} s ended first") from None
        except ProofError:
            raise
        except UNREADABLE as error:
            raise ProofError(reason(error)) from None
    return True


def _verify(proof: Any, X: Any, y: Any, order: Any, sample_weight: Any, names: Any) -> None:
    """Raise unless the proof holds for the data, read as it says."""
    _require_numbers(X)
    names = column_names(X) if names is None else names
    if names == [str(j) for j in range(len(names or ()))]:  # of a frame that merely counts them
        names = None
    document = load_proof(proof)
    decimals = "binary" if document["data"]["decimals"] == "binary" else "shortest"
    rows, y, weights = ungrouped(y, sample_weight) or (None, y, sample_weight)
    checked = check_document(document, read_table(X, y, weights, decimals=decimals, rows=rows))
    compare_names(checked.names, names)
    if checked.model.family == "ordinal":
        given = own_order(y) if order is None else label_texts(list(order))
        meant = [label for label in given or checked.classes if label in checked.classes]
        if meant != checked.classes:
            orders = [" < ".join(classes[:12]) for classes in (checked.classes, meant)]
            raise ProofError(
                f"this proof orders the classes {orders[0]}, but the data order them {orders[1]}; "
                "pass order= (--order) if the order of the proof is right"
            )
    elif order is not None:
        raise ProofError(
            f"order is given, and the proof is of family {checked.model.family!r}, whose classes "
            "have no order; leave order out"
        )


def check_document(document: dict[str, Any], table: Table, checked: Proof | None = None) -> Proof:
    """The proof as it was read; raise unless it holds for the data.

    If all but the estimates of a document was `checked` before, only these are read.
    """
    try:
        model = read_model(document, table) if checked is None else checked.model
        require_modest(document, table)
        if checked is None:
            checked = Proof(document, table, model)
            _check_repeated(document, checked)
        if document["estimates"] is not None:
            Estimates(document["estimates"], checked).check()
    except Refused as error:
        raise ProofError(str(error)) from None
    return checked


def _check_repeated(document: dict[str, Any], proof: Proof) -> None:
    """What a proof repeats for human readers is what the data say."""
    d, names = proof.table.d, document["names"]
    if names is not None and [type(name) for name in names] != [str] * d:
        raise ProofError(f"names must be null or {d} texts, one for each column")
    for group, read in zip(document["conflict"], proof.conflict, strict=True):
        labels = [proof.table.labels[i] for i, _ in read.numerators]
        against = [proof.classes[j] for _, j in read.numerators]
        if (group["labels"], group["against"]) != (labels, against):
            raise ProofError("the labels, or the classes against which they stand, do not match y")
    said = document.get("class_rows")
    if said is None:
        return
    if any(type(v) is not list or {*map(type, v)} - {int} for v in said.values()):
        raise ProofError("class_rows must hold lists of integers")
    counts = np.bincount(proof.codes + 1, minlength=proof.model.k + 1)[1:].tolist()
    rows = sorted({i for i, _ in proof.on_boundary})
    if said != {"counts": counts, "boundary": proof.codes[rows].tolist()}:
        raise ProofError("the classes of rows in class_rows are not those in y")


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


def compare_names(said: list[str] | None, names: Sequence[str] | None) -> None:
    """Raise if both the proof and the data name their columns, and differently."""
    if said is None or names is None:
        return
    if len(names) != len(said):
        raise ProofError(f"columns with a name: {len(names)} in the data, {len(said)} in the proof")
    for j, (a, b) in enumerate(zip(said, names, strict=True)):
        if a != str(b)[:LONGEST_NAME]:
            raise ProofError(
                f"the names of the columns differ: column {j} is {a!r} in the proof and "
                f"{str(b)[:LONGEST_NAME]!r} in the data"
            )
