"""What the loop, the certificate and the result ask of a problem, besides what solvers see."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.certificate import Certificate, admitted
from momentron.dual.penalty import HARD, Penalty
from momentron.errors import SolverError
from momentron.solvers.margin_problem import MarginProblem


@dataclass(frozen=True)
class SparseDual:
    """Dual weights of the rows that have any.

    Attributes
    ----------
    rows : ndarray of shape (s,)
        Their numbers, in sorted order.
    codes : ndarray of shape (s,)
        The places of their labels among the classes.
    weights : ndarray of shape (s,), or (s, k)
    """

    rows: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def above_rounding(cls, rows: np.ndarray, codes: np.ndarray, dual: np.ndarray) -> "SparseDual":
        """Those of the rows whose weight is above rounding level, sorted by number."""
        kept = rows_above_rounding(dual)
        kept = kept[np.argsort(rows[kept], kind="stable")]
        return cls(rows[kept], codes[kept], dual[kept])


def rows_above_rounding(dual: np.ndarray) -> np.ndarray:
    """The places of the weights, or of the rows of weights, that are above rounding level."""
    totals = dual if dual.ndim == 1 else dual.sum(axis=1)
    return np.flatnonzero(totals > 1e-12 * totals.max(initial=0.0))


class CertifiedProblem(MarginProblem):
    """A problem that certifies what solvers propose.

    Attributes
    ----------
    longest : float
        max‖z‖, rounded up, in the units of the rows: no weights give a longer Zᵀq.
    penalty : Penalty
    is_soft : bool
        Whether C is finite.
    resolution : float
        The least upper bound that rounding lets weights prove, in units of R.
    evaluations : int
        Kernel values computed so far.
    bytes_read : int
        From disk or on a cluster.
    pass_seconds : float
        Spent in reading them.
    """

    longest: float
    resolution: float
    penalty: Penalty = HARD
    is_soft: bool = False
    evaluations: int = 0
    bytes_read: int = 0
    pass_seconds: float = 0.0

    # --- for the loop --------------------------------------------------------------------------

    @abstractmethod
    def for_solver(self, *, tight: bool = False) -> "CertifiedProblem":
        """The problem as solvers see it: with counts of its own, and arrays that are read-only.

        Tight, it is in units of `tight_radius`: shorter rows mean longer steps.
        """

    @property
    @abstractmethod
    def tight_radius(self) -> float:
        """The smallest R for which the theorems hold, max‖z‖, with intercepts seen from the mean.

        Zᵀq is then the same for X and for X less any point, since the classes' weights cancel.
        """

    @property
    @abstractmethod
    def reach(self) -> float:
        """A length in units of R that some row of Z surely has."""

    @property
    def trivial_upper(self) -> float:
        """The upper bound that holds without any weights, in units of R."""
        return self.longest / self.radius

    @abstractmethod
    def closing_seconds(self) -> float:
        """Roughly what the last certificate and the classifier take."""

    @property
    @abstractmethod
    def passes(self) -> int:
        """Passes over the data so far."""

    @abstractmethod
    def even_weights(self) -> Any:
        """The same weight for every constraint, or what stands in where nobody summed the rows."""

    def admitted_w(self, w: Any) -> np.ndarray:
        """A private copy of a proposed classifier, its shape and type checked."""
        return admitted(w, self.zeros().shape, "w")

    @abstractmethod
    def admitted_weights(self, q: Any) -> Any:
        """Proposed weights in a form that no solver can change any more."""

    @abstractmethod
    def certify(self, w: np.ndarray, q: Any, *, sharp: bool = False) -> Certificate:
        """The interval that an admitted pair proves."""

    def rounds(self, options: Any) -> Any:
        """The rounds of working sets, a solver state, where rows must be fetched; else None."""
        return None

    def close(self) -> None:
        """No pass over data on disk from now on; what is in memory may be read."""

    # --- for callbacks -------------------------------------------------------------------------

    @abstractmethod
    def shown(self, w: np.ndarray) -> np.ndarray:
        """A view of w as users see it: (d,), or (k, d) for many classes; no slack."""

    @abstractmethod
    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The classifier of what users see, of any length, without slack."""

    def without_slack(self, w: np.ndarray) -> np.ndarray:
        """A view of w alone, where C is finite and w has slack next to it."""
        return w

    def length(self, w: np.ndarray) -> float:
        """‖w‖ of a classifier without slack."""
        return self.norm(w)

    # --- for the result ------------------------------------------------------------------------

    def in_memory(self) -> Any:
        """This problem, where all its rows are in memory; else None."""
        return None

    def sampled(self) -> Any:
        """The problem of some rows in memory, the classes in proportion; None where few are."""
        return self.in_memory()

    @abstractmethod
    def certified_margin(self, w: np.ndarray, *, sharp: bool = False) -> float:
        """A sure lower bound on the margin of w, in the units of X; −inf where none is known."""

    @abstractmethod
    def classifier(self, w: np.ndarray) -> tuple[np.ndarray, Any, float]:
        """(coef, intercept, loss): w at unit length, and the best intercept for it in the units of
        X; what a margin of w may lose by that, since entries are rounded twice.
        """

    @abstractmethod
    def sparse_dual(self, q: Any) -> SparseDual:
        """The weights of the rows that have any; none where a method in blocks keeps none."""

    # --- for checkpoints -----------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of the problem."""
        return {}

    @abstractmethod
    def from_arrays(self, arrays: Mapping[str, np.ndarray], passes: int) -> None:
        """Count what an earlier run has done, and check what its file says."""

    def weights_to_array(self, q: Any) -> np.ndarray:
        """Weights as a file keeps them; SolverError where q is not an array."""
        if not isinstance(q, np.ndarray):
            raise SolverError(f"{type(q).__name__} is not an array of weights")
        return q

    def weights_from_array(self, array: np.ndarray) -> Any:
        """Weights from a file; they prove nothing that was not proved in this run."""
        return array
