"""What was asked for is one noun: the same through every door, known by content, checked once."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from command_line import run
from makers import make_nonseparable

from momentron import (
    InputError,
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    NotSeparableWarning,
    max_margin,
)
from momentron.datasets import make_separable
from momentron.fitting.fits import FitRows
from momentron.fitting.options import FitOptions
from momentron.rows import validation
from momentron.solvers import Momentum
from momentron.solvers.checkpoint import TITLE, content_of, parameters_of, read_arrays

DATA = make_separable(400, 5, margin=0.3, fit_intercept=True, random_state=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "atuo"}, "did you mean 'auto'[?]"),
        ({"loss": "hinge"}, "penalty='hinge', with a finite C, is the plain hinge"),
        ({"loss": "logistc"}, "did you mean 'logistic'[?]"),
        ({"penalty": "hing"}, "did you mean 'hinge'[?]"),
        ({"method": "zzz"}, "or pass a Solver$"),
    ],
)
def test_a_slip_is_told_what_was_meant(options, words):
    with pytest.raises(InputError, match=words):
        max_margin([[0.0], [1.0]], [0, 1], **options)


# --- one noun ------------------------------------------------------------------------------------


def test_options_are_frozen_and_spelling_defaults_out_changes_nothing():
    short = FitOptions.from_arguments(method="momentum")
    long = FitOptions.from_arguments(
        method=Momentum(),
        kernel=None,
        gamma="scale",
        degree=np.int64(3),
        coef0=np.float64(0.0),
        C=np.float32("inf"),
        loss="exponential",
        fit_intercept=np.True_,
        tol=np.float32(1e-6),
        random_state=None,
    )
    data = validation.TrainingData.from_arrays(DATA.X, DATA.y)
    assert short.question(data.weights) == long.question(data.weights)
    assert short.budget.max_iter == long.budget.max_iter
    with pytest.raises(FrozenInstanceError):
        short.C = 1.0


def test_a_kernel_is_known_by_its_numbers():
    data = validation.TrainingData.from_arrays(DATA.X, DATA.y, is_finite=True)

    def identity(**options):
        asked = FitOptions.from_arguments(method="momentum", **options)
        return asked.question(data.weights, FitRows.of(data, asked).kernel)

    scale = 1.0 / (DATA.X.shape[1] * DATA.X.var())
    assert identity(kernel="rbf")["kernel"] == identity(kernel="rbf", cache_size=1.0)["kernel"]
    assert identity(kernel="rbf", gamma=0.5) != identity(kernel="rbf", gamma=0.25)
    assert f"{scale:.13f}"[:9] in identity(kernel="rbf")["kernel"]
    assert identity(kernel="poly") == identity(kernel="polynomial")


# --- identity is content -------------------------------------------------------------------------

WEIGHTS = np.ones(5)


def weighted(A, B):
    return (A * WEIGHTS) @ B.T


def scaled(factor):
    def kernel(A, B):
        return factor * (A @ B.T)

    return kernel


class Halved(Momentum):
    """A method of the user's."""

    factor = 0.5

    def step(self, problem, state):
        super().step(problem, state)


def test_functions_are_known_by_their_names_and_what_they_captured():
    known = content_of("kernel", weighted)
    assert content_of("kernel", weighted) == known
    assert "0x" not in known
    assert content_of("kernel", scaled(2.0)) == content_of("kernel", scaled(2.0))
    assert content_of("kernel", scaled(2.0)) != content_of("kernel", scaled(3.0))
    assert content_of("kernel", scaled(WEIGHTS)) != content_of("kernel", scaled(WEIGHTS[:4]))
    one, two = (functools.partial(scaled(1.0), B=value) for value in (1, 2))
    assert content_of("kernel", one) != content_of("kernel", two)


def test_equal_contents_are_known_as_one_whatever_their_order_in_memory():
    assert list({8, 0}) != list({0, 8})
    rows = np.arange(6.0).reshape(2, 3)
    for one, two in (
        ({8, 0}, {0, 8}),
        ({"lr": 1.0, "decay": 2.0}, {"decay": 2.0, "lr": 1.0}),
        (rows, np.asfortranarray(rows)),
        (["a" * 50, "a" * 50], ["a" * 50] * 2),
    ):
        assert content_of("kernel", scaled(one)) == content_of("kernel", scaled(two))
    assert content_of("kernel", scaled({0: 8})) != content_of("kernel", scaled({8: 0}))


def test_methods_are_known_by_their_parameters():
    assert parameters_of(Momentum()) != parameters_of(Momentum(step=0.5))
    assert parameters_of(Momentum(step=scaled(0.5))) != parameters_of(Momentum(step=scaled(0.4)))
    assert parameters_of(Halved()) == parameters_of(Halved())


def test_what_has_no_content_is_refused(tmp_path):
    for kernel in (scaled(threading.Lock()), functools.partial(weighted, (i for i in [1]))):
        with pytest.raises(InputError, match="checkpoint cannot recognise kernel="):
            content_of("kernel", kernel)
    lock = threading.Lock()

    def locked(A, B):
        with lock:
            return A @ B.T

    options = {"method": "momentum", "max_iter": 5, "kernel": locked}
    max_margin(DATA.X, DATA.y, **options)
    with pytest.raises(InputError, match="cannot recognise kernel") as caught:
        max_margin(DATA.X, DATA.y, checkpoint=tmp_path / "state", **options)
    assert "0x" not in str(caught.value)
    assert not list(tmp_path.iterdir())


IN_ANOTHER_PROCESS = """
import sys
import numpy as np
from momentron import max_margin
WEIGHTS = np.arange(1.0, 6.0)
def helper(A): return A * WEIGHTS
def kernel(A, B): return float(sys.argv[2]) * 0.0 + helper(A) @ helper(B).T
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
result = max_margin(X, X[:, 0] > 0.0, kernel=kernel, method="momentum", tol=0.0,
                    max_iter=int(sys.argv[2]), checkpoint=sys.argv[1])
print(result.n_iter, len(result.trace))
"""


@pytest.mark.slow
def test_a_callable_kernel_goes_on_in_another_process(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(IN_ANOTHER_PROCESS)
    command = [sys.executable, script, tmp_path / "state"]
    for steps in (5, 9):
        done = subprocess.run([*command, str(steps)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(steps)] * 2
    script.write_text(
        IN_ANOTHER_PROCESS.replace("def kernel", "def other").replace("=kernel", "=other")
    )
    done = subprocess.run([*command, "12"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "its kernel is" in done.stderr


# --- a checkpoint is continued through the other door --------------------------------------------

BY_COMMAND = """
import sys
from momentron.solvers import checkpoint
checkpoint.Checkpoint.__init__.__defaults__ = (0.05,)
from momentron.cli import main
data, state, *options = sys.argv[1:]
main(["fit", data, "--method", "momentum", "--tol", "0", "--max-iter", "1000000000",
      "--checkpoint", state, "--json", *options])
"""
BY_FUNCTION = """
import sys
from momentron import max_margin
from momentron.solvers import checkpoint
from momentron.solvers import Momentum
checkpoint.Checkpoint.__init__.__defaults__ = (0.05,)
data, state, *size = sys.argv[1:]
max_margin(data, checkpoint=state, method=Momentum(), tol=0.0, max_iter=10**9, loss="exponential",
           C=float("inf"), fit_intercept=True, block_size=int(size[0]) if size else None)
"""


def killed(script, state, *arguments):
    """Run a script until it has written its state, and kill it; how many steps it wrote."""
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    try:
        begin = time.perf_counter()
        while not state.exists() and process.poll() is None:
            assert time.perf_counter() - begin < 60.0
            time.sleep(0.02)
        assert process.poll() is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with state.open("rb") as file:
        _, arrays = read_arrays(file, TITLE)
    return len(arrays["trace"])


@pytest.fixture
def table(tmp_path):
    """Features, and the labels as the last column."""
    np.save(tmp_path / "big.npy", np.column_stack([DATA.X, DATA.y]))
    return tmp_path / "big.npy"


def command(capsys, *arguments):
    return json.loads(run(capsys, "fit", *arguments, "--json").out)


@pytest.mark.slow
@pytest.mark.parametrize("in_blocks", [False, True], ids=["whole", "blocks"])
def test_a_killed_command_goes_on_in_max_margin(table, tmp_path, in_blocks):
    state = tmp_path / "state"
    options = ["--out-of-core", "--memory", "400kB"] if in_blocks else []
    done = killed(BY_COMMAND, state, table, state, *options)
    assert done > 0
    result = max_margin(
        str(table),
        checkpoint=str(state),
        method="momentum",
        tol=0.0,
        max_iter=done + 7,
        block_size=10_000 if in_blocks else None,
    )
    assert result.n_iter == len(result.trace) == done + 7
    assert result.lower <= DATA.margin <= result.upper


@pytest.mark.slow
@pytest.mark.parametrize("in_blocks", [False, True], ids=["whole", "blocks"])
def test_a_killed_max_margin_goes_on_in_the_command(table, tmp_path, in_blocks, capsys):
    state = tmp_path / "state"
    done = killed(BY_FUNCTION, state, table, state, *([10_000] if in_blocks else []))
    options = ["--memory", "400kB"] if in_blocks else ["--in-memory"]
    budget = ["--method", "momentum", "--tol", 0, "--max-iter", done + 7]
    found = command(capsys, table, "--checkpoint", state, *budget, *options)
    assert found["iterations"] == done + 7
    assert found["lower"] <= DATA.margin <= found["upper"]


def test_auto_goes_on_through_either_door_without_other_options(table, tmp_path, capsys):
    state = tmp_path / "state"
    found = command(capsys, table, "--checkpoint", state, "--max-iter", 1)
    result = max_margin(table, checkpoint=state)
    assert found["iterations"] == 1 <= result.n_iter
    assert len(result.trace) == result.n_iter
    again = command(capsys, table, "--checkpoint", state)
    assert again["iterations"] == result.n_iter
    assert again["lower"] <= DATA.margin <= again["upper"]


# --- files ---------------------------------------------------------------------------------------


def write(folder, kind):
    """The data as a file of a kind: (path, y)."""
    path = folder / f"data.{kind}"
    names = [f"x{j}" for j in range(DATA.X.shape[1])]
    frame = pd.DataFrame(DATA.X, columns=names).assign(label=np.where(DATA.y > 0, "up", "down"))
    if kind in ("csv", "tsv", "csv.gz"):
        frame.to_csv(path, sep="\t" if kind == "tsv" else ",", index=False)
    elif kind == "npz":
        np.savez(path, X=DATA.X, y=DATA.y)
    elif kind == "npy":
        np.save(path, np.asfortranarray(np.column_stack([DATA.X, DATA.y])))
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(DATA.X, DATA.y, str(path))
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "svm", "npz", "npy", "parquet"])
def test_max_margin_reads_what_the_command_reads(tmp_path, capsys, kind):
    path = write(tmp_path, kind)
    direct = max_margin(path, tol=1e-9)
    found = command(capsys, path, "--tol", "1e-9")
    assert direct.lower == found["lower"]
    assert direct.upper == found["upper"]
    assert direct.lower <= DATA.margin * (1 + 1e-12)
    assert DATA.margin * (1 - 1e-12) <= direct.upper
    kernel = max_margin(str(path), kernel="rbf", tol=1e-3, max_iter=20)
    assert kernel.coef.shape == (400,)
    model = MaxMarginClassifier(C=np.inf, tol=1e-9).fit(path, None)
    assert model.certificate_ == direct.certificate
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_labels_beside_a_file_of_features(tmp_path, capsys):
    np.save(tmp_path / "rows.npy", DATA.X)
    np.save(tmp_path / "labels.npy", DATA.y)
    results = [
        max_margin(tmp_path / "rows.npy", y) for y in (DATA.y, tmp_path / "labels.npy", DATA.y > 0)
    ]
    assert results[0].certificate == results[1].certificate == results[2].certificate
    found = command(capsys, tmp_path / "rows.npy", "--target", tmp_path / "labels.npy")
    assert found["upper"] == results[0].upper
    csv = write(tmp_path, "csv")
    with pytest.raises(InputError, match="has its labels in a column"):
        max_margin(csv, DATA.y)
    assert max_margin(csv, "label").classes.tolist() == ["down", "up"]
    assert max_margin(csv, 5).certificate == max_margin(csv, -1).certificate


def test_large_files_are_read_in_blocks(tmp_path, monkeypatch, capsys):
    path = write(tmp_path, "svm")
    monkeypatch.setattr("momentron.api.LARGEST_WHOLE", 1000)
    result = max_margin(path)
    assert not list(tmp_path.glob("*momentron*"))  # its binary parts are gone
    assert result.passes >= 2
    assert "bytes_read" in command(capsys, path)
    assert "bytes_read" not in command(capsys, path, "--in-memory")
    with pytest.raises(InputError, match="needs the data in memory"):
        max_margin(path, kernel="rbf")
    max_margin(write(tmp_path, "csv"), kernel="rbf")  # which has no blocks


# --- each door is passed once --------------------------------------------------------------------


@pytest.fixture
def counts(monkeypatch):
    """How often arrays were converted and labels coded."""
    counted = {"as_exact": 0, "labels": 0, "finite": 0}

    def count(name, key):
        original = getattr(validation, name)

        @functools.wraps(original)
        def counting(*args, **kwargs):
            counted[key] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(validation, name, counting)

    count("as_exact", "as_exact")
    count("clean_targets", "labels")
    count("_require_finite", "finite")
    return counted


FRAME = pd.DataFrame(DATA.X, columns=list("abcde"))
OVERLAP = make_nonseparable(60, 5, fit_intercept=True, random_state=0)


def ignoring(fit):
    def run():
        with pytest.warns(NotSeparableWarning):
            fit()

    return run


DOORS = {
    "max_margin": lambda: max_margin(FRAME, DATA.y),
    "max_margin, sparse": lambda: max_margin(sp.coo_array(DATA.X), DATA.y),
    "fit": lambda: MaxMarginClassifier(C=np.inf).fit(FRAME, DATA.y),
    "fit, nothing separates": ignoring(
        lambda: MaxMarginClassifier(C=np.inf).fit(pd.DataFrame(OVERLAP.X), OVERLAP.y)
    ),
    "fit, warm": lambda: MaxMarginClassifier(C=np.inf, warm_start=True).fit(FRAME, DATA.y),
    "kernel": lambda: max_margin(FRAME, DATA.y, kernel="rbf"),
    "kernel fit": lambda: KernelMaxMarginClassifier(C=np.inf).fit(FRAME, DATA.y),
}


@pytest.mark.parametrize("door", DOORS)
def test_each_door_is_passed_once(door, counts):
    DOORS[door]()
    assert counts["as_exact"] == counts["labels"] == 1
    assert counts["finite"] == ("kernel" in door)


def test_a_checkpoint_reads_the_data_without_checking_them_again(counts, tmp_path):
    options = {"method": "momentum", "max_iter": 5, "checkpoint": tmp_path / "state"}
    max_margin(FRAME, DATA.y, **options)
    assert counts == {"as_exact": 1, "labels": 1, "finite": 0}


@pytest.mark.parametrize("way", ["array", "dask"])
def test_working_sets_of_blocks_are_not_checked_again(way, counts, monkeypatch):
    """Labels are looked at as blocks are read, never as a working set is solved."""
    solved = []

    def watched(original):
        def call(*args, **kwargs):
            before = dict(counts)
            found = original(*args, **kwargs)
            assert counts == before
            solved.append(found)
            return found

        return call

    from momentron.streams import rounds
    from momentron.streams.block_problem import BlockProblem

    monkeypatch.setattr(BlockProblem, "of_rows", watched(BlockProblem.of_rows))
    monkeypatch.setattr(rounds, "solve", watched(rounds.solve))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    y = (X[:, 0] > 0.0).astype(int)
    if way == "dask":
        X = pytest.importorskip("dask.array").from_array(X, chunks=(1000, 6))
        result = max_margin(X, y)
    else:
        result = max_margin(X, y, block_size=40_000)
    assert result.gap <= 1e-6
    assert len(solved) >= 4


def test_max_memory_where_it_means_nothing(tmp_path):
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), [0, 0, 1, 1]
    with pytest.raises(InputError, match="max_memory='1GB' has no meaning for method='momentum'"):
        max_margin(X, y, method="momentum", max_memory="1GB")
    with pytest.raises(InputError, match="max_memory=1000 is for data in memory"):
        max_margin(X, y, block_size="1KB", max_memory=1000)
    assert max_margin(X, y, max_memory="1MB").lower == pytest.approx(1.0)
