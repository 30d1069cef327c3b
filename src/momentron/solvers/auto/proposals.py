"""What LIBLINEAR and LIBSVM propose, where they are the fastest way to a good start.

Both come with scikit-learn. Coordinate descent in the dual (Hsieh et al. 2008) needs a few passes
over sparse rows where conjugate gradients need dozens of products; pairs of weights (Fan, Chen and
Lin 2005) need no factor where thousands of rows have weight. Both stop by rules of their own, and
what they propose is a start like any other: objectives and intervals are computed from the data.
"""

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.clock import Work, time_left
from momentron.arithmetic.linear_algebra import add_to_diagonal
from momentron.arithmetic.squares import strips_of
from momentron.rows import KernelOperator
from momentron.rows.kernels import require_semidefinite
from momentron.solvers.auto.newton import Hinge
from momentron.solvers.auto.working_rows import SignedRows
from momentron.solvers.auto.working_sets import WorkingSets

PASSES = 1000  # over the rows, at most: most of them skip the rows at their bounds
# LIBLINEAR's tolerance compared with that of the gap, for a C‖x‖² far below 1, and the least that
# pays: without a box, where Newton's method ends better than it begins, and in one.
ACCURACY, FINEST = (100.0, 20.0), (0.01, 1e-5)
TAG = 1e-3  # the entry of a row in a column of its own, in units of a typical row length
INTERCEPT_STEPS = 20  # of Newton's method for the intercept
STEPS_PER_ROW, STEP_SECONDS = 60, 2e-9  # of LIBSVM, at most, and what one takes for each row
# Its gap for a tolerance t, in units of Σ C over the objective, is up to t times the first of these
# with the plain hinge, and t² times the second with the squared one; the ends of its tolerances.
GAPS = (0.05, 0.03)
FINEST_PAIRS, COARSEST_PAIRS = 1e-6, 0.01
MOST_CHECKED = 3000  # rows on which a matrix that may be indefinite is factored
LEAST_BYTES = 1024  # for each row, where it computes the values itself
# Of memory for each value of a kernel that LIBSVM gets, and of that what it and its copy take; and
# the rows computed at a time.
BYTES, COPY_BYTES, STRIP = 16, 10, 128


def liblinear(
    rows: SignedRows, loss: Hinge, squares: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    """(w, b, α, passes) of two classes, with a gap of about `tol` if all goes well.

    None where LIBLINEAR refuses the rows, whose ‖x‖² are `squares`. It tells w = Σ α y x alone, and
    penalises the intercept, as if that were one more feature. In a box, where margins do not give α
    away, every row therefore has a small entry in a column of its own: the weight of that column is
    α times the entry.
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
    if not _fits(model, X, signs, costs / C):
        return None
    w, b = model.coef_[0, :d], np.zeros(Y.shape[1])
    p = signs * (rows.X @ w)
    if b.size:
        b[:] = best_intercept(loss, p, signs)
        p = p + signs * b
    if not np.isfinite(p).all():
        return None
    if not loss.is_boxed:
        return w, b, loss.weights(loss.at(p)), int(model.n_iter_)
    alpha = loss.weights(signs * model.coef_[0, d:] / (TAG * length))
    return w, b, balanced(alpha, loss.upper, Y), int(model.n_iter_)


class LibSvm:
    """LIBSVM on some rows of a kernel, of two classes.

    It gets the values of the kernel from us, since it would take ten times as long to compute them.
    So it can be used with every kernel, and for the squared hinge, which is a hard margin with r
    added to the diagonal of K. If there is no memory for the values it gets the rows, provided that
    it knows the kernel.

    Rows after the first `m` have nearly all their C. Those of a label become one row, their mean.

    LIBSVM always fits an intercept. To keep it near zero, two rows with hardly any length are
    added, one for each label: their weights balance those of the others at almost no cost.
    """

    def __init__(self, sets: WorkingSets, W: np.ndarray, loss: Hinge, m: int) -> None:
        kernel, signs = sets.kernel, sets.signs(W)
        assert kernel is not None
        self.kernel, self.loss, self.Y = kernel, loss, sets.dual_set.some(W).columns
        self.cache_bytes = kernel.cache_bytes // 2
        costs = np.broadcast_to(loss.upper if loss.is_boxed else loss.stiffness, W.size)
        kinds, joint = np.unique(signs[m:], return_inverse=True)
        self.labels, self.place = np.append(signs[:m], kinds), np.append(np.arange(m), m + joint)
        self.costs = np.bincount(self.place, costs)
        self.shares = costs / np.maximum(self.costs, 1e-300)[self.place]
        self.joint_loss = loss._replace(upper=self.costs) if loss.is_boxed else loss
        self.total, self.scale = float(costs.sum()), 1.0
        self.X: Any = None
        self.options: dict[str, Any] = {"kernel": "precomputed"}
        if BYTES * m**2 <= kernel.cache_bytes or kernel.kernel.matrix is not None:
            self.cache_bytes = 2 * m**2
            self.X = self._values(W, m)
        elif m == kernel.shape[0] and takes_rows(kernel, loss, self.Y.shape[1]):
            self.X, self.options = kernel.kernel.for_libsvm()

    def _values(self, rows: np.ndarray, m: int) -> np.ndarray:
        """K on these rows, in units of its mean diagonal: LIBSVM has constants of its own."""
        kernel, W, size = self.kernel, rows[:m], self.costs.size + (0 if self.Y.size else 2)
        kernel.reserve(COPY_BYTES * m**2)
        self.scale = max(float(kernel.kernel.diagonal()[rows].mean()), 1e-300)
        K = np.empty((size, size))
        K[m:], K[:, m:] = 0.0, 0.0
        whole = kernel.whole() if m == kernel.shape[0] else None  # its scores need them again
        # without a copy of all values in single precision; in double precision half of them do
        for part in strips_of(0, m, STRIP if kernel.is_rough else m):
            some = W[part] if kernel.is_rough else W
            values = kernel.rough_block(some, W) if whole is None else whole[part]
            np.divide(values, self.scale, out=K[part, :m])
        if not (kernel.kernel.is_semidefinite or m > MOST_CHECKED):
            require_semidefinite(K[:m, :m], W, kernel.kernel.relative_error)
        for place in range(m, self.costs.size):
            index = np.flatnonzero(self.place == place)
            mean = kernel.combine(rows[index], self.shares[index] / self.scale, rough=True)
            K[place, : self.costs.size] = K[: self.costs.size, place] = self.means(mean[1][rows])
        if not self.loss.is_boxed:
            add_to_diagonal(K[:m, :m], 1.0 / (self.costs * self.scale))
            self.costs = np.full(m, self.total)  # no weight is larger
        if not self.Y.size:
            self.labels = np.append(self.labels, (1.0, -1.0))
        return K

    def means(self, p: np.ndarray) -> np.ndarray:
        """What numbers of the rows are on average in each of LIBSVM's."""
        return np.bincount(self.place, self.shares * p)

    def weights(self, tol: float, share: float) -> np.ndarray | None:
        """α with a gap of about `tol` if all goes well, for an objective of this share of Σ C.

        A row that violates its margin by LIBSVM's tolerance costs C times as much, or its square.
        """
        from sklearn.svm import SVC

        size, costs = self.costs.size, self.costs * self.scale
        accuracy = tol * share / GAPS[0] if self.loss.is_boxed else math.sqrt(tol * share / GAPS[1])
        accuracy = min(max(accuracy, FINEST_PAIRS), COARSEST_PAIRS)
        if self.labels.size > size:
            length = max(accuracy / (self.total * self.scale), 1e-290)
            self.X[[size, size + 1], [size, size + 1]] = length
            costs = np.append(costs, np.full(2, 10.0 / length))
        steps = min(STEPS_PER_ROW * self.place.size, max(time_left(), 0.0) / (STEP_SECONDS * size))
        model = SVC(
            C=1.0,
            tol=accuracy,
            cache_size=max(self.cache_bytes / 2**20, 1.0),
            max_iter=max(int(steps), 1),
            **self.options,
        )
        if self.X is None or not _fits(model, self.X, self.labels, costs):
            return None
        alpha, found = np.zeros(self.labels.size), model.dual_coef_
        alpha[model.support_] = np.abs(found.toarray() if sp.issparse(found) else found)[0]
        alpha = alpha[self.place] * (self.shares / self.scale)
        alpha = np.minimum(self.loss.weights(alpha), self.total)
        return balanced(alpha, self.loss.upper, self.Y) if np.isfinite(alpha).all() else None


def takes_rows(kernel: KernelOperator | None, loss: Hinge, n_intercepts: int) -> bool:
    """Whether LIBSVM can compute the kernel's values itself, in what memory there is."""
    return (
        kernel is not None
        and kernel.kernel.for_libsvm()[0] is not None
        and loss.is_boxed
        and n_intercepts == 1
        and kernel.cache_bytes >= LEAST_BYTES * kernel.shape[0]
    )


def _fits(model: Any, X: Any, signs: np.ndarray, costs: np.ndarray) -> bool:
    """Fit a model of scikit-learn's in a thread; whether it takes the rows.

    Some have no length, or costs that it refuses.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it need not have converged
            Work(lambda _: model.fit(X, signs, sample_weight=costs)).result()
    except ValueError:
        return False
    return True


def balanced(alpha: np.ndarray, upper: float | np.ndarray, Y: np.ndarray) -> np.ndarray:
    """α with Yᵀα = 0 for two classes, as far as the weights between the bounds allow."""
    for _ in range(3 * Y.shape[1]):
        off, free = float(Y[:, 0] @ alpha), (alpha > 0.0) & (alpha < upper)
        if not free.any() or abs(off) <= 1e-14 * float(alpha.sum()):
            break
        alpha = np.clip(alpha - free * (off / np.count_nonzero(free)) * Y[:, 0], 0.0, upper)
    return alpha


def best_intercept(loss: Hinge, p: np.ndarray, signs: np.ndarray) -> float:
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
