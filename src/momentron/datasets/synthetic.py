"""A problem built from its own answer.

The support rows are placed first, together with the dual weights that prove the best margin, and
then the other rows behind them. With z_i = y_i x_i,

    max over unit w of min_i z_i·w  =  min over q in the simplex of ‖Σ q_i z_i‖

so a pair (w, q) with equal values is a proof. With an unpenalised intercept, q carries mass ½
on each class, and the margin is half of the distance between the two convex hulls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from momentron.data.arguments import as_count, as_generator, as_number
from momentron.errors import InputError, short

Seed = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A problem together with its answer.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_matrix of shape (n_samples, n_features)
        The rows.
    y : ndarray of int, shape (n_samples,)
        The labels, −1 and +1.
    margin : float
        The best margin, in units of X.
    coef : ndarray of shape (n_features,)
        A direction that attains it (see each maker for its scale).
    intercept : float
        Goes with `coef`; 0.0 without intercept.
    support : ndarray of int
        The rows that carry the dual weights, in increasing order.
    weights : ndarray of shape (len(support),)
        Positive dual weights q, sum 1; with intercept, ½ on each class.
    fit_intercept : bool
        Whether `margin` is the margin with an unpenalised intercept.
    """

    X: Any
    y: NDArray[np.int64]
    margin: float
    coef: NDArray[Any]
    intercept: float
    support: NDArray[np.int64]
    weights: NDArray[Any]
    fit_intercept: bool


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Refuse a type other than float64 and float32."""
    found = np.dtype(dtype)
    if found not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InputError(f"dtype is {found}; give float64 or float32")
    return found


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
    least = 2 if fit_intercept else 1
    as_count("n_samples", n_samples, least)
    as_count("n_features", n_features)
    as_count("n_support", n_support, least, n_samples)
    for name, value, smallest in (("margin", margin, math.ulp(0.0)), ("slack", slack, 0.0)):
        wanted = f"a finite number {'of at least' if smallest == 0.0 else 'above'} 0"
        if not smallest <= as_number(name, value, wanted) < math.inf:
            raise InputError(f"{name}={short(value)} must be {wanted}")
    dtype = check_dtype(dtype)
    rng = as_generator(random_state)
    w = rng.standard_normal(n_features)
    w /= np.linalg.norm(w)
    b = 0.5 * rng.standard_normal() if fit_intercept else 0.0
    y = rng.choice(np.array([-1, 1], dtype=np.int64), n_samples)
    if n_samples > 1:
        y[1] = -y[0]  # so that both classes occur
    q = rng.uniform(0.5, 1.5, n_support)
    U = _orthogonal_rows(rng, n_samples, w)
    top, signs = U[:n_support], y[:n_support]
    if fit_intercept:
        centre = 0.5 * top[0]  # to which the averages of both classes move
        for rows in (signs == -1, signs == 1):
            q[rows] *= 0.5 / q[rows].sum()
            top[rows] += centre - 2.0 * (q[rows] @ top[rows])
    else:
        q /= q.sum()
        top -= signs[:, None] * ((q * signs) @ top)
    heights = np.full(n_samples, float(margin))
    heights[n_support:] *= 1.0 + slack * (0.05 + rng.exponential(size=n_samples - n_support))
    X = (U + (y * heights - b)[:, None] * w).astype(dtype)
    order = rng.permutation(n_samples)
    support = np.argsort(order)[:n_support]  # where those rows have gone
    rank = np.argsort(support)
    return Synthetic(X[order], y[order], float(margin), w, b, support[rank], q[rank], fit_intercept)


def _orthogonal_rows(rng: np.random.Generator, n: int, w: NDArray[Any]) -> NDArray[Any]:
    """Draw rows orthogonal to w, of norm about 1 (zero when there is no room)."""
    d = len(w)
    if d == 1:
        return np.zeros((n, 1))
    U = rng.standard_normal((n, d)) / np.sqrt(d - 1)
    for _ in range(2):  # once leaves an error of size u·‖U‖ along w, twice removes it
        U -= (U @ w)[:, None] * w
    return U
