"""Problems of many classes with known answers, and what other solvers say of them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from momentron import Status
from momentron.dual.labels import ManyClasses
from momentron.dual.losses import Exponential
from momentron.solvers.problem import Problem


def explicit(X, y):
    """x_i (e_c − e_j)ᵀ of every pair as a row of length d·k, and the pairs' classes c and j."""
    k, eye = y.max() + 1, np.eye(y.max() + 1)
    pairs = [(i, c, j) for i, c in enumerate(y) for j in range(k) if j != c]
    rows = np.array([np.outer(X[i], eye[c] - eye[j]).ravel() for i, c, j in pairs])
    return rows, np.array([c for _, c, _ in pairs]), np.array([j for _, _, j in pairs])


def blobs(seed, n=40, d=6, k=4, spread=4.0):
    """k clouds of points, most often separable, with a row of each class at least."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return rng.normal(size=(n, d)) + spread * rng.normal(size=(k, d))[y], y


def touching(seed):
    """Classes in whole numbers, with a row midway between two rows of another class."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(3, 7)), int(rng.integers(4, 8))
    X = rng.integers(-3, 4, (k + 4, d)) + 4.0 * rng.integers(-3, 4, (k, d))[np.arange(k + 4) % k]
    y = np.arange(k + 4) % k
    X[1] = 0.5 * (X[0] + X[k])
    return X, y


def orthogonal(rng, lengths, d, n_behind=0, shift=0.0):
    """A support vector m_c f_c a class, f an orthonormal frame, points behind them, and γ̄.

    Σ_c m_c² (Σ_j q_cj² + (Σ_j q_cj)²) is least for Σ_j q_cj ∝ 1/m_c², the same for all j, which is
    a circulation where the m_c are equal: γ̄² = k/(k − 1) / Σ 1/m_c².
    """
    k = len(lengths)
    y = np.r_[np.arange(k), rng.integers(0, k, n_behind)]
    X = np.zeros((y.size, d))
    X[np.arange(y.size), y] = lengths[y] * np.r_[np.ones(k), 1.0 + rng.random(n_behind)]
    X[k:, k:] = rng.normal(size=(n_behind, d - k))
    frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ frame + shift, y, float(np.sqrt(k / (k - 1) / np.sum(lengths**-2.0)))


def whole_numbers():
    """Four classes in small whole numbers, exact in every type, and γ̄."""
    X = np.zeros((12, 6))
    X[np.arange(12), np.arange(12) % 4] = [3] * 4 + [5] * 8
    X[4:, 4:] = np.arange(16).reshape(8, 2) - 7
    return X, np.arange(12) % 4, 3.0 / np.sqrt(3.0)


def read_only(X):
    X.flags.writeable = False
    return X


FORMS = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int64),
    "Fortran": np.asfortranarray,
    "read-only": read_only,
    "view": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csc float32": lambda X: sp.csc_array(X.astype(np.float32)),
    "frame": lambda X: pd.DataFrame(X, columns=list("abcdef")),
    "list": lambda X: X.tolist(),
}


TOUCHING = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [5.0, 0.0]])  # 0 lies between 1 and 1
NOT_SEPARABLE = {
    "contradiction": (
        np.array([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0], [0.0, 5.0]]),
        np.array([0, 1, 2, 2]),
    ),
    "touching": (TOUCHING, np.array([0, 1, 1, 2])),
    "zeros": (np.zeros((4, 2)), np.array([0, 1, 2, 0])),
    "twins": (np.array([[0.0, -1.0], [1.0, 1.0], [1.0, 1.0]]), np.array([0, 1, 2])),
    "overlap": (np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 5),
}


def leads(outputs, y):
    """F_ic − F_ij of every pair, as a table with inf on the true class."""
    table = outputs[np.arange(y.size), y][:, None] - outputs
    table[np.arange(y.size), y] = np.inf
    return table


def imbalance(dual, y):
    """Σ |outflow − inflow| over the classes."""
    out = np.bincount(y, dual.sum(axis=1), dual.shape[1])
    return float(np.abs(out - dual.sum(axis=0)).sum())


def assert_optimal(result, best):
    """Certified to a small gap, around the margin that is known."""
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-9
    assert result.lower * (1 - 1e-12) <= best <= result.upper * (1 + 1e-12)


def assert_witness(result, X, y, fit_intercept):
    """Not separable, by weights that cancel: recomputed here from the rows."""
    assert result.status is Status.NOT_SEPARABLE
    assert result.lower == 0.0
    rows, _, target = explicit(X, y)
    q = result.full_dual()[np.repeat(np.arange(y.size), y.max()), target]
    length = np.linalg.norm(rows, axis=1).max()
    assert q.sum() == pytest.approx(1.0) and q.min() >= 0.0
    assert np.linalg.norm(q @ rows) <= 1e-12 * length
    assert result.upper <= 1e-12 * length
    if fit_intercept:
        assert imbalance(result.full_dual(), y) <= 1e-12


def pairs_problem(operator, y, k, fit_intercept):
    """Classes as pairs, two of them too."""
    labels = ManyClasses(k, fit_intercept, y)
    dual_set = labels.dual_set(Exponential())
    return Problem(operator, labels, dual_set, classes=np.arange(k))


def quadratic_program(X, y, fit_intercept, C=np.inf, weights=1.0):
    """(solved, least ½‖W‖² + Σ C_i ξ²) by Clarabel; the last intercept is zero."""
    clarabel = pytest.importorskip("clarabel")
    rows, source, target = explicit(X, y)
    (m, width), k = rows.shape, y.max() + 1
    columns = np.eye(k)[source] - np.eye(k)[target]
    parts = [rows, columns[:, :-1]] if fit_intercept else [rows]
    penalty = [np.ones(width), np.zeros(sum(part.shape[1] for part in parts[1:]))]
    if np.isfinite(C):
        prices = np.repeat(weights * np.ones(y.size), m // y.size)
        parts, penalty = [*parts, np.eye(m)], [*penalty, 2.0 * C * prices]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    P, A = sp.diags(np.concatenate(penalty)).tocsc(), sp.csc_matrix(-np.hstack(parts))
    cones = [clarabel.NonnegativeConeT(m)]
    found = clarabel.DefaultSolver(P, np.zeros(A.shape[1]), A, -np.ones(m), cones, settings).solve()
    return str(found.status), found.obj_val


def random_problem(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 8))
    sizes = {"n": int(rng.integers(k, 40)), "d": int(rng.integers(1, 12)), "k": k}
    return blobs(seed, spread=rng.choice([0.0, 1.0, 3.0]), **sizes)
