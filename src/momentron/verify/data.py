"""The data that a proof is for: their canonical form, and their rows in whole numbers.

A float is an integer times a power of two, and the shortest decimal that prints as it an integer
times a power of ten: with either reading every row of X is a row of integers over one denominator.
X is read some rows at a time and never copied as a whole; zeros cost nothing where X is sparse.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.data.exactness import as_exact, as_host, is_tensor, shortest_decimals
from momentron.errors import InputError, short

BLOCK_ENTRIES = 1 << 19  # 4 MB of float64
BLOCK_ROWS = 1 << 12  # of a sparse X, where some are read
MANTISSA = 53  # bits of a float64

WholeRow = tuple[list[int], list[int]]  # (places, whole numbers in units of 1/scale)


def label_texts(y: Any) -> list[str]:
    """The labels as text: 3, 3.0 and "3" are the same, and no others are."""
    if is_tensor(y):
        y = as_host(y)
    # a list goes to objects: numpy would round large integers beside a float, and cut "a\\0" to "a"
    array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    values = array.ravel().tolist()
    if array.dtype.kind not in "biuU":  # where equal values may have different texts
        return [_label_text(v) for v in values]
    texts = {v: _label_text(v) for v in set(values)}
    return [texts[v] for v in values]


def _label_text(label: Any) -> str:
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    elif isinstance(label, np.float32 | np.float16):
        label = float(label)  # as an array of them reads
    try:
        text = str(label)
    except Exception:  # an integer beyond Python's limit of digits, or a class of the user's
        raise InputError(f"y has a label that has no text: {short(label)}; rename it") from None
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"y has the label {text!r}, a lone surrogate; rename it") from None
    return text


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a frame or table; None where X is not one."""
    if hasattr(X, "itercolumns"):  # pyarrow
        return [str(name) for name in X.column_names]
    if hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns")):
        return [column_name(name) for name in X.columns]  # pandas, polars
    return None


def column_name(name: Any) -> str:
    """The name of a column as text; its parts are joined where it has several."""
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def own_order(y: Any) -> list[str] | None:
    """The labels from lowest to highest, if they have an order; None of other text.

    An ordered pandas categorical has its own; numbers are ordered by value, False is below True.
    """
    given = getattr(y, "cat", y)
    if getattr(given, "ordered", False):
        return label_texts(given.categories)
    labels = sorted(set(label_texts(y)))
    if set(labels) <= {"False", "True"}:
        return labels
    try:
        return sorted(labels, key=float)
    except ValueError:
        return None


def zero_weight_rows(sample_weight: Any, n: int) -> list[int]:
    """The rows of weight 0, which count as if they were not there; the others count alike."""
    if sample_weight is None:
        return []
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("sample_weight must hold one number ≥ 0 per row") from None
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}; X has {n} rows")
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise InputError(
            "sample_weight has a negative, infinite or missing weight; all must be ≥ 0"
        )
    if not weights.any():
        raise InputError("sample_weight is 0 on every row; at least one row must count")
    return [int(i) for i in np.flatnonzero(weights == 0.0)]


def ungrouped(y: Any, sample_weight: Any) -> tuple[np.ndarray, Any, Any] | None:
    """(rows, labels, weights): a row for each outcome that was seen; None unless y has counts.

    y of shape (n, k) has counts of k outcomes per row: of two, successes (label 1) and failures
    (label 0), as in R's cbind; of more, the columns are the classes, by name where they have any.
    """
    try:
        shape = np.shape(y)
    except ValueError:
        raise InputError("y has rows of different lengths; pass one label or count each") from None
    if len(shape) != 2 or shape[1] < 2:
        return None
    try:
        counts = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("y of several columns must hold counts, one column per outcome") from None
    if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
        raise InputError("y has a negative, infinite or missing count; all must be ≥ 0")
    rows, columns = np.nonzero(counts)
    k = counts.shape[1]
    named = [str(name) for name in y.columns] if hasattr(y, "columns") else range(k)
    labels = np.array([1, 0] if k == 2 else named)
    if sample_weight is None:
        return rows, labels[columns], None
    weights = np.asarray(sample_weight)
    if weights.shape != counts.shape[:1]:
        raise InputError(f"sample_weight has shape {weights.shape}; y has {len(counts)} rows")
    return rows, labels[columns], weights[rows]


class Data:
    """X and the labels of its rows.

    Columns that are zero in every row can be left out of all arithmetic, so rows are given by
    *places*: place p stands for the column `used[p]`, and the last place, `used.size`, for the
    intercept.

    Parameters
    ----------
    X : ndarray or csr matrix of shape (n, d), float32 or float64
    labels : list of str
    decimals : {"binary", "shortest"}
        What a float of X stands for: its own value, or the shortest decimal that prints as it.
    left_out : list of int
        Rows that count as if they were not there, in increasing order.

    Attributes
    ----------
    n, d : int
    lengths : ndarray of shape (n,)
        How many entries of each row are not zero.
    used : ndarray
        The columns that hold anything but zeros, in order; the first where there are none.
    scale : int
        Every entry of X is a whole number over it: a power of two, or of ten.
    bits : int
        Of the longest of these whole numbers, at most.
    """

    def __init__(
        self,
        X: Any,
        labels: list[str],
        *,
        decimals: str = "binary",
        left_out: Sequence[int] = (),
    ) -> None:
        if X.ndim != 2:
            raise InputError(f"X has {X.ndim} dimensions; it must be a matrix")
        self.X, self.labels, self.decimals = X, labels, decimals
        self.n, self.d = (int(size) for size in X.shape)
        if self.n != len(labels):
            raise InputError(f"X has {self.n} rows but y has {len(labels)} labels; they must agree")
        self.is_sparse = hasattr(X, "tocsr")
        self.left_out = list(left_out)
        self._digest: str | None = None
        self._survey()

    @classmethod
    def read(
        cls, X: Any, y: Any, *, decimals: str = "binary", left_out: Sequence[int] = ()
    ) -> "Data":
        """X and y as users pass them; refused unless float64 holds every entry exactly."""
        X = as_exact(X, decimals)
        X = X.tocsr() if hasattr(X, "tocsr") else X
        return cls(X, label_texts(y), decimals=decimals, left_out=left_out)

    @cached_property
    def kept_labels(self) -> list[str]:
        """The labels of the rows that are not left out."""
        gone = set(self.left_out)
        return [label for i, label in enumerate(self.labels) if i not in gone]

    def _survey(self) -> None:
        """One pass: finiteness, row lengths, columns in use, the range of exponents."""
        self.lengths = np.zeros(self.n, np.int64)
        used = np.zeros(0 if self.is_sparse else self.d, bool)
        found = [np.zeros(0, np.int64)]
        low, high = 0, 0
        for first, last, rows, columns, values in self.blocks():
            if not np.isfinite(values).all():
                raise InputError("X contains NaN or infinity; every entry must be finite")
            self.lengths[first:last] = np.bincount(rows, minlength=last - first)
            if self.is_sparse:  # may have far more columns than entries
                found.append(np.unique(columns))
            else:
                used[columns] = True
            low = int(self._parts(values)[1].min(initial=low))
            high = int(np.frexp(values)[1].max(initial=high))
        self.used = np.unique(np.concatenate([*found, np.flatnonzero(used)]))
        if self.used.size == 0 < self.d:
            self.used = np.zeros(1, np.int64)
        self._unit = low
        self.scale = self._base**-low
        self.bits = max(1, high + self.scale.bit_length())

    @property
    def _base(self) -> int:
        return 2 if self.decimals == "binary" else 10

    def _parts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, e): integers with m·2^e the values, or m·10^e their shortest decimals."""
        if self.decimals == "shortest":
            return shortest_decimals(values)
        # value = mantissa · 2^exponent, and mantissa · 2^53 is whole
        mantissas, exponents = np.frexp(values)
        integers = (mantissas * 2.0**MANTISSA).astype(np.int64)
        return integers, exponents.astype(np.int64) - MANTISSA

    def residues(self, values: np.ndarray, prime: int) -> np.ndarray:
        """Entries of X as whole numbers in units of 1/scale, modulo a prime below 2^32."""
        integers, exponents = self._parts(values)
        if not values.size:
            return integers
        above = np.maximum(exponents - self._unit, 0)  # a zero has any exponent
        powers = [pow(self._base, e, prime) for e in range(int(above.max()) + 1)]
        factors = np.array(powers, np.int64)[above]
        return (integers % prime) * factors % prime

    @property
    def n_entries(self) -> int:
        """How many entries of X are not zero."""
        return int(self.lengths.sum())

    def blocks(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]:
        """All rows, some at a time: see `_block`."""
        if self.is_sparse:
            ends = np.searchsorted(self.X.indptr, np.arange(0, self.X.indptr[-1], BLOCK_ENTRIES))
            starts = np.unique(np.r_[0, ends, np.arange(0, self.n, BLOCK_ENTRIES)])
            starts = starts[starts < self.n]
        else:
            starts = np.arange(0, self.n, max(1, BLOCK_ENTRIES // max(1, self.d)))
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), self.n], strict=True):
            yield first, last, *self._block(first, last)

    def _block(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows less `first`, columns, values) of the entries that are not zero, row by row."""
        require_time()
        if not self.is_sparse:
            block = np.asarray(self.X[first:last], np.float64)
            rows, columns = np.nonzero(block)
            return rows, columns, block[rows, columns]
        ends = self.X.indptr[first : last + 1]
        values = self.X.data[ends[0] : ends[-1]]
        keep = values != 0
        rows = np.repeat(np.arange(last - first), np.diff(ends))[keep]
        columns = self.X.indices[ends[0] : ends[-1]][keep].astype(np.int64)
        return rows, columns, np.asarray(values[keep], np.float64)

    def digest(self) -> str:
        """SHA-256 of the canonical form (docs/proof-format.md), which leaves zeros out."""
        if self._digest is None:
            head = f"momentron-data 3\n{self.n} {self.d}\n{self.decimals}\n"
            form = hashlib.sha256(head.encode())
            for part in self._canonical():
                form.update(part.data)
            for text in self.labels:
                form.update(f"{len(text.encode())}:{text}\n".encode())
            self._digest = form.hexdigest()
        return self._digest

    def _canonical(self) -> Iterator[np.ndarray]:
        """Row lengths, then columns, then values, all little-endian."""
        yield self.lengths.astype("<u8")
        for _, _, _, columns, _ in self.blocks():
            yield columns.astype("<u8")
        for _, _, _, _, values in self.blocks():
            yield np.ascontiguousarray(values, "<f8")

    def rows(self, fit_intercept: bool) -> Iterator[WholeRow]:
        """Every row in whole numbers, with a last 1 if there is an intercept."""
        for first, last, _, columns, values in self.blocks():
            yield from self._whole(self.lengths[first:last], columns, values, fit_intercept)

    def whole_parts(self) -> Iterator[tuple[Any, ...]]:
        """(first, last, rows less first, places, integers, (factors, which)) block by block.

        Each entry is integer · factors[which], in units of 1/scale.
        """
        for first, last, rows, columns, values in self.blocks():
            places = columns if self.used.size == self.d else np.searchsorted(self.used, columns)
            integers, exponents = self._parts(values)
            low = int(exponents.min(initial=0))
            high = int(exponents.max(initial=low))
            factors = [self._base ** (e - self._unit) for e in range(low, high + 1)]
            yield first, last, rows, places, integers, (factors, exponents - low)

    def weighted_sum(self, weights: np.ndarray) -> list[int]:
        """Σ weight · x over all rows, by place, in units of 1/scale; whole weights below 2^62.

        Products of two 16-bit digits are below 2^32, and a block has at most 2^19 rows: floats add
        them up without a rounding.
        """
        total = [0] * self.used.size
        limbs = _digits(weights)
        for first, last, rows, places, integers, (factors, which) in self.whole_parts():
            require_time()
            keys = places * len(factors) + which
            parts = [(m, limb[first:last]) for m, limb in limbs if limb[first:last].any()]
            for at, digits in _digits(integers):
                for m, part in parts:
                    sums = np.bincount(keys, digits * part[rows])
                    for key in np.flatnonzero(sums).tolist():
                        place, power = divmod(key, len(factors))
                        total[place] += (int(sums[key]) << (16 * (m + at))) * factors[power]
        return total

    def rows_with(self, places: list[int]) -> list[int]:
        """The rows with an entry at one of these places."""
        wanted = np.zeros(self.d, bool)
        wanted[self.used[places]] = True
        found = [first + rows[wanted[columns]] for first, _, rows, columns, _ in self.blocks()]
        return [int(i) for i in np.unique(np.concatenate(found))] if found else []

    def row(self, i: int, fit_intercept: bool) -> WholeRow:
        """Row i, as `rows` gives it."""
        _, columns, values = self._block(i, i + 1)
        return next(self._whole(self.lengths[i : i + 1], columns, values, fit_intercept))

    def some_rows(self, indices: list[int], fit_intercept: bool) -> Iterator[WholeRow]:
        """These rows, as `rows` gives them, many at a time."""
        step = max(1, BLOCK_ENTRIES // max(1, self.d))
        if self.is_sparse:
            step = BLOCK_ROWS
        for start in range(0, len(indices), step):
            require_time()
            chosen = np.array(indices[start : start + step], np.int64)
            if self.is_sparse:
                counts = self.X.indptr[chosen + 1] - self.X.indptr[chosen]
                ends = np.cumsum(counts)
                first = np.repeat(self.X.indptr[chosen] - (ends - counts), counts)
                at = first + np.arange(first.size)
                at = at[self.X.data[at] != 0]
                columns, values = self.X.indices[at].astype(np.int64), self.X.data[at]
            else:
                block = np.asarray(self.X[chosen], np.float64)
                rows, columns = np.nonzero(block)
                values = block[rows, columns]
            values = np.asarray(values, np.float64)
            yield from self._whole(self.lengths[chosen], columns, values, fit_intercept)

    def _whole(
        self, lengths: np.ndarray, columns: np.ndarray, values: np.ndarray, fit_intercept: bool
    ) -> Iterator[WholeRow]:
        if self.used.size < self.d:
            columns = np.searchsorted(self.used, columns)
        integers, exponents = self._parts(values)
        factors = _powers(self._base, exponents - self._unit)
        whole = list(map(int.__mul__, integers.tolist(), factors))
        places = columns.tolist()
        last_place = [self.used.size] if fit_intercept else []
        one = [self.scale] if fit_intercept else []
        start = 0
        for length in lengths.tolist():
            require_time()
            stop = start + length
            yield places[start:stop] + last_place, whole[start:stop] + one
            start = stop


def _digits(values: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(m, digits of 2^16m with the signs of the values, as floats), where not all are zero."""
    sizes, signs = np.abs(values), np.sign(values)
    found = [(m, ((sizes >> (16 * m) & 0xFFFF) * signs).astype(np.float64)) for m in range(4)]
    return [(m, digits) for m, digits in found if digits.any()]


def _powers(base: int, exponents: np.ndarray) -> list[int]:
    """base^e for each e ≥ 0, each different one computed once."""
    different, places = np.unique(exponents, return_inverse=True)
    found = [base**e for e in different.tolist()]
    return [found[place] for place in places.ravel().tolist()]
