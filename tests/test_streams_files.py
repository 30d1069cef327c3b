"""Files in blocks: .npy, Parquet and svmlight, each equal to the same data in memory."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from momentron import InputError, Status, max_margin
from momentron.datasets import make_separable
from momentron.streams import open_file


@pytest.fixture(scope="module")
def data():
    return make_separable(900, 5, margin=0.2, fit_intercept=True, random_state=5)


@pytest.fixture(scope="module")
def expected(data):
    return max_margin(data.X, data.y, tol=1e-11)


def agrees(result, expected):
    assert result.status is Status.OPTIMAL
    assert result.lower == pytest.approx(expected.lower, rel=1e-9)
    assert result.upper == pytest.approx(expected.upper, rel=1e-9)


def rows_of(source):
    blocks = [source.block(i) for i in range(len(source))]
    assert len(blocks) > 1
    return blocks


@pytest.mark.parametrize("where", ["array", "file", "column"])
def test_npy(tmp_path, data, expected, where):
    path = tmp_path / "rows.npy"
    if where == "column":
        np.save(path, np.column_stack([data.X, data.y]))
        y = None
    else:
        np.save(path, data.X)
        np.save(tmp_path / "y.npy", data.y)
        y = data.y if where == "array" else str(tmp_path / "y.npy")
    agrees(max_margin(path, y, block_size=5000, tol=1e-11), expected)
    blocks = rows_of(open_file(path, y, 5000))
    assert np.array_equal(np.concatenate([X for X, _ in blocks]), data.X)
    assert np.array_equal(np.concatenate([y for _, y in blocks]), data.y)


@pytest.mark.parametrize("name", ["Y.NPY", "~/Y.NPY"])
def test_labels_by_any_spelling_of_a_path(tmp_path, monkeypatch, data, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "rows.npy", data.X)
    with (tmp_path / "Y.NPY").open("wb") as file:
        np.save(file, data.y)
    for path in (name, Path(name)):
        assert np.array_equal(open_file("rows.npy", path, 10**6).block(0)[1], data.y)
    np.save(tmp_path / "t.npy", np.column_stack([data.y, data.X]))
    assert np.array_equal(open_file("t.npy", np.int64(0), 10**6).block(0)[1], data.y)


def test_blocks_that_are_kept_stay_as_they_are(tmp_path):
    rows = np.arange(4000.0).reshape(400, 10)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "y.npy", np.arange(400))
    source = open_file(tmp_path / "rows.npy", str(tmp_path / "y.npy"), 1600)
    kept = [source.block(i) for i in range(len(source))]
    for _ in range(3):
        for i in range(len(source)):
            assert np.array_equal(source.block(i)[0], rows[20 * i : 20 * i + 20])
    assert np.array_equal(np.concatenate([X for X, _ in kept]), rows)
    assert np.array_equal(np.concatenate([y for _, y in kept]), np.arange(400))


def test_memory_map(tmp_path, data, expected):
    np.save(tmp_path / "rows.npy", data.X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    agrees(max_margin(mapped, data.y, block_size=5000, tol=1e-11), expected)


def test_npy_of_integers_and_first_column(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.integers(-5, 6, (200, 4)).astype(np.int16)
    table[:, 0] = np.where(table[:, 1] + table[:, 2] > 0, 3, -3)
    np.save(tmp_path / "t.npy", table)
    X, y = open_file(tmp_path / "t.npy", 0, 100).block(0)
    assert X.dtype == np.float64
    assert np.array_equal(X, table[: len(y), 1:])
    assert set(np.unique(table[:, 0])) == {-3, 3}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parquet_file_and_folder(tmp_path, data, dtype):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X = data.X.astype(dtype)
    expected = max_margin(X, data.y, tol=1e-11)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = pa.table(columns | {"label": np.where(data.y > 0, "yes", "no")})
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        pq.write_table(table.slice(300 * i, 300), folder / f"{i}.parquet", row_group_size=170)
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=400)
    for path in (folder, tmp_path / "one.parquet"):
        result = max_margin(path, block_size=2000, tol=1e-11)
        agrees(result, expected)
        assert result.classes.tolist() == ["no", "yes"]
        source = open_file(path, None, 2000)
        blocks = rows_of(source)
        assert np.array_equal(np.concatenate([rows for rows, _ in blocks]), X)
        backwards = [source.block(i)[0] for i in reversed(range(len(source)))]
        assert np.array_equal(np.concatenate(backwards[::-1]), X)
        assert backwards[0].dtype == dtype


def test_parquet_errors_name_the_column(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"a": [1.0, None, 2.0], "b": ["x", "y", "z"], "y": [0, 1, 0]})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="column 'b'"):
        max_margin(tmp_path / "bad.parquet", block_size="16MiB")
    pq.write_table(table.drop(["b"]), tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="column 'a' has missing values"):
        max_margin(tmp_path / "bad.parquet", block_size="16MiB")
    (tmp_path / "bad.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        max_margin(tmp_path / "bad.parquet", block_size="16MiB")


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_is_parsed_once_per_source(tmp_path, data, expected, zero_based, monkeypatch):
    from momentron.streams import source as module

    monkeypatch.setattr(module, "TEXT_BYTES", 4000)
    path = tmp_path / "rows.svm"
    dump_svmlight_file(data.X, data.y, str(path), zero_based=zero_based)
    agrees(max_margin(path, block_size=4000, tol=1e-11), expected)
    source = open_file(path, None, 4000)
    monkeypatch.setattr(module, "parse_svmlight", lambda *_: pytest.fail("parsed again"))
    blocks = rows_of(source)
    X, _ = load_svmlight_file(str(path))  # the text has one digit less than float64
    assert np.array_equal(np.concatenate([X.toarray() for X, _ in blocks]), X.toarray())
    assert np.array_equal(np.concatenate([y for _, y in blocks]), data.y)


def test_svmlight_that_changes_is_read_again(tmp_path, data):
    path = tmp_path / "rows.svm"
    dump_svmlight_file(data.X, data.y, str(path))
    open_file(path)
    dump_svmlight_file(2.0 * data.X[:50], data.y[:50], str(path))
    os.utime(path, ns=(1, 1))
    X, _ = open_file(path).block(0)
    assert np.allclose(X.toarray(), 2.0 * data.X[:50], atol=1e-14)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.svm"]


def test_damaged_svmlight_names_the_lines_and_leaves_nothing(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:0.5\n-1 2:x\n")
    with pytest.raises(InputError, match="line 2: '2:x' is not index:value"):
        max_margin(path, block_size="16MiB")
    assert [p.name for p in tmp_path.iterdir()] == ["rows.svm"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: np.save(p, np.asfortranarray(np.ones((3, 3)))), "Fortran order"),
        (lambda p: np.save(p, np.ones(3)), "2-D"),
        (lambda p: np.save(p, np.array([[object()]]), allow_pickle=True), "pickled objects"),
        (lambda p: p.write_bytes(b"short"), r"not a \.npy file"),
        (lambda p: (np.save(p, np.ones((99, 3))), os.truncate(p, 600)), "is it complete"),
    ],
)
def test_bad_npy_files_are_refused(tmp_path, make, message):
    path = tmp_path / "bad.npy"
    make(path)
    with pytest.raises(InputError, match=message):
        max_margin(path, [0, 1, 0], block_size="16MiB")


def test_paths_that_are_nothing(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        max_margin(str(tmp_path / "no.npy"))
    (tmp_path / "t.csv").write_text("1,2\n")
    with pytest.raises(InputError, match=r"suffix '\.csv'"):
        max_margin(tmp_path / "t.csv", block_size="16MiB")
    with pytest.raises(InputError, match=r"no \.parquet files"):
        max_margin(tmp_path)
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    with pytest.raises(InputError, match="4 rows but y"):
        max_margin(tmp_path / "x.npy", [0, 1])


@pytest.mark.parametrize("column", [7, 9, -8])
def test_a_label_column_that_is_not_there(tmp_path, column):
    np.save(tmp_path / "x.npy", np.ones((4, 7)))
    message = rf"has 7 columns; the label column {column} must be from -7 to 6"
    with pytest.raises(InputError, match=message):
        max_margin(tmp_path / "x.npy", column, block_size="16MiB")


def test_a_label_column_without_features(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 1)))
    with pytest.raises(InputError, match="has 1 column; labels and features need at least 2"):
        max_margin(tmp_path / "x.npy", 0, block_size="16MiB")
