"""Three paths of classifiers: Algorithm 1's, the soft margin's, and that of its own loss."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from momentron.api import max_margin
from momentron.problem import Problem
from momentron.solvers import Momentum
from momentron.solvers.base import Candidates
from paper.figure import Report
from paper.recording import record, require_end

SOFT_TOL = 1e-4
RIDGE = {"maxiter": 1500, "maxcor": 30, "ftol": 0.0, "gtol": 1e-8}
"""For L-BFGS: it stops by the slope alone, or after so many steps."""


def momentum_path(
    X: Any, y: np.ndarray, marks: Sequence[int], report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """(the marks, Algorithm 1's w_t at each, a row per mark)."""
    path: list[np.ndarray] = []

    def keep(proposal: Candidates) -> dict[str, float]:
        path.append(proposal.primals[0].w.copy())
        return {}

    def pose() -> Problem:
        return Problem.from_data(X, y, fit_intercept=False)

    columns = record(pose, Momentum(), marks[-1], report, extras=keep, marks=marks)
    return columns["iteration"], np.array(path)


def soft_path(X: Any, y: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The soft margin with squared hinge for each C, from the smallest on, a row each.

    Each fit starts from the one before.
    """
    path: list[np.ndarray] = []
    last = None
    for C in grid:
        last = max_margin(X, y, fit_intercept=False, C=float(C), tol=SOFT_TOL, initial=last)
        require_end(last.status)
        path.append(np.ravel(last.coef))
    return np.array(path)


def ridge_path(X: Any, y: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, float]:
    """The least ln Σ exp(Zw) + λ‖w‖²/2 for each λ, a row each, and the largest slope left.

    Algorithm 1 descends on the first term: this is the regularisation path of its own loss. The λ
    fall, and each search starts from the one before. Slopes are over λ‖w‖: zero at the least.
    """
    problem = Problem.from_data(X, y, fit_intercept=False)

    def objective(w: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        found = problem.evaluate(w)
        slope = problem.gradient(found.weights) + lam * w
        return found.psi + 0.5 * lam * float(w @ w), slope

    path, w, slopes = [], problem.zeros(), []
    for lam in grid:
        found = minimize(
            objective,
            w,
            (float(lam),),
            method="L-BFGS-B",
            jac=True,
            options=RIDGE,
        )
        w = found.x
        path.append(w.copy())
        slopes.append(np.linalg.norm(found.jac) / (lam * np.linalg.norm(w)))
    return np.array(path), float(max(slopes))


def angles(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """In degrees, between each row of the first and each of the second.

    >>> angles(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0], [3.0, 3.0]])).round(6).tolist()
    [[90.0, 45.0]]
    """
    found: np.ndarray = np.degrees(np.arccos(np.clip(_units(first) @ _units(second).T, -1.0, 1.0)))
    return found


def _units(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found
