"""The command line: verdicts, exit codes, and errors of one line."""

import bz2
import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import run
from makers import make_nonseparable
from sklearn.metrics.pairwise import rbf_kernel

from momentron import max_margin
from momentron.datasets import make_separable


@pytest.fixture
def csv(tmp_path):
    data = make_separable(30, 3, margin=0.5, n_support=3, fit_intercept=True, random_state=0)
    names = np.where(data.y > 0, "yes", "no")
    lines = ["a,b,c,species"]
    lines += [",".join([*map(repr, map(float, x)), s]) for x, s in zip(data.X, names, strict=True)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines))
    return path


def test_default_is_the_bundled_digits(capsys):
    code, out, _ = run(capsys, "fit", "--tol", "1e-3")
    assert code == 0
    assert "digits: 1797 × 64, 10 classes" in out
    assert "certified optimal" in out
    assert "joint margin    in [0.765" in out


def test_fit_a_file_and_save(capsys, csv, tmp_path):
    model = tmp_path / "model.npz"
    code, out, _ = run(capsys, "fit", csv, "--target", "species", "--tol", "1e-3", "--save", model)
    assert code == 0
    assert "training error  0.0000%" in out
    with np.load(model, allow_pickle=False) as saved:
        assert saved["coef"].shape == (3,)
        assert saved["classes"].tolist() == ["no", "yes"]
        assert saved["lower"] <= 0.5 <= saved["upper"]


@pytest.mark.parametrize("classes", [2, 3])
def test_fit_with_a_kernel(capsys, tmp_path, classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % classes
    np.savez(tmp_path / "data.npz", X=X, y=y)
    model = tmp_path / "model.npz"
    options = ["--kernel", "rbf", "--gamma", "0.7", "--tol", "1e-6"]
    code, out, _ = run(capsys, "fit", tmp_path / "data.npz", *options, "--save", model)
    assert code == 0
    assert "40 × 3" in out
    assert "training error  0.0000%" in out
    direct = max_margin(X, y, kernel="rbf", gamma=0.7, tol=1e-6)
    with np.load(model, allow_pickle=False) as saved:
        assert saved["lower"] <= direct.upper
        assert direct.lower <= saved["upper"]
        values = rbf_kernel(X, saved["support_vectors"], gamma=float(saved["gamma"]))
        outputs = values @ saved["coef"].T + saved["intercept"]
        predicted = outputs.argmax(axis=1) if classes > 2 else outputs > 0.0
        assert np.array_equal(predicted, y)
        assert np.array_equal(X[saved["rows"]], saved["support_vectors"])


def test_a_kernel_matrix(capsys, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), np.arange(20) % 2
    np.savez(tmp_path / "data.npz", X=X @ X.T, y=y)
    model = tmp_path / "model.npz"
    options = ["--kernel", "precomputed", "--save", model, "--json"]
    code, out, _ = run(capsys, "fit", tmp_path / "data.npz", *options)
    assert code == 0
    assert json.loads(out)["training_error"] == 0.0
    with np.load(model, allow_pickle=False) as saved:
        assert "support_vectors" not in saved
        assert saved["rows"].size == saved["coef"].size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kernel", "cubic"], "kernel='cubic' is unknown"),
        (["--gamma", "0.5"], "gamma=0.5 has no meaning without a kernel"),
        (["--kernel", "rbf", "--gamma", "wide"], "gamma"),
        (["--kernel", "rbf", "--cache-size", "0"], "cache_size"),
        (["--kernel", "rbf", "--out-of-core"], "kernel"),
    ],
)
def test_bad_kernel_options(capsys, csv, options, message):
    code, _, err = run(capsys, "fit", csv, *options)
    assert code == 2
    assert message in err


def test_json(capsys, csv):
    code, out, _ = run(capsys, "fit", csv, "--json", "--tol", "1e-3")
    summary = json.loads(out)
    assert code == 0
    assert summary["lower"] <= 0.5 <= summary["upper"]
    assert summary["rows"] == 30
    assert summary["passes"] > 0
    assert summary["training_error"] == 0.0


@pytest.mark.parametrize("opener", [gzip.open, bz2.open])
def test_compressed(capsys, csv, opener):
    suffix = ".gz" if opener is gzip.open else ".bz2"
    path = csv.with_name(csv.name + suffix)
    with opener(path, "wb") as file:
        file.write(csv.read_bytes())
    code, out, _ = run(capsys, "fit", path, "--json", "--tol", "1e-3")
    assert code == 0
    assert json.loads(out)["rows"] == 30


def test_budget_exit_code(capsys):
    code, out, _ = run(capsys, "fit", "--method", "momentum", "--max-iter", "5")
    assert code == 1
    assert "iteration budget reached" in out


def test_not_separable_is_an_answer(capsys, tmp_path):
    data = make_nonseparable(30, 3, fit_intercept=True, random_state=0)
    path = tmp_path / "data.npz"
    np.savez(path, X=data.X, y=data.y)
    code, out, _ = run(capsys, "fit", path, "--tol", "1e-3")
    assert code == 0
    assert "not separable" in out


def test_the_classifier_that_errs_is_named(capsys, tmp_path):
    data = make_nonseparable(60, 4, random_state=0)
    path = tmp_path / "overlap.csv"
    np.savetxt(path, np.column_stack([data.X, data.y]), delimiter=",")
    code, out, _ = run(capsys, "fit", str(path))
    assert code == 0
    remedy = "pass -C for a soft margin, such as -C 1"
    assert f"classifier      the fallback, a logistic regression; {remedy}\n" in out
    assert out.index("classifier ") < out.index("training error ")
    code, out, _ = run(capsys, "fit", str(path), "-C", "1")
    assert code == 0 and "classifier " not in out
    _, out, _ = run(capsys, "fit", str(path), "--json")
    assert json.loads(out)["classifier"] == "a logistic regression"
    _, out, _ = run(capsys, "fit", str(path), "-C", "1", "--json")
    assert json.loads(out)["classifier"] == "the certified maximum-margin classifier"


def test_soft_margin(capsys):
    code, out, _ = run(capsys, "fit", "--classes", "3", "8", "-C", "0.01", "--json")
    assert code == 0
    assert json.loads(out)["gap"] <= 1e-6
    _, out, _ = run(capsys, "fit", "--classes", "3", "8", "-C", "0.01")
    assert "soft margin     1/√(2·objective) in [" in out
    assert "best margin" not in out


def test_no_intercept_and_classes(capsys):
    code, out, _ = run(
        capsys, "fit", "digits", "--classes", "3", "8", "--no-intercept", "--tol", "0.1"
    )
    assert code == 0
    assert "3 against 8" in out


BAD_FILES = {
    "missing.csv": (None, "missing.csv"),
    "empty.csv": ("", "empty.csv"),
    "text.csv": ("a,b,y\n1,2,0\n1,oops,1\n", "text.csv.*3.*b"),
    "nan.csv": ("a,b,y\n1,2,0\n,2,1\n", "nan.csv.*3.*a"),
    "ragged.csv": ("a,b,y\n1,2,0\n1,2\n", "ragged.csv.*3"),
    "one_class.csv": ("a,b,y\n1,2,0\n3,4,0\n", "y has 1 class"),
    "garbage.npz": ("not a zip file", "garbage.npz"),
    "garbage.npy": ("not an array", "garbage.npy"),
    "garbage.parquet": ("not parquet", "garbage.parquet"),
    "data.csv.gz": ("not gzip", "data.csv.gz"),
    "data.docx": ("x", "docx"),
    "bad.svm": ("1 1:2 nonsense\n", "bad.svm"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_give_one_line(capsys, tmp_path, name):
    import re

    content, words = BAD_FILES[name]
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    code, _, err = run(capsys, "fit", path)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert re.search(words, err)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "args",
    [
        ["--method", "magic"],
        ["--tol", "2"],
        ["--max-iter", "0"],
        ["--classes", "0", "77"],
        ["--max-time", "-1"],
    ],
    ids=" ".join,
)
def test_bad_options(capsys, args):
    code, _, err = run(capsys, "fit", *args)
    assert code == 2
    assert "Traceback" not in err


def test_race_prints_and_draws(capsys, tmp_path):
    picture = tmp_path / "race.png"
    code, out, _ = run(capsys, "race", "--passes", "60", "--plot", picture)
    assert code == 0
    assert "momentum" in out
    assert "gradient-descent" in out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("drawn"))
    assert " 60\n" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_race_refuses_unknown_methods(capsys):
    code, _, err = run(capsys, "race", "--method", "magic")
    assert code == 2
    assert "choose one of" in err


@pytest.mark.slow
def test_import_is_light():
    code = (
        "import sys, momentron; "
        "print([m for m in ('torch', 'dask', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STRANGE = ["[/a]", "[bold]b", "\x1b[31mred"]


@pytest.fixture
def strange(tmp_path):
    """Rows whose labels, and file's name, are made to be misread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    np.savez(tmp_path / "[b]x\x1b[2J.npz", X=X, y=np.array(STRANGE)[np.arange(24) % 3])
    np.savez(tmp_path / "two.npz", X=X[:12], y=np.array(STRANGE[::2])[np.arange(12) % 2])
    return tmp_path


@pytest.mark.parametrize("command", ["fit", "check", "race"])
@pytest.mark.parametrize("name", ["[b]x\x1b[2J.npz", "two.npz"])
def test_labels_and_names_are_shown_as_they_are(capsys, strange, command, name):
    options = ["--passes", 5] if command == "race" else ["--max-time", 5]
    code, out, err = run(capsys, command, strange / name, *options)
    assert code in (0, 1, 4)
    assert "\x1b" not in out + err
    assert "Traceback" not in err
    if name == "two.npz" and command != "race":
        assert "[/a]" in out
        assert r"\x1b[31mred" in out


def test_errors_show_names_as_they_are(capsys, tmp_path):
    for name in ("[/a]\x1b[2J.csv", "a\nb.csv", "\udcff.csv"):
        code, out, err = run(capsys, "fit", tmp_path / name)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert "\x1b" not in out + err
    code, _, err = run(capsys, "fit", "--tol", "\x1b[2J")
    assert code == 2
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["fit --save", "check --proof", "race --plot"])
@pytest.mark.parametrize("target", ["no/folder/x.png", "folder", "link.png", "picture.png/x.png"])
def test_targets_are_tried_before_the_work(capsys, csv, tmp_path, monkeypatch, command, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "picture.png").write_text("mine")
    (tmp_path / "link.png").symlink_to(tmp_path / "picture.png")
    name, option = command.split()

    def never(*args, **kwargs):
        raise AssertionError("the data were read")

    for door in ("fit.load_data", "check.load_design", "race.load_data"):
        monkeypatch.setattr(f"momentron.cli.{door}", never)
    code, out, err = run(capsys, name, csv, option, target)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert (tmp_path / "picture.png").read_text() == "mine"


LIMITED = """
import resource, signal, sys
from importlib import import_module
from momentron.cli import main
# joblib tries out semaphores, which are files, when it is imported
import_module(f"momentron.cli.{sys.argv[1]}")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # as if the disk had so much room
main(sys.argv[1:])
"""


def run_limited(*args):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", LIMITED, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit --save", "check --proof"])
def test_a_full_disk_does_not_lose_the_answer(csv, tmp_path, command):
    name, option = command.split()
    target = tmp_path / "out" / "answer"
    target.parent.mkdir()
    done = run_limited(name, csv, option, target)
    assert done.returncode == 2
    assert "best margin     in [" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "the answer above is valid" in done.stderr
    assert list(target.parent.iterdir()) == []


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_is_one_line(csv, tmp_path):
    options = ["--method", "momentum", "--max-iter", 9, "--checkpoint", tmp_path / "state"]
    done = run_limited("fit", csv, *options)
    assert done.returncode == 1
    assert "best margin     in [" in done.stdout
    assert done.stderr.startswith("momentron: warning: checkpoint")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_proof_that_is_a_pipe_is_not_waited_for(csv, tmp_path):
    os.mkfifo(tmp_path / "proof.json")
    command = [sys.executable, "-m", "momentron", "verify", tmp_path / "proof.json", csv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "not a regular file" in done.stderr


@pytest.mark.parametrize("command", ["report", "race"])
def test_every_command_that_reads_tables_has_their_options(capsys, tmp_path, command):
    path = tmp_path / "d.csv"
    path.write_text("id;x;z;k\n" + "".join(f"{i};{i},5;{i % 3};{i // 3}\n" for i in range(6)))
    more = ("-o", tmp_path / "r.html") if command == "report" else ("--passes", 20)
    refused = run(capsys, command, path, *more)
    assert refused.code == 2
    assert "leave it out with --drop id" in refused.err
    ended = run(capsys, command, path, "--drop", "id", "--delimiter", ";", "--decimal", ",", *more)
    assert (ended.code, ended.err) == (0, "")
    if command == "report":
        page = (tmp_path / "r.html").read_text()
        assert "--drop id --delimiter" in page
