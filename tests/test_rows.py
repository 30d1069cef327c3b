"""Rows are those that the user passed, and observations are counted by frequency.

The oracles: the same data with one row per person, fits of statsmodels pushed far along the
likelihood, and answers that can be read off the tables.
"""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run

from momentron import check_separability
from momentron.datasets import table_path
from momentron.errors import InputError
from momentron.separability import Verdict, feature_roles
from momentron.separability.designs import read_design

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")


def table(name):
    return pd.read_csv(table_path(name))


def published(name):
    """A table of the folder of published models, where that is available."""
    path = Path(os.environ.get("MOMENTRON_DATA", "absent")) / "separation" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent; set MOMENTRON_DATA")
    return pd.read_csv(path)


def far(formula, data, **options):
    """The estimates of statsmodels after very many steps towards the supremum."""
    model = smf.glm(formula, data, family=sm.families.Binomial(), **options)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return model.fit(maxiter=30, tol=0.0).params


# --- the right rows are dropped -------------------------------------------------------------------


def test_separated_rows_are_dropped_after_dropna():
    data = table("endometrial").astype({"PI": float})
    data.loc[[2, 11, 30], "PI"] = np.nan
    clean = data.dropna(subset=["PI"])
    before = clean.copy()
    left = check_separability("HG ~ NV + PI + EH", data=clean).drop_separated(clean)
    assert left.equals(clean[clean["NV"] == 0])  # every woman with NV has a high grade
    assert clean.equals(before)
    left["new"] = 1.0  # a copy, so that writing to it is no warning
    restricted = smf.glm("HG ~ PI + EH", left, family=sm.families.Binomial()).fit(tol=1e-12).params
    full = far("HG ~ NV + PI + EH", clean)
    assert full["NV"] > 15
    assert full[["Intercept", "PI", "EH"]].to_numpy() == pytest.approx(
        restricted.to_numpy(), abs=1e-6
    )


INDEXES = {
    "range from 0": lambda n: pd.RangeIndex(n),
    "shifted": lambda n: pd.RangeIndex(5, n + 5),
    "backwards": lambda n: pd.RangeIndex(n)[::-1],
    "strings": lambda n: pd.Index([f"patient {i}" for i in range(n)]),
    "duplicates": lambda n: pd.Index([i // 2 for i in range(n)]),
    "all alike": lambda n: pd.Index(["row"] * n),
    "missing labels": lambda n: pd.Index([np.nan, *range(1, n)]),
    "dates": lambda n: pd.date_range("2020-01-01", periods=n),
    "two levels": lambda n: pd.MultiIndex.from_arrays([["a"] * n, [i % 3 for i in range(n)]]),
}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("way", ["formula", "frame", "statsmodels"])
def test_any_index(kind, way):
    x = np.array([0, 1, 2, 3, 1, 2, 3, 4, 5, 1.5])
    y = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 0])
    data = pd.DataFrame({"x": x, "y": y}, index=INDEXES[kind](len(x)))
    extra = pd.DataFrame({"x": [2.5, 2.5], "y": [0, 1]}, index=data.index[:2])
    data = pd.concat([data, extra])  # only these two touch
    separated = np.r_[np.ones(10, bool), False, False]
    if kind in ("range from 0", "shifted", "dates"):
        data.index = INDEXES[kind](len(data))
    if way == "formula":
        verdict = check_separability("y ~ x", data=data)
    elif way == "frame":
        verdict = check_separability(data[["x"]], data["y"])
    else:
        verdict = check_separability(smf.logit("y ~ x", data))
    assert verdict.separated_rows.tolist() == np.flatnonzero(separated).tolist()
    assert verdict.boundary_rows.tolist() == [10, 11]
    assert verdict.drop_separated(data).equals(data[~separated])
    assert verdict.drop_separated(data["y"]).equals(data["y"][~separated])
    name = verdict.row_name(3)
    assert name == data.index[3] or (name != name and data.index[3] != data.index[3])


def test_arrays_and_lists():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [3.0]])
    y = [0, 0, 1, 1, 1]
    verdict = check_separability(X, y)
    left = verdict.drop_separated(X)
    assert left.tolist() == [[1.0], [1.0]]
    left[:] = 7.0
    assert X[1, 0] == 1.0
    assert verdict.drop_separated(y) == [0, 1]
    assert verdict.drop_separated(sp.csr_array(X)).toarray().tolist() == [[1.0], [1.0]]
    named = pd.DataFrame(X, index=list("abcde"))  # X had no index, so that any will do
    assert verdict.drop_separated(named).index.tolist() == ["b", "c"]


def test_frames_with_other_rows_are_refused():
    data = table("endometrial")
    verdict = check_separability("HG ~ NV + PI + EH", data=data)
    with pytest.raises(InputError, match=r"about 79 rows and frame has 78 rows.*dropna"):
        verdict.drop_separated(data.iloc[1:])
    with pytest.raises(InputError, match="about 79 rows and frame is not a table"):
        verdict.drop_separated(3.0)
    with pytest.raises(InputError, match=r"row 0 is 78 and was 0.*in its order"):
        verdict.drop_separated(data.iloc[::-1])
    with pytest.raises(InputError, match="index of frame differs from the index of the"):
        verdict.drop_separated(data.set_index("HG"))


def test_a_verdict_that_does_not_know_the_rows_says_so():
    verdict = check_separability([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1])
    again = Verdict.from_json(verdict.to_json())
    assert again.separated_rows.tolist() == [0, 3]
    with pytest.raises(InputError, match="read from a proof"):
        again.drop_separated(np.zeros((4, 1)))
    partial = replace(verdict, proof=verdict.proof | {"complete": False})
    assert partial.separated_rows.size == 0
    with pytest.raises(InputError, match="not decided"):
        partial.drop_separated(np.zeros((4, 1)))
    undecided = check_separability(np.eye(300), np.arange(300) % 2, max_time=1e-9)
    assert undecided.kind == "undecided"
    with pytest.raises(InputError, match="max_time"):
        undecided.drop_separated(np.eye(300))


def test_overlap_keeps_all_and_complete_separation_nothing():
    overlap = pd.DataFrame({"x": [0, 1, 2, 3], "y": [0, 1, 0, 1]}, index=[3, 1, 4, 1])
    assert check_separability(overlap[["x"]], overlap["y"]).drop_separated(overlap).equals(overlap)
    apart = overlap.assign(y=[0, 0, 1, 1])
    assert len(check_separability(apart[["x"]], apart["y"]).drop_separated(apart)) == 0


def test_rows_of_weight_zero_stay():
    data = pd.DataFrame(
        {"x": [0, 1, 1, 2, 9, 0], "y": [0, 0, 1, 1, 0, 1], "n": [4, 3, 2, 6, 0, 0]},
        index=list("abcdef"),
    )
    verdict = check_separability("y ~ x", data=data, sample_weight="n")
    assert verdict.kind == "quasi-separable"
    assert verdict.drop_separated(data).index.tolist() == ["b", "c", "e", "f"]
    assert verdict.observations == (10, 15, "observations")
    assert "10 of 15 observations are separated" in verdict.paper_sentence


# --- grouped data ---------------------------------------------------------------------------------


def persons(data, counts, classes):
    """One row per person, and the row of the table that each comes from."""
    rows = [
        (i, label)
        for i, row in enumerate(data[counts].to_numpy())
        for label, count in zip(classes, row, strict=True)
        for _ in range(int(count))
    ]
    at = [i for i, _ in rows]
    return data.iloc[at].assign(outcome=[label for _, label in rows]), np.array(at)


def test_grouped_data_are_the_same_as_one_row_per_person():
    data = table("trial").set_index(pd.Index(list("ABCDEFGHIJ")[: len(table("trial"))]))
    terms = "C(center) + treatment"
    verdict = check_separability(f"success + failure ~ {terms}", data=data)
    single, at = persons(data, ["success", "failure"], (1, 0))
    of_persons = check_separability(f"outcome ~ {terms}", data=single)
    dropped = set(at[of_persons.separated_rows])
    assert verdict.separated_rows.tolist() == sorted(dropped) and dropped
    assert set(at[of_persons.boundary_rows]) == set(verdict.boundary_rows.tolist())
    assert verdict.observations == of_persons.observations
    assert verdict.observations[1] == data[["success", "failure"]].to_numpy().sum()
    left = verdict.drop_separated(data)
    assert left.equals(data.iloc[[i for i in range(len(data)) if i not in dropped]])
    # the treatment's effect in the rows that are left is the limit of the full model's
    fit = smf.glm(f"success + failure ~ {terms}", left, family=sm.families.Binomial()).fit()
    full = far(f"success + failure ~ {terms}", data)
    name = next(name for name in full.index if name.startswith("treatment"))
    assert fit.params[name] == pytest.approx(full[name], abs=1e-6)


def test_shares_with_numbers_of_trials():
    data = table("trial")
    total = data["success"] + data["failure"]
    data = data.assign(share=data["success"] / total, total=total)
    counted = check_separability("success + failure ~ C(center) + treatment", data=data)
    for option in ("var_weights", "freq_weights"):
        model = smf.glm(
            "share ~ C(center) + treatment",
            data,
            family=sm.families.Binomial(),
            **{option: np.asarray(data["total"])},
        )
        verdict = check_separability(model)
        assert verdict.observations == counted.observations
        assert verdict.drop_separated(data).equals(counted.drop_separated(data))
    grouped = smf.glm(
        "success + failure ~ C(center) + treatment", data, family=sm.families.Binomial()
    )
    assert check_separability(grouped).observations == counted.observations
    bare = smf.glm("share ~ C(center) + treatment", data, family=sm.families.Binomial())
    assert check_separability(bare).observations == (
        counted.separated_rows.size,
        len(data),
        "rows",  # shares of unknown numbers
    )


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_only_rows_with_one_outcome_can_be_separated(family):
    rng = np.random.default_rng(4)
    n_separated = 0
    for _ in range(25):
        X = rng.integers(-1, 2, (6, 2))
        counts = rng.integers(0, 3, (6, 3)) * (rng.random((6, 3)) < 0.4)
        counts[np.arange(3), np.arange(3)] += 1
        names = [0, 1, 2]
        frame = pd.DataFrame(counts, columns=names)
        verdict = check_separability(X, frame, family=family)
        at, labels = np.nonzero(counts)
        single = check_separability(X[at], labels, family=family)
        of_persons = set(at[single.separated_rows]) - set(at[single.boundary_rows])
        assert set(verdict.separated_rows.tolist()) == of_persons
        assert ((counts[verdict.separated_rows] > 0).sum(axis=1) == 1).all()
        # no cell of a row that stays is separated
        assert not of_persons & set(at[single.boundary_rows])
        assert set(at[single.separated_rows]) == of_persons
        n_separated += verdict.separated_rows.size
        kept = verdict.drop_separated(frame)
        assert len(kept) == 6 - verdict.separated_rows.size
    assert n_separated > 5


def test_a_multinomial_fit_of_what_is_left():
    rng = np.random.default_rng(0)
    x = rng.normal(size=90).round(2)
    group = np.r_[np.ones(15), np.zeros(75)]
    y = rng.integers(0, 3, 90)
    y[group == 1] = 1  # all of the group are of one class
    data = pd.DataFrame({"x": x, "group": group, "y": y}, index=rng.permutation(90))
    verdict = check_separability(data[["x", "group"]], data["y"])
    left = verdict.drop_separated(data)
    assert left.equals(data[data["group"] == 0])
    rest = sm.MNLogit(left["y"], sm.add_constant(left[["x"]])).fit(disp=0).params
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        full = sm.MNLogit(data["y"], sm.add_constant(data[["x", "group"]])).fit(
            disp=0, maxiter=25, method="newton", tol=0.0
        )
    assert full.params.loc[["const", "x"]].to_numpy() == pytest.approx(rest.to_numpy(), abs=1e-5)


def test_conflicts_and_boundary_pairs_count_rows_of_the_table():
    X = np.array([[0.0], [1.0], [2.0]])
    verdict = check_separability(X, np.array([[3, 0], [1, 2], [0, 5]]))
    assert verdict.kind == "quasi-separable"
    assert verdict.boundary_rows.tolist() == [1] and verdict.separated_rows.tolist() == [0, 2]
    assert {pair.row for pair in verdict.boundary_pairs} == {1}
    assert {row.row for row in verdict.conflict} == {1}
    assert verdict.observations == (8, 11, "observations")
    assert "3 × 1" in verdict._repr_html_()
    named = check_separability(pd.DataFrame(X, index=list("abc")), [[3, 0], [1, 2], [0, 5]])
    assert [named.row_name(i) for i in named.separated_rows] == ["a", "c"]
    assert ">b<" in named._repr_html_()


def test_roles_of_features_in_grouped_data_with_weights():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 5.0], [-3.0, 1.0]])
    counts, weights = np.array([[0, 3], [1, 2], [4, 0], [2, 2]]), [1, 1, 1, 0]
    verdict = check_separability(X, counts, sample_weight=weights)
    assert verdict.kind == "quasi-separable"
    roles = feature_roles(verdict, X, counts)
    expected = [
        check_separability(X[:3, [j]], counts[:3]).kind == "quasi-separable" for j in (1, 0)
    ]
    assert [not role.is_needed for role in roles] == expected
    design = read_design(X, counts, sample_weight=weights)
    assert feature_roles(verdict, design.X, design.y) == roles
    assert feature_roles(Verdict.from_json(verdict.to_json()), X, counts) == roles


# --- observations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "counted"),
    [
        (None, (2, 4, "observations")),
        ([3, 1, 2, 4], (7, 10, "observations")),
        ([3.0, 1.0, 2.0, 4.0], (7, 10, "observations")),
        ([True, True, True, False], (1, 3, "observations")),
        ([0.5, 1.0, 2.0, 4.0], (2, 4, "rows")),
        ([0.5, 1.0, 2.0, 0.0], (1, 3, "rows")),
        ([1e300, 1, 1, 1], (2, 4, "rows")),
    ],
)
def test_weights_that_are_frequencies_are_counted(weights, counted):
    verdict = check_separability([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1], sample_weight=weights)
    assert verdict.observations == counted
    verb = "is" if counted[0] == 1 else "are"
    assert f"{counted[0]} of {counted[1]} {counted[2]} {verb} separated" in verdict.paper_sentence


def test_counts_with_weights_multiply():
    X, counts = [[0.0], [1.0], [2.0]], [[3, 0], [1, 2], [0, 5]]
    verdict = check_separability(X, counts, sample_weight=[2, 1, 0])
    assert verdict.observations == (6, 9, "observations")
    verdict = check_separability(X, counts, sample_weight=[0.25, 1, 1])
    assert verdict.observations == (2, 3, "rows")  # of the table, not of outcomes
    verdict = check_separability(X, [[0.3, 0], [0.1, 0.2], [0, 0.5]])
    assert verdict.observations == (2, 3, "rows")


def test_models_of_statsmodels_count_frequencies():
    data = pd.DataFrame({"x": [0.0, 1, 1, 2], "y": [0, 0, 1, 1]})
    often = np.array([3, 1, 2, 4])
    binomial = sm.families.Binomial()
    model = smf.glm("y ~ x", data, family=binomial, freq_weights=often)
    assert check_separability(model).observations == (7, 10, "observations")
    model = smf.glm("y ~ x", data, family=binomial, var_weights=often)
    assert check_separability(model).observations == (2, 4, "observations")
    assert check_separability(smf.logit("y ~ x", data)).observations == (2, 4, "observations")


def test_a_verdict_from_a_proof_counts_rows():
    X, counts = [[0.0], [1.0], [2.0]], [[3, 0], [1, 2], [0, 5]]
    again = Verdict.from_json(check_separability(X, counts).to_json())
    assert again.observations == (2, 4, "rows")
    assert "2 of 4 rows are separated" in again.paper_sentence


def test_passengers_and_girls():
    titanic = published("titanic_table")
    verdict = check_separability("Survived ~ Class * Sex * Age", data=titanic, sample_weight="Freq")
    gone = titanic.query("Age == 'Child' and Class in ('1st', '2nd') and Freq > 0")
    assert titanic.iloc[verdict.separated_rows].equals(gone)
    assert verdict.observations == (int(gone["Freq"].sum()), 2201, "observations")
    assert "30 of 2,201 observations are separated" in verdict.paper_sentence
    menarche = published("menarche")
    verdict = check_separability("Menarche + not_ ~ C(Age)", data=menarche)
    gone = menarche.query("Menarche == 0 or not_ == 0")
    assert menarche.iloc[verdict.separated_rows].equals(gone)
    assert verdict.observations == (int(gone["Total"].sum()), 3918, "observations")


def test_the_command_line_counts_rows_of_the_file(capsys, tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text("x,ill,well\n0,0,3\n1,2,1\n2,5,0\n3,0,0\n")
    for options in (["--formula", "ill + well ~ x"], ["--target", "ill", "--failures", "well"]):
        ended = run(capsys, "check", path, *options)
        assert "groups.csv: 4 × 1, 11 observations, 0 against 1" in ended.out
        assert "8 of 11 observations are separated" in ended.out
        assert "separated rows  2 of 4: 0, 2" in ended.out
        ended = run(capsys, "check", path, *options, "--json")
        found = json.loads(ended.out)
        assert (found["rows"], found["observations"]) == (4, 11)
        assert found["separated_rows"] == [0, 2] and found["boundary_rows"] == [1]
        assert {row for row, *_ in found["conflict"]} == {1}
    named = tmp_path / "named.csv"
    named.write_text("rownames,x,y,n\na,0,0,2\nb,1,0,7\nc,NA,1,1\nd,1,1,1\ne,2,1,1\n")
    options = ["--formula", "y ~ x", "--weight", "n", "--drop-na"]
    ended = run(capsys, "check", named, *options)
    assert "named.csv: 4 × 1, 11 observations" in ended.out
    assert "separated rows  2 of 4: a, e" in ended.out
    half = tmp_path / "half.csv"
    half.write_text("x,y,n\n0,0,0.5\n1,0,1\n1,1,1\n2,1,1\n")
    ended = run(capsys, "check", half, "--target", "y", "--weight", "n")
    assert "half.csv: 4 × 1, 0 against 1" in ended.out
    assert "2 of 4 rows are separated" in ended.out


def test_a_design_is_taken_as_it_is():
    X, counts = [[0.0], [1.0], [2.0]], [[3, 0], [1, 2], [0, 5]]
    design = read_design(X, counts)
    assert check_separability(design).proof == check_separability(X, counts).proof
    with pytest.raises(InputError, match="leave y"):
        check_separability(design, [0, 1, 1])


def test_rows_that_a_truncated_model_leaves_out_are_not_counted():
    statsmodels = pytest.importorskip("statsmodels.discrete.truncated_model")
    y = [0, 1, 1, 2, 0, 3, 5, 1, 1, 1, 1]
    frame = pd.DataFrame({"y": y, "one": 1.0, "g": [0] * 7 + [1] * 4}, index=list("abcdefghijk"))
    model = statsmodels.TruncatedLFPoisson(frame["y"], frame[["one", "g"]])
    verdict = check_separability(model)
    assert verdict.kind == "quasi-separable"
    seen = frame[frame["y"] > 0]
    assert [verdict.row_name(i) for i in verdict.separated_rows] == list("hijk")
    assert verdict.drop_separated(seen).equals(seen.drop(index=list("hijk")))
    with pytest.raises(InputError, match="11 rows"):
        verdict.drop_separated(frame)
