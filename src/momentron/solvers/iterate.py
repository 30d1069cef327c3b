"""What a callback sees: a row of the trace, and the classifier that it is of."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from momentron.certificate import read_only
from momentron.data.models import as_coef
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Primal
from momentron.views.trace import Row

# the reference that a callback named last, and what it is as a classifier: it is converted once
References = list[tuple[Any, np.ndarray]]


class Iterate(Row):
    """A row of the trace with the classifier itself, which costs nothing until it is asked for.

    The method goes on with the same arrays: keep `coef`, or a copy of `w`, not `w` itself. It has
    the columns of the trace, ``iteration``, ``lower`` and all the others, and besides:

    Attributes
    ----------
    w : ndarray of shape (d,), or (k, d) for k ≥ 3 classes
        The current iterate, without a copy and read-only, in the method's units: for rows divided
        by R, the longest of them (seen from their mean where there is an intercept). With a kernel
        one number per example.
    coef : ndarray of the same shape
        A copy in the units of X, as `initial` takes it: x·coef is what the method makes of x.
    norm : float
        ‖w‖ in the space where the classifier lives, slack included where C is finite.
    loss : float
        The average loss that the method follows, over examples, or examples and wrong labels; the
        least over the intercepts.
    """

    _problem: Problem
    _primal: Primal
    _references: References

    def __init__(self, row: Row, problem: Problem, primal: Primal, references: References) -> None:
        own = {"_problem": problem, "_primal": primal, "_references": references}
        self.__dict__.update(vars(row), **own)

    @property
    def w(self) -> np.ndarray:
        return read_only(self._problem.shown(self._primal.w))

    @property
    def coef(self) -> np.ndarray:
        return np.array(self.w / self._problem.to_units_of_x(1.0), order="C")

    @property
    def norm(self) -> float:
        return self._problem.norm(self._primal.w)

    @property
    def loss(self) -> float:
        problem, psi = self._problem, self._primal.psi
        return problem.risk(problem.potential(self._primal.scores) if psi is None else psi)

    def angle_to(self, reference: Any) -> float:
        """The angle in degrees to a classifier: a `MarginResult`, or an array as `coef` is."""
        problem, known = self._problem, self._references
        if not known or known[0][0] is not reference:
            shape = problem.shown(problem.zeros()).shape
            coef = as_coef(getattr(reference, "coef", reference), shape, "reference")
            known[:] = [(reference, problem.from_coef(coef))]
        w = problem.parts(self._primal.w)[0]
        return angle_between(w, known[0][1], problem.norm)


def angle_between(w: np.ndarray, v: np.ndarray, norm: Callable[[np.ndarray], float]) -> float:
    """The angle of two classifiers in degrees, right to the last digits for small angles, too."""
    lengths = norm(w), norm(v)
    if not all(0.0 < length < math.inf for length in lengths):
        return math.nan
    w, v = w / lengths[0], v / lengths[1]
    return math.degrees(2.0 * math.atan2(norm(w - v), norm(w + v)))
