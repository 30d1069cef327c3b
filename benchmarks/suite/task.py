"""What a solver is given, and what it gives back; both cross the border of a process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp

Kind = Literal["separable", "witness", "soft", "hinge"]

TARGET: dict[str, float] = {"separable": 1e-4, "witness": 1e-12, "soft": 1e-4, "hinge": 1e-4}
"""The score at which an answer counts: 1 − margin/optimum, ‖Zᵀq‖/R, or relative excess."""


@dataclass(frozen=True)
class Task:
    """Data and the question asked of them.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        float64 or float32.
    y : ndarray of shape (n,)
        −1.0 or 1.0.
    kind : {"separable", "witness", "soft", "hinge"}
        The largest margin; a q with Zᵀq = 0; the least ½‖w‖² + C Σ max(0, 1 − y(x·w + b))²; or the
        least ½‖w‖² + C Σ max(0, 1 − y(x·w + b)).
    fit_intercept : bool
        An unpenalised intercept b; without it b = 0.
    C : float
        In LIBLINEAR's convention, as in the formulas above; inf unless there is slack.
    """

    X: Any
    y: np.ndarray
    kind: Kind = "separable"
    fit_intercept: bool = False
    C: float = math.inf

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.X))

    @property
    def radius(self) -> float:
        """R = max‖x_i‖."""
        if self.is_sparse:
            squares = np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return float(np.sqrt(squares.max()))

    def describe(self) -> str:
        n, d = self.shape
        form = f"sparse, {self.X.nnz:,} nonzeros" if self.is_sparse else str(self.X.dtype)
        intercept = ", intercept" if self.fit_intercept else ""
        return f"{n:,} × {d:,} {form}{intercept}"


@dataclass(frozen=True)
class Answer:
    """A classifier x·w + b, weights q of the rows where the solver has them, and its own claim.

    `certified` is the solver's word that its answer is proven; the score is the objective's.
    """

    w: np.ndarray
    b: float = 0.0
    q: np.ndarray | None = None
    certified: bool = False
    note: str = ""


def write_task(path: Path, task: Task) -> None:
    """Write a task as an .npz file that loads without pickle."""
    if task.is_sparse:
        parts = {name: getattr(task.X, name) for name in ("data", "indices", "indptr")}
        parts["shape"] = np.array(task.shape)
    else:
        parts = {"X": task.X}
    np.savez(path, y=task.y, kind=task.kind, fit_intercept=task.fit_intercept, C=task.C, **parts)


def read_task(path: Path) -> Task:
    """Read what `write_task` wrote."""
    with np.load(path, allow_pickle=False) as file:
        if "X" in file:
            X = file["X"]
        else:
            parts = (file["data"], file["indices"], file["indptr"])
            X = sp.csr_matrix(parts, shape=tuple(file["shape"]))
        kind = cast(Kind, str(file["kind"]))
        return Task(X, file["y"], kind, bool(file["fit_intercept"]), float(file["C"]))


def tiny_task(task: Task) -> Task:
    """A problem of the same kind and form that takes no time, to warm up on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)).astype(task.X.dtype)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    if task.kind == "witness":
        y[:12], y[12:], X[12:] = 1.0, -1.0, X[:12]
    return Task(sp.csr_matrix(X) if task.is_sparse else X, y, task.kind, task.fit_intercept, task.C)
