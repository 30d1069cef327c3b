"""How to cut the work so that it fits the memory: examples, outputs, and the form of each unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


class Plan(NamedTuple):
    """Blocks of the work.

    The derivatives of `columns` examples of X2 are held while examples of X1 pass by, `step` of
    them at a time, which is also the size of batches.
    """

    structure: ModelStructure
    shape: KernelShape
    itemsize: int  # bytes of an entry of the derivatives
    forms: tuple[type[Factor], ...]  # one per unit
    total: FormCost  # of all units and other parameters
    scratch: int  # entries of one scratch array
    outputs: int  # differentiated at a time
    columns: int = 1
    step: int = 1

    @property
    def chunks(self) -> int:
        """Into which the outputs are cut."""
        return -(-self.structure.n_outputs // self.outputs)

    @property
    def partners(self) -> int:
        """The chunks of outputs that each chunk is paired with."""
        return self.chunks if self.shape.across else 1

    @property
    def n_bytes(self) -> int:
        """Bytes of the blocks that are held, of a batch under way, and of scratch arrays."""
        columns, step = self.columns, self.step
        alone = self.shape.symmetric and columns >= self.shape.n1 and self.partners == 1
        kept = columns + (0 if alone else step)
        entries = kept * self.total.stored + step * self.total.passing
        entries += 3 * self.scratch + 2 * columns * step
        return self.itemsize * entries + step * self.structure.graph_bytes + 16 * columns * step

    @property
    def cost(self) -> float:
        """Flops of all passes and products, and of the first use of memory, by estimate."""
        shape, structure, columns, step = self.shape, self.structure, self.columns, self.step
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


def make_plan(
    structures: Sequence[ModelStructure], shape: KernelShape, itemsize: int, max_bytes: int
) -> Plan:
    """The cheapest plan that fits, for any of these views of one model.

    The least that can be done at a time is one pair and one output.
    """
    budget = int(SHARE * max_bytes)
    plans = [
        plan for structure in structures for plan in _candidates(structure, shape, itemsize, budget)
    ]
    fitting = [plan for plan in plans if plan.n_bytes <= budget]
    if not fitting:
        least = min(plan.n_bytes for plan in plans)
        raise InputError(
            f"max_memory={format_memory(max_bytes)} is below the {format_memory(least / SHARE)} "
            "that one pair of examples takes; pass a larger max_memory"
        )
    return min(fitting, key=lambda plan: plan.cost)


def _candidates(
    structure: ModelStructure, shape: KernelShape, itemsize: int, budget: int
) -> Iterator[Plan]:
    """Outputs and examples of X2 by halves; of X1, as many as fit, and at least one."""
    n1, units = shape.n1, structure.units
    usual = min(max(budget // 32, SCRATCH[0]), SCRATCH[1]) // itemsize
    # patches are copied out of the input of one unit at a time
    patches = max((u.groups * u.total_positions * u.fan_in for u in units), default=0)
    for outputs in _halves(structure.n_outputs):
        forms = tuple(_cheapest_form(unit, shape, outputs) for unit in units)
        costs = [form.cost(u, outputs, shape.across) for form, u in zip(forms, units, strict=True)]
        costs.append(written_cost(sum(structure.unstructured.values()), outputs, shape.across))
        total = FormCost(*map(sum, zip(*costs, strict=True)))
        total = total._replace(passing=total.passing + patches)
        squares = (
            f.least_scratch * u.total_positions**2 for f, u in zip(forms, units, strict=True)
        )
        scratch = max([usual, *squares])
        for columns in _halves(shape.n2):
            plan = Plan(structure, shape, itemsize, forms, total, scratch, outputs, columns)
            each = plan._replace(step=2).n_bytes - plan.n_bytes
            step = max(1, min(n1, STEP_LIMIT, 1 + (budget - plan.n_bytes) // max(each, 1)))
            yield plan._replace(step=-(-n1 // -(-n1 // step)))  # equal parts


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
