"""Hooks that show the input of each structured module and the gradient of its output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Receive = Callable[[Tensor], None]
OnCall = Callable[[nn.Module, Any, Any], Receive | None]


class GradientHook(torch.autograd.Function):
    """The identity; its backward pass hands the gradient to a callable.

    A copy, because what follows may write to its input in place. The anchor is a leaf that all
    hooks share: gradients asked for with respect to it alone pass through every hook and compute no
    gradient of a weight.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, anchor: Tensor, receive: Receive) -> Tensor:
        ctx.receive = receive
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.receive(gradients[0])
        return gradients[0], None, None


@contextmanager
def hooked(modules: Iterable[nn.Module], anchor: Tensor, on_call: OnCall) -> Iterator[None]:
    """Call `on_call(module, input, output)` at each call of these modules.

    What it returns, if anything, receives the gradient with respect to the output in each later
    backward pass. The hooks are gone at the end, whatever happens.
    """

    def hook(module: nn.Module, args: Any, kwargs: Any, y: Any) -> Any:
        x = args[0] if args else next(iter(kwargs.values()), None)
        receive = on_call(module, x, y)
        return None if receive is None else GradientHook.apply(y, anchor, receive)

    handles = []
    try:
        for module in modules:
            # first of all hooks: the user's own may change the output
            handles.append(module.register_forward_hook(hook, prepend=True, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def make_anchor(device: torch.device) -> Tensor:
    """The leaf that all hooks share."""
    return torch.zeros((), device=device, requires_grad=True)
