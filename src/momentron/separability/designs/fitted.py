"""Models and results of statsmodels: those whose separation is known, and no others."""

from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.separability.designs.design import Design
from momentron.separability.family import MODELS as FAMILIES

MODELS = {  # class of statsmodels: (family, link); "" where the model itself says which
    "GLM": ("", ""),
    "Binomial": ("binomial", ""),  # a family of GLMs, as Poisson and NegativeBinomial are, too
    "Logit": ("binomial", "logit"),
    "Probit": ("binomial", "probit"),
    "MNLogit": ("multinomial", "logit"),
    "OrderedModel": ("ordinal", ""),
    "Poisson": ("poisson", "log"),
    "NegativeBinomial": ("negative-binomial", "log"),
    "NegativeBinomialP": ("negative-binomial", "log"),
    "TruncatedLFPoisson": ("truncated-poisson", "log"),
}
DISTRIBUTIONS = {  # of scipy.stats: the link is the inverse of the distribution function
    "logistic": "logit",
    "norm": "probit",
    "gumbel_l": "cloglog",
    "gumbel_r": "loglog",
    "cauchy": "cauchit",
}
SUPPORTED = (
    "supported are Logit, Probit, MNLogit, OrderedModel, Poisson, NegativeBinomial, "
    "NegativeBinomialP (p ≤ 2), TruncatedLFPoisson (truncation=0), and GLM with the families "
    "Binomial (links logit, probit, cloglog, loglog, cauchit, log, logc), Poisson (log) and "
    "NegativeBinomial (log)"
)
REASONS = {  # why a model is refused, by a class among its parents; the first that fits
    "GEE": "its estimates solve estimating equations and maximise no likelihood",
    "PenalizedMixin": "its likelihood has a penalty",
    "GenericZeroInflated": "it has two parts, each with coefficients of its own",
    "HurdleCountModel": "it has two parts, each with coefficients of its own; check "
    "TruncatedLFPoisson on the rows with y > 0 and Logit for y > 0",
    "TruncatedLFNegativeBinomialP": "with a dispersion that is estimated the limit of a "
    "logarithmic series has infinite estimates without separation",
    "TruncatedLFGeneric": "its truncated likelihood follows other rules",
    "GeneralizedPoisson": "its probability of 0 need not vanish as the mean grows",
    "_ConditionalModel": "its conditional likelihood compares rows within groups",
}
LIKELIHOODS = ("loglike", "loglikeobs", "loglike_mu", "cdf", "pdf", "transform_threshold_params")


def is_statsmodels(X: Any) -> bool:
    """Whether X is a model of statsmodels, or a result of one."""
    return any(_is_theirs(kind) for kind in type(X).__mro__)


def from_statsmodels(given: Any) -> Design:
    """The design of a model of statsmodels, or of the model of a result."""
    model = getattr(given, "model", given)
    family, link = _family_and_link(model)
    for name in ("offset", "exposure"):
        found = getattr(model, name, None)
        if found is not None and not np.isfinite(np.asarray(found, np.float64)).all():
            raise InputError(f"the {name} of the model is not finite in every row")
    X = np.asarray(model.exog)
    names = [str(name) for name in model.exog_names[: X.shape[1]]]
    # a column of other numbers than 1 is a feature, whose sign may be another
    constant = np.flatnonzero((X == 1).all(axis=0))[:1]
    X, names = np.delete(X, constant, axis=1), np.delete(names, constant).tolist()
    if not X.shape[1]:
        raise InputError("the model has no column but its constant; add a feature")
    y, reference = _outcomes(model, family)
    labels = getattr(model.data, "row_labels", None)
    if labels is not None and len(labels) != len(model.exog):
        labels = labels[np.asarray(model.data.endog) > model.truncation]  # it drops the others
    weights, frequencies = _weights(model)
    return Design.of(
        X,
        y,
        weights,
        fit_intercept=constant.size > 0 or family == "ordinal",
        family=family,
        link=link,
        reference=reference,
        feature_names=names,
        index=labels,
        frequencies=frequencies,
        notes=_notes(given),
    )


def _is_theirs(kind: type) -> bool:
    return kind.__module__.startswith("statsmodels.")


def _family_and_link(model: Any) -> tuple[str, str]:
    """What the model is, by the name of its class; parents are looked at for the reason only."""
    kinds = type(model).__mro__
    own = next(kind for kind in kinds if _is_theirs(kind))
    for kind in kinds[: kinds.index(own)]:
        changed = [name for name in LIKELIHOODS if name in vars(kind)]
        if changed:
            raise _refusal(model, f"it has a {changed[0]} of its own")
    if own.__name__ not in MODELS or not hasattr(model, "exog"):
        parents = [kind.__name__ for kind in kinds]
        raise _refusal(model, next((REASONS[name] for name in parents if name in REASONS), ""))
    family, link = MODELS[own.__name__]
    if own.__name__ == "GLM":
        return _glm(model)
    if own.__name__ == "OrderedModel":
        link = _link_of_distribution(model.distr)
        if not link:
            name = getattr(model.distr, "name", type(model.distr).__name__)
            why = f"its distribution {name} is none of scipy.stats with the whole line as support"
            raise _refusal(model, why)
    if getattr(model, "truncation", 0) != 0:
        raise _refusal(model, f"truncation={model.truncation} follows other rules")
    if own.__name__ == "NegativeBinomialP" and not 1 <= model.parameterization <= 2:
        raise _refusal(
            model, f"with p={model.parameterization} a count of 0 has no mean that is too large"
        )
    return family, link


def _glm(model: Any) -> tuple[str, str]:
    """(family, link) of a GLM."""
    of, link = type(model.family), type(model.family.link)
    family, _ = MODELS.get(of.__name__, ("", "")) if _is_theirs(of) else ("", "")
    if not family:
        raise _refusal(model, f"its family is {of.__name__}")
    found = link.__name__.lower().replace("cauchy", "cauchit") if _is_theirs(link) else ""
    if found == "cdflink":
        found = _link_of_distribution(model.family.link.dbn)
    if found not in FAMILIES[family]:
        raise _refusal(model, f"its link is {link.__name__}")
    return family, found


def _link_of_distribution(distribution: Any) -> str:
    """The link of a distribution of scipy.stats on the whole line; "" of others."""
    from scipy import stats

    known = getattr(distribution, "dist", distribution)  # without the parameters of a frozen one
    is_theirs = type(known).__module__.startswith("scipy.stats.")
    if not (is_theirs and isinstance(known, stats.rv_continuous)):
        return ""
    try:
        support = distribution.support()
    except TypeError:  # its shape is not given
        return ""
    if support != (-np.inf, np.inf):
        return ""
    is_standard = known is distribution or not (distribution.args or distribution.kwds)
    return DISTRIBUTIONS.get(known.name, "cdf") if is_standard else "cdf"


def _refusal(model: Any, why: str) -> InputError:
    why = f": {why}" if why else ""
    return InputError(f"{type(model).__name__} of statsmodels is not supported{why}; {SUPPORTED}")


def _outcomes(model: Any, family: str) -> tuple[Any, Any]:
    """(y, the class with which the model contrasts the others, where it says so)."""
    y = np.asarray(model.endog)
    if family in ("multinomial", "ordinal"):  # classes that the model numbers, in its order
        import pandas as pd

        is_ordered = family == "ordinal"
        named = model.labels if is_ordered else dict(sorted(model._ynames_map.items())).values()
        levels = list(named) if is_ordered else [str(name) for name in named]
        missing = sorted({*range(len(levels))} - {*y.astype(np.int64).tolist()})
        if missing:
            raise InputError(
                f"the level {levels[missing[0]]!r} of the outcome has no row; leave it out of the "
                "model: series.cat.remove_unused_categories()"
            )
        found = pd.Categorical.from_codes(y.astype(np.int64), levels, ordered=is_ordered)
        return found, None if is_ordered else levels[0]
    if family != "binomial" or np.isin(y, (0, 1)).all():
        return y, None
    # of grouped data, and of proportions, endog is the share of successes
    trials = np.broadcast_to(np.asarray(getattr(model, "n_trials", 1.0), np.float64), y.shape)
    return np.column_stack([y * trials, (1.0 - y) * trials]), None


def _weights(model: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(weights: a row of weight 0 is not there; how often each row was observed) of a GLM.

    Variance weights are frequencies only for proportions, which have their numbers of trials there.
    """
    often = getattr(model, "freq_weights", None)
    if often is None:  # not a GLM
        return None, None
    weights = np.asarray(often, np.float64) * np.asarray(model.var_weights, np.float64)
    is_plain = np.isin(model.endog, (0, 1)).all() or np.any(getattr(model, "n_trials", 0) != 1)
    return weights, np.asarray(often, np.float64) if is_plain else weights


def _notes(given: Any) -> tuple[str, ...]:
    """What a fitted result has that its model has not."""
    result = getattr(given, "_results", given)
    names = [kind.__name__ for kind in type(result).__mro__]
    is_penalised = any(name.startswith(("L1", "Regularized")) for name in names)
    if is_penalised or getattr(result, "regularized", False):
        fitted, without = "with a penalty", "that penalty"
    elif getattr(result, "constraints", None) is not None:
        fitted, without = "under constraints", "these constraints"
    else:
        return ()
    return (
        f"the result was fitted {fitted}; what is said here is about the maximum likelihood "
        f"estimates of its model, without {without}",
    )
