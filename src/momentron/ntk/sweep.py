"""The loops over blocks of examples and of outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.ntk.blocks import Differentiator, GradientBlock
from momentron.ntk.examples import Examples
from momentron.ntk.plan import Plan
from momentron.ntk.symmetry import mirror

Progress = Callable[[int, int], Any]

PANELS = 4  # of rows, of a block with itself: the more, the less is computed below the diagonal


@dataclass
class Sweep:
    """Carries out a plan.

    Parameters
    ----------
    differentiate : Differentiator
    plan : Plan
    n_outputs : int
    progress : callable or None
    """

    differentiate: Differentiator
    plan: Plan
    n_outputs: int
    progress: Progress | None
    _done: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def symmetric(self, X: Examples) -> np.ndarray:
        """The kernel of X with itself, exactly symmetric."""
        n, step = len(X), self.plan.step
        kernel = np.zeros((n, n))
        blocks = list(_cut(n, self.plan.columns))
        self._start(sum(1 + -(-columns.start // step) for columns in blocks))
        for columns in blocks:
            for outputs in self._chunks():
                held = self._block(X, columns, outputs)
                for rows in _cut(held.n, min(step, -(-held.n // PANELS))):
                    after = slice(rows.start, held.n)
                    above = kernel[columns, columns][rows, after]
                    above += held.products(held, rows, after)
                self._advance()
                for rows in _cut(columns.start, step):
                    kernel[rows, columns] += self._products(X, rows, outputs, held)
                    self._advance()
                del held  # before the next is made
        mirror(kernel)
        return kernel

    def rectangular(
        self, X1: Examples, X2: Examples, *, squares: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The kernel of X1 with X2, and its two diagonals if they are asked for (else zeros)."""
        kernel = np.zeros((len(X1), len(X2)))
        diagonals = np.zeros(len(X1)), np.zeros(len(X2))
        blocks = list(_cut(len(X2), self.plan.columns))
        self._start(len(blocks) * -(-len(X1) // self.plan.step))
        for columns in blocks:
            for outputs in self._chunks():
                held = self._block(X2, columns, outputs)
                if squares:
                    diagonals[1][columns] += held.squares()
                for rows in _cut(len(X1), self.plan.step):
                    passing = self._block(X1, rows, outputs)
                    kernel[rows, columns] += _all_products(passing, held)
                    if squares and columns.start == 0:
                        diagonals[0][rows] += passing.squares()
                    del passing
                    self._advance()
                del held
        return kernel, *diagonals

    def diagonal(self, X: Examples) -> np.ndarray:
        """K(x, x) of each row."""
        squares = np.zeros(len(X))
        self._start(-(-len(X) // self.plan.step))
        for outputs in self._chunks():
            for rows in _cut(len(X), self.plan.step):
                squares[rows] += self._block(X, rows, outputs).squares()
                self._advance()
        return squares

    def _block(self, X: Examples, rows: slice, outputs: range) -> GradientBlock:
        return self.differentiate(X.rows, rows.start, rows.stop, outputs, self.plan.step)

    def _products(
        self, X: Examples, rows: slice, outputs: range, held: GradientBlock
    ) -> np.ndarray:
        return _all_products(self._block(X, rows, outputs), held)

    def _chunks(self) -> Iterator[range]:
        for part in _cut(self.n_outputs, self.plan.outputs):
            yield range(part.start, part.stop)

    def _start(self, blocks: int) -> None:
        self._done = 0
        self._total = blocks * -(-self.n_outputs // self.plan.outputs)

    def _advance(self) -> None:
        self._done += 1
        if self.progress is not None:
            self.progress(self._done, self._total)


def _all_products(left: GradientBlock, right: GradientBlock) -> np.ndarray:
    return left.products(right, slice(0, left.n), slice(0, right.n))


def _cut(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
