"""Synthetic problems carry their own proof; loaders find, refuse and download with care."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from fractions import Fraction

import numpy as np
import pytest
from makers import make_nonseparable, make_sparse_separable, make_touching
from scipy import sparse

from momentron.datasets import DATASETS, load, loaders, make_separable
from momentron.errors import InputError

needs_data = pytest.mark.skipif(
    not os.environ.get("MOMENTRON_DATA"),
    reason="needs the real data: set MOMENTRON_DATA to the folder that holds it",
)
SHAPES = [(1, 1, 1), (2, 1, 2), (2, 5, 2), (7, 1, 4), (9, 3, 9), (40, 6, 3), (30, 50, 12)]
CASES = [(shape, b) for shape in SHAPES for b in (False, True) if shape[0] > b]
MAKERS = [make_separable, make_nonseparable, make_touching, make_sparse_separable]


def bounds(problem):
    """Return the margin of coef, and the norm of the dual combination."""
    X, y, rows = problem.X, problem.y, problem.support
    primal = (y * (X @ problem.coef + problem.intercept)).min()
    dual = np.linalg.norm((problem.weights * y[rows]) @ X[rows])
    return primal, dual


def assert_weights(problem):
    q, y = problem.weights, problem.y[problem.support]
    assert (q > 0).all()
    assert q.sum() == pytest.approx(1, abs=1e-14)
    assert (np.diff(problem.support) > 0).all()
    assert set(problem.y) <= {-1, 1}
    if problem.fit_intercept:
        assert q[y > 0].sum() == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize(("shape", "fit_intercept"), CASES)
@pytest.mark.parametrize("margin", [0.1, 3.0])
def test_separable_margin_is_proved_by_both_sides(shape, fit_intercept, margin):
    n, d, n_support = shape
    for seed in range(5):
        problem = make_separable(
            n,
            d,
            n_support=n_support,
            margin=margin,
            fit_intercept=fit_intercept,
            random_state=seed,
        )
        assert problem.X.shape == (n, d)
        assert problem.support.shape == (n_support,)
        assert np.linalg.norm(problem.coef) == pytest.approx(1, abs=1e-15)
        assert_weights(problem)
        assert bounds(problem) == pytest.approx((margin, margin), rel=1e-14)


def test_separable_rows_behind_are_strictly_behind_and_of_order_one():
    problem = make_separable(300, 30, n_support=4, random_state=3)
    behind = np.delete(problem.y * (problem.X @ problem.coef), problem.support)
    assert behind.min() > 0.1 * 1.049
    assert 0.5 < np.median(np.linalg.norm(problem.X, axis=1)) < 2


def test_separable_float32_is_right_to_its_own_rounding():
    problem = make_separable(100, 10, dtype=np.float32, random_state=0)
    assert problem.X.dtype == np.float32
    assert bounds(problem) == pytest.approx((0.1, 0.1), rel=1e-5)


@pytest.mark.parametrize(("shape", "fit_intercept"), CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nonseparable_combination_vanishes_in_exact_arithmetic(shape, fit_intercept, dtype):
    n, d, n_support = shape
    problem = make_nonseparable(
        n, d, n_support=n_support, fit_intercept=fit_intercept, dtype=dtype, random_state=1
    )
    assert problem.X.dtype == dtype
    assert problem.margin == 0.0
    assert_weights(problem)
    q = [Fraction(float(v)) for v in problem.weights]
    y = [int(v) for v in problem.y[problem.support]]
    for column in problem.X[problem.support].T:
        terms = zip(q, y, column, strict=True)
        assert sum(a * b * Fraction(float(c)) for a, b, c in terms) == 0
    assert sum(q) == 1
    if fit_intercept:
        assert sum(a * b for a, b in zip(q, y, strict=True)) == 0


def test_nonseparable_float32_refuses_more_rows_than_it_is_exact_for():
    with pytest.raises(InputError, match=r"n_support is 9000.*float64"):
        make_nonseparable(9000, 1, n_support=9000, dtype=np.float32, random_state=0)


@pytest.mark.parametrize(("shape", "fit_intercept"), CASES)
def test_touching_is_integer_and_weakly_separated_only(shape, fit_intercept):
    n, d, n_support = shape
    problem = make_touching(n, d, n_support=n_support, fit_intercept=fit_intercept, random_state=2)
    assert np.array_equal(problem.X, np.rint(problem.X))
    assert np.abs(problem.X).max() < 1000
    scores = problem.y * (problem.X @ problem.coef + problem.intercept)
    assert np.array_equal(np.flatnonzero(scores == 0), problem.support)
    assert scores.min() == 0
    assert_weights(problem)
    counts = np.rint(problem.weights / problem.weights.min())
    signed = counts * problem.y[problem.support]
    assert not (signed @ problem.X[problem.support]).any()
    if fit_intercept:
        assert signed.sum() == 0


@pytest.mark.parametrize(("shape", "fit_intercept"), CASES)
@pytest.mark.parametrize("density", [0.01, 0.3, 1.0])
def test_sparse_margin_is_proved_by_both_sides(shape, fit_intercept, density):
    n, d, n_support = shape
    problem = make_sparse_separable(
        n, d, density=density, n_support=n_support, fit_intercept=fit_intercept, random_state=4
    )
    assert sparse.issparse(problem.X)
    assert problem.X.shape == (n, d)
    assert_weights(problem)
    assert bounds(problem) == pytest.approx((0.1, 0.1), rel=1e-12)


def test_sparse_at_scale_stays_sparse_and_spread():
    problem = make_sparse_separable(
        100_000, 50_000, density=0.0002, n_support=50, fit_intercept=True, random_state=0
    )
    assert problem.X.nnz < 1.01 * 100_000 * 10
    assert problem.X.getnnz(axis=1).max() <= 35
    assert np.abs(problem.coef).max() < 0.1
    assert bounds(problem) == pytest.approx((0.1, 0.1), rel=1e-12)


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_repeats_and_a_generator_moves_on(make):
    first, again = (
        make(30, 8, n_support=4, random_state=7),
        make(30, 8, n_support=4, random_state=7),
    )
    assert abs(first.X - again.X).sum() == 0
    legacy = make(30, 8, n_support=4, random_state=np.random.RandomState(7))
    assert legacy.y.shape == (30,)
    assert set(first.y) == {-1, 1}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 0},
        {"n_features": 0},
        {"n_support": 0},
        {"n_support": 11},
        {"n_support": 1, "fit_intercept": True},
        {"n_samples": 2.5},
    ],
)
def test_sizes_are_checked(make, wrong):
    with pytest.raises(InputError, match=r"must be an integer"):
        make(**{"n_samples": 10, "n_features": 3, "n_support": 3, **wrong})


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (make_separable, {"margin": 0}),
        (make_separable, {"margin": float("nan")}),
        (make_separable, {"slack": -1}),
        (make_separable, {"dtype": np.int64}),
        (make_nonseparable, {"overlap": 0}),
        (make_sparse_separable, {"density": 1.5}),
    ],
)
def test_values_are_checked(make, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        make(**wrong)


@pytest.mark.slow
def test_import_adds_nothing_heavy():
    code = (
        "import sys; from momentron import max_margin; before = set(sys.modules);"
        "import momentron.datasets;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new & {'scipy', 'sklearn', 'pandas', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Loaders -----------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no data folder, and a network that answers from a dict of bytes."""
    monkeypatch.delenv("MOMENTRON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pages = {}

    class Answer(io.BytesIO):
        headers: dict = {}  # noqa: RUF012

    def urlopen(url, timeout):
        assert timeout > 0
        if url not in pages:
            raise urllib.error.URLError("no such page")
        return Answer(pages[url])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return tmp_path / "momentron", pages


def test_bundled_sets_and_their_selection():
    iris = load("iris", classes=("setosa", 2), subset=10, dtype=np.float32)
    assert iris.X.shape == (10, 4)
    assert iris.X.dtype == np.float32
    assert np.array_equal(np.bincount(iris.y), [5, 0, 5])
    assert iris.target_names == ["setosa", "virginica"]
    assert load("breast-cancer").X.shape == (569, 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "minst"}, r"unknown data set 'minst'; known: digits,.*mnist"),
        ({"name": "iris", "classes": (0, 9)}, "iris has no label 9; its labels: 0, 1, 2"),
        ({"name": "iris", "classes": (1,)}, "at least 2"),
        ({"name": "iris", "subset": 0}, "subset=0 must be an integer"),
        ({"name": "iris", "dtype": "int8"}, "float64 or float32"),
    ],
)
def test_load_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        load(**arguments)


@pytest.mark.parametrize(
    "name", [n for n in DATASETS if n not in ("digits", "breast-cancer", "iris")]
)
def test_a_missing_set_names_itself_the_places_and_the_remedy(name, cache, tmp_path):
    with pytest.raises(InputError) as caught:
        load(name, download=False, data_dir=tmp_path / "mine")
    text = str(caught.value)
    assert "\n" not in text
    for piece in (repr(name), str(tmp_path / "mine"), str(cache[0]), "set MOMENTRON_DATA"):
        assert piece in text


def test_download_is_cached_and_read_back(cache):
    folder, pages = cache
    url = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/mushrooms"
    pages[url] = b"1 3:1 112:2\n2 1:0.5\n"
    bunch = load("mushrooms")
    assert bunch.X.shape == (2, 112)
    assert bunch.y.tolist() == [-1, 1]
    pages.clear()
    assert load("mushrooms", download=False).X[0, 111] == 2
    assert [path.name for path in (folder / "libsvm").iterdir()] == ["mushrooms"]


def test_failed_downloads_leave_nothing_and_say_one_line(cache):
    folder, pages = cache
    with pytest.raises(InputError, match=r"'a9a' could not be downloaded.*no such page.*MOMENTRON"):
        load("a9a")
    pages["https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz"] = b"junk"
    pages["https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz"] = b"x"
    with pytest.raises(InputError, match="MD5"):
        load("mnist")
    assert not [path for path in folder.rglob("*") if path.is_file()]
    with pytest.raises(InputError, match="datamicroarray"):
        load("golub")


def test_cifar10_archive_is_unpacked_by_base_name(cache, monkeypatch):
    folder, pages = cache
    record = bytes([3]) + bytes(range(256)) * 12
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in (
            "batches.meta.txt",
            "test_batch.bin",
            *(f"data_batch_{i}.bin" for i in range(1, 6)),
        ):
            content = b"a\nb\nc\ncat\n" if name.endswith("txt") else record
            member = tarfile.TarInfo(f"../cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    pages["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"] = stream.getvalue()
    with pytest.raises(InputError, match="MD5"):
        load("cifar10")
    digest = hashlib.md5(stream.getvalue()).hexdigest()
    monkeypatch.setitem(loaders.MD5, "cifar-10-binary.tar.gz", digest)
    bunch = load("cifar10")
    assert bunch.X.shape == (5, 3072)
    assert bunch.X_test.shape == (1, 3072)
    assert bunch.target_names == ["cat"]
    assert bunch.X[0, 255] == 1.0
    assert not (folder / "cifar10" / "archive.tar.gz").exists()


def test_a_truncated_file_is_named(cache, tmp_path):
    (tmp_path / "libsvm").mkdir()
    file = tmp_path / "libsvm" / "a9a.gz"
    file.write_bytes(gzip.compress(b"1 3:1\n" * 1000)[:-20])
    with pytest.raises(InputError, match=r"a9a.gz cannot be read"):
        load("a9a", data_dir=tmp_path)


@needs_data
def test_mnist():
    bunch = load("mnist", download=False, dtype=np.float32)
    assert bunch.X.shape == (60000, 784)
    assert bunch.X_test.shape == (10000, 784)
    assert bunch.y[:5].tolist() == [5, 0, 4, 1, 9]
    histogram = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(bunch.y).tolist() == histogram
    assert (bunch.X.min(), bunch.X.max()) == (0, 1)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [
        ("cifar10", (10000, 3072), 10),
        ("a9a", (32561, 123), 2),
        ("w8a", (49749, 300), 2),
        ("mushrooms", (8124, 112), 2),
        ("leu", (38, 7129), 2),
        ("colon-cancer", (62, 2000), 2),
        ("letter.scale", (15000, 16), 26),
        ("sector.scale", (6412, 55197), 105),
        ("golub", (72, 7129), 2),
        ("khan", (63, 2308), 4),
        ("su", (102, 5565), 4),
        ("farm-ads", (4143, 54877), 2),
    ],
)
def test_real_shapes(name, shape, n_classes):
    bunch = load(name, download=False)
    assert bunch.X.shape == shape
    assert bunch.X.dtype == np.float64
    assert len(bunch.target_names) == n_classes == len(np.unique(bunch.y))
    if name == "cifar10":
        assert bunch.y[:5].tolist() == [6, 9, 9, 4, 1]
