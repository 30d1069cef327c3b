"""How to cut the work so that it fits the memory: examples, outputs, and the form of each unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from momentron.errors import InputError
from momentron.ntk.model_structure import ModelStructure

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
# flops of a matrix product that take as long as
PASS_COST = 5e8  # starting a pass through the model
BLOCK_COST = 2e7  # starting the products of two blocks
ELEMENTWISE = 16.0  # one operation with an entry
OFTEN_READ = 8.0  # a pass, for each entry of a parameter of which nothing else is known
FIRST_TOUCH = 64.0  # the first use of an entry of fresh memory


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


class Cost(NamedTuple):
    """Memory and work of derivatives, for one example."""

    stored: int  # entries kept
    passing: int  # entries held only while the batch of the example is being filled in
    build: float  # flops to make what is kept, besides the passes through the model
    pair: float  # flops of the inner products with another example, all outputs

    @classmethod
    def of(cls, P: int, F: int, C: int, outputs: int, across: bool) -> Cost:
        """Of u of P × F entries, and δ of P × C per output; `across`: all outputs are paired."""
        pairs = outputs**2 if across else 1
        stored = P * (F + outputs * C)
        products = 2.0 * (F + C * (pairs if across else outputs)) + ELEMENTWISE * pairs
        return cls(stored, P * (F + C), ELEMENTWISE * stored, P * P * products)

    @classmethod
    def written(cls, entries: int, flops: float, outputs: int, across: bool) -> Cost:
        """Of gradients that are written out, each with some flops."""
        whole = cls.of(1, 0, entries, outputs, across)
        return whole._replace(passing=3 * entries, build=whole.build + outputs * flops)


class Plan(NamedTuple):
    """Blocks of the work.

    The derivatives of `columns` examples of X2 are held while examples of X1 pass by, `step` of
    them at a time, which is also the size of batches.
    """

    structure: ModelStructure
    shape: KernelShape
    itemsize: int  # bytes of an entry of the derivatives
    factored: tuple[bool, ...]  # whether u and δ of a unit are kept, or its gradients
    total: Cost
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
        forward = 1 if structure.has_one_pass and columns <= step else self.chunks
        flops = sum(unit.flops for unit in structure.units)
        flops += OFTEN_READ * sum(structure.entries.values())
        through = (forward + structure.n_outputs) * (flops + PASS_COST / step)
        runs = -(-shape.n2 // columns) if columns else 1
        passing = float(self.partners * runs)
        if shape.symmetric:  # a block meets its own examples, and half of the others
            passing = self.partners * (runs + 1) / 2 - 1
        made = shape.n1 * passing + shape.n2
        cost = made * (through + self.chunks * self.total.build)
        cost += FIRST_TOUCH * (columns + step) * self.total.stored
        return cost + self.chunks * self.partners * (BLOCK_COST + shape.pairs * self.total.pair)


def make_plan(structure: ModelStructure, shape: KernelShape, itemsize: int, max_bytes: int) -> Plan:
    """The cheapest plan that fits; the least that can be done is one pair and one output."""
    budget = int(SHARE * max_bytes)
    plans = list(_candidates(structure, shape, itemsize, budget))
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
    usual = min(max(budget // 32, SCRATCH[0]), SCRATCH[1]) // itemsize

    def flops(cost: Cost) -> float:
        return (shape.n1 + shape.n2) * cost.build + shape.pairs * cost.pair

    for outputs in _halves(structure.n_outputs):
        rest = sum(structure.entries[name] for name in structure.unstructured)
        factored, costs = [], [Cost.written(rest, OFTEN_READ * rest, outputs, shape.across)]
        for unit in structure.units:
            entries = sum(structure.entries[name] for name in unit.names)
            sizes = unit.positions, unit.fan_in, unit.channels
            kept = Cost.of(*sizes, outputs, shape.across)
            written = Cost.written(entries, unit.flops, outputs, shape.across)
            factored.append(flops(kept) <= flops(written))
            costs.append(kept if factored[-1] else written)
        total = Cost(*map(sum, zip(*costs, strict=True)))
        positions = (unit.positions for unit in compress(structure.units, factored))
        paired = outputs if shape.across else 1
        scratch = max([usual, *((paired * P) ** 2 for P in (1, *positions))])
        for columns in _halves(shape.n2):
            plan = Plan(
                structure, shape, itemsize, tuple(factored), total, scratch, outputs, columns
            )
            each = plan._replace(step=2).n_bytes - plan.n_bytes
            step = max(1, min(shape.n1, STEP_LIMIT, 1 + (budget - plan.n_bytes) // max(each, 1)))
            yield plan._replace(step=-(-shape.n1 // -(-shape.n1 // step)))  # equal parts


def _halves(n: int) -> Iterator[int]:
    yield n
    while n > 1:
        n = -(-n // 2)
        yield n
