"""The vectors of pairs in integers, next to a construction by hand for every family."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from momentron.separability import Design
from momentron.separability.cone import Cone
from momentron.solvers.rational import PRIME

FAMILIES = [  # (family, link, labels)
    ("binomial", "logit", [0, 1]),
    ("binomial", "log", [0, 1]),
    ("binomial", "logc", [0, 1]),
    ("multinomial", "logit", [0, 1, 2, 3]),
    ("ordinal", "probit", [0, 1, 2, 3]),
    ("poisson", "log", [0, 1, 5]),
    ("truncated-poisson", "log", [1, 2, 5]),
]
ENTRIES = {
    "shortest": ([0.1, -2.5, 3e-7, 1e22, 7.0], lambda v: Fraction(repr(v))),
    "binary": ([0.1, -2.5, 2.0**-40, 2.0**70, 7.0], Fraction),
}


def vectors_by_hand(row, c, family, link, k, intercept):
    """{j: vector} of the pairs of a row of class c, from the table in docs/proof-format.md."""
    d = len(row)
    if family == "multinomial" or (family, link) == ("binomial", "logit"):
        one = [*row, Fraction(1)] if intercept else row
        found = {}
        for j in set(range(k)) - {c}:
            blocks = [[Fraction(0)] * len(one) for _ in range(k)]
            blocks[c], blocks[j] = one, [-v for v in one]
            found[j] = [v for block in blocks[1:] for v in block]
        return found
    if family == "ordinal":
        found = {}
        for j in {c - 1, c + 1} & set(range(k)):
            thresholds = [Fraction(i == min(c, j)) for i in range(k - 1)]
            found[j] = [(c - j) * v for v in (*row, *thresholds)]
        return found
    one = [*row, Fraction(1)] if intercept else row
    holds = c == (0 if link == "logc" else 1)
    assert d < len(one) or not intercept
    return {1: [-v for v in one]} | ({0: one} if holds else {})


@pytest.mark.parametrize("decimals", ENTRIES)
@pytest.mark.parametrize(("family", "link", "labels"), FAMILIES)
@pytest.mark.parametrize("intercept", [True, False])
def test_vectors_sums_and_residues_are_those_by_hand(family, link, labels, intercept, decimals):
    if not intercept and (family == "ordinal" or (family == "binomial" and link != "logit")):
        pytest.skip("these models need an intercept")
    rng = np.random.default_rng(0)
    values, exact = ENTRIES[decimals]
    X = rng.choice([0.0, *values], (12, 3))
    X[:3] = np.diag([0.1, 0.1, 0.1])
    y = np.append(labels, rng.choice(labels, 12 - len(labels)))
    model = {"family": family, "link": link, "fit_intercept": intercept}
    weights = np.arange(12) != 7  # row 7 is left out
    designs = [Design.of(form, y, weights, **model) for form in (X, sp.csr_array(X))]
    cones = [Cone(design, decimals) for design in designs]
    for cone in cones:
        expected, names = [], []
        for i in np.flatnonzero(weights).tolist():
            row, c = [exact(v) for v in X[i].tolist()], int(cone.codes[i])
            made = vectors_by_hand(row, c, family, link, cone.k, intercept)
            names += [(i, j) for j in sorted(made)]
            expected += [made[j] for j in sorted(made)]
        assert [*zip(cone.example.tolist(), cone.other.tolist(), strict=True)] == names
        rows, others = zip(*names, strict=True)
        assert cone.pairs_of(rows, others).tolist() == list(range(cone.size))
        whole = [[int(v * cone.scale) for v in a] for a in expected]
        assert [[Fraction(v, cone.scale) for v in a] for a in whole] == expected
        every = np.arange(cone.size)
        found = cone.pairs.vectors(every)
        assert [[a.get(c, 0) for c in range(cone.n_coordinates)] for a in found] == whole
        assert (cone.pairs.residues(every).toarray() == np.array(whole, object) % PRIME).all()
        few = every[::2]
        assert cone.pair_rows(few).vectors(np.arange(few.size)) == [found[i] for i in few]
        for size in (9, 2**80):  # with products that fit into int64, and that do not
            w = [int(v) * size for v in rng.integers(-9, 9, cone.n_coordinates)]
            q = [int(v) * size for v in rng.integers(1, 9, few.size)]
            products = [sum(map(int.__mul__, a, w)) for a in whole]
            assert cone.pairs.sides(w) == products
            assert cone.pairs.sides(w, few) == [products[i] for i in few]
            sums = [
                sum(v * whole[i][c] for v, i in zip(q, few, strict=True)) for c in range(len(w))
            ]
            assert cone.pairs.combine(q, few) == sums
        A, exponents = cone.rows.A, cone.rows.exponents
        floats = A.toarray() if sp.issparse(A) else A
        assert (np.ldexp(floats, exponents) == np.array(expected, float)).all()
