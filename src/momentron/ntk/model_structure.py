"""What a model is made of: units, whose gradients are products, and all other parameters.

An example is sent through the model with hooks on every layer that has a rule. A layer's parameters
are a *unit* only where the autograd graph shows that they are used by calls of that layer and by
nothing else. The gradients of all others (raw parameters, layers without a rule, weights tied
across kinds) are written out.

Models that are random, or mix examples, have no tangent kernel as they are, and are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from momentron.errors import InputError
from momentron.ntk.layer_rules import Rule, rule_for
from momentron.ntk.selection import chosen_parameters


class Unit(NamedTuple):
    """Trained parameters of a layer with a rule, or of several layers that share them.

    Gradients add over the calls in one forward pass as they do over positions.
    """

    rule: Rule
    modules: list[nn.Module]
    names: list[str]  # of the parameters
    has_weight: bool  # that is trained
    has_bias: bool
    zeros: tuple[Tensor, ...] = ()  # one per call, of the shape of its output
    positions: int = 0  # P, of all calls
    channels: int = 0  # C
    fan_in: int = 0  # F, in which the bias counts as the weight of an input that is 1

    @property
    def flops(self) -> float:
        """Flops of one example in one pass."""
        return 2.0 * self.channels * self.fan_in * self.positions

    def features(self, calls: Sequence[Tensor]) -> Tensor:
        """u of n examples, of shape (n, P, F), from the inputs of all calls."""
        parts = [self.rule.features(self.modules[0], x) for x in calls]
        u = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        u = u if self.has_weight else u[:, :, :0]
        return functional.pad(u, (0, 1), value=1.0) if self.has_bias else u

    def deltas(self, calls: Sequence[Tensor]) -> Tensor:
        """δ of n examples, of shape (n, P, C), from the gradients by the outputs of all calls."""
        parts = [self.rule.deltas(self.modules[0], gradient) for gradient in calls]
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class ModelStructure:
    """Units, and what a plan has to know of a model."""

    units: tuple[Unit, ...]
    entries: Mapping[str, int]  # of each trained parameter on which the outputs depend
    n_outputs: int
    graph_bytes: int  # that autograd holds between the passes of one example, and works with
    has_one_pass: bool = True  # of all examples of a batch, from which all outputs can be had

    @property
    def unstructured(self) -> list[str]:
        """The parameters that no unit covers."""
        covered = {name for unit in self.units for name in unit.names}
        return [name for name in self.entries if name not in covered]


def examine(
    model: nn.Module, x: Tensor, chosen: Mapping[str, nn.Parameter] | None = None
) -> ModelStructure:
    """Find the units of a model from two rows of its input.

    The derivatives are by the chosen parameters, by default all that are trained. Refused are
    models that are random, mix examples, train nothing, or return no tensor of outputs.
    """
    require_eval(model)
    named = chosen_parameters(model) if chosen is None else chosen
    candidates = _candidates(model, named)
    x = x.detach().requires_grad_(x.is_floating_point())
    pair = x[:2]
    both = flat_outputs(model(pair.clone()), len(pair))  # whose first layer may work in place
    outputs, calls, saved = _trial(model, x[:1], candidates)
    uses, reached = _walk(outputs)
    require_separate(both[0], outputs[0], pair)
    units = []
    for unit, made in zip(candidates, calls, strict=True):
        used = sum(y.grad_fn in reached for _, y in made)
        if used and all(uses[id(named[name])] == used for name in unit.names):
            zeros = tuple(y.new_zeros(()).expand(y.shape) for _, y in made)
            _, positions, channels = unit.deltas([zero.unsqueeze(0) for zero in zeros]).shape
            fan_in = unit.features([x for x, _ in made]).shape[2]
            units.append(
                unit._replace(zeros=zeros, positions=positions, channels=channels, fan_in=fan_in)
            )
    entries = {name: p.numel() for name, p in named.items() if uses[id(p)]}
    layers = sum(y.nbytes for made in calls for _, y in made)  # and their derivatives
    return ModelStructure(tuple(units), entries, outputs.shape[1], saved + layers)


def _candidates(model: nn.Module, named: Mapping[str, nn.Parameter]) -> list[Unit]:
    """Layers with a rule and something to train; those that share all of it are one unit."""
    units: dict[Any, Unit] = {}
    for module in model.modules():
        rule = rule_for(module)
        if rule is None:
            continue
        both = [module._parameters.get(name) for name in ("weight", "bias")]
        key = (rule, *map(id, both))
        if key not in units:
            has_weight, has_bias = (any(p is q for q in named.values()) for p in both)
            names = [name for name, p in named.items() if any(p is each for each in both)]
            units[key] = Unit(rule, [], names, has_weight, has_bias)
        units[key].modules.append(module)
    return [unit for unit in units.values() if unit.names]


def _trial(model: nn.Module, x: Tensor, units: list[Unit]) -> tuple[Tensor, list[Any], int]:
    """One forward pass: outputs, (x, y) of the calls of each unit, what autograd keeps in bytes."""
    calls: list[list[tuple[Tensor, Tensor]]] = [[] for _ in units]
    place = {id(module): i for i, unit in enumerate(units) for module in unit.modules}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def on_call(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        calls[place[id(module)]].append((x.detach().unsqueeze(0), y))
        return y.clone()

    modules = [module for unit in units for module in unit.modules]
    with saved_tensors_hooks(pack, lambda tensor: tensor), hooked(modules, on_call):
        outputs = flat_outputs(model(x.clone()), len(x))
    for tensor in chain(model.parameters(), model.buffers()):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return outputs, calls, sum(kept.values())


def _walk(outputs: Tensor) -> tuple[Counter[int], set[Any]]:
    """How often each parameter is used by the graph of the outputs, and all nodes of the graph."""
    uses: Counter[int] = Counter()
    stack: list[Any] = [outputs.grad_fn]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node.name() == "CheckpointFunctionBackward":
            raise InputError(
                "the model uses reentrant checkpoints, which hide its parameters from autograd; "
                "pass use_reentrant=False to torch.utils.checkpoint"
            )
        for following, _ in node.next_functions:
            if following is None:
                continue
            if hasattr(following, "variable"):
                uses[id(following.variable)] += 1
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return uses, seen


@contextmanager
def hooked(
    modules: Iterable[nn.Module], on_call: Callable[[nn.Module, Any, Tensor], Tensor]
) -> Iterator[None]:
    """Replace the output of each call of these modules by `on_call(module, input, output)`.

    That is a new tensor: what follows may write to it in place. The hooks are gone at the end,
    whatever happens.
    """

    def hook(module: nn.Module, args: Any, kwargs: Any, y: Any) -> Any:
        return on_call(module, args[0] if args else next(iter(kwargs.values()), None), y)

    with ExitStack() as handles:
        for module in modules:
            # first of all hooks: the user's own may change the output
            handle = module.register_forward_hook(hook, prepend=True, with_kwargs=True)
            handles.enter_context(handle)
        yield


_SEPARATE = "call model.eval(), or let each output depend on its own example only"


def require_eval(model: nn.Module) -> None:
    """Refuse modules whose output is random or depends on the other examples of the batch."""
    for name, module in model.named_modules():
        place = f"module {name!r}" if name else "the model"
        place = f"{place} ({type(module).__name__})"
        fault = _fault(module) if module.training else None
        if fault is not None:
            raise InputError(f"{place} is in training mode and {fault}; call model.eval() first")
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise InputError(
                f"{place} has no running statistics and mixes the examples of a batch; "
                "build it with track_running_stats=True"
            )


def _fault(module: Any) -> str | None:
    """What a module does in training mode that no kernel can have."""
    hooks = module._forward_pre_hooks.values()
    if isinstance(module, _BatchNorm):
        return "mixes the examples of a batch"
    if isinstance(module, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks):
        return "would change its estimate of the norm"
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return "would change its running statistics"
    if isinstance(module, _DropoutNd) and module.p > 0.0:
        return f"random with p={module.p}"
    if isinstance(module, nn.RReLU) and module.lower != module.upper:
        return "random"
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0.0:
        return f"random with dropout={module.dropout}"
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


def require_separate(first: Tensor, second: Tensor, x: Tensor) -> None:
    """Refuse outputs of the first example that are random or depend on other rows of x.

    `second` are its outputs in a batch of its own, which differ from the first by rounding only.
    """
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
    if not x.requires_grad:
        return
    (gradient,) = torch.autograd.grad(first.sum(), x, allow_unused=True)
    if gradient is not None and bool(gradient[1:].any()):
        raise InputError(
            "the outputs of one example depend on the other examples of its batch; "
            f"the kernel needs examples that do not mix; {_SEPARATE}"
        )
