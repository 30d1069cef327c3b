"""What the makers of synthetic problems share: the answer's type, checks and draws."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from momentron.arguments import as_count
from momentron.errors import InputError, short

Floats = NDArray[Any]
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
    coef: Floats
    intercept: float
    support: NDArray[np.int64]
    weights: Floats
    fit_intercept: bool


def check_number(name: str, value: float, *, above: float, inclusive: bool = False) -> None:
    """Refuse a value that is not a finite real above a limit."""
    real = isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(value))
    if not real or value < above or (value == above and not inclusive):
        sign = "at least" if inclusive else "above"
        raise InputError(f"{name} is {short(value)}; give a finite number {sign} {above:g}")


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


def shuffled(
    rng: np.random.Generator,
    X: Any,
    y: NDArray[np.int64],
    margin: float,
    coef: Floats,
    intercept: float,
    q: Floats,
    fit_intercept: bool,
) -> Synthetic:
    """Permute the rows, of which the first len(q) are the support."""
    order = rng.permutation(len(y))
    place = np.empty(len(y), dtype=np.int64)
    place[order] = np.arange(len(y))
    support = place[: len(q)]
    rank = np.argsort(support)
    return Synthetic(
        X[order], y[order], margin, coef, intercept, support[rank], q[rank], fit_intercept
    )
