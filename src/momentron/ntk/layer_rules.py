"""Layers whose gradients are products: the inputs and output gradients of each kind.

For one example, such a layer computes at each position p

    y_p = W u_p + b,      u_p of F entries, y_p of C entries,

so ∂/∂W = Σ_p δ_p u_pᵀ and ∂/∂b = Σ_p δ_p with δ the gradient of an output with respect to y. A
dense layer has one position (or one per step of the sequence), a convolution one per pixel, with
u_p the patch under the kernel, and an embedding one per token, with u_p the unit vector of it.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class Rule:
    """What has to be known of one kind of layer; as it stands here, of dense layers.

    These are y = Wx + b on the last axis; all other axes are positions.
    """

    gives_tokens: bool = False  # `features` are whole numbers that stand for unit vectors

    def accepts(self, module: Any) -> bool:
        """Whether this module's settings keep the structure."""
        return True

    def features(self, module: Any, x: Tensor) -> Tensor:
        """u of a call for n examples, of shape (n, P, F), from its inputs."""
        return x.reshape(len(x), -1, x.shape[-1])

    def deltas(self, module: Any, gradient: Tensor) -> Tensor:
        """δ of a call for n examples, of shape (n, P, C), from the gradients with respect to y."""
        return gradient.reshape(len(gradient), -1, gradient.shape[-1])

    def products(self, module: Any, u: Tensor, delta: Tensor) -> Tensor:
        """Σ_p δ_p u_pᵀ of n examples, one row of entries for each."""
        return (delta.mT @ u).flatten(1)


class ConvRule(Rule):
    """Convolutions in one, two or three dimensions, with every setting but groups."""

    def accepts(self, module: Any) -> bool:
        return bool(module.groups == 1)  # others have small weights

    def features(self, module: Any, x: Tensor) -> Tensor:
        """All patches, copied out of a view of the padded input."""
        n, d = len(x), len(module.kernel_size)
        mode, sides = module.padding_mode, module._reversed_padding_repeated_twice
        if mode == "zeros" and not isinstance(module.padding, str):  # as torch's own forward reads
            sides = [side for side in reversed(module.padding) for _ in range(2)]
        x = x.reshape(-1, *x.shape[-d - 1 :])
        x = F.pad(x, sides, mode="constant" if mode == "zeros" else mode)
        sizes = zip(module.kernel_size, module.stride, module.dilation, strict=True)
        for axis, (kernel, stride, dilation) in enumerate(sizes, start=2):
            x = x.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
        # (images, channels, *positions, *kernel)
        patches = x.movedim(1, 1 + d).flatten(1 + d)
        return patches.reshape(n, -1, patches.shape[-1])

    def deltas(self, module: Any, gradient: Tensor) -> Tensor:
        images = gradient.flatten(-len(module.kernel_size))
        images = images.reshape(len(gradient), -1, *images.shape[-2:])
        return images.transpose(2, 3).flatten(1, 2)


class EmbeddingRule(Rule):
    """y_p is row t_p of W: u_p is the unit vector of token t_p, of which only t_p is kept."""

    gives_tokens = True

    def accepts(self, module: Any) -> bool:
        # max_norm rewrites the weights, and frequency scaling makes its gradients no derivatives
        return module.max_norm is None and not module.scale_grad_by_freq

    def features(self, module: Any, x: Tensor) -> Tensor:
        """The tokens; the padding token, which learns nothing, as −1."""
        tokens = x.reshape(len(x), -1, 1)
        if module.padding_idx is not None:
            tokens = tokens.masked_fill(tokens == module.padding_idx, -1)
        return tokens

    def products(self, module: Any, u: Tensor, delta: Tensor) -> Tensor:
        found = delta.new_zeros(len(u), 1 + module.num_embeddings, delta.shape[2])
        found.scatter_add_(1, (u + 1).expand_as(delta), delta)  # the first is the padding token's
        return found[:, 1:].flatten(1)


RULES: dict[Any, Rule] = {  # by what computes the outputs
    (nn.Linear.forward, None): Rule(),
    **{(c.forward, c._conv_forward): ConvRule() for c in (nn.Conv1d, nn.Conv2d, nn.Conv3d)},
    (nn.Embedding.forward, None): EmbeddingRule(),
}


def rule_for(module: Any) -> Rule | None:
    """The rule of a module, or None if its forward or its parameters are not the plain ones."""
    kind, own = type(module), vars(module)
    rule = RULES.get((kind.forward, getattr(kind, "_conv_forward", None)))
    if rule is None or "forward" in own or "_conv_forward" in own or not rule.accepts(module):
        return None
    # a parametrised weight is computed from other parameters and is not one itself
    for name in ("weight", "bias"):
        if getattr(module, name, None) is not module._parameters.get(name):
            return None
    return rule
