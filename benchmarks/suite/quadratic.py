"""The quadratic programming peers: DAQP, PIQP, quadprog, OSQP, Clarabel.

All are given

    min ½‖w‖²   subject to   y_i (x_i·w + b) ≥ 1,        rows divided by R = max‖x_i‖,

with b left out of the objective. DAQP and quadprog need a positive definite Hessian and put
½·1e-6·b² in, which moves 1 − margin/optimum by at most 1e-6 (DAQP calls some problems
infeasible with 1e-8). The soft margin adds slack variables,
½‖w‖² + C Σ ξ_i² subject to y_i (x_i·w + b) + ξ_i ≥ 1, which only the sparse solvers can carry.

Where n < d the optimal w is a combination of the rows, so these are replaced by their coordinates
in an orthonormal basis of their span, n × n instead of n × d. They come from a pivoted Cholesky
factorisation of the Gram matrix, as part of the time (six times faster than a QR factorisation on
100×5000). Sparse solvers keep sparse rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from benchmarks.suite.task import Answer, Task

MEMORY = 2e9  # bytes of the largest dense matrix that a peer is given
RIDGE = 1e-6
UNBOUNDED = 1e30


def refuse_hinge(task: Task) -> str | None:
    """Squared slack alone is posed to these."""
    return "posed with squared slack only" if task.kind == "hinge" else None


def refuse_active_set(task: Task) -> str | None:
    """What DAQP and quadprog cannot take: dense only, and silent on infeasible problems."""
    if task.kind == "witness":
        return "reports infeasibility without a ray that proves it"
    if task.kind in ("soft", "hinge"):
        return "dense only; one slack a row makes the Hessian n × n"
    n, d = task.shape
    size = 8.0 * n * min(n, d)
    return f"dense only; its matrix would take {size / 1e9:.0f} GB" if size > MEMORY else None


@dataclass(frozen=True)
class Program:
    """Constraints A (v, b, ξ) ≥ 1 on coordinates v, and the way back from v to w.

    Attributes
    ----------
    A : ndarray or csr_matrix of shape (n, m)
        Columns of v, then of the intercept and of the slacks where there are any.
    hessian : ndarray of shape (m,)
        The diagonal of the Hessian: 1 for v, 0 for b, 2C for ξ.
    size : int
        The number of coordinates v.
    fit_intercept : bool
    to_w : callable
        w of v.
    """

    A: Any
    hessian: np.ndarray
    size: int
    fit_intercept: bool
    to_w: Callable[[np.ndarray], np.ndarray]

    def answer(self, x: Any, q: Any = None, note: str = "") -> Answer:
        x = np.array(x)
        b = float(x[self.size]) if self.fit_intercept else 0.0
        return Answer(self.to_w(x[: self.size]), b, None if q is None else np.array(q), note=note)


def dense_program(task: Task) -> Program:
    """The hard margin with a dense A, its columns reduced to the span of the rows where n < d."""
    n, d = task.shape
    R = task.radius
    if n < d:
        rows, to_w = _gram_coordinates(task.X, R)
    else:
        rows, to_w = (task.X.toarray() if task.is_sparse else task.X), _divide_by(R)
    size = rows.shape[1]
    A = np.empty((n, size + task.fit_intercept))
    np.multiply(rows, (task.y / R)[:, None], out=A[:, :size])
    if task.fit_intercept:
        A[:, size] = task.y
    return Program(A, _hessian(size, task.fit_intercept), size, task.fit_intercept, to_w)


def sparse_program(task: Task) -> Program:
    """The program with a sparse A; dense rows of a hard margin with n < d are reduced first."""
    n, d = task.shape
    soft = task.kind == "soft"
    if not soft and not task.is_sparse and n < d:
        dense = dense_program(task)
        return replace(dense, A=sp.csr_matrix(dense.A))
    R = 1.0 if soft else task.radius  # C is in the units of X
    hessian = _hessian(d, task.fit_intercept)
    blocks = [sp.diags(task.y / R) @ sp.csr_matrix(task.X, dtype=np.float64)]
    if task.fit_intercept:
        blocks.append(sp.csr_matrix(task.y[:, None]))
    if soft:
        blocks.append(sp.identity(n, format="csr"))
        hessian = np.concatenate([hessian, np.full(n, 2.0 * task.C)])
    A = sp.hstack(blocks, format="csr")
    return Program(A, hessian, d, task.fit_intercept, _divide_by(R))


def solve_daqp(task: Task) -> Answer:
    """DAQP, a dual active-set method; the identity as Hessian, cold start."""
    import daqp

    program = dense_program(task)
    n, m = program.A.shape
    hessian = np.diag(np.maximum(program.hessian, RIDGE))
    x, _, flag, info = daqp.solve(
        hessian,
        np.zeros(m),
        program.A,
        np.full(n, UNBOUNDED),
        np.ones(n),
        iter_limit=10_000_000,
    )
    if flag < 1:
        raise RuntimeError(f"DAQP ended with exit flag {flag}")
    return program.answer(x, np.abs(info["lam"]))


def solve_quadprog(task: Task) -> Answer:
    """quadprog, the dual method of Goldfarb and Idnani; C is A transposed, in Fortran order."""
    import quadprog

    program = dense_program(task)
    n, m = program.A.shape
    hessian = np.diag(np.maximum(program.hessian, RIDGE))
    solution = quadprog.solve_qp(hessian, np.zeros(m), program.A.T, np.ones(n))
    return program.answer(solution[0], solution[4])


def solve_piqp(task: Task) -> Answer:
    """PIQP, a proximal interior point: the dense interface up to 5000 variables, else the sparse.

    At the end of an infeasible problem its multipliers are the ray; eps 1e-12 lets them go as far
    as they can.
    """
    import piqp

    n, d = task.shape
    dense = (
        task.kind != "soft"
        and 8.0 * n * min(n, d) <= MEMORY
        and (min(n, d) <= 5000 if not task.is_sparse else d <= 1000)
    )
    if dense:
        program, solver = dense_program(task), piqp.DenseSolver()
        A, P = np.asfortranarray(program.A), np.diag(program.hessian)
    else:
        program = sparse_program(task)
        solver = piqp.SparseSolver()
        A, P = sp.csc_matrix(program.A), sp.diags(program.hessian, format="csc")
    if task.kind == "witness":
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    solver.setup(P, np.zeros(A.shape[1]), G=A, h_l=np.ones(n))
    status = solver.solve()
    note = _unless("PIQP_SOLVED", status.name)
    return program.answer(solver.result.x, solver.result.z_l, note)


def solve_osqp(task: Task) -> Answer:
    """OSQP, an operator-splitting method, with polishing; eps 1e-5 (its 1e-3 misses 1e-4)."""
    import osqp

    program = sparse_program(task)
    n, m = program.A.shape
    solver = osqp.OSQP()
    solver.setup(
        P=sp.diags(program.hessian, format="csc"),
        q=np.zeros(m),
        A=sp.csc_matrix(program.A),
        l=np.ones(n),
        u=np.full(n, np.inf),
        eps_abs=1e-5,
        eps_rel=1e-5,
        eps_prim_inf=1e-12 if task.kind == "witness" else 1e-8,
        max_iter=10_000_000,
        polishing=True,
        verbose=False,
    )
    result = solver.solve(raise_error=False)
    infeasible = "infeasible" in result.info.status
    duals = result.prim_inf_cert if infeasible else result.y
    return program.answer(result.x, -np.array(duals), _unless("solved", result.info.status))


def solve_clarabel(task: Task) -> Answer:
    """Clarabel, an interior point with a homogeneous embedding: z is the ray where infeasible."""
    import clarabel

    program = sparse_program(task)
    n, m = program.A.shape
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    if task.kind == "witness":
        settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-12
    solution = clarabel.DefaultSolver(
        sp.diags(program.hessian, format="csc"),
        np.zeros(m),
        -sp.csc_matrix(program.A),
        -np.ones(n),
        [clarabel.NonnegativeConeT(n)],
        settings,
    ).solve()
    return program.answer(solution.x, solution.z, _unless("Solved", str(solution.status)))


def _hessian(m: int, fit_intercept: bool) -> np.ndarray:
    return np.concatenate([np.ones(m), np.zeros(int(fit_intercept))])


def _divide_by(R: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda v: v / R


def _unless(usual: str, status: str) -> str:
    return "" if status == usual else status


def _gram_coordinates(X: Any, R: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """L with X = L Qᵀ, Q orthonormal, from P XXᵀ Pᵀ = L Lᵀ; and v ↦ Qv/R, Q = X₁ᵀ L₁⁻ᵀ."""
    X = X.astype(np.float64, copy=False)
    gram = (X @ X.T).toarray() if sp.issparse(X) else X @ X.T
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(gram, lower=1)
    pivots = pivots - 1
    lower = np.tril(factor)[:, :rank]
    coordinates = np.empty_like(lower)
    coordinates[pivots] = lower
    top, rows = lower[:rank], X[pivots[:rank]]

    def to_w(v: np.ndarray) -> np.ndarray:
        return rows.T @ scipy.linalg.solve_triangular(top, v / R, lower=True, trans="T")

    return coordinates, to_w
