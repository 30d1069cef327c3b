"""What is kept of a symmetric matrix that is too large to hold: columns, or one square of it."""

from collections.abc import Callable
from threading import RLock

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.arithmetic.squares import strips_of, submatrix
from momentron.certificate import read_only

COLUMNS = 512  # computed at a time: enough for products in several threads to run at full speed
STRIP = 256  # rows of a block computed or copied at a time
TILE_VALUES = 1 << 22  # values computed or copied at a time: 32 MB

Index = np.ndarray | slice  # some of the rows: their numbers, or a run of them


class ColumnCache:
    """K[:, j] for the columns that were used last, as many as fit into the memory allowed.

    K has shape (n, n). `compute(rows, cols)` gives K[rows][:, cols] for index arrays or slices, to
    be read only; by symmetry this gives columns, too. `max_bytes` is the memory for columns; 0
    keeps none. Where all of K is there, a float64 `matrix` in C or Fortran order, nothing is ever
    computed. `evaluations` counts the values of K that were computed so far, and `hits` those
    that were found instead.

    Each column is a row of one array, so that K[:, index] @ a is one product with BLAS for all
    columns that are in it. The array is as long as the limit allows from the start: the system
    gives memory to the rows that have been written to, and the first slots are filled first.

    Whatever ends a call on its way, Ctrl-C or a deadline, leaves it right: which column is in which
    slot is known to `_slot_of` alone, a column is entered there after its values are in the store,
    and struck out before another takes its slot.
    """

    def __init__(
        self,
        compute: Callable[[Index, Index], np.ndarray],
        n: int,
        max_bytes: int,
        precision: type = np.float64,
        *,
        matrix: np.ndarray | None = None,
    ) -> None:
        self.n = n
        self._compute, self._dtype = compute, np.dtype(precision)
        self._lock = RLock()  # a column may not make way for another thread's while it is in use
        self.evaluations = self.hits = 0
        self._owns_store = matrix is None
        self._capacity = self._columns_in(max_bytes)
        self._store = np.empty((0, n), self._dtype)
        self._slot_of = np.full(n, -1, np.intp)  # −1 where a column is not held
        self._last_use = np.zeros(n, np.int64)
        self._clock = 0
        if matrix is not None:
            self._store = matrix if matrix.flags.c_contiguous else matrix.T
            self._slot_of = np.arange(n)

    def _columns_in(self, n_bytes: int) -> int:
        return max(0, min(self.n, int(n_bytes) // (self._dtype.itemsize * self.n)))

    @property
    def nbytes(self) -> int:
        """Memory that the columns take, up to the last slot in use."""
        top = int(self._slot_of.max()) + 1
        return self._dtype.itemsize * self.n * top if self._owns_store else 0

    @property
    def size(self) -> int:
        """How many columns are held."""
        return int(np.count_nonzero(self._slot_of >= 0))

    def holds(self, index: np.ndarray) -> bool:
        """Whether all these columns are in memory."""
        return bool(np.all(self._slot_of[index] >= 0))

    # --- products ----------------------------------------------------------------------------

    def product(self, index: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[:, index] @ a for distinct columns; a has shape (l,) or (l, k).

        Columns that are missing cost n values each, and are kept as far as there is room: others
        make way for them, the least recently used first, but none that this product needs.
        """
        # a copy of the caller's index, which answers the same however often it is asked
        index = np.array(index, dtype=np.intp, copy=True, subok=False, ndmin=1)
        weights = np.asarray(a, dtype=np.float64).T
        total = np.zeros((*weights.shape[:-1], self.n))
        with self._lock:
            self._clock += 1
            slots, held, missing = self._found(index, self.n)
            if held.size:
                self._add_held(slots[held], weights[..., held], total)
            room = self._make_room(missing.size) if missing.size else missing
            for part in strips_of(0, missing.size, max(1, min(COLUMNS, TILE_VALUES // self.n))):
                require_time()
                columns = index[missing[part]]
                tile = self._compute(columns, slice(0, self.n))
                self._add(weights[..., missing[part]], tile, total)
                self.evaluations += tile.size
                kept = columns[: room[part].size]  # all of them, unless it is full
                self._store[room[part]] = tile[: kept.size]
                # only now, so that an error on the way leaves no half of a column behind
                self._last_use[kept] = self._clock
                self._slot_of[kept] = room[part]
        return total.T

    def _add_held(self, slots: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
        top = int(slots.max()) + 1
        reads_all = 3 * slots.size >= top
        if reads_all:  # a column that does not count is read sooner than those that do are copied
            spread = np.zeros((*weights.shape[:-1], top))
            spread[..., slots] = weights
            weights = spread
        for part in strips_of(0, weights.shape[-1], max(1, TILE_VALUES // self.n)):
            require_time()
            self._add(weights[..., part], self._store[part if reads_all else slots[part]], total)

    def _add(self, weights: np.ndarray, columns: np.ndarray, total: np.ndarray) -> None:
        """Add weights times columns, each of which is a row here."""
        total += weights @ columns

    # --- blocks ------------------------------------------------------------------------------

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows][:, cols]; what neither a column nor a row held here gives is computed."""
        values = np.empty((rows.size, cols.size), self._dtype)
        with self._lock:
            self._clock += 1
            slots, held, lacking = self._found(rows, cols.size)
            for part in strips_of(0, held.size, STRIP):
                require_time()
                for place in held[part]:  # several times as fast as a pair of index arrays
                    values[place] = self._store[slots[place]].take(cols)
            slots, held, rest = self._found(cols, lacking.size)
            for part in strips_of(0, held.size, STRIP):
                require_time()
                found = [self._store[slot].take(rows[lacking]) for slot in slots[held[part]]]
                values[np.ix_(lacking, held[part])] = np.transpose(found)
            is_symmetric = rows is cols  # then a little more than the upper half is computed
            height = max(1, min(STRIP, TILE_VALUES // max(rest.size, 1)))
            for strip in strips_of(0, lacking.size, height):
                require_time()
                some = lacking[strip]
                others = rest[strip.start :] if is_symmetric else rest
                computed = self._compute(rows[some], cols[others])
                values[np.ix_(some, others)] = computed
                if is_symmetric:
                    values[np.ix_(others[some.size :], some)] = computed[:, some.size :].T
                self.evaluations += computed.size
        return values

    def whole(self) -> np.ndarray | None:
        """All of K, to be read only, computed and kept if there is room for it; else None."""
        every = np.arange(self.n)
        with self._lock:
            self._make_room(0)
            if self._store.shape[0] < self.n:
                return None
            if not np.array_equal(self._slot_of, every):
                self._slot_of[:] = -1
                for strip in strips_of(0, self.n, STRIP):  # a little more than the upper half
                    require_time()
                    rest = slice(strip.start, self.n)
                    tile = self._compute(strip, rest)
                    self._store[strip, rest], self._store[rest, strip] = tile, tile.T
                    self.evaluations += tile.size
                self._slot_of[:] = every
            return read_only(self._store)

    def _found(self, columns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(slots, places of columns that are held, places of others), to use `count` of each."""
        slots = self._slot_of[columns]
        held = np.flatnonzero(slots >= 0)
        self._last_use[columns[held]] = self._clock
        self.hits += held.size * count
        return slots, held, np.flatnonzero(slots < 0)

    # --- room --------------------------------------------------------------------------------

    def _make_room(self, count: int) -> np.ndarray:
        """Free slots for as many columns as there can be, at most `count`."""
        if not self._store.size:
            self._store = np.empty((self._capacity, self.n), self._dtype)
        self._drop_oldest(count - (self._store.shape[0] - self.size), self._clock)
        return self._free_slots()[:count]

    def _free_slots(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self._store.shape[0]), self._slot_of)

    def _drop_oldest(self, count: int, before: int) -> None:
        """Drop `count` columns, if as many were last used before then: the oldest uses first."""
        if count > 0:
            columns = np.flatnonzero((self._slot_of >= 0) & (self._last_use < before))
            order = np.argsort(self._last_use[columns], kind="stable")
            self._slot_of[columns[order[:count]]] = -1

    def resize(self, max_bytes: int) -> None:
        """Allow less memory: the least recently used columns go at once.

        More than it has once it holds columns it does not get back: to extend an array may take a
        second one. A complete matrix is not the cache's own, and stays.
        """
        if not self._owns_store:
            return
        with self._lock:
            self._capacity = self._columns_in(max_bytes)
            if self._store.shape[0] <= self._capacity:
                return
            self._drop_oldest(self.size - self._capacity, self._clock + 1)
            outside = np.flatnonzero(self._slot_of >= self._capacity)
            for column, slot in zip(outside, self._free_slots(), strict=False):
                self._store[slot] = self._store[self._slot_of[column]]
                self._slot_of[column] = slot
            # in its place: no view of it ever leaves this class
            self._store.resize((self._capacity, self.n), refcheck=False)


class SquareStore:
    """K[W][:, W] for the last set W that was asked for; the next one is built from it.

    K has shape (n, n), and `compute(rows, cols)` gives K[rows][:, cols] in float64 for index
    arrays; `evaluations` counts the values that it has computed. Whatever ends a call on its way
    leaves the last set as it was.
    """

    def __init__(self, compute: Callable[[np.ndarray, np.ndarray], np.ndarray], n: int) -> None:
        self._compute = compute
        # W in some order, K in that order, and the place of every row in it, or −1: one value, so
        # that all of it changes at once
        self._kept = np.empty(0, np.intp), np.empty((0, 0)), np.full(n, -1, np.intp)
        self.evaluations = 0

    def values(self, W: np.ndarray, max_bytes: int) -> np.ndarray:
        """A copy of K[W][:, W], which is kept."""
        self.keep(W, max_bytes)
        return submatrix(self._kept[1], self._kept[2][W])

    def keep(self, W: np.ndarray, max_bytes: int) -> None:
        """Keep K[W][:, W], unless what is kept holds it.

        The last square helps if both take no more memory than that.
        """
        if self.holds(W):
            return
        rows, old, place = self._kept
        is_known = place[W] >= 0
        if 8 * (rows.size**2 + W.size**2) > max_bytes:
            is_known[:] = False
            self._kept = rows[:0], np.empty((0, 0)), np.full(place.size, -1, np.intp)
        # what is known comes first, so that what is new is one block at the end
        rows, size = np.concatenate([W[is_known], W[~is_known]]), int(is_known.sum())
        K = np.empty((W.size, W.size))
        submatrix(old, place[rows[:size]], K[:size, :size])
        del old
        for strip in strips_of(size, W.size, COLUMNS):  # a little more than the lower half
            tile = self._compute(rows[strip], rows[: strip.stop])
            K[strip, : strip.stop], K[: strip.stop, strip] = tile, tile.T
            self.evaluations += tile.size
        place = np.full(place.size, -1, np.intp)
        place[rows] = np.arange(W.size)
        self._kept = rows, K, place

    def product(self, W: np.ndarray, a: np.ndarray) -> np.ndarray:
        """K[W][:, W] @ a for distinct rows, of which nothing is kept.

        No term passes more additions than a sum of as many terms has.
        """
        scores = np.zeros((W.size, *a.shape[1:]))
        for strip in strips_of(0, W.size, STRIP // 2):  # a little more than the lower half
            require_time()
            tile = self._compute(W[strip], W[: strip.stop])
            self.evaluations += tile.size
            scores[strip] += tile @ a[: strip.stop]
            scores[: strip.start] += tile[:, : strip.start].T @ a[strip]
        return scores

    def holds(self, index: Index) -> bool:
        """Whether all these rows are in W."""
        return bool((self._kept[2][index] >= 0).all())

    def scores(self, index: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(W, K[W][:, index] @ a) for distinct rows, W in any order; None where W lacks some."""
        rows, K, place = self._kept
        if rows.size == 0 or not self.holds(index):
            return None
        spread = np.zeros((rows.size, *a.shape[1:]))
        spread[place[index]] = a
        return rows.copy(), K @ spread
