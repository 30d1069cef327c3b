"""The first pass: how many rows, which classes, how long the rows are, and a sample of them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.errors import InputError
from momentron.rows.operator import norm_upper_bounds, squared_row_norms
from momentron.rows.validation import clean_matrix, require_two_classes, sorted_labels
from momentron.streams.blocks import Block, Shortlist, entries_per_row
from momentron.streams.source import BLOCK_BYTES

MOST_CLASSES = 10_000
WORKING_BYTES = 8 * BLOCK_BYTES  # that a working set may take
LEAST_ROWS = 500  # of a working set, however small the memory
NEW_SHARE = 8  # one in this many rows of a full working set is in the first, and new in each pass
LIMIT = 300  # the binary exponent within which squares and quotients are safe


@dataclass
class FirstPassResult:
    """What all the blocks hold together."""

    width: int  # features
    is_sparse: bool
    kind: str  # of labels: numbers or text
    sample: Shortlist
    room: int  # how many rows a working set may have,
    memory: int  # in this many bytes
    counts: dict[Any, int] = field(default_factory=dict)  # how many rows every label has
    longest: float = 0.0  # an upper bound of max‖x‖
    stored: int = 0  # the most entries that a row holds
    total: Any = 0.0  # the sum of the rows, each block's in the precision of X
    # of each block, by the number of its first row: its labels, the places of the rows' labels
    # among these, and the rows' ‖x‖²
    summaries: dict[int, tuple[np.ndarray, ...]] = field(default_factory=dict)

    def codes(self) -> np.ndarray:
        """The codes of all the rows."""
        parts = [self.summaries[first] for first in sorted(self.summaries)]
        return np.concatenate([np.searchsorted(self.classes, part[0])[part[1]] for part in parts])

    def squares(self) -> np.ndarray:
        """‖x‖² of all the rows."""
        return np.concatenate([self.summaries[first][2] for first in sorted(self.summaries)])

    @cached_property
    def classes(self) -> np.ndarray:
        """The labels in sorted order."""
        labels = list(self.counts)
        found = np.unique(np.array(labels))
        if found.size < len(labels):  # integers in one block and floats in another
            raise InputError(
                f"y has {len(labels)} labels, but only {found.size} as a numpy array of "
                f"{found.dtype}; give labels of the same type in all blocks"
            )
        return found

    @property
    def n_rows(self) -> int:
        return sum(self.counts.values())

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of the rows, about: any point may be the centre."""
        return np.asarray(self.total / self.n_rows)

    def require_usable(self) -> None:
        """Refuse fewer than two classes, and rows whose squares leave the range of floats."""
        require_two_classes(len(self.counts))
        if self.longest > 0.0 and not 2.0**-LIMIT < self.longest < 2.0**LIMIT:
            raise InputError(
                f"the longest row has length {self.longest:.3g}; in blocks it must lie between "
                f"2**-{LIMIT} and 2**{LIMIT}: rescale X"
            )


@dataclass
class FirstPass:
    """The task of the first pass.

    Which rows are in the sample follows from the seed and the rows' numbers alone, so that blocks
    of any size give the same sample.
    """

    n_sample: int  # rows of the sample at most, as many of each class
    seed: int = 0
    memory: int = WORKING_BYTES  # of a working set; the sample has one in NEW_SHARE of its rows

    def __call__(self, block: Block, so_far: FirstPassResult | None = None) -> FirstPassResult:
        X = block.X
        room = max(LEAST_ROWS, self.memory // (8 * entries_per_row(X)))
        total = min(self.n_sample, room // NEW_SHARE)
        sample = Shortlist(total, None if so_far is None else so_far.sample.bars)
        kind = "numbers" if block.y.dtype.kind in "biuf" else "text"
        found = FirstPassResult(X.shape[1], sp.issparse(X), kind, sample, room, self.memory)
        labels, codes = sorted_labels(block.y)
        found.summaries[block.first] = labels, codes, self._measured(block, found)
        # a random rank for each row, whatever the block; four numbers at a time
        bits, skipped = np.random.Philox(key=self.seed % 2**64), block.first % 4
        bits.advance(block.first // 4)
        keys = np.random.Generator(bits).random(skipped + codes.size)[skipped:]
        found.counts = dict(zip(labels.tolist(), np.bincount(codes).tolist(), strict=True))
        sample.offer(block, keys, codes, found.counts)
        return found

    @staticmethod
    def _measured(block: Block, found: FirstPassResult) -> np.ndarray:
        """‖x‖² of the rows; the longest of them and their sum are noted."""
        X = block.X
        squares = squared_row_norms(X)
        if not np.isfinite(squares.sum()):
            try:
                clean_matrix(X, block.first)  # names the first entry that is not finite
            except InputError as error:
                raise InputError(f"block {block.number} cannot be used: {error}") from None
        with np.errstate(over="ignore"):
            found.total = np.asarray(X.T @ np.ones(X.shape[0], X.dtype), np.float64)
        found.stored = int(np.diff(X.indptr).max(initial=0)) if found.is_sparse else X.shape[1]
        found.longest = float(norm_upper_bounds(squares, found.stored).max())
        if found.longest == 0.0:  # every row is zero, or all squares have vanished
            found.longest = found.stored * float(max(-X.min(), X.max()))
        return squares

    @staticmethod
    def merge(a: FirstPassResult, b: FirstPassResult) -> FirstPassResult:
        """Both, in a."""
        if (a.width, a.is_sparse, a.kind) != (b.width, b.is_sparse, b.kind):
            raise InputError(
                f"blocks differ: they have {a.width} and {b.width} features, labels that are "
                f"{a.kind} and {b.kind}, or some are sparse and some dense; they must agree"
            )
        for label, count in b.counts.items():
            a.counts[label] = a.counts.get(label, 0) + count
        if len(a.counts) > MOST_CLASSES:
            raise InputError(f"y has more than {MOST_CLASSES} classes; are these labels numbers?")
        a.longest, a.stored = max(a.longest, b.longest), max(a.stored, b.stored)
        a.total, a.room = a.total + b.total, min(a.room, b.room)
        a.summaries |= b.summaries
        a.sample.take(b.sample)
        return a
