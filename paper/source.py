"""Where separable problems come from: a seed gives one, with its best margin."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.datasets import make_separable
from momentron.problem import Problem
from paper.recording import require_end
from paper.sample import Sample

FEATURES, SUPPORT = 20, 10
TOL = 1e-10
ROUNDING = 1e-12
"""Rounding the rows moves a best margin by less, relative to it."""


@dataclass(frozen=True)
class Drawn:
    """Rows and labels, and their best margin in the units of X.

    Attributes
    ----------
    width : float
        That of the interval in which the best margin is known to lie.
    """

    X: np.ndarray
    y: np.ndarray
    best: float
    width: float

    @cached_property
    def radius(self) -> float:
        """R = max‖x_i‖."""
        return float(np.linalg.norm(self.X, axis=1).max())

    def problem(self) -> Problem:
        """The margin problem, without an intercept as in the paper."""
        return Problem.from_data(self.X, self.y, fit_intercept=False)


class Source(ABC):
    """A kind of problem.

    Attributes
    ----------
    n : int
        Rows.
    margin : float or None
        The best margin, where it is chosen.
    label : str
    slug : str
        For names of files.
    weight : float
        What an iteration costs, beside those of other sources.
    """

    n: int
    margin: float | None
    label: str
    slug: str
    weight: float

    @abstractmethod
    def draw(self, seed: int) -> Drawn:
        """The problem of a seed."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """All that a draw depends on besides the seed."""


class Placed(Source):
    """Rows placed so that the best margin is known."""

    def __init__(self, n: int, margin: float) -> None:
        self.n, self.margin, self._margin = n, margin, margin
        self.label = f"n = {n:,}, γ̄ = {margin:g}"
        self.slug = f"n{n}-margin{margin:g}"
        self.weight = 1.0 + n / 1000.0

    def draw(self, seed: int) -> Drawn:
        made = make_separable(
            self.n, FEATURES, n_support=SUPPORT, margin=self._margin, random_state=seed
        )
        return Drawn(made.X, made.y, made.margin, ROUNDING * made.margin)

    def parameters(self) -> dict[str, Any]:
        return {"n": self.n, "margin": self.margin, "features": FEATURES, "support": SUPPORT}


class Rows(Source):
    """Some rows of real data, drawn by the seed; `auto` certifies their best margin."""

    margin = None

    def __init__(self, sample: Sample, name: str, n: int) -> None:
        self._sample, self.n = sample, n
        self.label = f"{name}, n = {n:,}"
        self.slug = f"rows{n}"
        self.weight = 1.0 + n * sample.X.shape[1] / 100_000.0

    def draw(self, seed: int) -> Drawn:
        chosen = np.random.default_rng(seed).choice(self._sample.y.size, self.n, replace=False)
        X, y = self._sample.X[chosen], self._sample.y[chosen]
        found = max_margin(X, y, fit_intercept=False, tol=TOL)
        require_end(found.status)
        return Drawn(X, y, 0.5 * (found.lower + found.upper), found.upper - found.lower)

    def parameters(self) -> dict[str, Any]:
        return {"rows": self.n, "of": self._sample.fingerprint, "tol": TOL}
