"""`python -m momentron.verify` runs where nothing but numpy is installed."""

import subprocess
import sys

import numpy as np
import pytest

from momentron import check_separability

ALONE = """
import runpy, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in sys.stdlib_module_names | {"numpy", "momentron"}:
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["verify", *sys.argv[1:]]
runpy.run_module("momentron.verify", run_name="__main__")
"""


@pytest.fixture
def files(tmp_path):
    X, y = np.array([[0.1, 1.0], [1.0, 1.5], [1.0, 2.5], [2.0, 4.0]]), ["a", "b", "a", "b"]
    verdict = check_separability(X, y, feature_names=["dose", "age"])
    (tmp_path / "proof.json").write_text(verdict.to_json())
    lines = [f"{u},{label},{v}" for (u, v), label in zip(X.tolist(), y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["dose,outcome,age", *lines]))
    return tmp_path


def alone(files, *options):
    command = [sys.executable, "-c", ALONE, str(files / "proof.json"), str(files / "data.csv")]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)


def test_a_proof_is_verified_with_numpy_alone(files):
    done = alone(files, "--target", "outcome")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("verified:")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"family": "ordinal", "order": ["b", "a"]}, "in the order b < a"),
        ({"link": "log"}, "with the event 'b'"),
        ({"link": "log", "reference": "b"}, "with the event 'a'"),
    ],
)
def test_what_the_order_of_the_classes_decides_is_said(files, options, said):
    X, y = [[0.1, 1.0], [1.0, 1.5], [1.0, 2.5], [2.0, 4.0]], ["a", "b", "a", "b"]
    (files / "proof.json").write_text(check_separability(X, y, **options).to_json())
    assert f" {said}, in exact arithmetic" in alone(files, "--target", "outcome").stdout


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [("0.1", "0.2", "different data"), ("dose", "weight", "column 0 is 'dose' in the proof")],
)
def test_another_table_is_rejected(files, old, new, reason):
    table = files / "data.csv"
    table.write_text(table.read_text().replace(old, new, 1))
    done = alone(files, "--target", "outcome")
    assert done.returncode == 1
    assert done.stdout.startswith("rejected: ") and reason in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("data.csv", "outcome", "label", "no column 'outcome'; its columns: dose, label, age"),
        ("data.csv", "0.1", "none", "could not convert string to float: 'none'"),
        ("data.csv", "0.1,", "", "rows that are not as long as its header"),
        ("data.csv", ..., "", "data.csv has no column"),
        ("data.csv", None, None, "No such file or directory"),
        ("proof.json", None, None, "No such file or directory"),
    ],
)
def test_files_that_cannot_be_read_are_not_rejected_proofs(files, name, old, new, reason):
    path = files / name
    text = path.read_text()
    path.unlink()
    if old is not None:
        path.write_text(new if old is ... else text.replace(old, new, 1))
    done = alone(files, "--target", "outcome")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and reason in done.stderr
