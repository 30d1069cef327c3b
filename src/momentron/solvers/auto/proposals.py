"""What LIBLINEAR proposes for sparse rows, where it is the fastest way to a good start.

Its coordinate descent in the dual (Hsieh et al. 2008) needs a few passes over the rows where
conjugate gradients need dozens of products. It penalises the intercept, as if that were one more
feature, and stops by its own rule. What it proposes is a start like any other: objectives and
intervals are computed from the data.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import Work
from momentron.solvers.auto.kernel_form import balanced
from momentron.solvers.auto.newton import Loss
from momentron.solvers.auto.working_rows import SignedRows

PASSES = 1000  # over the rows, at most: most of them skip the rows at their bounds
# LIBLINEAR's tolerance compared with that of the gap, for a C‖x‖² far below 1, and the least that
# pays: without a box, where Newton's method ends better than it begins, and in one.
ACCURACY, FINEST = (100.0, 20.0), (0.01, 1e-5)
TAG = 1e-3  # the entry of a row in a column of its own, in units of a typical row length
INTERCEPT_STEPS = 20  # of Newton's method for the intercept


class Proposal(NamedTuple):
    """A classifier and weights in the dual set, and what they took."""

    w: np.ndarray
    b: np.ndarray
    alpha: np.ndarray
    passes: int  # over the rows


def liblinear(rows: SignedRows, loss: Loss, squares: np.ndarray, tol: float) -> Proposal | None:
    """The soft margin of two classes, with a gap of about `tol` if all goes well.

    None where LIBLINEAR refuses the rows, whose ‖x‖² are `squares`. It tells w = Σ α y x alone. In
    a box, where margins do not give α away, every row therefore has a small entry in a column of
    its own: the weight of that column is α times the entry.
    """
    from sklearn.svm import LinearSVC

    (m, d), X, signs, Y = rows.X.shape, rows.X, rows.signs, rows.dual_set.columns
    costs = np.broadcast_to(loss.upper if loss.is_boxed else 0.5 * loss.stiffness, m)
    length, C = math.sqrt(float(squares.mean())), float(costs.mean())
    accuracy = ACCURACY[loss.is_boxed] * tol / (1.0 + float(costs @ squares) / m)
    if max(X.nnz, d) + m >= 2**31:  # more than its column numbers, of 32 bits, can count
        return None
    ends, columns = X.indptr.astype(np.int32, copy=False), X.indices.astype(np.int32, copy=False)
    X = sp.csr_array((X.data, columns, ends), (m, d))
    if loss.is_boxed:
        every = np.arange(m + 1, dtype=np.int32)
        data = np.insert(X.data, ends[1:], TAG * length)
        columns = np.insert(columns, ends[1:], d + every[:-1])
        X = sp.csr_array((data, columns, ends + every), (m, d + m))
    model = LinearSVC(
        C=C,
        loss="hinge" if loss.is_boxed else "squared_hinge",
        dual=True,
        tol=max(accuracy, FINEST[loss.is_boxed]),
        max_iter=PASSES,
        fit_intercept=bool(Y.size),
        intercept_scaling=length,
        random_state=0,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it need not have converged
            Work(lambda _: model.fit(X, signs, sample_weight=costs / C)).result()
    except ValueError:  # such as rows of zeros alone, which have no length
        return None
    w, b = model.coef_[0, :d], np.zeros(Y.shape[1])
    p = signs * (rows.X @ w)
    if b.size:
        b[:] = best_intercept(loss, p, signs)
        p = p + signs * b
    if not np.isfinite(p).all():
        return None
    if not loss.is_boxed:
        return Proposal(w, b, loss.weights(loss.at(p)), int(model.n_iter_))
    alpha = loss.weights(signs * model.coef_[0, d:] / (TAG * length))
    return Proposal(w, b, balanced(alpha, loss.upper, Y), int(model.n_iter_))


def best_intercept(loss: Loss, p: np.ndarray, signs: np.ndarray) -> float:
    """The intercept with the least loss, given functional margins without one."""
    if isinstance(loss.upper, np.ndarray):
        # from −∞ on the loss falls by the C of the rows y = 1, and by less from each y(1 − p) on
        kinks = signs * (1.0 - p)
        order = np.argsort(kinks)
        passed = np.cumsum(loss.upper[order])
        place = np.searchsorted(passed, float(loss.upper[signs > 0.0].sum()))
        return float(kinks[order][min(int(place), order.size - 1)])
    b = 0.0
    for _ in range(INTERCEPT_STEPS):
        z = loss.at(p + b * signs)
        curvature = float(np.sum(loss.stiffness * loss.is_between(z)))
        if not curvature > 0.0:
            break
        step = float(loss.weights(z) @ signs) / curvature
        b += step
        if abs(step) <= 1e-12 * abs(b):
            break
    return b
