"""What slack costs, as a box and a ridge of the dual weights.

    max  1ᵀα − ½‖Zᵀα‖² − ½ Σ r_i α_i²    s.t.  0 ≤ α_i ≤ u_i,  and what intercepts ask

    hard margin     u = ∞, r = 0
    squared hinge   u = ∞, r = 1/(2C)     min ½‖w‖² + Σ C_i ξ_i²  s.t.  −⟨z_i, w⟩ ≥ 1 − ξ_i
    hinge           u = C, r = 0          min ½‖w‖² + Σ C_i ξ_i

A ridge makes a hard margin of a soft one: that of the rows (z, −√r e), each with a coordinate of
its own, whose kernel is K + diag(r), for the classifier (w, ξ/√r). Every method, every dual set and
the certificate then apply as they are. Nothing like that is known for a box: a classifier of the
hinge is (w, b), and `momentron.certificate.hinge` certifies it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from momentron.certificate import read_only
from momentron.dual.labels import Labels
from momentron.errors import InputError, short


@dataclass(frozen=True)
class Penalty:
    """The upper bounds and the ridge of the dual weights, in the units of the operator.

    One number for all constraints, or one for each.
    """

    root: float | np.ndarray = 0.0  # √r, right to three roundings, which the bounds allow for
    upper: float | np.ndarray = math.inf  # u

    @classmethod
    def of(
        cls, name: str, C: float, weights: np.ndarray | None, exponent: int, labels: Labels
    ) -> "Penalty":
        """The hinge or squared hinge for C and the rows' factors of it; X is divided by 2^exponent.

        The root stays a normal float where C itself, scaled by 4^exponent, would not.
        """
        own = C * (np.ones(labels.codes.size) if weights is None else weights)
        is_box, most = name == "hinge", 290 if name == "hinge" else 150
        with np.errstate(over="ignore", under="ignore"):
            numbers = own if is_box else 1.0 / np.sqrt(2.0 * own)
            numbers = np.ldexp(numbers, 2 * exponent if is_box else -exponent)
        is_good = (numbers > 10.0**-most) & (numbers < 10.0**most)
        if not is_good.all():
            what, decades = f"C={short(C)}", most if is_box else 2 * most
            if weights is not None:
                what += f" times a weight of {float(weights[int(is_good.argmin())])!r}"
            raise InputError(
                f"{what} is out of proportion to X, whose entries reach 2**{exponent}: C·max‖x‖² "
                f"must lie between 1e-{decades} and 1e{decades}; rescale X"
            )
        if not is_box and (numbers == numbers[0]).all():
            return cls(root=float(numbers[0]))
        numbers = read_only(numbers[labels.examples(np.arange(labels.size))])
        return cls(upper=numbers) if is_box else cls(root=numbers)

    @property
    def name(self) -> str:
        """What users call it; a hard margin is the squared hinge of an infinite C."""
        return "hinge" if self.has_box else "squared_hinge"

    @cached_property
    def has_ridge(self) -> bool:
        return not (isinstance(self.root, float) and self.root == 0.0)

    @cached_property
    def has_box(self) -> bool:
        return not isinstance(self.upper, float)

    @cached_property
    def is_soft(self) -> bool:
        return self.has_ridge or self.has_box

    @cached_property
    def stiffness(self) -> float:
        """The mean of 2C, the second derivative of what slack costs; infinite without a ridge."""
        if isinstance(self.root, float):
            return 1.0 / self.root**2 if self.root > 0.0 else math.inf
        return float((self.root**-2.0).mean())

    @cached_property
    def shares(self) -> float | np.ndarray:
        """The constraints' own 2C over that mean: 1 where all are alike."""
        if isinstance(self.root, float):
            return 1.0
        return read_only(self.root**-2.0 / self.stiffness)

    def root_at(self, index: np.ndarray | slice) -> float | np.ndarray:
        """√r of the named constraints."""
        return self.root if isinstance(self.root, float) else self.root[index]

    def some(self, examples: np.ndarray, per_example: int) -> "Penalty":
        """The ridge of some examples' constraints; without a box."""
        if isinstance(self.root, float):
            return Penalty(self.root)
        return Penalty(read_only(self.root.reshape(-1, per_example)[examples].ravel()))


HARD = Penalty()
