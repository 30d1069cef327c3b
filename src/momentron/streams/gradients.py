"""The gradients Zᵀq of the weights that passes and rows give, with sure bounds on their errors.

A solver may ask for sums Σ c_i q_i with c_i ≥ 0 of such weights, which are too many to keep. The
gradients of the sums are computed here, with a bound on their rounding and a lower bound of Σ c_i,
so that no solver can make an upper bound ‖Zᵀμ‖ that no weights have.
"""

import math
from dataclasses import dataclass

import numpy as np

from momentron.arithmetic.rounding import UNDERFLOW, down, gamma, norm_bounds, up
from momentron.dual.labels import Labels
from momentron.errors import SolverError
from momentron.streams.blocks import in_float64
from momentron.streams.scan import ScanResult
from momentron.streams.working_set import Rows

MOST = 2.0**500  # a coefficient, or the mass of a sum: far from where a lower bound would overflow


@dataclass(frozen=True)
class BoundedGradient:
    """V = Σ c_i Zᵀq_i for weights q_i of mass 1 in the dual set and c_i ≥ 0, in the units of X.

    Attributes
    ----------
    vector : ndarray
        As computed; cannot be written to.
    error : float
        A bound on its distance from the true one.
    mass : float
        A lower bound of Σ c_i.
    """

    vector: np.ndarray
    error: float = 0.0
    mass: float = 1.0

    def __post_init__(self) -> None:
        self.vector.flags.writeable = False

    @property
    def bound(self) -> float:
        """A sure upper bound of ‖V‖ over its mass, and so of the best margin."""
        if not 0.0 < self.mass <= MOST:
            return math.inf
        bound = up(up(norm_bounds(self.vector)[1] + self.error) / self.mass)
        return math.inf if math.isnan(bound) else bound


def mixed(a: BoundedGradient, x: float, b: BoundedGradient, y: float) -> BoundedGradient:
    """x·a + y·b."""
    x, y = float(x), float(y)
    if not (0.0 <= x <= MOST and 0.0 <= y <= MOST):
        raise SolverError(f"weights cannot be mixed with coefficients {x} and {y}: give 0 or more")
    vector = x * a.vector + y * b.vector
    # three roundings per entry, of numbers no larger than these; what underflows is covered too
    size = up(x * norm_bounds(a.vector)[1] + y * norm_bounds(b.vector)[1])
    rounding = up(gamma(3) * size + 4.0 * vector.size * UNDERFLOW)
    error = up(x * a.error + y * b.error + rounding)
    mass = max(0.0, down(x * a.mass + y * b.mass))
    if not mass <= MOST:
        raise SolverError(f"these weights would have a mass of {mass:.3g}; scale them down")
    return BoundedGradient(vector, error, mass)


class Gradients:
    """Makes gradients from what was read.

    Parameters
    ----------
    labels : Labels
    shape : tuple of int
        Of a classifier.
    longest : float
        An upper bound of max‖z‖.
    """

    def __init__(self, labels: Labels, shape: tuple[int, ...], longest: float) -> None:
        self._labels, self._shape, self._longest = labels, shape, longest

    def of_pass(self, result: ScanResult, flow: np.ndarray) -> BoundedGradient:
        """From the weighted sums of a pass; flow is what the arcs weigh in all."""
        labels, error = self._labels, 0.0
        if labels.circulates:
            k, mass = labels.n_classes, float(result.totals.sum())
            vector = result.vectors / mass
            error = self._imbalance(result.totals.reshape(k, k) / mass, result.depth)
        elif labels.is_paired:
            vector = result.vectors / result.totals[0]
        else:
            vector = result.vectors @ (flow / result.totals)
        # the sums and the masses by which they are divided both err, each by its own chain
        return self._gradient(vector, error, result.depth)

    def at_zero(
        self, counts: np.ndarray, sums: np.ndarray, flow: np.ndarray, depth: int
    ) -> BoundedGradient:
        """Of the weights at w = 0, from the number of rows of each class and their sums."""
        labels, k, error = self._labels, counts.size, 0.0
        if not labels.is_paired:
            shares = flow[[1, 0]] if labels.fit_intercept else counts / counts.sum()
            vector = (np.array([1.0, -1.0]) * shares / counts) @ sums
        else:
            share = np.zeros((k, k))
            if labels.fit_intercept:
                share.ravel()[labels.arcs] = flow
                error = self._imbalance(share, depth)
            else:
                share[:] = counts[:, None] / (counts.sum() * (k - 1))
                np.fill_diagonal(share, 0.0)
            means = sums / counts[:, None]
            vector = means.T @ (share - np.diag(share.sum(axis=1)))
        return self._gradient(vector, error, depth + 2 * k + 8)

    def of_rows(self, rows: Rows, weights: np.ndarray) -> BoundedGradient | None:
        """Of weights on rows in memory, scaled to mass 1; None where they are not weights.

        They should be near the dual set: how far they are from it adds to the error.
        """
        labels = self._labels
        if not (weights.min(initial=0.0) >= 0.0 and 0.0 < weights.max(initial=0.0) < math.inf):
            return None
        weights = weights / weights.max()  # so that their sum is a number
        weights /= weights.sum()
        sums = np.asarray(in_float64(rows.X).T @ labels.block_mix(weights, rows.codes))
        vector = sums if labels.is_paired else sums.sum(axis=1)
        depth, error = rows.size + labels.n_classes, 0.0
        if labels.circulates:
            flow = np.zeros((labels.n_classes, labels.n_classes))
            np.add.at(flow, rows.codes, weights)
            error = self._imbalance(flow, depth)
        elif labels.fit_intercept:
            # as much weight more on the lighter class, and no less anywhere, is in balance
            apart = abs(float(weights[rows.codes == 1].sum() - weights[rows.codes == 0].sum()))
            error = up((apart + gamma(depth + 8)) * self._longest)
        return self._gradient(vector, error, depth, down(1.0, depth + 8))

    def _gradient(
        self, vector: np.ndarray, error: float, depth: int, mass: float = 1.0
    ) -> BoundedGradient:
        error += 2.0 * gamma(depth + 8) * self._longest
        return BoundedGradient(vector.reshape(self._shape), error, mass)

    def _imbalance(self, flow: np.ndarray, depth: int) -> float:
        """How far Zᵀq may be from that of weights that flow in circles, for a flow of mass 1.

        What is out of balance is led back along at most k − 1 arcs: see `Circulations`.
        """
        k = self._labels.n_classes
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        rest += 4.0 * gamma(depth + 2 * k + 8)
        return 0.5 * (k - 1) * rest * self._longest * (1.0 + 1e-9)
