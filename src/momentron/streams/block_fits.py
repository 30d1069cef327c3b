"""`max_margin` for data in blocks: which data those are, and the solve."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from momentron.arithmetic.clock import OutOfTime, TimeLimit, until
from momentron.data.arguments import parse_size
from momentron.data.files import FeatureColumns
from momentron.data.files.formats import SVMLIGHT
from momentron.data.safefiles import require_file
from momentron.errors import InputError, short
from momentron.fitting.fits import solved
from momentron.fitting.options import FitOptions
from momentron.result import MarginResult
from momentron.rows.validation import clean_weights
from momentron.solvers.checkpoint import Checkpoint, content_of
from momentron.solvers.loop import Callback
from momentron.streams.block_problem import BlockProblem
from momentron.streams.first_pass import FirstPass, FirstPassResult
from momentron.streams.rounds import WorkingSetRounds
from momentron.streams.soft_rounds import SoftBlockProblem, SoftRounds
from momentron.streams.source import BLOCK_BYTES, ArraySource, NpySource, Source, SvmlightSource
from momentron.streams.stream import DiskStream, Stream
from momentron.views.progress import TableReporter

BLOCKS_IN_MEMORY = 40  # blocks, working set and what solves it, with room to spare
MOST_SAMPLED = 20_000  # rows from which a fit begins
SET_SHARE = 8  # blocks whose memory the working set takes


def is_source(X: Any) -> bool:
    """Whether X already comes in blocks: an open stream, or an object that follows `Source`."""
    return isinstance(X, Stream) or (callable(getattr(X, "block", None)) and hasattr(X, "__len__"))


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame, without importing dask."""
    return type(X).__module__.startswith(("dask.", "dask_expr")) and hasattr(X, "__dask_graph__")


def lazily(function: Callable[[Any], Any], X: Any, n_outputs: int | None, dtype: Any) -> Any:
    """function of each partition of X, not computed yet: (n,), or (n, n_outputs)."""
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if n_outputs is None:
        meta = np.empty(0, dtype)
        return X.map_blocks(function, drop_axis=1, dtype=dtype, meta=meta)
    chunks = (X.chunks[0], (n_outputs,))
    return X.map_blocks(function, chunks=chunks, dtype=dtype, meta=np.empty((0, n_outputs), dtype))


def as_stream(
    X: Any, y: Any = None, block_size: int | str | None = None, sample_weight: Any = None
) -> Stream:
    """X and y as a stream of blocks.

    Parameters
    ----------
    X : path, Source, dask array or data frame, array, memory-map, sparse matrix, or Stream
    y : labels of the rows; a path of a .npy file, or the name of a column, if X is a path
    block_size : int or str, optional
        Bytes per block, such as "64MB", if X does not already come in blocks.
    sample_weight : array or Dask collection, optional
        Rows of weight 0 are left out; other weights are for soft margins.
    """
    size = BLOCK_BYTES if block_size is None else parse_size(block_size)
    weights = sample_weight.compute() if is_dask(sample_weight) else sample_weight
    weights = clean_weights(weights, np.size(weights))
    if isinstance(X, Stream):
        if sample_weight is not None:
            raise InputError("sample_weight is not supported for a stream that is already open")
        return X
    if is_dask(X):
        from momentron.streams.dask import DaskStream

        return DaskStream.from_collections(X, y, weights)
    if isinstance(X, str | Path):
        return DiskStream(open_file(X, y, size), weights)
    if is_source(X):
        if y is not None:
            raise InputError("y must be None if X gives its labels block by block")
        return DiskStream(X, weights)
    return DiskStream(ArraySource(X, y, size), weights)


def open_file(path: str | Path, y: Any = None, block_size: int = BLOCK_BYTES) -> Source:
    """The source that a path names.

    Parameters
    ----------
    path : path
        A .npy file of rows; a .parquet file, or a folder of them; a file of svmlight text (.svm,
        .svmlight, .libsvm), which is parsed once to a temporary file.
    y : optional
        The labels: an array, or the path of a .npy file, for a .npy file of features; else the
        label column, by name or position. By default the column called target, label, class or y,
        or the last one. Svmlight has its labels in the text.
    block_size : int
        Bytes of a block.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        require_file(path)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".parquet":
        from momentron.streams.parquet import ParquetSource

        return ParquetSource(path, target=y, block_size=block_size)
    if suffix in SVMLIGHT:
        if y is not None:
            raise InputError(
                f"{path} takes no y ({short(y)} given): svmlight has labels in the text"
            )
        return SvmlightSource(path, block_size=block_size)
    if suffix != ".npy":
        raise InputError(
            f"{path} has suffix {suffix!r}; blocks are read from .npy, .parquet, a folder of "
            f".parquet files, {', '.join(SVMLIGHT)}, or an object with block(i)"
        )
    return NpySource(path, y, block_size=block_size)


@dataclass(frozen=True)
class BlockData:
    """A file or folder to be read in blocks."""

    path: str
    target: str | int | None  # the label column, or a .npy file of labels
    # what the fit may take in this process, such as "1GB", besides what is kept of every row; else
    # blocks have their usual size
    memory: str | None
    scheduler: str | None  # the address of a Dask scheduler whose workers read the file and keep it

    @property
    def block_size(self) -> int:
        if self.memory is None:
            return BLOCK_BYTES
        return max(1, parse_size(self.memory, "memory") // BLOCKS_IN_MEMORY)

    @contextmanager
    def opened(self) -> Iterator[tuple[Stream, FeatureColumns | None]]:
        """The stream of blocks, with a client of the cluster as long as it is needed.

        With it come its columns, if they have names.
        """
        if self.scheduler is None:
            source = open_file(self.path, self.target, self.block_size)
            yield DiskStream(source), getattr(source, "columns", None)
            return
        from momentron.streams.dask import DaskStream, connected

        with connected(self.scheduler) as client:  # before the file, which may take a conversion
            source = open_file(self.path, self.target, self.block_size)
            yield DaskStream.from_source(source, client), getattr(source, "columns", None)


def stream_margin(
    stream: Stream, options: FitOptions, limit: TimeLimit, callback: Callback | None = None
) -> MarginResult:
    """Maximise the margin over a stream; what `max_margin` calls for data in blocks."""
    solver = options.solver
    memory = SET_SHARE * (options.block_size or BLOCK_BYTES)
    file = None
    if options.checkpoint is not None:
        # where nothing has slack, weights only say which rows count, and the digest covers these
        weights = stream.weights if math.isfinite(options.C) else None
        identity = options.question(weights) | {
            "method": f"{solver.name} on blocks",
            "class_weight": content_of("class_weight", options.class_weight),
        }
        file = Checkpoint(options.checkpoint, identity)
    with (
        until(limit.moment()),
        TableReporter(activity=stream.activity) if options.verbose else nullcontext() as table,
    ):
        try:
            problem = open_problem(stream, options, memory)
        except OutOfTime:
            raise InputError(
                f"max_time={limit.max_time:g} expired after {stream.share:.0%} of the first pass "
                "over the data, without which nothing is known: allow more time"
            ) from None
        if solver.uses_working_sets:
            rounds = SoftRounds if problem.is_soft else WorkingSetRounds
            options = replace(options, solver=rounds(solver))
        result = solved(problem, options, limit, callback=callback, reporter=table, checkpoint=file)
    result = replace(result, bytes_read=stream.nbytes, pass_seconds=stream.seconds)
    return problem.rows.numbered(result)


def open_problem(stream: Stream, options: FitOptions, memory: int) -> BlockProblem:
    """The problem that the first pass finds, for a method that may run on blocks."""
    seed = options.budget.random_state
    seed = seed if isinstance(seed, int) else 0
    found: FirstPassResult = stream.run_first(FirstPass(MOST_SAMPLED, seed, memory))
    found.require_usable()
    kind = SoftBlockProblem if math.isfinite(options.C) else BlockProblem
    return kind.of_stream(stream, found, options)
