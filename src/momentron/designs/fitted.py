"""Models and results of statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentron.designs.design import Design
from momentron.errors import InputError

MODELS = {  # by the name of a class of statsmodels
    "Logit": "binomial",
    "Probit": "binomial",
    "MNLogit": "multinomial",
    "OrderedModel": "ordinal",
    "GenericZeroInflated": "",  # two parts, each with coefficients of its own
    "CountModel": "poisson",
}
GLM_FAMILIES = {"Binomial": "binomial", "Poisson": "poisson", "NegativeBinomial": "poisson"}


def is_statsmodels(X: Any) -> bool:
    """Whether X is a model of statsmodels, or a result of one."""
    return type(X).__module__.startswith("statsmodels.")


def from_statsmodels(given: Any) -> Design:
    """The design of a model of statsmodels, or of the model of a result."""
    model = getattr(given, "model", given)
    family = _family_of(model)
    if not hasattr(model, "exog") or not family:
        known = ", ".join(name for name, family in MODELS.items() if family)
        raise InputError(
            f"{type(model).__name__} of statsmodels has no separation that is known here; pass "
            f"{known}, or a GLM of {', '.join(GLM_FAMILIES)}"
        )
    X = np.asarray(model.exog)
    names = [str(name) for name in model.exog_names[: X.shape[1]]]
    constant = getattr(model.data, "const_idx", None)
    if constant is not None:
        X, names = np.delete(X, constant, axis=1), names[:constant] + names[constant + 1 :]
    if not X.shape[1]:
        raise InputError("the model has no column but its constant; add a feature")
    labels = model.data.row_labels
    rows = None if labels is None else list(labels)
    return Design(
        X,
        _outcomes(model, family),
        _weights(model),
        fit_intercept=constant is not None or family == "ordinal",
        family=family,
        feature_names=names,
        row_names=None if rows == list(range(len(X))) else rows,
    )


def _family_of(model: Any) -> str:
    names = [kind.__name__ for kind in type(model).__mro__]
    if "GLM" in names:
        return GLM_FAMILIES.get(type(model.family).__name__, "")
    return next((MODELS[name] for name in names if name in MODELS), "")


def _outcomes(model: Any, family: str) -> np.ndarray:
    y = np.asarray(model.endog)
    if family == "multinomial":
        names = model._ynames_map
        return np.array([str(names[int(code)]) for code in y])
    if family != "binomial" or np.isin(y, (0, 1)).all():
        return y
    # of grouped data, and of proportions, endog is the share of successes
    trials = np.broadcast_to(np.asarray(getattr(model, "n_trials", 1.0), np.float64), y.shape)
    return np.column_stack([y * trials, (1.0 - y) * trials])


def _weights(model: Any) -> np.ndarray | None:
    """Frequencies times variance weights: where either is 0, the row is not there."""
    parts = [getattr(model, name, None) for name in ("freq_weights", "var_weights")]
    found = [np.asarray(part, np.float64) for part in parts if part is not None]
    if not found or all((part != 0).all() for part in found):
        return None
    return np.broadcast_to(np.prod(np.broadcast_arrays(*found), axis=0), model.endog.shape)
