"""Formulas, frames, fitted models, weights and counts give the same verdict as plain arrays."""

import numpy as np
import pytest
from command_line import run

from momentron import check_separability, verify
from momentron.datasets import TABLES, table_path
from momentron.errors import InputError
from momentron.separability.designs import read_design

pd = pytest.importorskip("pandas")


def table(name):
    return pd.read_csv(table_path(name))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_there(name):
    assert len(table(name)) > 5


def test_a_frame_has_names():
    data = table("endometrial")
    data.index = [f"patient {i}" for i in range(len(data))]
    verdict = check_separability(data[["NV", "PI", "EH"]], data["HG"])
    assert verdict.kind == "quasi-separable"
    assert verdict.feature_names == ["NV", "PI", "EH"]
    assert verdict.row_name(3) == "patient 3"
    assert 79 - verdict.boundary_rows.size == 13
    assert verify(verdict, data[["NV", "PI", "EH"]], data["HG"])


def test_categories_and_truth_values_of_a_frame():
    X = pd.DataFrame({"c": pd.Categorical(list("abcab")), "t": [True, False, True, True, False]})
    design = read_design(X, [0, 1, 0, 1, 0])
    assert design.feature_names == ["c[b]", "c[c]", "t"]
    assert np.asarray(design.X, float).tolist()[:3] == [[0, 0, 1], [1, 0, 0], [0, 1, 1]]
    with pytest.raises(InputError, match="astype"):
        check_separability(X.astype({"c": object}), [0, 1, 0, 1, 0])


def test_a_formula_is_its_design():
    pytest.importorskip("formulaic")
    data = table("endometrial")
    by_formula = check_separability("HG ~ NV + PI + EH", data=data)
    plain = check_separability(data[["NV", "PI", "EH"]], data["HG"])
    assert by_formula.proof["data"] == plain.proof["data"]
    crossed = check_separability("HG ~ C(NV) * EH", data=data)
    assert crossed.feature_names == ["C(NV)[T.1]", "EH", "C(NV)[T.1]:EH"]
    bare = check_separability("HG ~ 0 + EH", data=data)
    assert not bare.proof["fit_intercept"]


def test_products_of_decimals_are_decimals():
    pytest.importorskip("formulaic")
    data = pd.DataFrame({"y": [0, 1, 0], "a": [0.1, 0.2, 0.7], "b": [3, 3, 0.1]})
    design = read_design("y ~ a:b", data=data)
    assert np.ravel(design.X).tolist() == [0.3, 0.6, 0.07]


@pytest.mark.parametrize(
    ("formula", "what"),
    [
        ("y ~ z", "no column 'z'"),
        ("~ x", "two sides"),
        ("y ~ 1", "no term but the intercept"),
        ("y ~ g", "missing values, by column: g 1"),
        ("y ~ x +* 3", "cannot be"),
    ],
)
def test_bad_formulas(formula, what):
    pytest.importorskip("formulaic")
    data = pd.DataFrame({"y": [0, 1, 0], "x": [1, 2, 3], "g": ["a", None, "b"]})
    with pytest.raises(InputError, match=what) as refused:
        check_separability(formula, data=data)
    assert "\x1b" not in str(refused.value)  # formulaic colours its messages


def test_counts_are_rows():
    pytest.importorskip("formulaic")
    data = table("titanic")
    terms = "C(Q('class')) * age + sex"
    grouped = check_separability(f"survived + died ~ {terms}", data=data)
    cbind = check_separability(f"cbind(survived, died) ~ {terms}", data=data)
    rows = [
        row | {"y": y}
        for row in data.to_dict("records")
        for y, count in ((1, row["survived"]), (0, row["died"]))
        for _ in range(min(count, 2))
    ]
    single = check_separability(f"y ~ {terms}", data=pd.DataFrame(rows))
    assert grouped.kind == cbind.kind == single.kind == "quasi-separable"
    assert grouped.proof == cbind.proof
    design = read_design(f"survived + died ~ {terms}", data=data)
    assert verify(grouped, design.X, design.y)
    X, y = np.array([[0.1], [0.2], [0.3]]), np.array([[3, 0], [1, 2], [0, 0]])
    verdict = check_separability(X, y)
    assert read_design(X, y).row_names == [0, 1, 1]
    assert verdict.row_names is None and verdict.boundary_rows.tolist() == [1]
    assert verify(verdict.to_json(), X, y)
    for bad in ([[1, -1], [0, 1], [1, 1]], [[1, np.nan], [0, 1], [1, 1]]):
        with pytest.raises(InputError, match="count"):
            check_separability(X, np.array(bad))


def test_rows_of_count_zero_are_not_there():
    pytest.importorskip("formulaic")
    data = table("alligators")
    seen = data[data["count"] > 0]
    assert (len(data), len(seen), int(data["count"].sum())) == (80, 56, 219)
    terms = "food ~ lake * size + gender"
    weighted = check_separability(terms, data=data, sample_weight="count")
    dropped = check_separability(terms, data=seen)
    trapped = check_separability(terms, data=data)
    assert weighted.kind == dropped.kind == "quasi-separable"
    assert trapped.kind == "overlapping"
    wide = data.pivot(index=["lake", "gender", "size"], columns="food", values="count")
    X = pd.get_dummies(wide.reset_index()[["lake", "gender", "size"]], drop_first=True)
    X["hancock large"] = X["lake_Hancock"] & X["size_>2.3"]
    X["oklawaha large"] = X["lake_Oklawaha"] & X["size_>2.3"]
    X["trafford large"] = X["lake_Trafford"] & X["size_>2.3"]
    counted = check_separability(X, wide)
    assert counted.kind == "quasi-separable"
    assert counted.classes == weighted.classes


def test_models_of_statsmodels():
    pytest.importorskip("formulaic")
    api = pytest.importorskip("statsmodels.formula.api")
    import statsmodels.api as sm

    data = table("endometrial")
    plain = check_separability(data[["NV", "PI", "EH"]], data["HG"])
    logit = api.logit("HG ~ NV + PI + EH", data)
    glm = api.glm("HG ~ NV + PI + EH", data, family=sm.families.Binomial())
    for given in (logit, glm, glm.fit(maxiter=3)):
        verdict = check_separability(given)
        assert verdict.proof["data"] == plain.proof["data"]
        assert verdict.feature_names == ["NV", "PI", "EH"]
    titanic = table("titanic").query("survived + died > 0")
    model = api.glm("survived + died ~ sex + age", titanic, family=sm.families.Binomial())
    assert check_separability(model).kind == "overlapping"
    counts = sm.GLM(
        titanic["survived"],
        sm.add_constant(titanic["age"] == "child").astype(float),
        family=sm.families.Poisson(),
    )
    assert check_separability(counts).proof["family"] == "poisson"
    assert not check_separability(sm.Logit(data["HG"], data[["PI"]])).proof["fit_intercept"]
    with pytest.raises(InputError, match="OLS"):
        check_separability(sm.OLS(data["HG"], data[["PI"]]))
    with pytest.raises(InputError, match="leave y out"):
        check_separability(logit, data["HG"])


def test_the_command_line_knows_formulas_weights_and_counts(capsys, tmp_path):
    pytest.importorskip("formulaic")
    ended = run(capsys, "check", "endometrial", "--formula", "HG ~ NV + PI + EH")
    assert ended.code == 3 and "formula HG ~ NV" in ended.out
    options = ["--target", "food", "--weight", "count", "--dummies"]
    assert run(capsys, "check", "alligators", *options).code == 4
    options = ["--target", "survived", "--failures", "died", "--dummies"]
    proof = tmp_path / "proof.json"
    ended = run(capsys, "check", "titanic", *options, "--proof", proof)
    assert ended.code == 4 and "grouped: successes survived" in ended.out
    assert run(capsys, "verify", proof, "titanic", *options).code == 0


def test_a_constant_column_is_named(capsys, tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("one,x,y\n1,1,0\n1,2,1\n1,3,0\n")
    assert "constant        one: aliased" in run(capsys, "check", path).out


def test_one_of_something_is_singular():
    frame = pd.DataFrame({"g": pd.Categorical(["a", None, "b"])})
    with pytest.raises(InputError, match="column 'g' of X has 1 missing value; drop"):
        check_separability(frame, [0, 1, 0])
    with pytest.raises(InputError, match="X has 1 row but y has 2; they must agree"):
        check_separability([[0.0]], [[1, 0], [0, 1]])
    verdict = check_separability([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match="about 2 rows and frame has 1 row; pass"):
        verdict.drop_separated([[0.0]])
    with pytest.raises(InputError, match=r"y has 1 row$"):
        check_separability([[0.0]], [[1, 1]], sample_weight=[1, 1])
