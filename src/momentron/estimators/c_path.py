"""`margin_path`: soft margins along a path of C, each with its own certificate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.api import fit_path, plan_fit
from momentron.certificate.picture import card
from momentron.errors import InputError
from momentron.estimators import KernelMaxMarginClassifier, MaxMarginClassifier
from momentron.fitting.options import FitOptions, as_grid
from momentron.result import MarginResult
from momentron.status import Status
from momentron.views.display import PathDisplay
from momentron.views.markup import rows_table
from momentron.views.trace import Table


@dataclass(frozen=True)
class PathRow:
    """One fit of a path: a row of a `MarginPath`, which describes its columns."""

    C: float
    label: Any
    lower: float
    upper: float
    gap: float
    margin: float
    support: int
    error: float
    seconds: float
    status: Status


class MarginPath(Table[PathRow], noun="path", rows=PathRow):
    """What `margin_path` returns: `path["C"]` is a column, `path[-1]` a row; `plot` draws it.

    One row per C, in increasing order; if every class is fitted against the rest, one row per C
    and class. The columns are C, label (the class that is fitted against the rest, or None),
    lower, upper and gap (the certified interval), margin (a lower bound for this classifier),
    support (number of rows with a dual weight), error (on held-out rows, or NaN; of all classes
    together), seconds, status.

    Attributes
    ----------
    results : dict of float to MarginResult, or to a list of them with one per class
        The result for each C.
    errors : dict of float to float
        The error for each C on held-out rows, if there are any.
    classes : ndarray of shape (k,)
    """

    def __init__(
        self,
        results: dict[float, MarginResult | list[MarginResult]],
        classes: np.ndarray,
        errors: dict[float, float] | None = None,
    ) -> None:
        self.results, self.classes, self.errors = results, classes, errors or {}
        super().__init__()
        for C, found in results.items():
            each = found if isinstance(found, list) else [found]
            labels = classes.tolist() if len(each) > 1 else [None]
            error = self.errors.get(C, float("nan"))
            for label, result in zip(labels, each, strict=True):
                interval = result.lower, result.upper, result.gap, result.margin
                row = C, label, *interval, result.support.size, error
                self.append(PathRow(*row, result.seconds, result.status))

    @property
    def best_C(self) -> float:
        """The C with the fewest errors on the held-out rows; with ties, the smallest."""
        if not self.errors:
            raise InputError("best_C needs held-out rows; pass X_test and y_test to margin_path")
        return min(self.errors, key=lambda C: self.errors[C])

    def plot(self, ax: Any = None, **options: Any) -> PathDisplay:
        """Intervals, and errors where they are known, against C; needs the extra `plot`."""
        errors = {"held-out error": self.errors} if self.errors else None
        names = [str(label) for label in self.classes]
        return PathDisplay(self.results, errors, names=names).plot(ax=ax, **options)

    to_frame = Table.to_pandas

    def __repr__(self) -> str:
        Cs = list(self.results)
        return (
            f"MarginPath: {len(Cs)} values of C from {Cs[0]:g} to {Cs[-1]:g}, largest certified "
            f"gap {max(row.gap for row in self):.1e}"
        )

    def _repr_html_(self) -> str:
        names = ("C", "label", "lower", "upper", "gap", "support", "error")
        rows = [[getattr(row, name) for name in names] for row in self]
        first = self._rows[0]
        return card("MarginPath", repr(self), first.lower, first.upper, rows_table(names, rows))


def margin_path(
    X: Any,
    y: Any,
    *,
    Cs: Any = 10,
    X_test: Any = None,
    y_test: Any = None,
    sample_weight: Any = None,
    multi_class: str = "joint",
    **options: Any,
) -> MarginPath:
    """Certified soft margins for many values of C, each fit started from the last.

    Rows are read and measured once, and kernel values kept where `cache_size` has room for them.

    Parameters
    ----------
    X, y, sample_weight
        As in `max_margin`, in memory.
    Cs : sequence of float, or int
        Solved in increasing order, whatever the order given; an integer n means n values log-spaced
        from 1e-4 to 1e4. `inf` is the hard margin.
    X_test, y_test : optional
        Held-out rows, on which the path counts the errors.
    multi_class : {"joint", "ovr"}
        As in `MaxMarginClassifier`.
    **options
        Passed to `max_margin`: `penalty`, `kernel`, `tol`, `fit_intercept`, `class_weight` and all
        others except C, initial and the options of blocks. `max_time` is for the whole path.

    Returns
    -------
    MarginPath

    Examples
    --------
    >>> from momentron import margin_path
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = margin_path(X, y == 1, Cs=[0.1, 1.0, 10.0])
    >>> bool((path["gap"] <= 1e-6).all())
    True
    """
    if (X_test is None) != (y_test is None):
        raise InputError("X_test and y_test go together; one of them is missing")
    refused = {"C", "initial", "block_size", "checkpoint"} & set(options)
    if refused:
        raise InputError(f"margin_path takes no {min(refused)}; leave it out")
    asked, grid = FitOptions.from_arguments(**options), as_grid(Cs)
    is_kernel = asked.kernel is not None
    kind = KernelMaxMarginClassifier if is_kernel else MaxMarginClassifier
    named = {"kernel": options["kernel"]} if is_kernel else {}
    model = kind(multi_class=multi_class, **named)
    plan = plan_fit(X, y, asked, sample_weight=sample_weight, needs_rows="margin_path")
    results: dict[float, Any] = {}
    errors = {}
    along = fit_path(plan, asked, grid, is_split=model._is_split)
    for C, found in zip(grid, along, strict=True):
        results[C] = found.results[0] if len(found.results) == 1 else found.results
        if X_test is not None:
            model._take(plan.data, found)
            errors[C] = 1.0 - float(model.score(X_test, y_test))
    return MarginPath(results, found.classes, errors)
