"""Between the data and the forms: working sets opened as forms, and passes over all the rows."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.rows.kernels import require_semidefinite
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.primal_form import PrimalForm, primal_form
from momentron.solvers.auto.rows import (
    KernelSource,
    MatrixSource,
    PairRows,
    SignedRows,
    WorkingRows,
    smallest,
)
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.problem import Problem

TELLING_SQUARE = 1e-3  # a squared margin, in units of ‖a‖², that a Gram matrix shows to 13 digits
FLAT_WIDTH = 2500  # d·k up to which the rows of a working set of pairs are written out
# Rows per feature up to which rows are seen through their Gram matrix; and rows up to which that is
# 1.
WIDE_RATIO, WIDE_SMALL = 1.5, 300


@dataclass(eq=False)
class Answer:
    """A classifier (w, b) and one multiplier per row, with what a pass over all the rows found.

    Not to be written to, but for the bounds, which are computed when they are asked for.
    """

    sets: "WorkingSets"
    w: np.ndarray
    b: np.ndarray
    lam: np.ndarray
    products: np.ndarray  # Xw
    p: np.ndarray  # functional margins
    _upper: float | None = None
    _lower: float | None = None

    @property
    def upper(self) -> float:
        """‖Zᵀq‖ for the normalised multipliers."""
        if self._upper is None:
            self._upper = self.sets.upper(self.lam)
        return self._upper

    @property
    def lower(self) -> float:
        """The margin of w, with the best intercepts."""
        if self._lower is None:
            norm = self.sets.base.norm(self.w)
            self._lower = self.sets.dual_set.worst(self.p) / norm if norm > 0.0 else -math.inf
        return self._lower

    def with_weights(self, lam: np.ndarray) -> "Answer":
        """The same classifier with other multipliers."""
        return replace(self, lam=lam, _upper=None)


class WorkingSets:
    """The constraints without their slack, seen a working set at a time.

    A classifier is (w, b) in the usual scale of support vector machines: functional margins
    p = −Zw + Yb are 1 on the support. Of the k intercepts of many classes the last is zero, and b
    holds the others.

    Attributes
    ----------
    size : int
        The number of constraints.
    width : int
        The length of w: features, times classes where there are many.
    is_plain : bool
        Whether the rows are those of a matrix, with a sign each: two classes, and no kernel.
    """

    def __init__(self, problem: Problem, deadline: Deadline, settings: AutoSettings) -> None:
        self.problem, self.base = problem, problem.base
        self.operator, self.labels = problem.operator, problem.labels
        self.dual_set = problem.dual_set
        self.shares = problem.penalty.shares
        self.deadline, self.settings = deadline, settings
        self.fits_intercept = problem.dual_set.fits_intercept
        self.size = problem.size
        self.shape = self.base.zeros().shape
        self.kernel, self.matrix = self.operator.as_kernel(), self.operator.as_matrix()
        self.is_kernel = self.kernel is not None
        self.is_plain = not (self.is_kernel or self.labels.is_paired)
        self.is_dense = self.matrix is not None and not self.matrix.is_sparse
        self.width = self.operator.shape[1] * self.labels.n_outputs
        self._shift: np.ndarray | None = None

    @property
    def capacity(self) -> int:
        """The largest working set that the memory allows: by its Gram matrix, or by its rows."""
        settings, kernel = self.settings, self.kernel
        if kernel is not None and kernel.kernel.matrix is not None:
            return self.size
        memory = settings.memory if kernel is None else kernel.cache_bytes
        rows = math.isqrt(memory // settings.form_bytes)
        if kernel is None and settings.form_bytes * self.width**2 <= memory // 2:
            is_flat = self.matrix is not None and self.width <= FLAT_WIDTH
            if is_flat or not self.labels.is_paired:
                rows = max(rows, int(self._most_entries / max(self.entries_per_row, 1.0)))
        return min(self.size, max(2, rows))

    @property
    def _most_entries(self) -> int:
        """Numbers in the rows of a working set that half of the memory holds."""
        return self.settings.memory // 16

    @property
    def entries_per_row(self) -> float:
        """Numbers that a row of a working set holds, where it is a row of a matrix, or a pair."""
        if self.labels.is_paired:
            return float(self.width)
        if self.matrix is None or not self.matrix.is_sparse:
            return float(self.operator.shape[1])
        return float(self.matrix.X.nnz) / self.operator.shape[0]

    @property
    def is_small(self) -> bool:
        """Whether all the rows together are a working set."""
        few = 1.5 * self.settings.small
        if self.is_plain:
            few = max(few, min(1.5 * self.width, self.settings.all_rows))
        return self.size <= min(few, self.capacity)

    @property
    def n_intercepts(self) -> int:
        return self.dual_set.n_intercepts

    def without_slack(self) -> "WorkingSets":
        """The same for the hard margin."""
        return WorkingSets(self.base, self.deadline, self.settings)

    def signs(self, index: np.ndarray | slice) -> np.ndarray:
        """y of the named rows, of two classes."""
        return self.labels.output_signs(index)[:, 0]

    # --- opening and closing a working set -----------------------------------------------------

    def open(self, W: np.ndarray, *, is_rough: bool = False) -> Form:
        """A form on the rows W, at w = 0: by their Gram matrix if they are wide.

        A rough one, of a kernel, is in single precision where that is had.
        """
        if self.is_wide(W.size):
            return self.open_gram(W, is_rough=is_rough)
        rows = self._reserved_rows(W)
        flat = rows.written_out(FLAT_WIDTH, self._most_entries)
        if flat is None:
            return self._gram_form(W, rows)
        return primal_form(flat, self.deadline)

    @property
    def has_room_for_all(self) -> bool:
        """Whether one working set may be all the rows: by their features, or by their products."""
        return (self.is_plain and not self.is_wide(self.size)) or self.size <= self.capacity

    def open_all(self) -> Form:
        """A form on all the rows, as they are where they are more than features."""
        every = np.arange(self.size)
        if not self.is_plain or self.is_wide(self.size):
            return self.open(every)
        squares = self.base.row_norms**2
        return PrimalForm(self.plain_rows(every), self.deadline, borrow=True, squares=squares)

    def open_gram(self, W: np.ndarray, *, is_rough: bool = False) -> GramForm:
        """A form by the Gram matrix of the rows W, wide or not."""
        return self._gram_form(W, self._reserved_rows(W, is_rough=is_rough))

    def _reserved_rows(self, W: np.ndarray, *, is_rough: bool = False) -> WorkingRows:
        """The rows W, with time and memory for a form on them."""
        self.deadline.require(self._opening_flops(W))
        if self.kernel is not None:
            # the Gram matrix, and a factor of it, come out of the memory for kernel values
            entry = self.settings.form_bytes
            if self.kernel.is_rough:  # half of that in single precision; else it keeps one, too
                entry = entry // 2 if is_rough else entry + 8
            n_bytes = entry * W.size**2
            if n_bytes > self.kernel.cache_bytes:
                n_bytes = self.settings.form_bytes * W.size**2
            self.kernel.reserve(n_bytes)
        return self.rows(W, is_rough=is_rough)

    def _gram_form(self, W: np.ndarray, rows: WorkingRows) -> GramForm:
        K = self._gram(W, rows)
        return GramForm(rows, K, self.deadline)

    def plain_rows(self, index: np.ndarray) -> SignedRows:
        """The named rows of two classes as they are: not centred, since that takes a copy."""
        assert self.matrix is not None
        return SignedRows(
            self.matrix.passed_rows(index),
            self.signs(index),
            self.dual_set.some(index),
            self.shares_at(index),
        )

    def shares_at(self, index: np.ndarray) -> float | np.ndarray:
        """The named constraints' own penalties of slack over the mean one."""
        return self.shares if isinstance(self.shares, float) else self.shares[index]

    def _opening_flops(self, W: np.ndarray) -> float:
        """The arithmetic of opening a form, roughly: its Gram matrix, or its first Hessian."""
        if not self.is_dense:
            return float(W.size) ** 2
        d = self.operator.shape[1]
        if self.is_plain:
            return float(W.size) * d * min(W.size, d)
        n_examples = np.unique(self.labels.examples(W)).size
        return float(n_examples) ** 2 * d + float(W.size) ** 2

    def is_wide(self, m: int) -> bool:
        """Whether m rows are better seen through their Gram matrix."""
        ratio = WIDE_RATIO if m > WIDE_SMALL else 1.0
        return m <= ratio * self.width

    def warm(self, form: Form, w: np.ndarray, b: np.ndarray, u: np.ndarray) -> None:
        """Take a form to (w, b), where w = Aᵀu."""
        form.warm(w.ravel(), b + self.shift_of(w), u)

    def coefficients(self, W: np.ndarray, answer: Answer) -> np.ndarray:
        """u with w = Aᵀu on the rows W: a kernel's w tells it, else the multipliers are near it."""
        if self.kernel is None or self.labels.is_paired:
            return answer.lam[W]
        return self.signs(W) * self.kernel.coefficients(answer.w)[W]

    def weighed(self, answer: Answer) -> np.ndarray:
        """The rows that w or the multipliers weigh: w is another on fewer rows."""
        is_weighed = answer.lam > 0.0
        if self.kernel is not None and not self.labels.is_paired:
            is_weighed |= self.kernel.coefficients(answer.w) != 0.0
        return np.flatnonzero(is_weighed)

    def answer(self, form: Form) -> tuple[np.ndarray, np.ndarray]:
        """(w, b) of a form's current point."""
        w, b = form.answer()
        w = w.reshape(self.shape)
        return w, b - self.shift_of(w)

    def centred_matrix(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the rows W of two classes, dense, and centred if they were dense before; y)."""
        X = self._centred_rows(W)
        return X if isinstance(X, np.ndarray) else X.toarray(), self.signs(W)

    def rows(self, W: np.ndarray, *, is_rough: bool = False) -> WorkingRows:
        """The rows W, as few numbers as there are."""
        dual_set = self.dual_set if W.size == self.size else self.dual_set.some(W)
        shares = self.shares_at(W)
        if self.is_plain:
            return SignedRows(self._centred_rows(W), self.signs(W), dual_set, shares)
        examples, place = np.unique(self.labels.examples(W), return_inverse=True)
        source: MatrixSource | KernelSource
        if self.kernel is None:
            source = MatrixSource(self._centred_rows(examples))
        else:
            source = KernelSource(self.kernel, examples, is_rough)
        return PairRows(source, place, self.labels.output_signs(W), dual_set, shares)

    def _centred_rows(self, examples: np.ndarray) -> Any:
        """Rows of X; dense ones less one point, the same in all rounds.

        Where there are intercepts this changes b alone, and nothing cancels against it.
        """
        assert self.matrix is not None
        X = self.matrix.working_rows(examples)
        if not self.fits_intercept:
            return X
        if not isinstance(X, np.ndarray):  # a larger set than the last one, if that was dense
            self._shift = None
            return X
        if self._shift is None:
            self._shift = X.sum(axis=0) / X.shape[0]
        return X - self._shift

    def shift_of(self, w: np.ndarray) -> np.ndarray | float:
        """What the shift adds to b."""
        if self._shift is None:
            return 0.0
        return self.labels.free_intercepts(self._shift @ w)

    def _gram(self, W: np.ndarray, rows: WorkingRows) -> np.ndarray:
        K = rows.gram()
        if self.kernel is not None and not self.kernel.kernel.is_semidefinite:
            require_semidefinite(K, W, self.kernel.kernel.relative_error)
        return K

    # --- all the rows --------------------------------------------------------------------------

    def no_products(self) -> np.ndarray:
        """Xw for w = 0, without a pass."""
        return self.labels.zeros(self.operator.shape[0])

    def evaluate(self, w: np.ndarray, b: np.ndarray, lam: np.ndarray, *, is_exact: bool) -> Answer:
        """A classifier and multipliers, with the functional margins of all the rows.

        An exact one computes in float64 every row that single precision, of the data or of kernel
        values, cannot place clearly above the margin.
        """
        products = self.operator.apply(w)
        p = self._margins(products, b)
        if is_exact and self.kernel is not None:
            blur = self.kernel.single_errors(w)
            if blur is not None:
                fuzz = self._per_row(2.0 * blur.reshape(products.shape[0], -1).max(axis=1))
                near = self.labels.examples(np.flatnonzero(p - fuzz < 1.01))
                w = self.kernel.with_exact_rows(w, np.unique(near))
                products = self.operator.apply(w)
            return Answer(self, w, b, lam, products, self._margins(products, b))
        matrix = self.matrix
        if matrix is None or not (matrix.is_single_precision and is_exact):
            return Answer(self, w, b, lam, products, p)
        top = float(np.abs(b).max(initial=0.0))
        off = 1e-6 * (float(np.linalg.norm(w)) * self.operator.radius + top)
        near = np.unique(self.labels.examples(np.flatnonzero(p < 1.01 + off)))
        for start in range(0, near.size, 4096):
            part = near[start : start + 4096]
            products[part] = matrix.rows(part) @ w
        return Answer(self, w, b, lam, products, self._margins(products, b))

    def _per_row(self, values: np.ndarray) -> np.ndarray:
        """Values of the examples, for each of their constraints."""
        return values[self.labels.examples(np.arange(self.size))]

    def evaluate_by_gram(self, form: Form, lam: np.ndarray) -> Answer | None:
        """What the Gram matrix of all the rows tells without a pass over them.

        One pass in place of three, which is much where rows are few: that of Zᵀq, which is −w but
        for its length. None where there is no such matrix, or an intercept, or another w, or where
        squares have cost too many digits.
        """
        if form.gram is None or not self.is_plain or self.fits_intercept:
            return None
        if not np.array_equal(form.point.x, lam):
            return None
        gradient = self.operator.cached_adjoint(self.labels.mix(self.dual_set.normalize(lam)))
        upper = self.operator.norm(gradient)
        if upper**2 < TELLING_SQUARE * form.scale:
            return None
        w, products = -float(lam.sum()) * gradient, self.signs(slice(None)) * form.p
        return Answer(self, w, form.point.b, lam, products, form.p, upper)

    def _margins(self, products: np.ndarray, b: np.ndarray) -> np.ndarray:
        if b.size:
            products = products + self.labels.all_intercepts(b)
        return -self.labels.scores(products)

    def upper(self, lam: np.ndarray) -> float:
        """‖Zᵀq‖ for the normalised multipliers."""
        if not np.any(lam > 0.0):
            return np.inf
        return self.problem.dual_norm(self.dual_set.normalize(lam))

    # --- choosing rows -------------------------------------------------------------------------

    def smallest(self, p: np.ndarray, size: int, kept: np.ndarray) -> np.ndarray:
        """The rows with the smallest margins, some of every class, and those kept; if there is
        room for so many.
        """
        W = self._smallest(p, size, kept)
        if W.size > self.capacity:
            few = self._smallest(p, 2 * self.capacity - W.size, kept)
            W = few[np.argsort(p[few], kind="stable")[: self.capacity]]
            W.sort()
        return W

    def _smallest(self, p: np.ndarray, size: int, kept: np.ndarray) -> np.ndarray:
        return smallest(self.dual_set, p, max(size, 1), kept)
