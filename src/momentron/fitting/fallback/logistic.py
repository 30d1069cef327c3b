"""Logistic regression by L-BFGS, in variables in which the rows are white."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import lapack

from momentron.arithmetic.clock import OutOfTime, require_time
from momentron.fitting.fallback.columns import Columns, sample
from momentron.fitting.fallback.settings import FallbackSettings

ENOUGH = 3  # steps after which L-BFGS knows how far the next one leads
MEMORY = 10  # steps that L-BFGS remembers
MEMORY_ENTRIES = 20_000_000  # and numbers, each of its two lists


class LogisticLoss:
    """That of outputs of shape (n, 1) or (n, k), given the classes of the rows.

    Rows count by their weights, where they have some; `mass` is the sum of these.
    """

    is_split = False  # whether outputs are of every class against the rest

    def __init__(
        self, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None
    ) -> None:
        self.codes, self.n_classes, self.weights = codes, n_classes, weights
        self.mass = float(codes.size if weights is None else weights.sum())
        self._shares = None if weights is None else weights / self.mass
        self.n_outputs = 1 if n_classes == 2 else n_classes
        self._signs = np.where(codes == 1, 1.0, -1.0)[:, None]
        self._rows = np.arange(codes.size)
        # of a loss at outputs zero: p(1 − p) at p = 1/k
        self.curvature = (n_classes - 1) / n_classes**2

    def some(self, index: np.ndarray) -> "LogisticLoss":
        """For some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        return type(self)(self.codes[index], self.n_classes, weights)

    def at(self, F: np.ndarray) -> tuple[float, np.ndarray]:
        """(the mean loss, its derivative by each output)."""
        n = self.codes.size
        if self.n_outputs == 1:
            margins = self._signs * F
            decay = np.exp(-np.abs(margins))
            losses = np.log1p(decay) - np.minimum(margins, 0.0)
            share = np.where(margins > 0.0, decay, 1.0) / (1.0 + decay)
            if self._shares is None:
                return float(losses.mean()), -self._signs * share / n
            return float(self._shares @ losses[:, 0]), -self._signs * share * self._shares[:, None]
        P = F - F.max(axis=1, keepdims=True)
        own = P[self._rows, self.codes]
        np.exp(P, out=P)
        sums = P.sum(axis=1)
        P /= sums[:, None]
        P[self._rows, self.codes] -= 1.0
        losses = np.log(sums) - own
        if self._shares is None:
            P /= n
            return float(losses.mean()), P
        P *= self._shares[:, None]
        return float(self._shares @ losses), P

    def errors(self, F: np.ndarray) -> float:
        """The share of rows that the outputs put into a wrong class."""
        if self.n_outputs == 1:
            is_wrong = (F.ravel() > 0.0) != (self.codes == 1)
        else:
            is_wrong = F.argmax(axis=1) != self.codes
        return float(np.mean(is_wrong) if self._shares is None else self._shares @ is_wrong)


class RestLoss(LogisticLoss):
    """The sum of the losses of every class against the rest, of outputs (n, k)."""

    is_split = True

    def __init__(
        self, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None
    ) -> None:
        super().__init__(codes, n_classes, weights)
        self.n_outputs = n_classes
        self.curvature = 0.25
        self._signs = np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)

    def at(self, F: np.ndarray) -> tuple[float, np.ndarray]:
        margins = self._signs * F
        decay = np.exp(-np.abs(margins))
        losses = np.log1p(decay) - np.minimum(margins, 0.0)
        shares: Any = 1.0 / self.codes.size if self._shares is None else self._shares[:, None]
        slopes = -self._signs * np.where(margins > 0.0, decay, 1.0) / (1.0 + decay)
        return float((shares * losses).sum()), slopes * shares


class Objective:
    """The penalised loss in variables U in which a sample of the rows is white."""

    def __init__(self, columns: Columns, loss: LogisticLoss, settings: FallbackSettings) -> None:
        self.columns, self.loss = columns, loss
        n = columns.operator.shape[0]
        self.penalty = columns.square / (settings.C * loss.mass)
        self.shape = (columns.d + columns.fit_intercept, loss.n_outputs)
        self._factor: np.ndarray | None = None
        if self.shape[0] <= settings.whitened:
            self._factor = self._whitening(n)

    def _whitening(self, n: int) -> np.ndarray | None:
        """The Cholesky factor of the Hessian at zero, as a sample of the rows has it."""
        size = min(n, 1000 + 3 * self.shape[0])
        require_time(float(size) * self.shape[0] ** 2 / 1e10)
        H = self.columns.gram(sample(self.loss.codes, size))
        diagonal = H.ravel()[:: self.shape[0] + 1]  # a view
        diagonal += np.maximum(1.0 - diagonal, 1e-6)  # columns that hardly vary in the sample
        H *= self.loss.curvature
        diagonal += self.penalty
        factor, info = lapack.dpotrf(H, lower=1, clean=1, overwrite_a=1)
        return factor if info == 0 else None

    def unwhitened(self, U: np.ndarray) -> np.ndarray:
        """V."""
        return U if self._factor is None else lapack.dtrtrs(self._factor, U, lower=1, trans=1)[0]

    def gradient(self, V: np.ndarray, G: np.ndarray) -> np.ndarray:
        """By U, given the derivatives by the outputs."""
        gradient = self.columns.adjoint(G)
        gradient[: self.columns.d] += self.penalty * V[: self.columns.d]
        if self._factor is None:
            return gradient
        return lapack.dtrtrs(self._factor, gradient, lower=1)[0]

    def penalties(self, V: np.ndarray, dV: np.ndarray) -> tuple[float, float]:
        """Slope and curvature of the penalty along a direction."""
        d = self.columns.d
        slope = self.penalty * float(np.vdot(V[:d], dV[:d]))
        return slope, self.penalty * float(np.vdot(dV[:d], dV[:d]))


class Point:
    """Where L-BFGS stands: V with its outputs, its mean loss and its gradient by U."""

    def __init__(self, objective: Objective, V: np.ndarray, outputs: np.ndarray) -> None:
        self.objective, self.V, self.outputs = objective, V, outputs
        self.loss, G = objective.loss.at(outputs)
        self.gradient = objective.gradient(V, G)

    def moved(self, direction: np.ndarray) -> tuple["Point", float]:
        """(the lowest point along a direction, the step's length): two passes, however long."""
        dV = self.objective.unwhitened(direction)
        change = self.objective.columns.times(dV)
        slope = float(np.vdot(self.gradient, direction))
        length = self._length(change, slope, self.objective.penalties(self.V, dV))
        return Point(self.objective, self.V + length * dV, self.outputs + length * change), length

    def _length(self, change: np.ndarray, slope: float, penalties: tuple[float, float]) -> float:
        """Where the slope along the direction has fallen to a tenth, by regula falsi."""
        first, curvature = penalties
        low, high, t = (0.0, slope), (math.inf, 0.0), 1.0
        for _ in range(12):
            _, G = self.objective.loss.at(self.outputs + t * change)
            here = float(np.vdot(G, change)) + first + t * curvature
            if abs(here) <= 0.1 * abs(slope):
                break
            low, high = ((t, here), high) if here < 0.0 else (low, (t, here))
            if high[0] == math.inf:
                t = min(4.0 * t, t + max(0.1 * t, -here * t / max(here - slope, 1e-300)))
                continue
            share = low[1] / (low[1] - high[1])
            t = low[0] + float(np.clip(share, 0.1, 0.9)) * (high[0] - low[0])
        return t


def minimised(point: Point, settings: FallbackSettings) -> Point:
    """L-BFGS from a point; where time ends, what there is."""
    memory = int(np.clip(MEMORY_ENTRIES // max(point.V.size, 1), 2, MEMORY))
    least = settings.accuracy * math.log(point.objective.loss.n_classes)
    history: list[tuple[np.ndarray, np.ndarray, float]] = []
    try:
        for _ in range(settings.steps):
            require_time()
            direction = -_inverse_hessian_times(point.gradient, history)
            slope = float(np.vdot(point.gradient, direction))
            if not -slope > (least if len(history) >= ENOUGH else 0.0):
                break
            new, length = point.moved(direction)
            if not math.isfinite(new.loss):
                break
            step, change = length * direction, new.gradient - point.gradient
            point, product = new, float(np.vdot(step, change))
            if product > 0.0:  # as it is for convex functions, but for rounding
                history = [*history[-memory + 1 :], (step, change, product)]
    except OutOfTime:
        pass
    return point


def _inverse_hessian_times(
    gradient: np.ndarray, history: Sequence[tuple[np.ndarray, np.ndarray, float]]
) -> np.ndarray:
    """The two loops of L-BFGS, which begin from the identity: the variables are white."""
    r, factors = gradient.copy(), []
    for step, change, product in reversed(history):
        factor = float(np.vdot(step, r)) / product
        factors.append(factor)
        r -= factor * change
    if history:
        step, change, product = history[-1]
        r *= product / float(np.vdot(change, change))
    for (step, change, product), factor in zip(history, reversed(factors), strict=True):
        r += (factor - float(np.vdot(change, r)) / product) * step
    return r
