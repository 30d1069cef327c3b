"""What was asked for: one noun for `max_margin`, the estimators, the command line, checkpoints."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from momentron.arguments import (
    as_count,
    as_flag,
    as_number,
    parse_size,
    require_seed,
    require_verbose,
)
from momentron.errors import InputError
from momentron.identity import content_of, data_identity, parameters_of
from momentron.kernels import Kernel
from momentron.losses import Exponential, Loss, as_loss
from momentron.problem import KernelChoice
from momentron.solve import Budget
from momentron.solvers import Solver, as_solver
from momentron.validation import TrainingData

MOST_MEMORY = 2 * 2**30  # bytes that a fit takes by default, beside X and kernel values
DEFAULTS = ("scale", 3, 0.0, 1000.0)  # of gamma, degree, coef0 and cache_size


@dataclass(frozen=True)
class FitOptions:
    """All that a fit depends on beside the data, checked; made by `from_arguments`.

    Attributes
    ----------
    solver : Solver
    kernel : KernelChoice or None
    fit_intercept : bool
    C : float
    loss : Loss
    budget : Budget
        The tolerance, the iterations, the seconds and the memory.
    random_state : int, Generator or None
    verbose : int
    block_size : int or None
        Bytes of a block, where data are to be read in blocks.
    checkpoint : Path or None
    """

    solver: Solver
    kernel: KernelChoice | None
    fit_intercept: bool
    C: float
    loss: Loss
    budget: Budget
    random_state: Any = None
    verbose: int = 0
    block_size: int | None = None
    checkpoint: Path | None = None

    @classmethod
    def from_arguments(
        cls,
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
        max_memory: int | str | None = None,
        block_size: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> "FitOptions":
        """Options as users name them (see `max_margin`); InputError names the first bad one."""
        solver, loss = as_solver(method), as_loss(loss)
        if not solver.uses_loss and loss.name != Exponential.name:
            raise InputError(
                f"loss={loss.name!r} has no meaning for method={solver.name!r}; leave it out"
            )
        require_verbose(verbose)
        require_seed(random_state)
        return cls(
            solver=solver,
            kernel=_kernel_choice(kernel, gamma, degree, coef0, cache_size),
            fit_intercept=as_flag("fit_intercept", fit_intercept),
            C=_checked_C(C),
            loss=loss,
            budget=_budget(solver, tol, max_iter, max_time, max_memory),
            random_state=random_state,
            verbose=int(verbose),
            block_size=None if block_size is None else parse_size(block_size),
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )

    @property
    def wants_blocks(self) -> bool:
        """Whether a file is read in blocks whatever its size: `auto` resumes only from those."""
        is_auto = self.solver.name == "auto"
        needs_all_rows = self.kernel is not None or math.isfinite(self.C)
        is_resumed = self.checkpoint is not None and is_auto and not needs_all_rows
        return self.block_size is not None or is_resumed

    @property
    def budget_in_memory(self) -> Budget:
        """The budget with a number for the memory."""
        if self.budget.max_memory is not None:
            return self.budget
        return replace(self.budget, max_memory=default_memory())

    def for_rows(self, X: Any) -> "FitOptions":
        """The same, with the kernel's parameters as numbers: gamma="scale" depends on X."""
        if self.kernel is None:
            return self
        return replace(self, kernel=replace(self.kernel, kernel=self.kernel.resolve(X)))

    def identity(self, data: TrainingData) -> dict[str, str]:
        """What tells a run in memory from others, the same in every process.

        Budgets, tolerance, memory and printing are left out: a run may go on with others.
        """
        kernel = None if self.kernel is None else self.for_rows(data.X).kernel
        return {
            "method": self.solver.name,
            "parameters": parameters_of(self.solver),
            **data_identity(data),
            "fit_intercept": str(self.fit_intercept),
            "C": repr(self.C),
            "loss": content_of("loss", self.loss),
            "kernel": content_of("kernel", None if kernel is None else kernel.kernel),
            "random_state": content_of("random_state", self.random_state),
        }


def _kernel_choice(
    kernel: Any, gamma: Any, degree: Any, coef0: Any, cache_size: Any
) -> KernelChoice | None:
    """The kernel that was asked for, if any; its parameters mean nothing without one."""
    if kernel is not None:
        return KernelChoice(kernel, gamma, degree, coef0, cache_size)
    given = (gamma, degree, coef0, cache_size)
    if all(type(a) is type(b) and a == b for a, b in zip(given, DEFAULTS, strict=True)):
        return None  # nearly always, so that there is nothing to check
    KernelChoice("linear", cache_size=cache_size)
    for name, value, default in zip(("gamma", "degree", "coef0"), given, DEFAULTS, strict=False):
        if np.ndim(value) or value != default:
            raise InputError(f"{name}={value!r} has no meaning without a kernel; name one")
    return None


def _checked_C(C: Any) -> float:
    number = as_number("C", C, "a positive number; inf is the hard margin")
    if not (number == math.inf or 1e-100 < number < 1e100):
        raise InputError(f"C={C!r} must lie between 1e-100 and 1e100; inf is the hard margin")
    return number


def _budget(solver: Solver, tol: Any, max_iter: Any, max_time: Any, max_memory: Any) -> Budget:
    """The budgets, with the method's own default for the iterations."""
    if not 0.0 <= as_number("tol", tol, "a number in [0, 1)") < 1.0:
        raise InputError(f"tol={tol!r} must be a number in [0, 1)")
    steps = solver.default_max_iter if max_iter is None else as_count("max_iter", max_iter)
    wanted = "a positive number of seconds, or None"
    seconds = math.inf if max_time is None else as_number("max_time", max_time, wanted)
    if not seconds > 0.0:
        raise InputError(f"max_time={max_time!r} must be {wanted}")
    memory = None if max_memory is None else parse_size(max_memory, "max_memory")
    if memory is not None and not solver.plans_memory:
        raise InputError(
            f"max_memory={max_memory!r} has no meaning for method={solver.name!r}, which takes a "
            "few vectors; leave it out"
        )
    return Budget(float(tol), steps, seconds, memory)


@cache
def default_memory() -> int:
    """A quarter of the machine's memory, or 2 GB if that is less."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on this system
        return MOST_MEMORY
    return min(MOST_MEMORY, machine // 4) if machine > 0 else MOST_MEMORY
