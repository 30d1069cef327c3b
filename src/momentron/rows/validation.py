"""From what users pass to clean arrays: types, finiteness, a safe scale, labels and weights.

Weights have scikit-learn's meaning: the cost of slack in row i is C·s_i, with s_i the product of
its sample weight and class weight. A weight of 2 is the same as the row twice, and a weight of 0
the same as leaving it out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from momentron.arithmetic.environment import standard_arithmetic
from momentron.data.arguments import as_number
from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.tensors import as_host, is_tensor
from momentron.errors import InputError, one_line, short
from momentron.rows import ComputedRows, Operator, as_operator
from momentron.rows.computed import require_shape
from momentron.rows.operator import row_blocks, squared_row_norms

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100  # between them a weight that is not zero must lie
WANTED_WEIGHT = f"0, or a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"

# Entries with a magnitude outside 2^±LIMIT are rescaled, so that squares and quotients are safe.
_EXPONENT_LIMIT = {np.dtype(np.float64): 60, np.dtype(np.float32): 40}


@dataclass(frozen=True)
class TrainingData:
    """Rows and labels behind the door: read, checked and coded once for each fit."""

    X: Any  # an array, CSR or CSC matrix, or ComputedRows, in float32 or float64
    classes: np.ndarray  # the k labels, in sorted order
    codes: np.ndarray  # the place of each row's label among them
    sample_weight: np.ndarray | None = None  # how often each row counts
    weights: np.ndarray | None = None  # factors of C, all positive; None where all are 1
    kept: np.ndarray | None = None  # the numbers of these rows, where others had no weight
    n_given: int | None = None  # of how many rows that were passed

    @classmethod
    @standard_arithmetic()
    def from_arrays(
        cls, X: Any, y: Any, sample_weight: Any = None, *, is_finite: bool = False
    ) -> "TrainingData":
        """What users pass, checked.

        `is_finite` asks for finite entries, as a kernel does; without one the row norms tell, which
        `operator_of` computes anyway.
        """
        if isinstance(X, ComputedRows) and not is_finite:
            require_shape(X)  # they stay computed
        else:
            X = clean_matrix(X) if is_finite else as_matrix(X)
        classes, codes = sorted_labels(clean_targets(y, X.shape[0]))
        require_two_classes(classes.size)
        return cls(X, classes, codes, clean_weights(sample_weight, X.shape[0]))

    @property
    def y(self) -> np.ndarray:
        """The labels of the rows."""
        return self.classes[self.codes]


def operator_of(X: Any) -> Operator:
    """The rows of `TrainingData`, wrapped; their norms show whether they are finite.

    Rows outside the safe range of exponents are divided by a power of two: exact, but for entries
    2^1000 times below the largest.
    """
    squares = squared_row_norms(X)
    largest = float(squares.max(initial=0.0))
    limit = _EXPONENT_LIMIT[X.dtype]
    if 2.0 ** (-2 * limit) < largest < 2.0 ** (2 * limit):
        return as_operator(X, squares)
    _require_finite(X)
    # computed rows, too, are divided as a matrix
    X = (X if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    entries = X.data if sp.issparse(X) else X
    exponent = int(np.frexp(np.abs(entries).max(initial=0.0))[1])
    np.ldexp(entries, -exponent, out=entries)
    operator = as_operator(X)
    operator.exponent = exponent
    return operator


def clean_matrix(X: Any, first: int = 0) -> Any:
    """X checked, as a 2-D float32/float64 array or a CSR matrix, in its own scale.

    Where X is a block of rows, `first` is the number of its first one, for messages.
    """
    X = as_matrix(X)
    _require_finite(X, first)
    return X.tocsr() if sp.issparse(X) else X


def as_matrix(X: Any) -> Any:
    """X as a 2-D float32/float64 array or CSR/CSC matrix that BLAS reads without a copy.

    No value is changed on the way: `momentron.data.exactness` says what is refused.
    """
    is_plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in _EXPONENT_LIMIT
    if not (is_plain and X.shape[0] > 0 and X.shape[1] > 0):  # else there is nothing to convert
        X = as_exact(X)
        if X.ndim != 2:
            raise InputError(
                f"Expected 2D array for X, got dim {X.ndim} (shape={short(X.shape)}). Reshape "
                "your data: X.reshape(-1, 1) is one feature, X.reshape(1, -1) one row"
            )
        for size, word in zip(X.shape, ("sample", "feature"), strict=True):
            if size == 0:
                raise InputError(
                    f"X has 0 {word}(s) (shape={X.shape}) while a minimum of 1 is required; check "
                    "how X was selected"
                )
    if sp.issparse(X):
        return X
    if min(X.strides) < 0 or (X.size and min(X.strides) != X.itemsize):
        X = np.ascontiguousarray(X)  # else each product would copy it again
    return X


def _require_finite(X: Any, first: int = 0) -> None:
    """Raise with the place of the first NaN or infinity, if there is one."""
    found = first_not_finite(X)
    if found is not None:
        i, j, value = found
        kind = "NaN" if np.isnan(value) else "infinity"
        raise InputError(
            f"X contains {kind}: X[{first + i}, {j}] is {value}; every entry must be finite (inf "
            "and NaN are not): drop that row or impute it"
        )


def first_not_finite(X: Any) -> tuple[int, int, Any] | None:
    """(row, column, value) of the first NaN or infinity in a matrix."""
    if sp.issparse(X):
        for place in np.flatnonzero(~np.isfinite(X.data))[:1]:
            coo = X.tocoo()
            return int(coo.row[place]), int(coo.col[place]), X.data[place]
        return None
    for rows in row_blocks(*X.shape):
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(X[rows].sum(dtype=np.float64)):
                continue
        for i, j in np.argwhere(~np.isfinite(X[rows]))[:1].tolist():
            return rows.start + i, j, X[rows][i, j]
    return None


def require_two_classes(n_classes: int) -> None:
    """Raise where there is nothing to separate."""
    if n_classes < 2:
        raise InputError(
            f"y has {n_classes} class; max_margin needs at least 2: pass rows of two or more"
        )


def sorted_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the different labels in order, the place of each label there)."""
    if y.dtype.kind in "biuf" and y.size:  # two numbers need no sorting
        low, high = y.min(), y.max()
        is_high = y == high
        if low != high and (is_high | (y == low)).all():
            return np.array([low, high]), is_high.astype(np.intp)
    try:
        labels, codes = np.unique(y, return_inverse=True)
    except TypeError:
        raise InputError(
            "y mixes labels that have no order, such as text and numbers; pass only strings"
        ) from None
    return labels, codes.ravel()


def _require_distinct(given: Any, y: np.ndarray) -> None:
    """Refuse labels that numpy merges: large integers among floats, or trailing NULs."""
    if hasattr(given, "dtype"):
        return  # an array, a series: its labels have one type already
    found = _plain(given)
    if y.dtype.kind in "US":
        _require_present(found)  # numpy has made text of what is missing
    labels = {label for label in found if not _is_missing(label)}
    kept = len(set(y.tolist()))
    if len(labels) > kept:
        raise InputError(
            f"y has {len(labels)} labels, but only {kept} as a numpy array of "
            f"{y.dtype}; pass them as short strings or small integers"
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or pandas' NA, which is not even equal or different."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def _plain(labels: Any) -> list[Any]:
    """Labels as Python's own numbers and text, whose comparison is exact."""
    values = np.asarray(labels, dtype=object).ravel().tolist()
    return [label.item() if isinstance(label, np.generic) else label for label in values]


def require_unmasked(name: str, values: Any) -> None:
    """Raise if some entries of a masked array are masked: what is behind a mask is not data."""
    if np.ma.is_masked(values):
        raise InputError(f"{name} is a masked array with masked entries; drop those rows")


def clean_targets(y: Any, n_rows: int, *, are_classes: bool = True) -> np.ndarray:
    """y as a 1-D array of labels, one for each row, which need not be classes."""
    if y is None:
        raise InputError(
            "max_margin requires y to be passed, but the target y is None; pass one label for each "
            "row"
        )
    require_unmasked("y", y)
    if not (type(y) is np.ndarray and y.ndim == 1):
        y = as_host(y) if is_tensor(y) else y
        given = y
        try:
            y = column_or_1d(y, warn=True)
        except (TypeError, ValueError) as error:
            raise InputError(f"{one_line(error)}; pass one label for each row") from error
        _require_distinct(given, y)
    if y.dtype.kind == "O":
        # numpy compares its own numbers after rounding: as Python's they stay what they are
        y = np.fromiter(_plain(y), dtype=object)
    if y.size != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {y.size} labels; they must agree")
    if are_classes:
        _require_classes(y)
    return y


def _require_classes(y: np.ndarray) -> None:
    """Refuse what is not a class: complex numbers, NaN, infinities, fractions, None."""
    if y.dtype.kind == "c":
        raise InputError(f"y has complex labels ({y.dtype}); pass strings, integers or booleans")
    if y.dtype.kind == "f":
        for i in np.flatnonzero(~np.isfinite(y))[:1]:
            raise InputError(f"y contains NaN or infinity: y[{i}] is {y[i]}; drop that row")
        for i in np.flatnonzero(y != np.trunc(y))[:1]:
            raise InputError(
                f"Unknown label type: continuous: y[{i}] is {y[i]}; "
                "pass classes as strings, integers or booleans"
            )
    if y.dtype.kind == "O":
        _require_present(y)


def _require_present(labels: Iterable[Any]) -> None:
    for i, label in enumerate(labels):
        if _is_missing(label):
            raise InputError(f"y contains NaN: y[{i}] is {label}; drop that row")


# --- weights --------------------------------------------------------------------------------------


def _in_range(weight: Any) -> Any:
    """Whether numbers may be weights."""
    return (weight == 0.0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))


def clean_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """The rows' own weights in float64, checked; None where there are none."""
    if sample_weight is None:
        return None
    require_unmasked("sample_weight", sample_weight)
    try:
        weights = np.array(sample_weight, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            "sample_weight must be one number for each row; some entries are not numbers"
        ) from error
    if weights.shape != (n_rows,):
        raise InputError(
            f"X has {n_rows} rows but sample_weight has shape {weights.shape}; give one weight for "
            "each row"
        )
    for i in np.flatnonzero(~_in_range(weights))[:1]:
        raise InputError(f"sample_weight[{i}]={float(weights[i])!r} must be {WANTED_WEIGHT}")
    if not weights.any():
        raise InputError("sample_weight is zero for every row; give some rows a positive weight")
    return weights


def require_class_weight(class_weight: Any) -> None:
    """Raise unless it is None, "balanced" or a table of weights by label."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise InputError(
            f"class_weight={short(class_weight)} must be None, 'balanced' or a dict from labels to "
            "weights"
        )
    for label, given in class_weight.items():
        as_number(f"class_weight[{label!r}]", given, WANTED_WEIGHT, _in_range)


def class_factors(class_weight: Any, data: TrainingData) -> np.ndarray | None:
    """The weight of each class; None where all are 1.

    "balanced" gives every class the same total weight: n/(k n_c), where rows count as often as
    their own weights say.
    """
    if class_weight is None:
        return None
    k = data.classes.size
    if isinstance(class_weight, str):
        counts = np.bincount(data.codes, data.sample_weight, minlength=k)
        total, equal = counts.sum(), np.count_nonzero(counts) * counts
        return np.divide(total, equal, out=np.ones(k), where=counts > 0.0)
    labels = data.classes.tolist()
    missing = [label for label in labels if label not in class_weight]
    if missing and k - len(missing) != len(class_weight):
        unknown = [label for label in class_weight if label not in labels]
        raise InputError(
            f"class_weight has the key {short(unknown[0])}, but the labels of y are {short(labels)}"
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def weighed(data: TrainingData, class_weight: Any, *, is_square: bool = False) -> TrainingData:
    """The rows that have a weight, with it; the same data where all weights are 1.

    `is_square` says that X is a matrix of kernel values, whose columns are rows, too.
    """
    factors = class_factors(class_weight, data)
    if data.sample_weight is None and factors is None:
        return data
    weights = np.ones(data.codes.size) if data.sample_weight is None else data.sample_weight
    if factors is not None:
        weights = weights * factors[data.codes]  # neither overflows nor vanishes
        for i in np.flatnonzero(~_in_range(weights))[:1]:
            raise InputError(
                f"row {i} has weight {float(weights[i])!r}, the product of its sample and class "
                f"weights; it must be {WANTED_WEIGHT}"
            )
    kept = np.flatnonzero(weights > 0.0)
    if kept.size < weights.size:
        present = np.unique(data.codes[kept])  # classes without any rows are left out
        if present.size < 2:
            raise InputError(
                f"only {present.size} class has rows with a positive weight; max_margin needs at "
                "least 2"
            )
        X = data.X[kept]
        data = TrainingData(
            X=X[:, kept] if is_square else X,
            classes=data.classes[present],
            codes=np.searchsorted(present, data.codes[kept]),
            sample_weight=None if data.sample_weight is None else data.sample_weight[kept],
            kept=kept,
            n_given=data.codes.size,
        )
        weights = weights[kept]
    return replace(data, weights=None if (weights == 1.0).all() else weights)
