"""Draws by weight: indices from a distribution, and cycles from a circulation.

Several draws are stratified: one from each of as many equal parts of the distribution, which leaves
the expectation as it is and can only lower the variance.
"""

import numpy as np

BLOCK = 1024  # weights summed at a time: a running sum of all would cost more than the link


def strata(rng: np.random.Generator, count: int) -> np.ndarray:
    """One uniform number in each of `count` equal parts of [0, 1)."""
    return (np.arange(count) + rng.random(count)) / count


def pick(q: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, float]:
    """(indices, mass): where the running sum of q first exceeds each position times its mass.

    The inverse of the distribution function: an index of weight zero is never returned, and each
    other has probability q_i / mass for a uniform position.
    """
    ends = np.cumsum(np.add.reduceat(q, np.arange(0, q.size, BLOCK)))
    mass = float(ends[-1])
    targets = np.minimum(positions * mass, np.nextafter(mass, 0.0))
    index = np.empty(positions.size, np.intp)
    for i, block in enumerate(np.searchsorted(ends, targets, side="right")):
        start = int(block) * BLOCK
        rest = targets[i] - (ends[block - 1] if block else 0.0)
        inner = np.cumsum(q[start : start + BLOCK])
        # the sums of a block and of its entries one by one may differ in the last digit
        rest = min(rest, np.nextafter(inner[-1], 0.0))
        index[i] = start + int(np.searchsorted(inner, rest, side="right"))
    return index, mass


def draw_cycles(flow: np.ndarray, positions: np.ndarray) -> list[np.ndarray]:
    """Cycles of the circulation, drawn by their mass: one for each position in [0, 1).

    Each is the sequence of its classes. The mass of a cycle is its flow times its length.
    """
    n_classes = flow.shape[0]
    both_ways = np.minimum(flow, flow.T)
    shares = np.cumsum(both_ways)
    paired, mass = float(shares[-1]), float(flow.sum())
    longer: list[tuple[float, np.ndarray]] | None = None
    drawn = []
    for target in positions * mass:
        if target >= paired and longer is None:
            longer = longer_cycles(flow - both_ways)
        if target < paired or not longer:
            place = np.searchsorted(shares, min(target, np.nextafter(paired, 0.0)), side="right")
            drawn.append(np.array(divmod(int(place), n_classes)))
            continue
        ends = paired + np.cumsum([share for share, _ in longer])
        place = min(int(np.searchsorted(ends, target, side="right")), len(longer) - 1)
        drawn.append(longer[place][1])
    return drawn


def longer_cycles(flow: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """A circulation as a sum of cycles: (mass, classes) of each, up to rounding.

    From the heaviest arc on, the walk follows the heaviest arc out of each class until it meets
    itself. Each turn empties at least one arc, so that there are no more than k² of them.
    """
    flow = flow.copy()
    cycles: list[tuple[float, np.ndarray]] = []
    negligible = 1e-15 * float(flow.sum())
    for _ in range(flow.size):
        start, nearest = divmod(int(flow.argmax()), flow.shape[0])
        if flow[start, nearest] <= negligible:
            break
        walk = [start, nearest]
        while walk[-1] not in walk[:-1] and flow[walk[-1]].any():
            walk.append(int(flow[walk[-1]].argmax()))
        if walk[-1] not in walk[:-1]:  # a dead end, which rounding has left
            flow[walk[-2], walk[-1]] = 0.0
            continue
        cycle = np.array(walk[walk.index(walk[-1]) : -1])
        # arcs of one cycle are often equal up to rounding, which must not decide where it begins
        cycle = np.roll(cycle, -int(cycle.argmin()))
        ahead = np.roll(cycle, -1)
        least = float(flow[cycle, ahead].min())
        flow[cycle, ahead] -= least
        cycles.append((least * cycle.size, cycle))
    return cycles
