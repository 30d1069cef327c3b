"""Columns of a symmetric matrix that is too large to hold: the latest used are kept."""

from collections.abc import Callable

import numpy as np

COLUMNS = 512  # computed at a time: enough for products in several threads to run at full speed
STRIP = 256  # rows of a block computed or copied at a time
TILE_VALUES = 1 << 22  # values computed or copied at a time: 32 MB

Index = np.ndarray | slice


class ColumnCache:
    """K[:, j] for the columns that were used last, as many as fit into the memory allowed.

    Each is a row of one array, so that K[:, index] @ a is one product with BLAS for all columns
    that are in it. The array is as long as the limit allows from the start: the system gives memory
    to the rows that have been written to, and the first slots are filled first.

    Parameters
    ----------
    compute : callable
        compute(rows, cols) = K[rows][:, cols]; rows and cols are index arrays or slices. What it
        returns is read only. By symmetry this is how columns are had, too.
    n : int
        K has shape (n, n).
    max_bytes : int
        Memory for columns; 0 keeps none.

    Attributes
    ----------
    evaluations : int
        How many values of K were computed so far.
    hits : int
        How many were found instead.
    """

    is_lent_whole = True  # what it returns is always a copy

    def __init__(
        self, compute: Callable[[Index, Index], np.ndarray], n: int, max_bytes: int
    ) -> None:
        self.n = n
        self.evaluations = 0
        self.hits = 0
        self._compute = compute
        self._owns_store = True
        self._capacity = max(0, min(n, int(max_bytes) // (8 * n)))
        self._store = np.empty((0, n))
        self._slot_of = np.full(n, -1, np.intp)
        self._column_of = np.empty(0, np.intp)  # −1 where a slot is free
        self._last_use = np.empty(0, np.int64)
        self._clock = 0

    @classmethod
    def complete(cls, matrix: np.ndarray) -> "ColumnCache":
        """All of K, a float64 array in C or Fortran order, is there: nothing is ever computed."""
        n = matrix.shape[0]
        cache = cls(lambda rows, cols: matrix[rows][:, cols], n, matrix.nbytes)
        cache._owns_store = False
        cache._store = matrix if matrix.flags.c_contiguous else matrix.T
        cache._slot_of = np.arange(n)
        cache._column_of = np.arange(n)
        cache._last_use = np.zeros(n, np.int64)
        return cache

    @property
    def nbytes(self) -> int:
        """Memory that the columns take, up to the last slot in use."""
        used = np.flatnonzero(self._column_of >= 0)
        return 8 * self.n * (int(used[-1]) + 1) if self._owns_store and used.size else 0

    @property
    def size(self) -> int:
        """How many columns are held."""
        return int(np.count_nonzero(self._column_of >= 0))

    def holds(self, index: np.ndarray) -> bool:
        """Whether all these columns are in memory."""
        return bool(np.all(self._slot_of[index] >= 0))

    # --- products ----------------------------------------------------------------------------

    def product(self, index: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, index] @ a for distinct columns; a has shape (l,) or (l, k).

        Columns that are missing cost n values each, and are kept as far as there is room: others
        make way for them, the least recently used first, but none that this product needs.
        """
        weights = np.asarray(a, dtype=np.float64).T
        total = np.zeros((*weights.shape[:-1], self.n))
        self._clock += 1
        slots = self._slot_of[index]
        is_held = slots >= 0
        if is_held.any():
            self._add_held(slots[is_held], weights[..., is_held], total)
        missing = np.flatnonzero(~is_held)
        if missing.size:
            room = self._make_room(missing.size)
            for start in range(0, missing.size, COLUMNS):
                part = missing[start : start + COLUMNS]
                places = room[start : start + COLUMNS]  # fewer than part, or none, when it is full
                self._add_missing(index[part], weights[..., part], places, total)
        return total.T

    def _add_held(self, slots: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
        self._last_use[slots] = self._clock
        self.hits += self.n * slots.size
        top = int(slots.max()) + 1
        if 3 * slots.size >= top:
            # reading a column that does not count is cheaper than copying those that do
            spread = np.zeros((*weights.shape[:-1], top))
            spread[..., slots] = weights
            total += spread @ self._store[:top]
            return
        step = max(1, TILE_VALUES // self.n)
        for start in range(0, slots.size, step):
            part = slice(start, start + step)
            total += weights[..., part] @ self._store[slots[part]]

    def _add_missing(
        self, columns: np.ndarray, weights: np.ndarray, places: np.ndarray, total: np.ndarray
    ) -> None:
        """Compute some columns, use them, and keep as many as there are places."""
        index = _as_run(columns)
        height = max(1, TILE_VALUES // columns.size)
        for start in range(0, self.n, height):
            rows = slice(start, min(start + height, self.n))
            tile = self._compute(index, rows)
            self.evaluations += tile.size
            total[..., rows] += weights @ tile
            if places.size:
                self._store[places, rows] = tile[: places.size]
        # only now, so that an error on the way leaves no half of a column behind
        kept = columns[: places.size]
        self._slot_of[kept] = places
        self._column_of[places] = kept
        self._last_use[places] = self._clock

    # --- blocks ------------------------------------------------------------------------------

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows][:, cols]; what neither a column nor a row held here gives is computed."""
        values = np.empty((rows.size, cols.size))
        self._clock += 1
        slots = self._slot_of[cols]
        is_held = slots >= 0
        for part in _strips(np.flatnonzero(is_held)):
            values[:, part] = self._held(slots[part], rows).T
        rest = np.flatnonzero(~is_held)
        if rest.size:
            slots = self._slot_of[rows]
            is_held = slots >= 0
            for part in _strips(np.flatnonzero(is_held)):
                values[np.ix_(part, rest)] = self._held(slots[part], cols[rest])
            self._fill(values, np.flatnonzero(~is_held), rest, rows, cols)
        return values

    def _held(self, slots: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Some values of each of some columns that are held, a row for each column."""
        self._last_use[slots] = self._clock
        self.hits += slots.size * others.size
        return self._store[slots[:, None], others]

    def _fill(
        self,
        values: np.ndarray,
        lacking: np.ndarray,
        rest: np.ndarray,
        rows: np.ndarray,
        cols: np.ndarray,
    ) -> None:
        """Compute the entries values[lacking][:, rest] of the block for rows and cols.

        Of a square block on the diagonal of K, a little more than the upper half.
        """
        is_symmetric = rows is cols
        step = max(1, TILE_VALUES // max(rest.size, 1))
        if is_symmetric:
            step = min(step, STRIP)
        for start in range(0, lacking.size, step):
            part = lacking[start : start + step]
            others = rest[start:] if is_symmetric else rest
            computed = self._compute(_as_run(rows[part]), _as_run(cols[others]))
            self.evaluations += computed.size
            values[np.ix_(part, others)] = computed
            if is_symmetric:
                values[np.ix_(others[part.size :], part)] = computed[:, part.size :].T

    # --- room --------------------------------------------------------------------------------

    def _make_room(self, count: int) -> np.ndarray:
        """Free slots for as many columns as there can be, at most `count`."""
        free = np.flatnonzero(self._column_of < 0)
        if free.size < count and not self._store.size:
            self._store = np.empty((self._capacity, self.n))
            self._set_length(self._capacity)
            free = np.flatnonzero(self._column_of < 0)
        if free.size < count:
            old = np.flatnonzero((self._column_of >= 0) & (self._last_use < self._clock))
            out = self._oldest(old, count - free.size)
            self._drop(out)
            free = np.concatenate([free, out])
        return free[:count]

    def _oldest(self, slots: np.ndarray, count: int) -> np.ndarray:
        """Those of the slots, at most `count`, whose last use is the longest ago."""
        if count >= slots.size:
            return slots
        return slots[np.argpartition(self._last_use[slots], count)[:count]]

    def _drop(self, slots: np.ndarray) -> None:
        self._slot_of[self._column_of[slots]] = -1
        self._column_of[slots] = -1

    def _set_length(self, length: int) -> None:
        """Cut the store, in its place."""
        kept = min(length, self._column_of.size)
        self._store.resize((length, self.n), refcheck=False)  # no view of it ever leaves this class
        column_of, last_use = np.full(length, -1, np.intp), np.zeros(length, np.int64)
        column_of[:kept], last_use[:kept] = self._column_of[:kept], self._last_use[:kept]
        self._column_of, self._last_use = column_of, last_use

    def resize(self, max_bytes: int) -> None:
        """Allow less memory: the least recently used columns go at once.

        More than it has once it holds columns it does not get back: to extend an array may take a
        second one. A complete matrix is not the cache's own, and stays.
        """
        if not self._owns_store:
            return
        self._capacity = max(0, min(self.n, int(max_bytes) // (8 * self.n)))
        if self._store.shape[0] <= self._capacity:
            return
        held = np.flatnonzero(self._column_of >= 0)
        self._drop(self._oldest(held, max(0, held.size - self._capacity)))
        held = np.flatnonzero(self._column_of >= 0)
        free = np.flatnonzero(self._column_of[: self._capacity] < 0)
        for source, target in zip(held[held >= self._capacity], free, strict=False):
            self._store[target] = self._store[source]
            self._column_of[target] = self._column_of[source]
            self._last_use[target] = self._last_use[source]
            self._slot_of[self._column_of[source]] = target
        self._set_length(self._capacity)


def _strips(places: np.ndarray) -> list[np.ndarray]:
    """The places, some at a time: copies of all the values at once would break the limit."""
    return [places[start : start + STRIP] for start in range(0, places.size, STRIP)]


def _as_run(index: np.ndarray) -> Index:
    """The index as a slice where it is a run of successive numbers, which costs no copy of rows."""
    size = index.size
    if size and int(index[-1]) - int(index[0]) == size - 1 and bool(np.all(np.diff(index) == 1)):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
