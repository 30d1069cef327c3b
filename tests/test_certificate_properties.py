"""Random (w, q) always bracket the best margin, which an exact oracle computes without rounding.

Every comparison is between rational numbers, so a bound that is wrong by one unit in the last place
fails. Each problem draws from its own seed, which the failure shows.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from momentron.certificate import Certificate, certify
from momentron.dual.labels import as_labels
from momentron.dual.losses import Exponential
from momentron.rows.validation import as_matrix, operator_of
from momentron.solvers.problem import Problem
from tests.oracles.margins import ExactProblem, best_margin_squared, signed_square

CHUNKS, CHUNK = 40, 60
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}
SMALLEST = 5e-324


@dataclass(frozen=True)
class Case:
    """A problem as a user would pass it, and the same entries as a dense array."""

    X: Any
    dense: np.ndarray
    y: np.ndarray
    fit_intercept: bool

    def problem(self) -> Problem:
        if np.unique(self.y).size == 2:
            return Problem.from_data(self.X, self.y, fit_intercept=self.fit_intercept)
        # one class is a problem as well, without an intercept
        operator = operator_of(as_matrix(self.X))
        labels = as_labels(2, False, (self.y > 0).astype(int))
        dual_set = labels.dual_set(Exponential())
        return Problem(operator, labels, dual_set)

    def exact(self) -> ExactProblem:
        return ExactProblem(self.dense, self.y, self.fit_intercept)


# --- random problems -------------------------------------------------------------------------


def draw_shape(rng: np.random.Generator, largest: bool) -> tuple[int, int]:
    """Mostly small, down to 1×1; once in a chunk 50×50."""
    if largest:
        return 50, 50
    limit = 9 if rng.random() < 0.85 else 31
    return int(rng.integers(1, limit)), int(rng.integers(1, limit))


def draw_entries(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Small integers, 53-bit normals, mixed magnitudes, (nearly) one line, or a common offset."""
    kind = rng.choice(["integers", "normals", "rows", "columns", "entries", "line", "offset"])
    if kind == "integers":
        return rng.integers(-3, 4, (n, d)).astype(np.float64)
    X = rng.normal(size=(n, d))
    if kind in ("rows", "columns", "entries"):
        shape = {"rows": (n, 1), "columns": (1, d), "entries": (n, d)}[kind]
        spread = rng.choice([3.0, 30.0, 150.0])
        return X * 10.0 ** rng.uniform(-spread, 0.0, shape)
    if kind == "line":
        return np.outer(rng.integers(-4, 5, n), X[0]) + rng.choice([0.0, 1e-9]) * X
    if kind == "offset":
        return X + 10.0 ** rng.uniform(0.0, 9.0) * rng.normal(size=d)
    return X


def draw_labels(rng: np.random.Generator, X: np.ndarray, both: bool) -> np.ndarray:
    """At random, or by a hyperplane through the origin or through the middle of the data."""
    y = rng.choice([-1.0, 1.0], X.shape[0])
    if rng.random() < 0.6:
        heights = X @ rng.normal(size=X.shape[1])
        y = np.where(heights > rng.choice([0.0, np.median(heights)]), 1.0, -1.0)
    if both and np.unique(y).size == 1:
        y[rng.integers(y.size)] *= -1.0
    return y


def add_degeneracies(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> None:
    """In place: rows repeated with the same or the other label, zero rows, zero columns."""
    n, d = X.shape
    for label in (1.0, -1.0):
        if n > 2 and rng.random() < 0.1:
            i, j = rng.choice(n, 2, replace=False)
            if y[i] == label * y[j]:
                X[i] = X[j]
    if rng.random() < 0.1:
        X[rng.integers(n)] = 0.0
    if rng.random() < 0.1:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.2:
        X[rng.random((n, d)) < 0.5] = 0.0


def draw_scale(rng: np.random.Generator, dtype: type) -> float:
    """Any float, not only powers of two, from 1e-150 to 1e150, and now and then 1e±300."""
    if rng.random() < 0.25:
        return 1.0
    limit = 30.0 if dtype == np.float32 else 150.0
    if limit == 150.0 and rng.random() < 0.1:
        return float(rng.choice([1e-300, 1e300]))
    return 10.0 ** rng.uniform(-limit, limit)


def draw_case(rng: np.random.Generator, *, largest: bool) -> Case:
    n, d = draw_shape(rng, largest)
    fit_intercept = bool(n > 1 and rng.random() < 0.5)
    dtype = np.float32 if rng.random() < 0.25 else np.float64
    X = draw_entries(rng, n, d)
    y = draw_labels(rng, X, fit_intercept)
    add_degeneracies(rng, X, y)
    scale = draw_scale(rng, dtype)
    if scale != 1.0:
        X = X / (np.abs(X).max() or 1.0) * scale
    dense = X.astype(dtype)
    layout = LAYOUTS[str(rng.choice(list(LAYOUTS)))]
    return Case(layout(dense), dense, y, fit_intercept)


def draw_candidates(rng: np.random.Generator, n: int, d: int) -> list[tuple[Any, Any]]:
    """Pairs (w, q), none of them good: any w and any q must do."""
    w, q = rng.normal(size=d), rng.random(n)
    return [
        (w, q),
        (1e200 * w, np.where(rng.random(n) < 0.5, q, 0.0)),
        (1e-200 * w, 1e5 * rng.normal(size=n)),
        (np.zeros(d), np.zeros(n)),
        (np.where(rng.random(d) < 0.5, w, 0.0), np.eye(n)[rng.integers(n)]),
        (w * 10.0 ** rng.uniform(-300, 0, d), q * 10.0 ** rng.uniform(-300, 300, n)),
        (w.astype(np.float32), q.astype(np.float32)),
    ]


# --- what must hold --------------------------------------------------------------------------


def assert_proves(
    certificate: Certificate, exact: ExactProblem, best: Fraction, w: np.ndarray, q: np.ndarray
) -> None:
    """The interval holds γ̄; either bound holds for the w given, and for the q as normalised."""
    assert certificate.lower >= 0.0
    assert signed_square(certificate.lower) <= best
    assert certificate.margin != np.inf
    if certificate.margin != -np.inf:
        assert signed_square(certificate.margin) <= exact.margin_squared(w) <= best
    if certificate.upper != np.inf:
        assert best <= exact.dual_squared(q) <= signed_square(certificate.upper)


def assert_tight(certificate: Certificate, dense: np.ndarray, best: Fraction) -> None:
    """From an optimal (w, q) rounded to floats, only roundings are lost: about 1e-13 of R."""
    largest = float(np.abs(dense).max())
    radius = largest * float(np.linalg.norm(dense / (largest or 1.0), axis=1).max())
    if radius == 0.0:
        assert certificate.upper <= 2.0**-1000  # what products may lose to underflow
        return
    assert certificate.upper - certificate.lower <= 1e-13 * radius + 8 * SMALLEST
    if best >= Fraction(radius) ** 2 / 10**6:
        assert certificate.gap < 1e-9


def weighed(problem: Problem, q: np.ndarray, sharp: bool) -> np.ndarray:
    """The weights the upper bound speaks of: as given if sharp, else as rounded into the set."""
    return q if sharp else problem.dual_set.normalize(q)


def assert_case(case: Case, rng: np.random.Generator) -> None:
    problem, exact = case.problem(), case.exact()
    optimum = exact.optimum()
    best = optimum.margin_squared
    for sharp in (False, True):
        certificate = certify(problem, optimum.w, optimum.q, sharp=sharp)
        assert_proves(certificate, exact, best, optimum.w, weighed(problem, optimum.q, sharp))
        assert_tight(certificate, case.dense, best)
    near = optimum.w * (1.0 + 1e-12 * rng.normal(size=optimum.w.size))
    candidates = draw_candidates(rng, *case.dense.shape)
    for i, (w, q) in enumerate([(near, 3.0 * optimum.q), *candidates]):
        sharp = i % 2 == 0
        certificate = certify(problem, w, q, sharp=sharp)
        assert_proves(certificate, exact, best, w, weighed(problem, q, sharp))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_pair_brackets_the_best_margin(chunk: int) -> None:
    for index in range(CHUNK):
        rng = np.random.default_rng([chunk, index])
        case = draw_case(rng, largest=index == 0)
        try:
            assert_case(case, rng)
        except Exception as error:
            shape, dtype = case.dense.shape, case.dense.dtype
            error.add_note(
                f"seed [{chunk}, {index}]: {type(case.X).__name__} {dtype} of shape {shape}, "
                f"fit_intercept={case.fit_intercept}"
            )
            raise


# --- every float there is --------------------------------------------------------------------

any_float = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
moderate = st.floats(-4.0, 4.0, width=16) | st.integers(-2, 2).map(float)


@st.composite
def small_cases(draw: st.DrawFn, elements: st.SearchStrategy[float]) -> tuple[Case, Any, Any]:
    n, d = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    X = draw(arrays(np.float64, (n, d), elements=elements))
    n_positive = draw(st.integers(1, n - 1))
    y = np.where(np.arange(n) < n_positive, 1.0, -1.0)
    layout = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    w = draw(arrays(np.float64, d, elements=any_float))
    q = draw(arrays(np.float64, n, elements=any_float))
    return Case(layout(X), X, y, draw(st.booleans())), w, q


def assert_bracketed(case: Case, w: np.ndarray, q: np.ndarray) -> Certificate:
    """Both the pair as given and the optimal pair bracket γ̄; returns the latter's certificate."""
    problem, exact = case.problem(), case.exact()
    optimum = exact.optimum()
    best = optimum.margin_squared
    for sharp in (False, True):
        certificate = certify(problem, w, q, sharp=sharp)
        assert_proves(certificate, exact, best, w, weighed(problem, q, sharp))
    certificate = certify(problem, optimum.w, optimum.q)
    assert_proves(certificate, exact, best, optimum.w, problem.dual_set.normalize(optimum.q))
    return certificate


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(small_cases(any_float))
def test_full_range_floats_are_bracketed(drawn: tuple[Case, Any, Any]) -> None:
    assert_bracketed(*drawn)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(small_cases(moderate))
def test_degenerate_data_are_bracketed_tightly(drawn: tuple[Case, Any, Any]) -> None:
    case = drawn[0]
    certificate = assert_bracketed(*drawn)
    assert_tight(certificate, case.dense, case.exact().optimum().margin_squared)


# --- the oracle itself -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "labels", "plain", "with_intercept"),
    [
        ([[3.0]], [1], 9, None),
        ([[0.0]], [-1], 0, None),
        ([[3.0], [5.0]], [1, -1], 0, 1),
        ([[3.0], [-5.0]], [1, -1], 9, 16),
        ([[3.0, 4.0], [3.0, 4.0]], [1, -1], 0, 0),
        ([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], [1, 1, 1], 2, None),
        ([[1.0, 0.0], [0.0, -1.0]], [1, -1], Fraction(1, 2), Fraction(1, 2)),
        ([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1, 1, -1, -1], 0, 0),  # XOR
        ([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [9.0, 9.0]], [1, 1, -1, -1], 0, Fraction(1, 2)),
    ],
)
@pytest.mark.parametrize("exponent", [0, -900, 1000])
def test_oracle_knows_the_answer(
    rows: list, labels: list, plain: Any, with_intercept: Any, exponent: int
) -> None:
    X, y = np.ldexp(np.array(rows), exponent), np.array(labels)
    unit = Fraction(2) ** (2 * exponent)
    assert best_margin_squared(X, y, fit_intercept=False) == plain * unit
    if with_intercept is not None:
        assert best_margin_squared(X, y, fit_intercept=True) == with_intercept * unit


@pytest.mark.parametrize("seed", range(20))
def test_oracle_needs_no_luck_at_the_start(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw_case(np.random.default_rng([1000, seed]), largest=False)
    guessed = case.exact().optimum().margin_squared

    def no_guess(exact: ExactProblem) -> None:
        raise RuntimeError("no guess")

    monkeypatch.setattr(ExactProblem, "_guess", no_guess)
    assert case.exact().optimum().margin_squared == guessed
