"""A design: the rows and labels of a regression, with their names, and the rows they are from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from momentron.errors import InputError, counted, short
from momentron.verify.outcomes import ungrouped

LARGEST_SUM = 2**53  # up to which floats add whole numbers without a rounding


@dataclass(frozen=True, eq=False)
class GivenRows:
    """What a row of a design is called by the user, who may have passed a table of counts.

    Attributes
    ----------
    n : int
        How many rows were passed.
    index : pandas index, list or None
        What they are called; None where what was passed has no index.
    source : ndarray or None
        Of each row of the design, the position of the row that was passed; None where they are the
        same rows.
    frequencies : ndarray or None
        How often each row of the design was observed; None where weights or counts are not whole
        numbers, so that they are not frequencies.
    """

    n: int
    index: Any = None
    source: np.ndarray | None = None
    frequencies: np.ndarray | None = None

    @property
    def names(self) -> list[Any] | None:
        """The index, unless it merely counts from 0."""
        names = None if self.index is None else list(self.index)
        return None if names == list(range(self.n)) else names

    def each_of(self, rows: np.ndarray) -> np.ndarray:
        """Of each of some rows of the design, the row that was passed."""
        return rows if self.source is None else self.source[rows]

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The rows that were passed from which some rows of the design were made, in order."""
        return np.unique(self.each_of(rows))

    def counted(self, rows: np.ndarray) -> int:
        """How many observations some rows of the design are; rows, if there are no frequencies."""
        if self.frequencies is None:
            return int(self.of(rows).size)
        return int(self.frequencies[rows].sum())

    def without(self, frame: Any, rows: np.ndarray) -> Any:
        """A copy of a frame or array less some rows; refused unless it has the rows passed."""
        shape = np.shape(frame)
        if shape[:1] != (self.n,):
            has = f"has {counted(shape[0], 'row')}" if shape else "is not a table"
            raise InputError(
                f"the verdict is about {counted(self.n, 'row')} and frame {has}; pass the frame "
                "that was checked, after the same dropna()"
            )
        index = index_of(frame)
        if not (index is None or self.index is None or index.equals(self.index)):
            both = enumerate(zip(self.index, index, strict=True))
            differ = ((i, a, b) for i, (a, b) in both if a != b and (a == a or b == b))
            at, was, now = next(differ)
            raise InputError(
                f"the index of frame differs from the index of the checked data: row {at} is "
                f"{now!r} and was {was!r}; pass the frame that was checked, in its order"
            )
        kept = take_rows(frame, np.setdiff1d(np.arange(self.n), rows))
        return kept.copy() if hasattr(frame, "iloc") else kept


@dataclass(frozen=True, eq=False)
class Design:
    """What a verdict is asked of, whatever it was made from.

    Attributes
    ----------
    X : array, sparse matrix or data frame of numbers, shape (n, d)
        Without the intercept.
    y : array of shape (n,)
    given : GivenRows
        How these rows were made from those that were passed.
    sample_weight : array of shape (n,) or None
    fit_intercept : bool or None
        Whether the model has an intercept; None where its source does not say.
    family, link : str or None
        Of a model that was given as such; None where the source does not say.
    reference : label or None
        Likewise, the class with which the model contrasts the others.
    feature_names : list of str or None
    notes : tuple of str
        What a reader of the verdict should know about its source.
    """

    X: Any
    y: Any
    given: GivenRows
    sample_weight: Any = None
    fit_intercept: bool | None = None
    family: str | None = None
    link: str | None = None
    reference: Any = None
    feature_names: list[str] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        index: Any = None,
        frequencies: Any = None,
        **source: Any,
    ) -> "Design":
        """With one row per outcome that was seen, where y has counts of outcomes per row.

        `index` has the names of the rows that were passed, and `frequencies` says how often each
        was observed, where that is known apart from `sample_weight`.
        """
        found = ungrouped(y, sample_weight)
        often = sample_weight if frequencies is None else frequencies
        often = 1.0 if often is None else often
        n = np.shape(y)[0] if np.shape(y) else 0
        if found is None:
            given = GivenRows(n, index, frequencies=_whole_frequencies(np.ones(n), often))
            return cls(X, y, given, sample_weight, **source)
        rows, labels, weights = found
        if np.shape(X)[0] != n:
            raise InputError(
                f"X has {counted(np.shape(X)[0], 'row')} but y has {n}; they must agree"
            )
        counts = np.asarray(y, np.float64)
        cells = _whole_frequencies(counts.T, often)
        given = GivenRows(n, index, rows, None if cells is None else cells.T[counts != 0.0])
        return cls(take_rows(X, rows), labels, given, weights, **source)

    def modelled(
        self, family: str | None, link: str | None, fit_intercept: bool, reference: Any
    ) -> "Design":
        """With the model that is asked for, unless the source is a model itself."""
        if self.family is not None:
            for name, asked, own in (("family", family, self.family), ("link", link, self.link)):
                if asked not in (None, own):
                    raise InputError(
                        f"{name}={short(asked)}, but the model has {own!r}; leave {name} out"
                    )
            if self.fit_intercept and not fit_intercept:
                raise InputError("the model has an intercept; leave fit_intercept out")
            family, link = self.family, self.link
        return replace(
            self,
            family=family,
            link=link,
            fit_intercept=fit_intercept and self.fit_intercept is not False,
            reference=self.reference if reference is None else reference,
        )

    def named(self, feature_names: Sequence[str] | None) -> list[str] | None:
        """The names of the features: those given, which must be one per column, or its own."""
        if feature_names is None:
            return self.feature_names
        if isinstance(feature_names, str) or not np.iterable(feature_names):
            raise InputError(f"feature_names={short(feature_names)} must be a list of names")
        names = [str(name) for name in feature_names]
        if len(names) != np.shape(self.X)[1]:
            raise InputError(
                f"feature_names has {counted(len(names), 'name')}; X has "
                f"{counted(np.shape(self.X)[1], 'column')}"
            )
        return names

    @property
    def row_names(self) -> list[Any] | None:
        """The index of a data frame, or the row of the grouped data from which each row was made.

        None where rows have no names but their numbers.
        """
        names, source = self.given.names, self.given.source
        if source is None:
            return names
        return [i if names is None else names[i] for i in source.tolist()]


def index_of(X: Any) -> Any:
    """The index of a pandas frame or series; None where X is not one."""
    return getattr(X, "index", None) if hasattr(X, "iloc") else None


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, matrix, array or list, as the same kind of thing."""
    return _safe_indexing(X.tocsr() if hasattr(X, "tocsr") else X, rows)


def _whole_frequencies(counts: np.ndarray, weights: Any) -> np.ndarray | None:
    """The product of counts and weights where it has whole numbers only; else None.

    Weights that cannot be read are refused elsewhere.
    """
    try:
        product = counts * np.asarray(weights, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if not (np.isfinite(product).all() and 0.0 <= product.sum() < LARGEST_SUM):
        return None
    near = np.rint(product)
    # a share of successes times the number of trials misses a whole number by a rounding
    return near.astype(np.int64) if (np.abs(product - near) <= 1e-9 * near).all() else None
