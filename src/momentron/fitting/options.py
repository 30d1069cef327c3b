"""What was asked for: one noun for `max_margin`, the estimators, the command line, checkpoints."""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from momentron.data.arguments import (
    as_count,
    as_flag,
    as_number,
    as_path,
    machine_memory,
    meant,
    parse_size,
    require_seed,
    require_verbose,
    seconds_of,
)
from momentron.dual.losses import Exponential, Loss, as_loss
from momentron.errors import InputError, short
from momentron.rows import Operator
from momentron.rows.kernels import Kernel
from momentron.rows.validation import TrainingData, require_class_weight
from momentron.solvers import RunOptions, Solver, as_solver
from momentron.solvers.checkpoint import content_of, parameters_of
from momentron.solvers.problem import KernelChoice, Problem

MOST_CS = 10_000  # values of C that Cs=n may ask for: each is a fit
MOST_MEMORY = 2 * 2**30  # bytes that a fit takes by default, or a quarter of the machine's memory
PENALTIES = ("squared_hinge", "hinge")


@dataclass(kw_only=True, eq=False, repr=False)
class FitParameters:
    """Parameters of a fit as users name them, with their defaults; estimators have all of them."""

    method: str | Solver = "auto"
    fit_intercept: bool = True
    penalty: str = "squared_hinge"
    class_weight: Mapping[Any, float] | str | None = None
    loss: str | Loss = "exponential"
    tol: float = 1e-6
    max_iter: int | None = None
    max_time: float | None = None
    max_memory: int | str | None = None
    verbose: int = 0
    random_state: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class KernelParameters:
    """Parameters of a kernel as users name them, with their defaults."""

    kernel: str | Kernel | Callable[..., Any] | None = None
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 1000.0


DEFAULTS = [field.default for field in fields(KernelParameters)[1:]]  # of all but the kernel


@dataclass(kw_only=True, eq=False, repr=False)
class Arguments(FitParameters, KernelParameters):
    """All options of `max_margin` as users name them, with their defaults."""

    C: float = math.inf
    block_size: int | str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    record_every: int = 1


@dataclass(frozen=True)
class FitOptions:
    """All that a fit depends on besides the data, checked; created by `from_arguments`."""

    solver: Solver
    kernel: KernelChoice | None
    fit_intercept: bool
    C: float
    loss: Loss
    budget: RunOptions
    max_time: float = math.inf
    max_memory: int | None = None  # as it was named
    penalty: str = PENALTIES[0]  # what slack costs, where C is finite
    class_weight: Any = None
    verbose: int = 0
    block_size: int | None = None  # bytes of a block, where data are to be read in blocks
    checkpoint: Path | None = None
    record_every: int = 1  # iterations between two rows of the trace

    @classmethod
    def among(cls, values: Mapping[str, Any]) -> "FitOptions":
        """The options among other values, such as the attributes of an estimator."""
        names = values.keys() & Arguments.__dataclass_fields__.keys()
        return cls.from_arguments(**{name: values[name] for name in names})

    @classmethod
    def from_arguments(cls, **given: Any) -> "FitOptions":
        """Options as users name them (see `Arguments`); InputError names the first bad one."""
        asked = Arguments(**given)
        solver, loss = as_solver(asked.method), as_loss(asked.loss)
        if not solver.uses_loss and loss.name != Exponential.name:
            raise InputError(
                f"loss={loss.name!r} has no meaning for method={solver.name!r}; leave it out, or "
                "choose a method that follows a loss, such as 'momentum'"
            )
        budget, max_time = _limits(solver, asked)
        require_class_weight(asked.class_weight)
        require_verbose(asked.verbose)
        return cls(
            solver=solver,
            kernel=_kernel_choice(asked),
            fit_intercept=as_flag("fit_intercept", asked.fit_intercept),
            C=checked_C(asked.C),
            loss=loss,
            penalty=_checked_penalty(asked.penalty, solver),
            class_weight=asked.class_weight,
            budget=budget,
            max_time=max_time,
            max_memory=None if asked.max_memory is None else budget.memory,
            verbose=int(asked.verbose),
            block_size=None if asked.block_size is None else parse_size(asked.block_size),
            checkpoint=as_path("checkpoint", asked.checkpoint),
            record_every=as_count("record_every", asked.record_every),
        )

    def problem_of(
        self, data: TrainingData, rows: Operator | None = None, kind: type[Problem] = Problem
    ) -> Problem:
        """The problem that weighed data pose; their rows may be known as an operator already."""
        return kind.of(
            data,
            fit_intercept=self.fit_intercept,
            loss=self.loss,
            C=self.C,
            penalty=self.penalty,
            kernel=self.kernel,
            rows=rows,
        )

    def question(self, weights: Any, kernel: Kernel | None = None) -> dict[str, str]:
        """What tells a run from others on the same rows, the same in every process.

        `kernel` is the one that was chosen for the rows. Budgets, tolerance, memory and printing
        are left out: a run may go on with others.
        """
        return {
            "method": self.solver.name,
            "parameters": parameters_of(self.solver),
            "fit_intercept": str(self.fit_intercept),
            "C": repr(self.C),
            "penalty": self.penalty,
            "weights": content_of("sample_weight", weights),
            "loss": content_of("loss", self.loss),
            "kernel": content_of("kernel", kernel),
            "random_state": content_of("random_state", self.budget.random_state),
        }


def _kernel_choice(asked: KernelParameters) -> KernelChoice | None:
    """The kernel that was asked for, if any; its parameters mean nothing without one."""
    given = asked.gamma, asked.degree, asked.coef0, asked.cache_size
    if asked.kernel is not None:
        return KernelChoice(asked.kernel, *given)
    if all(type(a) is type(b) and a == b for a, b in zip(given, DEFAULTS, strict=True)):
        return None  # nearly always, so that there is nothing to check
    KernelChoice("linear", cache_size=asked.cache_size)
    for name, value, default in zip(("gamma", "degree", "coef0"), given, DEFAULTS, strict=False):
        if not isinstance(value, str | Real) or value != default:
            raise InputError(f"{name}={short(value)} has no meaning without a kernel; name one")
    return None


def _checked_penalty(penalty: Any, solver: Solver) -> str:
    if not isinstance(penalty, str) or penalty not in PENALTIES:
        raise InputError(
            f"penalty={short(penalty)} must be 'squared_hinge' or 'hinge': it says what slack costs"
            f"{meant(penalty, PENALTIES)}"
        )
    if penalty == "hinge" and not solver.uses_working_sets:
        raise InputError(
            f"method={solver.name!r} does not support penalty='hinge', whose dual weights have "
            "upper bounds; use method='auto'"
        )
    return penalty


def checked_C(C: Any) -> float:
    """C as a float; InputError where it is none that can be meant."""
    wanted = "a positive number, from 1e-100 to 1e100; inf is the hard margin"
    return as_number("C", C, wanted, lambda number: number == math.inf or 1e-100 < number < 1e100)


def _limits(solver: Solver, asked: FitParameters) -> tuple[RunOptions, float]:
    """(the budget, with the method's own default for the iterations, and the seconds)."""
    require_seed(asked.random_state)
    tol, max_iter, max_memory = asked.tol, asked.max_iter, asked.max_memory
    as_number("tol", tol, "a number in [0, 1)", lambda number: 0.0 <= number < 1.0)
    if type(max_iter) is int and max_iter == -1:  # as SVC has it
        raise InputError("max_iter=-1 must be at least 1; None is the default of the method")
    steps = solver.default_max_iter if max_iter is None else as_count("max_iter", max_iter)
    memory = None if max_memory is None else parse_size(max_memory, "max_memory")
    if memory is not None and not solver.uses_working_sets:
        raise InputError(
            f"max_memory={short(max_memory)} has no meaning for method={solver.name!r}, which "
            "needs only a few vectors; leave it out"
        )
    budget = RunOptions(
        float(tol),
        steps,
        random_state=asked.random_state,
        memory=memory or int(min(MOST_MEMORY, machine_memory() / 4)),
    )
    return budget, seconds_of(asked.max_time)


def as_grid(Cs: Any) -> list[float]:
    """Values of C in growing order: as given, or that many, log-spaced from 1e-4 to 1e4."""
    if isinstance(Cs, Integral) and not isinstance(Cs, bool):
        return [float(C) for C in np.logspace(-4.0, 4.0, as_count("Cs", Cs, most=MOST_CS))]
    if isinstance(Cs, str) or not isinstance(Cs, Iterable) or getattr(Cs, "shape", None) == ():
        raise InputError(f"Cs={short(Cs)} must be a sequence of positive numbers, or their number")
    grid = sorted(checked_C(C) for C in Cs)
    if not grid:
        raise InputError("Cs is empty; a path needs at least one C")
    for one, other in pairwise(grid):
        if one == other:
            raise InputError(f"Cs has {short(one)} twice; each C is solved once")
    return grid
