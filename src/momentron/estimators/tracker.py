"""MarginTracker: the certified share of the margin while a model of yours trains."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.data.arguments import as_count, as_flag
from momentron.data.models import as_coef, as_intercept, last_layer, to_last_layer, weights_of
from momentron.errors import InputError, short
from momentron.estimators.classifier_margin import ClassifierMargin, as_optimum, proven_margin
from momentron.result import MarginResult
from momentron.solvers.loop import angle_between
from momentron.solvers.problem import Problem
from momentron.views.display import TrackDisplay
from momentron.views.trace import Table


@dataclass(frozen=True)
class Look:
    """One look at a model."""

    step: float  # as the caller counts them
    margin: float  # the margin of the classifier, as `margin_of` says it, is at least this
    margin_upper: float  # and at most this
    share: float  # of the best margin which any classifier has on the same features, at least
    share_upper: float
    best: float  # this best margin, at least
    best_upper: float
    loss: float  # cross-entropy, the average over the rows, unless the caller named one
    norm: float  # ‖W‖; with two outputs, of the difference of its rows
    angle: float  # to the certified classifier, in degrees


class Looks(Table[Look], noun="table of looks", rows=Look):
    """The looks of a tracker: `looks["share"]` is a column, `looks[-1]` the last one."""

    def __repr__(self) -> str:
        return f"Looks({len(self)} rows; last: {self._rows[-1] if self._rows else None})"


class MarginTracker:
    """Follow a classifier through its training: its margin, and its share of the best margin.

    If the features stay the same, as for a linear model or a last layer on a frozen network, pass
    them as X, and the optimum is solved once. If they change with the network, pass `features`:
    the optimum is then the best margin that *any* last layer could have on the current features.
    It changes from look to look, and each look costs a solve; `optimum_every` makes solves
    rarer. A share of 1 says that the last layer is as good as its features allow, not that the
    features are good. For all layers of a homogeneous network, see `momentron.ntk.KKTTracker`.

    Parameters
    ----------
    X : array or tensor of shape (n, d), or what `features` takes
        The rows on which margins are measured: all that you train on, or a part of them.
    y : array of shape (n,)
        Labels; the outputs of a model are in their sorted order.
    fit_intercept : bool
        Whether the optimum has intercepts: False for a layer without bias.
    features : "penultimate", callable or None
        What the classifier sees of X. "penultimate": the input of the network's last linear layer,
        in evaluation mode and without gradients. A callable is given the model and X. None: X.
    layer : str, optional
        The name of the last layer, if the network ends with something else, such as a softmax.
    optimum : MarginResult, optional
        The optimum for the same rows, if you already have it; only without `features`.
    optimum_every : int
        With `features`, solve at one look in this many, counted in looks, whatever their `step`;
        at the others, share and angle are NaN.
    tol, max_time
        For the solves, as in `max_margin`.

    Attributes
    ----------
    looks : Looks
        One row per look; `to_frame()` converts them to a pandas frame.
    cpu_seconds : float
        Processor time spent in this tracker, solves included.

    Examples
    --------
    >>> X, y = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]], [1, 1, 0, 0]
    >>> tracker = MarginTracker(X, y)
    >>> tracker.look(([0.1, 1.0], -0.4), step=0).share < 1.0
    True
    >>> round(tracker.look(([0.0, 3.0], -1.5), step=1).share, 4)
    1.0
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        fit_intercept: bool = True,
        features: str | Callable[[Any, Any], Any] | None = None,
        layer: str | None = None,
        optimum: MarginResult | None = None,
        optimum_every: int = 1,
        tol: float = 1e-6,
        max_time: float | None = None,
    ) -> None:
        begin = time.process_time()
        is_word = isinstance(features, str) and features == "penultimate"
        if not (features is None or is_word or callable(features)):
            raise InputError(
                f"features={short(features)} must be 'penultimate', a callable or None"
            )
        if features is not None and optimum is not None:
            raise InputError("optimum is for features that stay the same; leave it out")
        if layer is not None and features is None:
            raise InputError(f"layer={short(layer)} needs features; pass those, too")
        self.X, self.y = X, y
        self.fit_intercept = as_flag("fit_intercept", fit_intercept)
        self.features, self.layer = features, layer
        self.optimum_every = as_count("optimum_every", optimum_every)
        self._solving: dict[str, Any] = {"tol": tol, "max_time": max_time}
        self.looks = Looks()
        self._fixed: tuple[Problem, MarginResult | None] | None = None
        if features is None:
            problem = Problem.from_data(X, y, fit_intercept=self.fit_intercept)
            optimum = self._solve(X) if optimum is None else optimum
            as_optimum(optimum, problem)  # refuses one of other rows
            self._fixed = problem, optimum
        self.cpu_seconds = time.process_time() - begin

    def look(self, model: Any, step: float | None = None, *, loss: float | None = None) -> Look:
        """Record the model as it is now.

        Parameters
        ----------
        model : array, (W, b), linear layer, network, or object with coef_ and intercept_
            Weights as in `margin_of`. A tuple is (W, b). A network other than a linear
            layer needs `features`.
        step : float, optional
            Your own count, such as the epoch; else the number of looks so far.
        loss : float, optional
            Your own loss, instead of the cross-entropy on these rows.

        Returns
        -------
        Look
            Margin and share are NaN where weights are not finite.
        """
        begin = time.process_time()
        found, own_loss, norm, angle = self._see(model, len(self.looks) % self.optimum_every == 0)
        best = found.optimum
        look = Look(
            step=float(len(self.looks) if step is None else step),
            margin=found.lower,
            margin_upper=found.upper,
            share=found.share,
            share_upper=found.share_upper,
            best=math.nan if best is None else best.lower,
            best_upper=math.nan if best is None else best.upper,
            loss=own_loss if loss is None else float(loss),
            norm=norm,
            angle=angle,
        )
        self.looks.append(look)
        self.cpu_seconds += time.process_time() - begin
        return look

    def _see(self, model: Any, is_due: bool) -> tuple[ClassifierMargin, float, float, float]:
        """(its margin, loss, ‖W‖, angle), with an optimum if one is due or fixed."""
        W, b, features = self._parts(model)
        if self._fixed is not None:
            problem, optimum = self._fixed
        else:
            problem = Problem.from_data(features, self.y, fit_intercept=self.fit_intercept)
            optimum = self._solve(features) if is_due else None
        coef = as_coef(W, problem.shown(problem.zeros()).shape)
        intercept = as_intercept(b, W, problem.classes.size)
        if not self.fit_intercept and intercept.any():
            raise InputError(
                "the model has an intercept and this tracker's optimum has none; create the "
                "tracker with fit_intercept=True"
            )
        best, angle = None if optimum is None else optimum.certificate, math.nan
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            return ClassifierMargin(math.nan, math.nan, best), math.nan, math.nan, angle
        lower, upper, outputs = proven_margin(problem, coef, intercept)
        norm = float(np.linalg.norm(coef))
        if optimum is not None and optimum.lower > 0.0:
            angle = angle_between(coef, optimum.coef, lambda w: float(np.linalg.norm(w)))
        return ClassifierMargin(lower, upper, best), cross_entropy(problem, outputs), norm, angle

    def _parts(self, model: Any) -> tuple[Any, Any, Any]:
        """(W, b, the features that they see, where these change)."""
        if self.features is None:
            return *weights_of(model), None
        if callable(self.features):
            W, b = weights_of(model if self.layer is None else last_layer(model, self.layer))
            return W, b, self.features(model, self.X)
        return to_last_layer(model, self.X, self.layer)

    def _solve(self, features: Any) -> MarginResult:
        return max_margin(features, self.y, fit_intercept=self.fit_intercept, **self._solving)

    def to_frame(self) -> Any:
        """The looks as a pandas frame; needs pandas."""
        return self.looks.to_pandas()

    def plot(self, ax: Any = None, *, y: str = "share", **options: Any) -> TrackDisplay:
        """Draw a column of the looks against the steps; needs the extra `plot` (matplotlib)."""
        return TrackDisplay(self.looks).plot(ax=ax, y=y, **options)

    def __repr__(self) -> str:
        last = f", last share {self.looks[-1].share:.4%}" if len(self.looks) else ""
        return f"{type(self).__name__}({len(self.looks)} looks{last})"


def cross_entropy(problem: Problem, outputs: np.ndarray) -> float:
    """The average over the rows of ln Σ_j exp(F_j − F_c), which is ln(1 + e^(−y f)) for two."""
    leads = problem.labels.scores(outputs).reshape(problem.n_rows, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.logaddexp.reduce(leads, axis=1, initial=0.0).mean())
