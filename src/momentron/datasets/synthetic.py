"""Problems built from their own answer.

A maker places the support rows first, together with the dual weights that prove the best
margin, and then adds the other rows behind them. With z_i = y_i x_i,

    max over unit w of min_i z_i·w  =  min over q in the simplex of ‖Σ q_i z_i‖

so a pair (w, q) with equal values is a proof. With an unpenalised intercept, q carries mass ½
on each class, and the margin is half of the distance between the two convex hulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from momentron.data.arguments import as_count, as_generator, as_number, is_positive
from momentron.errors import InputError

Floats = NDArray[Any]
Seed = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A problem together with its answer.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    y : ndarray of int, shape (n_samples,)
        The labels, −1 and +1.
    margin : float
        The best margin, in units of X.
    coef : ndarray of shape (n_features,)
        A unit vector that attains it.
    intercept : float
        Goes with `coef`; 0.0 without intercept.
    support : ndarray of int
        The rows that carry the dual weights, in increasing order.
    weights : ndarray of shape (len(support),)
        Positive dual weights q, sum 1; with intercept, ½ on each class.
    fit_intercept : bool
        Whether `margin` is the margin with an unpenalised intercept.
    """

    X: Floats
    y: NDArray[np.int64]
    margin: float
    coef: Floats
    intercept: float
    support: NDArray[np.int64]
    weights: Floats
    fit_intercept: bool


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Refuse a type other than float64 and float32."""
    found = np.dtype(dtype)
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InputError(f"dtype is {found}; give float64 or float32")
    return found


def check_sizes(n: int, d: int, n_support: int, fit_intercept: bool) -> None:
    """Refuse shapes with no room for the support rows (of both classes, with intercept)."""
    least = 2 if fit_intercept else 1
    as_count("n_samples", n, least)
    as_count("n_features", d, 1)
    as_count("n_support", n_support, least, n)


def draw_labels(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Draw labels, the first two of them different, so that both classes occur when n > 1."""
    y = rng.choice(np.array([-1, 1], dtype=np.int64), n)
    if n > 1:
        y[1] = -y[0]
    return y


def draw_weights(
    rng: np.random.Generator, y: NDArray[np.int64], fit_intercept: bool
) -> NDArray[np.float64]:
    """Draw positive weights of sum 1; with intercept, ½ on each class."""
    q = rng.uniform(0.5, 1.5, len(y))
    if not fit_intercept:
        return q / q.sum()
    for sign in (-1, 1):
        q[y == sign] *= 0.5 / q[y == sign].sum()
    return q


def shuffled(rng: np.random.Generator, X: Any, y: Any, q: Floats, **answer: Any) -> Synthetic:
    """The problem with its rows permuted, of which the first len(q) are the support."""
    order = rng.permutation(len(y))
    support = np.argsort(order)[: len(q)]  # where those rows have gone
    rank = np.argsort(support)
    return Synthetic(X[order], y[order], support=support[rank], weights=q[rank], **answer)


def make_separable(
    n_samples: int = 200,
    n_features: int = 20,
    *,
    n_support: int = 5,
    margin: float = 0.1,
    fit_intercept: bool = False,
    slack: float = 1.0,
    dtype: DTypeLike = np.float64,
    random_state: Seed = None,
) -> Synthetic:
    """Draw separable rows whose best margin is `margin`, by construction.

    With z_i = y_i x_i and a unit w, the support rows have z_i·w = margin exactly and parts
    orthogonal to w whose q-weighted sum vanishes, so Σ q_i z_i = margin·w closes the duality gap.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X, each at least 1 (`n_samples` at least 2 with intercept).
    n_support : int
        Rows placed on the margin, from 1 (2 with intercept) to `n_samples`.
    margin : float
        The best margin, positive.
    fit_intercept : bool
        Build for an unpenalised intercept.
    slack : float
        The other rows have y(x·w + b) = margin·(1 + slack·r), r ≥ 0.05 random with mean 1.05.
        With 0 they lie on the margin too, with weight zero.
    dtype : float64 or float32
        Type of X, to which it is cast at the end.
    random_state : int, Generator, RandomState or None
        Source of randomness.

    Returns
    -------
    Synthetic
        `coef` is a unit vector. Row norms are of order 1 + margin (plus the intercept's size).

    Notes
    -----
    Rounding X moves the best margin by about u·‖x‖, u the unit roundoff of `dtype`: in float64 a
    margin of 0.1 is right to 1e-14 relative or better, in float32 to float32 rounding only.

    Examples
    --------
    >>> p = make_separable(50, 4, margin=0.25, random_state=0)
    >>> float(round((p.y * (p.X @ p.coef)).min(), 12))
    0.25
    """
    check_sizes(n_samples, n_features, n_support, fit_intercept)
    as_number("margin", margin, "a finite number above 0", is_positive)
    as_number("slack", slack, "a finite number of at least 0", lambda r: 0.0 <= r < np.inf)
    dtype = check_dtype(dtype)
    rng = as_generator(random_state)
    w = unit_vector(rng, n_features)
    b = 0.5 * rng.standard_normal() if fit_intercept else 0.0
    y = draw_labels(rng, n_samples)
    q = draw_weights(rng, y[:n_support], fit_intercept)
    U = orthogonal_rows(rng, n_samples, w)
    U[:n_support] = _balance(U[:n_support], y[:n_support], q, fit_intercept)
    heights = np.full(n_samples, float(margin))
    heights[n_support:] *= 1.0 + slack * (0.05 + rng.exponential(size=n_samples - n_support))
    X = U + (y * heights - b)[:, None] * w
    answer = {"margin": float(margin), "coef": w, "intercept": b, "fit_intercept": fit_intercept}
    return shuffled(rng, X.astype(dtype), y, q, **answer)


def unit_vector(rng: np.random.Generator, d: int) -> Floats:
    """Draw a direction."""
    w = rng.standard_normal(d)
    return w / np.linalg.norm(w)


def orthogonal_rows(rng: np.random.Generator, n: int, w: Floats) -> Floats:
    """Draw rows orthogonal to w, of norm about 1 (zero when there is no room)."""
    d = len(w)
    if d == 1:
        return np.zeros((n, 1))
    U = rng.standard_normal((n, d)) / np.sqrt(d - 1)
    for _ in range(2):  # once leaves an error of size u·‖U‖ along w, twice removes it
        U -= (U @ w)[:, None] * w
    return U


def _balance(U: Floats, y: NDArray[np.int64], q: Floats, fit_intercept: bool) -> Floats:
    """Shift orthogonal parts so that Σ q_i y_i u_i vanishes."""
    if fit_intercept:
        # Both class averages move to one common point, a drawn row.
        out, centre = U.copy(), 0.5 * U[0]
        for sign in (-1, 1):
            rows = y == sign
            out[rows] += centre - 2.0 * (q[rows] @ U[rows])
        return out
    return U - y[:, None] * ((q * y) @ U)
