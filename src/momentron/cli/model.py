"""The model that `momentron fit --save` writes, and `momentron predict` reads."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from momentron.data.files import FeatureColumns
from momentron.data.safefiles import open_regular, reason, require_file
from momentron.errors import InputError
from momentron.estimators import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.rows.kernels import as_kernel

Classifier = MaxMarginClassifier | KernelMaxMarginClassifier
PARAMETERS = {"gamma": float, "degree": int, "coef0": float}  # of kernels


def write_model(
    stream: IO[bytes], model: Classifier, columns: FeatureColumns | None = None
) -> None:
    """The classifier and its certificate as an .npz file that loads without pickle.

    Of a table come the names of its columns, by which `predict` finds them in another one.
    Of a kernel come its name, its parameters as numbers, and the support vectors, of whose rows
    alone `coef` has entries.
    """
    result, classes = model.result_, model.classes_
    names = ("coef", "intercept", "lower", "upper", "support", "dual")
    arrays: dict[str, Any] = {name: getattr(result, name) for name in names}
    arrays["classes"] = classes.astype(str) if classes.dtype.kind == "O" else classes
    arrays["status"] = str(result.status)
    if columns is not None:
        arrays["columns"] = json.dumps(asdict(columns))
    if isinstance(model, KernelMaxMarginClassifier):
        rows, vectors = model.support_, model.support_vectors_
        arrays |= {"kernel": model.kernel, "coef": result.coef[..., rows], "rows": rows}
        arrays["n_rows"] = result.n_rows
        if model._kernel is not None:
            dense = vectors.toarray() if hasattr(vectors, "toarray") else vectors
            arrays["support_vectors"] = dense
        numbers = {key: getattr(model._kernel, key, None) for key in PARAMETERS}
        arrays |= {key: value for key, value in numbers.items() if value is not None}
    np.savez(stream, **arrays)


def load_model(path: Path) -> tuple[Classifier, FeatureColumns]:
    """(a fitted classifier, the columns of the table that it was fitted to).

    Nothing in the file is executed; a file that is not such a model gives an InputError.
    """
    require_file(path)
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(
            f"{path} cannot be read as a model; momentron fit --save writes models"
        ) from error
    try:
        columns = FeatureColumns(**json.loads(str(found.get("columns", "{}"))))
        lists = [columns.names or (), columns.levels, *columns.levels.values()]
        if not all(isinstance(text, str) for texts in lists for text in texts):
            raise ValueError("the names of its columns are not text")
        return _classifier(found), columns
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{path} was not written by momentron fit --save: {reason(error)}"
        ) from error


def _classifier(found: dict[str, np.ndarray]) -> Classifier:
    for name in ("coef", "intercept", "classes"):
        if name not in found:
            raise ValueError(f"it has no array {name!r}")
    coef, intercept = (np.asarray(found[name], np.float64) for name in ("coef", "intercept"))
    classes = found["classes"]
    outputs = coef.shape[:-1]
    is_whole = coef.ndim in (1, 2) and classes.ndim == 1 and intercept.shape in ((), outputs)
    if not is_whole or outputs not in ((), (classes.size,)) or classes.size < 2:
        raise ValueError("the shapes of its arrays do not match")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("it has a number that is not finite")
    linear = MaxMarginClassifier()
    linear.coef_, linear.n_features_in_ = np.atleast_2d(coef), coef.shape[-1]
    model = _with_kernel(found, coef) if "kernel" in found else linear
    model.classes_, model.intercept_ = classes, np.atleast_1d(intercept)
    return model


def _with_kernel(found: dict[str, np.ndarray], coef: np.ndarray) -> KernelMaxMarginClassifier:
    model = KernelMaxMarginClassifier(kernel=str(found["kernel"]))
    model.support_ = np.asarray(found["rows"], np.int64)
    model.dual_coef_ = np.atleast_2d(coef)
    if model.support_.shape != coef.shape[-1:]:
        raise ValueError("the shapes of its arrays do not match")
    if model.kernel == "precomputed":
        model._kernel, model.support_vectors_ = None, np.empty((0, 0))
        model.n_features_in_ = int(found.get("n_rows", model.support_.max(initial=-1) + 1))
        return model
    vectors = np.asarray(found["support_vectors"], np.float64)
    if vectors.ndim != 2 or len(vectors) != len(model.support_) or not np.isfinite(vectors).all():
        raise ValueError("its support vectors do not match its coefficients")
    options: dict[str, Any] = {k: cast(found[k]) for k, cast in PARAMETERS.items() if k in found}
    model._kernel = as_kernel(model.kernel, X=vectors, **options)
    model.support_vectors_, model.n_features_in_ = vectors, vectors.shape[1]
    return model
