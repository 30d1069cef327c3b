"""The model that `momentron fit --save` writes."""

from typing import IO, Any

import numpy as np

from momentron.fitting.in_memory import Fit
from momentron.result import MarginResult


def kernel_model(name: Any, X: Any, fit: Fit) -> dict[str, Any]:
    """What predicting with a kernel needs: its parameters as numbers, and the support vectors.

    `rows` are their numbers, and of `coef` only their entries are kept.
    """
    coef = fit.result.coef
    rows = np.flatnonzero(np.atleast_2d(coef).any(axis=0))
    numbers = {key: getattr(fit.kernel, key, None) for key in ("gamma", "degree", "coef0")}
    model: dict[str, Any] = {"kernel": name, "coef": coef[..., rows], "rows": rows}
    model["n_rows"] = X.shape[0]
    if name != "precomputed":
        vectors = X[rows]
        model["support_vectors"] = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    return model | {key: value for key, value in numbers.items() if value is not None}


def write_model(stream: IO[bytes], result: MarginResult, **more: Any) -> None:
    """The classifier and its certificate as an .npz file that loads without pickle."""
    classes = result.classes
    if classes.dtype.kind == "O":
        classes = classes.astype(str)
    arrays: dict[str, Any] = {
        "coef": result.coef,
        "intercept": result.intercept,
        "classes": classes,
        "lower": result.lower,
        "upper": result.upper,
        "support": result.support,
        "dual": result.dual,
        "status": str(result.status),
    }
    np.savez(stream, **(arrays | more))
