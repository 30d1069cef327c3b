"""Regularisers ω: what a set C looks like to mirror descent."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from momentron.arguments import as_number
from momentron.calls import call_of
from momentron.errors import InputError
from momentron.losses import log_sum_exp


class Regularizer(ABC):
    """A closed ω on a convex set C that is α-strongly convex in some norm.

    Dual variables p live in the whole space; ∇ω* takes them to C. That, ω* and ω are all that the
    methods and their lemmas use, so ω need not be differentiable (paper, (B.2)).

    Attributes
    ----------
    strength : float
        α, with D(q′, q) ≥ α ‖q′ − q‖²/2.
    """

    strength: float = 1.0

    def __repr__(self) -> str:
        return call_of(self)

    @abstractmethod
    def mirror(self, p: np.ndarray) -> np.ndarray:
        """∇ω*(p): the q of C with the largest ⟨p, q⟩ − ω(q)."""

    @abstractmethod
    def conjugate(self, p: np.ndarray) -> float:
        """ω*(p): that largest value."""

    @abstractmethod
    def value(self, q: np.ndarray) -> float:
        """ω(q), for q in C."""

    @abstractmethod
    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        """‖q − other‖ in the norm in which ω is strongly convex."""

    def divergence(self, q: np.ndarray, p: np.ndarray) -> float:
        """D(q, ∇ω*(p)) = ω(q) + ω*(p) − ⟨p, q⟩: never negative, and 0 for q = ∇ω*(p)."""
        return self.value(q) + self.conjugate(p) - float(p @ q)


class Entropy(Regularizer):
    """ω(q) = Σ q ln q on the simplex: 1-strongly convex in ℓ1; D is the KL divergence."""

    def mirror(self, p: np.ndarray) -> np.ndarray:
        q = np.exp(p - p.max())
        q /= q.sum()
        return np.asarray(q)

    def conjugate(self, p: np.ndarray) -> float:
        return log_sum_exp(p)

    def value(self, q: np.ndarray) -> float:
        some = q[q > 0.0]  # 0 ln 0 is 0
        return float(some @ np.log(some))

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(q - other).sum())


class Euclidean(Regularizer):
    """ω(q) = ‖q‖²/2 on C: 1-strongly convex in ℓ2; the methods are projected gradient descent.

    Parameters
    ----------
    onto : callable, optional
        The projection onto C, such as `onto_simplex`; the whole space without it.
    """

    def __init__(self, onto: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        if onto is not None and not callable(onto):
            raise InputError(f"onto={onto!r} must be a function that projects onto C, or None")
        self.onto = onto

    def mirror(self, p: np.ndarray) -> np.ndarray:
        return p.copy() if self.onto is None else np.asarray(self.onto(p), dtype=float)

    def conjugate(self, p: np.ndarray) -> float:
        q = self.mirror(p)
        return float(p @ q) - self.value(q)

    def value(self, q: np.ndarray) -> float:
        return 0.5 * float(q @ q)

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return float(np.linalg.norm(q - other))


class PNorm(Regularizer):
    """ω(q) = ‖q‖_p²/2 on the whole space: (p − 1)-strongly convex in ℓp, for 1 < p ≤ 2.

    Between the entropy and Euclid: near 1 it suits gradients whose largest entry is small.

    Parameters
    ----------
    p : float
        In (1, 2].
    """

    def __init__(self, p: float = 1.5) -> None:
        wanted = "a number above 1 and at most 2"
        if not 1.0 < as_number("p", p, wanted) <= 2.0:
            raise InputError(f"p={p!r} must be {wanted}")
        self.p = float(p)
        self.strength = self.p - 1.0
        self._dual = self.p / (self.p - 1.0)

    def mirror(self, p: np.ndarray) -> np.ndarray:
        top = float(np.abs(p).max(initial=0.0))
        if top == 0.0:
            return np.zeros_like(p)
        share = np.abs(p) / top  # powers of it neither overflow nor all vanish
        length = float(np.sum(share**self._dual)) ** (1.0 / self._dual)
        return np.asarray(np.sign(p) * (share / length) ** (self._dual - 1.0) * length * top)

    def conjugate(self, p: np.ndarray) -> float:
        return 0.5 * self._length(p, self._dual) ** 2

    def value(self, q: np.ndarray) -> float:
        return 0.5 * self._length(q, self.p) ** 2

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        return self._length(q - other, self.p)

    def _length(self, x: np.ndarray, power: float) -> float:
        top = float(np.abs(x).max(initial=0.0))
        return top * float(np.sum(np.abs(x / top) ** power)) ** (1.0 / power) if top > 0.0 else 0.0


def onto_simplex(p: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex {q ≥ 0, Σq = 1}, by one sort."""
    p = p - p.max()  # which moves p along (1, …, 1), and the nearest point not at all
    ordered = np.sort(p)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.arange(1, p.size + 1)
    last = int(np.flatnonzero(ordered - excess / count > 0.0)[-1])
    return np.asarray(np.maximum(p - excess[last] / (last + 1.0), 0.0))
