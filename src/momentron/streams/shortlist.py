"""The rows of highest rank in each class: a bounded list, the same in whatever order rows come."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentron.streams.blocks import Rows, stack


@dataclass
class ClassRows:
    """Rows with their ranks and numbers, of one class."""

    ranks: list[np.ndarray] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    size: int = 0
    bar: float = -np.inf  # a rank below which no row is wanted any more

    def add(self, ranks: np.ndarray, numbers: np.ndarray, rows: Any) -> None:
        self.ranks.append(ranks)
        self.numbers.append(numbers)
        self.rows.append(rows)
        self.size += ranks.size

    def trim(self, capacity: int) -> None:
        """Keep the highest ranks; of equal ones the earliest rows, whatever order they came in."""
        ranks, numbers = np.concatenate(self.ranks), np.concatenate(self.numbers)
        rows = stack(self.rows)
        if ranks.size > capacity:
            kept = np.lexsort((numbers, -ranks))[:capacity]
            ranks, numbers, rows = ranks[kept], numbers[kept], rows[kept]
            self.bar = float(ranks.min())
        self.ranks, self.numbers, self.rows = [ranks], [numbers], [rows]
        self.size = ranks.size


class Shortlist:
    """The rows of highest rank, about `total` of them, as many of each class.

    `bars` are ranks below which rows of a class are not wanted at all.
    As classes appear the room of each shrinks; what was dropped before would have been dropped
    after. Rows are kept as they come and trimmed when there are twice as many, so that a row costs
    a comparison and, rarely, a copy. Two lists merge into the list of all their rows.
    """

    def __init__(self, total: int, bars: Mapping[Any, float] | None = None) -> None:
        self.total = total
        self.classes = {label: ClassRows(bar=bar) for label, bar in (bars or {}).items()}

    @property
    def capacity(self) -> int:
        """Rows that each class may keep."""
        return max(1, self.total // max(2, len(self.classes)))

    def begun(self) -> "Shortlist":
        """An empty list that wants what this one would still take."""
        other = Shortlist(self.total)
        other.classes = {label: ClassRows(bar=few.bar) for label, few in self.classes.items()}
        return other

    def offer(
        self, label: Hashable, ranks: np.ndarray, index: np.ndarray, X: Any, first: int
    ) -> None:
        """Take those of the rows X[index], of one class, that rank high enough.

        `first` is the number of the first row of X.
        """
        few = self.classes.setdefault(label, ClassRows())
        wanted = np.flatnonzero(ranks >= few.bar)
        if wanted.size == 0:
            return
        if wanted.size > self.capacity:
            order = np.lexsort((index[wanted], -ranks[wanted]))
            wanted = wanted[order[: self.capacity]]
        few.add(ranks[wanted], first + index[wanted], X[index[wanted]])
        if few.size >= 2 * self.capacity:
            few.trim(self.capacity)

    def take(self, other: "Shortlist") -> None:
        """Merge another list into this one."""
        for label, theirs in other.classes.items():
            few = self.classes.setdefault(label, ClassRows())
            for ranks, numbers, rows in zip(theirs.ranks, theirs.numbers, theirs.rows, strict=True):
                few.add(ranks, numbers, rows)
            few.bar = max(few.bar, theirs.bar)
            if few.size >= 2 * self.capacity:
                few.trim(self.capacity)

    def close(self) -> None:
        """Trim every class to its capacity."""
        for few in self.classes.values():
            if few.size:
                few.trim(self.capacity)

    def chosen(self) -> Rows | None:
        """The rows kept, if any, with their labels as codes."""
        labels, numbers, X = self.rows()
        return Rows(X, np.array(labels), numbers) if labels else None

    def rows(self) -> tuple[list[Hashable], np.ndarray, Any]:
        """(label of each row, numbers, X) of all the rows kept, class by class."""
        self.close()
        labels: list[Hashable] = []
        parts = []
        for label in sorted(self.classes, key=str):
            few = self.classes[label]
            if few.size:
                labels += [label] * few.size
                parts.append(few)
        if not parts:
            return [], np.empty(0, int), None
        numbers = np.concatenate([few.numbers[0] for few in parts])
        return labels, numbers, stack([few.rows[0] for few in parts])
