"""Sparse separable problems whose best margin is known, at any size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, vstack

from momentron.data.arguments import as_generator
from momentron.datasets.synthetic import (
    Floats,
    Seed,
    Synthetic,
    check_number,
    check_sizes,
    draw_labels,
    shuffled,
)
from momentron.errors import InputError, short


def make_sparse_separable(
    n_samples: int = 1000,
    n_features: int = 1000,
    *,
    density: float = 0.01,
    n_support: int = 20,
    margin: float = 0.1,
    fit_intercept: bool = False,
    random_state: Seed = None,
) -> Synthetic:
    """Draw a sparse separable problem with a known best margin, in O(nnz) time and memory.

    Let k = round(density·n_features), at least 1. The unit vector w lives on at most 2k features
    for each support row (each pair of them with intercept), all of comparable weight, cut into
    blocks B of 2k; m features in all. Then

    - a support row is (y·margin − b) w_B/‖w_B‖², whose product with w is y·margin − b, and the
      dual weights of the rows of block B add up to ‖w_B‖², so that Σ q_i y_i x_i = margin·w
      (with intercept each block is shared by both classes, half and half, and b cancels);
    - neighbouring support rows exchange sparse noise orthogonal to w, +v/q_i and −v/q_{i+1},
      which leaves that sum and all products with w as they are;
    - every other row has k nonzeros, about half of them where w lives, and is shifted along w
      restricted to its own features until y(x·w + b) = margin·(1 + r), r ≥ 0.05 random.

    No row is made dense. A support row has at most about 3k nonzeros, every other row k.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    density : float
        Share of nonzeros in a row, above 0 and at most 1.
    n_support : int
        Rows on the margin, from 1 (2 with intercept) to `n_samples`. The more, the more
        features share w: with very few, few features decide.
    margin : float
        The best margin, positive.
    fit_intercept : bool
        Build for an unpenalised intercept.
    random_state : int, Generator, RandomState or None
        Source of randomness.

    Returns
    -------
    Synthetic
        X is a `scipy.sparse.csr_matrix` of float64 with sorted indices; `coef` is a dense unit
        vector. The margin is right to about 1e-16 times the largest row norm, which grows as
        margin·√(m/k).

    Examples
    --------
    >>> p = make_sparse_separable(300, 500, density=0.02, margin=0.2, random_state=0)
    >>> float(round((p.y * (p.X @ p.coef)).min(), 12))
    0.2
    """
    check_sizes(n_samples, n_features, n_support, fit_intercept)
    check_number("margin", margin, above=0.0)
    check_number("density", density, above=0.0)
    if density > 1:
        raise InputError(f"density is {short(density)}; give a share of nonzeros, at most 1")
    rng = as_generator(random_state)
    k = max(1, round(density * n_features))
    y = draw_labels(rng, n_samples)
    n_plus = int(np.count_nonzero(y[:n_support] == 1))
    n_blocks = min(n_plus, n_support - n_plus) if fit_intercept else n_support
    w, informative, other = _spread_direction(rng, n_features, min(n_features, 2 * k * n_blocks))
    b = float(margin * rng.standard_normal()) if fit_intercept else 0.0
    base, q = _block_rows(rng, w, informative, y[:n_support], margin, b, fit_intercept)
    draw = partial(_draw_rows, rng, (informative, other), n_features)
    top = base + _exchange(draw, w, q, y[:n_support], max(1, k // 2))
    heights = margin * (1.05 + rng.exponential(size=n_samples - n_support))
    rest = draw(n_samples - n_support, k)
    _lift(rest, w, y[n_support:] * heights - b)
    X = vstack([top, rest], format="csr")
    problem = shuffled(rng, X, y, float(margin), w, b, q, fit_intercept)
    problem.X.sort_indices()
    return problem


def _spread_direction(
    rng: np.random.Generator, d: int, m: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Draw a unit vector on m of d features; weights within a factor 3 of each other."""
    order = rng.permutation(d)
    w = np.zeros(d)
    w[order[:m]] = rng.uniform(0.5, 1.5, m) * rng.choice(np.array([-1.0, 1.0]), m)
    return w / np.linalg.norm(w), order[:m], order[m:]


def _block_rows(
    rng: np.random.Generator,
    w: Floats,
    informative: NDArray[np.int64],
    y: NDArray[np.int64],
    margin: float,
    b: float,
    fit_intercept: bool,
) -> tuple[Any, Floats]:
    """Return the support rows before noise, and their dual weights."""
    n = len(y)
    sides = [np.flatnonzero(y == s) for s in (-1, 1)] if fit_intercept else [np.arange(n)]
    n_blocks = min(len(informative), *(len(rows) for rows in sides))
    blocks = np.array_split(informative, n_blocks)
    mass = np.array([w[block] @ w[block] for block in blocks])
    block_of = np.empty(n, dtype=np.int64)
    q = rng.uniform(0.5, 1.5, n)
    for rows in sides:
        block_of[rows] = np.arange(len(rows)) % n_blocks
        shares = np.bincount(block_of[rows], weights=q[rows], minlength=n_blocks)
        q[rows] *= (mass / shares)[block_of[rows]] / len(sides)
    pieces = [blocks[j] for j in block_of]
    scale = (y * margin - b) / mass[block_of]
    data = np.concatenate([c * w[piece] for c, piece in zip(scale, pieces, strict=True)])
    indptr = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    return csr_matrix((data, np.concatenate(pieces), indptr), shape=(n, len(w))), q


def _draw_rows(
    rng: np.random.Generator, pools: tuple[NDArray[np.int64], ...], d: int, n: int, k: int
) -> Any:
    """Return n rows of k standard normal entries over √k, part of them where w lives, as CSR."""
    informative, other = pools
    n_other = min(k // 2, len(other))
    picks = []
    for pool, count in ((informative, k - n_other), (other, n_other)):
        # One draw from each of `count` strata of the (shuffled) pool: distinct without rejection.
        edges = np.arange(count + 1) * len(pool) // max(count, 1)
        picks.append(pool[rng.integers(edges[:-1], edges[1:], size=(n, count))])
    indices = np.concatenate(picks, axis=1).ravel()
    data = rng.standard_normal(n * k) / np.sqrt(k)
    return csr_matrix((data, indices, np.arange(0, n * k + 1, k)), shape=(n, d))


def _lift(X: Any, w: Floats, heights: Floats) -> None:
    """Shift each CSR row along w on its own features, in place, until X w = heights."""
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    w_own = w[X.indices]
    squares = np.bincount(row, weights=w_own**2, minlength=X.shape[0])
    for _ in range(2):  # the second round removes the rounding of the first
        missing = heights - np.bincount(row, weights=X.data * w_own, minlength=X.shape[0])
        X.data += (missing / squares)[row] * w_own


def _exchange(
    draw: Callable[[int, int], Any], w: Floats, q: Floats, y: NDArray[np.int64], k: int
) -> Any:
    """Return noise E with E w = 0 and Σ q_i y_i e_i = 0; each row shares with its neighbours."""
    n = len(q)
    if n == 1:
        return csr_matrix((1, len(w)))
    V = draw(n, k)
    _lift(V, w, np.zeros(n))
    following = np.roll(np.arange(n), -1)
    V = diags(np.minimum(q, q[following])) @ V
    return (diags(y / q) @ (V - V[np.roll(np.arange(n), 1)])).tocsr()
