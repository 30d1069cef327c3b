"""Every way in keeps numbers as they are, or refuses them in one line.

2⁵³ and 2⁵³ + 1 are different numbers and one float64. In different classes they are separable; a
way in that rounds them calls them overlapping, and proves it.
"""

import array
import os
import threading
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from momentron import (
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    check_separability,
    max_margin,
)
from momentron.data.files import read_data
from momentron.errors import InputError
from momentron.rows.kernels import as_kernel
from momentron.streams import ArraySource, open_file


def old_matrix(rows):
    """np.matrix, which warns in some environments that it will go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(rows)


A, B = 2**53, 2**53 + 1
PAIR = np.array([[A], [B]])
LABELS = ["a", "b"]


class WithArray:
    """Converts itself when asked, and says nothing before."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


class WithInterface:
    def __init__(self, values):
        self.values = values
        self.__array_interface__ = values.__array_interface__

    def __len__(self):
        return len(self.values)


class WithDlpack:
    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def mixed_frame():
    return pd.DataFrame({"x": [A, B], "z": [0.5, 0.5]})


WAYS = {
    "int64": PAIR,
    "uint64": PAIR.astype(np.uint64),
    "big-endian": PAIR.astype(">i8"),
    "objects": PAIR.astype(object),
    "numpy integers as objects": np.array([[np.int64(A)], [np.int64(B)]], dtype=object),
    "text": np.array([[str(A)], [str(B)]]),
    "bytes": np.array([[str(A)], [str(B)]], dtype="S"),
    "text as objects": np.array([[str(A)], [str(B)]], dtype=object),
    "text with a point": [[f"{A}.0"], [f"{B}.0"]],
    "text with an exponent": [["9.007199254740992e15"], ["9.007199254740993e15"]],
    "text of 17 digits": [["0.30000000000000001"], ["0.29999999999999999"]],
    "text next to zero": [["0"], ["1e-400"]],
    "lists": [[A], [B]],
    "lists beside floats": [[A, 0.5], [B, 0.5]],
    "lists beside text": [[A, "1"], [B, "1"]],
    "lists of rows": [PAIR[0], PAIR[1]],
    "decimals": [[Decimal("0.1")], [Decimal("0.2")]],
    "memoryview": memoryview(PAIR),
    "buffers in a list": [array.array("q", [A]), array.array("q", [B])],
    "__array__": WithArray(PAIR),
    "__array_interface__": WithInterface(PAIR),
    "__dlpack__": WithDlpack(PAIR),
    "masked array": np.ma.array(PAIR),
    "matrix": old_matrix(PAIR),
    "datetime64": (PAIR - A).astype("datetime64[ns]"),
    "timedelta64": (PAIR - A).astype("timedelta64[ns]"),
    "frame": pd.DataFrame({"x": [A, B]}),
    "frame beside floats": mixed_frame(),
    "frame, nullable": pd.DataFrame({"x": pd.array([A, B], dtype="Int64"), "z": [0.5, 0.5]}),
    "frame, arrow": pd.DataFrame({"x": pd.array([A, B], dtype="int64[pyarrow]")}),
    "frame, categories": pd.DataFrame({"x": pd.Categorical([A, B]), "z": [0.5, 0.5]}),
    "frame of text": pd.DataFrame({"x": [str(A), str(B)], "z": [0.5, 0.5]}),
    "frame, sparse": pd.DataFrame({"x": pd.arrays.SparseArray([A, B], fill_value=0)}),
    "frame of dates": pd.DataFrame({"x": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
    "frame of dates with zones": pd.DataFrame(
        {"x": pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("UTC")}
    ),
    "table": pa.table({"x": [A, B], "z": [0.5, 0.5]}),
    "csr": sp.csr_array(PAIR),
    "csc": sp.csc_array(PAIR),
    "coo": sp.coo_array(PAIR),
    "csr, duplicates": sp.csr_array(([A, A, 1], [0, 0, 0], [0, 1, 3]), shape=(2, 1)),
    "coo, duplicates": sp.coo_array(([A, A, 1], ([0, 1, 1], [0, 0, 0])), shape=(2, 1)),
    "int64 that wrap": sp.coo_array(
        ([2**62, 2**62, -(2**62), -(2**62)], ([0, 0, 1, 1], [0, 0, 0, 0])), shape=(2, 1)
    ),
    "booleans, twice": sp.coo_array(
        (np.array([True, True, True]), ([0, 1, 1], [0, 0, 0])), shape=(2, 1)
    ),
    "float duplicates that round": sp.csr_array(
        ([float(A), float(A), 1.0], [0, 0, 0], [0, 1, 3]), shape=(2, 1)
    ),
    "duplicates that overflow": sp.coo_array(
        ([1.5e308, 1.5e308, 1.0], ([0, 0, 1], [0, 0, 0])), shape=(2, 1)
    ),
    "float32 duplicates that round": sp.csr_array(
        (np.array([2**24, 2**24, 1], np.float32), [0, 0, 0], [0, 1, 3]), shape=(2, 1)
    ),
}


def one_line(caught):
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) > 20
    return text


CALLS = {
    "check": lambda X: check_separability(X, LABELS, decimals="binary"),
    "max_margin": lambda X: max_margin(X, LABELS),
    "blocks": lambda X: max_margin(X, LABELS, block_size=64),
    "kernel": lambda X: max_margin(X, LABELS, kernel="linear"),
    "as_kernel": lambda X: as_kernel("rbf", X=X),
    "estimator": lambda X: MaxMarginClassifier().fit(X, LABELS),
    "kernel estimator": lambda X: KernelMaxMarginClassifier(gamma=1.0).fit(X, LABELS),
    "predict": lambda X: (
        MaxMarginClassifier().fit([[0.0] * width(X), [1.0] * width(X)], LABELS).predict(X)
    ),
}


def width(X):
    shape = getattr(X, "shape", None)
    if shape is not None:
        return shape[1]
    return 1 if not isinstance(X, list) else len(X[0])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_what_float64_cannot_hold_is_refused(way, call):
    if (way, call) == ("frame, categories", "check"):
        pytest.skip("categories are levels there, not numbers")
    with pytest.raises(InputError) as caught:
        CALLS[call](WAYS[way])
    one_line(caught)


@pytest.mark.parametrize("way", ["csr", "csc", "coo", "bsr", "lil", "dia", "dok"])
def test_sparse_formats_with_exact_values_are_read(way):
    X = sp.coo_array(np.array([[3, 0], [0, 5]], np.int64)).asformat(way)
    assert check_separability(X, LABELS).kind == "separable"
    assert max_margin(X, LABELS).lower > 2.9


BYTES = {
    "csr": sp.csr_array((np.array([44, 200, 100], np.uint8), [0, 0, 0], [0, 1, 3]), shape=(2, 1)),
    "csc": sp.csc_array((np.array([44, 200, 100], np.uint8), [0, 1, 1], [0, 3]), shape=(2, 1)),
    "coo": sp.coo_array((np.array([44, 200, 100], np.uint8), ([0, 1, 1], [0, 0, 0])), shape=(2, 1)),
}


@pytest.mark.parametrize("way", BYTES)
def test_duplicates_of_bytes_do_not_wrap(way):
    """200 + 100 is 300, and 44 only in eight bits: where both rows would be equal."""
    X = BYTES[way]
    assert check_separability(X, LABELS).kind == "separable"
    result = max_margin(X, LABELS)
    assert result.lower <= 128.0 <= result.upper
    assert X.data.tolist() == [44, 200, 100]


SUMS = {
    "uint8 within its range": (np.uint8, [100, 100, 55], 255),
    "int64": (np.int64, [B, -1], A),
    "float64": (np.float64, [0.5, 0.25], 0.75),
    "float64, by the way of a rounding": (np.float64, [2.0**53, 1.0, 1.0], 2.0**53 + 2),
    "float32": (np.float32, [0.5, 0.25], 0.75),
    "one True": (bool, [True, False], True),
}


@pytest.mark.parametrize("case", SUMS)
def test_duplicates_with_an_exact_sum_are_summed(case):
    dtype, entries, total = SUMS[case]
    data = np.array([*entries, 3, 1], dtype)
    m = len(entries)
    given = sp.csr_array((data, [0] * m + [1, 0], [0, m, m + 2]), shape=(2, 2))
    before = given.data.copy()
    single = sp.csr_array((np.array([total, 1, 3], dtype), [0, 0, 1], [0, 1, 3]), shape=(2, 2))
    verdict = check_separability(given, LABELS)
    assert verdict.proof["data"] == check_separability(single, LABELS).proof["data"]
    assert np.array_equal(max_margin(given, LABELS).coef, max_margin(single, LABELS).coef)
    assert np.array_equal(given.data, before)
    assert given.nnz == m + 2


def test_blocks_leave_a_matrix_with_duplicates_as_it_is():
    X = sp.csr_array(([1.0, 2.0, 5.0], [0, 0, 0], [0, 2, 3]), shape=(2, 1))
    source = ArraySource(X, LABELS)
    assert source.block(0)[0].toarray().tolist() == [[3.0], [5.0]]
    assert X.data.tolist() == [1.0, 2.0, 5.0]


def test_damaged_sparse_matrices_are_refused():
    X = sp.csr_array(np.eye(3))
    X.indices[1] = 7
    for call in ("check", "max_margin", "estimator"):
        with pytest.raises(InputError, match="damaged CSR"):
            CALLS[call](X)
    Y = sp.csr_array(np.eye(3))
    assert Y.has_canonical_format
    Y.indices[:] = 0
    Y.indptr[:] = [0, 2, 3, 3]  # now X[0, 0] is stored twice, and the flag is out of date
    Y.data[:] = [2.0**53, 1.0, 1.0]
    with pytest.raises(InputError, match=r"several entries at X\[0, 0\]"):
        check_separability(Y, ["a", "b", "b"])


# --- text files ------------------------------------------------------------------------------

NUMBERS = {
    "integers": (str(A), str(B)),
    "a point": (f"{A}.0", f"{B}.0"),
    "an exponent": ("9.007199254740992e15", "9.007199254740993e15"),
    "a capital exponent": ("9.007199254740992E+15", "9.007199254740993E+15"),
    "one and a little": ("1", "1.0000000000000001"),
    "seventeen digits": ("0.30000000000000001", "0.29999999999999999"),
    "twenty digits": ("0.12345678901234567890", "0.12345678901234567891"),
    "next to zero": ("0", "1e-400"),
    "small": ("3e-324", "5e-324"),
}


def table(mark, pair):
    return f"x{mark}z{mark}label\n{pair[0]}{mark}0.5{mark}a\n{pair[1]}{mark}0.5{mark}b\n"


def svmlight(pair):
    return f"-1 1:{pair[0]} 2:0.5\n1 1:{pair[1]} 2:0.5\n"


@pytest.mark.parametrize("case", NUMBERS)
@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "svm"])
def test_files_of_text(tmp_path, case, suffix):
    path = tmp_path / f"data.{suffix}"
    mark = {"csv": ",", "tsv": "\t", "txt": ";"}.get(suffix)
    pair = NUMBERS[case]
    if suffix == "txt":
        path.write_text(table(",", pair).replace("0.5", '"0.5"'))  # quoted cells
    else:
        path.write_text(table(mark, pair) if mark else svmlight(pair))
    with pytest.raises(InputError) as caught:
        read_data(path)
    assert "would become" in one_line(caught)
    if suffix == "svm":
        with pytest.raises(InputError, match="would become") as caught:
            max_margin(path, tol=1e-3)
        one_line(caught)


def test_labels_of_svmlight_text(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(f"{A} 1:1\n{B} 1:2\n")
    for read in (read_data, lambda path: open_file(path)):
        with pytest.raises(InputError, match="label 9007199254740993 would become"):
            read(path)


PRINTED = {
    "shortest": repr,
    "15 digits": "{:.15g}".format,
    "16 digits": "{:.16g}".format,
    "17 digits": "{:.17g}".format,
    "savetxt": "{:.18e}".format,
    "all digits": "{:.60f}".format,
}


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_whatever_was_printed_from_floats_is_read(tmp_path, form, suffix):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3)) * 10.0 ** rng.integers(-3, 20, (300, 3))
    if form == "15 digits" or suffix == "svm":
        X[:, 0] = np.abs(X[:, 0])
    texts = [[PRINTED[form](value) for value in row] for row in X.tolist()]
    path = tmp_path / f"data.{suffix}"
    if suffix == "csv":
        lines = [",".join([*row, str(i % 2)]) for i, row in enumerate(texts)]
    else:
        pairs = [" ".join(f"{j}:{t}" for j, t in enumerate(row, start=1)) for row in texts]
        lines = [f"{i % 2} {row} # comment" for i, row in enumerate(pairs)]
    path.write_text("\n".join(lines) + "\n")
    found = read_data(path).X
    expected = np.array([[float(text) for text in row] for row in texts])
    assert np.array_equal(found if suffix == "csv" else found.toarray(), expected)


def test_measured_numbers_beyond_2_53_are_read(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("6.02214076e23,a\n1e300,b\n1e16,a\n9007199254740994,b\n")
    assert read_data(path).X.ravel().tolist() == [6.02214076e23, 1e300, 1e16, 2.0**53 + 2]


@pytest.mark.parametrize("kind", ["csv", "svm"])
def test_pairs_that_float64_tells_apart_are_separable(tmp_path, kind):
    pair = (str(A), str(A + 2))
    path = tmp_path / f"data.{kind}"
    path.write_text(table(",", pair) if kind == "csv" else svmlight(pair))
    data = read_data(path)
    assert check_separability(data.X, data.y).kind == "separable"


@pytest.mark.parametrize("way", ["npy", "npz", "npz of parts", "parquet"])
def test_binary_files(tmp_path, way):
    X = np.array([[A, 1], [B, 1]])
    if way == "npy":
        path = tmp_path / "data.npy"
        np.save(path, np.column_stack([X, [0, 1]]))
    elif way == "parquet":
        path = tmp_path / "data.parquet"
        pq.write_table(pa.table({"x": X[:, 0], "z": [0.5, 0.5], "label": LABELS}), path)
    elif way == "npz":
        path = tmp_path / "data.npz"
        np.savez(path, X=X, y=[0, 1])
    else:
        path = tmp_path / "data.npz"
        parts = {"X_data": [A, A, 1], "X_indices": [0, 0, 0], "X_indptr": [0, 1, 3]}
        np.savez(path, **parts, X_shape=[2, 1], y=[0, 1])
    with pytest.raises(InputError) as caught:
        read_data(path)
    one_line(caught)
    if path.suffix != ".npz":
        with pytest.raises(ValueError, match="9007199254740993"):
            max_margin(path)


# --- labels ----------------------------------------------------------------------------------

X4 = [[0.0], [1.0], [10.0], [11.0]]
BIG = {
    "list": [A, B, A, B],
    "int64": np.array([A, B, A, B]),
    "uint64": np.array([2**64 - 2, 2**64 - 1] * 2, dtype=np.uint64),
    "objects": np.array([B, float(A), B, float(A)], dtype=object),
    "numpy numbers as objects": np.array(
        [np.int64(B), np.float64(A), np.int64(B), np.float64(A)], dtype=object
    ),
    "mixed list": [B, float(A), B, float(A)],
    "mixed list of numpy numbers": [np.int64(B), np.float64(A), np.int64(B), np.float64(A)],
    "text and numbers": np.array(["1", 1, "1", 1], dtype=object),
}


@pytest.mark.parametrize("way", BIG)
@pytest.mark.parametrize("blocks", [None, 16])
def test_labels_are_told_apart_or_refused(way, blocks):
    try:
        result = max_margin(X4, BIG[way], block_size=blocks, tol=1e-3)
    except InputError as error:
        assert "\n" not in str(error)
        assert "y " in str(error) or "label" in str(error)
    else:
        assert len(result.classes) == 2
        assert result.lower == 0.0  # 0 and 10 against 1 and 11


def test_labels_that_differ_in_type_from_block_to_block():
    class Source:
        def __len__(self):
            return 2

        def block(self, i):
            labels = np.array([B, B]) if i else np.array([float(A), float(A)])
            return np.array(X4[2 * i : 2 * i + 2]), labels

    with pytest.raises(InputError, match="y has 2 labels, but only 1"):
        max_margin(Source())


def test_labels_in_files(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"x,label\n1,{A}\n2,{B}\n3,5\n")
    assert read_data(path).y.tolist() == [str(A), str(B), "5"]
    assert read_data(path, classes=[str(A), 5]).X.tolist() == [[1.0], [3.0]]
    path.write_text("x,label\n1,1\n2,1.0000000000000001\n3,1.0\n")
    assert len(set(read_data(path).y.tolist())) == 3
    path.write_text("x,label\n1,1\n2,2e0\n3,1.0\n")
    assert read_data(path).y.tolist() == [1, 2, 1]


# --- what is no file ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "svm", "npy", "parquet", "npz", "txt"])
def test_a_pipe_is_refused_at_once(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    os.mkfifo(path)
    reads = [lambda: read_data(path)]
    if suffix in ("svm", "npy", "parquet"):
        reads += [lambda: max_margin(path), lambda: open_file(path)]
    for read in reads:
        caught = []

        def run(read=read, caught=caught):
            with pytest.raises(InputError, match="is a pipe") as error:
                read()
            caught.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(20.0)
        assert caught, "the reader waits for the pipe"
        one_line(caught[0])


def test_a_pipe_in_a_folder_or_for_labels(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    os.mkfifo(folder / "a.parquet")
    rows, labels = tmp_path / "rows.npy", tmp_path / "labels.npy"
    np.save(rows, np.eye(2))
    os.mkfifo(labels)
    for arguments in ((folder,), (rows, str(labels))):
        with pytest.raises(InputError, match="is a pipe"):
            open_file(*arguments)


def test_links_to_files_and_devices(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,a\n2,b\n")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    assert read_data(link).y.tolist() == ["a", "b"]
    device = tmp_path / "device.csv"
    device.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is a pipe, a socket or a device"):
        read_data(device)
