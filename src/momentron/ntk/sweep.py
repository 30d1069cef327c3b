"""The loops over blocks of examples and of outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from momentron.ntk.blocks import Differentiator, GradientBlock
from momentron.ntk.contraction import Contraction, Meeting
from momentron.ntk.examples import Examples
from momentron.ntk.plan import Plan
from momentron.progress import Tell

PANELS = 4  # of rows, of a block with itself: the more, the less is computed below the diagonal
LEAST_PANEL = 32  # rows, of which a product is nearly as fast as it can be


@dataclass
class Sweep:
    """Carries out a plan.

    Parameters
    ----------
    differentiate : Differentiator
    plan : Plan
    contraction : Contraction
    n_outputs : int
    tell : callable
        Told the share that is done.
    """

    differentiate: Differentiator
    plan: Plan
    contraction: Contraction
    n_outputs: int
    tell: Tell
    _done: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def symmetric(self, X: Examples, total: Tensor) -> None:
        """Add the kernel of X with itself to `total`, exactly symmetric."""
        n, step = len(X), self.plan.step
        blocks = list(_cut(n, self.plan.columns))
        self._start(
            sum(self._partners * (1 + -(-columns.start // step)) for columns in blocks)
            * len(self._chunks)
        )
        for columns in blocks:
            for b, held in self._blocks(X, columns):
                for a in self._meeting(b):
                    if a is b:
                        self._meet_itself(held, columns, b, total)
                    else:
                        self._meet_above(X, held, columns, a, b, total)
                    self._advance()
                    for rows in _cut(columns.start, step):
                        self._meet(self._block(X, rows, a), held, rows, columns, a, b, total)
                        self._advance()
                del held  # before the next is made
        self.contraction.mirror(total)

    def _meet_itself(self, held: GradientBlock, columns: slice, b: range, total: Tensor) -> None:
        panels = min(PANELS, max(1, held.n // LEAST_PANEL))
        for rows in _cut(held.n, min(self.plan.step, -(-held.n // panels))):
            after = slice(rows.start, held.n)
            places = _shifted(rows, columns), _shifted(after, columns)
            meetings = self.contraction.meetings(total, b, b, *places)
            held.add_products(held, rows, after, meetings)

    def _meet_above(
        self, X: Examples, held: GradientBlock, columns: slice, a: range, b: range, total: Tensor
    ) -> None:
        """Other outputs of the same examples, on and above the diagonal."""
        for part in _cut(held.n, self.plan.step):
            rows, after = _shifted(part, columns), slice(part.start, held.n)
            passing = self._block(X, rows, a)
            meetings = self.contraction.meetings(total, a, b, rows, _shifted(after, columns))
            passing.add_products(held, slice(0, passing.n), after, meetings)

    def rectangular(
        self, X1: Examples, X2: Examples, total: Tensor, squares: tuple[Tensor, Tensor] | None
    ) -> None:
        """Add the kernel of X1 with X2 to `total`, and K(x, x) of both to `squares` if given."""
        blocks = list(_cut(len(X2), self.plan.columns))
        chunks = len(self._chunks)
        self._start(len(blocks) * -(-len(X1) // self.plan.step) * chunks * self._partners)
        for columns in blocks:
            for b, held in self._blocks(X2, columns):
                if squares is not None:
                    _add_squares(held, b, squares[1][columns])
                for a in self._meeting(b):
                    for rows in _cut(len(X1), self.plan.step):
                        passing = self._block(X1, rows, a)
                        self._meet(passing, held, rows, columns, a, b, total)
                        if squares is not None and columns.start == 0:
                            _add_squares(passing, a, squares[0][rows])
                        del passing
                        self._advance()
                del held

    def diagonal(self, X: Examples, total: Tensor) -> None:
        """Add K(x, x) of each row to `total`."""
        self._start(-(-len(X) // self.plan.step) * len(self._chunks) * self._partners)
        for rows in _cut(len(X), self.plan.step):
            for b, held in self._blocks(X, rows):
                for a in self._meeting(b):
                    other = held if a is b else self._block(X, rows, a)
                    other.add_squares(held, self.contraction.on_diagonal(total, a, b, rows))
                    del other
                    self._advance()
                del held

    def _meet(
        self,
        passing: GradientBlock,
        held: GradientBlock,
        rows: slice,
        columns: slice,
        a: range,
        b: range,
        total: Tensor,
    ) -> None:
        meetings = self.contraction.meetings(total, a, b, rows, columns)
        passing.add_products(held, slice(0, passing.n), slice(0, held.n), meetings)

    def _block(self, X: Examples, rows: slice, outputs: range) -> GradientBlock:
        return self.differentiate(X, rows, outputs, self.plan.step)

    def _blocks(self, X: Examples, rows: slice) -> Iterator[tuple[range, GradientBlock]]:
        """The blocks of all chunks of outputs, one after the other."""
        return self.differentiate.chunks(X, rows, self._chunks, self.plan.step)

    @property
    def _chunks(self) -> list[range]:
        return [range(c.start, c.stop) for c in _cut(self.n_outputs, self.plan.outputs)]

    @property
    def _partners(self) -> int:
        """Chunks that a chunk meets."""
        return len(self._chunks) if self.contraction.across else 1

    def _meeting(self, b: range) -> list[range]:
        """The chunks that this one meets; itself is the very object."""
        if not self.contraction.across:
            return [b]
        return [b if chunk == b else chunk for chunk in self._chunks]

    def _start(self, steps: int) -> None:
        self._done, self._total = 0, steps

    def _advance(self) -> None:
        self._done += 1
        self.tell(self._done / self._total)


def _add_squares(block: GradientBlock, outputs: range, target: Tensor) -> None:
    every = slice(0, len(outputs))
    block.add_squares(block, [Meeting(every, every, target)])


def _cut(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _shifted(part: slice, whole: slice) -> slice:
    return slice(whole.start + part.start, whole.start + part.stop)
