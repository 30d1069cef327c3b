"""Which classes separate from which in a joint model: known data, brute force, and the proof."""

import copy
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris

from momentron import check_separability, verify
from momentron.cli import main
from momentron.datasets import table_path
from momentron.separability import BoundaryPair, ClassPair, Verdict
from momentron.separability import check as check_module
from momentron.separability.sentences import sentence_on_classes
from momentron.solvers.rational import TooLarge
from momentron.verify import ProofError
from tests.test_estimates import cone_rows, dot, extreme_rays

DESIGNS = int(os.environ.get("MOMENTRON_DESIGNS", "200"))
ALLIGATORS = "food ~ lake * size + gender"


def iris():
    found = load_iris()
    return found.data, found.target_names[found.target]


def alligators():
    frame = pd.read_csv(table_path("alligators"))
    return frame, check_separability(ALLIGATORS, data=frame, sample_weight="count")


def kinds(verdict):
    return {(pair.first, pair.second): pair.kind for pair in verdict.class_pairs}


# --- known data ----------------------------------------------------------------------------------


def test_setosa_separates_from_the_others_which_overlap():
    verdict = check_separability(*iris())
    assert verdict.class_pairs == [
        ClassPair("setosa", "versicolor", "separable", (50, 50), (0, 0)),
        ClassPair("setosa", "virginica", "separable", (50, 50), (0, 0)),
        ClassPair("versicolor", "virginica", "overlapping", (0, 0), (50, 50)),
    ]
    assert verdict.boundary_pairs[0] == BoundaryPair(50, "versicolor", "virginica")
    assert verdict.boundary_pairs == [
        (i, *(("versicolor", "virginica") if i < 100 else ("virginica", "versicolor")))
        for i in range(50, 150)
    ]
    said = "versicolor and virginica overlap"
    for form in ("text", "latex", "html"):
        assert said in verdict.summary(form)
    assert "versicolor" in verdict._repr_html_() and "joint model" in verdict._repr_html_()


def test_alligators_are_told_apart_in_some_lakes_only():
    frame, verdict = alligators()
    assert {*kinds(verdict).values()} == {"quasi-separable"}
    assert len(verdict.class_pairs) == 10
    kept = frame[frame["count"] > 0]
    sizes = kept["food"].value_counts()
    for pair in verdict.class_pairs:
        for label, strict, on in zip(
            (pair.first, pair.second), pair.strict, pair.boundary, strict=True
        ):
            assert strict + on == sizes[label]
    on = set(verdict.boundary_pairs)
    assert {pair.row for pair in on} == set(verdict.boundary_rows.tolist())
    assert all(frame["food"][pair.row] == pair.label for pair in on)
    # no bird eater was caught among the small alligators of Oklawaha: the others beat birds there
    empty = kept[(kept["lake"] == "Oklawaha") & (kept["size"] == "<=2.3")]
    assert len(empty) and "Bird" not in set(empty["food"])
    assert not any((i, food, "Bird") in on for i, food in empty["food"].items())
    # in the small cells of George every food occurs, so nothing moves there
    full = kept[(kept["lake"] == "George") & (kept["size"] == "<=2.3")]
    assert set(full["food"]) == set(verdict.classes)
    assert all(
        (i, food, other) in on
        for i, food in full["food"].items()
        for other in set(full["food"]) - {food}
    )


def test_a_joint_model_may_lose_what_two_classes_have():
    X, y = [[0], [3], [1], [2]], list("aabc")
    assert {*kinds(check_separability(X, y)).values()} == {"overlapping"}
    assert check_separability(X[2:], y[2:]).kind == "separable"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["separable", "overlapping"])
def test_one_kind_for_all_classes(kind):
    X, y = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]), np.array([0, 0, 1, 1, 2, 2])
    if kind == "separable":
        X, y = load_digits(return_X_y=True)
        X, y = X[:200], y[:200]
    verdict = check_separability(X, y)
    assert verdict.kind == kind
    assert {*kinds(verdict).values()} == {kind}
    assert verdict.classes_sentence == ""
    total = (np.unique(y).size - 1) * y.size
    assert len(verdict.boundary_pairs) == (total if kind == "overlapping" else 0)
    assert sum(sum(pair.strict) for pair in verdict.class_pairs) == total - len(
        verdict.boundary_pairs
    )


def test_two_classes_are_one_pair():
    verdict = check_separability([[0.0], [1.0], [1.0], [2.0]], ["a", "a", "b", "b"])
    assert verdict.class_pairs == [ClassPair("a", "b", "quasi-separable", (1, 1), (1, 1))]
    assert verdict.boundary_pairs == [(1, "a", "b"), (2, "b", "a")]
    assert verdict.classes_sentence == ""


def test_ordered_classes_are_compared_with_their_neighbours():
    X = [[0], [1], [1], [2], [5], [6]]
    verdict = check_separability(X, list("aabbcc"), family="ordinal", order=["a", "b", "c"])
    assert kinds(verdict) == {("a", "b"): "quasi-separable", ("b", "c"): "separable"}
    assert verdict.boundary_pairs == [(1, "a", "b"), (2, "b", "a")]


def test_counts_compare_no_classes():
    verdict = check_separability([[0], [1], [1], [2]], [0, 0, 3, 4], family="poisson")
    assert verdict.boundary_rows.size
    assert verdict.class_pairs == verdict.boundary_pairs == []


def test_rows_of_weight_zero_belong_to_no_pair():
    X, y = iris()
    weights = np.ones(150)
    weights[[0, 60, 61, 149]] = 0
    verdict = check_separability(X, y, sample_weight=weights)
    assert verify(verdict.to_json(), X, y, sample_weight=weights)
    assert [pair.strict for pair in verdict.class_pairs] == [(49, 48), (49, 49), (0, 0)]
    assert verdict.class_pairs[2].boundary == (48, 49)


@pytest.mark.parametrize(
    "form", [sp.csr_array, np.asfortranarray, pd.DataFrame, lambda X: (10 * X).round().astype(int)]
)
def test_storage_does_not_matter(form):
    X, y = iris()
    assert check_separability(form(X), y).class_pairs == check_separability(X, y).class_pairs


# --- brute force ---------------------------------------------------------------------------------


def drawn(seed):
    """A small random design of three or four classes, ordered ones among them."""
    rng = np.random.default_rng(seed)
    family = ("multinomial", "multinomial", "ordinal")[seed % 3]
    k = int(rng.integers(3, 5)) if family == "ordinal" else 3
    n, d = (int(rng.integers(k, 8)), 2) if family == "ordinal" else (int(rng.integers(3, 6)), 1)
    fit_intercept = bool(family == "ordinal" or rng.random() < 0.8)
    if not fit_intercept:
        n, d = 4, 2
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    X = rng.integers(-2, 3, (n, d)).astype(float)
    if rng.random() < 0.5:
        X[:, 0] = y + rng.integers(0, 2, n) * rng.integers(0, 2)
    return X, y, family, fit_intercept


def pair_names(y, family):
    """(row, class, other class) of the vectors of `cone_rows`, in its order."""
    k = y.max() + 1
    for i, c in enumerate(y.tolist()):
        for j in range(k):
            if j != c and (family == "multinomial" or abs(j - c) == 1):
                yield i, str(c), str(j)


def strict_pairs(X, y, family, fit_intercept):
    """Those that some direction without errors, and so the sum of all rays, moves to their side."""
    A = cone_rows(X, y, family, fit_intercept)
    rays, _ = extreme_rays(A)
    names = pair_names(y, family)
    return {name: any(dot(a, ray) > 0 for ray in rays) for name, a in zip(names, A, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_pairs_are_those_of_a_brute_force(part):
    seen = set()
    for seed in range(part, DESIGNS, 4):
        X, y, family, fit_intercept = drawn(seed)
        verdict = check_separability(X, y, family=family, fit_intercept=fit_intercept)
        verdict = Verdict.from_json(verdict.to_json())
        assert verify(verdict, X, y)
        is_strict = strict_pairs(X, y, family, fit_intercept)
        on = [name for name, strict in is_strict.items() if not strict]
        assert verdict.boundary_pairs == on, seed
        for pair in verdict.class_pairs:
            both = [(pair.first, pair.second), (pair.second, pair.first)]
            counts = [[v for (_, *name), v in is_strict.items() if name == [*b]] for b in both]
            assert pair.strict == tuple(map(sum, counts)), seed
            assert pair.boundary == tuple(len(c) - sum(c) for c in counts), seed
            together = [v for c in counts for v in c]
            kind = "separable" if all(together) else "quasi-separable"
            assert pair.kind == (kind if any(together) else "overlapping"), seed
            seen.add(pair.kind)
            _check_alone(X, y, pair, fit_intercept)
    assert seen == {"separable", "quasi-separable", "overlapping"}


def _check_alone(X, y, pair, fit_intercept):
    """Without other classes two of them are separated as they are jointly, or more."""
    both = np.isin(y, [int(pair.first), int(pair.second)])
    alone = check_separability(X[both], y[both], fit_intercept=fit_intercept, estimates=False)
    order = ["overlapping", "quasi-separable", "separable"]
    assert order.index(alone.kind) >= order.index(pair.kind)


# --- the proof -----------------------------------------------------------------------------------


def test_proofs_without_the_classes_of_rows_are_still_read():
    X, y = iris()
    proof = check_separability(X, y).proof
    for old in (
        proof | {"class_rows": None},
        {k: v for k, v in proof.items() if k != "class_rows"},
    ):
        assert verify(json.dumps(old), X, y)
        verdict = Verdict.from_json(json.dumps(old))
        assert verdict.kind == "quasi-separable"
        assert verdict.boundary_rows.size == 100
        assert verdict.class_pairs == verdict.boundary_pairs == []
        assert verdict.classes_sentence == ""
        assert "class and" not in verdict._repr_html_()


def changes(proof):
    """Proofs that say something else about the classes of rows."""
    section = proof["class_rows"]
    for key, values in section.items():
        for i in range(0, len(values), 7):
            for other in (values[i] + 1, -1, True, 1.0, "1", None):
                if type(other) is not int or other != values[i]:
                    yield section | {key: [*values[:i], other, *values[i + 1 :]]}
        yield section | {key: values[:-1]}
        yield section | {key: [*values, 0]}
        yield section | {key: None}
        yield section | {key: dict(enumerate(values))}
        yield {k: v for k, v in section.items() if k != key}
    yield section | {"more": []}
    yield from ([], "", 0, True, {})


def test_changed_classes_of_rows_are_rejected():
    X, y = iris()
    proof = check_separability(X, y).proof
    for change in changes(proof):
        with pytest.raises(ProofError, match=r"class_rows|malformed|rounded"):
            verify(json.dumps(proof | {"class_rows": change}), X, y)
        with pytest.raises(ProofError):
            verify(copy.deepcopy(proof) | {"class_rows": change}, X, y)


def test_a_proof_that_is_not_complete_leaves_classes_undecided(monkeypatch):
    def too_large(*_):
        raise TooLarge("no room")

    monkeypatch.setattr(check_module, "boundary_weights", too_large)
    X = np.array([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
    verdict = check_separability(X, list("abcc"))
    assert (verdict.kind, verdict.proof["complete"]) == ("quasi-separable", False)
    assert verify(verdict.to_json(), X, list("abcc"))
    assert {*kinds(verdict).values()} == {"undecided"}
    assert verdict.class_pairs[0] == ClassPair("a", "b", "undecided", None, (1, 1))
    assert verdict.boundary_pairs == [(0, "a", "b"), (1, "b", "a")]


# --- words ---------------------------------------------------------------------------------------


def test_a_sentence_names_ten_pairs_of_a_kind():
    pairs = [ClassPair("a", str(i), "overlapping", (0, 0), (1, 1)) for i in range(13)]
    sentence = sentence_on_classes([*pairs, ClassPair("b", "c", "separable", (1, 1), (0, 0))])
    assert sentence.startswith("in the joint model b and c are completely separated; a and 0,")
    assert sentence.endswith("a and 9 and 3 more pairs overlap")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    assert ended.value.code == 3
    return capsys.readouterr().out


def test_the_command_line_tells_pairs(capsys):
    out = run(capsys, "iris")
    assert "separated rows  50 of 150: 0, 1, 2, 3" in out
    assert "classes in the joint model" in out
    assert "50 and 50" in out
    found = json.loads(run(capsys, "iris", "--json"))
    assert found["boundary_pairs"][0] == [50, "1", "2"]
    assert found["class_pairs"][-1] == {
        "first": "1",
        "second": "2",
        "kind": "overlapping",
        "strict": [0, 0],
        "boundary": [50, 50],
    }


def test_the_command_line_stops_at_ten_pairs(capsys, tmp_path: Path):
    x = [*range(6), 0.5]  # six classes in a row, the first of them on both sides of a seventh
    rows = [f"{v},{v * v},{label}" for v, label in zip(x, "abcdefg", strict=True)]
    rows.append("1,1,a")
    path = tmp_path / "many.csv"
    path.write_text("\n".join(["u,v,y", *rows]))
    out = run(capsys, str(path))
    assert "11 more" in out


def test_two_classes_on_the_command_line_are_as_before(capsys, tmp_path: Path):
    path = tmp_path / "two.csv"
    path.write_text("x,y\n0,a\n1,a\n1,b\n2,b")
    assert "classes in the joint model" not in run(capsys, str(path))
    found = json.loads(run(capsys, str(path), "--json"))
    assert found["class_pairs"] == found["boundary_pairs"] == []
