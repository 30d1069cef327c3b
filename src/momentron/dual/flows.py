"""Flows between classes: matrix balancing, circulations and minimum mean cycles, all k×k.

With k classes and unpenalised intercepts, the dual weights of the examples of class c against class
j add up to a flow S_cj, which must be a *circulation*: what flows out of each class flows in.

    balance_flow          min_b ln Σ exp(L_cj + b_c − b_j), L = ln S: the link and its potential
    circulation           S scaled into a circulation of mass 1: for a solver's multipliers
    minimum_mean_cycle    max_b min_{c≠j} D_cj + b_c − b_j: the margin and its intercepts

D_cj is the least lead of class c's score over class j's among the examples of class c. As L is
about −D, the intercepts that go with a balanced flow are −b. Diagonals are ignored throughout.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from momentron.arithmetic.rounding import UNIT_ROUNDOFF
from momentron.errors import InputError

BALANCED = 1e-14  # an imbalance that counts as none, for a flow of mass 1
FEW_STEPS = 12  # of Newton's method, from a start that may be near; 3 to 8 are usual
WARM = 1e-3  # an imbalance at which the temperature may fall
COOLING = 4.0
MAX_STEPS = 100  # at one temperature
MAX_ROUNDS = 4
FARTHEST = 1e15  # a logarithm beyond this has no digit left for the flow itself
ABSENT = -1e300  # the logarithm of an arc that is not there: finite, so that no difference is NaN
LIGHTEST = 2.0**-900  # an arc lighter than this share of the heaviest counts as none
LARGEST = 1e300  # a difference beyond this might overflow in a sum over the classes


class BalancedFlow(NamedTuple):
    """What `balance_flow` returns.

    The flow is exp(L_cj + b_c − b_j − ψ*) on the arcs kept. Take it from here: recomputed from b it
    would suffer from the rounding of numbers as large as L.
    """

    log_scale: np.ndarray  # b, of mean zero in each strongly connected component
    log_total: float  # ψ*, over the arcs kept; −inf where there is no cycle, and nothing flows
    flow: np.ndarray  # balanced, of mass 1; zero on the other arcs
    kept: np.ndarray  # whether an arc lies on a cycle: others weigh nothing in any circulation


class MeanCycle(NamedTuple):
    """What `minimum_mean_cycle` returns: the margin, its intercepts, and why there is no better."""

    value: float  # the least mean of D along a directed cycle; inf where there is none
    potential: np.ndarray  # b, of mean zero, with D_cj + b_c − b_j ≥ value, up to rounding
    cycle: np.ndarray  # the classes c_0 → c_1 → … → c_0 of a cycle with that mean; maybe none


def balance_flow(log_flow: np.ndarray, start: np.ndarray | None = None) -> BalancedFlow:
    r"""Scale a flow between classes so that, in every class, outflow equals inflow.

    .. math:: ψ^* = \min_b \, \ln \sum_{c ≠ j} \exp(L_{cj} + b_c - b_j)

    At the least b the normalised terms are a circulation, and the gradient of ψ* in L. Arcs that
    lie on no cycle are left out, since the infimum gives them weight zero; each strongly connected
    component is then balanced for itself. Newton's method, one k×k solve a step, instead of
    Osborne's (1960) sweeps; from a start far off, by way of L/τ, τ falling to 1.

    Parameters
    ----------
    log_flow : ndarray of shape (k, k)
        L_cj = ln S_cj; −inf where nothing flows from class c to class j.
    start : ndarray of shape (k,), optional
        Potentials to start from, such as `log_scale` of a nearby problem.

    Examples
    --------
    >>> import numpy as np
    >>> result = balance_flow(np.array([[-np.inf, np.log(8.0)], [np.log(2.0), -np.inf]]))
    >>> round(float(np.exp(result.log_total)), 12)  # 2√(8·2)
    8.0
    """
    L = np.array(log_flow, dtype=np.float64)
    k = L.shape[0]
    L.flat[:: k + 1] = -np.inf
    arcs = ~np.isneginf(L)
    L[~arcs] = 0.0
    b = np.zeros(k) if start is None else np.array(start, dtype=np.float64)
    if not (np.abs(L).max() <= FARTHEST and np.abs(b).max() <= FARTHEST):
        raise InputError(f"log_flow or start has NaN or a size above {FARTHEST:g}; rescale it")
    L[~arcs] = ABSENT
    components, kept = _components(arcs)
    log_scale, flow, log_parts = np.zeros(k), np.zeros((k, k)), []
    for nodes in components:
        block = np.ix_(nodes, nodes)
        log_scale[nodes], log_part, flow[block] = _balance_connected(L[block], b[nodes])
        log_parts.append(log_part)
    if not log_parts:
        return BalancedFlow(log_scale, -math.inf, flow, kept)
    top = max(log_parts)
    log_total = top + math.log(math.fsum(math.exp(part - top) for part in log_parts))
    for nodes, log_part in zip(components, log_parts, strict=True):
        flow[nodes] *= math.exp(log_part - log_total)
    return BalancedFlow(log_scale, log_total, flow, kept)


def _balance_connected(L: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """(b, ψ*, flow) for a strongly connected graph."""
    best = _descent(L, b, BALANCED, FEW_STEPS)
    for tries in range(MAX_ROUNDS):
        if best.error <= BALANCED:
            break
        # the start was far off, or δ had grown too large for its own precision
        b = b + best.delta if tries else _cooled(L, b)
        best = _descent(L, b, BALANCED, MAX_STEPS)
    b = b + best.delta
    return b - b.mean(), best.psi, best.flow


def _cooled(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Potentials near those sought, by way of L/τ for a temperature τ that falls towards 1.

    An arc far below the top of L is near that of L/τ, so that every cut gets balanced in turn. From
    a start that is wrong by 1e5, Newton's method at τ = 1 would move by a few units per step.
    """
    A, _ = _reduced(L, b)
    heat = -0.1 * float(A[A > 0.5 * ABSENT].min())
    while heat > 1.0:
        b = b + heat * _descent(L / heat, b / heat, WARM, MAX_STEPS).delta
        heat /= COOLING
    return b


def _reduced(L: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float]:
    """(A, m) with L_cj + b_c − b_j = A_cj + m and max A about 0, as if rounded once.

    The errors of both sums (Knuth's two-sum) are added back: L and b may be 1e6 in size and cancel.
    """
    rows, columns = b[:, None], -b
    half = L + rows
    part = half - L
    error = (L - (half - part)) + (rows - part)
    whole = half + columns
    part = whole - half
    error += (half - (whole - part)) + (columns - part)
    top = float(whole.max())
    return (whole - top) + error, top


class _Point(NamedTuple):
    """The normalised flow at b + δ, and how far from balanced it is."""

    delta: np.ndarray
    psi: float
    flow: np.ndarray
    gradient: np.ndarray
    error: float


def _descent(L: np.ndarray, b: np.ndarray, goal: float, budget: int) -> _Point:
    """Newton's method on ψ(b + δ), δ small, until the imbalance is at its goal or stops falling."""
    A, offset = _reduced(L, b)

    def at(delta: np.ndarray) -> _Point:
        P = np.subtract.outer(delta, delta)
        P += A
        top = float(P.max())
        P -= top
        np.exp(P, out=P)
        total = float(P.sum())
        P /= total
        g = P.sum(axis=1) - P.sum(axis=0)
        return _Point(delta, top + math.log(total), P, g, float(np.abs(g).sum()))

    best = at(np.zeros_like(b))
    for _ in range(budget):
        if best.error <= goal:
            break
        step = _laplacian_step(best.flow, best.gradient)
        slope = float(best.gradient @ step)
        for length in (1.0, 0.25, 0.0625, 0.015625):
            point, fall = at(best.delta + length * step), length * slope
            # near the end the error decides: ψ itself can no longer tell
            is_near = fall >= -1e-8
            if point.error < best.error if is_near else point.psi <= best.psi + 1e-4 * fall:
                best = point
                break
        else:
            break
    return best._replace(psi=offset + best.psi)


def _laplacian_step(flow: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """−H⁺g for the Hessian of Σ exp(L_cj + b_c − b_j): the Laplacian with weights P + Pᵀ.

    The ridge, above the rounding of a solve and below any flow that matters, does the work of
    grounding one class in each part of the graph, of which float64 may see more than there are.
    H is diagonally dominant, so that no class's small flow suffers from another's large one.
    """
    H, k = -(flow + flow.T), gradient.size
    H.flat[:: k + 1] = np.maximum((1.0 + 1e-14 * k) * -H.sum(axis=1), 1e-280)
    return np.linalg.solve(H, -gradient)


def circulation(flow: np.ndarray) -> np.ndarray:
    """The factors that turn a flow into a circulation of mass 1.

    Parameters
    ----------
    flow : ndarray of shape (k, k)
        S_cj ≥ 0, close to balanced; extended precision stays so. An arc lighter than 2⁻⁹⁰⁰ of the
        heaviest counts as none.

    Returns
    -------
    ndarray of shape (k, k)
        M ≥ 0 with S∘M balanced to a few roundings and of mass 1; zero on the arcs that lie on no
        cycle, and zero throughout where there is no cycle.
    """
    S = np.array(flow, np.result_type(flow, np.float64))
    S.flat[:: S.shape[0] + 1] = 0.0
    if not (S.min() >= 0.0 and S.max() < np.inf):
        raise InputError(f"flow lies in [{S.min()}, {S.max()}]; every entry must be finite, ≥ 0")
    M = np.zeros_like(S)
    top = S.max()
    relative = S / (top or 1.0)
    arcs = relative >= LIGHTEST
    L = np.full(S.shape, -np.inf)
    L[arcs] = np.log(relative[arcs])
    balanced = balance_flow(L).flow
    arcs = balanced > 0.0
    if not arcs.any():
        return M
    with np.errstate(over="ignore"):
        M[arcs] = _settled(balanced)[arcs] / S[arcs]
    if not np.isfinite(M).all():
        raise InputError(f"the largest flow is {top:.3g}, below 1e-30; scale the weights to sum 1")
    return M


def _settled(flow: np.ndarray) -> np.ndarray:
    """A circulation that is right to float64, made right to extended precision."""
    F = flow.astype(np.longdouble)
    for _ in range(2):
        g = F.sum(axis=1) - F.sum(axis=0)
        d = _laplacian_step(flow, g.astype(np.float64))
        F += F * np.clip(np.subtract.outer(d, d), -0.5, 0.5)  # outflow less inflow gains Hd = −g
    return F / F.sum()


def minimum_mean_cycle(differences: np.ndarray) -> MeanCycle:
    r"""The best potentials for given differences, and the cycle that proves them best.

    .. math::
        \max_b \min_{c ≠ j} \, D_{cj} + b_c - b_j
        = \min_{\text{cycles}} \tfrac1m \sum_{t < m} D_{c_t c_{t+1}}

    The potentials cancel along a cycle, which gives ≤; equality is linear programming duality.
    Bellman and Ford's recursion, O(k²) a step, few of them; the mean falls to that of every cycle
    of its policy, as in Howard's method (Dasdan 2004).

    Parameters
    ----------
    differences : ndarray of shape (k, k)
        D_cj, at most 1e300 in size; inf where class c has no arc to class j.

    Examples
    --------
    >>> import numpy as np
    >>> result = minimum_mean_cycle(np.array([[np.inf, 3.0], [1.0, np.inf]]))
    >>> result.value, result.potential
    (2.0, array([-0.5,  0.5]))
    """
    D = np.array(differences, dtype=np.float64)
    k = D.shape[0]
    D.flat[:: k + 1] = np.inf
    arcs = ~np.isposinf(D)
    largest = float(np.abs(D[arcs]).max(initial=0.0))
    if np.isnan(D).any() or largest > LARGEST:
        raise InputError(f"differences have NaN or reach {largest:.3g}; {LARGEST:g} is the limit")
    _, exponent = math.frexp(largest)
    D = np.ldexp(D, -exponent)  # exact, and now |D| < 1
    rows, policy = np.arange(k), np.full(k, -1)
    v, mean, fell = np.zeros(k), 2.0, 0
    cycle: list[int] = []
    for step in range(k * (k + 20)):
        candidates = D + (v - mean)
        choice = candidates.argmin(axis=1)
        least = candidates[rows, choice]
        better = least < v - 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(v).max())
        if not better.any() or step - fell > k:  # k steps suffice unless a cycle is below the mean
            break
        policy, v = np.where(better, choice, policy), np.where(better, least, v)
        found = _best_cycle(D, policy.tolist())
        if found[0] < mean:
            (mean, cycle), fell = found, step
    value = math.ldexp(mean, exponent) if cycle else math.inf
    return MeanCycle(value, np.ldexp(v.mean() - v, exponent), np.array(cycle, dtype=np.intp))


def _best_cycle(D: np.ndarray, policy: list[int]) -> tuple[float, list[int]]:
    """The cycle of least mean in the graph c → policy[c], where −1 leads nowhere."""
    seen = [-1] * len(policy)
    best: tuple[float, list[int]] = (math.inf, [])
    for start in range(len(policy)):
        path, node = [], start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            path.append(node)
            node = policy[node]
        if path and node >= 0 and seen[node] == start:
            cycle = path[path.index(node) :]
            best = min(best, (math.fsum(D[c, policy[c]] for c in cycle) / len(cycle), cycle))
    return best


def _components(arcs: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The strongly connected components with an arc, and the arcs within them."""
    k = arcs.shape[0]
    if np.count_nonzero(arcs) == k * (k - 1):
        return [np.arange(k)], arcs
    _, label = connected_components(arcs, directed=True, connection="strong")
    kept = arcs & (label[:, None] == label)
    return [np.flatnonzero(label == part) for part in np.unique(label[kept.any(axis=1)])], kept
