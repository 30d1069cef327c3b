"""Models that have no tangent kernel as they are: random ones, and those that mix examples."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from momentron.errors import InputError

_REMEDY = "call model.eval() first"


def require_eval(model: nn.Module) -> None:
    """Refuse modules whose output is random or depends on the other examples of the batch.

    Raises
    ------
    InputError
        Which names the module and the remedy.
    """
    for name, module in model.named_modules():
        fault = _fault(module)
        if fault is not None:
            place = f"module {name!r}" if name else "the model"
            raise InputError(f"{place} ({type(module).__name__}) {fault}")


def _fault(module: Any) -> str | None:
    if isinstance(module, _BatchNorm):
        if module.training:
            return f"is in training mode and mixes the examples of a batch; {_REMEDY}"
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
        return f"is in training mode and would change its estimate of the norm; {_REMEDY}"
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return f"is in training mode and would change its running statistics; {_REMEDY}"
    if isinstance(module, _DropoutNd) and module.p > 0.0:
        return f"is in training mode and random with p={module.p}; {_REMEDY}"
    if isinstance(module, nn.RReLU) and module.lower != module.upper:
        return f"is in training mode and random; {_REMEDY}"
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0.0:
        return f"is in training mode and random with dropout={module.dropout}; {_REMEDY}"
    return None
