"""The verifier: what it accepts is true, and what it rejects it rejects with a reason."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from momentron.errors import InputError
from momentron.separability import check_separability, read_design
from momentron.verify import ProofError, check_document, limits, verify
from momentron.verify import proof as heart
from momentron.verify.exact_table import Table
from momentron.verify.outcomes import label_texts, read_table

PACKAGE = Path(heart.__file__).parent

QUASI = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 4.0]]), np.array([0, 0, 1, 1])
APART = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 0, 1, 1])
ACROSS = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1, 1])


def proof_of(data):
    return copy.deepcopy(check_separability(*data).proof)


def digest(X, y):
    return read_table(X, y, decimals="shortest").sha256


def test_can_be_read_in_one_sitting():
    sizes = {file.name: len(file.read_text().splitlines()) for file in PACKAGE.glob("*.py")}
    assert sizes["proof.py"] <= 600  # the heart: what decides whether a proof is accepted
    assert sum(sizes.values()) <= 1600


def test_the_first_row_that_fails_is_named():
    proof = proof_of(APART)
    proof["weights"]["numbers"][0] = "-" + proof["weights"]["numbers"][0]
    with pytest.raises(ProofError, match="row 2, compared with class '0', is on the wrong side"):
        verify(proof, *APART)


@pytest.mark.parametrize("data", [QUASI, APART, ACROSS])
@pytest.mark.parametrize("place", range(4))
def test_a_wrong_label_is_found_by_arithmetic_too(data, place):
    X, y = data
    proof = proof_of(data)
    flipped = y.copy()
    flipped[place] = 1 - y[place]
    proof["data"]["sha256"] = digest(X, flipped)
    with pytest.raises(ProofError):
        verify(proof, X, flipped)


def test_one_unit_in_the_last_place_breaks_an_overlap():
    X, y = ACROSS
    proof = proof_of(ACROSS)
    moved = X.copy()
    moved[1, 0] = np.nextafter(1.0, 2.0)
    proof["data"]["sha256"] = digest(moved, y)
    with pytest.raises(ProofError, match="do not cancel"):
        verify(proof, moved, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "format field"),
        ({"version": 1}, "format version 1 is no longer read"),
        ({"version": 2}, "format version 2 is no longer read"),
        ({"version": 3}, "format version 3 is no longer read: it did not name the link"),
        ({"version": 5}, "format version 5; only 4"),
        ({"kind": "separable"}, "shows 'quasi-separable' at most"),
        ({"kind": "overlapping"}, "shows 'quasi-separable' at most"),
        ({"weights": ["0x1"]}, "must be an object"),
        ({"weights": None}, "must be an object"),
        ({"weights": {"coordinates": [3], "numbers": ["0x1"]}}, "out of range"),
        ({"family": "poisson"}, "link is logit; of family 'poisson' it must be one of"),
        ({"family": "poisson", "link": "log"}, "its classes are not the labels"),
        ({"link": "identity"}, "link is identity; of family 'binomial' it must be one of"),
        ({"link": None}, "link is None; of family 'binomial' it must be one of"),
        ({"link": "log"}, "malformed: KeyError: 'others'"),
        ({"family": "gamma"}, "must be one of"),
        ({"boundary": []}, "row 1, compared with class '1', lies on the proof's"),
        ({"boundary": [{"rows": [], "numerators": [], "denominator": "0x1"}]}, "empty"),
        ({"margin": {"lower": "0x1p-9", "upper": "0x1p0"}}, "below the lower bound"),
        ({"margin": {"lower": "0x0p0", "upper": "-0x1p-1074"}}, "empty or below 0"),
        ({"margin": {"lower": "0x0p0", "upper": "0x1p+0"}}, "both ends must be 0"),
        ({"margin": {"lower": "-0x1p0", "upper": "0x0p+0"}}, "both ends must be 0"),
        ({"margin": {"lower": "nan", "upper": "nan"}}, "malformed"),
    ],
)
def test_rejections(change, message):
    with pytest.raises(ProofError, match=message):
        verify(proof_of(QUASI) | change, *QUASI)


@pytest.mark.parametrize("lower", ["-0x1p+0", "-inf", "inf"])
def test_a_lower_bound_is_finite_and_not_negative(lower):
    proof = proof_of(APART)
    proof["margin"] = {"lower": lower, "upper": "inf"}
    with pytest.raises(ProofError, match=r"must not be below 0|malformed: OverflowError"):
        verify(proof, *APART)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conflict": {}}, "must be lists"),
        ({"boundary": ""}, "must be lists"),
        ({"names": "ab"}, "must be lists"),
        ({"weights": {"coordinates": [], "numbers": ""}}, "one number for each"),
    ],
)
def test_lists_are_lists(change, message):
    with pytest.raises(ProofError, match=message):
        verify(proof_of(APART) | change, *APART)


def test_lists_inside_of_objects_are_lists():
    proof = proof_of(QUASI)
    proof["estimates"]["aliases"]["numbers"] = ""
    with pytest.raises(ProofError, match="do not fit their entries"):
        verify(proof, *QUASI)
    proof = proof_of(QUASI)
    proof["boundary"][0]["numerators"] = {"0x1": None}
    with pytest.raises(ProofError, match="must be lists"):
        verify(proof, *QUASI)


def test_no_rows_are_no_claim():
    X = np.zeros((0, 2))
    change = {"family": "poisson", "link": "log", "estimates": None, "class_rows": None}
    change |= {"dual": [], "weights": NOTHING, "margin": {"lower": "0x0", "upper": "inf"}}
    proof = proof_of(APART) | change
    proof["data"] |= {"rows": 0, "classes": ["0", "> 0"], "sha256": digest(X, [])}
    with pytest.raises(ProofError, match="y has 0 classes; family 'poisson' needs at least 2"):
        verify(proof, X, [])


def test_decimals_are_read_in_one_of_two_ways():
    X, y = APART
    table = Table(X, label_texts(y), "base ten")
    proof = proof_of(APART)
    proof["data"] |= {"decimals": "base ten", "sha256": table.sha256}
    with pytest.raises(ProofError, match="must be 'binary' or 'shortest'"):
        check_document(proof, table)


def test_an_overlap_has_no_margin_above_zero():
    proof = proof_of(ACROSS)
    proof["margin"]["upper"] = "0x1p+0"
    with pytest.raises(ProofError, match="both ends must be 0 where the classes are overlapping"):
        verify(proof, *ACROSS)


def test_names_are_compared_where_the_data_have_them():
    pd = pytest.importorskip("pandas")
    X, y = QUASI
    frame = pd.DataFrame(X, columns=["dose", "age"])
    proof = check_separability(frame, y).proof
    assert verify(proof, frame, y)
    swapped = proof | {"names": ["age", "dose"]}
    assert verify(swapped, X, y)  # an array has no names
    assert verify(swapped, pd.DataFrame(X), y)  # nor has a frame whose columns are counted
    assert verify(proof | {"names": None}, frame, y)
    message = "column 0 is 'age' in the proof and 'dose' in the data"
    with pytest.raises(ProofError, match=message):
        verify(swapped, frame, y)
    with pytest.raises(ProofError, match=message):
        verify(swapped, X, y, feature_names=["dose", "age"])
    with pytest.raises(ProofError, match="columns with a name: 1 in the data, 2 in the proof"):
        verify(proof, X, y, feature_names=["dose"])


def test_long_names_are_compared_as_far_as_a_proof_keeps_them():
    X, y = QUASI
    names = ["a" * 150, "b"]
    assert verify(check_separability(X, y, feature_names=names), X, y, feature_names=names)


def test_a_coefficient_that_fails_is_named():
    proof = copy.deepcopy(check_separability(*QUASI, feature_names=["dose", "age"]).proof)
    proof["estimates"]["status"][0] = "finite"
    with pytest.raises(ProofError, match="the coefficient of 'dose' is not shown to be 'finite'"):
        verify(proof, *QUASI)


def test_a_formula_is_no_data():
    with pytest.raises(ProofError, match=r"read_design\(formula, data=frame\)"):
        verify(proof_of(QUASI), "y ~ a", QUASI[1])
    pd = pytest.importorskip("pandas")
    frame, y = pd.DataFrame({"g": pd.Categorical(list("abab")), "x": [1, 2, 3, 4]}), [0, 1, 1, 0]
    verdict = check_separability(frame, y)
    with pytest.raises(ProofError, match=r"read_design\(frame, y\)"):
        verify(verdict, frame, y)
    design = read_design(frame, y)
    assert verify(verdict, design.X, design.y)


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
    monkeypatch.setattr(limits, "MAX_CHARACTERS", 100)
    with pytest.raises(ProofError, match="at most 100 are read"):
        verify(text, *QUASI)
    monkeypatch.undo()
    proof = proof_of(QUASI)
    proof["boundary"][0]["numerators"][0] = "0x" + "f" * limits.MAX_DIGITS
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
    form = b"momentron-data 3\n1 2\nshortest\n" + np.array([1, 0], "<u8").tobytes()
    form += np.array([1.5], "<f8").tobytes() + "2:é\n".encode()
    assert digest(X, y) == hashlib.sha256(form).hexdigest()


def test_an_enclosure_that_does_not_enclose():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    proof = proof_of((X, y))
    assert proof["kind"] == "overlapping"
    for group in proof["boundary"]:
        group["numerators"] = ["0x1"] * len(group["rows"])
        group["denominator"] = "0x1"
    proof["basis"] = {"rows": [0, 1, 2], "others": [1, 0, 1]}
    with pytest.raises(ProofError, match="no enclosure"):
        verify(proof, X, y)


THREE = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]]), np.array([0, 1, 2])
NOTHING = {"coordinates": [], "numbers": []}
ZERO = {"lower": "0x0p0", "upper": "0x0p0"}


def group(rows, others, numerators):
    return {"denominator": "0x1", "rows": rows, "others": others, "numerators": numerators}


@pytest.mark.parametrize(
    ("row", "other"), [(0, 0.5), (0, 1.0), (0, True), (0.0, 1), (False, 1), ("0", 1), (0, None)]
)
def test_pairs_are_named_by_integers(row, other):
    phantom = {
        "kind": "quasi-separable",
        "margin": ZERO,
        "boundary": [group([row], [other], ["0x1"])],
    }
    with pytest.raises(ProofError, match="both must be integers"):
        verify(proof_of(THREE) | phantom, *THREE)
    margin = {"lower": "0x0p0", "upper": "0x1p-1000"}
    heavy = {"kind": "undecided", "complete": False, "weights": NOTHING, "margin": margin}
    heavy["dual"] = [group([row], [other], [hex(10**400)])]
    with pytest.raises(ProofError, match="both must be integers"):
        verify(proof_of(THREE) | heavy, *THREE)


@pytest.mark.parametrize(("row", "other"), [(-1, 1), (3, 1), (0, 3), (0, -1), (0, 0)])
def test_pairs_are_those_of_the_data(row, other):
    proof = proof_of(THREE) | {"boundary": [group([row], [other], ["0x1"])]}
    with pytest.raises(ProofError, match="there is no such pair"):
        verify(proof, *THREE)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[2**53], [2**53 + 1]]),
        [[2**53], [2**53 + 1]],
        [[2.0**53], [2**53 + 1]],
        np.array([[2**53], [2**53 + 1]], object),
        sp.csr_array(np.array([[2**53], [2**53 + 1]])),
        sp.csr_array((np.array([2**53, 2**53, 1]), np.zeros(3, int), np.array([0, 1, 3]))),
        np.array([[2.0**53], [2.0**53]]) + 1j,
        [[2.0**53], [2.0**53 + 1j]],
    ],
)
def test_data_that_float64_would_round_are_refused(X):
    rounded = np.full((2, 1), 2.0**53)
    proof = check_separability(rounded, [0, 1]).to_json()
    assert verify(proof, rounded.astype(np.int64), [0, 1])
    with pytest.raises(ProofError, match=r"exactly|[Cc]omplex"):
        verify(proof, X, [0, 1])
    with pytest.raises(InputError, match=r"exactly|[Cc]omplex"):
        check_separability(X, [0, 1])


def test_long_doubles_are_refused():
    X = np.ones((2, 1), np.longdouble)
    proof = check_separability(X, [0, 1]).to_json()
    assert verify(proof, X, [0, 1])
    X[1] += np.finfo(np.longdouble).eps
    if X[0] != X[1] and X[1].astype(float) == 1.0:  # else long doubles are doubles here
        with pytest.raises(ProofError, match="cannot hold exactly"):
            verify(proof, X, [0, 1])


@pytest.mark.parametrize("field", ["fit_intercept", "complete"])
@pytest.mark.parametrize("value", [1, 0, "true", None, 1.0, []])
def test_flags_are_true_or_false(field, value):
    with pytest.raises(ProofError, match=f"{field} is .*; it must be true or false"):
        verify(proof_of(QUASI) | {field: value}, *QUASI)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 5}, "rows and features"),
        ({"features": 77}, "rows and features"),
        ({"features": 2.0}, "rows and features"),
        ({"classes": "01"}, "classes are not the labels"),
        ({"classes": ["0", "1", "1"]}, "classes are not the labels"),
        ({"sha256": "0" * 64}, "different data"),
    ],
)
def test_what_a_proof_says_of_the_data_is_checked(change, message):
    proof = proof_of(QUASI)
    proof["data"] |= change
    with pytest.raises(ProofError, match=message):
        verify(proof, *QUASI)


@pytest.mark.parametrize("field", ["labels", "against"])
def test_the_labels_of_a_conflict_are_checked(field):
    proof = proof_of(ACROSS)
    assert verify(proof, *ACROSS)
    proof["conflict"][0][field][0] = "zz"
    with pytest.raises(ProofError, match="do not match y"):
        verify(proof, *ACROSS)


@pytest.mark.parametrize("change", [{"kind": "separable"}, {"lower": -1.0}, {"upper": 6.0}])
def test_a_verdict_says_what_its_proof_says(change):
    verdict = check_separability(*ACROSS)
    assert verify(verdict, *ACROSS)
    with pytest.raises(ProofError, match="and its proof"):
        verify(replace(verdict, **change), *ACROSS)


def test_one_class_is_no_claim():
    data = proof_of(APART)["data"] | {"rows": 1, "features": 1, "classes": ["a"]}
    data["sha256"] = digest(np.ones((1, 1)), ["a"])
    with pytest.raises(ProofError, match=r"1 class; .* needs at least 2"):
        verify(proof_of(APART) | {"data": data}, [[1.0]], ["a"])


def test_keys_come_once():
    text = json.dumps(proof_of(APART)).replace('"kind":', '"kind": "overlapping", "kind":')
    with pytest.raises(ProofError, match="'kind' appears twice"):
        verify(text, *APART)


def test_margins_are_floats():
    margin = {"lower": hex(2**60 + 1), "upper": hex(2**61)}
    with pytest.raises(ProofError, match="not a float64"):
        verify(proof_of(APART) | {"margin": margin}, *APART)


@pytest.mark.parametrize("nest", ["[" * 900 + "]" * 900, "[" + "[]," * 99 + "[]]", '{"a":' * 99])
def test_nesting_is_refused_before_it_is_parsed(nest):
    text = json.dumps(proof_of(APART) | {"extra": "@"}).replace('"@"', nest)
    with pytest.raises(ProofError, match="more than 96 lists and objects"):
        verify(text, *APART)


def test_brackets_in_labels_are_no_nesting():
    y = ["[" * 99 + '\\"', "{\\" * 99]
    assert verify(check_separability([[0.0], [1.0]], y).to_json().encode(), [[0.0], [1.0]], y)


def test_work_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MAX_WORK", 1 << 16)
    proof = proof_of(APART)
    assert verify(proof, *APART)
    weights = proof["weights"]
    long = [hex(int(float.fromhex(v) * 2**52) << 60_000) for v in weights["numbers"]]
    with pytest.raises(ProofError, match="too long to be checked"):
        verify(proof | {"weights": weights | {"numbers": long}}, *APART)
    proof["dual"][0]["denominator"] = hex(1 << 60_000)
    proof["dual"][0]["numerators"] = [hex(v << 60_000) for v in range(1, 5)]
    with pytest.raises(ProofError, match="too long to be checked"):
        verify(proof, *APART)


def enclosure(n=6, d=100_000):
    """A proof with a basis for rows that share no column; d columns are never used."""
    X, y = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, d)), np.arange(n) % 2
    plane = {"denominator": "0x1", "rows": list(range(n)), "numerators": ["0x1"] * n}
    sha256 = digest(X, y)
    data = proof_of(ACROSS)["data"] | {"rows": n, "features": d, "sha256": sha256}
    basis = {"rows": list(range(n)), "others": (1 - y).tolist()}
    proof = proof_of(ACROSS) | {"data": data, "conflict": [], "boundary": [plane], "basis": basis}
    return proof, X, y


def test_a_basis_must_be_square_before_anything_is_built():
    proof, X, y = enclosure()
    with pytest.raises(ProofError, match=r"6 pairs of the basis .* 7 coordinates"):
        verify(proof, X, y)


@pytest.mark.parametrize("other", [0.0, False, 0.5])
def test_a_basis_names_pairs_by_integers(other):
    proof, X, y = enclosure()
    proof["basis"]["others"][1] = other
    with pytest.raises(ProofError, match="both must be integers"):
        verify(proof, X, y)


def test_a_basis_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MAX_BASIS", 5)
    with pytest.raises(ProofError, match="the basis has 6 pairs; at most 5"):
        verify(*enclosure())


@pytest.mark.parametrize("error", [MemoryError, RecursionError, RuntimeError])
def test_data_that_cannot_be_read(error):
    class Refuses:
        shape = (4, 2)

        def __array__(self, *_args, **_options):
            raise error("no")

    with pytest.raises(ProofError, match=f"malformed: {error.__name__}: no"):
        verify(proof_of(QUASI), Refuses(), QUASI[1])


def test_labels_are_neither_merged_nor_split():
    assert label_texts([2**53, 2**53 + 1, 3.0]) == [str(2**53), str(2**53 + 1), "3"]
    assert label_texts(["a", "a\0", "b"]) == ["a", "a\0", "b"]
    assert label_texts(np.array([np.float32(3), 3, np.float64(3), "3"], object)) == ["3"] * 4
    assert label_texts(np.array([0.1], np.float32)) == label_texts([np.float32(0.1)])
    proof = check_separability([[0.0], [0.0], [1.0]], ["a", "a", "b"]).to_json()
    with pytest.raises(ProofError, match="different data"):
        verify(proof, [[0.0], [0.0], [1.0]], ["a", "a\0", "b"])


def test_a_lone_surrogate_is_no_label():
    with pytest.raises(ProofError, match="lone surrogate"):
        verify(proof_of(APART), APART[0], ["\ud800", "b", "b", "b"])
