"""What pictures show, computed: signed distances, and rows seen in two dimensions. No drawing."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from momentron.errors import InputError, short

if TYPE_CHECKING:
    from momentron.result import MarginResult
    from momentron.separability.verdict import Verdict

SAMPLE = 500  # rows that are enough to find the directions in which they vary most
ROUNDING = 1e-7  # of the largest variation: below it a direction is noise
MARGIN_SIZE = 0.08  # of a picture, around its points

Decision = Callable[[Any], np.ndarray]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A classifier as pictures see it, whoever made it."""

    decide: Decision | None  # rows → signed distances, or outputs; None where nothing separates
    classes: np.ndarray
    lower: float  # the certified interval on the best margin
    upper: float
    marked: np.ndarray  # rows to be marked, and what they are
    marked_name: str = "support vectors"
    weights: np.ndarray | None = None  # of rows in conflict: both classes have the same average
    direction: np.ndarray | None = None  # the normal of a linear classifier of two classes
    is_distance: bool = True  # whether decision values are not scaled by a soft margin

    @classmethod
    def from_estimator(cls, estimator: Any) -> "Fitted":
        """A fitted classifier of ours, or a pipeline that ends in one."""
        last = last_step(estimator, "result_")
        coef: Any = getattr(last, "coef_", ())
        results = last.result_ if isinstance(last.result_, list) else [last.result_]
        # fitted against the rest, each class has its own interval
        first, is_split = results[0], len(results) > 1
        return cls(
            estimator.decision_function,
            np.asarray(last.classes_),
            0.0 if is_split else first.lower,
            np.inf if is_split else first.upper,
            np.asarray(last.support_),
            direction=coef[0] if len(coef) == 1 and last is estimator else None,
            is_distance=all(result.is_fallback or not result.is_soft for result in results),
        )

    @classmethod
    def from_result(cls, result: "MarginResult", X: Any) -> "Fitted":
        """A linear result, or one of a kernel whose matrix X is."""
        coef, width = result.coef, as_rows(X).shape[1]
        if coef.shape[-1] != width:
            raise InputError(
                f"the result has {coef.shape[-1]} weights and X has {width} columns; pass the X "
                "of the fit, or for a kernel use from_estimator with KernelMaxMarginClassifier"
            )
        return cls(
            _linear(coef, result.intercept),
            np.asarray(result.classes),
            result.lower,
            result.upper,
            np.asarray(result.support),
            direction=coef if coef.ndim == 1 else None,
            is_distance=bool(abs(float(np.linalg.norm(coef)) - 1.0) < 1e-6),
        )

    @classmethod
    def from_verdict(cls, verdict: "Verdict") -> "Fitted":
        """The hyperplane of a proof; where there is none, the rows that rule it out."""
        classes, marked_name = np.array(verdict.classes), "rows on the boundary"
        verdict = verdict.as_proof  # the rows that are drawn are those of the proof
        ends = verdict.lower, verdict.upper
        if verdict.kind not in ("separable", "quasi-separable") or not verdict.coef.any():
            rows = np.array([entry.row for entry in verdict.conflict], np.int64)
            weights = np.array([entry.weight for entry in verdict.conflict])
            shared = weights if classes.size == 2 and rows.size else None
            return cls(None, classes, *ends, rows, "rows in conflict", shared)
        coef, intercept = verdict.coef, verdict.intercept
        if len(coef) == 1:
            coef, intercept = coef[0], intercept[0]
        else:  # of least length among all that decide alike; the first class has weights 0
            coef = np.vstack([np.zeros(coef.shape[1]), coef])
            intercept = np.append(0.0, intercept)
            coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
        norm = float(np.linalg.norm(coef))
        coef, intercept = coef / norm, intercept / norm
        marked = verdict.boundary_rows
        if verdict.is_separable:
            marked = np.unique([i for group in verdict.proof["dual"] for i in group["rows"]])
            marked_name = "support vectors"
        direction = coef if coef.ndim == 1 else None
        decide = _linear(coef, intercept)
        return cls(decide, classes, *ends, marked, marked_name, direction=direction)

    def codes(self, y: Any) -> np.ndarray:
        """The positions of labels among the classes."""
        labels, known = np.asarray(y).tolist(), self.classes.tolist()
        if self.classes.dtype.kind in "US":
            labels = [str(label) for label in labels]
        places = {label: place for place, label in enumerate(known)}
        try:
            return np.array([places[label] for label in labels])
        except KeyError as error:
            unknown = short(error.args[0])
            raise InputError(f"y has label {unknown}; the classes are {known}") from None


def _linear(coef: np.ndarray, intercept: Any) -> Decision:
    return lambda X: np.asarray(as_rows(X) @ coef.T) + intercept


def last_step(estimator: Any, attribute: str) -> Any:
    """A fitted classifier of ours, possibly the last step of a pipeline."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if not hasattr(last, attribute):
        raise InputError(
            f"{type(last).__name__} has no {attribute}; fit a MaxMarginClassifier or a "
            "KernelMaxMarginClassifier, or a pipeline that ends in one"
        )
    return last


def as_rows(X: Any) -> Any:
    """X as an array or a sparse matrix with rows."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InputError(f"X has shape {rows.shape}; give one row per example")
    return rows


class ClassifierDisplay:
    """What the pictures of a classifier share: the three ways to make one."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw a fitted classifier on these data.

        Parameters
        ----------
        estimator : MaxMarginClassifier, KernelMaxMarginClassifier, or a pipeline ending in one
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        ax : matplotlib Axes, optional
            New ones by default.
        **options
            Passed to `plot`, or named by the class.
        """
        return cls._drawn(Fitted.from_estimator(estimator), X, y, ax, options)

    @classmethod
    def from_result(
        cls, result: "MarginResult", X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw what `max_margin` returned for these data; see `from_estimator`."""
        return cls._drawn(Fitted.from_result(result, X), X, y, ax, options)

    @classmethod
    def from_verdict(
        cls, verdict: "Verdict", X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the hyperplane of a proof, or the rows in conflict where there is none."""
        return cls._drawn(Fitted.from_verdict(verdict), X, y, ax, options)

    @classmethod
    def _drawn(cls, fitted: Fitted, X: Any, y: Any, ax: Any, options: dict[str, Any]) -> Self:
        known = inspect.signature(cls).parameters
        own = {name: options.pop(name) for name in list(options) if name in known}
        kind: Any = cls  # whose constructor and `plot` have options of their own
        return cast(Self, kind(fitted, X, y, **own).plot(ax=ax, **options))


def signed_distances(decision: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """How far each row is on its own side: y f(x), or its output less the best wrong one."""
    if decision.ndim == 1:
        return np.where(codes == 1, decision, -decision)
    rows = np.arange(codes.size)
    others = decision.copy()
    others[rows, codes] = -np.inf
    return decision[rows, codes] - others.max(axis=1)


@dataclass(frozen=True, eq=False)
class View:
    """Rows in two dimensions, and the classifier there."""

    points: np.ndarray  # shape (n, 2)
    names: tuple[str, str]  # what the two axes are
    decide: Decision | None  # points of the picture → decision values
    note: str = ""  # what the picture leaves out

    def grid(self, resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(x, y, decision values on the grid): of shapes (r,), (r,) and (r, r) or (r, r, k)."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        pad = MARGIN_SIZE * np.where(high > low, high - low, 1.0)
        x, y = (np.linspace(a, b, resolution) for a, b in zip(low - pad, high + pad, strict=True))
        if self.decide is None:
            return x, y, None
        columns, rows = np.meshgrid(x, y)
        values = np.asarray(self.decide(np.column_stack([columns.ravel(), rows.ravel()])))
        return x, y, values.reshape(resolution, resolution, *values.shape[1:])


def view_of(
    fitted: Fitted,
    X: Any,
    *,
    features: Sequence[int | str] | None = None,
    names: Sequence[str] | None = None,
) -> View:
    """The view that fits: the features themselves where there are two or two are chosen.

    Otherwise a projection in which the boundary and the margin are exact: two classes by their
    signed distance, against the direction in which rows vary most along the boundary; many classes
    by the two principal directions of the outputs.
    """
    if names is None and hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
    rows = as_rows(X)
    if features is not None or rows.shape[1] == 2:
        return _slice(fitted, X, rows, _positions(features or (0, 1), rows.shape[1], names), names)
    if fitted.decide is None:
        axes = ("first principal component", "second principal component")
        return View(principal(rows, 2), axes, None, "all features, seen from their widest side")
    decision = np.asarray(fitted.decide(X))
    return _along_distance(fitted, rows, decision) if decision.ndim == 1 else _outputs(decision)


def _positions(
    features: Sequence[int | str], width: int, names: Sequence[str] | None
) -> tuple[int, int]:
    if len(features) != 2:
        raise InputError(f"features has length {len(features)}; a picture has 2 dimensions")
    places: dict[int | str, int] = {name: place for place, name in enumerate(names or ())}
    places |= {place: place for place in range(width)}
    try:
        return places[features[0]], places[features[1]]
    except KeyError as error:
        known = "" if names is None else f" and the names {list(names)}"
        raise InputError(
            f"X has no feature {short(error.args[0])}; it has features 0 to {width - 1}{known}"
        ) from None


def _dense(part: Any) -> np.ndarray:
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, np.float64)


def _slice(
    fitted: Fitted, X: Any, rows: Any, pair: tuple[int, int], names: Sequence[str] | None
) -> View:
    """Two features as they are, with the others held at their means."""
    first, second = (str(names[j]) if names is not None else f"feature {j}" for j in pair)
    points, on_slice = _dense(rows[:, pair]), fitted.decide
    if on_slice is None:
        return View(points, (first, second), None)
    means = np.asarray(rows.mean(axis=0), np.float64).ravel()
    columns = getattr(X, "columns", None)

    def decide(points: np.ndarray) -> np.ndarray:
        full = np.tile(means, (len(points), 1))
        full[:, pair] = points
        # an estimator may know its features by name
        return np.asarray(on_slice(full if columns is None else type(X)(full, columns=columns)))

    note = "" if rows.shape[1] == 2 else "boundary where the other features are at their means"
    return View(points, (first, second), decide, note)


def _along_distance(fitted: Fitted, rows: Any, decision: np.ndarray) -> View:
    """The signed distance against the direction of most variation along the boundary."""
    first = "signed distance to the boundary" if fitted.is_distance else "decision value"
    second = "largest variation along the boundary"
    if fitted.direction is None:
        second = "first principal component of X"
    across = principal(rows, 1, without=fitted.direction)
    return View(np.column_stack([decision, across]), (first, second), lambda p: p[:, 0])


def _outputs(decision: np.ndarray) -> View:
    """The plane of the two principal directions of the outputs."""
    from sklearn.decomposition import PCA

    plane = PCA(2).fit(decision[:SAMPLE])
    points, (first, second) = plane.transform(decision), plane.singular_values_
    if second <= ROUNDING * first:
        points[:, 1] = 0.0  # the outputs lie on a line
    share = float(plane.explained_variance_ratio_.sum())
    names = ("first direction of the outputs", "second direction of the outputs")
    note = "" if share > 1.0 - 1e-9 else f"{share:.0%} of the outputs' variation is in this plane"
    return View(points, names, plane.inverse_transform, note)


def principal(rows: Any, count: int, *, without: np.ndarray | None = None) -> np.ndarray:
    """Coordinates of rows along their principal directions, orthogonal to one that is left out.

    From the inner products of a sample of the rows, so that sparse rows stay sparse.
    """
    n, d = rows.shape
    kept = rows[np.linspace(0, n - 1, min(n, SAMPLE)).astype(int)]
    unit = np.zeros(d) if without is None else without / max(np.linalg.norm(without), 1e-300)
    along = np.asarray(kept @ unit, np.float64)
    products = _dense(kept @ kept.T) - np.outer(along, along)
    centring = np.eye(len(along)) - 1.0 / len(along)
    weights = centring @ np.linalg.eigh(centring @ products @ centring)[1][:, ::-1][:, :count]
    directions = np.asarray(kept.T @ weights, np.float64) - np.outer(unit, along @ weights)
    found = np.zeros((n, count))
    for j, direction in enumerate(directions.T):
        length = float(np.linalg.norm(direction))
        if length > ROUNDING * np.sqrt(np.trace(products)):
            direction = direction * np.sign(direction[np.abs(direction).argmax()]) / length
            found[:, j] = np.asarray(rows @ direction, np.float64)
    return found - found.mean(axis=0)
