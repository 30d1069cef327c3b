"""Rows as seen through standardised columns, and samples of rows."""

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.rows import MatrixOperator
from momentron.rows.base import row_blocks

TINY, LEAST = 1e-30, 1e-30  # columns that vary less, relative to the most or at all, are constant
SAME = 1e-9  # and so are all those of a kernel, relative to the mean image


class Columns:
    """Rows as seen through standardised columns, which are never formed.

    An array V has the coefficients of the columns, and below them the intercepts, if any.
    """

    def __init__(self, operator: MatrixOperator, *, fit_intercept: bool, alike: bool) -> None:
        """`alike` gives all columns one scale: those of a kernel have no meaning one by one.

        It is that of the median row, since images of outliers may be very long.
        """
        self.operator, self.fit_intercept = operator, fit_intercept
        self.d = operator.shape[1]
        mean, scale = _moments(operator)
        self.centre = mean if fit_intercept else np.zeros(self.d)
        if not fit_intercept:
            scale = np.hypot(scale, mean)
        if alike:
            rows = operator.rows(np.arange(operator.shape[0])) - self.centre
            scale = np.full(self.d, np.median(np.linalg.norm(rows, axis=1)))
        least = max(TINY * float(np.linalg.norm(scale, np.inf)), LEAST)
        if alike:  # images that differ by rounding alone are equal
            least = max(least, SAME * float(np.linalg.norm(mean)))
        varies = scale > least
        self.inverse = np.divide(1.0, scale, out=np.zeros(self.d), where=varies)
        self.square = 1.0 if alike else max(1.0, float(varies.sum()))  # mean‖x‖²

    def unscaled(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) for the rows as they are."""
        W = self.inverse[:, None] * V[: self.d]
        b = V[self.d] if self.fit_intercept else np.zeros(V.shape[1])
        return W, b - self.centre @ W

    def scaled(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """V, for columns that vary."""
        V = np.divide(
            W, self.inverse[:, None], out=np.zeros_like(W), where=self.inverse[:, None] > 0
        )
        return np.vstack([V, b + self.centre @ W]) if self.fit_intercept else V

    def times(self, V: np.ndarray) -> np.ndarray:
        """The outputs of all rows."""
        W, b = self.unscaled(V)
        return self.operator.apply(W) + b

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """The gradient by V, given that by the outputs."""
        sums = G.sum(axis=0)
        gradient = self.operator.adjoint(G) - np.outer(self.centre, sums)
        gradient *= self.inverse[:, None]
        return np.vstack([gradient, sums]) if self.fit_intercept else gradient

    def gram(self, index: np.ndarray) -> np.ndarray:
        """The mean of x xᵀ over the named rows, intercepts included."""
        rows = (self.operator.rows(index) - self.centre) * self.inverse
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((index.size, 1))])
        return rows.T @ rows / index.size


def _moments(operator: MatrixOperator) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard deviation) of every column, in float64 and without a dense copy."""
    n = operator.shape[0]
    mean = operator.exact_adjoint(np.full(n, 1.0 / n))
    with np.errstate(under="ignore"):
        if operator.is_sparse:
            X = operator.X.tocsc()
            stored = np.diff(X.indptr)
            entries = X.data.astype(np.float64) - np.repeat(mean, stored)
            column = np.repeat(np.arange(mean.size), stored)
            sums = np.bincount(column, weights=entries * entries, minlength=mean.size)
            return mean, np.sqrt((sums + (n - stored) * mean * mean) / n)
        squares = np.zeros(mean.size)
        for part in row_blocks(*operator.shape):
            require_time()
            block = operator.rows(np.arange(part.start, part.stop)) - mean
            squares += np.einsum("ij,ij->j", block, block)
    return mean, np.sqrt(squares / n)


def sample(codes: np.ndarray, size: int) -> np.ndarray:
    """Rows of all classes in their proportions, at least one of each, in the order of the data."""
    rng, n = np.random.default_rng(0), codes.size
    short = codes.astype(np.uint16) if codes.max() < 2**16 else codes  # which sort faster
    by_class = np.split(np.argsort(short, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    parts = []
    for rows in by_class:
        share = min(rows.size, max(1, round(size * rows.size / n)))
        parts.append(rng.choice(rows, share, replace=False))
    return np.sort(np.concatenate(parts))
