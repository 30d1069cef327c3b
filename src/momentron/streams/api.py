"""`max_margin` for data in blocks: which data those are, and the solve."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from momentron.arguments import parse_size
from momentron.checkpoint import Checkpoint, unusable
from momentron.classifier import make_result
from momentron.clock import OutOfTime, Stopwatch, until
from momentron.errors import InputError, short
from momentron.identity import parameters_of
from momentron.losses import Exponential, Loss
from momentron.reporting import TableReporter
from momentron.result import MarginResult
from momentron.solve import Budget, Callback, Reporter, solve
from momentron.solvers import Solver
from momentron.streams.auto import MemoryPlan
from momentron.streams.files import open_file
from momentron.streams.first_pass import FirstPass, FirstPassResult, require_usable
from momentron.streams.problem import BlockProblem
from momentron.streams.source import BLOCK_BYTES, ArraySource
from momentron.streams.stream import DiskStream, Stream
from momentron.streams.working_set import Rows, row_numbers

SET_SHARE = 8  # the working set takes as much memory as so many blocks


def is_streamed(X: Any, block_size: Any = None) -> bool:
    """Whether X is read in blocks: a path, a source, a Dask collection, or where a size says so."""
    if block_size is not None or isinstance(X, str | Path):
        return True
    return is_dask(X) or (callable(getattr(X, "block", None)) and hasattr(X, "__len__"))


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame, without importing dask."""
    return type(X).__module__.startswith(("dask.", "dask_expr")) and hasattr(X, "__dask_graph__")


def as_stream(X: Any, y: Any = None, block_size: int | str | None = None) -> Stream:
    """The stream of blocks that X and y are.

    Parameters
    ----------
    X : path, Source, dask array or data frame, array, memory-map, sparse matrix, or Stream
    y : labels of the rows; a path of a .npy file, or the name of a column, where X is a path
    block_size : int or str, optional
        Bytes of a block, such as "64MB", where X does not come in blocks already.
    """
    size = BLOCK_BYTES if block_size is None else parse_size(block_size)
    if isinstance(X, Stream):
        return X
    if is_dask(X):
        from momentron.streams.dask import DaskStream

        return DaskStream.from_collections(X, y)
    if isinstance(X, str | Path):
        return DiskStream(open_file(X, y, size))
    if callable(getattr(X, "block", None)):
        if y is not None:
            raise InputError("y must be None where X gives its labels block by block")
        return DiskStream(X)
    return DiskStream(ArraySource(X, y, size))


def require_plain(
    *, kernel: Any, C: float, loss: Loss, initial: Any, max_memory: int | None
) -> None:
    """Refuse what asks for all the rows at once."""
    if max_memory is not None:
        raise InputError(
            f"max_memory={short(max_memory)} is for data in memory; block_size bounds that of "
            "blocks"
        )
    if kernel is not None:
        raise InputError(
            f"kernel={short(kernel)} needs the data in memory; leave it out for blocks"
        )
    if math.isfinite(C):
        raise InputError(
            f"C={short(C)} needs the data in memory; blocks have the hard margin, C=inf"
        )
    if loss.name != Exponential.name:
        raise InputError(f"loss={loss.name!r} needs the data in memory; leave it out for blocks")
    if initial is not None:
        raise InputError("initial is for data in memory; name a checkpoint to continue a run")


def stream_margin(
    stream: Stream,
    *,
    solver: Solver,
    budget: Budget,
    fit_intercept: bool,
    block_size: int | str | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
    verbose: int = 0,
    reporter: Reporter | None = None,
    checkpoint: str | PathLike[str] | None = None,
    record_every: int = 1,
) -> MarginResult:
    """Maximise the margin over a stream; what `max_margin` calls for data in blocks."""
    stopwatch = Stopwatch()
    size = BLOCK_BYTES if block_size is None else parse_size(block_size)
    is_told = bool(verbose) and reporter is None
    file = None if checkpoint is None else _checkpoint(checkpoint, stream, solver, fit_intercept)
    with (
        until(stopwatch.deadline(budget.max_time)),
        TableReporter() if is_told else nullcontext(reporter) as table,
    ):
        try:
            problem = open_problem(
                stream, solver, fit_intercept, SET_SHARE * size, random_state, file
            )
        except OutOfTime:
            raise InputError(
                f"max_time={budget.max_time:g} ended in the first pass over the data, which had "
                f"read {stream.reached:.0%} of them; without it nothing is known: allow more time"
            ) from None
        outcome = solve(
            problem,
            solver,
            budget,
            random_state=random_state,
            callback=callback,
            reporter=table,
            stopwatch=stopwatch,
            checkpoint=file,
            record_every=record_every,
        )
    return make_result(problem, solver, outcome)


def open_problem(
    stream: Stream,
    solver: Solver,
    fit_intercept: bool,
    memory: int,
    random_state: Any = None,
    file: Checkpoint | None = None,
) -> BlockProblem:
    """The problem that the first pass finds, for a method that may run on blocks.

    The pass is made after a checkpoint as well: of what a file says only the numbers of the rows
    in the working set are used here, and those rows are read again.
    """
    if solver.needs_memory is not None:
        raise InputError(
            f"method={solver.name!r} needs the data in memory: {solver.needs_memory}; load the "
            "data, or choose another method, such as 'auto' or 'momentum'"
        )
    has_sets = solver.uses_working_sets
    saved = None if file is None else file.read()
    order, wanted = _named_rows(saved) if has_sets and saved is not None else (None, None)
    plan = MemoryPlan.within(memory, stream.entries_per_row(), 2)
    first_pass = FirstPass(
        plan.sample if has_sets else 2,
        is_careful=not has_sets,
        seed=random_state if isinstance(random_state, int) else 0,
        is_bound=file is not None,
        wanted=wanted,
    )
    found = stream.run_first(first_pass)
    require_usable(found)
    if saved is not None:
        _require_same_data(found, saved)
    first = None
    if wanted is not None:
        if sum(part.numbers.size for part in found.kept) != wanted.size:
            raise unusable(f"it names rows up to {wanted[-1]}, and there are {found.n_rows}")
        classes = found.classes
        first = Rows.from_kept(found.kept, classes, order)
        if first is None or np.unique(first.codes).size != classes.size:
            raise unusable("its working set does not have rows of every class")
    return BlockProblem(stream, found, fit_intercept=fit_intercept, memory=memory, first=first)


def _named_rows(saved: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(the rows of a saved working set, all that are needed), by their numbers."""
    names = ("state.numbers", "problem.weights.numbers")
    if any(name not in saved for name in names):
        raise unusable("it does not say which rows its working set has")
    order, others = (row_numbers(saved[name]) for name in names)
    return order, np.union1d(order, others)


def _require_same_data(found: FirstPassResult, saved: Mapping[str, np.ndarray]) -> None:
    """Refuse a checkpoint of other blocks."""
    content = saved.get("problem.content")
    if content is None or not np.array_equal(content, found.content):
        raise unusable("it is of another run: its data are not those of this pass")


def _checkpoint(
    path: str | PathLike[str], stream: Stream, solver: Solver, fit_intercept: bool
) -> Checkpoint:
    identity = {
        "method": f"{solver.name} on blocks",
        "parameters": parameters_of(solver),
        "fit_intercept": str(fit_intercept),
        "blocks": str(stream.n_blocks),
    }
    return Checkpoint(path, identity)
