"""Cells of text tables arrive as the csv module reads them, or are refused by line and column.

The oracle is Python's csv module in strict mode, on the text as it is, with numbers by `Decimal`.
"""

import csv
import io
import random
from decimal import Decimal, InvalidOperation

import numpy as np
import pytest
from command_line import run

from momentron import check_separability, max_margin
from momentron.data.files import TableOptions, read_data, read_frame, read_rows
from momentron.errors import InputError

PIECES = [
    *'0123456789-+.eE" \t,;_xy',
    *["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0"],
    *["\u2028", "\ufeff", "\0", "１", "٢", '""', "#", "'", "NA", "nan"],
]
ORDINARY = ["1", "2.5", "-3", "0.1", '"4"', " 5", "6e1", ".5", '" 7"', "8 "]


def using(*columns):
    """Which of the columns of a table a formula uses."""
    return lambda names: [name for name in names if name in columns]


def cell_of(draw, words):
    """An ordinary cell, or an odd one: pieces of anything, in quotes or not, in part or whole."""
    if draw.random() < 0.9:
        return draw.choice(words)
    text = "".join(draw.choice(PIECES) for _ in range(draw.randrange(5)))
    kind = draw.randrange(4)
    if kind == 0:
        return '"' + text.replace('"', '""') + '"'
    if kind == 1:
        return f'"{text}"{draw.choice(["", "1", " "])}'
    return text if kind == 2 else draw.choice(ORDINARY) + text


def table_of(seed):
    """(a text of four columns with names, its delimiter)."""
    draw = random.Random(seed)
    mark = draw.choice([",", ",", ";", "\t"])
    rows = [[cell_of(draw, ["a"]), cell_of(draw, ["b"]), cell_of(draw, ["w"]), "label"]]
    for _ in range(draw.randrange(2, 6)):
        words = [ORDINARY, ORDINARY, ["1", "2"], ["x", "y", "xy", '"x"']]
        rows.append([cell_of(draw, part) for part in words])
    end = draw.choice(["\n", "\n", "\r\n", "\r"])
    start = draw.choice(["", "", "", "\ufeff", "\n", " \n"])
    return start + end.join(mark.join(row) for row in rows) + end, mark


def expected(text, mark):
    """The rows that the csv module finds."""
    stream = io.StringIO(text.removeprefix("\ufeff"), newline="")
    rows = list(csv.reader(stream, delimiter=mark, strict=True))
    return [row for row in rows if row and (len(row) > 1 or not row[0] or row[0].strip())]


def as_written(cell):
    """A number by its exact value, another cell by its text; white space around it is no part."""
    try:
        value = Decimal(cell.strip())
    except InvalidOperation:
        return cell.strip()
    return value if value.is_finite() and "_" not in cell else cell.strip()


def same(found, cell):
    return as_written(str(found)) == as_written(cell)


def require_same(found, rows):
    """What was read is what the rows say; the columns are a, b, [w], label."""
    head, *body = rows
    assert len(found.y) == len(body)
    named = [name.strip() or str(place) for place, name in enumerate(head)]
    assert found.feature_names == named[: found.X.shape[1]]
    for i, row in enumerate(body):
        assert len(row) == len(head)
        for j in range(found.X.shape[1]):
            assert same(found.X[i, j], row[j]), (i, j, row)
        is_missing = found.y[i] == "" and row[-1].strip().lower() in ("", ".", "na", "nan")
        assert is_missing or same(found.y[i], row[-1]), (i, row)
        if found.weights is not None:
            assert same(found.weights[i], row[2]), (i, row)


@pytest.mark.parametrize("door", ["as it is", "delimiter given", "weights", "rows to classify"])
def test_odd_cells_are_what_the_csv_module_reads_or_refused(door, tmp_path):
    path, accepted = tmp_path / "t.csv", 0
    for seed in range(400):
        text, mark = table_of(seed)
        path.write_bytes(text.encode())
        try:
            if door == "as it is":
                found = read_data(path)
                marks = {"delimiter ';'": ";", "delimiter tab": "\t", "delimiter '|'": "|"}
                mark = next((marks[note] for note in found.taken if note in marks), ",")
            elif door == "weights":
                found = read_data(path, weight=2, options=TableOptions(delimiter=mark))
            elif door == "rows to classify":
                found = read_rows(path, 3, target="label", options=TableOptions(delimiter=mark))
            else:
                found = read_data(path, options=TableOptions(delimiter=mark))
        except InputError as error:
            assert "\n" not in str(error)
            continue
        rows = expected(text, mark)
        if found.kept is not None:
            rows = [rows[0], *(row for row, kept in zip(rows[1:], found.kept, strict=True) if kept)]
        if rows[0][0].strip() and found.columns.target == "label":  # else row names, or no header
            accepted += 1
            require_same(found, rows)
    assert accepted > 60  # else the test says nothing


def test_a_formula_sees_the_same_cells(tmp_path):
    path, accepted = tmp_path / "t.csv", 0
    for seed in range(300):
        text, mark = table_of(seed)
        path.write_bytes(text.encode())
        try:
            frame, _ = read_frame(path, TableOptions(delimiter=mark), using("label", "a", "b"))
        except InputError:
            continue
        head, *body = expected(text, mark)
        if "" in map(str.strip, head):
            continue  # row names, or a column that is called by its position
        accepted += 1
        assert frame.columns.tolist() == [name.strip() for name in head]
        for column, cells in zip(frame.columns, zip(*body, strict=True), strict=True):
            for found, cell in zip(frame[column].tolist(), cells, strict=True):
                is_missing = cell.strip().lower() in ("", "na", "nan", ".")
                assert is_missing or same(found, cell), (column, cell)
    assert accepted > 60


SPLIT = ['"1\n2"', '"1\r\n2"', '"1\r2"', '"\n12"', '"12\n"']
GLUED = ['"1"2', '"1""2"3', '"1" 2']


@pytest.mark.parametrize("cell", SPLIT + GLUED)
@pytest.mark.parametrize("place", ["header", "feature", "label", "weight"])
def test_a_cell_in_two_lines_or_beyond_its_quotes_is_refused_by_line_and_column(
    tmp_path, cell, place
):
    rows = [["a", "b", "w", "label"], ["1", "2", "1", "x"], ["3", "4", "1", "y"]]
    line, column = {"header": (0, 1), "feature": (2, 0), "label": (1, 3), "weight": (2, 2)}[place]
    rows[line][column] = cell
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(map(",".join, rows)).encode())
    where = f"line {line + 1}, column {column} "
    doors = [
        lambda: read_data(path),
        lambda: read_data(path, weight="w"),
        lambda: read_rows(path, 3, target="label"),
        lambda: read_frame(path, TableOptions(), using("label", "a")),
        lambda: max_margin(path),
        lambda: read_data(path, options=TableOptions(drop=("b",))),
    ]
    for door in doors:
        with pytest.raises(InputError, match=where) as caught:
            door()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["fit", "check", "verify", "report", "race", "predict"])
def test_every_command_refuses_a_cell_in_two_lines(capsys, tmp_path, command):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("a,b,label\n1,2,x\n3,4,y\n5,9,x\n")
    bad.write_text('a,b,label\n1,2,x\n3,"4\n4",y\n5,9,x\n')
    proof, model = tmp_path / "p.json", tmp_path / "m.npz"
    proof.write_text(check_separability(*_arrays(good)).to_json())
    if command == "predict":
        assert run(capsys, "fit", good, "--save", model)[0] == 0
    before = {"verify": [proof], "predict": [model]}.get(command, [])
    more = ["-o", tmp_path / "page.html"] if command == "report" else []
    code, _, err = run(capsys, command, *before, bad, *more)
    assert code == 2 and "line 3, column 1 " in err


def _arrays(path):
    found = read_data(path)
    return found.X, found.y


def test_quoted_tables_are_read_as_bare_ones(tmp_path):
    bare, quoted = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = [["a", "b", "label"], ["1", "0.25", "x"], ["-3", "4e2", "y"]]
    bare.write_text("\n".join(map(",".join, rows)))
    quoted.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows))
    first, second = read_data(bare), read_data(quoted)
    assert np.array_equal(first.X, second.X) and np.array_equal(first.y, second.y)
    assert first.feature_names == second.feature_names == ["a", "b"]


def test_a_line_of_one_quoted_cell_is_a_row_that_lacks_cells(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,label\n1,2,x\n""\n3,4,y\n')
    with pytest.raises(InputError, match="line 3: 1 column where the first line has 3"):
        read_data(path)


def test_a_formula_needs_one_name_per_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,a,label\n1,2,x\n3,4,y\n")
    with pytest.raises(InputError, match="several columns called a"):
        read_frame(path, TableOptions(), using("label", "a"))


@pytest.mark.parametrize("cell", ["0_6", "9007199254740993", "x", '"1\n2"'])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_counts_and_weights_are_read_like_features(tmp_path, place, cell):
    rows = [["1", "2", "3"], ["4", "5", "6"]]
    rows[0][place] = cell
    path = tmp_path / "t.csv"
    path.write_text(
        "s,f,w,a\n" + "".join(",".join([*row, str(i)]) + "\n" for i, row in enumerate(rows))
    )
    with pytest.raises(InputError):
        read_data(path, target="s", options=TableOptions(failures="f", weight="w"))


def test_counts_may_have_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("s;f;a\n1,5;2;0\n3;4,25;1\n")
    found = read_data(path, target="s", options=TableOptions(failures="f", decimal=","))
    assert found.y.tolist() == [[1.5, 2.0], [3.0, 4.25]]


@pytest.mark.parametrize("line", ["1 1:1_0 2:3", "1_0 1:2 2:3", "1 1:3 1_0:4"])
def test_svmlight_has_no_underscores_in_numbers(tmp_path, line):
    path = tmp_path / "t.svm"
    path.write_text(f"0 1:2 2:4 # a_b\n{line}\n")
    for options in ({}, {"block_size": 10**6}):
        with pytest.raises(InputError, match=r"line 2: '[^']*_[^']*' has an underscore"):
            max_margin(path, **options)
