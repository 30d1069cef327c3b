"""What a model is made of: structured units, and all other parameters.

A few examples are sent through the model with hooks on every module that has a rule. A module's
parameters are a structured *unit* only where the autograd graph shows that they are used by calls
of that module and by nothing else. All others (raw parameters, modules without a rule, weights tied
across kinds, layers that see the batch on another axis) are differentiated example by example.

Models that are random, or mix examples, have no tangent kernel as they are, and are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from momentron.errors import InputError
from momentron.ntk.layer_rules import Rule, rule_for
from momentron.ntk.selection import chosen_parameters

ELEMENTWISE = 16.0  # flops of a matrix product that take as long as one pass over an entry
OFTEN_READ = 8.0  # flops of a pass for each entry of a parameter of which nothing else is known


class Unit(NamedTuple):
    """Trained parameters of a structured module, or of several that share them.

    `positions` has P of each call in one forward pass: gradients add over calls as they do over
    positions.
    """

    rule: Rule
    modules: list[nn.Module]
    weight: nn.Parameter | None  # None where it is not trained, as is the bias
    bias: nn.Parameter | None
    groups: int = 0  # g, C and F, in which the bias counts as the weight of an input that is 1
    channels: int = 0
    fan_in: int = 0
    positions: tuple[int, ...] = ()

    @property
    def trained(self) -> list[nn.Parameter]:
        return [p for p in (self.weight, self.bias) if p is not None]

    @property
    def total_positions(self) -> int:
        return sum(self.positions)

    @property
    def flops(self) -> float:
        """Flops of one example in one pass."""
        return 2.0 * self.groups * self.channels * self.fan_in * self.total_positions


@dataclass(frozen=True)
class ModelStructure:
    """Units, the numbers of entries of all parameters, and what a plan has to know.

    Numbers of bytes and of flops are for one example. `unstructured_flops` are those of the
    gradients of unstructured parameters for one output, besides the pass.
    """

    units: tuple[Unit, ...]
    unstructured: Mapping[str, int]  # trained parameters that no unit covers
    covered: Mapping[str, int]
    n_outputs: int
    graph_bytes: int  # that autograd holds between the passes, and works with in them
    flops: float  # of one pass through the model, forwards or backwards
    unstructured_flops: float

    def without_units(self) -> ModelStructure:
        """The same parameters, none of them as a unit: one pass where it took two."""
        gradients = sum(unit.flops for unit in self.units)
        unstructured = {**self.unstructured, **self.covered}
        flops = self.unstructured_flops + gradients + ELEMENTWISE * sum(self.covered.values())
        return replace(
            self, units=(), unstructured=unstructured, covered={}, unstructured_flops=flops
        )


class _Call(NamedTuple):
    module: nn.Module
    y: Tensor
    is_batch_first: bool  # in input and output


class _Trial(NamedTuple):
    """One forward pass: outputs, the calls of each unit, the bytes that autograd keeps."""

    x: Tensor
    outputs: Tensor
    calls: list[list[_Call]]
    saved: int


def examine(
    model: nn.Module, x: Tensor, chosen: Mapping[str, nn.Parameter] | None = None
) -> ModelStructure:
    """Find the units of a model from four rows of its input.

    The derivatives are by the chosen parameters, by default all that are trained. Refused are
    models that are random, mix examples, train nothing, or return no tensor of outputs.
    """
    require_eval(model)
    named = chosen_parameters(model) if chosen is None else chosen
    candidates = _candidates(model, {id(p) for p in named.values()})
    pair = _trial(model, x[:2], candidates)
    triple = _trial(model, x[[0, 2, 3]], candidates)
    require_repeatable(pair.outputs[0], triple.outputs[0])
    uses, reached = _walk(triple.outputs)
    layers = [call.y for calls in triple.calls for call in calls]
    gradients = output_gradients(triple.outputs[0].sum(), [*layers, triple.x], keep=False)
    require_independent(gradients.pop())
    leaking = {
        id(y) for y, g in zip(layers, gradients, strict=True) if g is not None and g[1:].any()
    }
    units: list[Unit] = []
    covered: set[int] = set()
    for unit, before, calls in zip(candidates, pair.calls, triple.calls, strict=True):
        if not all(call.is_batch_first for call in (*before, *calls)):
            continue
        used = [call for call in calls if call.y.grad_fn in reached]
        sizes = [unit.rule.sizes(call.module, call.y) for call in calls]
        if (
            sizes == [unit.rule.sizes(call.module, call.y) for call in before]
            and not any(id(call.y) in leaking for call in used)
            and all(uses[id(p)] == len(used) for p in unit.trained)
        ):
            covered.update(id(p) for p in unit.trained)
            if used:  # else the outputs do not depend on it
                size, positions = sizes[0], tuple(each.positions for each in sizes)
                fan_in = (size.fan_in if unit.weight is not None else 0) + (unit.bias is not None)
                units.append(Unit(*unit[:4], size.groups, size.channels, fan_in, positions))
    entries = {name: p.numel() for name, p in named.items() if uses[id(p)]}
    unstructured = {name: n for name, n in entries.items() if id(named[name]) not in covered}
    unstructured_flops = OFTEN_READ * sum(unstructured.values())
    return ModelStructure(
        tuple(units),
        unstructured,
        {name: n for name, n in entries.items() if name not in unstructured},
        triple.outputs.shape[1],
        # that of the third example, and the derivatives by all layers
        max(0, triple.saved - pair.saved) + sum(y.nbytes // len(triple.x) for y in layers),
        sum(unit.flops for unit in units) + unstructured_flops,
        unstructured_flops,
    )


def _candidates(model: nn.Module, trained: set[int]) -> list[Unit]:
    """Modules with a rule and something to train; those that share all of it are one unit."""
    units: dict[Any, Unit] = {}
    for module in model.modules():
        rule = rule_for(module)
        if rule is None:
            continue
        weight, bias = (module._parameters.get(name) for name in ("weight", "bias"))
        key = (rule, getattr(module, "groups", None), id(weight), id(bias))
        if key not in units:
            weight, bias = (p if id(p) in trained else None for p in (weight, bias))
            units[key] = Unit(rule, [], weight, bias)
        units[key].modules.append(module)
    return [unit for unit in units.values() if unit.trained]


def _trial(model: nn.Module, x: Tensor, units: list[Unit]) -> _Trial:
    calls: list[list[_Call]] = [[] for _ in units]
    place = {id(module): i for i, unit in enumerate(units) for module in unit.modules}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def on_call(module: nn.Module, x: Any, y: Tensor) -> None:
        is_batch_first = isinstance(x, Tensor) and x.ndim > 0 and len(x) == len(y) == n
        calls[place[id(module)]].append(_Call(module, y, is_batch_first))

    n = len(x)
    if x.is_floating_point():
        x = x.detach().clone().requires_grad_()
    modules = [module for unit in units for module in unit.modules]
    with saved_tensors_hooks(pack, lambda tensor: tensor), hooked(modules, on_call):
        # a copy, so that a first layer may work in place
        outputs = flat_outputs(model(x.clone()), n)
    return _Trial(x, outputs, calls, sum(kept.values()))


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


OnCall = Callable[[nn.Module, Any, Tensor], None]


@contextmanager
def hooked(modules: Iterable[nn.Module], on_call: OnCall) -> Iterator[None]:
    """Call `on_call(module, input, output)` at each call of these modules.

    What follows reads a copy of the output, since it may write to it in place: gradients can be
    asked for with respect to the output itself. The hooks are gone at the end, whatever happens.
    """

    def hook(module: nn.Module, args: Any, kwargs: Any, y: Any) -> Any:
        on_call(module, args[0] if args else next(iter(kwargs.values()), None), y)
        return y.clone()

    with ExitStack() as handles:
        for module in modules:
            # first of all hooks: the user's own may change the output
            handle = module.register_forward_hook(hook, prepend=True, with_kwargs=True)
            handles.enter_context(handle)
        yield


def output_gradients(output: Tensor, layers: Sequence[Tensor], keep: bool) -> list[Tensor | None]:
    """The derivatives of an output by the outputs of some layers; None where there is none.

    Gradients of weights, which nobody asks for here, are not computed.
    """
    used = [y for y in layers if y.requires_grad]
    found = torch.autograd.grad(output, used, retain_graph=keep, allow_unused=True) if used else ()
    by_layer = {id(y): gradient for y, gradient in zip(used, found, strict=True)}
    return [by_layer.get(id(y)) for y in layers]


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
