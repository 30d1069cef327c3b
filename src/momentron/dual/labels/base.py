"""What labels ask of a classifier: two classes or many, with or without intercepts.

Nothing else knows the difference. Labels turn products Xw into scores Zw and weights q into the
coefficients a with Zᵀq = Xᵀa; they name the dual set that goes with them, and can be restricted to
some of the examples.

The constraints of a class against another, or of a class, or all of them, make an *arc*. All that a
dual set needs to know of the scores on an arc is their maximum, for the margin, and the logarithm
of the sum of their exponentials, for the weights. So data that are read block by block have the
dual set of a problem with one constraint per arc.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from momentron.certificate import read_only
from momentron.dual.dualsets import DualSet, Simplex
from momentron.dual.losses import Exponential, Loss

NO_CODES = np.empty(0, np.intp)


class Labels(ABC):
    """The classes of some examples, and the constraints that they put on a classifier.

    Methods without `index` or `codes` speak of all the examples here; those with `index` of some
    constraints; those with `codes` of a block of other examples, whose classes these are. In a
    block, many classes have a table of k scores or weights per example.

    Parameters
    ----------
    n_classes : int
        k.
    fit_intercept : bool
        Whether the intercepts are free.
    codes : ndarray of int, shape (n,)
        The class of each example, in 0..k−1.

    Attributes
    ----------
    size : int
        The number of constraints.
    n_outputs : int
        How many outputs a classifier has: 1, or k.
    trailing : tuple of int
        The same as the shape of an output: (), or (k,).
    per_example : int
        How many constraints an example has: 1, or k − 1.
    radius_factor : float
        max‖z‖ over max‖x‖, rounded up.
    roundings : int
        What `scores` and `mix` add to the roundings of a product.
    is_paired : bool
        Whether there is a constraint for each example and wrong label. Ask for it last: most that
        depends on it is a method here, or one of the dual set.
    """

    is_paired: ClassVar[bool]
    n_outputs: int
    trailing: tuple[int, ...]
    per_example: int
    radius_factor: float
    roundings: int

    def __init__(self, n_classes: int, fit_intercept: bool, codes: np.ndarray = NO_CODES) -> None:
        self.n_classes = n_classes
        self.fit_intercept = fit_intercept
        self.codes = read_only(codes)

    @property
    def size(self) -> int:
        return self.codes.size * self.per_example

    def some(self, examples: np.ndarray) -> "Labels":
        """The labels of some of the examples."""
        return type(self)(self.n_classes, self.fit_intercept, self.codes[examples])

    def zeros(self, length: int) -> np.ndarray:
        """Zeros in as many columns as there are outputs: Xw, or w itself, for w = 0."""
        return np.zeros((length, *self.trailing))

    # --- all the examples ----------------------------------------------------------------------

    @abstractmethod
    def scores(self, products: np.ndarray) -> np.ndarray:
        """Zw from Xw."""

    @abstractmethod
    def mix(self, q: np.ndarray) -> np.ndarray:
        """The coefficients a with Zᵀq = Xᵀa."""

    @abstractmethod
    def row_norms(self, norms: np.ndarray) -> np.ndarray:
        """Upper bounds of ‖z‖ from such bounds of ‖x‖."""

    @abstractmethod
    def dual_set(self, loss: Loss) -> DualSet:
        """The dual set that goes with these labels."""

    # --- some constraints ----------------------------------------------------------------------

    @abstractmethod
    def examples(self, index: np.ndarray) -> np.ndarray:
        """The examples behind the named constraints."""

    @abstractmethod
    def scores_at(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        """The named entries of Zw, from the rows `examples(index)` of Xw."""

    @abstractmethod
    def mix_at(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows of X, coefficients) for a q that is zero but on the named constraints."""

    @abstractmethod
    def output_signs(self, index: np.ndarray | slice) -> np.ndarray:
        """How outputs enter the named functional margins: y, or e_c − e_j; one row each."""

    # --- as users see it -----------------------------------------------------------------------

    @abstractmethod
    def coef_of(self, w: np.ndarray) -> np.ndarray:
        """A classifier as users see it: (d,), or (k, d) for many classes."""

    @abstractmethod
    def from_coef(self, coef: np.ndarray) -> np.ndarray:
        """The inverse of `coef_of`."""

    @abstractmethod
    def dual_of(self, q: np.ndarray) -> np.ndarray:
        """The weights as users see them: (n,), or (n, k) with zeros on the true labels."""

    @abstractmethod
    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        """The inverse of `dual_of`; fewer rows than there are examples are the first ones."""

    @abstractmethod
    def all_intercepts(self, b: np.ndarray) -> Any:
        """What is added to the outputs, from the intercepts that are free: of k the last is 0."""

    @abstractmethod
    def free_intercepts(self, b: Any) -> np.ndarray:
        """The inverse of `all_intercepts`, up to a shift of all classes, which changes nothing."""

    # --- a block of examples -------------------------------------------------------------------

    @abstractmethod
    def block_scores(self, products: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Zw from Xw: one number per example, or k of them with −inf at its own class."""

    @abstractmethod
    def block_mix(self, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The coefficients whose product with Xᵀ is the sum of weighted constraints.

        A column for each sum that a pass brings back.
        """

    # --- arcs ----------------------------------------------------------------------------------

    @property
    def circulates(self) -> bool:
        """Whether weights must flow in circles between the classes."""
        return self.is_paired and self.fit_intercept

    @property
    @abstractmethod
    def n_arcs(self) -> int:
        """How many numbers arcs have: 0 alone without intercepts, whatever the classes.

        With them, 0 for the second class and 1 for the first (two classes, z = −y x), or c·k + j
        from class c to class j.
        """

    @property
    @abstractmethod
    def arcs(self) -> np.ndarray:
        """The numbers of the arcs that exist: none leads from a class to itself."""

    @property
    @abstractmethod
    def n_sums(self) -> int:
        """How many weighted sums of rows, of d numbers each, one pass brings back."""

    @abstractmethod
    def arc_counts(self, counts: np.ndarray) -> np.ndarray:
        """How many constraints the arcs have, from the number of examples of each class."""

    @abstractmethod
    def _arcs_from(self, code: int) -> int | slice:
        """The arcs that leave a class, where there are intercepts."""

    @abstractmethod
    def _one_per_class(self) -> np.ndarray:
        """Codes of one example per class, whose constraints are the arcs in order."""

    def arc_set(self) -> DualSet:
        """The dual set with one constraint per arc."""
        if not self.fit_intercept:
            return Simplex(1, Exponential())
        codes = self._one_per_class()
        return type(self)(self.n_classes, True, codes).dual_set(Exponential())

    def arcs_of(self, codes: np.ndarray) -> list[tuple[Any, Any, int | None]]:
        """(arcs, rows, class) for each set of rows whose constraints share arcs.

        `arcs` selects among all arcs: one of them, or the k that leave a class. Without an
        intercept rows of all classes share one, and no class is named.
        """
        if not self.fit_intercept:
            return [(0, slice(None), None)]
        found: list[tuple[Any, Any, int | None]] = []
        for code in range(self.n_classes):
            rows = np.flatnonzero(codes == code)
            if rows.size:
                found.append((self._arcs_from(code), rows, code))
        return found
