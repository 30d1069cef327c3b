"""Blocks that are partitions of a Dask collection, on threads or on a cluster.

A pass is one graph: the task goes out to every worker once, each worker folds the partitions it
holds into one finding, and the findings are merged in a tree. What travels is as large as w out,
and as large as a finding back, once per worker; partitions stay where they are.
"""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Event
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, Work, require_time, time_left, until
from momentron.errors import InputError
from momentron.streams.blocks import Block, as_block
from momentron.streams.partitions import aligned_arrays, frame_parts, places_of
from momentron.streams.source import Source
from momentron.streams.stream import PassTask, Stream, count_blocks

FAN_IN = 4
PATIENCE = 20.0  # seconds without any worker, or scheduler, after which the fit gives up
GREETING = 3.0  # seconds for a scheduler to answer
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"

Seen = dict[int, tuple[int, int]]  # the checksum and the bytes of each block
Finding = tuple[Any, Seen]  # what a task found, None without rows, and in which blocks
Groups = list[tuple[str | None, list[int]]]  # partitions to be folded, and the worker for it


class ClusterError(ConnectionError):
    """The cluster can no longer answer: no worker is left, or no scheduler."""


class DaskStream(Stream):
    """Partitions of a Dask array or data frame, or the blocks of a source read by workers.

    Partitions that are persisted stay on their workers; others are computed again in every pass, so
    persist what fits into the cluster's memory. With a current `distributed.Client` the passes run
    there, else on Dask's own threads.

    Parameters
    ----------
    parts : sequence of (X, y)
        Delayed values, one pair per partition; or y None, and X is a pair itself.
    sizes : sequence of int, optional
        Rows of the partitions, where they are known.
    client : distributed.Client, optional
    keys : sequence, optional
        What tells where the partitions are, if not the keys of X themselves.
    weights : ndarray, optional
        As in `Stream`.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Any, Any]],
        sizes: Sequence[int] | None = None,
        client: Any = None,
        keys: Sequence[Any] | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        require_dask()
        self.parts = list(parts)
        super().__init__(len(self.parts), weights)
        self._keys = [X.key for X, _ in self.parts] if keys is None else list(keys)
        self.client = client if client is not None else current_client()
        self._is_direct = self.client is not None and self._reaches_workers()
        if sizes is None:  # counted where the partitions are
            sizes = self._compute_all([_delayed(_size)(*part) for part in self.parts])
        ends = np.cumsum(sizes)
        self._masks: list[np.ndarray | None] = [None] * self.n_blocks
        self.require_weights(int(ends[-1]))
        if self.is_kept is not None:
            masks = np.split(self.is_kept, ends[:-1])
            ends = np.cumsum([np.count_nonzero(mask) for mask in masks])
            self._masks = list(masks)
        self.firsts = [0, *ends[:-1].tolist()]
        self._sizes = [int(size) for size in sizes]

    @classmethod
    def from_collections(cls, X: Any, y: Any, weights: np.ndarray | None = None) -> "DaskStream":
        """From a Dask array or data frame, and labels: a collection, an array, or a column."""
        require_dask()
        if hasattr(X, "to_dask_array"):
            parts = frame_parts(X, y)
            return cls(parts, keys=places_of(X, len(parts)), weights=weights)
        X, y = aligned_arrays(X, y)
        sizes = None if any(math.isnan(size) for size in X.chunks[0]) else X.chunks[0]
        parts = list(zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True))
        return cls(parts, sizes, keys=places_of(X, len(parts)), weights=weights)

    @classmethod
    def from_source(cls, source: Source, client: Any) -> "DaskStream":
        """The blocks of a source, each read by a worker once and kept there."""
        require_dask()
        import dask

        shared = dask.delayed(source, traverse=False)  # in the graph, from where no death takes it
        pairs = [dask.delayed(_read)(shared, i) for i in range(count_blocks(source))]
        # X and y in one value: two more tasks to part them might run on another worker
        return cls([(pair, None) for pair in dask.persist(*pairs, scheduler=client)], client=client)

    # --- one pass ------------------------------------------------------------------------------

    def _fold(self, task: PassTask) -> Any:
        alone: Groups = [(None, [i]) for i in range(self.n_blocks)]
        groups = alone if self.client is None else self._places()
        ((found, seen),) = self._compute_all([self._tree(task, groups)])
        require_time()
        if found is None:
            raise InputError("every partition is empty; give at least one row")
        for number in range(self.n_blocks):
            checksum, nbytes = seen.get(number, (0, 0))  # of one without rows
            self.require_same(number, checksum)
            self.report(1.0, nbytes)
        return found

    def _places(self) -> Groups:
        """Partitions grouped by the worker that holds them, one group per thread."""
        threads = self.client.nthreads()
        holders = self._holders()
        by_worker: dict[str, list[int]] = {worker: [] for worker in threads}
        for number in range(self.n_blocks):
            held = [worker for worker in holders.get(number, ()) if worker in by_worker]
            # one that is not computed yet may be computed anywhere
            choice = min(held or by_worker, key=lambda worker: len(by_worker[worker]))
            by_worker[choice].append(number)
        return [
            (worker, part.tolist())
            for worker, numbers in by_worker.items()
            for part in np.array_split(numbers, threads[worker])
            if part.size
        ]

    def _holders(self) -> dict[int, Sequence[str]]:
        """The workers that hold the rows of each partition, where it is computed already."""
        known = self.client.sync(self.client.scheduler.who_has, keys=self._keys)
        return {i: known.get(key) or () for i, key in enumerate(self._keys)}

    def _tree(self, task: Any, groups: Groups) -> Any:
        """The graph of a pass: a fold for each group, merged on their worker, then in a tree.

        The task is a part of it, from where no worker that dies can take it.
        """
        import dask

        task = dask.delayed(task, pure=False, traverse=False)
        local: dict[str | None, list[Any]] = {}
        for place, group in groups:
            arguments = [
                (i, self._sizes[i], self.firsts[i], *self.parts[i], self._masks[i]) for i in group
            ]
            with _placed(place):
                local.setdefault(place, []).append(_delayed(fold)(task, arguments))
        level = local.pop(None, [])
        for place, findings in local.items():
            with _placed(place):
                level.append(_delayed(merged)(task, findings))
        while len(level) > 1:
            parts = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [_delayed(merged)(task, part) for part in parts]
        return level[0]

    # --- computing -----------------------------------------------------------------------------

    def _compute_all(self, values: list[Any]) -> list[Any]:
        """The values; Dask itself computes again what a worker that dies takes with it."""
        if self.client is None:
            return Work(lambda given_up: _on_threads(values, given_up)).result()
        import dask
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
        """Wait a little for a worker, and give up if none comes."""
        begin = time.perf_counter()
        while not self._has_workers():
            if time.perf_counter() - begin > PATIENCE:
                raise ClusterError(
                    f"no worker of {self.client!r} has answered for {PATIENCE:.0f} s, and the fit "
                    "stopped; start workers and fit again, from a checkpoint if there is one"
                )
            require_time()
            time.sleep(_at_most(0.5))

    def _has_workers(self) -> bool:
        """Whether the scheduler answers, and knows of a worker."""
        if self.client.status != "running":
            return False
        try:
            ask = self.client.scheduler.ncores
            return bool(self.client.sync(ask, callback_timeout=_at_most(5.0)))
        except (OSError, TimeoutError):
            return False

    def _reaches_workers(self) -> bool:
        """Whether workers can be reached from here, not by way of the scheduler alone."""
        try:
            self.client.scatter([0], hash=False, direct=True, timeout=_at_most(GREETING))
            return True
        except (OSError, TimeoutError):
            return False


def _placed(place: str | None) -> Any:
    """Run where the partitions are, or they would be copied; elsewhere if that worker dies."""
    import dask

    if place is None:
        return nullcontext()
    return dask.annotate(workers=[place], allow_other_workers=True)


def _on_threads(values: list[Any], given_up: Event) -> list[Any]:
    """The values, computed by Dask without a cluster; no task begins after it was given up."""
    import dask
    from dask.callbacks import Callback

    def stop(*_: Any) -> None:
        if given_up.is_set():
            raise OutOfTime

    mine = Callback(pretask=stop)._callback
    return list(dask.compute(*values, callbacks=[*Callback.active, mine]))


def _at_most(seconds: float) -> float:
    """So many seconds, or those that the deadline leaves."""
    return max(0.01, min(seconds, time_left()))


def fold(task: PassTask, arguments: Sequence[tuple[int, int, int, Any, Any, Any]]) -> Finding:
    """What a task finds in some partitions, which must have as many rows as was declared."""
    found, seen = None, {}
    for number, size, first, X, y, is_kept in arguments:
        if _size(X, y) != size:
            raise InputError(
                f"partition {number} has {_size(X, y)} rows, but {size} were declared; call "
                "X.compute_chunk_sizes(), or declare the right chunks"
            )
        if size == 0 or not (is_kept is None or is_kept.any()):
            continue
        block = _block(X, y, number, first)
        seen[number] = block.checksum(), block.nbytes
        block = block if is_kept is None else block.weighted(is_kept, first)
        part = task(block, found)
        found = part if found is None else task.merge(found, part)
    return found, seen


def merged(task: PassTask, findings: Sequence[Finding]) -> Finding:
    """Several findings as one. Those given are left as they are: others may still need them."""
    present = [found for found, _ in findings if found is not None]
    seen = {number: part[number] for _, part in findings for number in part}
    total = copy.deepcopy(present[0]) if len(present) > 1 else next(iter(present), None)
    for found in present[1:]:
        total = task.merge(total, found)
    return total, seen


def _block(X: Any, y: Any, number: int = 0, first: int = 0) -> Block:
    if y is None:
        X, y = X
    return as_block(X, np.asarray(y), number, first)


def _size(X: Any, y: Any) -> int:
    return int((X if y is not None else X[0]).shape[0])


def _read(source: Source, i: int) -> tuple[Any, Any]:
    return source.block(i)


def _delayed(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False, traverse=True)


def current_client() -> Any:
    """The client of a cluster, if one is current."""
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def require_dask() -> None:
    """Say which extra is missing."""
    try:
        import dask.array
        import dask.delayed  # noqa: F401
    except ImportError:
        raise ImportError(
            "Dask collections need dask: install it with pip install 'momentron[dask]'"
        ) from None


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address."""
    require_dask()
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "a Dask scheduler needs distributed: install it with pip install 'momentron[dask]'"
        ) from None
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
