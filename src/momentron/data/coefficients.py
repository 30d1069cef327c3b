"""Classifiers as users have them: arrays, tensors and layers, in the shapes that results have."""

from typing import Any

import numpy as np

from momentron.data.exactness import as_exact
from momentron.errors import InputError


def as_coef(W: Any, shape: tuple[int, ...], name: str = "W") -> np.ndarray:
    """W in float64, of the shape that results have: (d,), or (k, d) for k ≥ 3 classes.

    Of two classes also (1, d), and (2, d): one row per output, of which the difference decides.
    """
    given = _dense(W)
    if given.shape == shape:
        return given
    if len(shape) == 1:
        if given.shape == (1, *shape):
            return given[0]
        if given.shape == (2, *shape):
            return _difference(given, name)
    raise InputError(_expected(name, given.shape, shape))


def _dense(values: Any) -> np.ndarray:
    """Numbers that a user passes as float64, unchanged."""
    found = as_exact(values)
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float64)


def as_intercept(b: Any, W: Any, n_classes: int) -> np.ndarray:
    """b in float64: shape (), or (k,) for k ≥ 3 classes. One per output of W; None is 0."""
    is_many = n_classes > 2
    if b is None:
        return np.zeros(n_classes) if is_many else np.zeros(())
    given = np.atleast_1d(_dense(b))
    n_outputs = n_classes if is_many else _outputs_of_two(W)
    if given.shape != (n_outputs,):
        raise InputError(
            f"b has shape {given.shape}; W has {n_outputs} output{'s' * (n_outputs > 1)}, and each "
            f"needs one intercept: pass shape ({n_outputs},), or None"
        )
    if is_many:
        return given
    return np.asarray(given[0] if n_outputs == 1 else _difference(given, "b"))


def _difference(two: np.ndarray, name: str) -> np.ndarray:
    """The second output less the first."""
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.asarray(two[1] - two[0])
    if np.isfinite(two).all() and not np.isfinite(difference).all():
        raise InputError(f"the two rows of {name} differ by more than a float holds; rescale them")
    return difference


def _outputs_of_two(W: Any) -> int:
    return 2 if np.ndim(W) == 2 and len(W) == 2 else 1


def _expected(name: str, given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """What is wrong with a shape, and which one is wanted."""
    if len(shape) == 1:
        wanted = f"{shape}, (1, {shape[0]}) or, with an output for each of the two classes, "
        wanted += f"(2, {shape[0]})"
    else:
        wanted = f"{shape}: one row for each of the {shape[0]} classes, in sorted order"
    is_turned = len(given) == 2 and given[::-1] in (shape, (1, *shape), (2, *shape))
    remedy = "; transpose it" if is_turned else ""
    return f"{name} has shape {given}; these data need {wanted}, as coef has it{remedy}"
