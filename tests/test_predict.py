"""`momentron predict`: a saved model answers as the classifier that was fitted."""

import csv
import io

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run
from sklearn.datasets import dump_svmlight_file

from momentron import KernelMaxMarginClassifier, MaxMarginClassifier

RNG = np.random.default_rng(0)
TRAIN, NEW = RNG.normal(size=(60, 4)), RNG.normal(size=(25, 4))


def labels(classes):
    names = np.array(["ant", "bee", "cat"])
    return names[: max(2, classes)][
        (TRAIN[:, 0] + 0.1 * np.arange(60) > 3).astype(int)
        + ((TRAIN[:, 1] > 0.5).astype(int) if classes == 3 else 0)
    ]


def fitted(capsys, tmp_path, classes, *options):
    """The model's path, after `fit --save`."""
    np.savez(tmp_path / "train.npz", X=TRAIN, y=labels(classes))
    model = tmp_path / "model.npz"
    code, _, err = run(capsys, "fit", tmp_path / "train.npz", *options, "--save", model)
    assert code == 0, err
    return model


def table(text):
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly", "laplacian", "linear"])
def test_predictions_are_those_of_the_estimator(capsys, tmp_path, classes, kernel):
    options = ["-C", 10.0] if kernel is None else ["-C", 10.0, "--kernel", kernel, "--gamma", 0.5]
    model = fitted(capsys, tmp_path, classes, *options)
    if kernel is None:
        same = MaxMarginClassifier(C=10.0)
    else:
        same = KernelMaxMarginClassifier(C=10.0, kernel=kernel, gamma=0.5)
    same.fit(TRAIN, labels(classes))
    np.savez(tmp_path / "new.npz", X=NEW)
    code, out, err = run(capsys, "predict", model, tmp_path / "new.npz")
    assert (code, err) == (0, "")
    assert [row[0] for row in table(out)] == ["label", *same.predict(NEW)]
    code, out, _ = run(capsys, "predict", model, tmp_path / "new.npz", "--decision")
    head, *rows = table(out)
    assert head == (["decision"] if classes == 2 else list(same.classes_))
    values = np.array(rows, float)
    assert np.squeeze(values) == pytest.approx(same.decision_function(NEW), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("form", ["csv", "labelled csv", "named csv", "npy", "svm", "sparse npz"])
def test_every_kind_of_file(capsys, tmp_path, form):
    model = fitted(capsys, tmp_path, 2, "-C", 10.0)
    expected = MaxMarginClassifier(C=10.0).fit(TRAIN, labels(2)).predict(NEW)
    path, extra = tmp_path / "new.csv", []
    lines = [",".join(map(repr, map(float, x))) for x in NEW]
    if form == "csv":
        path.write_text("\n".join(["a,b,c,y", *lines]))  # a feature may well be called y
    elif form == "labelled csv":
        path.write_text("\n".join(f"{line},{c}" for line, c in zip(lines, expected, strict=True)))
    elif form == "named csv":
        path.write_text("\n".join(["k,a,b,c,d", *(f"bee,{line}" for line in lines)]))
        extra = ["--target", "k"]
    elif form == "npy":
        path = tmp_path / "new.npy"
        np.save(path, NEW)
    elif form == "svm":
        path = tmp_path / "new.svm"
        dump_svmlight_file(NEW, np.arange(25) % 2, str(path), zero_based=False)
    else:
        path = tmp_path / "sparse.npz"
        X = sp.csr_matrix(NEW)
        parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr}
        np.savez(path, **parts, X_shape=X.shape, y=expected)
    code, out, err = run(capsys, "predict", model, path, *extra, "-o", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    assert [row[0] for row in table((tmp_path / "out.csv").read_text())][1:] == list(expected)
    if form in ("labelled csv", "sparse npz"):
        assert "0 of 25" in err
    elif form in ("csv", "npy"):
        assert err == ""


def test_a_precomputed_kernel(capsys, tmp_path):
    K, y = TRAIN @ TRAIN.T, (TRAIN[:, 0] > 0).astype(int)
    np.savez(tmp_path / "k.npz", X=K, y=y)
    model = tmp_path / "model.npz"
    run(capsys, "fit", tmp_path / "k.npz", "--kernel", "precomputed", "--save", model)
    np.savez(tmp_path / "new.npz", X=K, y=y)
    code, _, err = run(capsys, "predict", model, tmp_path / "new.npz")
    assert code == 0
    assert "0 of 60" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        (b"nothing", "cannot be read as a model"),
        ({"coef": np.ones(3)}, "no array 'intercept'"),
        ({"coef": np.ones((2, 2, 2)), "intercept": 0.0, "classes": ["a", "b"]}, "do not match"),
        ({"coef": np.ones(4), "intercept": 0.0, "classes": ["a"]}, "do not match"),
        ({"coef": np.full(4, np.nan), "intercept": 0.0, "classes": [0, 1]}, "not finite"),
        ({"coef": np.ones(4), "intercept": 0.0, "classes": [0, 1], "kernel": "rbf"}, "rows"),
        ({"coef": np.array([{}]), "intercept": 0.0, "classes": [0, 1]}, "cannot be read"),
        ({"coef": np.ones(3), "intercept": 0.0, "classes": [0, 1]}, "has 4 features"),
    ],
)
def test_files_that_are_no_models_are_one_line(capsys, tmp_path, content, words):
    path = tmp_path / "model.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    np.savez(tmp_path / "new.npz", X=NEW)
    code, out, err = run(capsys, "predict", path, tmp_path / "new.npz")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert words in err


def test_rows_that_lack_a_feature_have_an_empty_line(capsys, tmp_path):
    model = fitted(capsys, tmp_path, 2, "-C", 10.0)
    expected = MaxMarginClassifier(C=10.0).fit(TRAIN, labels(2)).predict(NEW).tolist()
    cells = [[*map(repr, map(float, x)), c] for x, c in zip(NEW, expected, strict=True)]
    cells[3][1], cells[7][4] = "NA", ""  # a feature; a label, which may be missing
    path = tmp_path / "new.csv"
    path.write_text("\n".join(["a,b,c,d,k", *map(",".join, cells)]))
    code, out, err = run(capsys, "predict", model, path, "--target", "k")
    assert code == 0
    assert [row[0] for row in table(out)] == ["label", *expected[:3], "", *expected[4:]]
    assert out.splitlines()[4] == '""'
    assert "1 of 25 rows lack a feature" in err
    assert "0 of 23" in err
    path.write_text("\n".join(["a,b,c,d", *(",".join(row[:4]) for row in cells)]))
    code, out, err = run(capsys, "predict", model, path, "--decision")
    assert (code, len(table(out)), table(out)[4]) == (0, 26, [""])
    assert "errors" not in err
