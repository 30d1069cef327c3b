"""What becomes of each coefficient, from the likelihoods of models alone.

An oracle that shares nothing with the library: it imports none of it. Each model is written down as
the log-likelihood of one outcome, a function of its linear predictors, and a number is put in for
infinity to see which way a predictor cannot go. What is left is a cone of directions, and linear
programs (HiGHS) that ask how far each coefficient moves in it. For few rows of small whole numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.stats import cauchy, norm, t

FAR = 1e7  # stands for infinity
LOST = -8.0  # log-likelihoods below it are on their way to −∞
SMALL = 1e-6  # programs of small whole numbers have no optima between 0 and this


# --- likelihoods ---------------------------------------------------------------------------------

# log F(u) and log(1 − F(u)) of the distribution functions behind links
DISTRIBUTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "logit": (lambda u: -np.logaddexp(0.0, -u), lambda u: -np.logaddexp(0.0, u)),
    "probit": (norm.logcdf, norm.logsf),
    "cloglog": (lambda u: np.log(-np.expm1(-np.exp(u))), lambda u: -np.exp(u)),
    "loglog": (lambda u: -np.exp(-u), lambda u: np.log(-np.expm1(-np.exp(-u)))),
    "cauchit": (cauchy.logcdf, cauchy.logsf),
    "cdf": (t(3).logcdf, t(3).logsf),
}

# the models whose theory is known: the links of each family
LINKS = {
    "binomial": (*DISTRIBUTIONS, "log", "logc"),
    "multinomial": ("logit",),
    "poisson": ("log",),
    "negative-binomial": ("log",),
    "truncated-poisson": ("log",),
    "ordinal": tuple(DISTRIBUTIONS),
}


def _log_of_share(eta: float) -> tuple[float, float]:
    """(log p, log(1 − p)) of p = exp(η); −∞ where p is no probability."""
    if eta > 0.0:
        return -np.inf, -np.inf
    return eta, np.log(-np.expm1(eta))


def _log_zero_truncated(y: float, eta: float) -> float:
    """Of a Poisson count that is not zero: y η − µ − log(1 − exp(−µ)), and µ = exp(η)."""
    mean = np.exp(eta)
    return y * eta - mean - (eta if mean < 1e-12 else np.log(-np.expm1(-mean)))


def log_likelihood(family: str, link: str, y: float, eta: float) -> float:
    """Of one outcome, where the model has one predictor; events of binomial models are y = 1."""
    with np.errstate(all="ignore"):
        if family == "poisson":
            found = y * eta - np.exp(eta)
        elif family == "negative-binomial":  # of dispersion 1
            found = y * eta - (y + 1.0) * np.logaddexp(0.0, eta)
        elif family == "truncated-poisson":
            found = _log_zero_truncated(y, eta)
        elif link in ("log", "logc"):
            found = _log_of_share(eta)[int(y == 1) ^ (link == "log")]
        else:
            found = DISTRIBUTIONS[link][int(y != 1)](eta)
    return float(found)


# --- cones ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What is true of a model.

    Attributes
    ----------
    kind : str
    estimates : list of str
        Of each coefficient.
    separated : list of int
        The rows whose likelihood tends to its supremum.
    dimension : int
        Of the cone of directions in which no likelihood is lost.
    vectors, strict : arrays of shape (m, d) and (m,)
        The cone is {δ : vectors·δ ≥ 0}; which of these are positive inside it.
    """

    kind: str
    estimates: list[str]
    separated: list[int]
    dimension: int
    vectors: np.ndarray
    strict: np.ndarray

    def admits(self, direction: Sequence[int]) -> bool:
        """Whether no likelihood is lost along a direction, and each that can rise does."""
        sides = self.vectors.astype(np.int64).astype(object) @ np.array(direction, object)
        return all(
            s > 0 if is_strict else s == 0 for s, is_strict in zip(sides, self.strict, strict=True)
        )


def answer(
    family: str,
    link: str,
    X: np.ndarray,
    y: Any,
    *,
    fit_intercept: bool = True,
    classes: Sequence[Any] = (),
    reference: Any = None,
) -> Answer:
    """The truth about a model.

    Coefficients are in the order features, intercept; those of a multinomial model class by class
    in the order of `classes`, each but the reference; thresholds of an ordinal model come last.

    Parameters
    ----------
    X : array of shape (n, d), without the intercept
    y : counts; 1 for events and 0 for others in binomial models; else labels
    classes : the labels of a multinomial model, or those of an ordinal one, lowest first
    reference : the label whose coefficients are 0 in a multinomial model
    """
    X = np.asarray(X, np.float64)
    if family == "multinomial":
        A, rows = _multinomial(_with_one(X, fit_intercept), y, list(classes), reference)
    elif family == "ordinal":
        A, rows = _ordinal(X, y, list(classes), link)
    else:
        A, rows = _single(_with_one(X, fit_intercept), y, family, link)
    estimates = [_estimate(A, j) for j in range(A.shape[1])]
    strict = _strict(A)
    kind = "separable" if strict.all() else "quasi-separable" if strict.any() else "overlapping"
    held = {row for row, is_strict in zip(rows, strict, strict=True) if not is_strict}
    n_free = A.shape[1] - (np.linalg.matrix_rank(A[~strict]) if not strict.all() else 0)
    return Answer(kind, estimates, sorted(set(rows) - held), int(n_free), A, strict)


def _with_one(X: np.ndarray, fit_intercept: bool) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))]) if fit_intercept else X


def _single(X: np.ndarray, y: Any, family: str, link: str) -> tuple[np.ndarray, list[int]]:
    """Rows a with a·δ ≥ 0: a predictor does not move where the likelihood is lost."""
    vectors, rows = [], []
    for i, (x, value) in enumerate(zip(X, y, strict=True)):
        for way in (1.0, -1.0):
            likelihood = log_likelihood(family, link, float(value), way * FAR)
            if np.isnan(likelihood) or likelihood < LOST:
                vectors.append(-way * x)
                rows.append(i)
    return np.array(vectors), rows


def _multinomial(
    X: np.ndarray, y: Any, classes: list[Any], reference: Any
) -> tuple[np.ndarray, list[int]]:
    """P(y = c) = exp(η_c) / Σ exp(η_j) is lost where some η_j outgrows η_c; η of reference is 0."""
    width = X.shape[1]
    free = [label for label in classes if label != reference]
    vectors, rows = [], []
    for i, (x, own) in enumerate(zip(X, y, strict=True)):
        for other in classes:
            if other == own:
                continue
            a = np.zeros(width * len(free))
            for label, sign in ((own, 1.0), (other, -1.0)):
                if label != reference:
                    at = free.index(label) * width
                    a[at : at + width] += sign * x
            vectors.append(a)
            rows.append(i)
    return np.array(vectors), rows


def _ordinal(X: np.ndarray, y: Any, classes: list[Any], link: str) -> tuple[np.ndarray, list[int]]:
    """P(y = c) = F(θ_c − w·x) − F(θ_{c−1} − w·x), with F = 1 above the last and 0 below the first.

    It is lost where the first F tends to 0, or where the second tends to 1.
    """
    log_F, log_rest = DISTRIBUTIONS[link]
    with np.errstate(all="ignore"):
        assert log_F(-FAR) < LOST < log_F(FAR) and log_rest(FAR) < LOST < log_rest(-FAR)
    d, n_thresholds = X.shape[1], len(classes) - 1
    vectors, rows = [], []
    for i, (x, own) in enumerate(zip(X, y, strict=True)):
        c = classes.index(own)
        for threshold, sign in ((c, 1.0), (c - 1, -1.0)):
            if 0 <= threshold < n_thresholds:
                a = np.zeros(d + n_thresholds)
                a[:d], a[d + threshold] = -sign * x, sign
                vectors.append(a)
                rows.append(i)
    return np.array(vectors), rows


# --- linear programs -----------------------------------------------------------------------------


def _most(form: np.ndarray, A: np.ndarray, *, is_equal: bool = False) -> float:
    """The largest value of a form on {δ : A δ ≥ 0, |δ| ≤ 1}, or on {A δ = 0, |δ| ≤ 1}."""
    zero = np.zeros(len(A))
    rows = {"A_eq": A, "b_eq": zero} if is_equal else {"A_ub": -A, "b_ub": zero}
    found = linprog(-form, **rows, bounds=(-1.0, 1.0), method="highs")
    assert found.status == 0, found.message
    return float(-found.fun)


def _estimate(A: np.ndarray, j: int) -> str:
    """What becomes of coefficient j along the directions in which no likelihood is lost."""
    form = np.eye(A.shape[1])[j]
    if _most(form, A, is_equal=True) > SMALL:
        return "aliased"
    up, down = _most(form, A) > SMALL, _most(-form, A) > SMALL
    if up and down:
        return "undetermined"
    return "+inf" if up else "-inf" if down else "finite"


def _strict(A: np.ndarray) -> np.ndarray:
    """Which a have a·δ > 0 for some δ of the cone: one δ has it of all of them."""
    m, d = A.shape
    cost = np.r_[np.zeros(d), -np.ones(m)]
    bounds = [(None, None)] * d + [(0.0, 1.0)] * m
    found = linprog(
        cost, A_ub=np.hstack([-A, np.eye(m)]), b_ub=np.zeros(m), bounds=bounds, method="highs"
    )
    assert found.status == 0, found.message
    return np.asarray(found.x[d:] > 0.5)
