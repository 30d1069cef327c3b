"""The solvers of the suite, by name: momentron, and its peers each called in its best way.

A solver is a function from a Task to an Answer. What it does to the data (copying, scaling,
reducing, converting float32) is part of its time, as it is for a user.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.suite import quadratic
from benchmarks.suite.task import Answer, Task

REFERENCE = "momentron"
"""The solver that every other is compared with; it always runs."""

CLASSICS = ("liblinear-1e-4", "liblinear-1e-6", "liblinear-1e-8", "libsvm")
"""The two libraries that nearly everyone uses."""

ANOTHER_VARIANT = "another variant of it is run"
"""The reason against a solver that the table need not mention."""


def takes_all(task: Task) -> str | None:
    """No objection."""
    return None


@dataclass(frozen=True)
class BenchSolver:
    """A named solver.

    `run` must be a module-level function or a partial of one, for it crosses to a worker process.
    `refuse` says why the solver cannot take a task, or returns None. `requires` is the module that
    must be installed.
    """

    name: str
    run: Callable[[Task], Answer]
    refuse: Callable[[Task], str | None] = takes_all
    requires: str | None = None

    def reason_against(self, task: Task) -> str | None:
        """Why this solver cannot be run on a task, or None."""
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return f"{self.requires} is not installed"
        return self.refuse(task)


def solve_momentron(task: Task) -> Answer:
    """`max_margin` to a certified gap of 1e-6, or to a witness below 1e-12.

    momentron's soft margin is ½‖w‖² + (C/2) Σ ξ², so its C is twice the task's.
    """
    from momentron.api import max_margin
    from momentron.status import Status

    if task.kind == "witness":
        result = max_margin(task.X, task.y, fit_intercept=task.fit_intercept, tol=1e-12)
        certified = result.status is Status.NOT_SEPARABLE
        intercept = float(result.intercept)
        return Answer(result.coef, intercept, result.full_dual(), certified, str(result.status))
    result = max_margin(task.X, task.y, fit_intercept=task.fit_intercept, C=2.0 * task.C, tol=1e-6)
    scale = 1.0
    if task.kind == "soft" and result.lower > 0.0:
        scale = 1.0 / result.lower
    certified = result.lower > 0.0 and result.gap <= 1e-6
    note = "" if certified else f"gap {result.gap:.1e}, {result.status}"
    intercept = scale * float(result.intercept)
    return Answer(scale * result.coef, intercept, result.full_dual(), certified, note)


def solve_liblinear(task: Task, *, tol: float) -> Answer:
    """`LinearSVC`: hinge loss with C = 1e6 for the hard margin.

    LIBLINEAR penalises its intercept; intercept_scaling = R makes the penalty small beside ‖w‖²
    (1 − margin/optimum 2e-6 on MNIST 0/1). Larger scalings cost it dearly: at 10 R the same
    problem takes fifty times as long, at 100 R it fails. The soft margin is its squared hinge,
    primal or dual as `dual="auto"` prefers.
    """
    from sklearn.svm import LinearSVC

    common = {
        "tol": tol,
        "max_iter": 10_000_000,
        "fit_intercept": task.fit_intercept,
        "intercept_scaling": task.radius if task.fit_intercept else 1.0,
        "random_state": 0,
    }
    if task.kind == "soft":
        model = LinearSVC(loss="squared_hinge", dual="auto", C=task.C, **common)
    else:
        model = LinearSVC(loss="hinge", dual=True, C=1e6, **common)
    model.fit(task.X, task.y)
    return Answer(model.coef_[0], float(np.ravel(model.intercept_)[0]))


def refuse_liblinear(task: Task) -> str | None:
    if task.kind == "witness":
        return "LinearSVC does not expose its dual variables"
    return ANOTHER_VARIANT if task.kind == "soft" else None


def refuse_liblinear_soft_only(task: Task) -> str | None:
    return ANOTHER_VARIANT if task.kind != "soft" else None


def solve_libsvm(task: Task) -> Answer:
    """`SVC(kernel="linear", C=1e10)`, whose intercept is unpenalised.

    Without an intercept it is given the data and their mirror image (−x, −y), whose best
    intercept is zero. tol = 3e-5, for its default of 1e-3 misses 1 − margin/optimum = 1e-4 on
    MNIST 0/1 with an intercept (0.73 s, 3e-4; with 1e-4: 0.79 s, 4e-5), and 1e-4 does elsewhere.
    """
    from sklearn.svm import SVC

    X, y, n = task.X, task.y, task.shape[0]
    if not task.fit_intercept:
        X = sp.vstack([X, -X], format="csr") if task.is_sparse else np.concatenate([X, -X])
        y = np.concatenate([y, -y])
    model = SVC(kernel="linear", C=1e10, tol=3e-5, cache_size=1000).fit(X, y)
    duals = model.dual_coef_
    duals = np.abs(duals.toarray() if sp.issparse(duals) else duals).ravel()
    q = np.bincount(model.support_ % n, weights=duals, minlength=n)
    w = model.coef_
    w = w.toarray() if sp.issparse(w) else w
    return Answer(w.ravel(), float(model.intercept_[0]), q)


def refuse_libsvm(task: Task) -> str | None:
    return "SVC has no squared hinge" if task.kind == "soft" else None


def solve_rehline(task: Task) -> Answer:
    """`ReHLine_solver`: hinge loss with C = 1e6, on rows of length at most 1.

    The scaling sits in the loss, so that X is neither scaled nor copied. Its form with hard
    constraints took four times as long for a worse margin (Gaussian noise, 1000×800). An intercept
    is one more column, of constant R, and is penalised as in LIBLINEAR. The squared hinge is a
    ReHU with its cut-off at infinity.
    """
    from rehline import ReHLine_solver

    X, y, n = task.X, task.y, task.shape[0]
    R = task.radius
    if task.fit_intercept:
        column = np.full((n, 1), R)
        X = sp.hstack([X, column], format="csr") if task.is_sparse else np.hstack([X, column])
    empty: Any = np.empty((0, n))
    options = {"max_iter": 1_000_000, "tol": 1e-5, "verbose": 0}
    if task.kind == "soft":
        # ReHU(z) = z²/2 for 0 < z ≤ τ, so that C max(0, 1 − yf)² has scale √(2C)
        root = np.sqrt(2.0 * task.C)
        S, T, cut = -(root * y)[None, :], np.full((1, n), root), np.full((1, n), np.inf)
        result = ReHLine_solver(X, empty, empty, Tau=cut, S=S, T=T, **options)
        return Answer(result.beta)
    C = 1e6
    result = ReHLine_solver(X, -(C / R * y)[None, :], np.full((1, n), C), **options)
    w = result.beta / R
    b = float(w[-1]) * R if task.fit_intercept else 0.0
    return Answer(w[: task.shape[1]], b, np.ravel(result.Lambda))


SOLVERS: dict[str, BenchSolver] = {
    solver.name: solver
    for solver in (
        BenchSolver(REFERENCE, solve_momentron),
        BenchSolver(
            "liblinear-1e-4",
            partial(solve_liblinear, tol=1e-4),
            refuse_liblinear,
        ),
        BenchSolver(
            "liblinear-1e-8",
            partial(solve_liblinear, tol=1e-8),
            refuse_liblinear,
        ),
        BenchSolver(
            "liblinear-1e-6", partial(solve_liblinear, tol=1e-6), refuse_liblinear_soft_only
        ),
        BenchSolver("libsvm", solve_libsvm, refuse_libsvm),
        BenchSolver("daqp", quadratic.solve_daqp, quadratic.refuse_active_set, "daqp"),
        BenchSolver("piqp", quadratic.solve_piqp, requires="piqp"),
        BenchSolver("quadprog", quadratic.solve_quadprog, quadratic.refuse_active_set, "quadprog"),
        BenchSolver("rehline", solve_rehline, requires="rehline"),
        BenchSolver("osqp", quadratic.solve_osqp, requires="osqp"),
        BenchSolver("clarabel", quadratic.solve_clarabel, requires="clarabel"),
    )
}
