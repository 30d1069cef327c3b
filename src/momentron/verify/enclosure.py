"""An enclosure: weights that cancel exist near weights that nearly do.

Where a system is too large to be solved exactly, the boundary weights q of a proof only nearly
cancel: Σ q a = ρ, a small vector. Let M have a column a for each pair of the basis, over all
coordinates in which some boundary pair is not zero, and let it be square. For any matrix C,

    ‖I − CM‖ < 1   ⇒   Mδ = −ρ has a solution with ‖δ‖ ≤ ‖Cρ‖ / (1 − ‖I − CM‖),

in the maximum norm (M is then regular, and δ = (I − CM)δ − Cρ). If that is below every q of the
basis, the weights q + δ are positive and cancel exactly: they exist, though nobody has computed
them. C is an inverse of M in floats; the roundings of both norms are bounded.
"""

import math

import numpy as np

from momentron.arithmetic.clock import require_time
from momentron.verify.data import Data
from momentron.verify.deadline import call_within_deadline
from momentron.verify.errors import ProofError
from momentron.verify.format import Proof

BLOCK_ROWS = 128  # of C, multiplied between two looks at the clock
UNDERFLOW = 1e-290  # above the sum of all underflows


def require_enclosure(
    proof: Proof, data: Data, rho: dict[int, dict[int, int]], denominator: int
) -> None:
    """Raise unless weights that cancel exist near the boundary weights, whose sum is ρ.

    `rho` has the whole numbers ρ · denominator · scale, by block and place.
    """
    used, columns, least = _boundary_in_floats(proof, data)
    M = _square(columns, used)
    scale = denominator * data.scale
    sizes = np.zeros(used.shape)
    for block, vector in rho.items():
        for place, v in vector.items():
            sizes[block, place] = abs(v) / scale
    if not _is_enclosed(M, sizes[used], least):
        raise ProofError(
            "the boundary weights do not cancel, and no enclosure shows that weights near them do"
        )


Parts = list[tuple[int, list[int], np.ndarray]]  # (block, places, values)


def _boundary_in_floats(proof: Proof, data: Data) -> tuple[np.ndarray, list[Parts], float]:
    """(coordinates in use, the vectors a of the basis, the least weight q among them)."""
    assert proof.basis is not None
    family = proof.family
    used = np.zeros((family.n_blocks, data.used.size + family.n_intercepts), bool)
    columns: list[Parts] = []
    least = math.inf
    for i in sorted({i for group in proof.boundary for i, _ in group.numerators}):
        places, x = data.row(i, proof.fit_intercept)
        own = proof.codes[i]
        for j in filter(lambda j: proof.is_boundary((i, j)), family.others(own)):
            parts = []
            for block, sign, shift in family.terms(own, j):
                moved = [*places[:-1], places[-1] + shift] if shift else places
                used[block, moved] = True
                parts.append((block, moved, sign))
            # a row with more entries than the basis has pairs cannot be part of a square M
            if (i, j) in proof.basis and len(x) <= len(proof.basis):
                a = np.array([v / data.scale for v in x])
                columns.append([(block, moved, sign * a) for block, moved, sign in parts])
                weights = (g.numerators.get((i, j), 0) / g.denominator for g in proof.boundary)
                least = min(least, sum(weights))
    return used, columns, least


def _square(columns: list[Parts], used: np.ndarray) -> np.ndarray:
    """M: one column per pair, one row per coordinate in use."""
    size = int(used.sum())
    if len(columns) != size:
        raise ProofError(
            f"no enclosure: {len(columns)} pairs of the basis are boundary pairs, which have "
            f"{size} coordinates; the two numbers must agree"
        )
    M = np.zeros((size, size))
    coordinate = np.cumsum(used).reshape(used.shape) - 1
    for column, parts in enumerate(columns):
        for block, places, values in parts:
            M[coordinate[block, places], column] = values
    return M


def _is_enclosed(M: np.ndarray, rho: np.ndarray, least: float) -> bool:
    """Whether ‖M⁻¹ρ‖ < least for certain, |ρ| being given up to its own rounding."""
    size = len(M)
    gamma = (size + 8) * 2.0**-52  # bounds the relative rounding of a product
    distance, length = 0.0, 0.0  # ‖I − CM‖ and ‖Cρ‖
    with np.errstate(all="ignore"):  # what overflows fails the test
        C = call_within_deadline(2.0 * size**3, np.linalg.inv, M)
        for start in range(0, size, BLOCK_ROWS):
            require_time()
            part = C[start : start + BLOCK_ROWS]
            difference = np.abs(np.eye(len(part), size, start) - part @ M)
            difference += gamma * (np.abs(part) @ np.abs(M) + 1.0)
            distance = np.maximum(distance, difference.sum(axis=1).max())  # NaN stays
            length = np.maximum(length, (np.abs(part) @ (rho + 1e-300)).max())
    # with ‖I − CM‖ < ½ the bound is at most 2‖Cρ‖; 0.1 more covers the rounding of that product
    return bool(distance < 0.5 and UNDERFLOW + 2.1 * length < least)
