"""The dual set of many classes with unpenalised intercepts: weights that flow in circles."""

import math
from functools import cached_property

import numpy as np

from momentron.arithmetic.rounding import EXTENDED_ROUNDOFF, gamma, unit_of
from momentron.certificate import read_only
from momentron.dual.dualsets import DualSet, Simplex, Vertex, lowest_places, pick, to_mass
from momentron.dual.flows import FARTHEST, balance_flow, circulation, minimum_mean_cycle
from momentron.dual.losses import Loss


class Circulations(Simplex):
    """C = {flow out of each class = flow into it}, where a pair (i, j) flows from class c_i to j.

    Adding b_c − b_j to the margins of all pairs changes nothing in ⟨q, ·⟩ for such weights: the
    intercepts b are free. Their best choice for given scores is a minimum mean cycle, the map from
    scores to weights is a matrix balancing; both are problems of k × k numbers. Two classes give
    `ClassBalanced`. `source` and `target` are the classes c and j of every pair.
    """

    fits_intercept = True
    risk_factor = 2.0

    def __init__(self, source: np.ndarray, target: np.ndarray, n_classes: int, loss: Loss) -> None:
        loss.require_intercept()
        self.n_classes = n_classes
        self._arc = source * n_classes + target
        self._order = np.argsort(self._arc, kind="stable")
        self._arcs, self._starts = np.unique(self._arc[self._order], return_index=True)
        self._places = np.searchsorted(self._arcs, self._arc)
        self.n_intercepts = n_classes - 1
        super().__init__(source.size, loss)

    # --- between pairs and the k × k matrix of arcs --------------------------------------------

    def _matrix(self, values: np.ndarray, missing: float) -> np.ndarray:
        """One value an arc, as a k × k matrix."""
        matrix = np.full(self.n_classes**2, missing, values.dtype)
        matrix[self._arcs] = values
        return matrix.reshape(self.n_classes, self.n_classes)

    def _flow(self, q: np.ndarray) -> np.ndarray:
        """Σ q over the pairs of each arc."""
        return self._matrix(np.add.reduceat(q[self._order], self._starts), 0.0)

    def _tops(self, scores: np.ndarray) -> np.ndarray:
        """The largest score on each arc."""
        return np.maximum.reduceat(scores[self._order], self._starts)

    def _differences(self, scores: np.ndarray) -> np.ndarray:
        """The smallest margin on each arc, or a little less; infinite where there is none."""
        least = -self._tops(scores)
        if least.dtype == np.longdouble:
            least = np.nextafter(least.astype(np.float64), -np.inf)
        return self._matrix(least, np.inf)

    def _pairs(self, cycle: np.ndarray) -> list[np.ndarray]:
        """The pairs of each arc of a cycle."""
        places = np.searchsorted(self._arcs, cycle * self.n_classes + np.roll(cycle, -1))
        stops = np.append(self._starts[1:], self.size)
        return [self._order[self._starts[place] : stops[place]] for place in places]

    # --- the dual set --------------------------------------------------------------------------

    def near_worst(self, scores: np.ndarray, width: float | np.ndarray) -> np.ndarray:
        tops = self._matrix(self._tops(scores - width), np.inf).ravel()
        return np.flatnonzero(scores >= tops[self._arc])

    def mass_error(
        self, q: np.ndarray, norms: np.ndarray, weighted_norms: float, norm: float
    ) -> float:
        # What is out of balance can be led back along at most k − 1 arcs that q uses, adding
        # weight there and nowhere taking any: a balanced q′ with that much more mass.
        lead = 0.5 * (self.n_classes - 1) * self._imbalance(q)
        lead *= float(norms[q > 0.0].max(initial=0.0))
        return lead * (1.0 + 1e-9) + gamma(8, unit_of(q)) * norm

    def excess(self, q: np.ndarray) -> float:
        return self._imbalance(q) * (1.0 + 1e-9)

    def _imbalance(self, q: np.ndarray) -> float:
        """Σ |outflow − inflow| over the classes, or a little more."""
        extended = q.astype(np.longdouble)
        flow = self._flow(extended)
        rest = float(np.abs(flow.sum(axis=0) - flow.sum(axis=1)).sum())
        return rest + 2.0 * gamma(q.size + 8, EXTENDED_ROUNDOFF) * float(extended.sum())

    def link(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        return self.link_near(scores, np.empty(0))[:2]

    def link_near(
        self, scores: np.ndarray, near: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray]:
        tops = self._tops(scores)
        q = np.exp(scores - tops[self._places])
        sums = np.add.reduceat(q[self._order], self._starts)
        logs = self._matrix(tops + np.log(sums), -np.inf)
        is_start = near.size == self.n_classes and np.abs(near).max() < FARTHEST  # NaN fails too
        balanced = balance_flow(logs, near if is_start else None)
        q *= (balanced.flow.ravel()[self._arcs] / sums)[self._places]
        # cycles have two arcs at least, so Σ q ln q ≤ −ln 2 on C: the constant comes off ψ
        return q, balanced.log_total - float(np.log(2.0)), balanced.log_scale

    def margin(self, scores: np.ndarray) -> float:
        differences = self._differences(scores)
        b = minimum_mean_cycle(differences).potential
        shift = b[:, None] - b
        # any b gives a lower bound; twice the rounding of the shift comes off, to be sure
        return float((differences + shift - 2.0**-52 * np.abs(shift)).min())

    def intercept(self, scores: np.ndarray) -> np.ndarray:
        b = minimum_mean_cycle(self._differences(scores)).potential
        return b - b.mean()

    def vertex(self, scores: np.ndarray) -> Vertex:
        cycle = minimum_mean_cycle(self._differences(scores)).cycle
        worst = [pairs[int(scores[pairs].argmax())] for pairs in self._pairs(cycle)]
        return Vertex(np.array(worst), np.full(cycle.size, 1.0 / cycle.size))

    def _scaled(self, q: np.ndarray) -> np.ndarray | None:
        """q ≥ 0 scaled arc by arc into C; None where nothing flows in circles."""
        factor = circulation(self._flow(q))
        return q * factor.ravel()[self._arc] if factor.any() else None

    def normalize(self, q: np.ndarray) -> np.ndarray:
        q = to_mass(q, 1.0)
        balanced = self._scaled(q)
        if balanced is None:  # start from even weights instead
            balanced = self._scaled(np.full_like(q, 1.0 / q.size))
            assert balanced is not None, "every class has examples, so every arc has pairs"
        return to_mass(balanced, 1.0)

    def project(self, q: np.ndarray) -> np.ndarray:
        """max(q − b_c + b_j − τ, 0) for the b and τ that balance the flow.

        They minimise a convex function, half the sum of squares of the result plus τ, by Newton's
        method with a ridge; where that does not get there, another point of C is given.
        """
        k, found = self.n_classes, super().project(q)
        source, target = self._ends()
        trial, best, least, ridge = np.zeros(k + 1), math.inf, math.inf, 1e-8
        trial[k] = (q - found)[found.argmax()]
        for _ in range(400):
            moved = np.maximum(q - trial[source] + trial[target] - trial[k], 0.0)
            value = 0.5 * float(moved @ moved) + trial[k]
            flow = self._flow(moved)
            off = np.append(flow.sum(axis=1) - flow.sum(axis=0), flow.sum() - 1.0)
            error = float(np.abs(off).max())
            # values that are equal up to rounding say nothing of the last half of the digits
            is_better = value < best or (value <= best + 1e-14 * abs(best) and error < least)
            ridge *= 0.1 if is_better else 100.0
            if is_better:
                b, found, best, least, rest = trial, moved, value, error, off
                count = self._flow((found > 0.0).astype(float))
                out, into = count.sum(axis=1), count.sum(axis=0)
                curve = np.diag(np.append(out + into, count.sum()))
                curve[:k, :k] -= count + count.T
                curve[:k, k] = curve[k, :k] = out - into
            if least < 1e-15 or ridge > 1e12:
                break
            trial = b + np.linalg.solve(curve + ridge * np.eye(k + 1), rest)
        return self.normalize(found)

    def draw(self, q: np.ndarray, rng: np.random.Generator) -> Vertex:
        """A circulation is a mixture of cycles, each with even weights on its arcs.

        One of these is drawn by its mass, then a pair from each of its arcs by q. Opposite arcs
        are taken out first, so that most cycles have two arcs: a draw costs two rows then, and
        never more than there are classes.
        """
        flow = self._flow(q)
        cycle = draw_cycle(flow, rng.random())
        drawn = [pairs[pick(q[pairs], rng.random())[0]] for pairs in self._pairs(cycle)]
        return Vertex(np.array(drawn), np.full(cycle.size, flow.sum() / cycle.size))

    # --- for working sets ----------------------------------------------------------------------

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(c, j) of every pair."""
        return np.divmod(self._arc, self.n_classes)

    def some(self, index: np.ndarray) -> DualSet:
        source, target = np.divmod(self._arc[index], self.n_classes)
        return Circulations(source, target, self.n_classes, self.loss)

    @cached_property
    def columns(self) -> np.ndarray:
        """One intercept per class, of which the last is held at zero."""
        source, target = self._ends()
        columns, rows = np.zeros((self.size, self.n_classes)), np.arange(self.size)
        columns[rows, source] = 1.0
        columns[rows, target] = -1.0
        return read_only(columns[:, :-1])

    def feasible_or_none(self, lam: np.ndarray) -> np.ndarray | None:
        lam = np.maximum(lam, 0.0)
        return self._scaled(lam) if np.isfinite(lam).all() else None

    def lowest(self, p: np.ndarray, size: int) -> np.ndarray:
        """With the lowest pair out of each class, and into it."""
        picked = [lowest_places(p, size)]
        for side in self._ends():
            order = np.lexsort((p, side))
            picked.append(order[np.unique(side[order], return_index=True)[1]])
        return np.concatenate(picked)


def draw_cycle(flow: np.ndarray, position: float) -> np.ndarray:
    """A cycle of the circulation, drawn by its mass for a uniform position in [0, 1).

    It is the sequence of its classes. The mass of a cycle is its flow times its length.
    """
    both_ways = np.minimum(flow, flow.T)
    paired, target = float(both_ways.sum()), position * float(flow.sum())
    longer = longer_cycles(flow - both_ways) if target >= paired else []
    if longer:
        masses = np.array([mass for mass, _ in longer])
        place, _ = pick(masses, (target - paired) / float(masses.sum()))
        return longer[place][1]
    place, _ = pick(both_ways.ravel(), target / paired)
    return np.array(divmod(place, flow.shape[0]))


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
