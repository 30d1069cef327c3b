"""The gradients Zᵀq of the weights that passes and rows give, with sure bounds on their errors."""

import math

import numpy as np

from momentron.labels import Labels
from momentron.rounding import down, gamma, up
from momentron.streams.averages import BoundedGradient, frozen
from momentron.streams.blocks import in_float64
from momentron.streams.scan import ScanResult
from momentron.streams.working_set import Rows


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
        return BoundedGradient(frozen(vector.reshape(self._shape)), error, mass)

    def _imbalance(self, flow: np.ndarray, depth: int) -> float:
        """How far Zᵀq may be from that of weights that flow in circles, for a flow of mass 1.

        What is out of balance is led back along at most k − 1 arcs: see `Circulations`.
        """
        k = self._labels.n_classes
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        rest += 4.0 * gamma(depth + 2 * k + 8)
        return 0.5 * (k - 1) * rest * self._longest * (1.0 + 1e-9)
