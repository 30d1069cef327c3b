"""Decimals as written: floats are read as the shortest decimals that print as them."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from command_line import run

from momentron import check_separability, verify
from momentron.data.exactness.decimals import as_decimal, is_rounded, shortest_decimals
from momentron.errors import InputError

SIX = [[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [1.0, 1.0], [0.0, 0.0]]
SIX_LABELS = [0, 0, 1, 1, 1, 0]


KINDS = (
    *("normal", "two decimals", "next to two decimals", "any bits", "any size"),
    *("powers of two", "whole", "corners"),
)


def floats(name, size=20_000):
    rng = np.random.default_rng(0)
    bits = np.frombuffer(rng.bytes(8 * size), np.float64)
    return {
        "normal": rng.standard_normal(size),
        "two decimals": np.round(rng.normal(size=size) * 100, 2),
        "next to two decimals": np.nextafter(np.round(rng.random(size) * 100, 2), np.inf),
        "any bits": bits[np.isfinite(bits)],
        "any size": 10.0 ** rng.uniform(-30, 30, size),
        "powers of two": np.ldexp(1.0, rng.integers(-1000, 1000, size)),
        "whole": rng.integers(-(2**60), 2**60, size).astype(np.float64),
        "corners": np.array([0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53, 1e15, 1e16, 1e22]),
    }[name]


@pytest.mark.parametrize("name", KINDS)
def test_the_shortest_decimal_is_what_python_prints(name):
    values = floats(name)
    whole, powers = shortest_decimals(values)
    for v, m, e in zip(values.tolist(), whole.tolist(), powers.tolist(), strict=True):
        decimal = Fraction(m) * Fraction(10) ** e
        assert decimal == Fraction(repr(v)) == as_decimal(v)
        assert is_rounded(np.array([v])) == (decimal != Fraction(v))


def test_the_six_lines():
    written = check_separability(SIX, SIX_LABELS)
    assert written.kind == "quasi-separable"
    assert written.decimals == "shortest"
    assert written.boundary_rows.tolist() == [0, 1, 2, 3]
    assert "rests on differences of 1e-16" in written.caveat
    binary = check_separability(SIX, SIX_LABELS, decimals="binary")
    assert binary.kind == "overlapping"
    assert binary.kind_otherwise == "quasi-separable"
    for verdict in (written, binary):
        assert verify(verdict.to_json(), SIX, SIX_LABELS)
        assert verify(verdict, SIX, SIX_LABELS)
    assert written.proof["data"]["sha256"] != binary.proof["data"]["sha256"]


@pytest.mark.parametrize("said", ["binary", "shortest"])
def test_a_proof_for_the_other_reading_is_refused(said):
    proof = check_separability(SIX, SIX_LABELS, decimals=said).proof
    other = "binary" if said == "shortest" else "shortest"
    proof = proof | {"data": proof["data"] | {"decimals": other}}
    with pytest.raises(Exception, match="different data"):
        verify(proof, SIX, SIX_LABELS)


def test_the_six_lines_on_the_command_line(capsys, tmp_path):
    file, proof = tmp_path / "six.csv", tmp_path / "proof.json"
    lines = zip(SIX, SIX_LABELS, strict=True)
    file.write_text("".join(f"{a:g},{b:g},{y}\n" for (a, b), y in lines))
    ended = run(capsys, "check", file, "--proof", proof)
    assert ended.code == 3
    assert "quasi-separable" in ended.out
    assert "target column: 2 (the last column)" in ended.out
    assert run(capsys, "verify", proof, file).code == 0
    assert run(capsys, "check", file, "--decimals", "binary").code == 4


@pytest.mark.slow
def test_division_by_ten_changes_nothing():
    rng = np.random.default_rng(7)
    kinds = {}
    for _ in range(150):  # 1,000 in the report of the change
        n, d = int(rng.integers(4, 12)), int(rng.integers(1, 4))
        X = rng.integers(-4, 5, (n, d)).astype(np.float64)
        y = rng.integers(0, 2, n)
        y[:2] = 0, 1
        whole, tenths = check_separability(X, y), check_separability(X / 10, y)
        assert whole.kind == tenths.kind
        assert whole.boundary_rows.tolist() == tenths.boundary_rows.tolist()
        assert np.isclose(whole.lower, 10 * tenths.lower, rtol=1e-5)
        kinds[whole.kind] = kinds.get(whole.kind, 0) + 1
    assert len(kinds) == 3


def test_margins_are_in_the_units_of_the_decimals():
    verdict = check_separability([[0.1], [0.3]], [0, 1])
    assert verdict.lower <= 0.1 <= verdict.upper
    assert Fraction(verdict.lower) <= Fraction(1, 10) <= Fraction(verdict.upper)


def test_other_types_say_the_same():
    y = SIX_LABELS
    wanted = check_separability(SIX, y).proof["data"]["sha256"]
    exact = [[Decimal(repr(v)) for v in row] for row in SIX]
    texts = [[repr(v) for v in row] for row in SIX]
    for X in (np.array(SIX, np.float32), np.array(SIX, np.float16), exact, texts):
        assert check_separability(X, y).proof["data"]["sha256"] == wanted
    with pytest.raises(InputError, match="cannot hold exactly"):
        check_separability([[2**60], [1]], [0, 1])  # prints as 1152921504606847000
    assert check_separability([[2**60], [1]], [0, 1], decimals="binary").is_separable


def test_a_verdict_that_no_rounding_touches_has_no_caveat():
    whole = check_separability([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1])
    apart = check_separability([[0.1], [0.2], [0.7], [0.9]], [0, 0, 1, 1])
    for verdict in (whole, apart):
        assert verdict.kind_otherwise == verdict.kind
        assert verdict.caveat is None


@pytest.mark.parametrize("decimals", ["decimal", None, 1, ["shortest"]])
def test_a_reading_must_be_known(decimals):
    with pytest.raises(InputError, match="decimals="):
        check_separability(SIX, SIX_LABELS, decimals=decimals)
