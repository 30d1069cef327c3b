"""`momentron predict`: a saved model answers as the classifier that was fitted."""

import csv
import io

import numpy as np
import pandas as pd
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


NAMES = ["age", "dose", "1e3", "weight"]  # one of them looks like a number


def write_csv(path, names, columns):
    """A CSV file with this header, or without one, and these columns."""
    lines = [] if names is None else [",".join(names)]
    lines += [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def fitted_to_names(capsys, tmp_path, form="csv"):
    """A model of columns with names, and the labels that it gives NEW."""
    train, model = tmp_path / f"train.{form}", tmp_path / "model.npz"
    y = np.where(TRAIN[:, 0] > 0.0, "ant", "bee")
    if form == "csv":
        write_csv(train, [*NAMES, "kind"], [*TRAIN.T.tolist(), y])
    elif form == "npz":
        np.savez(train, X=TRAIN, y=y, feature_names=NAMES)
    else:
        pd.DataFrame(TRAIN, columns=NAMES).assign(kind=y).to_parquet(train)
    blocks = ["--out-of-core"] if form == "parquet" else []
    code, _, err = run(capsys, "fit", train, *blocks, "--save", model)
    assert code == 0, err
    return model, MaxMarginClassifier(C=np.inf).fit(TRAIN, y).predict(NEW).tolist()


@pytest.mark.parametrize("form", ["csv", "npz", "parquet"])
def test_columns_are_found_by_name(capsys, tmp_path, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    model, expected = fitted_to_names(capsys, tmp_path, form)
    order = [2, 0, 3, 1]
    names, columns = [NAMES[j] for j in order], [NEW[:, j].tolist() for j in order]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    paths = [write_csv(tmp_path / "new.csv", names, columns), tmp_path / "new.npz"]
    np.savez(paths[1], X=NEW[:, order], feature_names=names)
    if form == "parquet":
        frame.to_parquet(tmp_path / "new.parquet")
        paths.append(tmp_path / "new.parquet")
    for path in paths:
        code, out, err = run(capsys, "predict", model, path)
        assert (code, err) == (0, "")
        assert [row[0] for row in table(out)] == ["label", *expected]


def test_other_columns_are_ignored_with_a_note_and_labels_are_found_by_name(capsys, tmp_path):
    model, expected = fitted_to_names(capsys, tmp_path)
    extra = [f"p{i}" for i in range(25)]  # text, which no feature could be
    columns = [extra, expected, *NEW.T.tolist()[::-1], list(range(25))]
    path = write_csv(tmp_path / "new.csv", ["id", "kind", *NAMES[::-1], "label"], columns)
    code, out, err = run(capsys, "predict", model, path)
    assert code == 0
    assert [row[0] for row in table(out)] == ["label", *expected]
    assert "ignored         id, label: not among the model's features" in err
    assert "errors          0 of 25" in err
    code, _, err = run(capsys, "predict", model, path, "--drop", "id,label")
    assert (code, "ignored" in err) == (0, False)


def test_missing_columns_are_refused_by_name(capsys, tmp_path):
    model, _ = fitted_to_names(capsys, tmp_path)
    columns = [*NEW.T.tolist(), [0] * 25]
    path = write_csv(tmp_path / "new.csv", ["age", "Dose", "3", "weight", "z"], columns)
    code, out, err = run(capsys, "predict", model, path)
    assert (code, out) == (2, "")
    assert "lacks 2 of the 4 columns that the model was fitted to: dose, 1e3; its columns: " in err
    path = write_csv(tmp_path / "new.csv", [*NAMES, "age"], columns)
    assert "several columns called age" in run(capsys, "predict", model, path)[2]


def test_tables_without_a_header_are_matched_by_position(capsys, tmp_path):
    model, expected = fitted_to_names(capsys, tmp_path)
    path = write_csv(tmp_path / "new.csv", None, NEW.T.tolist())
    code, out, err = run(capsys, "predict", model, path)
    assert (code, err) == (0, "")
    assert [row[0] for row in table(out)] == ["label", *expected]
    write_csv(path, None, [*NEW.T.tolist(), expected])
    assert "0 of 25" in run(capsys, "predict", model, path)[2]
    write_csv(path, None, NEW.T.tolist()[:2])
    assert "the model was fitted to 4" in run(capsys, "predict", model, path)[2]


def test_names_that_are_numbers_and_a_single_feature(capsys, tmp_path):
    train, model = tmp_path / "train.csv", tmp_path / "model.npz"
    write_csv(train, ["0", "1", "target"], [[0, 1, 8, 9], [5, 3, 4, 5], list("aabb")])
    run(capsys, "fit", train, "--save", model)
    path = write_csv(tmp_path / "new.csv", ["1", "0"], [[4, 4], [0, 9]])
    assert run(capsys, "predict", model, path)[:2] == (0, "label\na\nb\n")
    for name in ("x", "0"):
        write_csv(train, [name, "target"], [[0, 1, 8, 9], list("aabb")])
        run(capsys, "fit", train, "--save", model)
        for header in ([name], None):
            write_csv(path, header, [[9, 3]])
            assert run(capsys, "predict", model, path)[:2] == (0, "label\nb\na\n")


def test_dummies_are_found_by_name(capsys, tmp_path):
    train, model = tmp_path / "train.csv", tmp_path / "model.npz"
    colours, x = ["red", "red", "blue", "green"], [0, 1, 8, 9]
    write_csv(train, ["colour", "x", "y"], [colours, x, list("aabb")])
    run(capsys, "fit", train, "--dummies", "--save", model)
    path = write_csv(tmp_path / "new.csv", ["x", "note", "colour"], [x, list("qrst"), colours])
    code, out, err = run(capsys, "predict", model, path)
    assert (code, out) == (0, "label\na\na\nb\nb\n")
    assert "ignored         note:" in err
    write_csv(path, ["x", "colour"], [[1], ["pink"]])
    assert "has levels that the model has not seen: pink" in run(capsys, "predict", model, path)[2]
    path.write_text("1,red\n2,blue\n")
    assert "has no header; dummies need the names" in run(capsys, "predict", model, path)[2]
