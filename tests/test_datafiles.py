"""Files are read as written, and a bad one is refused in one line that says where."""

import bz2
import gzip
import io
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from momentron.data.files import read_data
from momentron.errors import InputError


@pytest.fixture
def write(tmp_path):
    """Write bytes or text to a named file and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(path, **arguments):
    """Return the message of the refusal, which must be one line that starts with the path."""
    with pytest.raises(InputError) as caught:
        read_data(path, **arguments)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "target", "y", "names"),
    [
        ("a,b,kind\n1,2,x\n3,4,y\n", None, ["x", "y"], ["a", "b"]),
        ("a,label,b\n1,0,2\n3,1,4\n", None, [0, 1], ["a", "b"]),
        ("kind,a,b\nx,1,2\ny,3,4\n", "kind", ["x", "y"], ["a", "b"]),
        ("kind,a,b\nx,1,2\ny,3,4\n", 0, ["x", "y"], ["a", "b"]),
        ("x,1,2\ny,3,4\n", 0, ["x", "y"], None),
        ("x,1,2\ny,3,4\n", "-3", ["x", "y"], None),
        ("1,2,-1\n3,4,1\n", "-1", [-1, 1], None),
        ("a,-1,b\n1,7,2\n3,8,4\n", "-1", [7, 8], ["a", "b"]),
        ("1,2,1.0\n3,4,2.0\n", None, [1, 2], None),
        ("1,2,0.5\n3,4,2.0\n", -1, [0.5, 2.0], None),
        ("0,1,target\n1,2,7\n3,4,8\n", None, [7, 8], ["0", "1"]),
        ('"a, b",b,y\r\n\r\n1,2,"u, v"\r\n 3 , 4 , w \r\n', None, ["u, v", "w"], ["a, b", "b"]),
        ("1,2,y\n3,4,n\n", None, ["y", "n"], None),
        ("1,2,target\n3,4,nontarget\n", None, ["target", "nontarget"], None),
        ("0,1,class\n1,2,p\n3,4,q\n", None, ["p", "q"], ["0", "1"]),
        ("\ufeffa,y,class\n1,2,p\n3,4,#q\n", None, ["p", "#q"], ["a", "y"]),
    ],
)
def test_csv(write, text, target, y, names):
    data = read_data(write("t.csv", text), target=target)
    assert np.array_equal(data.X, [[1, 2], [3, 4]])
    assert data.y.tolist() == y
    assert data.feature_names == names
    assert (data.columns.target is None) == (names is None)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            "a,b,y\n1,2,0\n3,,1\n",
            "missing values in 1 of 2 rows, by column: b 1 (the first in line 3)",
        ),
        (
            "a,b,y\n1,2,0\n\n3,nan,1\n",
            "missing values in 1 of 2 rows, by column: b 1 (the first in line 4)",
        ),
        ("1,2,0\n3,-inf,1\n", "line 2, column '1': '-inf' is not finite"),
        ("1,2,0\n3,1e999,1\n", "line 2, column '1': '1e999' is not finite"),
        (
            "1,2,0\n3,tall,1\n",
            "line 2, column '1' (position 1): 'tall' is not a number, like 1 of the 2 cells of",
        ),
        (
            "1,2,0\n3,1_0,1\n",
            "line 2, column '1' (position 1): '1_0' is not a number, like 1 of the 2 cells of",
        ),
        ("1,2,0\n3,4\n", "line 2: 2 columns where the first line has 3"),
        ("a,b,y\n1,2,0,9\n1,2,0,9\n", "line 2: 4 columns where the first line has 3"),
        ("1,2,0\n3,4,\n", "by column: 2 1 (the first in line 2)"),
        ("1,NA,0\n3,4,1\n", "by column: 1 1 (the first in line 1)"),
        (",2,0\n3,4,1\n", "by column: 0 1 (the first in line 1)"),
        ("a,b,y\n", "has a header and no rows"),
        ("1\n2\n", "has 1 column"),
        ("", "is empty"),
        (" \n\n", "is empty"),
        (b"\xff\xfe\x00\x01", "is not UTF-8"),
        (b"PK\x03\x04\x00\x00", "zero bytes"),
    ],
)
def test_csv_faults_are_located(write, text, where):
    assert where in refused(write("t.csv", text))


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("c", "has no column 'c'; its columns: a, b, y"),
        (3, "has 3 columns; target 3 must be from -3 to 2"),
        (1.5, "has no column 1.5"),
        ("a", None),
    ],
)
def test_csv_target_is_checked(write, target, what):
    path = write("t.csv", "a,b,y\n1,2,0\n")
    if what is None:
        assert read_data(path, target=target).feature_names == ["b", "y"]
    else:
        assert what in refused(path, target=target)
    signs = write("s.csv", "-1,2,-1\n3,4,1\n")
    assert read_data(signs, target="-1").y.tolist() == [-1, 1]
    double = write("d.csv", "a,a,y\n1,2,0\n")
    assert "2 columns called 'a'" in refused(double, target="a")


@pytest.mark.parametrize("pack", [None, gzip.compress, bz2.compress])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"1,2,0\n3,4,1\n"),
        ("t.TSV", b"1\t2\t0\n3\t4\t1\n"),
        ("t.txt", b"1\t2\t0\n3\t4\t1\n"),
        ("t.txt", b"0 1:1 2:2\n1 1:3 2:4\n"),
        ("t.svm", b"# head\n0 1:1 2:2\n1 qid:1 1:3 2:4 # tail\n"),
        ("t.npy", npy(np.array([[1, 2, 0], [3, 4, 1.0]]))),
    ],
)
def test_formats_agree_plain_and_packed(write, name, content, pack):
    if pack is not None:
        name += {gzip.compress: ".gz", bz2.compress: ".bz2"}[pack]
        content = pack(content)
    data = read_data(write(name, content))
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    assert X.dtype == np.float64
    assert np.array_equal(X, [[1, 2], [3, 4]])
    assert data.y.tolist() == [0, 1]
    assert data.y.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1 1:2\n-1 2:x\n", "line 2: '2:x' is not index:value"),
        ("1 1:2\n-1 2:nan\n", "line 2: '2:nan' is not index:value"),
        ("1 1:2\nspam 2:3\n", "line 2: 'spam' is not a number, so it cannot be a label"),
        ("1 1:2\nnan 2:3\n", "line 2: 'nan' is not a number, so it cannot be a label"),
        ("1 3:2 2:1\n", "line 1: '2:1' comes after index 3"),
        ("# only words\n", "has no rows"),
    ],
)
def test_svmlight_faults_are_located(write, text, where):
    assert where in refused(write("t.svm", text))


def test_npz_dense_and_csr(write):
    X = np.array([[1.0, 0], [0, 2], [3, 0]])
    y = np.array(["a", "b", "a"])
    dense = read_data(write("d.npz", npz(X=X, y=y, feature_names=np.array(["u", "v"]))))
    assert np.array_equal(dense.X, X)
    assert dense.feature_names == ["u", "v"]
    S = sparse.csr_matrix(X)
    parts = {"X_data": S.data, "X_indices": S.indices, "X_indptr": S.indptr, "X_shape": S.shape}
    data = read_data(write("s.npz", npz(**parts, y=y)))
    assert sparse.issparse(data.X)
    assert np.array_equal(data.X.toarray(), X)
    assert data.y.tolist() == ["a", "b", "a"]
    parts["X_indices"] = S.indices + 5
    assert "damaged CSR matrix" in refused(write("bad.npz", npz(**parts, y=y)))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("t.npz", npz(X=np.eye(2)), "it needs y"),
        ("t.npz", npz(X=np.eye(2), y=np.arange(3)), "shape (2, 2) and y of shape (3,)"),
        ("t.npz", npz(X=np.array([[None]]), y=np.arange(1)), "cannot be read as .npz"),
        ("t.npz", npz(X=np.eye(2), y=np.array([1.0, np.nan])), "missing or infinite label"),
        ("t.npz", npz(X=np.eye(2) * 1j, y=np.arange(2)), "complex128"),
        ("t.npz", b"PK\x03\x04 nothing", "cannot be read as .npz"),
        ("t.npy", npy(np.arange(3)), "has shape (3,)"),
        ("t.npy", npy(np.array([[1, np.inf, 0]])), "row 0, column 1: inf is not finite"),
        ("t.npy", npy(np.array([[None, 1]])), "cannot be read as .npy"),
        ("t.npy", b"garbage", "cannot be read as .npy"),
        ("t.npy", npy(np.eye(3))[:-9], "cannot be read as .npy"),
        ("t.csv.gz", gzip.compress(b"1,2,0\n" * 99, mtime=0)[:-9], "cannot be read"),
        ("t.csv.gz", b"not gzip", "cannot be read"),
        ("t.csv.bz2", b"not bzip", "cannot be read"),
        ("t.npz.gz", b"x", "has suffix '.npz.gz'"),
        ("t.xls", b"x", "has suffix '.xls'"),
        ("t", b"x", "has suffix ''"),
        ("t.txt", b"one two\n", "has a header and no rows"),
        ("t.parquet", b"garbage", "cannot be read as .parquet"),
    ],
)
def test_bad_files_are_refused_in_one_line(write, name, content, what):
    assert what in refused(write(name, content))


def test_no_file(tmp_path):
    assert "does not exist" in refused(tmp_path / "none.csv")
    assert "is a directory" in refused(tmp_path)


def test_target_is_never_ignored(write):
    assert "takes no target" in refused(write("t.svm", "1 1:2\n"), target=0)
    assert "takes no target" in refused(write("t.npz", npz(X=np.eye(2), y=[0, 1])), target="y")
    data = read_data(write("t.npy", npy(np.array([[7, 1, 2], [8, 3, 4]]))), target=0)
    assert data.y.tolist() == [7, 8]


def test_npy_with_weights(write):
    table = np.array([[1.0, 2, 0, 5], [3, 4, 1, 6]])
    data = read_data(write("t.npy", npy(table)), target=2, weight=3)
    assert (data.X.tolist(), data.y.tolist()) == ([[1, 2], [3, 4]], [0, 1])
    assert data.weights.tolist() == [5, 6]
    table[1, 3] = np.inf
    path = write("t.npy", npy(table))
    assert "row 1, column 3: inf is not finite" in refused(path, target=2, weight=3)


def test_classes(write):
    path = write("t.csv", "1,0\n2,1\n3,2\n4,1\n")
    for classes in ([1, 2], ["1", "2"], (1.0, 2)):
        data = read_data(path, classes=classes)
        assert data.X.ravel().tolist() == [2, 3, 4]
        assert data.y.tolist() == [1, 2, 1]
    assert "has no label '7'; its labels: 0, 1, 2" in refused(path, classes=["1", "7"])
    assert "at least 2" in refused(path, classes=["1", "1.0"])
    words = write("w.csv", "1,cat\n2,dog\n3,eel\n")
    assert read_data(words, classes=["dog", "eel"]).y.tolist() == ["dog", "eel"]
    points = write("t.svm", "1 1:1\n2 1:2\n3 1:3\n")
    assert read_data(points, classes=[1, 3]).X.toarray().ravel().tolist() == [1, 3]


def test_parquet(write):
    pa = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    import pyarrow.parquet as pq

    def parquet(**columns):
        stream = io.BytesIO()
        pq.write_table(pa.table(columns), stream)
        return write("t.parquet", stream.getvalue())

    data = read_data(parquet(a=[1, 2], label=["x", "y"], b=[0.5, 1.5]))
    assert np.array_equal(data.X, [[1, 0.5], [2, 1.5]])
    assert data.y.tolist() == ["x", "y"]
    assert (data.feature_names, data.columns.target) == (["a", "b"], "label")
    assert "by column: a 1 (the first in row 1)" in refused(parquet(a=[1, None], y=[0, 1]))
    assert "column 'a' (position 0): 'p' is not a number, like 2 of the 2 cells" in refused(
        parquet(a=["p", "q"], y=[0, 1])
    )
    assert "by column: y 1 (the first in row 0)" in refused(parquet(a=[1, 2], y=[None, 1]))
    assert f"X holds {2**53 + 1}" in refused(parquet(a=[None, 2**53 + 1], y=[0, 1]))
    assert "has no column 'z'" in refused(parquet(a=[1, 2], y=[0, 1]), target="z")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**60) - 1])
def test_integers_that_float64_would_round_are_refused(write, number):
    X, y = np.array([[number], [1]]), np.array([0, 1])
    parts = {"X_data": X.ravel(), "X_indices": [0, 0], "X_indptr": [0, 1, 2], "X_shape": [2, 1]}
    for name, content in (
        ("t.npz", npz(X=X, y=y)),
        ("s.npz", npz(**parts, y=y)),
        ("t.npy", npy(np.column_stack([X, y]))),
    ):
        assert f"X holds {number}, which" in refused(write(name, content))


def test_a_sparse_npz_is_real(write):
    parts = {"X_data": [1j, 2], "X_indices": [0, 0], "X_indptr": [0, 1, 2], "X_shape": [2, 1]}
    assert "complex" in refused(write("s.npz", npz(**parts, y=[0, 1])))


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in refused(write("t.parquet", b"PAR1"))


def test_a_large_table_of_whole_numbers(write):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (1200, 785))
    stream = io.StringIO()
    np.savetxt(stream, rows, fmt="%d", delimiter=",")
    path = write("big.csv", stream.getvalue())
    data = read_data(path)
    assert np.array_equal(data.X, rows[:, :-1])
    assert np.array_equal(data.y, rows[:, -1])


@pytest.mark.slow
def test_pandas_is_needed_for_tables_alone(write):
    path = write("t.npy", npy(np.array([[1, 2, 0], [3, 4, 1]])))
    code = (
        "import sys\n"
        "sys.modules['pandas'] = None  # scikit-learn imports it where it is there\n"
        "import momentron\n"
        "momentron.max_margin([[0.0], [1.0]], [0, 1])\n"
        "momentron.MaxMarginClassifier().fit([[0.0], [1.0]], [0, 1])\n"
        f"momentron.max_margin({str(path)!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
