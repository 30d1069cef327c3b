"""The page "The paper, line by line": no cell is empty, and every test and object in it exists."""

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "paper" / "line-by-line.md"
HEADINGS = ["paper", "statement", "power", "constant", "tolerance", "code", "test"]
ERRATA = ["paper", "as printed", "as it should be", "does it matter"]
COUNTED = {"1": 1, "2": 3, "3": 10, "4": 1, "5": 1, "A": 1, "B": 12, "C": 13, "D": 2}
NAMED = ["Algorithm 1", "Algorithm 2", *(f"Figure {i}" for i in range(1, 5))]
NAMED += [f"Section {i}" for i in ("1", "1.1", "2", "3", "3.1", "3.2", "3.3", "4", "5.1", "5.2")]
NAMED += ["Section 6", "Section 7", "Appendix E", "Appendix F"]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def tables():
    """(headings, rows) of each table of the page."""
    found = []
    lines = PAGE.read_text("utf-8").splitlines()
    for place, line in enumerate(lines):
        if line.startswith("|---"):
            rows = []
            for row in lines[place + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append(cells(row))
            found.append((cells(lines[place - 1]), rows))
    return found


STATEMENTS = [row for headings, rows in tables() if headings == HEADINGS for row in rows]
WORDS = re.compile(r"`([^`]+)`")


def name_of(row):
    return f"{row[0]}: {row[1][:40]}"


def test_every_table_is_of_a_kind_that_is_known():
    assert [headings for headings, _ in tables()] == [HEADINGS] * 5 + [ERRATA]
    assert len(STATEMENTS) > 70


def test_no_cell_is_empty():
    for headings, rows in tables():
        for row in rows:
            assert len(row) == len(headings), row
            shown = zip(headings, row, strict=True)
            bare = [heading for heading, cell in shown if not cell.strip(" —-–")]
            assert set(bare) <= {"constant", "tolerance", "power"}, row
            assert not {"constant", "tolerance"} <= set(bare), row


def test_everything_that_the_paper_counts_is_there():
    places = " ".join(row[0] for row in STATEMENTS)
    numbers = set(re.findall(r"(?:\(|Theorem |Lemma |Proposition )([1-9A-D]\.\d+)", places))
    wanted = {f"{part}.{i}" for part, most in COUNTED.items() for i in range(1, most + 1)}
    assert numbers == wanted
    labels = {row[0] for row in STATEMENTS}
    assert not set(NAMED) - labels


@functools.cache
def functions_in(file):
    paths = [ROOT / folder / f"{file}.py" for folder in ("tests", "paper/tests")]
    found = [path for path in paths if path.is_file()]
    if not found:
        return set()
    body = ast.parse(found[0].read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", STATEMENTS, ids=name_of)
def test_named_tests_exist(row):
    named = WORDS.findall(row[6])
    assert named or row[6].startswith("none: "), "name a test, or say why there is none"
    for name in named:
        file, _, function = name.partition(".")
        assert function in functions_in(file), f"{name} is not a test"


def resolved(dotted):
    """The object of a dotted name: a module, or what hangs from one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is None or not dotted.startswith(error.name):
                pytest.skip(f"needs {error.name}")
            continue
        return functools.reduce(getattr, parts[count:], thing)
    raise AssertionError(f"{dotted} is not a module")


@pytest.mark.parametrize("row", STATEMENTS, ids=name_of)
def test_named_objects_exist(row):
    named = WORDS.findall(row[5])
    assert named or row[5] == "not in the library"
    for name in named:
        assert name.split(".")[0] in ("momentron", "paper")
        assert resolved(name) is not None


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / target).is_file(), target


KINDS = {
    "Theorem": {"3.1", "4.1", "5.1", "B.12"},
    "Proposition": {"3.7"},
    "Lemma": {"3.2", "3.4", "3.5", "3.6", "A.1", "B.3", "B.4", "C.2", "C.3", "C.7", "C.11", "C.12"}
    | {"D.1", "D.2"},
    "Algorithm": {"1", "2"},
}
CITED = re.compile(r"\b(Theorem|Proposition|Lemma|Algorithm)s? ([0-9A-F](?:\.[0-9]+)*)")


def test_citations_are_of_what_the_paper_has():
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "mirror").glob("*.py")]
    files += (ROOT / "docs" / "paper").glob("*.md")
    files += [ROOT / "docs" / "explanations" / "dual-view.md"]
    wrong, seen = [], 0
    for file in files:
        for kind, number in CITED.findall(file.read_text("utf-8")):
            seen += 1
            if number not in KINDS[kind]:
                wrong.append(f"{file.relative_to(ROOT)}: {kind} {number}")
    assert not wrong, "\n".join(wrong)
    assert seen > 50
    counted = set().union(*KINDS.values()) - KINDS["Algorithm"]
    assert counted <= {f"{part}.{i}" for part, most in COUNTED.items() for i in range(1, most + 1)}


def test_the_page_can_be_wrong():
    assert "test_no_such_thing" not in functions_in("test_theorems")
    with pytest.raises(AttributeError):
        resolved("momentron.solvers.NoSuchSolver")
