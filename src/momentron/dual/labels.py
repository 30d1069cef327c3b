"""What labels ask of a classifier: two classes or many, with or without intercepts.

Labels turn products Xw into scores Zw and weights q into the coefficients a with Zᵀq = Xᵀa; they
name the dual set that goes with them, and can be restricted to some of the examples.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from momentron.arithmetic.rounding import up
from momentron.certificate import read_only
from momentron.dual.circulations import Circulations
from momentron.dual.dualsets import ClassBalanced, DualSet, Simplex
from momentron.dual.losses import Loss
from momentron.errors import InputError


def as_labels(n_classes: int, fit_intercept: bool, codes: np.ndarray) -> "Labels":
    """The labels of examples whose classes are 0..k−1."""
    kind = Labels if n_classes == 2 else ManyClasses
    return kind(n_classes, fit_intercept, codes)


@dataclass(eq=False)
class Labels:
    """Two classes: one constraint per example, z_i = −y_i x_i; a classifier is one vector w.

    Methods without `index` speak of all the examples; those with `index` of some constraints.
    """

    # Whether there is a constraint for each example and wrong label. Ask for it last: most that
    # depends on it is a method here, or one of the dual set.
    is_paired: ClassVar[bool] = False
    radius_factor: ClassVar[float] = 1.0  # max‖z‖ over max‖x‖, rounded up
    n_classes: int  # k
    fit_intercept: bool  # whether the intercepts are free
    codes: np.ndarray  # the class of each example, in 0..k−1

    def __post_init__(self) -> None:
        self.codes = read_only(self.codes)
        self.n_outputs = 1  # how many outputs a classifier has: 1, or k
        self.trailing: tuple[int, ...] = ()  # the same as the shape of an output: (), or (k,)
        self.per_example = 1  # how many constraints an example has: 1, or k − 1
        self.roundings = 0  # what `scores` and `mix` add to those of a product
        self.signs = read_only(np.where(self.codes == 1, 1.0, -1.0))  # y: 1 for the second class
        self._minus_signs = -self.signs

    @property
    def size(self) -> int:
        """The number of constraints."""
        return self.codes.size * self.per_example

    def some(self, examples: np.ndarray) -> "Labels":
        """The labels of some of the examples."""
        return type(self)(self.n_classes, self.fit_intercept, self.codes[examples])

    def zeros(self, length: int) -> np.ndarray:
        """Zeros in as many columns as there are outputs: Xw, or w itself, for w = 0."""
        return np.zeros((length, *self.trailing))

    # --- all the examples ----------------------------------------------------------------------

    def scores(self, products: np.ndarray) -> np.ndarray:
        """Zw from Xw."""
        return self._minus_signs * products

    def mix(self, q: np.ndarray) -> np.ndarray:
        """The coefficients a with Zᵀq = Xᵀa."""
        return self._minus_signs * q

    def row_norms(self, norms: np.ndarray) -> np.ndarray:
        """Upper bounds of ‖z‖ from such bounds of ‖x‖."""
        return norms

    def dual_set(self, loss: Loss) -> DualSet:
        """The dual set that goes with these labels."""
        if not self.fit_intercept:
            return Simplex(self.size, loss)
        dual_set = ClassBalanced(self.signs, loss)
        for name, sign in ("+1", 1.0), ("−1", -1.0):
            if not (self.signs == sign).any():
                raise InputError(f"class {name} has 0 rows; an intercept needs at least 1 of each")
        return dual_set

    # --- some constraints ----------------------------------------------------------------------

    def examples(self, index: np.ndarray) -> np.ndarray:
        """The examples behind the named constraints."""
        return index if self.per_example == 1 else index // self.per_example

    def scores_at(self, index: np.ndarray, products: np.ndarray) -> np.ndarray:
        """The named entries of Zw, from the rows `examples(index)` of Xw."""
        return -(self.output_signs(index) * products.reshape(index.size, -1)).sum(axis=1)

    def mix_at(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows of X, coefficients) for a q that is zero but on the named constraints."""
        return index, self._minus_signs[index] * weight

    def output_signs(self, index: np.ndarray | slice) -> np.ndarray:
        """How outputs enter the named functional margins: y, or e_c − e_j; one row each."""
        return self.signs[index][:, None]

    # --- as users see it -----------------------------------------------------------------------

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        """The weights as users see them: (n,), or (n, k) with zeros on the true labels."""
        return q

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        """The inverse of `dual_of`; fewer rows than there are examples are the first ones."""
        return dual[: self.size]

    def all_intercepts(self, b: np.ndarray) -> Any:
        """What is added to the outputs, from the intercepts that are free: of k the last is 0."""
        return b[0] if b.size else 0.0

    def free_intercepts(self, b: Any) -> np.ndarray:
        """The inverse of `all_intercepts`, up to a shift of all classes, which changes nothing."""
        return np.atleast_1d(b) if self.fit_intercept else np.zeros(0)


class ManyClasses(Labels):
    """z_(i,j) = x_i (e_j − e_c)ᵀ for every example i, of class c, and every other class j.

    A classifier is a matrix W of shape (d, k); its scores are F_ij − F_ic with F = XW, so that the
    margin is min_(i,j) (F_ic − F_ij)/‖W‖, the joint margin of the paper's section 5.2. Neither a
    row of length d·k nor Z is ever built. Pairs are numbered row by row: example i has the k − 1
    pairs from i(k − 1) on, in the order of the classes without its own.
    """

    is_paired = True
    radius_factor = up(math.sqrt(2.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_outputs = self.roundings = self.n_classes
        self.trailing = (self.n_classes,)
        self.per_example = self.n_classes - 1
        # places in a flat table of shape (n, k): np.take is three times as fast with these
        self._own = self.codes + self.n_classes * np.arange(self.codes.size)

    @cached_property
    def _others(self) -> np.ndarray:
        """The places of the pairs in such a table."""
        wrong = np.arange(self.per_example)[None, :]
        # the numbers from the example's own class on move up by one
        others = wrong + (wrong >= self.codes[:, None])
        return (others + (self._own - self.codes)[:, None]).ravel()

    def scores(self, products: np.ndarray) -> np.ndarray:
        return self.from_dual(self.leads(products))

    def mix(self, q: np.ndarray) -> np.ndarray:
        return self.mixed(self.dual_of(q))

    def leads(self, products: np.ndarray) -> np.ndarray:
        """F_ij − F_ic as a table of shape (n, k), zero for the true labels."""
        return products - products.take(self._own)[:, None]

    def mixed(self, table: np.ndarray) -> np.ndarray:
        """`mix` for weights in such a table, in its place."""
        table.reshape(-1)[self._own] = -np.einsum("ij->i", table)
        return table

    def row_norms(self, norms: np.ndarray) -> np.ndarray:
        return np.repeat(norms * self.radius_factor * (1.0 + 2.0**-52), self.per_example)

    def dual_set(self, loss: Loss) -> DualSet:
        if not self.fit_intercept:
            return Simplex(self.size, loss)
        source = np.repeat(self.codes, self.per_example)
        return Circulations(source, self._others % self.n_classes, self.n_classes, loss)

    def mix_at(self, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, place = np.unique(self.examples(index), return_inverse=True)
        mixed = np.zeros((rows.size, self.n_classes), weight.dtype)
        np.add.at(mixed, place, -weight[:, None] * self.output_signs(index))
        return rows, mixed

    def output_signs(self, index: np.ndarray | slice) -> np.ndarray:
        index = np.arange(self.size)[index] if isinstance(index, slice) else index
        signs, place = np.zeros((index.size, self.n_classes)), np.arange(index.size)
        signs[place, self.codes[self.examples(index)]] = 1.0
        signs[place, self._others[index] % self.n_classes] = -1.0
        return signs

    def dual_of(self, q: np.ndarray) -> np.ndarray:
        table = np.zeros(self.codes.size * self.n_classes, q.dtype)
        table[self._others] = q
        return table.reshape(-1, self.n_classes)

    def from_dual(self, dual: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(dual[: self.codes.size])
        return rows.ravel().take(self._others[: rows.shape[0] * self.per_example])

    def all_intercepts(self, b: np.ndarray) -> Any:
        return np.append(b, 0.0) if b.size else np.zeros(self.n_classes)

    def free_intercepts(self, b: Any) -> np.ndarray:
        return b[:-1] - b[-1] if self.fit_intercept else np.zeros(0)
