"""The first pass: how many rows, which classes, how long the rows are, and a sample of them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentron.arithmetic.rounding import SINGLE_ROUNDOFF, gamma
from momentron.errors import InputError
from momentron.rows.operator import norm_upper_bounds, squared_row_norms
from momentron.rows.validation import clean_matrix, sorted_labels
from momentron.streams.blocks import (
    Block,
    Rows,
    Shortlist,
    entries_per_row,
    kind_of,
    large_tiles,
    tiles,
)
from momentron.streams.source import BLOCK_BYTES
from momentron.streams.stream import Stream

MOST_CLASSES = 10_000
WORKING_BYTES = 8 * BLOCK_BYTES  # that a working set may take
LEAST_ROWS = 500  # of a working set, however small the memory
NEW_SHARE = 8  # one in this many rows of a full working set is in the first, and new in each pass
LIMITS = {4: 40, 8: 300}  # binary exponents within which squares and quotients are safe


@dataclass
class FirstPassResult:
    """What all the blocks hold together.

    Attributes
    ----------
    width : int
        Features.
    counts : dict
        How many rows every label has.
    longest : float
        An upper bound of max‖x‖.
    stored : int
        The most entries that a row holds.
    room : int
        How many rows a working set may have.
    total : ndarray of shape (width,), or 0
        The sum of the rows, each block's in the precision of X.
    kept : list of Rows
        Rows that somebody asked for, with their labels as codes.
    summaries : list of (int, ndarray, ndarray, ndarray)
        Of each block, if asked for, the number of its first row, its labels, the places of the
        rows' labels among these, and the rows' ‖x‖².
    """

    width: int
    is_sparse: bool
    itemsize: int
    kind: str
    sample: Shortlist
    room: int
    counts: dict[Any, int] = field(default_factory=dict)
    longest: float = 0.0
    stored: int = 0
    total: Any = 0.0
    kept: list[Rows] = field(default_factory=list)
    summaries: list[Any] = field(default_factory=list)

    def codes_and_squares(self) -> tuple[np.ndarray, np.ndarray]:
        """(the codes, ‖x‖²) of all the rows, from the summaries of the blocks."""
        parts = sorted(self.summaries, key=lambda part: part[0])
        codes = [np.searchsorted(self.classes, labels)[codes] for _, labels, codes, _ in parts]
        return np.concatenate(codes), np.concatenate([squares for *_, squares in parts])

    @property
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

    def wanted_rows(self) -> Rows | None:
        """The rows that somebody asked for, by their numbers, with codes in place of labels."""
        if not self.kept:
            return None
        rows = Rows.joined(self.kept).coded(self.classes)
        return rows.chosen(np.argsort(rows.numbers))

    @property
    def n_rows(self) -> int:
        return sum(self.counts.values())

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of the rows, about: any point may be the centre."""
        return np.asarray(self.total / self.n_rows)

    @cached_property
    def some_row_length(self) -> float:
        """max‖x − centre‖ over the sample, which may be all the rows, as `radius_about` has it."""
        sample = self.sample.chosen()
        assert sample is not None, "every class has rows"
        rows = (sample.X.toarray() if sp.issparse(sample.X) else sample.X) - self.centre
        return self.radius_about(float(np.einsum("ij,ij->i", rows, rows).max()))

    def radius_about(self, square: float) -> float:
        """max‖x − centre‖ from its computed square, with what rounding may have cost."""
        length = self.longest + float(np.linalg.norm(self.centre))
        lost = 8.0 * gamma(2 * self.width + 8) * length**2
        return min(2.0 * self.longest, float(np.sqrt(max(0.0, square) + lost)))

    def require_usable(self) -> None:
        """Refuse fewer than two classes, and rows whose squares leave the range of floats."""
        if len(self.counts) < 2:
            raise InputError(
                f"y has {len(self.counts)} class; max_margin needs at least 2: pass rows of two or "
                "more"
            )
        limit = LIMITS[self.itemsize]
        if self.longest > 0.0 and not 2.0**-limit < self.longest < 2.0**limit:
            raise InputError(
                f"the longest row has length {self.longest:.3g}; in blocks it must lie between "
                f"2**-{limit} and 2**{limit}: rescale X"
            )


@dataclass
class FirstPass:
    """The task of the first pass.

    Which rows are in the sample follows from the seed and the rows' numbers alone, so that blocks
    of any size give the same sample.
    """

    n_sample: int  # rows of the sample at most, as many of each class
    seed: int = 0
    wanted: np.ndarray | None = None  # sorted numbers of rows to bring back
    memory: int = WORKING_BYTES  # of a working set; the sample has one in NEW_SHARE of its rows
    is_summary_wanted: bool = False  # whether the label and the length of every row are kept

    def __call__(self, block: Block, so_far: FirstPassResult | None = None) -> FirstPassResult:
        X = block.X
        room = max(LEAST_ROWS, self.memory // (8 * entries_per_row(X)))
        sample = Shortlist(0) if so_far is None else so_far.sample.begun()
        sample.total = min(self.n_sample, room // NEW_SHARE)
        kind = kind_of(block.y)
        found = FirstPassResult(X.shape[1], sp.issparse(X), X.dtype.itemsize, kind, sample, room)
        if self.wanted is not None and (kept := block.kept(self.wanted)) is not None:
            found.kept = [kept]
        self._measure(block, found)
        labels, codes = sorted_labels(block.y)
        if self.is_summary_wanted:
            found.summaries = [(block.first, labels, codes, squared_row_norms(X))]
        keys = row_keys(block.first, block.y.size, self.seed)
        for code, label in enumerate(labels.tolist()):
            index = np.flatnonzero(codes == code)
            if index.size == 0:
                continue
            found.counts[label] = index.size
            sample.offer(label, keys[index], index, X, block.first)
        return found

    @staticmethod
    def _measure(block: Block, found: FirstPassResult) -> None:
        """A bound on the length of the longest row, from squares in the precision of X."""
        X = block.X
        largest = max(_largest_square(X[rows]) for rows in large_tiles(X))
        if not np.isfinite(largest):
            _refuse(block)
        ones = np.ones(X.shape[0], X.dtype)
        with np.errstate(over="ignore"):
            found.total = np.asarray(X.T @ ones, np.float64)
        found.stored = int(np.diff(X.indptr).max(initial=0)) if found.is_sparse else X.shape[1]
        found.longest = float(norm_upper_bounds(np.array([largest]), found.stored)[0])
        if largest == 0.0:  # every row is zero, or all squares have vanished
            found.longest = found.stored * float(max(-X.min(), X.max()))
        if X.dtype == np.float32 and found.longest > 0.0:
            vanished = found.stored * 2.0**-63  # squares below the smallest float32
            grown = 1.0 + gamma(found.stored + 4, SINGLE_ROUNDOFF)
            found.longest = found.longest * grown + vanished

    @staticmethod
    def merge(a: FirstPassResult, b: FirstPassResult) -> FirstPassResult:
        """Both, in a."""
        if (a.is_sparse, a.kind) != (b.is_sparse, b.kind):
            raise InputError(
                "blocks differ: some are sparse and some dense, or their labels are numbers in one "
                "and text in another; every block must have the same kind"
            )
        if a.width != b.width:
            raise InputError(f"blocks have {a.width} and {b.width} features; they must agree")
        for label, count in b.counts.items():
            a.counts[label] = a.counts.get(label, 0) + count
        if len(a.counts) > MOST_CLASSES:
            raise InputError(f"y has more than {MOST_CLASSES} classes; are these labels numbers?")
        a.itemsize = max(a.itemsize, b.itemsize)
        a.longest, a.stored = max(a.longest, b.longest), max(a.stored, b.stored)
        a.total, a.room = a.total + b.total, min(a.room, b.room)
        a.kept += b.kept
        a.summaries += b.summaries
        a.sample.take(b.sample)
        return a


def _largest_square(tile: Any) -> float:
    """max‖x‖² over the rows, in the tile's own precision; not finite if any entry is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = _squares(tile)
    largest = float(squares.max(initial=0.0))
    return largest if np.isfinite(squares.sum()) else np.inf


def _squares(X: Any) -> np.ndarray:
    """‖x‖² of each row, in its own precision."""
    return squared_row_norms(X) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def _refuse(block: Block) -> None:
    """Name the first entry that is not finite, or whose square is not."""
    try:
        clean_matrix(block.X)
    except InputError as error:
        raise InputError(f"block {block.number} (rows from {block.first} on): {error}") from None
    raise InputError(f"block {block.number} has entries whose squares overflow: rescale X")


def row_keys(first: int, size: int, seed: int) -> np.ndarray:
    """A random rank in [0, 1) for each of the rows from number `first` on, whatever the block."""
    bits, skipped = np.random.Philox(key=seed % 2**64), first % 4
    bits.advance(first // 4)  # four numbers at a time
    return np.random.Generator(bits).random(skipped + size)[skipped:]


# --- how far rows lie from a centre: the unit in which Algorithm 1 takes its steps ---------------


class Spread:
    """The task of measuring max‖x − c‖: it finds max ‖x‖² − 2⟨x, c⟩."""

    def __init__(self, centre: np.ndarray) -> None:
        self.centre = centre

    def __call__(self, block: Block, so_far: Any = None) -> float:
        farthest = -np.inf
        for rows in tiles(block.X):
            X = block.X[rows].astype(np.float64, copy=False)
            farthest = max(farthest, float((_squares(X) - 2.0 * (X @ self.centre)).max()))
        return farthest

    @staticmethod
    def merge(a: float, b: float) -> float:
        return max(a, b)


def centred_radius(stream: Stream, found: FirstPassResult) -> float:
    """max‖x − c‖ over all the rows, c their mean, rounded up; at the cost of a pass."""
    centre = found.centre
    return found.radius_about(stream.run(Spread(centre)) + float(centre @ centre))
