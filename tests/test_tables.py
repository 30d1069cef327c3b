"""Tables as people have them: each is read as meant, or refused in one line with the remedy."""

import json

import numpy as np
import pytest
from command_line import run

from momentron.data.files import TableOptions, read_data
from momentron.errors import InputError

HARD = """id;size;colour;"note";ok;y
1;1,5;red;"a;b";TRUE;yes
2;2,25;blue;"c";FALSE;no
3;NA;red;"d";TRUE;no
4;0,5;green;"e";FALSE;yes
5;3,75;blue;"f";TRUE;NA
6;2,5;red;"g";FALSE;yes
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        read_data(path, options=TableOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_fault_of_a_hard_file_is_one_line_with_column_count_and_option(write):
    path = write(HARD)
    found = refused(path)
    assert "column 'id' has 6 different values" in found and "--drop id" in found
    found = refused(path, drop=("id",))
    assert "column 'colour'" in found and "6 of the 6 cells" in found and "--dummies" in found
    found = refused(path, drop=("id",), dummies=True)
    assert "column 'note' has 6 different texts" in found or "missing" in found
    found = refused(path, drop=("id,note",), dummies=True)
    assert "2 of 6 rows" in found and "size 1" in found and "y 1" in found and "--drop-na" in found
    options = TableOptions(drop=("id", "note"), dummies=True, drop_na=True)
    data = read_data(path, options=options)
    assert data.feature_names == ["size", "colour[green]", "colour[red]", "ok"]
    assert data.X.tolist() == [[1.5, 0, 1, 1], [2.25, 0, 0, 0], [0.5, 1, 0, 0], [2.5, 0, 1, 0]]
    assert data.y.tolist() == ["yes", "no", "yes", "yes"]
    assert data.row_names == ["0", "1", "3", "5"]
    said = "; ".join(data.taken)
    for phrase in ("target column: y", "delimiter ';'", "decimal comma", "2 of 6 rows left out"):
        assert phrase in said


def test_the_same_on_the_command_line(capsys, write, tmp_path):
    path, proof = write(HARD), tmp_path / "proof.json"
    ended = run(capsys, "check", path)
    assert ended.code == 2 and ended.err.count("\n") == 1
    options = ["--drop", "id,note", "--dummies", "--drop-na"]
    ended = run(capsys, "check", path, *options, "--json", "--proof", proof)
    assert json.loads(ended.out)["read"][0] == "target column: y (by its name)"
    assert run(capsys, "verify", proof, path, *options).code == 0
    model = tmp_path / "model.npz"
    assert run(capsys, "fit", path, *options, "--save", model).code == 0
    new = write("size;colour;ok\n1,5;red;TRUE\n2,25;blue;FALSE\n", "n.csv")
    ended = run(capsys, "predict", model, new)
    assert ended.out.split() == ["label", "yes", "no"]
    strange = write("size;colour;ok\n1,5;pink;TRUE\n", "s.csv")
    assert "pink" in run(capsys, "predict", model, strange).err


@pytest.mark.parametrize(
    ("text", "options", "X"),
    [
        ("a;b;y\n1,5;2;0\n3;4,25;1\n", {}, [[1.5, 2], [3, 4.25]]),
        ("a|b|y\n1.5|2|0\n3|4|1\n", {}, [[1.5, 2], [3, 4]]),
        ("a\tb\ty\n1\t2\t0\n3\t4\t1\n", {}, [[1, 2], [3, 4]]),
        ("a;b;y\n1,234;2;0\n3;4;1\n", {"decimal": ","}, [[1.234, 2], [3, 4]]),
        (",a,b,y\nr1,1,2,0\nr2,3,4,1\n", {}, [[1, 2], [3, 4]]),
        ("a,b,y\nr1,1,2,0\nr2,3,4,1\n", {}, [[1, 2], [3, 4]]),
        ("rownames,a,b,y\n1,1,2,0\n2,3,4,1\n", {}, [[1, 2], [3, 4]]),
        ("a  b\t y\n1 2\t0\n 3\t 4  1 \n", {"delimiter": "space"}, [[1, 2], [3, 4]]),
        ('"a","b","y"\n"1","2","p,q"\n\n"3","4","r"\n', {}, [[1, 2], [3, 4]]),
        ("a,b,y\nTRUE,F,0\nFALSE,T,1\n", {}, [[1, 0], [0, 1]]),
        ("a,b,y\n1,-9,0\n3,4,1\n5,6,0\n", {"na": ("-9",), "drop_na": True}, [[3, 4], [5, 6]]),
        ("a,id,b,y\n1,7,2,0\n3,8,4,1\n", {"columns": ("b", "a")}, [[2, 1], [4, 3]]),
        ("a,id,b,y\n1,7,2,0\n3,8,4,1\n", {"columns": ("id",)}, [[7], [8]]),
        ("1,7,2,0\n3,8,4,1\n", {"drop": ("1",)}, [[1, 2], [3, 4]]),
        ("a,b,y\n1,x,0\n3,z,1\n5,x,1\n", {"dummies": True}, [[1, 0], [3, 1], [5, 0]]),
    ],
)
def test_read_as_meant(write, text, options, X):
    assert read_data(write(text), options=TableOptions(**options)).X.tolist() == X


@pytest.mark.parametrize(
    ("text", "options", "what"),
    [
        ("a;b;y\n1,234;2;0\n3;4;1\n", {}, "decimals or thousands; pass --decimal"),
        ("a;b;y\n1,2;2.5;0\n3;4;1\n", {}, "and 1 cell with a decimal point; pass --decimal"),
        ("a;b;y\n1,2;2.5;0\n3;4;1\n", {"decimal": ","}, "line 2, column 'b': '2.5' has a point"),
        ("a;b;y\n1;1.234;0\n3;4;1\n", {"decimal": ","}, "line 2, column 'b': '1.234' has a point"),
        ("a,b,y\n1,NA,0\n.,4,1\n,6,NA\n", {}, "3 of 3 rows, by column: y 1, a 2, b 1"),
        ("a,b,y\n1,x,0\n2,3,1\n", {"dummies": True}, "1 of the 2 cells of this column; --na 'x'"),
        ("a,b,y\n1,s,0\n2,t,1\n3,u,0\n", {}, "3 of the 3 cells of this column"),
        ("a;b;y\n1;2;0\n2;3;1\n", {"delimiter": ","}, "the cells look separated by ';'"),
        ("a,b,y\n1,2,0\n2,3,1\n", {"drop": ("c",)}, "has no column 'c'"),
        ("a,b,y\n1,2,0\n2,3,1\n", {"drop": ("a", "b")}, "has no feature column left"),
        ("a,b,y\n1,NA,0\nNA,3,1\n", {"drop_na": True}, "a missing value in every row"),
        ("patient_id,b,y\n1,2,0\n2,3,1\n", {}, "column 'patient_id' has 2 different"),
    ],
)
def test_refused_with_the_remedy(write, text, options, what):
    assert what in refused(write(text), **options)


def test_a_missing_label_is_no_class(write):
    assert "by column: y 1" in refused(write("a,y\n1,p\n2,q\n3,NA\n"))


def test_long_decimals_are_told(write):
    data = read_data(write("a,y\n0.10000000000000001,0\n0.25,1\n"))
    assert data.X.ravel().tolist() == [0.1, 0.25]
    assert any("1 cell of a with more digits" in note for note in data.taken)


def test_a_single_level_has_no_dummies(write):
    data = read_data(write("a,b,y\n1,x,0\n2,x,1\n3,x,1\n"), options=TableOptions(dummies=True))
    assert data.X.tolist() == [[1], [2], [3]]
    assert data.columns.features == data.feature_names == ["a"]


def test_text_among_weights_and_counts_is_refused_by_line_and_column(write):
    path = write("s,f,w,a\n1,2,x,0\n3,4,1,1\n")
    assert "line 2, column 'w' (position 2): 'x' is not a number" in refused(path, weight="w")
    path = write("s,f,a\n1,2,0\n3,z,1\n")
    found = refused(path, target="s", failures="f")
    assert "line 3, column 'f' (position 1): 'z' is not a number" in found and "--drop" not in found


@pytest.mark.parametrize(
    "options", [{"delimiter": ";;"}, {"decimal": "x"}, {"delimiter": ",", "decimal": ","}]
)
def test_options_are_checked(options):
    with pytest.raises(InputError):
        TableOptions(**options)


def test_options_are_never_ignored(tmp_path):
    np.save(tmp_path / "t.npy", np.eye(3))
    assert "takes no --drop" in refused(tmp_path / "t.npy", drop=("1",))


CELLS = [
    "1",
    "-2.5",
    " 3.25 ",
    "1e3",
    "+7",
    ".5",
    "0.1",
    "123456.789",
    "1E-5",
    "TRUE",
    "NA",
    "x",
    "",
]


@pytest.mark.parametrize("seed", range(20))
def test_few_rows_are_read_as_many_are(write, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    known = CELLS[: 9 if seed % 2 else len(CELLS)]
    lines = [",".join([*rng.choice(known, 4), str(rng.integers(3))]) for _ in range(8)]
    path = write("\n".join(["a,b,c,d,y", *lines]) + "\n")
    found = []
    for few in (0, 100):
        monkeypatch.setattr("momentron.data.files.text_tables.FEW", few)
        try:
            data = read_data(path, options=TableOptions(drop_na=True, dummies=True))
            found.append((data.X.tolist(), data.y.tolist(), data.taken))
        except InputError as error:
            found.append(str(error))
    assert found[0] == found[1]
