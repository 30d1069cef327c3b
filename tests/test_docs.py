"""Every code block of the README and of the documentation runs, and prints what the page shows."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from momentron import verify
from tests.docs_blocks import (
    CODE,
    SHOWN,
    Session,
    agrees,
    blocks_of,
    commands_of,
    missing_extras,
    require_parses,
    run_block,
)

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
BUILT = {"_build", "gallery", "names"}
DOCS = [path for path in (ROOT / "docs").rglob("*.md") if not BUILT & set(path.parts)]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS)]
DIRECTIVES = {"eval-rst", "include", "grid", "grid-item-card", "note", "tip", "warning", "figure"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_blocks_run_and_print_what_the_page_shows(path, tmp_path, monkeypatch):
    blocks = [block for block in blocks_of(path.read_text("utf-8")) if block.is_run]
    if absent := missing_extras(blocks):
        pytest.skip(f"needs {', '.join(absent)}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "88")
    monkeypatch.setenv("MPLBACKEND", "agg")
    session = Session()
    for block in blocks:
        for wanted, got in run_block(session, block):
            assert agrees(wanted, got), (
                f"{name_of(path)}, line {block.start + 1}\n{block.text}\n\n"
                f"the page shows:\n{wanted}\n\nbut this was printed:\n{got}"
            )


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_blocks_say_what_they_are(path):
    text = path.read_text("utf-8")
    assert not re.search(r"^[ ]+```", text, re.MULTILINE), "blocks in lists would not be run"
    for block in blocks_of(text):
        assert block.language in CODE | SHOWN | DIRECTIVES, (
            f"{name_of(path)}, line {block.start + 1}: {block.language!r} is not a language of "
            "blocks here"
        )
        if block.language in CODE and block.reason is not None:
            if block.language == "python":
                compile(block.text, "<page>", "exec")
            else:
                for line, _ in commands_of(block):
                    require_parses(line)


def test_the_proof_on_the_page_about_proofs_is_what_is_written():
    blocks = blocks_of((ROOT / "docs" / "proof-format.md").read_text("utf-8"))
    (shown,) = [block.text for block in blocks if block.language == "json"]
    session = Session()
    for block in blocks:
        if block.is_run:
            run_block(session, block)
    assert json.loads(shown) == json.loads(session.names["verdict"].to_json())
    assert verify(shown, session.names["X"], session.names["y"])


def test_outputs_are_compared_to_the_digits_shown():
    assert agrees("margin 0.7652, 3 rows", "margin 0.7653, 3 rows")
    assert not agrees("margin 0.7652", "margin 0.7655")
    assert agrees("in [...], gap 1e-08", "in [0.1, 0.2], gap 2e-08")
    assert agrees("0.76... of a row\n...", "0.7612 of  a row\nand more")
    assert not agrees("3 rows", "4 rows")
    assert not agrees("3 rows", "3 rows more")


def test_a_wrong_output_is_found():
    page = "```python\nx = 2\nx + 2\n```\n\n```text\n5\n```\n"
    (block,) = blocks_of(page)
    ((wanted, got),) = run_block(Session(), block)
    assert (wanted, got) == ("5", "4")


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 120


def test_version_comes_from_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/momentron/__init__.py"
