"""Blocks that are partitions of a Dask collection, on threads or on a cluster.

A pass is one graph: the task goes out to every worker once, each worker folds the partitions it
holds into one finding, and the findings are merged in a tree. What travels is as large as w out,
and as large as a finding back, once per worker; partitions stay where they are.
"""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import Any

import numpy as np

try:
    import dask
    import dask.array as da
    from dask.callbacks import Callback
except ImportError:
    raise ImportError('a Dask cluster needs dask: pip install "momentron[dask]"') from None

from momentron.arithmetic.clock import OutOfTime, Work, require_time, time_left, until
from momentron.errors import InputError, short
from momentron.rows.validation import clean_weights
from momentron.streams.blocks import as_block
from momentron.streams.source import Source
from momentron.streams.stream import Stream, count_blocks, with_block

FAN_IN = 4
PATIENCE = 20.0  # seconds without any worker, or scheduler, after which the fit gives up
GREETING = 3.0  # seconds for a scheduler to answer
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"

Parts = list[tuple[Any, Any]]  # delayed rows and their labels, cut at the same places
Seen = dict[int, tuple[int, int]]  # the checksum and the bytes of each block
Task = tuple[Any, Any]  # the task of a pass, and which rows have a weight, or None
Finding = tuple[Any, Seen]  # what a task found, None without rows, and in which blocks

_delayed = partial(dask.delayed, pure=False, traverse=True)


class ClusterError(ConnectionError):
    """The cluster can no longer answer: no worker is left, or no scheduler."""


class DaskStream(Stream):
    """Partitions of a Dask array or data frame, or the blocks of a source read by workers.

    Partitions that are persisted stay on their workers; others are computed again in every pass, so
    persist what fits into the cluster's memory. With a current `distributed.Client` the passes run
    there, else on Dask's own threads.
    """

    def __init__(
        self,
        parts: Sequence[Any],  # delayed pairs (X, y), or pairs of delayed values
        keys: Sequence[Any],  # of what is persisted of these: they tell where it is
        sizes: Sequence[int] | None = None,  # their rows, where they are known
        client: Any = None,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(len(parts), weights)
        self._keys = keys
        self.client = client if client is not None else current_client()
        self._is_direct = self.client is not None and self._reaches_workers()
        if sizes is None:  # counted where the partitions are
            sizes = self._compute_all([_delayed(_size)(part) for part in parts])
        ends = np.cumsum(sizes).tolist()
        clean_weights(weights, ends[-1])  # one for each row
        firsts = [0, *ends[:-1]]
        self._parts = list(zip(range(self.n_blocks), sizes, firsts, parts, strict=True))

    @classmethod
    def from_collections(cls, X: Any, y: Any, weights: np.ndarray | None = None) -> "DaskStream":
        """From a Dask array or data frame, and labels: a collection, an array, or a column."""
        parts, sizes = parts_of(X, y)
        return cls(parts, places_of(X, parts), sizes, weights=weights)

    @classmethod
    def from_source(cls, source: Source, client: Any) -> "DaskStream":
        """The blocks of a source, each read by a worker once and kept there."""
        shared = dask.delayed(source, traverse=False)  # in the graph, from where no death takes it
        # X and y in one value: two more tasks to part them might run on another worker
        pairs = [shared.block(i) for i in range(count_blocks(source))]
        pairs = list(dask.persist(*pairs, scheduler=client))
        return cls(pairs, [pair.key for pair in pairs], client=client)

    # --- one pass ------------------------------------------------------------------------------

    def _fold(self, task: Any) -> Any:
        ((found, seen),) = self._compute_all([self._tree(task)])
        require_time()
        if found is None:
            raise InputError("every partition is empty; give at least one row")
        for number in range(self.n_blocks):
            checksum, nbytes = seen.get(number, (0, 0))  # of one without rows
            self.require_same(number, checksum)
            self.report(1.0, nbytes)
        return found

    def _places(self) -> dict[str | None, list[np.ndarray]]:
        """Partitions by the worker that holds them, a group for each of its threads."""
        if self.client is None:
            return {None: np.split(np.arange(self.n_blocks), self.n_blocks)}
        threads = self.client.nthreads()
        by_worker: dict[str, list[int]] = {worker: [] for worker in threads}
        for number, holders in self._holders().items():
            held = [worker for worker in holders if worker in by_worker]
            # one that is not computed yet may be computed anywhere
            choice = min(held or by_worker, key=lambda worker: len(by_worker[worker]))
            by_worker[choice].append(number)
        return {w: np.array_split(numbers, threads[w]) for w, numbers in by_worker.items()}

    def _holders(self) -> dict[int, Sequence[str]]:
        """The workers that hold the rows of each partition, where it is computed already."""
        known = self.client.sync(self.client.scheduler.who_has, keys=self._keys)
        return {i: known.get(key) or () for i, key in enumerate(self._keys)}

    def _tree(self, task: Any) -> Any:
        """The graph of a pass: a fold for each group, merged on their worker, then in a tree.

        The task is a part of it, from where no worker that dies can take it.
        """
        work = dask.delayed((task, self.is_kept), pure=False, traverse=False)
        level: list[Any] = []
        for place, groups in self._places().items():
            # where the partitions are, or they would be copied; elsewhere if that worker dies
            where = {"workers": [place], "allow_other_workers": True} if place else {}
            with dask.annotate(**where):
                folds = [
                    _delayed(fold)(work, [self._parts[i] for i in group])
                    for group in groups
                    if group.size
                ]
                level += [_delayed(merged)(work, folds)] if place and folds else folds
        while len(level) > 1:
            parts = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [_delayed(merged)(work, part) for part in parts]
        return level[0]

    # --- computing -----------------------------------------------------------------------------

    def _compute_all(self, values: list[Any]) -> list[Any]:
        """The values; Dask itself computes again what a worker that dies takes with it."""
        if self.client is None:
            return Work(lambda given_up: _on_threads(values, given_up)).result()
        from distributed import KilledWorker

        self._require_workers()
        with dask.config.set({LARGE_GRAPH: "1TB"}):  # a classifier may be larger than 10 MB
            futures = self.client.compute(values, optimize_graph=False)
        try:
            self._wait(futures)
            return self.client.gather(futures, direct=self._is_direct)
        except KilledWorker as error:
            raise ClusterError(
                f"a pass failed because workers were lost again and again: {error}; start reliable "
                "workers, and continue from a checkpoint"
            ) from error
        finally:
            self.client.cancel(futures)

    def _wait(self, futures: list[Any]) -> None:
        """Until all are done; gives up where no worker has been there for some time."""
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=_at_most(1.0))
                return
            except TimeoutError:
                done = sum(future.done() for future in futures)
                self.report(min(0.99, done / len(futures)))
                require_time()
            self._require_workers()

    def _require_workers(self) -> None:
        """Wait a little for a worker, and give up if none comes, or the scheduler is silent."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < PATIENCE:
            with suppress(OSError, TimeoutError):
                ask = self.client.scheduler.ncores
                if self.client.sync(ask, callback_timeout=_at_most(5.0)):
                    return
            require_time()
            time.sleep(_at_most(0.5))
        raise ClusterError(
            f"no worker of {self.client!r} has answered for {PATIENCE:.0f} s, and the fit "
            "stopped; start workers and fit again, from a checkpoint if there is one"
        )

    def _reaches_workers(self) -> bool:
        """Whether workers can be reached from here, not by way of the scheduler alone."""
        try:
            self.client.scatter([0], hash=False, direct=True, timeout=_at_most(GREETING))
            return True
        except (OSError, TimeoutError):
            return False


def _on_threads(values: list[Any], given_up: Event) -> list[Any]:
    """The values, computed by Dask without a cluster; no task begins after it was given up."""

    def stop(*_: Any) -> None:
        if given_up.is_set():
            raise OutOfTime

    mine = Callback(pretask=stop)._callback
    return list(dask.compute(*values, callbacks=[*Callback.active, mine]))


def _at_most(seconds: float) -> float:
    """So many seconds, or those that the deadline leaves."""
    return max(0.01, min(seconds, time_left()))


def fold(work: Task, parts: Sequence[tuple[int, int, int, Any]]) -> Finding:
    """What a pass finds in some partitions, which must have as many rows as was declared."""
    (task, is_kept), found, seen = work, None, {}
    for number, size, first, part in parts:
        if _size(part) != size:
            raise InputError(
                f"partition {number} has {_size(part)} rows, but {size} were declared; call "
                "X.compute_chunk_sizes(), or declare the right chunks"
            )
        if size > 0:
            block = as_block(part[0], np.asarray(part[1]), number, first)
            seen[number] = block.checksum(), block.nbytes
            found = with_block(task, found, block, is_kept)
    return found, seen


def merged(work: Task, findings: Sequence[Finding]) -> Finding:
    """Several findings as one. Those given are left as they are: others may still need them."""
    present = [found for found, _ in findings if found is not None]
    seen = {number: part[number] for _, part in findings for number in part}
    total = copy.deepcopy(present[0]) if len(present) > 1 else next(iter(present), None)
    for found in present[1:]:
        total = work[0].merge(total, found)
    return total, seen


def _size(part: tuple[Any, Any]) -> int:
    return int(part[0].shape[0])


def parts_of(X: Any, y: Any) -> tuple[Parts, tuple[int, ...] | None]:
    """Partitions of whole rows of X, each with its labels; and their sizes, if they are known."""
    is_known = False
    if not hasattr(X, "to_dask_array"):
        X, y, is_known = _aligned(X, y)
    elif isinstance(y, str):
        if y not in X.columns:
            raise InputError(f"X has no column {short(y)}; its columns are {list(X.columns)}")
        X, y = X.drop(columns=[y]), X[y]
    elif not hasattr(y, "to_delayed"):
        raise InputError(
            f"y is {type(y).__name__}; for a Dask data frame it must be a Dask series with the "
            "same partitions, or the name of a column"
        )
    rows, labels = np.ravel(X.to_delayed()).tolist(), np.ravel(y.to_delayed()).tolist()
    if len(rows) != len(labels):
        raise InputError(
            f"X has {len(rows)} partitions but y has {len(labels)}; they must agree, row by row"
        )
    return list(zip(rows, labels, strict=True)), X.chunks[0] if is_known else None


def _aligned(X: Any, y: Any) -> tuple[Any, Any, bool]:
    """An array X in blocks of whole rows, y cut at the same places; whether these are known."""
    if X.ndim != 2:
        raise InputError(f"X has {X.ndim} dimensions; give 2, a row for each example")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if y is None:
        raise InputError("y is None; max_margin requires y to be passed: one label for each row")
    if hasattr(y, "to_dask_array"):
        y = y.to_dask_array(lengths=True)
    is_known = not any(math.isnan(size) for size in X.chunks[0])
    if not hasattr(y, "to_delayed"):
        y = np.asarray(y)
        if not is_known:
            raise InputError("X has chunks of unknown sizes: call X.compute_chunk_sizes() first")
        y = da.from_array(y, chunks=(X.chunks[0],)) if y.shape == X.shape[:1] else y
    if y.ndim != 1 or (is_known and y.shape[0] != X.shape[0]):
        raise InputError(f"X has shape {X.shape} but y has {y.shape}; they must agree")
    if is_known and y.chunks[0] != X.chunks[0]:
        y = y.rechunk((X.chunks[0],))
    return X, y, is_known


def places_of(X: Any, parts: Parts) -> list[Any]:
    """The keys of what is persisted of X, one per partition; or those of the partitions themselves.

    Work on a partition goes to the worker that holds the value behind this key.
    """
    keys: list[Any] = []
    with suppress(ImportError):
        from distributed.client import futures_of

        keys = [future.key for future in futures_of(X)]
    if len(keys) == len(parts) and all(isinstance(key, tuple) for key in keys):
        return sorted(keys, key=lambda key: key[1:])
    return [rows.key for rows, _ in parts]


def current_client() -> Any:
    """The client of a cluster, if one is current."""
    with suppress(ImportError, ValueError):
        from distributed import default_client

        return default_client()
    return None


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        why = 'a Dask scheduler needs distributed: pip install "momentron[dask]"'
        raise ImportError(why) from None
    try:
        # what accepts a connection and stays silent is waited for longer than `timeout`
        with until(time.perf_counter() + 2.0 * GREETING):
            connecting = Work(lambda _: Client(address, timeout=GREETING, set_as_default=False))
            client = connecting.result()
    except Exception as error:  # whatever it makes of what answers there
        reason = " ".join(str(error).split()) or "no response"
        raise ClusterError(
            f"no Dask scheduler answers at {address}: {reason}; start one, or give an address like "
            "tcp://host:8786"
        ) from error
    try:
        yield client
    finally:
        client.close()
