"""What a model is made of: structured units, and the rest of its parameters.

A few examples are sent through the model with hooks on every module that has a rule. A module's
parameters are a structured *unit* only where the autograd graph shows that they are used by calls
of that module and by nothing else. All others (raw parameters, modules without a rule, weights tied
across kinds, layers that see the batch on another axis) are left to the per-example fallback.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from momentron.errors import InputError
from momentron.ntk.layers import Rule, Sizes, rule_for
from momentron.ntk.outputs import flat_outputs, require_independent, require_repeatable
from momentron.ntk.refusals import require_eval
from momentron.ntk.taps import Receive, make_anchor, tapped


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


@dataclass(frozen=True)
class Anatomy:
    """Units, the names of the other parameters, and what a plan has to know.

    Attributes
    ----------
    units : tuple of Unit
    rest : tuple of str
        Trained parameters that no unit covers.
    rest_entries : int
    n_outputs : int
    graph_bytes : int
        Memory that autograd holds for one example between the passes, and works with in them.
    """

    units: tuple[Unit, ...]
    rest: tuple[str, ...]
    rest_entries: int
    n_outputs: int
    graph_bytes: int


@dataclass
class _Call:
    sizes: Sizes | None  # None where the first axis of input and output is not the batch
    node: Any
    leaks: bool = False  # the first example's outputs have a gradient in another example's row


@dataclass
class _Draft:
    """A unit in the making."""

    rule: Rule
    weight: Tensor | None
    bias: Tensor | None
    modules: list[nn.Module] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)

    @property
    def trained(self) -> list[Tensor]:
        return [p for p in (self.weight, self.bias) if p is not None and p.requires_grad]


@dataclass
class _Trial:
    """One forward pass: outputs, the calls of each draft, the bytes that autograd keeps."""

    x: Tensor
    outputs: Tensor
    drafts: list[_Draft]
    anchor: Tensor
    saved: int
    widest: int


def examine(model: nn.Module, x: Tensor) -> Anatomy:
    """Find the units of a model from four rows of its input.

    Raises
    ------
    InputError
        If the model is random, mixes examples, trains nothing, or returns no tensor of outputs.
    """
    require_eval(model)
    trained = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise InputError(
            "the model has 0 parameters with requires_grad=True; its kernel needs at least 1"
        )
    for name, p in model.named_parameters():
        if p.requires_grad and p.is_complex():
            raise InputError(f"parameter {name!r} is {p.dtype}; the kernel needs real parameters")
    pair = _trial(model, x[:2])
    triple = _trial(model, x[[0, 2, 3]])
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
    rest = tuple(name for key, name in trained.items() if key not in covered and uses[key])
    return Anatomy(
        tuple(units),
        rest,
        sum(model.get_parameter(name).numel() for name in rest),
        triple.outputs.shape[1],
        max(0, triple.saved - pair.saved) + 3 * triple.widest,
    )


def _trial(model: nn.Module, x: Tensor) -> _Trial:
    drafts = _drafts(model)
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
        tapped((module for draft in drafts for module in draft.modules), anchor, on_call),
    ):
        # a copy, so that a first layer may work in place
        outputs = flat_outputs(model(x.clone()), n)
    return _Trial(x, outputs, drafts, anchor, sum(kept.values()), widest)


def _drafts(model: nn.Module) -> list[_Draft]:
    """Modules with a rule and something to train; those that share all of it share a draft."""
    drafts: dict[Any, _Draft] = {}
    for module in model.modules():
        rule = rule_for(module)
        if rule is None:
            continue
        weight, bias = (module._parameters.get(name) for name in ("weight", "bias"))
        key = (rule, getattr(module, "groups", None), id(weight), id(bias))
        draft = drafts.setdefault(key, _Draft(rule, weight, bias))
        draft.modules.append(module)
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
        draft.weight is not None and draft.weight.requires_grad,
        draft.bias is not None and draft.bias.requires_grad,
        sizes[0].groups,
        sizes[0].channels,
        sizes[0].fan_in,
        tuple(size.positions for size in sizes),
    )
