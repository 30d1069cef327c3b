"""`max_margin`: the library in one call."""

import math
from collections.abc import Callable
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from momentron.arguments import (
    as_flag,
    as_number,
    require_callback,
    require_seed,
    require_verbose,
)
from momentron.checkpoint import Checkpoint
from momentron.clock import Stopwatch
from momentron.errors import InputError
from momentron.identity import identity_of
from momentron.kernels import Kernel
from momentron.losses import Exponential, Loss, as_loss
from momentron.operators import KernelOperator
from momentron.problem import KernelChoice, Problem
from momentron.reporting import TableReporter
from momentron.result import MarginResult, make_result
from momentron.solve import Budget, Callback, Reporter, solve
from momentron.solvers import Solver, Start, as_solver
from momentron.streams import as_stream, is_streamed, require_plain, stream_margin
from momentron.threads import with_one_thread


@with_one_thread
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
    loss: str | Loss = "exponential",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_time: float | None = None,
    initial: MarginResult | None = None,
    block_size: int | str | None = None,
    checkpoint: str | PathLike[str] | None = None,
    callback: Callback | None = None,
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
    X : array, sparse matrix or data frame of shape (n, d)
        float32 and float64 are read in place, in any layout. Data larger than memory: the path of
        a .npy, .parquet or svmlight file or of a folder of .parquet files, any object that follows
        `momentron.streams.Source`, or a Dask array or data frame; for a hard margin without a
        kernel, by any method but "adaptive".
    y : array of shape (n,)
        Two classes or more: strings, integers or booleans. The joint margin of two classes would be
        √2 times the binary margin, which is the one that is kept for them.
    method : str or Solver
        "auto", or a name from `momentron.solvers.SOLVERS`, or a solver with its own parameters,
        such as ``Momentum(step=0.5)``.
    kernel : {"linear", "rbf", "poly", "laplacian", "precomputed"}, callable or Kernel, optional
        Classify in the feature space of a kernel; margins are then distances in that space. A
        callable f(A, B) gives the matrix of kernel values; X itself is that matrix where
        "precomputed". Without a kernel, X is read as it is.
    gamma, degree, coef0
        Of the kernels with a name, as in scikit-learn's SVC.
    cache_size : float
        Memory in MB for kernel values; nothing else grows faster than n·k.
    fit_intercept : bool
        An unpenalised intercept b, one a class where there are many; without it b = 0.
    C : float
        Infinite for the hard margin. A finite C asks for the soft margin with squared hinge,
        min ½‖w‖² + (C/2) Σ ξ_i², which is the hard margin of the kernel K + I/C: lower and upper
        then bound 1/√(2 · least objective). LinearSVC's C is half of this one. With many classes
        there is a slack for each wrong label.
    loss : {"exponential", "logistic"} or Loss
        For the methods that follow a loss; "logistic" without an intercept only.
    tol : float
        Stop when the certified relative gap (upper − lower)/upper is at most this. Data whose
        upper bound falls below tol · max‖x_i‖ are reported as not separable within tolerance.
    max_iter : int, optional
        The method's own default where None.
    max_time : float, optional
        Seconds; no limit where None.
    initial : MarginResult, optional
        Start from an earlier result, for the same features: another C, or more rows below the old
        ones. Only method="auto" starts warm.
    block_size : int or str, optional
        Read X in blocks of so many bytes, such as "64MB"; memory stays within some 40 blocks. By
        default what is in memory is read whole, and files in blocks of 16 MB.
    checkpoint : path, optional
        A file to which the state is written every few seconds, and from which a run that was killed
        goes on. For methods whose state is a few arrays: not for "auto" on data in memory.
    callback : callable, optional
        Called with each trace row; a true return value stops the run.
    verbose : int
        1 prints a table as the method runs.
    random_state : int, Generator or None
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
    stopwatch = Stopwatch()
    solver = as_solver(method)
    loss = as_loss(loss)
    fit_intercept = as_flag("fit_intercept", fit_intercept)
    require_verbose(verbose)
    require_callback(callback)
    require_seed(random_state)
    if not solver.uses_loss and not isinstance(loss, Exponential):
        raise InputError(
            f"loss={loss.name!r} has no meaning for method={solver.name!r}; leave it out"
        )
    budget = make_budget(solver, tol=tol, max_iter=max_iter, max_time=max_time)
    if initial is not None and not solver.warm_starts:
        raise InputError(f"method={solver.name!r} does not start warm; leave `initial` out")
    choice = make_kernel(kernel, gamma, degree, coef0, cache_size)
    if is_streamed(X, block_size):
        require_plain(kernel=kernel, C=check_C(C), loss=loss, initial=initial)
        return stream_margin(
            as_stream(X, y, block_size),
            solver=solver,
            budget=budget,
            fit_intercept=fit_intercept,
            block_size=block_size,
            random_state=random_state,
            callback=callback,
            verbose=verbose,
            checkpoint=checkpoint,
        )
    problem = Problem.from_data(
        X, y, fit_intercept=fit_intercept, loss=loss, C=check_C(C), kernel=choice
    )
    file = None
    if checkpoint is not None:
        options = {"loss": loss.name, "C": C, "kernel": choice, "random_state": random_state}
        options["fit_intercept"] = fit_intercept
        file = Checkpoint(checkpoint, identity_of(problem, solver, X, **options))
    start = make_start(problem, initial)
    reporter = TableReporter() if verbose else None
    outcome = solve(
        problem,
        solver,
        budget,
        start=start,
        random_state=random_state,
        callback=callback,
        reporter=reporter,
        stopwatch=stopwatch,
        checkpoint=file,
    )
    if reporter is not None:
        reporter.close()
    return make_result(problem, solver, outcome)


def make_kernel(
    kernel: str | Kernel | Callable[..., Any] | None,
    gamma: float | str,
    degree: int,
    coef0: float,
    cache_size: float,
) -> KernelChoice | None:
    """The kernel that was asked for, if any; its parameters mean nothing without one."""
    if kernel is not None:
        return KernelChoice(kernel, gamma, degree, coef0, cache_size)
    default = KernelChoice("linear", cache_size=cache_size)
    for name, value in (("gamma", gamma), ("degree", degree), ("coef0", coef0)):
        if np.ndim(value) or value != getattr(default, name):
            raise InputError(f"{name}={value!r} has no meaning without a kernel; name one")
    return None


def check_C(C: float) -> float:
    """C as a float, checked."""
    number = as_number("C", C, "a positive number; inf is the hard margin")
    if not (number == math.inf or 1e-100 < number < 1e100):
        raise InputError(f"C={C!r} must lie between 1e-100 and 1e100; inf is the hard margin")
    return number


def make_start(problem: Problem, initial: MarginResult | None) -> Start | None:
    """The start that an earlier result gives, checked against the problem."""
    if initial is None:
        return None
    if not isinstance(initial, MarginResult):
        raise InputError(
            f"initial={initial!r} must be the MarginResult of an earlier call, or None"
        )
    n_features = problem.operator.shape[1]
    coef = initial.coef
    if isinstance(problem.operator, KernelOperator) and coef.shape[-1] < n_features:
        new = np.zeros((*coef.shape[:-1], n_features - coef.shape[-1]))  # rows below the old ones
        coef = np.concatenate([coef, new], axis=-1)
    if coef.shape[-1] != n_features:
        raise InputError(
            f"initial has {coef.shape[-1]} features but X has {n_features}; they must agree"
        )
    n_outputs, n_initial = coef.size // n_features, problem.classes.size
    if max(n_outputs, 2) != n_initial:
        raise InputError(
            f"initial has {max(n_outputs, 2)} classes but y has {n_initial}; they must agree"
        )
    # functional margin 1, and the units of the operator, which are those of X over 2^exponent
    scale = initial.lower if initial.lower > 0.0 else initial.upper
    scale = float(np.ldexp(scale, -problem.exponent))
    if not 0.0 < scale < math.inf:
        return None
    b = np.ldexp(np.atleast_1d(initial.intercept), -problem.exponent) / scale
    if not problem.dual_set.fits_intercept:
        b = np.zeros(0)
    elif b.size > 1:
        b = b[:-1] - b[-1]
    constraints = problem.constraints
    return Start(constraints.from_coef(coef) / scale, b, constraints.from_dual(initial.full_dual()))


def make_budget(
    solver: Solver, *, tol: float, max_iter: int | None, max_time: float | None
) -> Budget:
    """Check the budgets, and fill in the method's defaults."""
    if not 0.0 <= as_number("tol", tol, "a number in [0, 1)") < 1.0:
        raise InputError(f"tol={tol!r} must be a number in [0, 1)")
    if max_iter is None:
        max_iter = solver.default_max_iter
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise InputError(f"max_iter={max_iter!r} must be an integer of at least 1, or None")
    wanted = "a positive number of seconds, or None"
    seconds = math.inf if max_time is None else as_number("max_time", max_time, wanted)
    if not seconds > 0.0:
        raise InputError(f"max_time={max_time!r} must be {wanted}")
    return Budget(tol=float(tol), max_iter=int(max_iter), max_time=seconds)


__all__ = [
    "Reporter",
    "check_C",
    "make_budget",
    "make_kernel",
    "make_result",
    "make_start",
    "max_margin",
]
