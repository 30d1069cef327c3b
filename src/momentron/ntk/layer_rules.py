"""Modules whose derivatives have a structure: the sizes, inputs and output gradients of each kind.

Every kind but the embedding computes, for each example, group and position p,

    y_p = W u_p + b,      u_p of F entries, y_p of C entries,

so ∂/∂W = Σ_p δ_p u_pᵀ and ∂/∂b = Σ_p δ_p with δ the gradient of an output with respect to y. A
dense layer has one position (or one per step of the sequence), a convolution one per pixel, with
u_p the patch under the kernel, and a normalisation layer is one group per affine entry with
F = C = 1.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm


@dataclass(frozen=True)
class Sizes:
    """g groups of C × F weights, read at P positions."""

    groups: int
    channels: int
    fan_in: int
    positions: int


class Rule:
    """What has to be known of one kind of module; as it stands here, of dense layers.

    These are y = Wx + b on the last axis; all axes between the first and the last are positions.
    """

    gives_tokens: bool = False  # `features` are whole numbers that stand for unit vectors
    reads_single_entries: bool = False  # F = 1

    def accepts(self, module: Any) -> bool:
        """Whether this module's settings keep the structure."""
        return True

    def sizes(self, module: Any, y: Tensor) -> Sizes:
        """The sizes of a call with output y."""
        _, groups, positions, channels = self.deltas(module, y).shape
        fan_in = 1 if self.reads_single_entries else math.prod(module.weight.shape[1:])
        return Sizes(groups, channels, fan_in, positions)

    def features(self, module: Any, x: Tensor) -> Tensor:
        """u of a call, of shape (n, g, P, F)."""
        return x.reshape(x.shape[0], 1, -1, x.shape[-1])

    def deltas(self, module: Any, gradient: Tensor) -> Tensor:
        """δ of a call from the gradient with respect to y, of shape (n, g, P, C)."""
        return gradient.reshape(len(gradient), 1, -1, gradient.shape[-1])


class ConvRule(Rule):
    """Convolutions in one, two or three dimensions, with every setting that torch knows."""

    def features(self, module: Any, x: Tensor) -> Tensor:
        """All patches, copied out of a view of the padded input."""
        d = x.ndim - 2
        mode, sides = module.padding_mode, module._reversed_padding_repeated_twice
        if mode == "zeros" and not isinstance(module.padding, str):  # as torch's own forward reads
            sides = [side for side in reversed(module.padding) for _ in range(2)]
        x = F.pad(x, sides, mode="constant" if mode == "zeros" else mode)
        sizes = zip(module.kernel_size, module.stride, module.dilation, strict=True)
        for axis, (kernel, stride, dilation) in enumerate(sizes, start=2):
            x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
        # (n, g, channels of a group, *positions, *kernel)
        x = x.unflatten(1, (module.groups, -1)).movedim(2, 2 + d)
        return x.flatten(2 + d).flatten(2, 1 + d)

    def deltas(self, module: Any, gradient: Tensor) -> Tensor:
        n, channels = gradient.shape[:2]
        return gradient.reshape(n, module.groups, channels // module.groups, -1).transpose(2, 3)


class NormRule(Rule):
    """Normalisation: one group per affine entry, with u the normalised input."""

    reads_single_entries = True

    def accepts(self, module: Any) -> bool:
        # an instance norm with running statistics changes its formula with the mode
        return not (isinstance(module, _InstanceNorm) and module.track_running_stats)

    def features(self, module: Any, x: Tensor) -> Tensor:
        return self._by_entry(module, self._normalised(module, x)).unsqueeze(3)

    def deltas(self, module: Any, gradient: Tensor) -> Tensor:
        return self._by_entry(module, gradient).unsqueeze(3)

    def _normalised(self, module: Any, x: Tensor) -> Tensor:
        """The output without weight and bias."""
        bare = copy(module)
        bare._parameters = dict.fromkeys(module._parameters)
        normalised: Tensor = bare.forward(x)  # without hooks
        return normalised

    def _by_entry(self, module: Any, x: Tensor) -> Tensor:
        """(n, affine entries, positions): an entry is a channel, or one of the last axes."""
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            return x.reshape(x.shape[0], -1, math.prod(module.normalized_shape)).transpose(1, 2)
        return x.reshape(*x.shape[:2], -1)


class EmbeddingRule(Rule):
    """y_p is row t_p of W: u_p is the unit vector of token t_p, of which only t_p is kept."""

    gives_tokens = reads_single_entries = True

    def accepts(self, module: Any) -> bool:
        # max_norm rewrites the weights, and frequency scaling makes its gradients no derivatives
        return module.max_norm is None and not module.scale_grad_by_freq

    def features(self, module: Any, x: Tensor) -> Tensor:
        """The tokens; the padding token, which learns nothing, as −1."""
        tokens = x.reshape(x.shape[0], 1, -1, 1)
        if module.padding_idx is not None:
            tokens = tokens.masked_fill(tokens == module.padding_idx, -1)
        return tokens


NORMS = (_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
RULES: dict[Any, Rule] = {
    nn.Linear: Rule(),
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), ConvRule()),
    **dict.fromkeys(NORMS, NormRule()),
    nn.Embedding: EmbeddingRule(),
}


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a module, or None if its forward or its parameters are not the plain ones."""
    for kind, rule in RULES.items():
        if isinstance(module, kind):
            return rule if _is_plain(module, kind) and rule.accepts(module) else None
    return None


def _is_plain(module: Any, kind: Any) -> bool:
    names = ("forward", "_conv_forward") if issubclass(kind, _ConvNd) else ("forward",)
    for name in names:
        if name in vars(module) or getattr(type(module), name) is not getattr(kind, name):
            return False
    # a parametrised weight is computed from other parameters and is not one itself
    return all(
        getattr(module, name, None) is module._parameters.get(name) for name in ("weight", "bias")
    )
