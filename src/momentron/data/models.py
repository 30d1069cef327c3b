"""What a model classifies with: weights of arrays, estimators, layers and networks of torch,
and the shapes in which results have them.

torch is not imported: who has a network has loaded it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.tensors import is_instance
from momentron.errors import InputError, counted

BATCH = 4096  # rows that a network sees at a time


def is_module(model: Any) -> bool:
    """Whether this is a layer or network of torch."""
    return is_instance(model, "torch.nn.modules.module", "Module")


def weights_of(model: Any) -> tuple[Any, Any]:
    """(W, b) of weights, of a linear layer, or of whatever has coef_ or coef; b may be None."""
    if isinstance(model, tuple):
        if len(model) != 2:
            raise InputError(f"the model is a tuple of length {len(model)}; pass (W, b)")
        return model
    if is_module(model):
        if not is_linear(model):
            raise InputError(
                f"{type(model).__name__} is not a linear layer; pass its last layer, or create the "
                "tracker with features='penultimate'"
            )
        return model.weight, model.bias
    for ending in ("_", ""):
        if hasattr(model, f"coef{ending}"):
            return getattr(model, f"coef{ending}"), getattr(model, f"intercept{ending}", None)
    return model, None


def is_linear(layer: Any) -> bool:
    """Whether a layer is x ↦ xWᵀ + b."""
    return isinstance(layer, sys.modules["torch"].nn.Linear)


def last_layer(model: Any, name: str | None = None) -> Any:
    """The linear layer of this name, or the last one of the network."""
    if not is_module(model):
        raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    layers = {key: layer for key, layer in model.named_modules() if is_linear(layer)}
    if not layers:
        raise InputError(f"{type(model).__name__} has no linear layer; pass features as a callable")
    if name is None:
        return list(layers.values())[-1]
    if name not in layers:
        raise InputError(f"layer={name!r} is not one of the linear layers: {', '.join(layers)}")
    return layers[name]


@contextmanager
def modes_kept(model: Any) -> Iterator[None]:
    """Training and evaluation modes come back as they were, module by module."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def to_last_layer(model: Any, X: Any, name: str | None = None) -> tuple[Any, Any, Any]:
    """(W, b, features): the last linear layer of a network, and what reaches it from the rows X.

    The network is run in evaluation mode, without gradients, some rows at a time; its mode is put
    back. If no layer is named, the outputs must be the outputs of the layer that was taken.
    """
    layer, torch = last_layer(model, name), sys.modules["torch"]
    X = X if torch.is_tensor(X) else torch.as_tensor(X, dtype=layer.weight.dtype)
    met: list[tuple[Any, Any]] = []
    hook = layer.register_forward_hook(lambda _, given, got: met.append((given[0], got)))
    features = []
    try:
        with modes_kept(model), torch.no_grad():
            model.eval()
            for start in range(0, X.shape[0], BATCH):
                met.clear()
                outputs = model(X[start : start + BATCH].to(layer.weight.device))
                if len(met) != 1:
                    raise InputError(
                        f"the last linear layer was used {len(met)} times; name another as layer="
                    )
                if name is None and outputs is not met[0][1]:
                    raise InputError(
                        "the network transforms the outputs of its last linear layer, for example "
                        "by a softmax; name the layer that is meant: layer=..."
                    )
                features.append(met[0][0].detach().reshape(outputs.shape[0], -1).cpu())
    finally:
        hook.remove()
    return layer.weight, layer.bias, torch.cat(features)


def as_coef(W: Any, shape: tuple[int, ...], name: str = "W") -> np.ndarray:
    """W in float64, of the shape that results have: (d,), or (k, d) for k ≥ 3 classes.

    With two classes also (1, d), and (2, d): one row per output, whose difference decides.
    """
    given = _dense(W)
    if given.shape == shape:
        return given
    if len(shape) == 1:
        if given.shape == (1, *shape):
            return given[0]
        if given.shape == (2, *shape):
            return _difference(given, name)
        wanted = f"{shape}, (1, {shape[0]}) or, with an output for each of the two classes, "
        wanted += f"(2, {shape[0]})"
    else:
        wanted = f"{shape}: one row for each of the {shape[0]} classes, in sorted order"
    is_turned = given.ndim == 2 and given.shape[::-1] in (shape, (1, *shape), (2, *shape))
    remedy = "; transpose it" if is_turned else ""
    raise InputError(f"{name} has shape {given.shape}; these data need {wanted}, like coef{remedy}")


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
    n_outputs = n_classes if is_many else 2 if np.ndim(W) == 2 and len(W) == 2 else 1
    if given.shape != (n_outputs,):
        raise InputError(
            f"b has shape {given.shape}; W has {counted(n_outputs, 'output')}, and each "
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
