"""Columns of a symmetric matrix that is too large to hold: the latest used are kept."""

from collections.abc import Callable
from threading import RLock

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.submatrices import strips_of
from momentron.arithmetic.threads import in_threads, reading_parts, shares_of

COLUMNS = 512  # computed at a time: enough for products in several threads to run at full speed
RUN = 128  # columns of single precision that are summed at a time
STRIP = 256  # rows of a block computed or copied at a time
TILE_VALUES = 1 << 22  # values computed or copied at a time: 32 MB
SINGLE_VALUES = 1 << 20  # the same of single precision in each thread: 4 MB

Index = np.ndarray | slice


class ColumnCache:
    """K[:, j] for the columns that were used last, as many as fit into the memory allowed.

    Each is a row of one array, so that K[:, index] @ a is one product with BLAS for all columns
    that are in it. The array is as long as the limit allows from the start: the system gives memory
    to the rows that have been written to, and the first slots are filled first.

    Whatever ends a call on its way, Ctrl-C or a deadline, leaves it right: which column is in which
    slot is known to `_slot_of` alone, a column is entered there after its values are in the store,
    and struck out before another takes its slot.

    Parameters
    ----------
    compute : callable
        compute(rows, cols) = K[rows][:, cols]; rows and cols are index arrays or slices. What it
        returns is read only. By symmetry this gives columns, too. In single precision
        several threads call it, and it takes a third argument, an array for the values.
    n : int
        K has shape (n, n).
    max_bytes : int
        Memory for columns; 0 keeps none.
    is_single : bool
        Whether values are in single precision. Products then are summed in runs of RUN columns,
        and these sums in double precision.

    Attributes
    ----------
    evaluations : int
        How many values of K were computed so far.
    hits : int
        How many were found instead.
    """

    def __init__(
        self,
        compute: Callable[..., np.ndarray],
        n: int,
        max_bytes: int,
        *,
        is_single: bool = False,
    ) -> None:
        self._n = n
        self._lock = RLock()  # a column may not make way for another thread's while it is in use
        self._is_single = is_single
        self._dtype = np.dtype(np.float32 if is_single else np.float64)
        self.evaluations = 0
        self.hits = 0
        self._compute = compute
        self._owns_store = True
        self._capacity = self._columns_in(max_bytes)
        self._store = np.empty((0, n), self._dtype)
        self._slot_of = np.full(n, -1, np.intp)  # −1 where a column is not held
        self._last_use = np.zeros(n, np.int64)
        self._clock = 0

    @classmethod
    def complete(cls, matrix: np.ndarray) -> "ColumnCache":
        """All of K, a float64 array in C or Fortran order, is there: nothing is ever computed."""
        n = matrix.shape[0]
        cache = cls(lambda rows, cols: matrix[rows][:, cols], n, matrix.nbytes)
        cache._owns_store = False
        cache._store = matrix if matrix.flags.c_contiguous else matrix.T
        cache._slot_of = np.arange(n)
        return cache

    def _columns_in(self, n_bytes: int) -> int:
        return max(0, min(self.n, int(n_bytes) // (self._dtype.itemsize * self.n)))

    @property
    def n(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Memory that the columns take, up to the last slot in use."""
        top = int(self._slot_of.max()) + 1
        return self._dtype.itemsize * self.n * top if self._owns_store else 0

    @property
    def size(self) -> int:
        """How many columns are held."""
        return self._held_columns().size

    def holds(self, index: np.ndarray) -> bool:
        """Whether all these columns are in memory."""
        return bool(np.all(self._slot_of[index] >= 0))

    def _held_columns(self) -> np.ndarray:
        return np.flatnonzero(self._slot_of >= 0)

    # --- products ----------------------------------------------------------------------------

    def product(self, index: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, index] @ a for distinct columns; a has shape (l,) or (l, k).

        Columns that are missing cost n values each, and are kept as far as there is room: others
        make way for them, the least recently used first, but none that this product needs.
        """
        with self._lock:
            return self._product(_own(index), np.asarray(a, dtype=np.float64).T)

    def _product(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = np.zeros((*weights.shape[:-1], self.n))
        self._clock += 1
        slots = self._slot_of[index]
        is_held = slots >= 0
        if is_held.any():
            self._last_use[index[is_held]] = self._clock
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
        self.hits += self.n * slots.size
        top, step = int(slots.max()) + 1, max(1, TILE_VALUES // self.n)
        if 3 * slots.size >= top:
            # reading a column that does not count is cheaper than copying those that do
            spread = np.zeros((*weights.shape[:-1], top))
            spread[..., slots] = weights
            for start in range(0, top, step):
                require_time()
                part = slice(start, start + step)
                self._add(spread[..., part], self._store[:top][part], total)
            return
        for start in range(0, slots.size, step):
            require_time()
            part = slice(start, start + step)
            self._add(weights[..., part], self._store[slots[part]], total)

    def _add(self, weights: np.ndarray, columns: np.ndarray, total: np.ndarray) -> None:
        """Add weights times columns, each of which is a row here."""
        if not self._is_single:
            total += weights @ columns
            return
        single = weights.astype(np.float32)

        def add(rows: slice) -> None:
            for start in range(0, columns.shape[0], RUN):
                part = slice(start, start + RUN)
                total[..., rows] += single[..., part] @ columns[part, rows]

        in_threads(add, reading_parts(total.shape[-1], columns.size))

    def _add_missing(
        self, columns: np.ndarray, weights: np.ndarray, places: np.ndarray, total: np.ndarray
    ) -> None:
        """Compute some columns, use them, and keep as many as there are places."""
        index, run = _as_run(columns), _as_run(places)
        fits = self._is_single and isinstance(run, slice) and places.size == columns.size

        def fill(rows: slice) -> None:
            require_time()
            if fits:  # computed where they are kept
                tile = self._compute(index, rows, self._store[run, rows])
            else:
                tile = self._compute(index, rows)
                self._store[places, rows] = tile[: places.size]
            self._add(weights, tile, total[..., rows])

        # a user's own function is called in one thread, a formula has threads of its own
        if self._is_single:
            in_threads(fill, shares_of(self.n, self.n * columns.size, SINGLE_VALUES))
        else:
            for strip in strips_of(0, self.n, max(1, TILE_VALUES // columns.size)):
                fill(strip)
        self.evaluations += columns.size * self.n
        # only now, so that an error on the way leaves no half of a column behind
        kept = columns[: places.size]
        self._last_use[kept] = self._clock
        self._slot_of[kept] = places

    # --- blocks ------------------------------------------------------------------------------

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows][:, cols]; what neither a column nor a row held here gives is computed."""
        with self._lock:
            return self._block(rows, cols)

    def _block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        if self._is_single and rows is cols:
            return self._single_square(rows)
        values = np.empty((rows.size, cols.size), self._dtype)
        self._clock += 1
        slots = self._slot_of[cols]
        is_held = slots >= 0
        self._last_use[cols[is_held]] = self._clock
        for part in _strips(np.flatnonzero(is_held)):
            values[:, part] = self._held(slots[part], rows).T
        rest = np.flatnonzero(~is_held)
        if rest.size:
            slots = self._slot_of[rows]
            is_held = slots >= 0
            self._last_use[rows[is_held]] = self._clock
            for part in _strips(np.flatnonzero(is_held)):
                values[np.ix_(part, rest)] = self._held(slots[part], cols[rest])
            self._fill(values, np.flatnonzero(~is_held), rest, rows, cols)
        return values

    def _single_square(self, index: np.ndarray) -> np.ndarray:
        """The same on the diagonal of K, in threads: columns that are held are rows, too."""
        values = np.empty((index.size, index.size), self._dtype)
        self._clock += 1
        slots = self._slot_of[index]
        held, rest = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        self._last_use[index[held]] = self._clock

        def copy(part: np.ndarray) -> None:
            values[part] = self._held(slots[part], index)

        def mirror(part: np.ndarray) -> None:
            values[part[:, None], held] = values[held[:, None], part].T

        in_threads(copy, _strips(held))
        in_threads(mirror, _strips(rest))
        self._fill(values, rest, rest, index, index)
        return values

    def _held(self, slots: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Some values of each of some columns that are held, a row for each column."""
        require_time()
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

        def fill(start: int) -> None:
            require_time()
            part = lacking[start : start + step]
            others = rest[start:] if is_symmetric else rest
            computed = self._compute(_as_run(rows[part]), _as_run(cols[others]))
            values[np.ix_(part, others)] = computed
            if is_symmetric:
                values[np.ix_(others[part.size :], part)] = computed[:, part.size :].T

        starts = range(0, lacking.size, step)
        if self._is_single:
            in_threads(fill, starts)
        else:
            for start in starts:
                fill(start)
        widths = (rest.size - start if is_symmetric else rest.size for start in starts)
        heights = (min(step, lacking.size - start) for start in starts)
        self.evaluations += sum(w * h for w, h in zip(widths, heights, strict=True))

    # --- room --------------------------------------------------------------------------------

    def _make_room(self, count: int) -> np.ndarray:
        """Free slots for as many columns as there can be, at most `count`."""
        if not self._store.size:
            self._store = np.empty((self._capacity, self.n), self._dtype)
        missing = count - (self._store.shape[0] - self.size)
        if missing > 0:
            held = self._held_columns()
            self._drop(self._oldest(held[self._last_use[held] < self._clock], missing))
        return self._free_slots()[:count]

    def _free_slots(self) -> np.ndarray:
        is_free = np.ones(self._store.shape[0], bool)
        is_free[self._slot_of[self._held_columns()]] = False
        return np.flatnonzero(is_free)

    def _oldest(self, columns: np.ndarray, count: int) -> np.ndarray:
        """Those of the columns, at most `count`, whose last use is the longest ago."""
        if count >= columns.size:
            return columns
        return columns[np.argpartition(self._last_use[columns], count)[:count]]

    def _drop(self, columns: np.ndarray) -> None:
        self._slot_of[columns] = -1

    def resize(self, max_bytes: int) -> None:
        """Allow less memory: the least recently used columns go at once.

        More than it has once it holds columns it does not get back: to extend an array may take a
        second one. A complete matrix is not the cache's own, and stays.
        """
        if not self._owns_store:
            return
        with self._lock:
            self._resize(max_bytes)

    def _resize(self, max_bytes: int) -> None:
        self._capacity = self._columns_in(max_bytes)
        if self._store.shape[0] <= self._capacity:
            return
        held = self._held_columns()
        self._drop(self._oldest(held, max(0, held.size - self._capacity)))
        outside = np.flatnonzero(self._slot_of >= self._capacity)
        for column, slot in zip(outside, self._free_slots(), strict=False):
            self._store[slot] = self._store[self._slot_of[column]]
            self._slot_of[column] = slot
        # in its place: no view of it ever leaves this class
        self._store.resize((self._capacity, self.n), refcheck=False)


def _strips(places: np.ndarray) -> list[np.ndarray]:
    """The places, some at a time: copies of all the values at once would break the limit."""
    return [places[start : start + STRIP] for start in range(0, places.size, STRIP)]


def _own(index: np.ndarray) -> np.ndarray:
    """A copy of the caller's index, which answers the same however often it is asked."""
    return np.array(index, dtype=np.intp, copy=True, subok=False, ndmin=1)


def _as_run(index: np.ndarray) -> Index:
    """The index as a slice where it is a run of successive numbers, which costs no copy of rows."""
    size = index.size
    if size and int(index[-1]) - int(index[0]) == size - 1 and bool(np.all(np.diff(index) == 1)):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
