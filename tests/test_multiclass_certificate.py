"""Many classes: any pair (W, q) brackets the best joint margin, which an oracle knows exactly.

Every comparison is between rational numbers. Each problem draws from its own seed, which the
failure shows.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from many_classes import assert_witness, blobs, explicit, leads, pairs_problem, touching
from test_certificate_properties import LAYOUTS, draw_entries, draw_scale
from test_flows import best_by_linear_program

from momentron import Status, max_margin
from momentron.certificate import Certificate, certify, certify_margin
from momentron.certificate.bounds import scores_in_double
from momentron.rows.validation import as_matrix, operator_of
from momentron.solvers.problem import Problem
from tests.oracles.margins import ExactProblem, best_margin_squared, signed_square
from tests.oracles.pairs import ExactPairs

CHUNKS, CHUNK = 10, 9


# --- random problems and pairs ---------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A problem as a user would pass it, and the same entries as a dense array."""

    X: Any
    dense: np.ndarray
    y: np.ndarray
    fit_intercept: bool

    def problem(self) -> Problem:
        if self.y.max() > 1:
            return Problem.from_data(self.X, self.y, fit_intercept=self.fit_intercept)
        operator = operator_of(as_matrix(self.X))  # two classes are a problem of pairs as well
        return pairs_problem(operator, self.y, 2, self.fit_intercept)

    def exact(self) -> ExactPairs:
        return ExactPairs(self.dense, self.y, self.fit_intercept)


def draw_labels(rng: np.random.Generator, X: np.ndarray, k: int) -> np.ndarray:
    """At random, or by k linear outputs, or by the nearest of k centres; no class is empty."""
    n, d = X.shape
    top = np.abs(X).max() or 1.0
    kind = rng.integers(3)
    if kind == 0:
        y = rng.integers(0, k, n)
    elif kind == 1:
        y = (X / top @ rng.normal(size=(d, k)) + rng.integers(2) * rng.normal(size=k)).argmax(
            axis=1
        )
    else:
        y = rng.integers(0, k, n)
        X += 3.0 * top * rng.normal(size=(k, d))[y]
    y[rng.permutation(n)[:k]] = np.arange(k)
    return y


def add_degeneracies(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> None:
    """In place: equal rows with equal or other labels, zero rows, zero columns, zeros."""
    n, d = X.shape
    for _ in range(rng.integers(0, 3)):
        i, j = rng.choice(n, 2, replace=False)
        if y[i] == y[j] or rng.random() < 0.3:
            X[i] = X[j]
    if rng.random() < 0.1:
        X[rng.integers(n)] = 0.0
    if rng.random() < 0.1:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.2:
        X[rng.random((n, d)) < 0.5] = 0.0


def draw_case(rng: np.random.Generator) -> Case:
    k = int(rng.choice([2, 3, 3, 3, 4, 4, 5, 6, 8]))
    n, d = k + int(rng.integers(0, 6)), int(rng.integers(1, 5))
    dtype = np.float32 if rng.random() < 0.25 else np.float64
    X = draw_entries(rng, n, d)
    y = draw_labels(rng, X, k)
    add_degeneracies(rng, X, y)
    scale = draw_scale(rng, dtype)
    if scale != 1.0:
        X = X / (np.abs(X).max() or 1.0) * scale
    dense = X.astype(dtype)
    layout = LAYOUTS[str(rng.choice(list(LAYOUTS)))]
    return Case(layout(dense), dense, y, bool(rng.random() < 0.6))


def near(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """The values, off by a share between 1e-19 and 1e-3, perhaps in extended precision."""
    dtype = np.longdouble if rng.random() < 0.5 else np.float64
    off = rng.normal(size=values.shape) * 10.0 ** rng.uniform(-19.0, -3.0)
    return values.astype(dtype) * (1.0 + off.astype(dtype))


def draw_weights(rng: np.random.Generator, exact: ExactPairs) -> list[np.ndarray]:
    """Flows of every kind: one way only, in two separate circles, nearly none, not numbers."""
    size = len(exact.pairs)
    c, j = np.array([pair[1:] for pair in exact.pairs]).T
    q = rng.random(size)
    forth, halves = c < j, (c < exact.k // 2) == (j < exact.k // 2)
    return [
        q,
        np.zeros(size),
        np.where(forth, q, 0.0),
        np.where(forth, q, 10.0 ** rng.uniform(-320, -1) * q),
        np.where(halves, q, 10.0 ** rng.choice([-20.0, -250.0, -400.0]) * q),
        np.where((j == (c + 1) % exact.k), q, 0.0),
        np.where(rng.random(size) < 0.3, q, 0.0),
        np.eye(size)[rng.integers(size)],
        1e5 * rng.normal(size=size),
        q * 10.0 ** rng.uniform(-300, 300, size),
        np.where(rng.random(size) < 0.2, rng.choice([np.nan, np.inf, -np.inf], size), q),
        5e-324 * rng.integers(0, 3, size),
        10.0 ** rng.uniform(-4900, 0, size).astype(np.longdouble),
    ]


def draw_classifiers(rng: np.random.Generator, d: int, k: int) -> list[np.ndarray]:
    W = rng.normal(size=(d, k))
    return [
        W,
        1e200 * W,
        1e-200 * W,
        np.zeros((d, k)),
        W + 1e9 * rng.normal(size=(d, 1)),  # the same for all classes: nothing but rounding
        np.where(rng.random((d, k)) < 0.5, W, 0.0),
        W * 10.0 ** rng.uniform(-300, 0, (d, k)),
        W.astype(np.float32),
        5e-324 * rng.integers(-2, 3, (d, k)),
    ]


# --- what must hold --------------------------------------------------------------------------


def assert_proves(
    problem: Problem, exact: ExactPairs, W: np.ndarray, q: np.ndarray, sharp: bool
) -> Certificate:
    """The interval holds γ̄; either bound holds for the W given, and for q brought into the set."""
    certificate = certify(problem, W, q, sharp=sharp)
    best = exact.optimum.margin_squared
    assert certificate.lower >= 0.0
    assert signed_square(certificate.lower) <= best
    assert certificate.margin != np.inf
    if certificate.margin != -np.inf:
        given = W if sharp else W.astype(np.float64)
        assert signed_square(certificate.margin) <= exact.margin_squared(given) <= best
    if certificate.upper != np.inf:
        used = problem.dual_set.normalize(np.asarray(q, _type(sharp)))
        assert best <= exact.dual_squared(used) <= signed_square(certificate.upper)
    return certificate


def _type(sharp: bool) -> Any:
    return np.longdouble if sharp else np.float64


def assert_tight(certificate: Certificate, dense: np.ndarray) -> None:
    """From an optimal (W, q) rounded to floats, only roundings are lost: about 1e-13 of R."""
    largest = float(np.abs(dense).max())
    radius = largest * float(np.linalg.norm(dense / (largest or 1.0), axis=1).max())
    assert certificate.width <= 1e-13 * radius + 2.0**-1000


def assert_case(case: Case, rng: np.random.Generator) -> None:
    problem, exact = case.problem(), case.exact()
    optimum = exact.optimum
    for sharp in (False, True):
        certificate = assert_proves(problem, exact, optimum.W, optimum.q, sharp)
        assert_tight(certificate, case.dense)
        for _ in range(3):
            assert_proves(problem, exact, near(rng, optimum.W), near(rng, optimum.q), sharp)
    weights = draw_weights(rng, exact)
    classifiers = draw_classifiers(rng, *optimum.W.shape)
    for i, q in enumerate(weights):
        assert_proves(problem, exact, classifiers[i % len(classifiers)], q, i % 2 == 0)
        assert_proves(problem, exact, near(rng, optimum.W), q, i % 2 == 1)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_pair_brackets_the_best_margin(chunk: int) -> None:
    for index in range(CHUNK):
        rng = np.random.default_rng([chunk, index])
        case = draw_case(rng)
        try:
            assert_case(case, rng)
        except Exception as error:
            error.add_note(
                f"seed [{chunk}, {index}]: {type(case.X).__name__} {case.dense.dtype} of shape "
                f"{case.dense.shape}, {case.y.max() + 1} classes, "
                f"fit_intercept={case.fit_intercept}"
            )
            raise


# --- what solvers propose --------------------------------------------------------------------


def assert_auto_brackets(*seed: int) -> None:
    case = draw_case(np.random.default_rng(seed))
    if case.y.max() == 1:
        return
    best = case.exact().optimum.margin_squared
    result = max_margin(case.X, case.y, fit_intercept=case.fit_intercept, tol=1e-9)
    assert signed_square(result.lower) <= best <= signed_square(result.upper), (seed, result)
    assert result.status is not Status.OPTIMAL or best > 0, (seed, result)
    assert result.status is not Status.NOT_SEPARABLE or result.lower == 0.0, (seed, result)


@pytest.mark.parametrize("chunk", range(4))
def test_auto_brackets_the_best_margin(chunk: int) -> None:
    for index in range(25):
        assert_auto_brackets(chunk, index, 1)


def test_auto_outlives_multipliers_that_overflow() -> None:
    """Five classes, three of which share a row: the interior point's multipliers diverge."""
    assert_auto_brackets(357, 9)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_margin_is_that_of_the_classifier_returned(fit_intercept: bool) -> None:
    """Rows far longer than the margin, so that the rounding of W to unit length shows."""
    for seed in range(12):
        X, y = blobs(seed, n=8, d=3, k=3)
        X += 1e5 * np.random.default_rng(seed).normal(size=3)
        result = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-12)
        margin = ExactPairs(X, y, fit_intercept).margin_squared(result.coef.T)
        assert signed_square(result.margin) <= margin, (seed, result)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_touching_classes_get_a_witness(fit_intercept: bool) -> None:
    for seed in range(60):
        X, y = touching(seed)
        result = max_margin(X, y, fit_intercept=fit_intercept)
        assert result.status is Status.NOT_SEPARABLE, (seed, result)
        assert_witness(result, X, y, fit_intercept)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_soft_margins_are_bracketed(fit_intercept: bool) -> None:
    """The interval of the rows (z, −e/√(2C)), for the float 1/√(2C) that the problem holds."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X, y = blobs(seed, n=8, d=3, k=3, spread=rng.choice([0.0, 2.0]))
        X *= 10.0 ** rng.uniform(-8.0, 8.0)
        C = 10.0 ** rng.uniform(-20.0, 20.0)
        problem = Problem.from_data(X, y, fit_intercept=fit_intercept, C=C)
        exact, root = ExactPairs(X, y, fit_intercept), Fraction(problem.penalty.root)
        result = max_margin(X, y, fit_intercept=fit_intercept, C=C)
        dual = result.full_dual()[np.repeat(np.arange(8), 2), explicit(X, y)[2]]
        classifiers = [result.coef.T, *draw_classifiers(rng, 3, 3)]
        for i, q in enumerate([near(rng, dual), *draw_weights(rng, exact)]):
            W, sharp = classifiers[i % len(classifiers)], bool(rng.random() < 0.5)
            size = (np.abs(W).max() or 1.0) * 10.0 ** rng.uniform(-15.0, 5.0)
            tail = size * rng.normal(size=16)
            certificate = certify(problem, problem.joined(W, tail), q, sharp=sharp)
            margin = exact.soft_margin_squared(W, tail, root)
            assert signed_square(certificate.margin) <= margin, (seed, i)
            used = problem.dual_set.normalize(np.asarray(q, _type(sharp)))
            assert exact.dual_squared(used, root) <= signed_square(certificate.upper), (seed, i)


def test_intercepts_are_the_best_for_any_classifier() -> None:
    rng = np.random.default_rng(8)
    for k in range(3, 8):
        X, y = blobs(k, n=30, k=k)
        problem = Problem.from_data(X, y)
        W = rng.normal(size=(6, k))
        b = problem.dual_set.intercept(scores_in_double(problem, W))
        plain = leads(X @ W, y)
        D = np.array([plain[y == c].min(axis=0) for c in range(k)])
        best = best_by_linear_program(D)
        assert leads(X @ W + b, y).min() == pytest.approx(best, abs=1e-9)
        assert certify_margin(problem, W) * np.linalg.norm(W) == pytest.approx(best, abs=1e-9)
        assert b.mean() == pytest.approx(0.0, abs=1e-12)


# --- the oracle itself -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_oracle_agrees_with_the_one_for_two_classes(seed: int) -> None:
    rng = np.random.default_rng([2000, seed])
    X, y = blobs(seed, n=8, d=int(rng.integers(1, 4)), k=2 + seed % 3, spread=1.0)
    rows = explicit(X, y)[0]
    ones = np.ones(len(rows))
    assert ExactPairs(X, y, False).optimum.margin_squared == best_margin_squared(rows, ones, False)
    if y.max() == 1:
        signs = 2.0 * y - 1.0
        binary = ExactProblem(X, signs, True).optimum().margin_squared
        assert ExactPairs(X, y, True).optimum.margin_squared == 2 * binary


@pytest.mark.parametrize("k", [3, 4, 8])
@pytest.mark.parametrize("exponent", [0, -900, 1000])
def test_oracle_knows_the_simplex(k: int, exponent: int) -> None:
    X, y = np.ldexp(np.eye(k), exponent), np.arange(k)
    best = Fraction(1, k - 1) * Fraction(2) ** (2 * exponent)
    for fit_intercept in (False, True):
        exact = ExactPairs(X, y, fit_intercept)
        assert exact.optimum.margin_squared == best
        assert exact.margin_squared(np.eye(k)) == Fraction(1, k) * Fraction(2) ** (2 * exponent)
    shifted = ExactPairs(X + X[0], y, True)
    assert shifted.optimum.margin_squared == best
