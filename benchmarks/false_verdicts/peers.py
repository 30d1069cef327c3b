"""How other systems answer "separable?", each called as its users call it, with a time limit.

A quadratic program min ½‖w‖² with y(x·w + b) ≥ 1 is feasible exactly for separable data, so that
"solved" says yes and "primal infeasible" says no; a support vector machine says yes if it makes no
error on its training rows. Each runs in a process of its own, since none can be interrupted.
"""

import multiprocessing
import os
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.false_verdicts.known_problems import KnownProblem

PACKAGES = ["osqp", "clarabel", "scipy.optimize", "sklearn.svm"]
YES, NO, NONE, LATE = "separable", "not separable", "no answer", "time-out"


def _rows(problem: KnownProblem) -> np.ndarray:
    """y(x, 1), or y x without an intercept."""
    X = problem.X
    lifted = np.column_stack([X, np.ones(len(X))]) if problem.fit_intercept else X
    return problem.y[:, None] * lifted


def _curvature(problem: KnownProblem) -> np.ndarray:
    """½‖w‖² leaves the intercept free."""
    return np.r_[np.ones(problem.X.shape[1]), [0.0] * problem.fit_intercept]


def osqp(problem: KnownProblem) -> str:
    import osqp as package

    A = sp.csc_matrix(_rows(problem))
    n, d = A.shape
    solver = package.OSQP()
    P = sp.csc_matrix(sp.diags_array(_curvature(problem)))
    solver.setup(P, np.zeros(d), A, np.ones(n), np.full(n, np.inf), verbose=False)
    status = str(solver.solve().info.status)
    return {"solved": YES, "primal infeasible": NO}.get(status, NONE)


def clarabel(problem: KnownProblem) -> str:
    import clarabel as package

    A = _rows(problem)
    n, d = A.shape
    settings = package.DefaultSettings()
    settings.verbose = False
    solution = package.DefaultSolver(
        sp.csc_matrix(sp.diags_array(_curvature(problem))),
        np.zeros(d),
        sp.csc_matrix(-A),
        -np.ones(n),
        [package.NonnegativeConeT(n)],
        settings,
    ).solve()
    return {"Solved": YES, "PrimalInfeasible": NO}.get(str(solution.status), NONE)


def highs(problem: KnownProblem) -> str:
    from scipy.optimize import linprog

    A = _rows(problem)
    n, d = A.shape
    found = linprog(np.zeros(d), A_ub=-A, b_ub=-np.ones(n), bounds=(None, None), method="highs")
    return {0: YES, 2: NO}.get(found.status, NONE)


def linear_svc(problem: KnownProblem) -> str:
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss="hinge", C=1e6, dual=True, fit_intercept=problem.fit_intercept)
    return YES if model.fit(problem.X, problem.y).score(problem.X, problem.y) == 1.0 else NO


def svc(problem: KnownProblem) -> str:
    from sklearn.svm import SVC

    X, y = problem.X, problem.y
    if not problem.fit_intercept:  # its mirror image makes the best intercept 0
        X, y = np.vstack([X, -X]), np.r_[y, -y]
    return YES if SVC(kernel="linear", C=1e10).fit(X, y).score(X, y) == 1.0 else NO


PEERS: dict[str, Callable[[KnownProblem], str]] = {
    "OSQP": osqp,
    "Clarabel": clarabel,
    "HiGHS": highs,
    "LinearSVC": linear_svc,
    "SVC": svc,
}


def _serve(name: str, pipe: Connection) -> None:
    """Answer problems until told to stop."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    while (problem := pipe.recv()) is not None:
        try:
            pipe.send(PEERS[name](problem))
        except Exception:  # what a peer refuses is not an answer, whatever the reason
            pipe.send(NONE)


class Peer:
    """A system in a process of its own, started again after each time-out."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds
        self._process: Any = None
        self._pipe: Any = None

    def answer(self, problem: KnownProblem) -> str:
        """YES, NO, NONE or LATE."""
        if self._process is None:
            self._start()
        self._pipe.send(problem)
        if not self._pipe.poll(self.seconds):
            self.close()
            return LATE
        try:
            return str(self._pipe.recv())
        except EOFError:  # the process died
            self.close()
            return NONE

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
        context.set_forkserver_preload([__name__, *PACKAGES])
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.name, other), daemon=True)
        self._process.start()
        # the first import is not the peer's fault: an easy problem warms it up
        easy = KnownProblem("", np.array([[0.0], [1.0]]), np.array([-1, 1]), True, YES)
        self._pipe.send(easy)
        self._pipe.recv()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
