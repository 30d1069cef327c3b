"""The model that `momentron fit --save` writes, and `momentron predict` reads."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from momentron.data.safefiles import open_regular, reason
from momentron.errors import InputError
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel, as_kernel

BLOCK = 1 << 22  # kernel values that are computed at a time
PARAMETERS = {"gamma": float, "degree": int, "coef0": float}  # of kernels


@dataclass(frozen=True, eq=False)
class Model:
    """A saved classifier.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (k, d); with a kernel, one number per support vector
    intercept : ndarray
    classes : ndarray of shape (k,)
    kernel : Kernel or None
    vectors : ndarray or None
        The support vectors of a kernel; None where it was precomputed.
    rows : ndarray or None
        Their numbers among the rows of the fit.
    n_fitted : int
        The rows of the fit, where the kernel was precomputed.
    levels : dict
        The levels of text columns that `fit --dummies` encoded, the one left out first.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    kernel: Kernel | None = None
    vectors: np.ndarray | None = None
    rows: np.ndarray | None = None
    n_fitted: int = 0
    levels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Columns of the rows that it classifies."""
        if self.kernel is None:
            return int(self.coef.shape[-1])
        return self.n_fitted if self.vectors is None else int(self.vectors.shape[1])

    def decide(self, X: Any) -> np.ndarray:
        """Signed distances of shape (n,), or outputs of shape (n, k)."""
        outputs = np.empty((X.shape[0], *self.coef.shape[:-1]))
        bound = None
        if self.kernel is not None and self.vectors is not None:
            bound = self.kernel.bind(self.vectors)
        step = max(1, BLOCK // max(self.coef.shape[-1], 1))
        for start in range(0, X.shape[0], step):
            part = X[start : start + step]
            if bound is not None:
                part = bound.cross(part)
            elif self.rows is not None:
                part = part[:, self.rows]
            outputs[start : start + step] = np.asarray(part @ self.coef.T)
        return outputs + self.intercept


def write_model(
    stream: IO[bytes],
    result: MarginResult,
    levels: dict[str, list[str]],
    kernel: tuple[str, Kernel | None, Any] | None = None,
) -> None:
    """The classifier and its certificate as an .npz file that loads without pickle.

    Of a kernel come its name, its parameters as numbers, and the rows of the fit: those that have
    a coefficient are its support vectors, and of `coef` only their entries are kept.
    """
    classes = result.classes
    arrays: dict[str, Any] = {
        "coef": result.coef,
        "intercept": result.intercept,
        "classes": classes.astype(str) if classes.dtype.kind == "O" else classes,
        "lower": result.lower,
        "upper": result.upper,
        "support": result.support,
        "dual": result.dual,
        "status": str(result.status),
    }
    if levels:
        arrays["levels"] = json.dumps(levels)
    if kernel is not None:
        name, found, X = kernel
        rows = np.flatnonzero(np.atleast_2d(result.coef).any(axis=0))
        arrays |= {"kernel": name, "coef": result.coef[..., rows], "rows": rows}
        arrays |= {"n_rows": X.shape[0]}
        if name != "precomputed":
            vectors = X[rows]
            dense = vectors.toarray() if hasattr(vectors, "toarray") else vectors
            arrays["support_vectors"] = dense
        numbers = {key: getattr(found, key, None) for key in PARAMETERS}
        arrays |= {key: value for key, value in numbers.items() if value is not None}
    np.savez(stream, **arrays)


def load_model(path: Path) -> Model:
    """Read a model; nothing in the file is executed.

    Raises
    ------
    InputError
        Where the file is not such a model.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; momentron fit --save writes models") from None
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(
            f"{path} cannot be read as a model: {reason(error)}; momentron fit --save writes models"
        ) from error
    try:
        return _model(found)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{path} is not a model of momentron fit --save: {reason(error)}"
        ) from error


def _model(found: dict[str, np.ndarray]) -> Model:
    for name in ("coef", "intercept", "classes"):
        if name not in found:
            raise ValueError(f"it has no array {name!r}")
    coef, intercept = (np.asarray(found[name], np.float64) for name in ("coef", "intercept"))
    classes = found["classes"]
    outputs = coef.shape[:-1]
    is_whole = coef.ndim in (1, 2) and classes.ndim == 1 and intercept.shape in ((), outputs)
    if not is_whole or outputs not in ((), (classes.size,)) or classes.size < 2:
        raise ValueError("its arrays do not fit each other")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("it has a number that is not finite")
    levels = json.loads(str(found["levels"])) if "levels" in found else {}
    if "kernel" not in found:
        return Model(coef, intercept, classes, levels=levels)
    name = str(found["kernel"])
    rows = np.asarray(found["rows"], np.int64)
    if rows.shape != coef.shape[-1:]:
        raise ValueError("its arrays do not fit each other")
    if name == "precomputed":
        width = int(found.get("n_rows", rows.max(initial=-1) + 1))
        kernel = as_kernel(name, X=np.empty((0, 0)))
        return Model(coef, intercept, classes, kernel, None, rows, width, levels)
    vectors = np.asarray(found["support_vectors"], np.float64)
    if vectors.ndim != 2 or len(vectors) != rows.size or not np.isfinite(vectors).all():
        raise ValueError("its support vectors do not fit its coefficients")
    options: dict[str, Any] = {k: cast(found[k]) for k, cast in PARAMETERS.items() if k in found}
    kernel = as_kernel(name, X=vectors, **options)
    return Model(coef, intercept, classes, kernel, vectors, rows, levels=levels)
