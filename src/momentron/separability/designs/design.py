"""A design: the rows and labels of a regression, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentron.errors import InputError, counted, short
from momentron.separability.designs.given_rows import GivenRows, take_rows, whole_frequencies
from momentron.verify.outcomes import ungrouped


@dataclass(frozen=True, eq=False)
class Design:
    """What a verdict is asked of, whatever it was made from.

    Attributes
    ----------
    X : array, sparse matrix or data frame of numbers, shape (n, d)
        Without the intercept.
    y : array of shape (n,)
    sample_weight : array of shape (n,) or None
    fit_intercept : bool or None
        Whether the model has an intercept; None where its source does not say.
    family, link : str or None
        Of a model that was given as such; None where the source does not say.
    reference : label or None
        Likewise, the class with which the model contrasts the others.
    feature_names : list of str or None
    index : pandas index, list or None
        What the rows that were passed are called: the index of a frame.
    frequencies : array of shape (n,) or None
        How often each row was observed, where its source knows that apart from `sample_weight`.
    given : GivenRows or None
        How these rows were made from those that were passed; None before `ungrouped`.
    notes : tuple of str
        What a reader of the verdict should know about its source.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    fit_intercept: bool | None = None
    family: str | None = None
    link: str | None = None
    reference: Any = None
    feature_names: list[str] | None = None
    index: Any = None
    frequencies: Any = None
    given: GivenRows | None = None
    notes: tuple[str, ...] = ()

    def modelled(
        self, family: str | None, link: str | None, fit_intercept: bool
    ) -> tuple[str | None, str | None, bool]:
        """(family, link, fit_intercept): those asked for, unless the source is a model itself."""
        if self.family is None:
            return family, link, fit_intercept and self.fit_intercept is not False
        for name, asked, own in (("family", family, self.family), ("link", link, self.link)):
            if asked not in (None, own):
                raise InputError(
                    f"{name}={short(asked)}, but the model has {own!r}; leave {name} out"
                )
        if self.fit_intercept and not fit_intercept:
            raise InputError("the model has an intercept; leave fit_intercept out")
        return self.family, self.link, bool(self.fit_intercept)

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
        given = self.given or GivenRows(len(self.y), self.index)
        if given.source is None:
            return given.names
        names = given.names or range(given.n)
        return [names[i] for i in given.source.tolist()]

    def ungrouped(self) -> Design:
        """With one row per outcome that was seen, where y has counts of outcomes per row."""
        if self.given is not None:
            return self
        found = ungrouped(self.y, self.sample_weight)
        often = self.sample_weight if self.frequencies is None else self.frequencies
        often = 1.0 if often is None else often
        n = np.shape(self.y)[0] if np.shape(self.y) else 0
        if found is None:
            counts = whole_frequencies(np.ones(n), often)
            return replace(self, given=GivenRows(n, self.index, frequencies=counts))
        rows, labels, weights = found
        if np.shape(self.X)[0] != n:
            raise InputError(f"X has {np.shape(self.X)[0]} rows but y has {n}; they must agree")
        counts = np.asarray(self.y, np.float64)
        cells = whole_frequencies(counts.T, often)
        given = GivenRows(n, self.index, rows, None if cells is None else cells.T[counts != 0.0])
        return replace(
            self, X=take_rows(self.X, rows), y=labels, sample_weight=weights, given=given
        )
