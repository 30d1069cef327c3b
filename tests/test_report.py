"""`momentron report`: one page that needs nothing else, and says what was proven."""

import base64
import hashlib
import re

import numpy as np
import pytest
from command_line import run
from test_repr_html import VOID, Reader

from momentron import verify
from momentron.cli.report import examine, render
from momentron.datasets import make_separable

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no pictures")

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"


def digest_of(findings):
    return hashlib.sha256(findings.verdict.to_json().encode()).hexdigest()


def read(page):
    """The page's tags and text; every tag is closed, nothing is executed or fetched."""
    reader = Reader()
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    reader.feed(body)
    assert [tag for tag in reader.open if tag not in VOID] == []
    for tag, attributes in reader.tags:
        assert tag not in ("script", "iframe", "object", "embed", "link", "base")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href"):
                assert value.startswith("data:application/json;base64,")
    assert not re.search(r"url\(|@import|https?://", page)
    return reader, " ".join(" ".join(reader.text).split())


def case(kind):
    rng = np.random.default_rng(3)
    if kind == "separable":
        data = make_separable(40, 5, margin=0.3, n_support=4, fit_intercept=True, random_state=0)
        return data.X, np.where(data.y > 0, "yes", "no")
    if kind == "two features":
        data = make_separable(40, 2, margin=0.3, n_support=3, fit_intercept=True, random_state=0)
        return data.X, data.y
    if kind == "quasi-separable":
        return np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [2.0, 1.0]]), np.array(list("aabb"))
    if kind == "one feature":
        return np.arange(8.0)[:, None], np.arange(8) % 2
    if kind == "three classes":
        return rng.normal(size=(60, 4)), np.arange(60) % 3
    return rng.normal(size=(60, 3)), np.arange(60) % 2


CASES = (
    "separable",
    "two features",
    "quasi-separable",
    "overlapping",
    "one feature",
    "three classes",
)


@pytest.mark.parametrize("kind", CASES)
def test_a_page_is_whole_and_alone(kind):
    X, y = case(kind)
    findings = examine(X, y, title=kind)
    page = render(findings, source="data.csv")
    reader, text = read(page)
    assert findings.verdict.kind.capitalize() in text
    assert sum(tag == "svg" and "picture" in a.get("class", "") for tag, a in reader.tags) == 2
    assert digest_of(findings) in text
    assert findings.verdict.proof["data"]["sha256"] in text
    assert "momentron verify proof.json data.csv" in text
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("kind", CASES)
def test_the_proof_in_the_page_verifies(kind):
    X, y = case(kind)
    findings = examine(X, y)
    reader, _ = read(render(findings))
    (link,) = [a["href"] for tag, a in reader.tags if tag == "a"]
    proof = base64.b64decode(link.partition("base64,")[2])
    assert hashlib.sha256(proof).hexdigest() == digest_of(findings)
    assert verify(proof.decode(), X, y)


def test_words_from_the_data_are_escaped():
    X, y = case("separable")
    names = [HOSTILE, "b", "c", "d", "e"]
    findings = examine(X, np.where(y == "yes", HOSTILE, "no"), title=HOSTILE, feature_names=names)
    page = render(findings, source=HOSTILE, options=f" --target '{HOSTILE}'")
    read(page)
    assert "<img" not in page
    assert "\x1b" not in page


def test_features_have_their_roles():
    X = np.array([[0.0, 5.0], [1.0, 4.0], [2.0, 5.0], [3.0, 4.0]])
    _, text = read(render(examine(X, [0, 0, 1, 1], feature_names=["dose", "noise"])))
    assert "1 needed" in text
    assert "1 can be left out" in text
    assert re.search(r"dose \S+ needed", text)


def test_command_writes_the_page(capsys, tmp_path):
    X, y = case("separable")
    rows = [",".join([*map(repr, map(float, x)), s]) for x, s in zip(X, y, strict=True)]
    data, out = tmp_path / "patients.csv", tmp_path / "page.html"
    data.write_text("\n".join(["dose,age,bmi,height,weight,outcome", *rows]))
    code, said, err = run(capsys, "report", data, "--target", "outcome", "-o", out)
    assert code == 0
    assert err == ""
    assert "separable" in said
    _, text = read(out.read_text())
    assert "bmi" in text
    assert f"--target outcome --proof proof.json momentron verify proof.json {data}" in text


def test_command_refuses_early(capsys, tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("the data were read")

    monkeypatch.setattr("momentron.cli.report.load_design", never)
    code, out, err = run(capsys, "report", "digits", "-o", tmp_path / "no" / "page.html")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1


def test_exit_codes_are_those_of_check(capsys, tmp_path):
    X, y = case("overlapping")
    np.savez(tmp_path / "data.npz", X=X, y=y)
    code, _, _ = run(capsys, "report", tmp_path / "data.npz", "-o", tmp_path / "page.html")
    assert code == 4
    code, _, _ = run(
        capsys, "report", tmp_path / "data.npz", "-o", tmp_path / "page.html", "--max-time", "1e-9"
    )
    assert code == 5
    read((tmp_path / "page.html").read_text())
