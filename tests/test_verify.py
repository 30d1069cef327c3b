"""The verifier: what it accepts is true, and what it rejects it rejects with a reason."""

import ast
import copy
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from momentron.separability import canonical
from momentron.separability.canonical import ProofError, fingerprint, label_texts
from momentron.separability.check import check_separability
from momentron.verify import verify

verifier = importlib.import_module("momentron.verify")  # the module, not the function
ALLOWED = {"fractions", "hashlib", "json", "math", "numpy", "typing", "collections.abc"}
OWN = {"momentron.errors", "momentron.separability", "momentron.separability.canonical"}

QUASI = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 4.0]]), np.array([0, 0, 1, 1])
APART = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 0, 1, 1])
ACROSS = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1, 1])


def proof_of(data):
    return copy.deepcopy(check_separability(*data).proof)


@pytest.mark.parametrize("module", [verifier, canonical])
def test_imports_no_solver(module):
    tree = ast.parse(Path(module.__file__).read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    assert names <= ALLOWED | OWN


def test_is_short():
    assert len(Path(verifier.__file__).read_text().splitlines()) < 150


def test_the_first_row_that_fails_is_named():
    proof = proof_of(APART)
    proof["weights"][0] = "-" + proof["weights"][0]
    with pytest.raises(ProofError, match="row 2, class 0: s < 0"):
        verify(proof, *APART)


@pytest.mark.parametrize("data", [QUASI, APART, ACROSS])
@pytest.mark.parametrize("place", range(4))
def test_a_wrong_label_is_found_by_arithmetic_too(data, place):
    X, y = data
    proof = proof_of(data)
    flipped = y.copy()
    flipped[place] = 1 - y[place]
    proof["data"]["sha256"] = fingerprint(X, label_texts(flipped))[0]
    with pytest.raises(ProofError):
        verify(proof, X, flipped)


def test_one_unit_in_the_last_place_breaks_an_overlap():
    X, y = ACROSS
    proof = proof_of(ACROSS)
    moved = X.copy()
    moved[1, 0] = np.nextafter(1.0, 2.0)
    proof["data"]["sha256"] = fingerprint(moved, label_texts(y))[0]
    with pytest.raises(ProofError, match="do not cancel"):
        verify(proof, moved, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "format field"),
        ({"version": 2}, "format version 2"),
        ({"kind": "separable"}, "shows 'quasi-separable' at most"),
        ({"kind": "overlapping"}, "shows 'quasi-separable' at most"),
        ({"weights": ["0x1"]}, "1 weights; need 3"),
        ({"weights": None}, "malformed"),
        ({"plane": []}, "row 1, class 1: s = 0, no weight"),
        ({"plane": [{"rows": [], "numerators": [], "denominator": "0x1"}]}, "empty"),
        ({"margin": {"lower": "0x1p-9", "upper": "0x1p0"}}, "below the lower bound"),
        ({"margin": {"lower": "0x0p0", "upper": "-0x1p-1074"}}, "empty or below 0"),
        ({"margin": {"lower": "nan", "upper": "nan"}}, "malformed"),
    ],
)
def test_rejections(change, message):
    with pytest.raises(ProofError, match=message):
        verify(proof_of(QUASI) | change, *QUASI)


def test_a_margin_is_proven_to_the_last_bit():
    proof = proof_of(APART)
    assert verify(proof, *APART)
    lower = float.fromhex(proof["margin"]["lower"])
    proof["margin"]["lower"] = (2.0 * lower).hex()
    proof["margin"]["upper"] = (4.0 * lower).hex()
    with pytest.raises(ProofError, match="below the lower bound"):
        verify(proof, *APART)
    proof["margin"] = {"lower": "0x0p0", "upper": (0.9 * lower).hex()}
    with pytest.raises(ProofError, match="do not reach the upper bound"):
        verify(proof, *APART)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a":' * 99_999, "NaN", b"\xff\xfe\x00", "null", "[]", "9" * 5000],
)
def test_hostile_files(text):
    with pytest.raises(ProofError):
        verify(text, *QUASI)


def test_sizes_are_bounded(monkeypatch):
    text = json.dumps(proof_of(QUASI))
    monkeypatch.setattr(canonical, "LIMIT", 100)
    with pytest.raises(ProofError, match="at most 100 are read"):
        verify(text, *QUASI)
    monkeypatch.undo()
    proof = proof_of(QUASI)
    proof["plane"][0]["numerators"][0] = "0x" + "f" * canonical.DIGITS
    with pytest.raises(ProofError, match="digits"):
        verify(proof, *QUASI)


def test_bad_data():
    proof = proof_of(QUASI)
    X, y = QUASI
    for bad in (np.full_like(X, np.nan), X[:, 0], X[:3], np.array([["a", "b"]] * 4)):
        with pytest.raises(ProofError):
            verify(proof, bad, y)


def test_the_canonical_form_is_as_documented():
    import hashlib

    X, y = np.array([[1.5, -0.0]], np.float32), ["é"]
    form = b"momentron-data 1\n1 2\n" + np.array([1.5, 0.0], "<f8").tobytes() + "2:é\n".encode()
    assert fingerprint(X, label_texts(y))[0] == hashlib.sha256(form).hexdigest()


def test_an_enclosure_that_does_not_enclose():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    proof = proof_of((X, y))
    assert proof["kind"] == "overlapping"
    for group in proof["plane"]:
        group["numerators"] = ["0x1"] * len(group["rows"])
        group["denominator"] = "0x1"
    proof["basis"] = {"rows": [0, 1, 2], "others": [1, 0, 1]}
    with pytest.raises(ProofError, match="no enclosure"):
        verify(proof, X, y)
