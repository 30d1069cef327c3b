"""Formulas as users of R and of Python spell them.

Published models agree with R's glm and detectseparation, coefficient by coefficient; small frames
have designs that can be written down.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from scipy.optimize import linprog

from momentron import check_separability, verify
from momentron.errors import InputError
from momentron.separability.designs import read_design

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

FOLDER = Path(os.environ.get("MOMENTRON_DATA", "absent")) / "separation"
MODELS = [
    "Donner",
    "ICU",
    "ICU_race",
    "airquality_na",
    "birthwt_factors",
    "birthwt_inter",
    "endometrial",
    "infert_factors",
    "lizards2",
    "lizards4",
    "menarche",
    "mtcars_am",
    "murder",
    "nodal",
    "pima_na",
    "sex2",
    "silvapulle",
    "titanic_table",
    "ucb",
    "urine_main",
]
CALLED_FINITE = {"nodal", "ICU_race"}  # where detectseparation has zeros that are not finite


def frame():
    """Columns with dots beside columns that are their parts."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "a": rng.integers(-3, 4, 12),
            "b": rng.integers(1, 5, 12),
            "a.b": list("uvw") * 4,
            "c.d": rng.integers(1, 4, 12),
            "Solar.R": rng.normal(size=12).round(2),
            "x y": np.arange(12),
            "class": list("kl") * 6,
            "s.x": rng.integers(0, 4, 12),
            "f.x": rng.integers(1, 4, 12),
            "y.z": [0, 1] * 6,
            "y": [0, 0, 1] * 4,
        },
        index=[f"r{i}" for i in range(12)],
    )


# --- published models -----------------------------------------------------------------------------


def published(name):
    """(table with R's reference levels, formula, weights, R's answers by coefficient)."""
    if not (FOLDER / f"{name}.csv").exists():
        pytest.skip(f"{FOLDER}/{name}.csv is absent; set MOMENTRON_DATA")
    formula, weights = (*(FOLDER / f"{name}__f.txt").read_text().split("\n"), "")[:2]
    data = pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False, na_values=["NA", ""])
    answers = pd.read_csv(FOLDER / f"{name}__R.csv", dtype=str, keep_default_na=False)
    named = {":".join(sorted(n.replace("`", "").split(":"))) for n in answers["coef"]}
    for column in data.columns:
        if data[column].dtype.kind not in "biuf":  # a CSV file loses the order of R's levels
            levels = sorted(data[column].dropna().unique(), key=lambda v: f"{column}{v}" in named)
            data[column] = pd.Categorical(data[column], levels)
    theirs = {
        ":".join(sorted(n.replace("`", "").split(":"))): ds
        for n, ds in zip(answers["coef"], answers["ds"], strict=True)
    }
    return data, formula, weights.strip() or None, theirs


def as_in_r(feature):
    """The name of a coefficient as R has it, the parts of an interaction in order."""
    if feature == "intercept":
        return "(Intercept)"
    parts = [re.sub(r"^C\((.*?)\)\[", r"factor(\1)[", part) for part in feature.split(":")]
    return ":".join(sorted(re.sub(r"\[T\.(.*)\]$", r"\1", part) for part in parts))


@pytest.mark.parametrize("name", MODELS)
def test_published_models_agree_with_r(name):
    data, formula, weights, theirs = published(name)
    used = [c for c in data.columns if c in re.findall(r"[\w.]+", formula)]
    data = data.dropna(subset=used)
    verdict = check_separability(formula, data=data, sample_weight=weights)
    ours = {as_in_r(e.feature): e.estimate for e in verdict.estimates}
    assert set(ours) == set(theirs)
    allowed = {
        "finite": {"0"},
        "+inf": {"Inf"},
        "-inf": {"-Inf"},
        "undetermined": {"Inf", "-Inf"},  # with the sign of one solution
        "aliased": {"0", "Inf", "-Inf", "NA"},  # R leaves the last one out, and answers for others
    }
    differ = {k for k, v in ours.items() if theirs[k] not in allowed[v]}
    if name in CALLED_FINITE:
        assert differ and all(theirs[k] == "0" for k in differ)
        _compare_with_programs(verdict, read_design(formula, data=data, sample_weight=weights))
    else:
        assert not differ


def _compare_with_programs(verdict, design):
    """Every coefficient that is not aliased against two linear programs of its own."""
    X = np.column_stack([np.asarray(design.X, float), np.ones(len(design.X))])
    signs = np.where(np.asarray(design.y).astype(str) == verdict.classes[1], 1.0, -1.0)
    for j, estimate in enumerate(verdict.estimates):
        if estimate.estimate != "aliased":
            assert estimate.estimate == by_programs(signs[:, None] * X, j)


def by_programs(A, j):
    ends = []
    for sign in (1.0, -1.0):
        goal = np.zeros(A.shape[1])
        goal[j] = -sign
        found = linprog(goal, A_ub=-A, b_ub=np.zeros(len(A)), bounds=(-1, 1), method="highs")
        ends.append(found.fun < -1e-7)
    return {(False, False): "finite", (True, False): "+inf", (False, True): "-inf"}.get(
        tuple(ends), "undetermined"
    )


@pytest.mark.parametrize("spelling", ["Solar.R", "`Solar.R`", "Q('Solar.R')", 'Q("Solar.R")', "."])
def test_air_quality(spelling, capsys, tmp_path):
    data, formula, _, _ = published("airquality_na")
    clean = data.dropna(subset=["high", "Wind", "Temp", "Solar.R"])
    expected = check_separability(formula, data=clean)
    if spelling == ".":
        written = "high ~ . - Ozone - Day - Month + factor(Month)"
        clean = clean[["high", "Wind", "Temp", "Solar.R", "Month", "Ozone", "Day"]]
    else:
        written = formula.replace("Q('Solar.R')", spelling)
    verdict = check_separability(written, data=clean)
    names = [e.feature for e in verdict.estimates]
    assert "Solar.R" in names
    assert {e.feature: e.estimate for e in verdict.estimates} == {
        e.feature: e.estimate for e in expected.estimates
    }
    ended = run(capsys, "check", FOLDER / "airquality_na.csv", "--formula", written, "--drop-na")
    assert ended.code == 3 and "Solar.R" in ended.out


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ("Solar.R", ["Solar.R"]),
        ("`Solar.R`", ["Solar.R"]),
        ("Q('Solar.R') + Q(\"c.d\")", ["Solar.R", "c.d"]),
        ("a.b", ["a.b[T.v]", "a.b[T.w]"]),
        ("a*b", ["a", "b", "a:b"]),
        ("a + b + a.b", ["a", "b", "a.b[T.v]", "a.b[T.w]"]),
        (
            "C(a.b)*c.d",
            ["C(a.b)[T.v]", "C(a.b)[T.w]", "c.d", "C(a.b)[T.v]:c.d", "C(a.b)[T.w]:c.d"],
        ),
        ("C(`a.b`)", ["C(a.b)[T.v]", "C(a.b)[T.w]"]),
        ("C(Q('a.b'))", ["C(a.b)[T.v]", "C(a.b)[T.w]"]),
        ("factor(a.b)", ["C(a.b)[T.v]", "C(a.b)[T.w]"]),
        ("as.factor(class)", ["C(class)[T.l]"]),
        ("class + `x y`", ["class[T.l]", "x y"]),
        ("np.log(c.d)", ["np.log(c.d)"]),
        ("sqrt(c.d)", ["sqrt(c.d)"]),
        ("Solar.R.abs()", ["Solar.R.abs()"]),
        ("poly(Solar.R, degree=2)", ["poly(Solar.R, degree=2)[1]", "poly(Solar.R, degree=2)[2]"]),
        ("C(a.b, contr.treatment('w'))", None),
        ("{Solar.R / 2}", ["Solar.R / 2"]),
        (". - `x y` - class - s.x - f.x - y.z - a.b", ["a", "b", "c.d", "Solar.R"]),
        ("Solar.R + offset(np.log(b))", ["Solar.R"]),
        ("offset(c.d) + Solar.R", ["Solar.R"]),
        ("a + offset(c.d) + Solar.R", ["a", "Solar.R"]),
    ],
)
def test_names_with_dots(terms, names):
    data = frame()
    design = read_design(f"y ~ {terms}", data=data)
    assert design.fit_intercept
    if names is None:
        assert len(design.feature_names) == 2
        return
    assert design.feature_names == names
    for column, name in zip(np.asarray(design.X, float).T, names, strict=True):
        if name in data.columns:
            assert column.tolist() == data[name].astype(float).tolist()
    assert verify(check_separability(f"y ~ {terms}", data=data), design.X, design.y)


def test_a_dot_is_every_other_column():
    data = frame()[["y", "a", "c.d", "b"]]
    assert read_design("y ~ .", data=data).feature_names == ["a", "c.d", "b"]
    weighted = read_design("y ~ .", data=data, sample_weight="b")
    assert weighted.feature_names == ["a", "c.d"]  # weights are no feature
    assert read_design("a > 0 ~ .", data=data).feature_names == ["y", "c.d", "b"]
    assert read_design("cbind(b, c.d) ~ . - y", data=data).feature_names == ["a"]
    assert read_design("y ~ .:.", data=data[["y", "a", "b"]]).feature_names[-1] == "a:b"
    with pytest.raises(InputError, match=r"no column left for '\.'"):
        read_design("y ~ .", data=data[["y"]])


@pytest.mark.parametrize(
    "left", ["y.z", "`y.z`", "Q('y.z')", "factor(y.z)", "as.factor(`y.z`)", "y.z == 1", "{y.z > 0}"]
)
def test_outcomes_with_dots(left):
    data = frame()
    found = np.asarray(read_design(f"{left} ~ a", data=data).y).astype(int)
    assert found.tolist() == data["y.z"].tolist()


@pytest.mark.parametrize(
    "left",
    [
        "cbind(s.x, f.x)",
        "s.x + f.x",
        "`s.x` + Q('f.x')",
        "cbind(s.x, (s.x + f.x) - s.x)",
        "cbind ( s.x , Q('f.x') )",
    ],
)
def test_counts_with_dots(left):
    data = frame()
    expected = check_separability(data[["a"]], data[["s.x", "f.x"]].to_numpy())
    verdict = check_separability(f"{left} ~ a", data=data)
    assert verdict.proof["data"] == expected.proof["data"]
    assert verdict.observations[1] == data[["s.x", "f.x"]].to_numpy().sum()


def test_powers_within_calls_are_powers():
    data = frame()
    for written in ("I(b^2)", "I(b**2)", "{b^2}"):
        squares = np.ravel(np.asarray(read_design(f"y ~ {written}", data=data).X, float))
        assert squares.tolist() == (data["b"] ** 2).tolist()
    assert read_design("y ~ (a + b)^2", data=data).feature_names == ["a", "b", "a:b"]


# --- what is not supported is said in a sentence --------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "what"),
    [
        ("y ~ a | b", r"has '\|', for groups or random effects.*write C\(group\)"),
        ("y ~ a + (1 | b)", r"has '\|'"),
        ("y ~ ns(a, df=3)", r"ns is not a function here; write cr\(a, df=4"),
        ("y ~ ns(Solar.R, 3)", r"write cr\(Solar.R, df=4"),
        ("y ~ a + strata(b)", r"strata is not a function here; write C\(b\)"),
        ("y ~ a * offset(b)", "offset\\(\\) must be a term of its own"),
        ("y ~ offset(b)", "no term but the intercept"),
        ("y ~ a + offset(nope)", "no column 'nope'"),
        ("y ~ factor(b, levels=c(1, 2))", r"write C\(x, levels="),
        ("y ~ relevel(a.b, ref='u')", r"write C\(a.b, contr.treatment"),
        ("y ~ cos(a)", r"cos is not a function here; write np.cos\(a\)"),
        ("y ~ mystery(a)", "mystery is not a function here; make the column"),
        ("y ~ Solar.X", "no column 'Solar.X'; its columns: a, b, a.b"),
        ("y ~ b.a", "no column 'b.a'"),
        ("y ~ `b.a`", "no column 'b.a'"),
        ("y ~ Q('b.a')", "no column 'b.a'"),
        ("z.z ~ a", "no column 'z.z'"),
        ("cbind(s.x, z.x) ~ a", "no column 'z.x'"),
        ("y ~ a ~ b", "two sides"),
        ("y ~ np.log(a)", r"np.log\(a\) is missing or infinite in \d+ of 12 rows"),
        ("y ~ lag(Solar.R)", r"lag\(Solar.R\) is missing or infinite in 1 of 12 rows"),
    ],
)
def test_messages(formula, what, capsys, tmp_path):
    data = frame()
    with pytest.raises(InputError, match=what) as refused:
        read_design(formula, data=data)
    assert "column0_of_data" not in str(refused.value) and "\x1b" not in str(refused.value)
    path = tmp_path / "t.csv"
    data.to_csv(path, index=False)
    ended = run(capsys, "check", path, "--formula", formula)
    assert ended.code == 2 and re.search(what, " ".join(ended.err.split()))


def test_columns_of_one_name_are_refused():
    data = frame()[["y", "a", "b"]].set_axis(["y", "a", "a"], axis=1)
    with pytest.raises(InputError, match="2 columns called 'a'"):
        read_design("y ~ a", data=data)


def test_text_in_the_place_of_data():
    data = frame()[["a", "b", "y"]]
    for given in ((data, "y"), ("y", data), (data[["a"]], "y")):
        with pytest.raises(InputError, match=r"is text; pass numbers and labels.*formula"):
            check_separability(*given)


def test_missing_text_may_be_a_level():
    data = frame().assign(coma=["Stupor", None] * 6, height=[1.0, np.nan] * 6)
    with pytest.raises(InputError, match=r"coma 6.*dropna.*keep_default_na=False"):
        read_design("y ~ coma", data=data)
    with pytest.raises(InputError, match=r"height 6.*dropna\(subset=\['height'\]\)$"):
        read_design("y ~ height", data=data)
    with pytest.raises(InputError, match="height 6"):  # also within a transform
        read_design("y ~ poly(height, 2)", data=data)


def test_the_command_line_leaves_out_what_the_formula_names(capsys, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y.z,a.b,x y,other\n0,1,1,NA\n1,NA,2,1\n1,2,3,1\n0,3,2,1\n1,4,NA,1\n")
    ended = run(capsys, "check", path, "--formula", "y.z ~ a.b + `x y`", "--drop-na")
    assert "2 of 5 rows left out, missing values: a.b 1, x y 1" in ended.out
    ended = run(capsys, "check", path, "--formula", "y.z ~ .", "--drop-na")
    assert "3 of 5 rows left out, missing values: a.b 1, x y 1, other 1" in ended.out
