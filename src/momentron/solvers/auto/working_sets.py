"""Between the data and the forms: working sets of rows, opened as forms."""

import math
from typing import Any

import numpy as np

from momentron.rows.kernels import require_semidefinite
from momentron.solvers.auto.deadline import Deadline
from momentron.solvers.auto.forms import Form
from momentron.solvers.auto.gram_form import GramForm
from momentron.solvers.auto.primal_form import PrimalForm, ProductForm, primal_form
from momentron.solvers.auto.settings import AutoSettings
from momentron.solvers.auto.working_rows import KernelRows, SignedRows
from momentron.solvers.problem import Problem

FLAT_WIDTH = 2500  # d·k up to which the rows of a working set of pairs are written out
WIDE_RATIO = 1.5  # rows per feature up to which a Gram matrix is the better form,
WIDE_SMALL = 300  # of more rows than these: of fewer, a singular one can hide that none separates
# Rows of two classes that are taken at once where they are not many more than the features.
MOST_AT_ONCE = 3000


class WorkingSets:
    """The constraints without their slack, one working set at a time.

    A classifier is (w, b) in the usual scale of support vector machines: functional margins
    p = −Zw + Yb are 1 on the support. Of the k intercepts of many classes the last is zero, and b
    holds the others.
    """

    def __init__(self, problem: Problem, deadline: Deadline, settings: AutoSettings) -> None:
        self.deadline, self.settings, self.base = deadline, settings, problem.base
        self.operator, self.labels = problem.operator, problem.labels
        self.dual_set, self.shares = problem.dual_set, problem.penalty.shares
        self.n_intercepts = problem.dual_set.n_intercepts
        self.size = problem.size  # the number of constraints
        self.kernel, self.matrix = self.operator.as_kernel(), self.operator.as_matrix()
        self.is_kernel = self.kernel is not None
        # whether the rows are those of a matrix, with a sign each: two classes, and no kernel
        self.is_plain = not (self.is_kernel or self.labels.is_paired)
        self.is_dense = self.matrix is not None and not self.matrix.is_sparse
        # the length of w: features, times classes where there are many
        self.width = self.operator.shape[1] * self.labels.n_outputs
        self._most_entries = settings.memory // 16  # numbers in a working set, half of the memory
        self._shift: np.ndarray | None = None

    # --- sizes ---------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """The largest working set that the memory allows: by its Gram matrix, or by its rows."""
        settings, kernel = self.settings, self.kernel
        if kernel is not None and kernel.kernel.matrix is not None:
            return self.size
        memory = settings.memory if kernel is None else kernel.cache_bytes
        rows = math.isqrt(memory // settings.form_bytes)
        if kernel is None and settings.form_bytes * self.width**2 <= memory // 2:
            entries = float(self.width)
            if self.matrix is not None and self.matrix.is_sparse and self.is_plain:
                entries = max(float(self.matrix.X.nnz) / self.operator.shape[0], 1.0)
            is_flat = self.matrix is not None and self.width <= FLAT_WIDTH
            if is_flat or not self.labels.is_paired:
                rows = max(rows, int(self._most_entries / max(entries, 1.0)))
        return min(self.size, max(2, rows))

    @property
    def is_small(self) -> bool:
        """Whether all the rows together are a working set."""
        few = 1.5 * self.settings.small
        if self.is_plain:
            few = max(few, min(1.5 * self.width, MOST_AT_ONCE))
        return self.size <= min(few, self.capacity)

    def is_wide(self, m: int) -> bool:
        """Whether the Gram matrix is the better form for m rows."""
        return m <= (WIDE_RATIO if m > WIDE_SMALL else 1.0) * self.width

    @property
    def has_room_for_all(self) -> bool:
        """Whether one working set may be all the rows: by their features, or by their products."""
        return (self.is_plain and not self.is_wide(self.size)) or self.size <= self.capacity

    # --- forms ---------------------------------------------------------------------------------

    def open(self, W: np.ndarray, *, is_rough: bool = False, by_gram: bool = False) -> Form:
        """A form on the rows W, at w = 0: by their Gram matrix if they are wide, or if it is asked
        for.

        `is_rough` asks for a kernel's values in single precision, where available.
        """
        self._reserve(W, is_rough=is_rough)
        rows, flat = self.rows(W, is_rough=is_rough), None
        if not (by_gram or self.is_kernel or self.is_wide(W.size)):
            flat = rows.written_out(FLAT_WIDTH, self._most_entries)
        return self._gram_form(W, rows) if flat is None else primal_form(flat, self.deadline)

    def open_all(self) -> Form:
        """A form on all the rows, without a copy where they are more than features."""
        every = np.arange(self.size)
        if not self.is_plain or self.is_wide(self.size):
            return self.open(every)
        return PrimalForm(self.plain_rows(every), self.deadline, self.base.row_norms**2)

    def open_products(self, accuracy: tuple[float, int] | None = None) -> ProductForm:
        """A form on all the rows of two classes without any factor; see there."""
        rows, squares = self.plain_rows(np.arange(self.size)), self.base.row_norms**2
        return ProductForm(rows, squares, self.deadline, accuracy)

    def _gram_form(self, W: np.ndarray, rows: SignedRows) -> GramForm:
        K = rows.gram()
        if self.kernel is not None and not self.kernel.kernel.is_semidefinite:
            require_semidefinite(K, W, self.kernel.kernel.relative_error)
        return GramForm(rows, K, self.deadline)

    def _reserve(self, W: np.ndarray, *, is_rough: bool) -> None:
        """Time and memory for a form on the rows W."""
        # roughly the arithmetic of its Gram matrix, or of its first Hessian
        (n, d), flops = self.operator.shape, float(W.size) ** 2
        if self.is_dense:
            n = min(n, W.size)
            flops += float(n) * d * min(n, d)
        self.deadline.require(flops)
        if self.kernel is not None:
            # the Gram matrix and a factor of it share the memory for kernel values
            entry = self.settings.form_bytes
            if self.kernel.is_rough:  # half of that in single precision; else it keeps one, too
                entry = entry // 2 if is_rough else entry + 8
            n_bytes = entry * W.size**2
            if n_bytes > self.kernel.cache_bytes:
                n_bytes = self.settings.form_bytes * W.size**2
            self.kernel.reserve(n_bytes)

    # --- rows ----------------------------------------------------------------------------------

    def signs(self, index: np.ndarray | slice) -> np.ndarray:
        """y of some of the rows, of two classes."""
        return self.labels.output_signs(index)[:, 0]

    def rows(self, W: np.ndarray, *, is_rough: bool = False, is_centred: bool = True) -> SignedRows:
        """The rows W; dense ones are centred where there are intercepts, which takes a copy."""
        dual_set = self.dual_set if W.size == self.size else self.dual_set.some(W)
        shares = self.shares if isinstance(self.shares, float) else self.shares[W]
        examples, place, signs = W, None, self.labels.output_signs(W)
        if self.labels.is_paired:
            examples, place = np.unique(self.labels.examples(W), return_inverse=True)
        else:
            signs = signs[:, 0]
        if self.kernel is not None:
            return KernelRows(self.kernel, examples, is_rough, signs, dual_set, shares, place=place)
        assert self.matrix is not None
        X = self.matrix.working_rows(examples)
        if is_centred and dual_set.fits_intercept:
            X = self._centred(X)
        return SignedRows(X, signs, dual_set, shares, place=place)

    def plain_rows(self, index: np.ndarray) -> SignedRows:
        """Some of the rows of two classes, not centred."""
        return self.rows(index, is_centred=False)

    def _centred(self, X: Any) -> Any:
        """Dense rows less one point, the same in all rounds.

        This changes b alone, and nothing cancels against it.
        """
        if not isinstance(X, np.ndarray):  # a larger set than the last one, if that was dense
            self._shift = None
            return X
        if self._shift is None:
            self._shift = X.sum(axis=0) / X.shape[0]
        if not X.flags.writeable:
            return X - self._shift
        X -= self._shift  # pages new to the process take as long as the subtraction
        return X

    def shift_of(self, w: np.ndarray) -> np.ndarray | float:
        """What centring adds to b."""
        if self._shift is None:
            return 0.0
        return self.labels.free_intercepts(self._shift @ w)
