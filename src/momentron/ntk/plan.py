"""How to cut the work so that it fits the memory: examples, outputs, and the form of each unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from momentron.errors import InputError
from momentron.ntk.gradient_factors import FORMS, Factor, FormCost, written_cost
from momentron.ntk.model_structure import ModelStructure, Unit

_UNITS = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3}


def format_memory(n_bytes: float) -> str:
    """Bytes in the unit in which they read best, rounded up to two digits after the point.

    Examples
    --------
    >>> format_memory(1_234_000_000), format_memory(999)
    ('1.24GB', '999B')
    """
    for unit, size in _UNITS.items():
        if n_bytes >= size:
            hundredths = -int(-100 * n_bytes // size)
            return f"{hundredths / 100:.2f}{unit}"
    return f"{int(n_bytes)}B"


SHARE = 0.85  # of the limit is planned; allocators and matrix products keep the rest
STEP_LIMIT = 512  # examples that go through the model at once, at most
SCRATCH = (2**18, 2**24)  # the least and the most bytes of one scratch array
CALL_COST = 2e8  # flops that take as long as starting one pass through the model
VMAP_COST = 5e8  # the same for a pass by vmap
HOOKED = 1.5  # a pass that reads every unit's input and derivative, relative to a bare one
FIRST_TOUCH = 64.0  # flops that take as long as the first use of an entry of fresh memory


@dataclass(frozen=True)
class Plan:
    """Blocks of the work.

    Attributes
    ----------
    structure : ModelStructure
        What is differentiated as a unit, and what is not.
    forms : tuple of Factor types
        One per unit.
    outputs : int
        Outputs differentiated at a time.
    columns : int
        Examples of X2 whose derivatives are held while examples of X1 pass by.
    step : int
        Examples of X1 that pass by at a time; also the size of batches.
    scratch : int
        Entries of one scratch array.
    n_bytes : int
        The memory that all of it takes.
    cost : float
        Flops, by estimate.
    """

    structure: ModelStructure
    forms: tuple[type[Factor], ...]
    outputs: int
    columns: int
    step: int
    scratch: int
    n_bytes: int
    cost: float


@dataclass(frozen=True)
class KernelShape:
    """The size of a kernel: n1 × n2 examples, of which half where it is symmetric.

    For the diagonal alone n2 is 0: no block is held while others pass by. `across` says that all
    outputs are paired, not each with itself only.
    """

    n1: int
    n2: int
    symmetric: bool = False
    across: bool = False

    @property
    def pairs(self) -> float:
        if self.n2 == 0:
            return self.n1  # each with itself
        return self.n1 * self.n2 / (2 if self.symmetric else 1)


def make_plan(
    structures: Sequence[ModelStructure], shape: KernelShape, itemsize: int, max_bytes: int
) -> Plan:
    """The cheapest plan that fits, for any of these views of one model.

    Raises
    ------
    InputError
        If the least that can be done at a time, one pair and one output, takes more.
    """
    budget = int(SHARE * max_bytes)
    best, least = None, math.inf
    plans = (_candidates(structure, shape, itemsize, budget) for structure in structures)
    for plan in chain.from_iterable(plans):
        least = min(least, plan.n_bytes)
        if plan.n_bytes <= budget and (best is None or plan.cost < best.cost):
            best = plan
    if best is None:
        raise InputError(
            f"max_memory={format_memory(max_bytes)} is below the {format_memory(least / SHARE)} "
            "that one pair of examples takes; pass a larger max_memory"
        )
    return best


def _candidates(
    structure: ModelStructure, shape: KernelShape, itemsize: int, budget: int
) -> Iterator[Plan]:
    """Outputs and examples of X2 by halves; of X1, as many as fit, and at least one."""
    n1 = shape.n1
    usual = min(max(budget // 32, SCRATCH[0]), SCRATCH[1]) // itemsize
    for outputs in _halves(structure.n_outputs):
        work = _work(structure, shape, itemsize, outputs, usual)
        for columns in _halves(shape.n2):
            least = work.n_bytes(columns, 1)
            each = work.n_bytes(columns, 2) - least
            step = max(1, min(n1, STEP_LIMIT, 1 + (budget - least) // max(each, 1)))
            step = -(-n1 // -(-n1 // step))  # equal parts
            memory, cost = work.n_bytes(columns, step), work.flops(columns, step)
            yield Plan(structure, work.forms, outputs, columns, step, work.scratch, memory, cost)


def _halves(n: int) -> Iterator[int]:
    yield n
    while n > 1:
        n = -(-n // 2)
        yield n


def _cheapest_form(unit: Unit, shape: KernelShape, outputs: int) -> type[Factor]:
    def flops(form: type[Factor]) -> float:
        cost = form.cost(unit, outputs, shape.across)
        return (shape.n1 + shape.n2) * cost.build + shape.pairs * cost.pair

    return min((form for form in FORMS if form.suits(unit)), key=flops)


def _work(
    structure: ModelStructure, shape: KernelShape, itemsize: int, outputs: int, scratch: int
) -> _Work:
    """The sums over all units, in the cheapest form of each."""
    units = structure.units
    forms = tuple(_cheapest_form(unit, shape, outputs) for unit in units)
    costs = [form.cost(u, outputs, shape.across) for form, u in zip(forms, units, strict=True)]
    costs.append(written_cost(structure.unstructured_entries, outputs, shape.across))
    # patches are copied out of the input of one unit at a time
    patches = max((u.groups * u.total_positions * u.fan_in for u in units), default=0)
    squares = [f.least_scratch * u.total_positions**2 for f, u in zip(forms, units, strict=True)]
    total = FormCost(*map(sum, zip(*costs, strict=True)))
    chunks = -(-structure.n_outputs // outputs)
    return _Work(
        structure, shape, itemsize, forms, total, patches, max([scratch, *squares]), chunks
    )


class _Work(NamedTuple):
    """What the blocks of a plan take, whatever their size; `total` is for all units."""

    structure: ModelStructure
    shape: KernelShape
    itemsize: int
    forms: tuple[type[Factor], ...]
    total: FormCost
    patches: int
    scratch: int
    chunks: int

    @property
    def partners(self) -> int:
        """The chunks of outputs that each chunk is paired with."""
        return self.chunks if self.shape.across else 1

    def n_bytes(self, columns: int, step: int) -> int:
        """Bytes of the blocks that are held, of a batch under way, and of scratch arrays."""
        alone = self.shape.symmetric and columns >= self.shape.n1 and self.partners == 1
        kept = columns + (0 if alone else step)
        entries = kept * self.total.stored + step * (self.total.passing + self.patches)
        entries += 3 * self.scratch + 2 * columns * step
        return self.itemsize * entries + step * self.structure.graph_bytes + 16 * columns * step

    def flops(self, columns: int, step: int) -> float:
        """Flops of all passes and products, and of the first use of memory."""
        shape, structure = self.shape, self.structure
        passes = self.chunks + structure.n_outputs
        through = 0.0  # the model, for one example: once for units, once for the others
        if structure.units:
            through += passes * (HOOKED * structure.flops + CALL_COST / step)
        if structure.unstructured:
            if not structure.units and columns <= step:
                passes = 1 + structure.n_outputs
            through += passes * (structure.flops + VMAP_COST / step)
            through += structure.n_outputs * structure.unstructured_flops
        runs = -(-shape.n2 // columns) if columns else 1
        made = shape.n1 * self.partners * ((runs - 1) / 2 if shape.symmetric else runs) + shape.n2
        cost = made * (through + self.chunks * self.total.build)
        cost += FIRST_TOUCH * (columns + step) * self.total.stored
        return cost + shape.pairs * self.chunks * self.partners * self.total.pair
