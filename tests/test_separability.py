"""Verdicts of separability: known kinds, conflicts, intervals, and exact proofs of them."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from typer.testing import CliRunner

from momentron.cli import app as command_line
from momentron.data.exactness.decimals import as_decimal
from momentron.errors import InputError
from momentron.separability import (
    Verdict,
    check,
    check_separability,
    feature_roles,
    interval,
    projection,
)
from momentron.separability.exact_weights import project_exactly
from momentron.solvers import rational
from momentron.verify import ProofError, verify
from momentron.verify.proof import whole_numbers
from tests.oracles.margins import best_margin_squared, signed_square

EXPONENTS = [1, 8, 16, 17, 100, 300]


def checked(X, y, **options):
    """A verdict that has passed the verifier after a trip through JSON."""
    verdict = check_separability(X, y, **options)
    assert verify(verdict.to_json(), X, y)
    again = Verdict.from_json(verdict.to_json())
    assert (again.kind, again.lower, again.upper) == (verdict.kind, verdict.lower, verdict.upper)
    return verdict


def class_averages(verdict, X):
    """The weighted averages of the classes in conflict, exactly."""
    (group,) = verdict.proof["conflict"]
    averages = {}
    for i, label, v in zip(group["rows"], group["labels"], group["numerators"], strict=True):
        mass, total = averages.get(label, (0, [Fraction(0)] * X.shape[1]))
        weight = int(v, 16)
        moved = [a + weight * as_decimal(float(x)) for a, x in zip(total, X[i], strict=True)]
        averages[label] = mass + weight, moved
    return [[v / mass for v in total] for mass, total in averages.values()]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_four_points_by_any_margin(exponent, fit_intercept):
    e, y = float(f"1e-{exponent}"), [1, 1, -1, -1]
    apart = checked([(-1, e), (1, e), (-1, -e), (1, -e)], y, fit_intercept=fit_intercept)
    assert apart.kind == "separable"
    assert 0 < apart.lower <= e * (1 + 1e-15)
    assert apart.upper >= e * (1 - 1e-15)
    across = checked([(-1, e), (1, -e), (-1, -e), (1, e)], y, fit_intercept=fit_intercept)
    assert across.kind == "overlapping"
    touching = checked([(-1, 0), (1, 0), (0, 0), (0, -e)], y, fit_intercept=fit_intercept)
    assert touching.kind == "quasi-separable"
    assert touching.boundary_rows.tolist() == [0, 1, 2]
    assert (touching.lower, touching.upper) == (0.0, 0.0)


def test_overlap_shows_a_conflict_of_few_rows_with_equal_averages():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    verdict = checked(X, y)
    assert verdict.kind == "overlapping"
    assert verdict.arithmetic == "exact"
    assert 2 <= len(verdict.conflict) <= 7
    first, second = class_averages(verdict, X)
    assert first == second
    assert math.isclose(sum(s.weight for s in verdict.conflict), 2.0)
    assert verdict.boundary_rows.tolist() == list(range(200))


def test_contradictory_duplicates_are_the_conflict():
    X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0], [-0.0, 1.0], [1.0, 9.0]])
    verdict = checked(X, ["a", "a", "b", "b", "a"])
    assert [(s.row, s.label, s.weight) for s in verdict.conflict] == [(0, "a", 1.0), (3, "b", 1.0)]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_quasi_separation_names_the_boundary_rows(fit_intercept):
    rng = np.random.default_rng(1)
    y = np.where(np.arange(40) % 2 == 0, 1, -1)
    X = rng.integers(-50, 51, (40, 6)).astype(float)
    X[:, 5] = y * rng.integers(1, 9, 40)
    on = [3, 4, 17, 18, 30, 33]
    X[on, 5] = 0.0
    X[33] = (y[:, None] * X)[[3, 4, 17, 18, 30]].sum(axis=0)  # the six cancel with weights 1
    X = X @ (np.eye(6) + np.diag([2.0] * 5, 1))  # hides the boundary
    verdict = checked(X, y, fit_intercept=fit_intercept)
    assert verdict.kind == "quasi-separable"
    assert verdict.boundary_rows.tolist() == on
    sides = y * (X @ verdict.coef[0] + verdict.intercept[0])
    assert np.delete(sides, on).min() > 0


def test_one_example_per_class_is_separable():
    verdict = checked([[1.0], [np.nextafter(1.0, 2.0)]], ["low", "high"])
    assert verdict.kind == "separable"
    assert verdict.lower == pytest.approx(2.0**-53, rel=1e-9)


def test_no_intercept_is_another_question():
    X, y = [[1.0], [2.0]], [0, 1]
    assert checked(X, y).kind == "separable"
    assert checked(X, y, fit_intercept=False).kind == "overlapping"
    assert checked([[0.0], [2.0]], y, fit_intercept=False).kind == "quasi-separable"


def test_iris_is_jointly_quasi_separable():
    X, y = load_iris(return_X_y=True)
    verdict = checked(X, y)
    assert verdict.kind == "quasi-separable"
    assert verdict.boundary_rows.tolist() == list(range(50, 150))  # setosa stands apart
    assert {s.label for s in verdict.conflict} == {"1", "2"}


@pytest.mark.slow
def test_digits_are_jointly_separable_with_a_narrow_interval():
    X, y = load_digits(return_X_y=True)
    verdict = checked(X[:600], y[:600])
    assert verdict.kind == "separable"
    assert verdict.coef.shape == (9, 64)
    assert 0 < verdict.lower <= verdict.upper <= 1.001 * verdict.lower


def test_three_classes_at_one_point_overlap():
    X = [[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]]
    verdict = checked(X, list("aabbcc"))
    assert verdict.kind == "overlapping"
    assert len(verdict.conflict) == 2


def test_breast_cancer_is_separable():
    X, y = load_breast_cancer(return_X_y=True)
    verdict = checked(X, y)
    assert verdict.kind == "separable"
    assert verdict.upper <= 1.0001 * verdict.lower


@pytest.mark.slow
@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_agrees_with_an_exact_oracle(seed, fit_intercept):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    X = rng.integers(-3, 4, (n, d)).astype(float) * 2.0 ** rng.integers(-40, 40)
    y = np.where(rng.permutation(n) < max(1, n // 2), 1, -1)
    truth = best_margin_squared(X, y, fit_intercept)
    verdict = checked(X, y, fit_intercept=fit_intercept)
    assert verdict.is_separable == (truth > 0)
    assert signed_square(verdict.lower) <= truth <= signed_square(verdict.upper)


def test_storage_does_not_matter():
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(30, 4)), 1).astype(np.float32)
    X[np.abs(X) < 0.3] = 0.0
    y = rng.integers(0, 2, 30)
    for decimals in ("binary", "shortest"):
        # a float32 of 0.1 is the decimal 0.1, and another binary number than the float64
        wide = X.astype(np.float64) if decimals == "binary" else np.round(X.astype(np.float64), 1)
        proof = check_separability(X, y, decimals=decimals).to_json()
        for other in (wide, np.asfortranarray(X), sp.csr_array(X), sp.csc_matrix(X)):
            assert verify(proof, other, y.astype(str))
            again = check_separability(other, y, decimals=decimals)
            assert again.proof["data"] == json.loads(proof)["data"]


def test_undecided_when_the_budget_ends():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 2
    X[:, 0] += 10 * y
    verdict = checked(X, y, max_time=1e-9)
    assert verdict.kind == "undecided"
    truth = check_separability(X, y)
    assert verdict.lower == 0 < truth.lower <= verdict.upper < math.inf


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], {}, "X contains NaN"),
        ([[1.0], [2.0]], [0, 0], {}, "y has 1 class"),
        ([[1.0], [2.0]], [0, 1, 1], {}, "they must agree"),
        ([[1.0], [2.0]], [0, 1], {"max_time": -1}, "max_time=-1"),
        ([[1.0], [2.0]], [0, 1], {"fit_intercept": 1}, "fit_intercept=1 must be True or False"),
        ([[1.0], [2.0]], [0, 1], {"fit_intercept": None}, "fit_intercept=None"),
        ([[1.0], [2.0]], ["\ud800", "b"], {}, "lone surrogate"),
        ([[2**53], [2**53 + 1]], [0, 1], {}, "cannot hold exactly"),
    ],
)
def test_bad_input(X, y, options, message):
    with pytest.raises(InputError, match=message):
        check_separability(X, y, **options)


def overlapping(n=60, d=4):
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, d)), np.arange(n) % 2


def test_an_enclosure_where_exact_systems_are_too_large(monkeypatch):
    monkeypatch.setattr(rational, "MAX_EQUATIONS", 3)
    verdict = checked(*overlapping())
    assert (verdict.kind, verdict.arithmetic) == ("overlapping", "enclosure")


def test_a_one_sided_feature_where_no_system_can_be_solved(monkeypatch):
    monkeypatch.setattr(projection, "MAX_COLUMNS", 3)
    X, y = overlapping()
    X[1] = X[0]
    with_feature = np.column_stack([X, (np.arange(60) % 6 == 1) * 3.0])
    with_feature[1, -1] = 0.0
    verdict = checked(with_feature, y)
    assert (verdict.kind, verdict.proof["complete"]) == ("quasi-separable", False)
    assert verdict.boundary_rows.tolist() == [0, 1]
    assert checked(X[2:], y[2:]).kind == "undecided"  # neither that nor a contradiction


@pytest.mark.parametrize("size", [2, 12, 150])
@pytest.mark.parametrize("seconds", [1.0, 0.0])
def test_exact_systems(monkeypatch, seconds, size):
    monkeypatch.setattr(rational, "IN_PROCESS", seconds)  # longer ones are solved in a child
    rng = np.random.default_rng(6)
    M = [[int(v) * 2**37 + 1 for v in row] for row in rng.integers(-(2**40), 2**40, (size, size))]
    right = [[i, (-3) ** i] for i in range(size)]
    Y, denominator = rational.solve_many(M, right)
    assert denominator > 0
    for row, b in zip(M, right, strict=True):
        found = [sum(a * y[m] for a, y in zip(row, Y, strict=True)) for m in range(2)]
        assert found == [denominator * v for v in b]
    M[-1] = (
        [a + 2 * b for a, b in zip(M[0], M[-2], strict=True)] if size > 2 else [2 * a for a in M[0]]
    )
    with pytest.raises(ZeroDivisionError):
        rational.solve_whole(M, [1] * size)


@pytest.mark.parametrize("seed", range(40))
def test_exact_projections(seed):
    """λ > 0, r = Σ λ p − b up to a factor, p·r ≥ 0, and = 0 where λ > 0: r is shortest (Moreau)."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 9), rng.integers(1, 5)
    factors = [10 ** int(e) for e in rng.integers(0, 1 + 40 * (seed % 2), n)]  # beyond floats
    rows = rng.integers(-2, 3, (n, d)).tolist()
    points = [[factor * v for v in row] for factor, row in zip(factors, rows, strict=True)]
    b = rng.integers(-3, 4, d).tolist()
    weights, r = project_exactly(points, b)
    assert min(weights.values(), default=1) > 0
    sums = [sum((v * points[i][c] for i, v in weights.items()), Fraction(0)) for c in range(d)]
    wanted = [total - v for total, v in zip(sums, b, strict=True)]
    factor = next((w / v for w, v in zip(wanted, r, strict=True) if v), 1)
    assert factor > 0 and wanted == [factor * v for v in r]
    sides = [sum(map(int.__mul__, p, r)) for p in points]
    assert min(sides) >= 0 and not any(sides[i] for i in weights)


def test_rows_within_rounding_of_a_plane_need_few_exact_steps(monkeypatch):
    """The short direction gets a column of its own, in which floats guess nearly all of it."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(400, 12)).round(3), rng.normal(size=12)
    X -= np.outer(X @ w, w) / (w @ w)
    systems, solve_whole = [], rational.solve_whole

    def counted(*system):
        systems.append(system)
        return solve_whole(*system)

    monkeypatch.setattr(rational, "solve_whole", counted)
    assert checked(X, rng.integers(0, 2, 400), estimates=False).kind == "overlapping"
    assert 0 < len(systems) <= 6


@pytest.mark.parametrize("seed", range(12))
def test_projections_in_floats_and_in_integers_agree(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (9, 3)).astype(float)
    y = np.append([0, 1], rng.integers(0, 2, 7))
    expected = checked(X, y)

    def refused(*_):
        raise projection.NotFound

    monkeypatch.setattr(check._Decision, "_from_floats", refused)
    verdict = checked(X, y)
    assert (verdict.kind, verdict.boundary_rows.tolist()) == (
        expected.kind,
        expected.boundary_rows.tolist(),
    )


def test_short_weights_come_first():
    X, y = overlapping()
    groups = check_separability(X, y).proof["boundary"]
    longest = max(whole_numbers(groups[0]["numerators"]))
    assert longest <= 2**40


def test_features_that_carry_the_separation():
    rng = np.random.default_rng(7)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 3))
    X[:, 1] = 2.0 * y - 1.0
    verdict = checked(X, y)
    roles = feature_roles(verdict, X, y)
    assert [role.is_needed for role in roles] == [False, True, False]
    assert [role.is_needed for role in feature_roles(verdict, X, y, max_time=1e-9)] == [None] * 3
    with pytest.raises(InputError, match="needs a separable or quasi-separable"):
        feature_roles(check_separability(*overlapping()), *overlapping())


def test_a_feature_whose_weight_underflows_still_counts():
    X = np.array([[0, 1], [2, 3], [1, 0], [3, 2]]) * np.array([1e-165, 1e165])
    y = [0, 0, 1, 1]
    verdict = checked(X, y)
    assert verdict.is_separable
    assert [role.is_needed for role in feature_roles(verdict, X, y)] == [True, True]
    with pytest.raises(InputError, match="cannot hold exactly"):
        feature_roles(verdict, [[2**53 + 1, 0]] * 4, y)


def test_equal_labels_of_other_types_are_one_class():
    with pytest.raises(InputError, match="y has 1 class"):
        check_separability([[0.0], [1.0]], np.array([np.float32(3), 3], object))
    assert checked([[0.0], [0.0], [1.0]], [2**53, 2**53 + 1, 3]).kind == "quasi-separable"
    distinct = np.array(["a", "a\0", "b"], object)
    assert checked([[0.0], [0.0], [1.0]], distinct).kind == "quasi-separable"


def test_numpy_booleans_are_booleans():
    assert checked([[1.0], [2.0]], [0, 1], fit_intercept=np.False_).kind == "overlapping"


def test_undecided_verdicts_are_verified_too(monkeypatch):
    monkeypatch.setattr(interval, "upper_bound", lambda *_: 1e-9)  # not what the dual proves
    with pytest.raises(ProofError, match="do not reach the upper bound"):
        check_separability([[0.0], [1.0]], [0, 1], max_time=1e-9)


def write_csv(path, X, y):
    lines = [
        ",".join([*map(repr, map(float, x)), str(label)]) for x, label in zip(X, y, strict=True)
    ]
    path.write_text("a,b,label\n" + "\n".join(lines))
    return str(path)


@pytest.fixture
def app():
    return lambda *args: CliRunner().invoke(command_line, list(args), catch_exceptions=False)


@pytest.mark.parametrize(
    ("points", "code", "words"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1)], 0, "strictly on its own side"),
        ([(0, 0), (1, 1), (1, 1), (2, 3)], 3, "separated rows  2 of 4: 0, 3"),
        (
            [(0, 0), (1, 1), (0, 1), (1, 0)],
            4,
            "no hyperplane separates these 4 rows strictly",
        ),
    ],
)
def test_command_line(app, tmp_path, points, code, words):
    data = write_csv(tmp_path / "data.csv", points, ["a", "a", "b", "b"])
    proof = str(tmp_path / "proof.json")
    result = app("check", data, "--proof", proof)
    assert result.exit_code == code
    assert words in result.output
    assert app("verify", proof, data).exit_code == 0
    other = write_csv(tmp_path / "other.csv", points, ["a", "b", "a", "b"])
    result = app("verify", proof, other)
    assert result.exit_code == 1
    assert "rejected: this proof is for different data" in result.output


def test_command_line_undecided_features_and_json(app, tmp_path):
    data = write_csv(tmp_path / "data.csv", [(0, 0), (0, 1), (1, 0), (1, 1)], ["a", "a", "b", "b"])
    assert app("check", data, "--max-time", "1e-9").exit_code == 5
    summary = json.loads(app("check", data, "--features", "--json").output)
    assert summary["kind"] == "separable"
    assert (summary["needed_features"], summary["spare_features"]) == ([0], [1])
    assert "needed features 1 of 2: a\n" in app("check", data, "--features").output


@pytest.mark.parametrize("intercept", [True, False])
def test_command_line_says_what_was_verified(app, tmp_path, intercept):
    data = write_csv(tmp_path / "data.csv", [(0, 1), (0, 1), (1, 0), (1, 0)], ["a", "a", "b", "b"])
    proof, flag = str(tmp_path / "proof.json"), "--intercept" if intercept else "--no-intercept"
    assert app("check", data, flag, "--proof", proof).exit_code == 0
    output = app("verify", proof, data).output
    assert ("with an intercept" if intercept else "without an intercept") in output
    assert "best margin in [0.707106" in output


def test_an_undecided_proof_is_not_called_verified(app, tmp_path):
    data = write_csv(tmp_path / "data.csv", [(0, 0), (1, 1)], ["a", "b"])
    proof = str(tmp_path / "proof.json")
    assert app("check", data, "--max-time", "1e-9", "--proof", proof).exit_code == 5
    result = app("verify", proof, data)
    assert result.exit_code == 1
    assert "only an interval is proven" in result.output
    assert "verified" not in result.output


def test_garbage_is_rejected_on_the_command_line(app, tmp_path):
    data = write_csv(tmp_path / "data.csv", [(0, 0), (1, 1)], ["a", "b"])
    garbage = tmp_path / "proof.json"
    garbage.write_text('{"format": "another"}')
    result = app("verify", str(garbage), data)
    assert result.exit_code == 1
    assert "rejected: this is not a proof" in result.output


def test_a_proof_that_cannot_be_read_is_bad_input(capsys, tmp_path):
    data = write_csv(tmp_path / "data.csv", [(0, 0), (1, 1)], ["a", "b"])
    proof = tmp_path / "proof.json"
    ended = run(capsys, "verify", proof, data)
    assert (ended.code, ended.out) == (2, "")
    assert "proof.json does not exist; check the path" in ended.err
    run(capsys, "check", data, "--proof", proof)
    for content in (b"\xff\x00", proof.read_bytes()[:200]):
        proof.write_bytes(content)
        ended = run(capsys, "verify", proof, data)
        assert ended.code == 2
        assert "cannot be read: this is not JSON" in ended.err


def test_names_in_a_proof_are_those_of_the_table(capsys, tmp_path):
    points = [(0, 5), (1, 4), (1, 4), (2, 9)]
    data = write_csv(tmp_path / "data.csv", points, ["a", "a", "b", "b"])
    proof = tmp_path / "proof.json"
    assert run(capsys, "check", data, "--proof", proof).code == 3
    ended = run(capsys, "verify", proof, data)
    assert ended.code == 0
    assert "of the coefficient of a is +∞" in ended.out
    content = json.loads(proof.read_text())
    proof.write_text(json.dumps(content | {"names": ["b", "a"]}))
    ended = run(capsys, "verify", proof, data)
    assert ended.code == 1
    assert "column 0 is 'b' in the proof and 'a' in the data" in ended.out
    bare = tmp_path / "bare.csv"
    bare.write_text((tmp_path / "data.csv").read_text().partition("\n")[2])
    ended = run(capsys, "verify", proof, bare)
    assert ended.code == 0
    assert "has no column names, so those in the proof are not compared" in ended.err
    assert "column 0" in ended.out


def test_an_order_on_the_command_line(capsys, tmp_path):
    data, proof = tmp_path / "o.csv", tmp_path / "proof.json"
    data.write_text("x,s\n0,low\n1,low\n1,mid\n3,mid\n3,high\n5,high\n")
    words = ("check", data, "--target", "s", "--family", "ordinal")
    ended = run(capsys, *words)
    assert ended.code == 2
    assert "no natural order" in ended.err
    ended = run(capsys, *words, "--order", "low,mid,high", "--proof", proof)
    assert ended.code == 3
    assert "order low < mid < high" in ended.out
    assert "x, the threshold low|mid and the threshold mid|high are +∞" in ended.out
    ended = run(capsys, "verify", proof, data, "--target", "s")
    assert ended.code == 0
    assert "in the order low < mid < high" in ended.out
    assert "x, the threshold low|mid and the threshold mid|high are +∞" in ended.out
    assert run(capsys, "verify", proof, data, "--target", "s", "--order", "high,mid,low").code == 1
    assert "lacks the label" in run(capsys, *words, "--order", "low,mid").err
    assert "has no order" in run(capsys, *words[:4], "--order", "low,mid,high").err


def test_rows_of_zeros_without_an_intercept_overlap():
    verdict = checked(np.zeros((30, 2)), np.arange(30) % 2, fit_intercept=False)
    assert verdict.kind == "overlapping"
    assert {e.estimate for e in verdict.estimates} == {"aliased"}
