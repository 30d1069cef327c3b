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

SOFT = ("soft", "hinge")
"""The kinds of tasks with slack."""

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
    must be installed. `loads` are the modules that are imported before the first run is timed.
    """

    name: str
    run: Callable[[Task], Answer]
    refuse: Callable[[Task], str | None] = takes_all
    requires: str | None = None
    loads: tuple[str, ...] = ()

    def reason_against(self, task: Task) -> str | None:
        """Why this solver cannot be run on a task, or None."""
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return f"{self.requires} is not installed"
        return self.refuse(task)


def solve_momentron(task: Task) -> Answer:
    """`max_margin` to a certified gap of 1e-6, or to a witness below 1e-12."""
    from momentron.api import max_margin
    from momentron.status import Status

    if task.kind == "witness":
        result = max_margin(task.X, task.y, fit_intercept=task.fit_intercept, tol=1e-12)
        certified = result.status is Status.NOT_SEPARABLE
        intercept = float(result.intercept)
        return Answer(result.coef, intercept, result.full_dual(), certified, str(result.status))
    penalty = "hinge" if task.kind == "hinge" else "squared_hinge"
    result = max_margin(
        task.X, task.y, fit_intercept=task.fit_intercept, C=task.C, penalty=penalty, tol=1e-6
    )
    certified = result.lower > 0.0 and result.gap <= 1e-6
    note = "" if certified else f"gap {result.gap:.1e}, {result.status}"
    return Answer(result.coef, float(result.intercept), result.full_dual(), certified, note)


def solve_liblinear(task: Task, *, tol: float) -> Answer:
    """`LinearSVC`: hinge loss with C = 1e6 for the hard margin.

    LIBLINEAR penalises its intercept; intercept_scaling = R makes the penalty far smaller than ‖w‖²
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
        model = LinearSVC(loss="hinge", dual=True, C=min(task.C, 1e6), **common)
    model.fit(task.X, task.y)
    return Answer(model.coef_[0], float(np.ravel(model.intercept_)[0]))


def refuse_liblinear(task: Task) -> str | None:
    if task.kind == "witness":
        return "LinearSVC does not expose its dual variables"
    return ANOTHER_VARIANT if task.kind in SOFT else None


def refuse_liblinear_soft_only(task: Task) -> str | None:
    return None if task.kind in SOFT else ANOTHER_VARIANT


def solve_libsvm(task: Task) -> Answer:
    """scikit-learn's `SVC`."""
    from sklearn.svm import SVC

    return _solve_svc(task, SVC, tol=3e-5)


def solve_onedal(task: Task) -> Answer:
    """The `SVC` of scikit-learn-intelex, which is oneDAL's.

    tol = 1e-5, a third of what LIBSVM is given.
    """
    from sklearnex.svm import SVC

    return _solve_svc(task, SVC, tol=1e-5)


def _solve_svc(task: Task, SVC: Any, *, tol: float) -> Answer:
    """`SVC(kernel="linear", C=1e10)`, whose intercept is unpenalised; C where there is slack.

    Without an intercept it is given the data and their mirror image (−x, −y), whose best
    intercept is zero. tol = 3e-5, for its default of 1e-3 misses 1 − margin/optimum = 1e-4 on
    MNIST 0/1 with an intercept (0.73 s, 3e-4; with 1e-4: 0.79 s, 4e-5), and 1e-4 does elsewhere.
    """
    X, y, n = task.X, task.y, task.shape[0]
    C = min(task.C, 1e10)
    if not task.fit_intercept:
        X = sp.vstack([X, -X], format="csr") if task.is_sparse else np.concatenate([X, -X])
        y = np.concatenate([y, -y])
        C = C if task.kind == "separable" else C / 2.0  # every row is there twice
    model = SVC(kernel="linear", C=C, tol=tol, cache_size=1000).fit(X, y)
    duals = model.dual_coef_
    duals = np.abs(duals.toarray() if sp.issparse(duals) else duals).ravel()
    q = np.bincount(model.support_ % n, weights=duals, minlength=n)
    w = model.coef_
    w = w.toarray() if sp.issparse(w) else w
    return Answer(np.ravel(w), float(np.ravel(model.intercept_)[0]), q)


def solve_skglm(task: Task) -> Answer:
    """skglm's `LinearSVC`: working sets and coordinate descent on the dual of the hinge."""
    from skglm import LinearSVC

    C = min(task.C, 1e6)
    model = LinearSVC(C=C, tol=1e-6, max_iter=1000, fit_intercept=False)
    model.fit(task.X, task.y)
    return Answer(np.ravel(model.coef_))


def refuse_skglm(task: Task) -> str | None:
    if task.kind == "witness":
        return "LinearSVC of skglm is asked for classifiers"
    if task.fit_intercept:
        return "LinearSVC of skglm has no intercept"
    return "LinearSVC of skglm has no squared hinge" if task.kind == "soft" else None


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
    if task.kind == "hinge":
        U, V = -(task.C * y)[None, :], np.full((1, n), task.C)
        return Answer(ReHLine_solver(X, U, V, **options).beta)
    C = 1e6
    result = ReHLine_solver(X, -(C / R * y)[None, :], np.full((1, n), C), **options)
    w = result.beta / R
    b = float(w[-1]) * R if task.fit_intercept else 0.0
    return Answer(w[: task.shape[1]], b, np.ravel(result.Lambda))


SKLEARN = ("sklearn.svm",)

SOLVERS: dict[str, BenchSolver] = {
    solver.name: solver
    for solver in (
        BenchSolver(REFERENCE, solve_momentron, loads=("momentron",)),
        BenchSolver(
            "liblinear-1e-4",
            partial(solve_liblinear, tol=1e-4),
            refuse_liblinear,
            loads=SKLEARN,
        ),
        BenchSolver(
            "liblinear-1e-8",
            partial(solve_liblinear, tol=1e-8),
            refuse_liblinear,
            loads=SKLEARN,
        ),
        BenchSolver(
            "liblinear-1e-6",
            partial(solve_liblinear, tol=1e-6),
            refuse_liblinear_soft_only,
            loads=SKLEARN,
        ),
        BenchSolver("libsvm", solve_libsvm, refuse_libsvm, loads=SKLEARN),
        BenchSolver("onedal", solve_onedal, refuse_libsvm, "sklearnex", ("sklearnex.svm",)),
        BenchSolver("skglm", solve_skglm, refuse_skglm, "skglm", ("skglm",)),
        BenchSolver("daqp", quadratic.solve_daqp, quadratic.refuse_active_set, "daqp", ("daqp",)),
        BenchSolver("piqp", quadratic.solve_piqp, quadratic.refuse_hinge, "piqp", ("piqp",)),
        BenchSolver(
            "quadprog",
            quadratic.solve_quadprog,
            quadratic.refuse_active_set,
            "quadprog",
            ("quadprog",),
        ),
        BenchSolver("rehline", solve_rehline, requires="rehline", loads=("rehline",)),
        BenchSolver("osqp", quadratic.solve_osqp, quadratic.refuse_hinge, "osqp", ("osqp",)),
        BenchSolver(
            "clarabel", quadratic.solve_clarabel, quadratic.refuse_hinge, "clarabel", ("clarabel",)
        ),
    )
}
