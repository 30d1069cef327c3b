"""The paper's algorithms as it writes them: dense rows, plain loops, nothing of the library's."""

from typing import NamedTuple

import numpy as np


def softmax(scores):
    q = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return q / q.sum(axis=-1, keepdims=True)


def log_sum_exp(scores):
    top = scores.max()
    return top + np.log(np.exp(scores - top).sum())


def exponential(scores):
    """(∇ψ, ψ) of the exponential loss."""
    return softmax(scores), log_sum_exp(scores)


def lopsided(n, best):
    """n rows with γ̄ = best, all but one of them alike, so that their mean is a bad direction."""
    Z = np.tile([-best, -np.sqrt(1.0 - best**2)], (n, 1))
    Z[0, 1] *= -1.0
    return Z


def lone(n, best):
    """n rows with γ̄ = best, which one row attains: all others are alike and lead to another w."""
    Z = np.tile([-best, -np.sqrt(1.0 - best**2)], (n, 1))
    Z[0, 1] = 0.0
    return Z


def repeated(counts, loss):
    """(q, ψ) of a loss for rows that stand for several equal ones; q has the sum of each."""
    log_counts = np.log(np.asarray(counts, dtype=float))

    def link(scores):
        psi = loss.inverse(log_sum_exp(loss.log_value(scores) + log_counts))
        slopes = loss.log_slope(scores) + log_counts
        return np.exp(slopes - loss.log_slope(np.array([psi]))), psi

    return link


class Path(NamedTuple):
    """Rows are t = 0, 1, …: w, q, μ and ψ have one more than ν and λ."""

    w: np.ndarray
    q: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    psi: np.ndarray
    lam: np.ndarray


def dual_path(Z, lam, theta=1.0, rho=1.0, link=exponential, start=None):
    """Section 3.2 and equation (3.3), for any λ_t, θ_t and w_0, with the ρ of Appendix C."""
    lam = np.asarray(lam, dtype=float)
    theta = np.broadcast_to(theta, lam.shape)
    w = np.zeros(Z.shape[1]) if start is None else start
    q, psi = link(Z @ w)
    mu = q
    ws, qs, mus, nus, psis = [w], [q], [mu], [], [psi]
    for lam_t, theta_t in zip(lam, theta, strict=True):
        nu = (1 - lam_t) * mu + lam_t * q
        w = w - theta_t / (rho * lam_t) * (Z.T @ nu)
        q, psi = link(Z @ w)
        mu = (1 - lam_t) * mu + lam_t * q
        for kept, new in zip((ws, qs, mus, nus, psis), (w, q, mu, nu, psi), strict=True):
            kept.append(new)
    return Path(*map(np.array, (ws, qs, mus, nus, psis)), lam)


def algorithm_1(Z, steps, theta=1.0, beta=lambda t: t / (t + 1)):
    """(w_t, q_t) for t = 0 … steps and g_t for t = 0 … steps − 1."""
    w, g = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    q = np.full(len(Z), 1 / len(Z))
    ws, qs, gs = [w], [q], []
    for t in range(steps):
        g = beta(t) * (g + Z.T @ q)
        w = w - theta * (g + Z.T @ q)
        q = softmax(Z @ w)
        ws.append(w)
        qs.append(q)
        gs.append(g)
    return np.array(ws), np.array(qs), np.array(gs)


class Draws(NamedTuple):
    """What many runs of Algorithm 2 without momentum end with: one entry, or row, per run."""

    w: np.ndarray
    theta: float
    lengths: np.ndarray  # Σ_j θ ‖Zᵀq_j‖
    squares: np.ndarray  # Σ_j θ ‖Zᵀq_j‖²


def algorithm_2(Z, steps, runs, seed=0, is_uniform=False, copies=None):
    """Algorithm 2 with the parameters of Theorem 4.1, all runs at once.

    `is_uniform` draws rows without looking at q: the algorithm that the theorem is not about.
    `copies` are the numbers of equal rows for which each row stands, by default one.
    """
    rng, n = np.random.default_rng(seed), len(Z)
    copies = np.ones(n) if copies is None else np.asarray(copies, dtype=float)
    theta = np.sqrt(np.log(copies.sum()) / steps)
    gram = Z @ Z.T
    counts, scores = np.zeros((runs, n)), np.tile(np.log(copies), (runs, 1))
    lengths, squares = np.zeros(runs), np.zeros(runs)
    every = np.arange(runs)
    for _ in range(steps):
        q = np.exp(scores - scores.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        square = np.maximum(np.einsum("ri,ri->r", q @ gram, q), 0.0)
        lengths += theta * np.sqrt(square)
        squares += theta * square
        drawn = np.full_like(q, 1 / n) if is_uniform else q
        rows = (np.cumsum(drawn, axis=1) < rng.random(runs)[:, None]).sum(axis=1)
        rows = np.minimum(rows, n - 1)
        counts[every, rows] += 1
        scores -= theta * gram[rows]
    return Draws(-theta * counts @ Z, theta, lengths, squares)
