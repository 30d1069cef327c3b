"""The hard margin of a working set by exchanges: guess the support, solve, swap what is wrong.

On the support S all functional margins are 1, so that λ is the solution of one linear system, and
S is right where λ is positive on it and no margin outside is below 1. Otherwise all rows that
violate either condition change sides at once: block principal pivoting (Júdice and Pires, 1994;
Kim and Park, 2011). From a good guess that takes two to five factors of |S| × |S|.
"""

import numpy as np

from momentron.solvers.auto.gram_form import GramForm

SATISFIED = 1.0 - 1e-12  # a functional margin of 1, but for rounding


def exchange(form: GramForm, S: np.ndarray) -> np.ndarray | None:
    """λ at the optimum, with the form taken there; None where exchanges do not get there.

    Parameters
    ----------
    form : GramForm
    S : ndarray of bool, shape (m,)
        A guess of the support.
    """
    fewest, patience = form.m + 1, form.settings.exchange_patience
    for number in range(form.settings.exchanges):
        if not S.any() or form.deadline.has_passed(form.step_flops):
            return None
        solved = form.equalise(S)
        if solved is None:
            return None
        lam = solved.x
        wrong = np.where(S, lam, solved.p - SATISFIED) <= 0.0
        count = int(np.count_nonzero(wrong))
        if count == 0:
            form.point = solved
            return lam
        if count >= fewest:
            patience -= 1
            if patience < 0:
                return None
        if number > 0:  # from a guess that is nearly right, the first exchange makes more wrong
            fewest = min(fewest, count)
        S = S ^ wrong
    return None
