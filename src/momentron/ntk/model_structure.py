"""What a model is made of: structured units, and all other parameters.

A few examples are sent through the model with hooks on every module that has a rule. A module's
parameters are a structured *unit* only where the autograd graph shows that they are used by calls
of that module and by nothing else. All others (raw parameters, modules without a rule, weights tied
across kinds, layers that see the batch on another axis) are differentiated example by example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from momentron.errors import InputError
from momentron.ntk.inputs import chosen_parameters
from momentron.ntk.layers import Rule, Sizes, rule_for
from momentron.ntk.model_checks import (
    flat_outputs,
    require_eval,
    require_independent,
    require_repeatable,
)

ELEMENTWISE = 16.0  # flops of a matrix product that take as long as one pass over an entry
OFTEN_READ = 8.0  # flops of a pass for each entry of a parameter of which nothing else is known


@dataclass(frozen=True)
class Unit:
    """Trained parameters of a structured module, or of several that share them.

    Attributes
    ----------
    rule : Rule
    modules : tuple of Module
    weight, bias : bool
        Whether the weight and the bias are trained.
    groups, channels, fan_in : int
        g, C and F.
    positions : tuple of int
        P of each call in one forward pass: gradients add over calls as they do over positions.
    """

    rule: Rule
    modules: tuple[nn.Module, ...]
    weight: bool
    bias: bool
    groups: int
    channels: int
    fan_in: int
    positions: tuple[int, ...]

    @property
    def total_positions(self) -> int:
        return sum(self.positions)

    @property
    def flops(self) -> float:
        """Of one example in one pass."""
        return 2.0 * self.groups * self.channels * self.fan_in * self.total_positions


@dataclass(frozen=True)
class ModelStructure:
    """Units, the names of the other parameters, and what a plan has to know.

    Attributes
    ----------
    units : tuple of Unit
    unstructured : mapping of str to int
        Trained parameters that no unit covers, with their numbers of entries.
    covered : mapping of str to int
        Those that units cover.
    n_outputs : int
    graph_bytes : int
        Memory that autograd holds for one example between the passes, and works with in them.
    flops : float
        Of one example in one pass through the model, forwards or backwards.
    unstructured_flops : float
        Of the gradients of unstructured parameters, for one example and output, besides the pass.
    """

    units: tuple[Unit, ...]
    unstructured: Mapping[str, int]
    covered: Mapping[str, int]
    n_outputs: int
    graph_bytes: int
    flops: float
    unstructured_flops: float

    @property
    def unstructured_entries(self) -> int:
        return sum(self.unstructured.values())

    def without_units(self) -> ModelStructure:
        """The same parameters, none of them as a unit: one pass where it took two."""
        gradients = sum(unit.flops for unit in self.units)
        unstructured = {**self.unstructured, **self.covered}
        flops = self.unstructured_flops + gradients + ELEMENTWISE * sum(self.covered.values())
        return replace(
            self, units=(), unstructured=unstructured, covered={}, unstructured_flops=flops
        )


@dataclass
class _Call:
    sizes: Sizes | None  # None where the first axis of input and output is not the batch
    node: Any
    leaks: bool = False  # the first example's outputs have a gradient in another example's row


@dataclass
class _Draft:
    """A unit in the making."""

    rule: Rule
    weight: Tensor | None  # None where there is none to differentiate by
    bias: Tensor | None
    modules: list[nn.Module] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)

    @property
    def trained(self) -> list[Tensor]:
        return [p for p in (self.weight, self.bias) if p is not None]


@dataclass
class _Trial:
    """One forward pass: outputs, the calls of each draft, the bytes that autograd keeps."""

    x: Tensor
    outputs: Tensor
    drafts: list[_Draft]
    anchor: Tensor
    saved: int
    widest: int


def examine(
    model: nn.Module, x: Tensor, chosen: Mapping[str, nn.Parameter] | None = None
) -> ModelStructure:
    """Find the units of a model from four rows of its input.

    Parameters
    ----------
    model : Module
    x : tensor of shape (4, ...)
    chosen : mapping of str to Parameter, optional
        The parameters that are differentiated by; all that are trained unless given.

    Raises
    ------
    InputError
        If the model is random, mixes examples, trains nothing, or returns no tensor of outputs.
    """
    require_eval(model)
    named = chosen_parameters(model) if chosen is None else chosen
    trained = {id(p): name for name, p in named.items()}
    pair = _trial(model, x[:2], trained)
    triple = _trial(model, x[[0, 2, 3]], trained)
    require_repeatable(pair.outputs[0], triple.outputs[0])
    uses, reached = _walk(triple.outputs)
    require_independent(triple.x, triple.outputs, triple.anchor)  # fills in `leaks`
    units: list[Unit] = []
    covered: set[int] = set()
    for before, draft in zip(pair.drafts, triple.drafts, strict=True):
        calls = [call for call in draft.calls if call.node in reached]
        if not _is_structured(before, draft, calls, uses):
            continue
        covered.update(id(p) for p in draft.trained)
        if calls:  # else the outputs do not depend on it
            units.append(_unit(draft))
    used = {key: name for key, name in trained.items() if uses[key]}
    unstructured = {name: named[name].numel() for key, name in used.items() if key not in covered}
    unstructured_flops = OFTEN_READ * sum(unstructured.values())
    return ModelStructure(
        tuple(units),
        unstructured,
        {name: named[name].numel() for key, name in used.items() if key in covered},
        triple.outputs.shape[1],
        max(0, triple.saved - pair.saved) + 3 * triple.widest,
        sum(unit.flops for unit in units) + unstructured_flops,
        unstructured_flops,
    )


def _trial(model: nn.Module, x: Tensor, trained: Mapping[int, str]) -> _Trial:
    drafts = _drafts(model, trained)
    owner = {id(module): draft for draft in drafts for module in draft.modules}
    anchor = make_anchor(x.device)
    kept: dict[int, int] = {}
    widest = 0

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def on_call(module: nn.Module, x: Any, y: Any) -> Receive:
        nonlocal widest
        draft = owner[id(module)]
        is_batch_first = isinstance(x, Tensor) and x.ndim > 0 and len(x) == len(y) == n
        call = _Call(draft.rule.sizes(module, x, y) if is_batch_first else None, y.grad_fn)
        draft.calls.append(call)
        widest = max(widest, y.nbytes // n)

        def receive(gradient: Tensor) -> None:
            call.leaks = bool(gradient[1:].any())

        return receive

    n = len(x)
    if x.is_floating_point():
        x = x.detach().clone().requires_grad_()
    with (
        saved_tensors_hooks(pack, lambda tensor: tensor),
        hooked((module for draft in drafts for module in draft.modules), anchor, on_call),
    ):
        # a copy, so that a first layer may work in place
        outputs = flat_outputs(model(x.clone()), n)
    return _Trial(x, outputs, drafts, anchor, sum(kept.values()), widest)


def _drafts(model: nn.Module, trained: Mapping[int, str]) -> list[_Draft]:
    """Modules with a rule and something to train; those that share all of it share a draft."""
    drafts: dict[Any, _Draft] = {}
    for module in model.modules():
        rule = rule_for(module)
        if rule is None:
            continue
        weight, bias = (module._parameters.get(name) for name in ("weight", "bias"))
        key = (rule, getattr(module, "groups", None), id(weight), id(bias))
        if key not in drafts:
            weight, bias = (p if id(p) in trained else None for p in (weight, bias))
            drafts[key] = _Draft(rule, weight, bias)
        drafts[key].modules.append(module)
    return [draft for draft in drafts.values() if draft.trained]


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


def _is_structured(before: _Draft, draft: _Draft, calls: list[_Call], uses: Counter[int]) -> bool:
    """Whether the graph uses these parameters in these calls only, example by example."""
    sizes = [call.sizes for call in draft.calls]
    return (
        None not in sizes
        and sizes == [call.sizes for call in before.calls]
        and not any(call.leaks for call in calls)
        and all(uses[id(p)] == len(calls) for p in draft.trained)
    )


def _unit(draft: _Draft) -> Unit:
    sizes = [call.sizes for call in draft.calls if call.sizes is not None]
    return Unit(
        draft.rule,
        tuple(draft.modules),
        draft.weight is not None,
        draft.bias is not None,
        sizes[0].groups,
        sizes[0].channels,
        sizes[0].fan_in,
        tuple(size.positions for size in sizes),
    )


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
