"""What every data operator offers: X as a linear map, at working and at certificate precision."""

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import UNDERFLOW, gamma, norm_bounds
from momentron.arithmetic.squares import strips_of
from momentron.certificate import read_only

if TYPE_CHECKING:
    from momentron.rows.dense import MatrixOperator
    from momentron.rows.kernel_rows import KernelOperator

T = TypeVar("T")

BLOCK_BYTES = 1 << 22  # float64 blocks of 4 MB: large enough for BLAS, small next to any X
FEW_ENTRIES = 32  # up to which the length of a vector is faster in Python


def row_blocks(n: int, d: int) -> list[slice]:
    """Slices of rows of d float64 that cover 0..n, a block each."""
    return strips_of(0, n, max(1, BLOCK_BYTES // (8 * max(d, 1))))


def norm_upper_bounds(squares: np.ndarray, length: int) -> np.ndarray:
    """Sure upper bounds of ‖x_i‖ from computed sums of `length` squares.

    Squares below the smallest float may have vanished, so every bound is padded, unless all are
    zero: the data are scaled beforehand, so that then X itself is zero.
    """
    if not squares.any():
        return np.zeros_like(squares)
    return np.sqrt(squares) * (1.0 + gamma(length + 4)) + length * UNDERFLOW**0.5


@np.errstate(over="ignore", invalid="ignore")
def squared_row_norms(X: Any) -> np.ndarray:
    """‖x_i‖² in float64; dense rows block by block, so that float32 data cost no second copy."""
    if sp.issparse(X):
        squared = shallow_copy(X)
        squared.data = np.square(X.data, dtype=np.float64)
        return np.asarray(squared @ np.ones(X.shape[1]))
    squares = np.empty(X.shape[0])
    for rows in row_blocks(*X.shape):
        block = X[rows].astype(np.float64, copy=False)
        np.einsum("ij,ij->i", block, block, out=squares[rows])
    return squares


def nonzero_rows(a: np.ndarray) -> np.ndarray:
    """The numbers of the rows where a, of shape (n,) or (n, k), is not zero."""
    return (a if a.ndim == 1 else np.asarray(a.any(axis=1))).nonzero()[0]


def shallow_copy(thing: T) -> T:
    """A new object with the same attributes; ten times as fast as copy.copy."""
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__)
    return other


def read_only_copy(thing: Any) -> Any:
    """The same rows or operator: attributes may be set, but arrays cannot be written to.

    That goes for the rows and the kernel of an operator, too.
    """
    if isinstance(thing, np.ndarray):
        return read_only(thing)
    other = shallow_copy(thing)
    for name, part in vars(thing).items():
        is_array = isinstance(part, np.ndarray) or sp.issparse(part)
        if is_array or name in ("X", "kernel", "points"):
            other.__dict__[name] = read_only_copy(part)
    return other


class Operator(ABC):
    """The rows of X as a linear map; knows nothing of labels.

    Solvers call `apply`, `adjoint` and `combine`, at the data's own precision. The certificate
    calls `scores_in_double` and `adjoint_norm_bound`, always in float64, and reads the length of
    the scores' rounding chains from `score_depth`; where those chains are too long for the
    tolerance, it asks for extended precision.

    Attributes
    ----------
    shape : (n, d)
    radius : float
        R, rounded up: ‖x_i‖ ≤ R holds for every row in exact arithmetic.
    row_norms : ndarray of shape (n,)
        Upper bounds of ‖x_i‖, in float64.
    passes : int
        How often the whole of X has been read by `apply` or `adjoint`.
    """

    shape: tuple[int, int]
    radius: float
    row_norms: np.ndarray
    passes: int = 0
    exponent: int = 0  # of the power of two by which X was divided
    evaluations: int = 0  # kernel values computed
    has_coefficient_per_row: bool = False  # of a classifier, as through a kernel
    kernel_error: float = 0.0  # how far an entry may be from the true one, relative to ‖x‖‖x′‖

    def centred_radius(self) -> float:
        """max‖x_i − c‖ with c the mean of the rows, rounded up, at the cost of two passes.

        ‖x − c‖² = ‖x‖² − 2x·c + ‖c‖² loses digits where c is long, so the bound is padded by what
        rounding may have lost; it is never above 2R.
        """
        d, centre = self.shape[1], self.mean()
        length = float(np.linalg.norm(centre))
        squares = self.row_norms**2 - 2.0 * self.scores_in_double(centre) + length**2
        lost = 8.0 * gamma(d + self.score_depth(centre) + 8) * (self.radius + length) ** 2
        return min(2.0 * self.radius, float(np.sqrt(max(0.0, squares.max()) + lost)))

    def mean(self) -> np.ndarray:
        """The mean of the rows: one pass."""
        return self.exact_adjoint(np.full(self.shape[0], 1.0 / self.shape[0]))

    def apply(self, w: np.ndarray) -> np.ndarray:
        """X w at the data's own precision, as float64; w has shape (d,) or (d, k). One pass."""
        self.passes += 1
        return self.scores_in_double(w)

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        """Xᵀ a at the data's own precision, as float64; a has shape (n,) or (n, k). One pass."""
        self.passes += 1
        return self.exact_adjoint(a)

    @abstractmethod
    def combine(self, rows: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Xᵀ a where a is zero but on the given rows: costs those rows alone."""

    def along(
        self, rows: np.ndarray, a: np.ndarray
    ) -> tuple[np.ndarray | slice, np.ndarray, np.ndarray]:
        """(the coefficients that Xᵀa changes, by how much, X times it), a on the given rows."""
        coef = self.combine(rows, a)
        if a.ndim == 2 and rows.size < a.shape[1]:
            # a row counts for several labels, and one product with it serves them all
            return slice(None), coef, self.apply(self.combine(rows, np.eye(rows.size))) @ a
        return slice(None), coef, self.apply(coef)

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Views of w: its coefficients, and the products Xw where it holds these."""
        return w, None

    def as_matrix(self) -> "MatrixOperator | None":
        """Itself, where it has the rows of a matrix."""
        return None

    def as_kernel(self) -> "KernelOperator | None":
        """Itself, where the rows exist only in their inner products."""
        return None

    def norm(self, w: np.ndarray) -> float:
        """‖w‖ in the space where the classifier lives."""
        flat = w.ravel()
        if flat.size <= FEW_ENTRIES:
            return math.hypot(*flat.tolist())
        with np.errstate(over="ignore"):
            return math.sqrt(flat.dot(flat))

    def norm_bounds(self, w: np.ndarray) -> tuple[float, float]:
        """Sure lower and upper bounds of ‖w‖."""
        return norm_bounds(w)

    def magnitude(self, w: np.ndarray, norm: float) -> float:
        """M with |fl(x_i·w) − x_i·w| ≤ γ_depth ‖x_i‖ M, given an upper bound of ‖w‖."""
        return norm

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """What tells a classifier from another: w itself; of a kernel, one number per example."""
        return self.parts(w)[0]

    def from_coefficients(self, a: np.ndarray) -> np.ndarray:
        """The classifier of these coefficients."""
        return a

    def recomputed(self, w: np.ndarray) -> np.ndarray:
        """w with everything that is kept with its coefficients recomputed, in float64."""
        return w

    def single_errors(self, w: np.ndarray) -> np.ndarray | None:
        """What single precision adds to the errors of the scores of a `recomputed` w; or None."""
        return None

    def in_double(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A `recomputed` w whose scores on the named rows are in double precision."""
        return w

    @property
    def resolution(self) -> float:
        """The smallest ‖Xᵀa‖ that arithmetic can tell from zero, in units of Σ |a_i| ‖x_i‖.

        A kernel gives its square, and so half as many digits.
        """
        if self.kernel_error == 0.0:
            return 1e-15
        return 4.0 * math.sqrt(gamma(self.shape[0]) + self.kernel_error)

    @property
    def some_row_length(self) -> float:
        """A length that some row surely has: a little below R, unless that is padded."""
        return 0.9 * self.radius

    def products_at(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        """X w on the named rows, as far as float64 tells."""
        return self.scores_in_double(w)[rows]

    def adjoint_norm(self, a: np.ndarray) -> float:
        """‖Xᵀa‖, computed in float64."""
        return self.norm(self.exact_adjoint(a))

    def zeros(self, *trailing: int) -> np.ndarray:
        """The classifier w = 0."""
        return np.zeros((self.shape[1], *trailing))

    @abstractmethod
    def scores_in_double(self, w: np.ndarray) -> np.ndarray:
        """X w in float64 arithmetic, whatever the data's type."""

    @abstractmethod
    def exact_adjoint(self, a: np.ndarray) -> np.ndarray:
        """Xᵀ a in float64 arithmetic, over the rows where a is not zero."""

    @abstractmethod
    def sharp_scores(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        """X w on the named rows, in extended precision; as many roundings as `scores_in_double`."""

    @abstractmethod
    def adjoint_norm_bound(
        self, a: np.ndarray, weighted_norms: float, *, sharp: bool = False
    ) -> float:
        """A sure upper bound of ‖Xᵀa‖, given one of Σ |a_i| ‖x_i‖."""

    @abstractmethod
    def score_depth(self, w: np.ndarray) -> int:
        """The longest chain of roundings in one entry of `scores_in_double(w)`."""
