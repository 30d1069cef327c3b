"""Models that have no tangent kernel as they are: random ones, and those that mix examples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from momentron.errors import InputError

_EVALUATE = "call model.eval() first"
_SEPARATE = "call model.eval(), or let each output depend on its own example only"


def require_eval(model: nn.Module) -> None:
    """Refuse modules whose output is random or depends on the other examples of the batch."""
    for name, module in model.named_modules():
        fault = _fault(module)
        if fault is not None:
            place = f"module {name!r}" if name else "the model"
            raise InputError(f"{place} ({type(module).__name__}) {fault}")


def _fault(module: Any) -> str | None:
    if isinstance(module, _BatchNorm):
        if module.training:
            return f"is in training mode and mixes the examples of a batch; {_EVALUATE}"
        if module.running_mean is None:
            return (
                "has no running statistics and mixes the examples of a batch; "
                "build it with track_running_stats=True"
            )
    if not module.training:
        return None
    if isinstance(module, _SpectralNorm) or any(
        isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values()
    ):
        return f"is in training mode and would change its estimate of the norm; {_EVALUATE}"
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return f"is in training mode and would change its running statistics; {_EVALUATE}"
    if isinstance(module, _DropoutNd) and module.p > 0.0:
        return f"is in training mode and random with p={module.p}; {_EVALUATE}"
    if isinstance(module, nn.RReLU) and module.lower != module.upper:
        return f"is in training mode and random; {_EVALUATE}"
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0.0:
        return f"is in training mode and random with dropout={module.dropout}; {_EVALUATE}"
    return None


def flat_outputs(outputs: Any, n: int) -> Tensor:
    """Outputs of n examples as an (n, outputs) matrix, if they are a tensor of real numbers."""
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the model returns {type(outputs).__name__}; the kernel needs one tensor of outputs: "
            "wrap the model in one that picks it"
        )
    if not outputs.is_floating_point():
        raise InputError(f"the outputs are {outputs.dtype}; the kernel needs real numbers")
    if outputs.ndim == 0 or len(outputs) != n or outputs.numel() == 0:
        raise InputError(
            f"the outputs of {n} examples have shape {tuple(outputs.shape)}; "
            f"the first axis must be {n}, one row per example"
        )
    if not outputs.requires_grad:
        raise InputError(
            "the outputs do not depend on any parameter with requires_grad=True; "
            "take the kernel of a model that trains something, outside torch.inference_mode"
        )
    return outputs.reshape(n, -1)


def require_repeatable(first: Tensor, second: Tensor) -> None:
    """Refuse outputs of one example that differ between two batches by more than rounding."""
    with torch.no_grad():
        if not bool(first.isfinite().all()):
            raise InputError(
                "the outputs of the first example are not finite; "
                "check the inputs and the model's weights"
            )
        difference = float((first - second).abs().max())
        limit = torch.finfo(first.dtype).eps ** 0.5 * max(float(first.abs().max()), 1e-30)
    if not difference <= limit:
        raise InputError(
            f"the outputs of one example differ by {difference:.3g} in two batches: "
            f"the model is random or mixes examples; {_SEPARATE}"
        )


def require_independent(gradient: Tensor | None) -> None:
    """Refuse a model in which the first example's outputs depend on the other examples.

    The gradient is of these outputs with respect to all examples, where they have one.
    """
    if gradient is not None and bool(gradient[1:].any()):
        raise InputError(
            "the outputs of one example depend on the other examples of its batch; "
            f"the kernel needs examples that do not mix; {_SEPARATE}"
        )
