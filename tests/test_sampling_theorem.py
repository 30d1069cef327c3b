"""Theorem 4.1 and Lemmas D.1 and D.2: how often they fail, against how often they may.

Each holds but with a probability, so what is tested is the number of runs in which it does not:
more than a binomial count reaches with probability 1e-6 would refute it. That the library draws as
these runs do is `test_adaptive.test_algorithm_2_as_the_paper_writes_it`, and
`test_theorem_holds_in_its_share_of_runs_binary` there counts the library's own failures.
"""

import math

import numpy as np
import pytest
from literal import algorithm_2, log_sum_exp, lopsided
from scipy.stats import binom
from test_adaptive import sampling_gap

RUNS, DELTA = 200, 0.2


def most(probability, runs=RUNS):
    """A count of failures that is surpassed with probability 1e-6, if each has this one."""
    return int(binom.isf(1e-6, runs, probability))


class Runs:
    """Many runs of Algorithm 2 on rows with a known best margin, and what the lemmas say."""

    def __init__(self, Z, best, steps, copies=None, **options):
        copies = np.ones(len(Z)) if copies is None else np.array(copies, dtype=float)
        self.n, self.best, self.steps = copies.sum(), best, steps
        self.draws = algorithm_2(Z, steps, RUNS, copies=copies, **options)
        scores = self.draws.w @ Z.T
        self.psi = np.array([log_sum_exp(row + np.log(copies)) for row in scores])
        self.norm = np.linalg.norm(self.draws.w, axis=1)
        self.margin = -scores.max(axis=1) / self.norm

    def margin_failures(self, share=1.0):
        """Runs with γ(w_t) < γ̄ − ε, ε the tightest that the proof gives for t steps."""
        gap = sampling_gap(math.log(self.n), self.steps, DELTA, self.best)
        assert gap < self.best  # so that the theorem says something
        return np.count_nonzero(self.margin < self.best - share * gap)

    def potential_failures(self, share=1.0):
        """Runs that break Lemma D.1, with a share of what it gives away."""
        ln_n = math.log(self.n)
        lost = 2 * ln_n + math.sqrt(8 * math.log(2 / DELTA) * ln_n)
        return np.count_nonzero(-self.psi < self.draws.squares - share * lost)

    def norm_failures(self, share=1.0):
        """Runs that break the first half of Lemma D.2, with a share of its last term."""
        extra = math.sqrt(8 * math.log(self.n) / DELTA)
        return np.count_nonzero(self.norm > self.draws.lengths + share * extra)


@pytest.fixture(scope="module", params=[(8, 0.9, 4000), (20, 0.6, 6000)], ids=str)
def runs(request):
    n, best, steps = request.param
    return Runs(lopsided(n, best), best, steps)


@pytest.fixture(scope="module", params=[(100, 20), (300, 40)], ids=str)
def noisy(request):
    """Orthonormal rows and few steps: what was drawn outweighs what is expected."""
    n, steps = request.param
    return Runs(-np.eye(n), n**-0.5, steps)


def test_theorem_4_1_with_its_tightest_epsilon(runs):
    assert runs.margin_failures() <= most(DELTA)
    assert runs.margin_failures(0.05) > most(DELTA)  # a twentieth of ε would be refuted


@pytest.fixture(scope="module")
def copied():
    """One row against 10¹² − 1 copies of another: ln n outweighs what chance adds."""
    return Runs(lopsided(2, 0.9), 0.9, 3000, copies=[1, 10**12 - 1])


def test_theorem_4_1_with_many_copies(copied):
    assert copied.margin_failures() <= most(DELTA)
    assert copied.margin_failures(0.1) > most(DELTA)  # a tenth of ε would be refuted
    assert copied.potential_failures() <= most(DELTA / 2)
    assert copied.norm_failures() <= most(DELTA / 2)


def test_theorem_4_1_is_refuted_by_draws_that_do_not_adapt():
    uniform = Runs(lopsided(20, 0.6), 0.6, 6000, is_uniform=True)
    assert uniform.margin_failures() == RUNS


def test_lemma_d_1(runs, noisy):
    for some in (runs, noisy):
        assert some.potential_failures() <= most(DELTA / 2)
    assert runs.potential_failures(0.1) > most(DELTA / 2)


def test_lemma_d_2(runs, noisy):
    for some in (runs, noisy):
        assert some.norm_failures() <= most(DELTA / 2)
        least = some.best * math.sqrt(some.steps * math.log(some.n))
        assert np.all(some.norm >= least * (1 - 1e-12))  # always, not with a probability
    assert np.any(runs.norm < 1.001 * runs.best * math.sqrt(runs.steps * math.log(runs.n)))
    assert noisy.norm_failures(0.0) > most(DELTA / 2)  # the last term is needed
