"""`max_margin`: the library in one call. Options in, result out."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from momentron.arithmetic.clock import TimeLimit
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.threads import one_thread
from momentron.data.arguments import require_callback
from momentron.data.exactness.tensors import copied_bytes
from momentron.data.files import read_data
from momentron.data.files.formats import IN_BLOCKS
from momentron.dual.losses import Exponential, Loss
from momentron.errors import InputError, short
from momentron.fitting.fits import FitRows, Fits, fit_rows
from momentron.fitting.options import FitOptions
from momentron.fitting.several import Series
from momentron.result import MarginResult
from momentron.rows.kernels import Kernel
from momentron.rows.validation import TrainingData
from momentron.solvers import Solver
from momentron.solvers.loop import Callback
from momentron.streams import Stream, as_stream
from momentron.streams.block_fits import is_dask, is_source, stream_margin


def max_margin(
    X: Any,
    y: Any = None,
    *,
    method: str | Solver = "auto",
    kernel: str | Kernel | Callable[..., Any] | None = None,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    cache_size: float = 1000.0,
    fit_intercept: bool = True,
    C: float = math.inf,
    penalty: str = "squared_hinge",
    sample_weight: Any = None,
    class_weight: Mapping[Any, float] | str | None = None,
    loss: str | Loss = "exponential",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_time: float | None = None,
    max_memory: int | str | None = None,
    initial: Any = None,
    block_size: int | str | None = None,
    checkpoint: str | PathLike[str] | None = None,
    callback: Callback | None = None,
    record_every: int = 1,
    verbose: int = 0,
    random_state: Any = None,
) -> MarginResult:
    r"""Maximise the margin, and prove how close the result is to the best.

    .. math:: \barγ = \max_{w ≠ 0, b} \min_i y_i (⟨w, x_i⟩ + b) / ‖w‖

    With three classes or more, the joint margin over all examples i and wrong labels j:

    .. math:: \barγ = \max_{W ≠ 0, b} \min_{i, j ≠ c_i} (F_{i c_i} - F_{ij}) / ‖W‖,
        \quad F = X W^T + b

    Parameters
    ----------
    X : array, sparse matrix, data frame or torch tensor of shape (n, d)
        float32 and float64 are read in place, in any layout. Tensors may require gradients, be
        sparse, bfloat16 or float16, or on another device: their values come to the host a block at
        a time, and whenever a block is read where a copy would take more than 256 MB. Or the path
        of a file: CSV, TSV, svmlight, .npz, .npy or .parquet, read into memory up to 256 MB.
        Data larger than memory: the path of a larger .npy, .parquet or svmlight file or of a folder
        of .parquet files, any object that follows `momentron.streams.Source`, or a Dask array or
        data frame; without a kernel, by any method but "adaptive", and with a finite C for two
        classes by "auto".
    y : array of shape (n,)
        Two classes or more: strings, integers or booleans. The joint margin of two classes would be
        √2 times the binary margin, which is the one that is kept for them. Where X is a path, the
        label column by name or position, or None for the default; for a .npy file of features, also
        the labels themselves or the path of a .npy file of them.
    method : str or Solver, default="auto"
        "auto", or a name from `momentron.solvers.SOLVERS`, or a solver with its own parameters,
        such as ``Momentum(step=0.5)``.
    kernel : {"linear", "rbf", "poly", "laplacian", "precomputed"}, callable or Kernel, default=None
        Classify in the feature space of a kernel; margins are then distances in that space. A
        callable f(A, B) gives the matrix of kernel values; with "precomputed",
        X itself is that matrix. Without a kernel, X is read as it is.
    gamma : {"scale", "auto"} or float, default="scale"
        The factor of distances in "rbf" and "laplacian", and of inner products in "poly", as in
        scikit-learn's SVC: "scale" is 1/(d · variance of X), "auto" is 1/d.
    degree : int, default=3
        The degree of "poly".
    coef0 : float, default=0.0
        The constant of "poly", (gamma ⟨x, x'⟩ + coef0)^degree.
    cache_size : float, default=1000.0
        Memory in MB for kernel values. Many classes may take up to three times as much, where the
        values of all pairs of examples nearly fit it; nothing else grows faster than n·k.
    fit_intercept : bool, default=True
        An unpenalised intercept b, one per class where there are many; without it b = 0.
    C : float, default=inf
        inf: the hard margin. A finite C gives the soft margin with squared hinge,
        min ½‖w‖² + C Σ ξ_i², as in scikit-learn's LinearSVC; it is the hard margin of the kernel
        K + I/(2C), and lower and upper then bound 1/√(2 · least objective). With many classes there
        is a slack for each wrong label.
    penalty : {"squared_hinge", "hinge"}, default="squared_hinge"
        What slack costs where C is finite: C ξ², as in LinearSVC, or C ξ, as in SVC and
        LinearSVC(loss="hinge"): min ½‖w‖² + C Σ max(0, 1 − y_i f(x_i)). With the hinge `dual` is
        α, 0 ≤ α_i ≤ C; only method="auto" supports it. Not to be confused with `loss`, which
        first-order methods follow to a margin, hard or soft.
    sample_weight : array of shape (n,), default=None
        How much each row counts: its C is C times its weight. A row of weight 2 is the same as the
        row twice, also for gamma="scale"; one of weight 0 is left out. Other weights have no effect
        if C is infinite, since slack is not allowed then, except on the logistic regression that is
        the fallback for classes that overlap. If X is the path of a file that is read into memory,
        one of its columns by name or position.
    class_weight : dict or "balanced", default=None
        Factors of the rows' weights by label, 1 for labels that are not named; "balanced" gives
        every class the same total weight: n/(k·n_c) for each of its n_c rows.
    loss : {"exponential", "logistic", "shifted-logistic"} or Loss, default="exponential"
        For the methods that follow a loss; only "exponential" supports an intercept.
    tol : float, default=1e-06
        Stop when the certified relative gap (upper − lower)/upper is at most this. Data whose
        upper bound falls below tol · max‖x_i‖ are reported as not separable within tolerance.
    max_iter : int, default=None
        The most iterations; None: the default of the method.
    max_time : float, default=None
        Wall-clock seconds; None: no limit.
    max_memory : int or str, default=None
        Bytes, such as "1GB", that method="auto" may take for working sets, factors and copies of
        rows, besides X itself and the memory for kernel values, which is `cache_size`. By default a
        quarter of the machine's memory, or 2 GB if that is less. What does not fit is not begun:
        the interval may then be wider than asked for, and a warning says so.
    initial : MarginResult or array, default=None
        Start from an earlier result, for the same features: another C, or more rows below the old
        ones. The methods that follow a loss (momentum and its dual form, gradient descent, also
        normalised, `TorchOptimizer`) scale it to functional margin 1. They can also start from an
        array shaped like `coef`, in the units of X, which is not rescaled.
    block_size : int or str, default=None
        Read X in blocks of this many bytes, such as "64MB"; peak memory is about 40 blocks, and
        some 200 bytes per row (and class, where these are many). By default, only large files are
        read in blocks, of 16 MB.
    checkpoint : path, default=None
        A file to which the state is written every few seconds, and from which a run that was killed
        resumes, also one of `momentron fit --checkpoint`. For methods whose state is a few arrays;
        "auto" supports it for data in blocks, and then reads files of any size in blocks.
    callback : callable, default=None
        Called with each trace row, as an `Iterate`, which also has the classifier;
        a true return value stops the run.
    record_every : int, default=1
        Record one iteration in this many in the trace, and call back as often; the first is always
        included, and in the trace the last.
    verbose : int, default=0
        1 prints a table as the method runs.
    random_state : int or Generator, default=None
        The seed of method="adaptive", which draws; the others do not.

    Returns
    -------
    MarginResult

    Examples
    --------
    >>> from momentron import max_margin
    >>> X = [[0.0, 2.0], [1.0, 3.0], [0.0, -1.0], [2.0, -4.0]]
    >>> result = max_margin(X, ["up", "up", "down", "down"], tol=1e-3)
    >>> bool(result.lower <= 1.5 <= result.upper)
    True

    References
    ----------
    Ji, Srebro, Telgarsky (2021), *Fast margin maximization via dual acceleration*, ICML.
    """
    options = FitOptions.among(locals())
    needs_rows = None if initial is None else "initial"
    plan = plan_fit(X, y, options, sample_weight=sample_weight, needs_rows=needs_rows)
    start = None if initial is None else [initial]
    return fit(plan, options, initial=start, callback=callback).results[0]


# --- the door ------------------------------------------------------------------------------------

LARGEST_WHOLE = 256 * 2**20  # bytes of a file or a tensor's copy: larger ones are read in blocks


@dataclass(frozen=True)
class Plan:
    """Where the rows of a fit are read: from memory, or from blocks in every pass."""

    data: TrainingData | None  # the rows in memory, checked; or else
    blocks: Stream | None  # the rows in blocks, none of which has been read yet
    limit: TimeLimit  # the seconds that the fit may take, from the plan on


def plan_fit(
    X: Any,
    y: Any,
    options: FitOptions,
    *,
    sample_weight: Any = None,
    needs_rows: str | None = None,
) -> Plan:
    """Decide where rows are read, and check them if that is memory.

    `max_margin`, the estimators and the command line all ask here.

    Parameters
    ----------
    X, y, sample_weight
        As in `max_margin`; or a stream and None.
    options : FitOptions
    needs_rows : str, optional
        What besides the options needs all the rows at once, as an error names it.
    """
    limit = TimeLimit(options.max_time)
    in_blocks = reads_in_blocks(X, options, needs_rows=needs_rows)
    is_column = isinstance(sample_weight, str | Integral) and not isinstance(sample_weight, bool)
    is_path = not isinstance(X, np.ndarray) and isinstance(X, str | PathLike)
    if is_path and not in_blocks:
        file = read_data(X, y, weight=sample_weight if is_column else None)
        X, y = file.X, file.y
        sample_weight = file.weights if is_column else sample_weight
    elif is_column:
        raise InputError(
            f"sample_weight={short(sample_weight)} is a column name, for which X must be a file "
            "read into memory; pass one weight per row"
        )
    if in_blocks:
        X = Path(X) if is_path else X
        refusal = _refusal_of_blocks(options, needs_rows)
        if refusal is not None:
            raise InputError(refusal)
        return Plan(None, as_stream(X, y, options.block_size, sample_weight), limit)
    is_finite = options.kernel is not None
    data = TrainingData.from_arrays(X, y, sample_weight, is_finite=is_finite)
    return Plan(data, None, limit)


def reads_in_blocks(X: Any, options: FitOptions, *, needs_rows: str | None = None) -> bool:
    """Whether rows are read in blocks: the only place that decides it.

    Files are if they are large and have blocks, or where a size of blocks was named or a run may
    be resumed from them; sources and Dask collections always are. Tensors whose copy on the host
    would be large are where nothing needs all the rows at once.
    """
    if options.block_size is not None:
        return True
    if isinstance(X, np.ndarray):
        return False
    if is_dask(X) or is_source(X):
        return True
    if isinstance(X, str | PathLike):
        file = Path(X).expanduser()
        is_resumed = options.checkpoint is not None and options.solver.name == "auto"
        if is_resumed and options.kernel is None:
            return True
        try:
            is_large = file.suffix.lower() in IN_BLOCKS and file.stat().st_size > LARGEST_WHOLE
            return file.is_dir() or is_large
        except OSError:
            return False  # reading it says what is wrong
    is_plain = options.checkpoint is None and _refusal_of_blocks(options, needs_rows) is None
    return is_plain and copied_bytes(X) > LARGEST_WHOLE


def _refusal_of_blocks(options: FitOptions, needs_rows: str | None) -> str | None:
    """Why rows cannot be read in blocks; None where they can."""
    solver, memory, weights = options.solver, options.max_memory, options.class_weight
    if memory is not None:
        return f"max_memory={memory} is for data in memory; block_size bounds the memory of blocks"
    if options.kernel is not None:
        kernel = short(options.kernel.kernel)
        return f"kernel={kernel} needs the data in memory; leave it out for blocks"
    if math.isfinite(options.C) and not solver.uses_working_sets:
        return (
            f"C={options.C} with method={solver.name!r} needs the data in memory; take "
            "method='auto' for blocks, or C=inf"
        )
    if options.loss.name != Exponential.name:
        return f"loss={options.loss.name!r} needs the data in memory; leave it out for blocks"
    if solver.needs_memory is not None:
        return (
            f"method={solver.name!r} needs the data in memory: {solver.needs_memory}; load the "
            "data, or choose another method, such as 'auto' or 'momentum'"
        )
    if isinstance(weights, Mapping) and not all(weights.values()):
        return (
            f"class_weight={short(weights)} leaves a class out, which needs the data in memory; "
            "leave its rows out of the blocks"
        )
    if needs_rows is not None:
        return f"{needs_rows} needs the data in memory: load them, or leave it out for blocks"
    return None


def fit_path(
    plan: Plan,
    options: FitOptions,
    Cs: Sequence[float],
    *,
    is_split: bool = False,
    initial: Sequence[Any] | None = None,
    callback: Callback | None = None,
) -> list[Fits]:
    """Fit to the rows of a plan for one C after the other, within the budget of one fit.

    One BLAS thread and standard arithmetic are in force for all of it. `is_split` asks for every
    class against the rest where there are more than two; `initial` has a start for each fit.
    """
    require_callback(callback)
    with one_thread(), standard_arithmetic():
        if plan.data is None:
            assert plan.blocks is not None
            if list(Cs) != [options.C] or is_split or initial is not None:
                raise InputError(
                    "several fits, and starts for them, need the data in memory: load them"
                )
            result = stream_margin(plan.blocks, options, plan.limit, callback)
            return [Fits([result], result.classes)]
        rows = FitRows.of(plan.data, options)
        is_split = is_split and rows.data.classes.size > 2
        if is_split or len(Cs) > 1:
            series = Series(rows, plan.limit, callback, is_split=is_split)
            return series.along(options, Cs, initial)
        start = None if initial is None else initial[0]
        options = options if Cs[0] == options.C else replace(options, C=Cs[0])
        result = fit_rows(rows, options, plan.limit, callback, start)
        return [Fits([result], rows.data.classes, rows)]


def fit(plan: Plan, options: FitOptions, **more: Any) -> Fits:
    """`fit_path` for the single C of the options."""
    return fit_path(plan, options, [options.C], **more)[0]
