"""What share of its constant an inequality of the paper uses, at each t of a run.

A share above 1 would refute the inequality. The largest share over the problems of `power.py` is
the power of the tests: with any smaller constant one of them would fail. A run is a `Followed`
path of the literal algorithm, or the `Run` of `test_theorems`, which follows the library's.
"""

import functools
import math

import numpy as np
from literal import dual_path, lone, lopsided, repeated

from momentron.dual.losses import Exponential, Logistic, ShiftedLogistic

STEPS = 200


def paper_schedule(steps):
    return 2.0 / (np.arange(steps) + 2.0)


class Followed:
    """The literal path on rows Z with a known γ̄; a row may stand for several equal ones.

    Entry t of `margin`, `psi`, `norm` and `z_mu` belongs to w_t and μ_t, t = 0 … steps; entry t of
    `z_nu`, `lam` and `theta` to the step from t to t + 1; S_t is the sum of θ_j/λ_j over j < t.
    """

    def __init__(self, Z, best, lam=None, theta=1.0, loss=None, counts=None, steps=STEPS, rho=None):
        counts = np.ones(len(Z)) if counts is None else np.asarray(counts, dtype=float)
        self.Z, self.best, self.n = Z, best, int(counts.sum())
        loss = (loss or Exponential()).for_size(self.n)
        self.rho = loss.rho(self.n) if rho is None else rho
        self.lam = paper_schedule(steps) if lam is None else np.asarray(lam, dtype=float)
        self.theta = np.broadcast_to(theta, self.lam.shape)
        self.link = repeated(counts, loss)
        self.path = path = dual_path(Z, self.lam, self.theta, self.rho, self.link)
        self.psi, self.psi0 = path.psi, path.psi[0]
        self.norm = np.linalg.norm(path.w, axis=1)
        self.margin = np.zeros(len(path.w))
        self.margin[1:] = -(path.w[1:] @ Z.T).max(axis=1) / self.norm[1:]
        self.z_mu = np.linalg.norm(path.mu @ Z, axis=1)
        self.z_nu = np.linalg.norm(path.nu @ Z, axis=1)
        self.mass = path.q.sum(axis=1)
        self.S = np.cumsum(self.theta / self.lam)


def copies(rows, best, n, **options):
    """`lopsided` or `lone` rows, the second of which stands for n − 1; with its best weights q̄."""
    run = Followed(rows(2, best), best, counts=[1, n - 1], **options)
    run.q_bar = np.array([1.0, 0.0]) if rows is lone else np.array([0.5, 0.5])
    return run


@functools.cache
def lopsided_runs():
    pairs = [(20, 0.5), (1000, 0.9), (10**6, 0.01), (10**6, 0.9), (10**6, 0.99)]
    return [copies(lopsided, best, n, steps=400) for n, best in pairs]


@functools.cache
def lone_runs():
    pairs = [(2, 0.3), (20, 0.5), (10**6, 0.3), (10**6, 0.99), (10**6, 0.0)]
    return [copies(lone, best, n) for n, best in pairs]


def iterations(run):
    return np.arange(1, len(run.margin))


# --- the theorem without its logarithm -----------------------------------------------------------


def of_potential(run, best):
    """(i) γ̄‖w_t‖ ≤ ψ(0) − ψ(Zw_t)."""
    return best * run.norm[1:] / (run.psi0 - run.psi[1:])


def of_length(run, best):
    """(ii) γ(w_t) ≥ γ̄ − ψ(0)/‖w_t‖."""
    return (best - run.margin[1:]) * run.norm[1:] / run.psi0


def of_rate(run, best):
    """(iii) γ(w_t) ≥ γ̄ − ρψ(0)/(γ̄S_t): for Algorithm 1, γ̄ − 4 ln n/(γ̄t(t + 3))."""
    return (best - run.margin[1:]) * best * run.S / (run.rho * run.psi0)


# --- the paper's own ----------------------------------------------------------------------------


def of_theorem_3_1(run, best):
    """γ(w_t) ≥ γ̄ − 4(1 + ln n)(1 + 2 ln(t + 1))/(γ̄(t + 1)²)."""
    t = iterations(run)
    given = 4 * (1 + run.psi0) * (1 + 2 * np.log(t + 1)) / (best * (t + 1) ** 2)
    return (best - run.margin[1:]) / given


def of_interval(run, best):
    """Part 2, and Lemmas 3.2 and C.2: ‖Zᵀμ_t‖² − γ̄² ≤ 8ρψ(0)/(t + 1)²."""
    t = np.arange(1, len(run.z_mu))
    return (run.z_mu[1:] ** 2 - best**2) * (t + 1) ** 2 / (8 * run.rho * run.psi0)


def of_proposition(run, best):
    """Proposition 3.7 with γ̄ for its γ̄/2: γ(w_t) ≥ γ̄ − 4ρψ(0)/(γ̄(t + 1)²), and (3.10) in it."""
    t = iterations(run)
    return (best - run.margin[1:]) * best * (t + 1) ** 2 / (4 * run.rho * run.psi0)


def of_last_display(run, best):
    """(3.10): ‖w_t‖ ≥ γ̄(t + 1)²/(4ρ)."""
    return best * (iterations(run) + 1) ** 2 / (4 * run.rho * run.norm[1:])


def potential_terms(run):
    """The three parts of Lemma 3.5 (C.7): those of ‖Zᵀμ_t‖, ‖Zᵀμ_j‖ and ‖Zᵀν_j‖; θ = 1."""
    lam = np.array(run.lam)
    squares = run.z_mu**2
    gaps = 1 / lam[:-1] ** 2 - (1 - lam[1:]) / lam[1:] ** 2
    inner = np.r_[0.0, np.cumsum(gaps * squares[1 : len(lam)])]
    return squares[1:] / lam**2, inner, np.cumsum(run.z_nu**2 / lam)


def of_lemma_3_5(run):
    """−ψ(Zw_t) + ψ(0) ≥ the three parts over 2ρ."""
    return sum(potential_terms(run)) / (2 * run.rho * (run.psi0 - run.psi[1:]))


def of_3_8(run):
    """ψ(0) − ψ(Zw_t) ≥ Σ ‖Zᵀν_j‖²/(2λ_j)."""
    return potential_terms(run)[2] / (2 * run.rho * (run.psi0 - run.psi[1:]))


def of_lower_norm(run, best):
    """Lemma 3.6: γ̄ S_t/ρ ≤ ‖w_t‖."""
    return best * run.S / (run.rho * run.norm[1:])


def of_upper_norm(run):
    """Lemma 3.6: ‖w_t‖ ≤ Σ θ_j‖Zᵀν_j‖/(ρλ_j)."""
    return run.rho * run.norm[1:] / np.cumsum(run.theta * run.z_nu / run.lam)


def of_lemma_c_12(run):
    """The sum of squares is short of Σ ‖Zᵀμ_{j+1}‖²/(2ρλ_j) by at most 2ψ(0) ln(t + 1)."""
    head, inner, _ = potential_terms(run)
    right = np.cumsum(run.z_mu[1:] ** 2 / run.lam)
    return (right - head - inner) / (2 * run.rho) / (2 * run.psi0 * np.log(iterations(run) + 1))


def of_c_13(run):
    """γ(w_t)‖w_t‖ is short of Σ (‖Zᵀμ_{j+1}‖² + ‖Zᵀν_j‖²)/(2λ_j) by ψ(0)(1 + 2 ln(t + 1))."""
    halves = np.cumsum((run.z_mu[1:] ** 2 + run.z_nu**2) / (2 * run.rho * np.array(run.lam)))
    short = halves - run.margin[1:] * run.norm[1:]
    return short / (run.psi0 * (1 + 2 * np.log(iterations(run) + 1)))


def of_soft_margin(run):
    """−ψ(Zw_t) ≤ γ(w_t)‖w_t‖, where the margin is positive."""
    seen = run.margin[1:] > 0.0
    return -run.psi[1:][seen] / (run.margin[1:] * run.norm[1:])[seen]


# --- the steps ----------------------------------------------------------------------------------


def steps_of(run):
    """φ(μ_t), φ(ν_t), φ(μ_{t+1}), ψ(p_t) − ψ(p_{t+1}) and D(q_{t+1}, q_t) of each step."""
    path, phi = run.path, run.z_mu**2 / 2
    scores = path.w @ run.Z.T
    moved = scores[:-1] - scores[1:]
    fell = -np.diff(path.psi)
    return phi[:-1], run.z_nu**2 / 2, phi[1:], fell, fell - (moved * path.q[1:]).sum(axis=1)


def of_b_7(run):
    """φ(μ_{t+1}) − φ(ν_t) ≤ λ_t⟨∇φ(ν_t), q_{t+1} − q_t⟩ + ρλ_t²/θ_t D(q_{t+1}, q_t)."""
    _, phi_nu, phi_next, _, distance = steps_of(run)
    slope = ((run.path.nu @ run.Z) * (np.diff(run.path.q, axis=0) @ run.Z)).sum(axis=1)
    needed = phi_next - phi_nu - run.lam * slope
    given = run.rho * run.lam**2 / run.theta * distance
    seen = given > 1e-9  # what rounding leaves is no share
    return needed[seen] / given[seen]


def of_c_10(run):
    """ψ(p_t) − ψ(p_{t+1}) ≥ θ_t(φ(μ_{t+1})/λ_t² − (1 − λ_t)φ(μ_t)/λ_t² + φ(ν_t)/λ_t)/ρ."""
    phi_mu, phi_nu, phi_next, fell, _ = steps_of(run)
    lam = run.lam
    needed = phi_next / lam**2 - (1 - lam) / lam**2 * phi_mu + phi_nu / lam
    seen = fell > 1e-9
    return (run.theta * needed)[seen] / (run.rho * fell)[seen]


def towards_best(run, best):
    """The left side of (B.9) for f = φ and q = q̄, and the fall of ρD(q̄, q_t)."""
    above, lam = (run.z_mu**2 - best**2) / 2, run.lam
    distance = run.path.psi - run.path.w @ (run.Z.T @ run.q_bar)
    kept = run.theta / lam**2 * (above[1:] - (1 - lam) * above[:-1])
    return kept, -run.rho * np.diff(distance)


def of_b_9(run, best):
    """(B.8), (B.9) and (C.8) with q = q̄, as a share of what D falls by."""
    kept, fell = towards_best(run, best)
    seen = fell > 1e-9
    return kept[seen] / fell[seen]


def of_lemma_b_3(run, best):
    """The sum of (B.9)."""
    kept, fell = map(np.cumsum, towards_best(run, best))
    return kept / fell


def fall_from_start(run):
    """ρ(D(q̄, q_0) − D(q̄, q_t))."""
    return np.cumsum(towards_best(run, run.best)[1])


def of_theorem_b_12(run, best):
    """φ(μ_t) − φ(q̄) ≤ ρλ_{t−1}²(D(q̄, q_0) − D(q̄, q_t)), θ = 1."""
    return (run.z_mu[1:] ** 2 - best**2) / (2 * run.lam**2 * fall_from_start(run))


def of_mirror_descent(run, best):
    """φ(q_t) − φ(q̄) ≤ ρ(D(q̄, q_0) − D(q̄, q_t))/Σθ_j, λ = 1."""
    return (run.z_mu[1:] ** 2 - best**2) * run.S / (2 * fall_from_start(run))


# --- sections 1 and 1.1 -------------------------------------------------------------------------


def steps_to_three_quarters(rows, best, n):
    """How many steps the margin needs to stay above ¾γ̄, over the 4√(ln n)/γ̄ of section 1.1."""
    enough = 4 * math.sqrt(math.log(n)) / best
    run = copies(rows, best, n, steps=3 * math.ceil(enough))
    return (np.flatnonzero(run.margin < 0.75 * best).max() + 1) / enough


class Descended:
    """Gradient descent with η = 1 on the average exponential loss of copied rows."""

    def __init__(self, rows, best, n, steps):
        self.Z, self.best, self.n = rows(2, best), best, n
        link, w = repeated([1, n - 1], Exponential()), np.zeros(2)
        ws, self.risk = [], []
        for _ in range(steps):
            q, psi = link(self.Z @ w)
            self.risk.append(math.exp(psi) / n)
            w = w - self.risk[-1] * (self.Z.T @ q)
            ws.append(w)
        self.w, self.t = np.array(ws), np.arange(1, steps + 1)
        self.norm = np.linalg.norm(self.w, axis=1)
        self.margin = -(self.w @ self.Z.T).max(axis=1) / self.norm

    def of_length(self):
        """γ(w_t) ≥ γ̄ − ln n/‖w_t‖."""
        return (self.best - self.margin) * self.norm / math.log(self.n)

    def of_rate(self):
        """γ(w_t) ≥ γ̄ − ln n/ln(1 + γ̄t/n)."""
        growth = np.log1p(self.best * self.t / self.n)
        return (self.best - self.margin) * growth / math.log(self.n)


LOSSES = {
    "exponential": Exponential(),
    "logistic": Logistic(),
    "shifted-logistic": ShiftedLogistic(),
}
