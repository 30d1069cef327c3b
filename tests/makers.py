"""Problems built from their own answer, as in `momentron.datasets`: no margin, and sparse rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix, diags, vstack

from momentron.data.arguments import as_generator, as_number, is_positive
from momentron.datasets.synthetic import (
    Floats,
    Seed,
    Synthetic,
    check_dtype,
    check_sizes,
    draw_labels,
    orthogonal_rows,
    shuffled,
    unit_vector,
)
from momentron.errors import InputError


def make_nonseparable(
    n_samples: int = 200,
    n_features: int = 20,
    *,
    n_support: int = 5,
    fit_intercept: bool = False,
    overlap: float = 0.1,
    dtype: DTypeLike = np.float64,
    random_state: Seed = None,
) -> Synthetic:
    """Draw rows that no hyperplane separates, with a proof that is exact in floats.

    The convex combination Σ q_i y_i x_i over `support` is *exactly* zero (and with intercept
    Σ q_i y_i as well): the support rows lie on a dyadic grid and q is dyadic. Rounding a
    vanishing combination of generic reals would not do, for up to n_features rounded rows are
    linearly independent, hence separable by a margin of about 1e-17.

    Parameters
    ----------
    n_samples, n_features, fit_intercept, dtype, random_state
        As for `make_separable`; the proof is exact in both types.
    n_support : int
        Rows of the vanishing combination, from 1 (then that row is zero; 2 with intercept).
    overlap : float
        The support rows reach about this far across the plane that separates all other rows
        (by at least 0.1), positive: the smaller, the closer to separable.

    Returns
    -------
    Synthetic
        `margin` is 0.0, and `coef` is zero, for which the margin is 0 by convention.

    Examples
    --------
    >>> p = make_nonseparable(50, 4, random_state=0)
    >>> bool(np.all((p.weights * p.y[p.support]) @ p.X[p.support] == 0))
    True
    """
    check_sizes(n_samples, n_features, n_support, fit_intercept)
    as_number("overlap", overlap, "a finite number above 0", is_positive)
    dtype = check_dtype(dtype)
    rng = as_generator(random_state)
    w = unit_vector(rng, n_features)
    y = draw_labels(rng, n_samples)
    heights = 0.1 * (1.0 + rng.exponential(size=n_samples))
    heights[:n_support] = rng.uniform(-overlap, overlap, n_support)
    X = orthogonal_rows(rng, n_samples, w) + (y * heights)[:, None] * w
    k = _dyadic_counts(rng, y[:n_support], fit_intercept)
    X[:n_support] = _cancel_exactly(X[:n_support], y[:n_support], k, dtype)
    answer = {"margin": 0.0, "coef": np.zeros(n_features), "intercept": 0.0}
    q = k / k.sum()
    return shuffled(rng, X.astype(dtype), y, q, **answer, fit_intercept=fit_intercept)


def make_touching(
    n_samples: int = 40,
    n_features: int = 5,
    *,
    n_support: int = 4,
    fit_intercept: bool = False,
    dtype: DTypeLike = np.float64,
    random_state: Seed = None,
) -> Synthetic:
    """Draw small integers on the boundary: weakly separable, never strictly.

    All rows lie on the right side of an integer plane or on it; the support rows lie on it, and
    a combination of them with small integer weights vanishes, so the best margin is exactly 0
    (quasi-complete separation, in Albert and Anderson's words).

    Parameters
    ----------
    n_samples, n_features, fit_intercept, dtype, random_state
        As for `make_separable`; at moderate sizes all values are integers below 2¹⁵ in modulus.
    n_support : int
        Rows on the plane, from 1 (then that row is zero; 2 with intercept) to `n_samples`.

    Returns
    -------
    Synthetic
        `coef` and `intercept` are integers, not normalised, so that y(x·w + b) ≥ 0 can be
        checked without rounding. `weights` are multiples of one number, rounded.

    Examples
    --------
    >>> p = make_touching(random_state=0)
    >>> int((p.y * (p.X @ p.coef)).min()), bool(np.all(p.X == np.rint(p.X)))
    (0, True)
    """
    check_sizes(n_samples, n_features, n_support, fit_intercept)
    dtype = check_dtype(dtype)
    rng = as_generator(random_state)
    w = rng.choice(np.array([-1, 1]), n_features)
    b = int(rng.integers(-3, 4)) if fit_intercept else 0
    y = draw_labels(rng, n_samples)
    # The last support row is what the others leave: one weight of 2 evens out an odd number.
    k = np.ones(n_support, dtype=np.int64)
    if fit_intercept:
        is_odd = n_support % 2
        y[:n_support] = np.resize([1, -1] if is_odd else [-1, 1], n_support)
        k[1] += is_odd
    heights = rng.integers(1, 5, n_samples)
    heights[:n_support] = 0
    X = rng.integers(-3, 4, (n_samples, n_features))
    pivot = int(rng.integers(n_features))
    X[:, pivot] += w[pivot] * (y * heights - b - X @ w)
    last = n_support - 1
    X[last] = -y[last] * ((k[:last] * y[:last]) @ X[:last])
    answer = {"margin": 0.0, "coef": w.astype(np.float64), "intercept": float(b)}
    q = k / k.sum()
    return shuffled(rng, X.astype(dtype), y, q, **answer, fit_intercept=fit_intercept)


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
    n_samples, n_features, margin, fit_intercept, random_state
        As for `make_separable`.
    density : float
        Share of nonzeros in a row, above 0 and at most 1.
    n_support : int
        Rows on the margin, from 1 (2 with intercept) to `n_samples`. The more, the more
        features share w: with very few, few features decide.

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
    as_number("margin", margin, "a finite number above 0", is_positive)
    as_number("density", density, "a share above 0, at most 1", lambda share: 0.0 < share <= 1.0)
    rng = as_generator(random_state)
    k = max(1, round(density * n_features))
    y = draw_labels(rng, n_samples)
    sides = [np.flatnonzero(y[:n_support] == s) for s in (-1, 1)]
    sides = sides if fit_intercept else [np.arange(n_support)]
    n_blocks = min(map(len, sides))
    w, informative, other = _spread_direction(rng, n_features, min(n_features, 2 * k * n_blocks))
    b = float(margin * rng.standard_normal()) if fit_intercept else 0.0
    base, q = _block_rows(rng, w, informative, sides, y[:n_support] * margin - b)
    draw = partial(_draw_rows, rng, (informative, other), n_features)
    top = base + _exchange(draw, w, q, y[:n_support], max(1, k // 2))
    heights = margin * (1.05 + rng.exponential(size=n_samples - n_support))
    rest = draw(n_samples - n_support, k)
    _lift(rest, w, y[n_support:] * heights - b)
    X = vstack([top, rest], format="csr")
    answer = {"margin": float(margin), "coef": w, "intercept": b, "fit_intercept": fit_intercept}
    problem = shuffled(rng, X, y, q, **answer)
    problem.X.sort_indices()
    return problem


def _dyadic_counts(
    rng: np.random.Generator, y: NDArray[np.int64], fit_intercept: bool
) -> NDArray[np.int64]:
    """Draw positive integers whose sum is a power of two, the last of them one too.

    With intercept the two classes have equal sums.
    """
    n = len(y)
    if n == 1:
        return np.ones(1, dtype=np.int64)
    total = 2 ** (int(np.ceil(np.log2(n))) + 3)
    k = np.zeros(n, dtype=np.int64)
    # The last row balances the others: a share of about 1/√n keeps its norm near theirs.
    share = max(total // 2 ** max(1, round(np.log2(n) / 2)), 1)
    groups = [np.arange(n)]
    if fit_intercept:
        groups = [np.flatnonzero(y == y[-1]), np.flatnonzero(y != y[-1])]
    for rows in groups:
        mass = total // len(groups)
        if rows[-1] == n - 1:
            k[-1] = mass if len(rows) == 1 else min(share, mass // 2)
            mass, rows = mass - k[-1], rows[:-1]
        if len(rows):
            k[rows] = 1 + rng.multinomial(mass - len(rows), np.full(len(rows), 1 / len(rows)))
    return k


def _cancel_exactly(
    X: Floats, y: NDArray[np.int64], k: NDArray[np.int64], dtype: np.dtype[Any]
) -> Floats:
    """Round rows to a grid and set the last one so that Σ k_i y_i x_i = 0 without rounding."""
    # |x| ≤ 4 on a grid of 2^-g: the sum needs g + 2 + log2(Σk) bits, and the last row no more.
    digits = np.finfo(dtype).nmant + 1
    g = min(digits - int(k.sum()).bit_length() - 3, 30)
    if g < 4:
        raise InputError(
            f"n_support is {len(y)}; {dtype} is exact for fewer rows only: lower it or use float64"
        )
    whole = np.rint(np.clip(X, -4.0, 4.0) * 2.0**g).astype(np.int64)
    whole[-1] = 0
    rest = -y[-1] * ((k * y) @ whole)
    out = whole / 2.0**g
    out[-1] = rest / (k[-1] * 2.0**g)
    return out


# --- sparse rows --------------------------------------------------------------------------------


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
    sides: list[NDArray[np.int64]],
    heights: Floats,
) -> tuple[Any, Floats]:
    """Return the support rows before noise, whose products with w are these; and their weights."""
    n = len(heights)
    n_blocks = min(len(informative), *map(len, sides))
    blocks = np.array_split(informative, n_blocks)
    mass = np.array([w[block] @ w[block] for block in blocks])
    block_of = np.empty(n, dtype=np.int64)
    q = rng.uniform(0.5, 1.5, n)
    for rows in sides:
        block_of[rows] = np.arange(len(rows)) % n_blocks
        shares = np.bincount(block_of[rows], weights=q[rows], minlength=n_blocks)
        q[rows] *= (mass / shares)[block_of[rows]] / len(sides)
    pieces = [blocks[j] for j in block_of]
    scale = heights / mass[block_of]
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
