"""What is minimised: a smooth convex function with its gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.arguments import as_count, as_number
from momentron.errors import InputError


@dataclass(frozen=True)
class Smooth:
    """A convex function f of n numbers whose gradient is Lipschitz.

    Parameters
    ----------
    value : callable
        q ↦ f(q).
    gradient : callable
        q ↦ ∇f(q), an array of shape (n,).
    size : int
        n.
    smoothness : float
        L with ‖∇f(q) − ∇f(q′)‖_* ≤ L ‖q − q′‖ on C, in the norm of the regulariser it goes with.
        The theorems hold only if this is so; nothing here can check it.
    """

    value: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    size: int
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        for name in ("value", "gradient"):
            if not callable(getattr(self, name)):
                raise InputError(f"{name}={getattr(self, name)!r} must be a function of q")
        as_count("size", self.size)
        wanted = "a positive, finite number"
        if not 0.0 < as_number("smoothness", self.smoothness, wanted) < np.inf:
            raise InputError(f"smoothness={self.smoothness!r} must be {wanted}")

    def checked_gradient(self, q: np.ndarray, t: int) -> np.ndarray:
        """∇f(q) as a finite array of shape (n,)."""
        gradient = np.asarray(self.gradient(q), dtype=float)
        if gradient.shape != (self.size,):
            raise InputError(
                f"the gradient at step {t} has shape {gradient.shape}; it must be ({self.size},)"
            )
        if not np.isfinite(gradient).all():
            raise InputError(f"the gradient at step {t} is not finite; rescale f or its start")
        return gradient


def squared_length(Z: Any, norm: str = "l1") -> Smooth:
    """φ(q) = ‖Zᵀq‖²/2: on the simplex, its least value is γ̄²/2, and 0 where nothing separates.

    Parameters
    ----------
    Z : array of shape (n, d)
        With rows z_i = −y_i x_i.
    norm : {"l1", "l2"}
        That of the regulariser: φ is max‖z_i‖² smooth in ℓ1, and ‖Z‖² smooth in ℓ2.

    Examples
    --------
    >>> from paper.mirror import AcceleratedMirrorDescent, Entropy, squared_length
    >>> f = squared_length([[-1.0, -0.5], [-1.0, 0.5], [-2.0, 0.0]])
    >>> found = AcceleratedMirrorDescent(f, Entropy()).minimize(max_iter=500)
    >>> round((2 * f.value(found.mu)) ** 0.5, 3)  # the best margin of these rows is 1
    1.0
    """
    Z = np.array(Z, dtype=float)
    if Z.ndim != 2 or 0 in Z.shape or not np.isfinite(Z).all():
        raise InputError(f"Z must be a matrix of finite numbers; its shape is {Z.shape}")
    if norm not in ("l1", "l2"):
        raise InputError(f"norm={norm!r} is not known; choose 'l1' or 'l2'")
    bound = np.linalg.norm(Z, axis=1).max() if norm == "l1" else np.linalg.norm(Z, ord=2)
    return Smooth(
        lambda q: 0.5 * float(np.sum((q @ Z) ** 2)),
        lambda q: np.asarray(Z @ (q @ Z)),
        Z.shape[0],
        float(bound) ** 2 or 1.0,
    )
