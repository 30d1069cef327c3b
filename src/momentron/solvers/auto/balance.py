"""What free intercepts ask of a working set: columns of their own, and multipliers in balance."""

from abc import ABC, abstractmethod

import numpy as np

from momentron.circulations import Circulations
from momentron.losses import Exponential


class Balance(ABC):
    """The intercepts of a working set: p = Aw + Yb, and Yᵀλ = 0.

    Attributes
    ----------
    columns : ndarray of shape (m, r)
        Y, of full rank where the classes are connected.
    """

    columns: np.ndarray

    @property
    def n_intercepts(self) -> int:
        return self.columns.shape[1]

    def spread(self, b: np.ndarray) -> np.ndarray | float:
        """Yb."""
        return self.columns @ b if b.size else 0.0

    @abstractmethod
    def normalised(self, lam: np.ndarray) -> np.ndarray | None:
        """λ brought into the dual set; None where a class has no weight."""

    @abstractmethod
    def worst(self, p: np.ndarray) -> float:
        """The smallest functional margin, with the best intercepts."""


class NoIntercept(Balance):
    """Nothing to balance: λ of mass 1."""

    def __init__(self, m: int) -> None:
        self.columns = np.empty((m, 0))

    def normalised(self, lam: np.ndarray) -> np.ndarray | None:
        lam = np.maximum(lam, 0.0)
        total = lam.sum()
        return lam / total if total > 0.0 else None

    def worst(self, p: np.ndarray) -> float:
        return float(p.min())


class TwoClasses(Balance):
    """One intercept: half the mass on each class."""

    def __init__(self, signs: np.ndarray) -> None:
        self.signs = signs
        self.columns = signs[:, None]
        self._positive = signs > 0.0
        self._is_mixed = bool(self._positive.any() and not self._positive.all())

    def spread(self, b: np.ndarray) -> np.ndarray:
        return b[0] * self.signs

    def normalised(self, lam: np.ndarray) -> np.ndarray | None:
        lam = np.maximum(lam, 0.0)
        up, down = lam[self._positive].sum(), lam[~self._positive].sum()
        if not (up > 0.0 and down > 0.0):
            return None
        return lam * np.where(self._positive, 0.5 / up, 0.5 / down)

    def worst(self, p: np.ndarray) -> float:
        if not self._is_mixed:
            return -np.inf
        return 0.5 * float(p[self._positive].min()) + 0.5 * float(p[~self._positive].min())


class ManyClasses(Balance):
    """One intercept a class, of which the last is held at zero: weights that flow in circles."""

    def __init__(self, source: np.ndarray, target: np.ndarray, n_classes: int) -> None:
        m = source.size
        columns = np.zeros((m, n_classes))
        columns[np.arange(m), source] = 1.0
        columns[np.arange(m), target] = -1.0
        self.columns = columns[:, :-1]
        self._set = Circulations(source, target, n_classes, Exponential())

    def normalised(self, lam: np.ndarray) -> np.ndarray | None:
        lam = np.maximum(lam, 0.0)
        return self._set.into(lam) if np.isfinite(lam).all() else None

    def worst(self, p: np.ndarray) -> float:
        return self._set.margin(-p)
