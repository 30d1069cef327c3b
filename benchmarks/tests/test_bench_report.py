"""What the benchmark suite prints: tables, JSON, pictures, growth, and the command line."""

import json
import math
from dataclasses import replace
from functools import partial

import pytest

from benchmarks import cells, chart
from benchmarks.suite import growth, suite_report
from benchmarks.suite.problems import teacher
from benchmarks.suite.solvers import REFERENCE, SOLVERS
from benchmarks.suite.turns import QUICK, Entry, ProblemResult
from benchmarks.tangent_kernel import page
from momentron.views.display.style import picture_of

# ---- the report ----------------------------------------------------------------------------


def result_of(name, own, entries, kind="separable", limit=5.0):
    reference = Entry(REFERENCE, "ok", own, 1e-9, True, runs=(own,), cold=2.0 * own)
    return ProblemResult(name, kind, "1 × 1", 1e-4, limit, 1.0, (reference, *entries))


@pytest.fixture
def results():
    return [
        result_of(
            "first",
            0.1,
            (
                Entry("libsvm", "ok", 0.2, 1e-5),
                Entry("liblinear-1e-4", "ok", 0.05, 0.4),
                Entry("daqp", "failed", note="MemoryError"),
            ),
        ),
        result_of(
            "second",
            0.5,
            (
                Entry("libsvm", "timeout", 10.0, note="killed at 10 s"),
                Entry("piqp", "ok", 0.25, 1e-8, cold=0.5),
                Entry("daqp", "skipped", note="dense only"),
                Entry("quadprog", "skipped", note="dense only"),
            ),
            limit=10.0,
        ),
        result_of("third", 0.5, (Entry("clarabel", "ok", 1.0, math.inf),), kind="witness"),
    ]


def test_summary(results):
    summary = suite_report.summarise(results)
    first, second, third = summary.comparisons
    assert (first.peer, first.ratio, first.classic_reached) == ("libsvm", pytest.approx(2.0), True)
    assert (second.peer, second.ratio) == ("piqp", 0.5)
    assert (second.classic_ratio, second.classic_reached) == (20.0, False)
    assert third.peer is None
    assert math.isnan(third.classic_ratio)
    assert summary.mean_ratio == pytest.approx(1.0)
    assert summary.classic_mean == pytest.approx(math.sqrt(40.0))
    assert summary.classic_mean_reached == pytest.approx(2.0)
    text = suite_report.format_summary(summary)
    assert "2 of 3 problems" in text
    assert (second.cold_peer, second.cold_ratio) == ("piqp", 0.5)
    assert math.isnan(first.cold_ratio)  # nobody else's first call was timed
    assert "second, warm: 0.5 s, piqp 0.25 s, ratio 0.5" in text
    assert "second, cold: 1 s, piqp 0.5 s, ratio 0.5" in text
    assert "none reaches it" in text


def test_an_uncertified_answer_is_no_win():
    result = result_of("late", 0.1, (Entry("libsvm", "ok", 1.0, 1e-5),))
    (uncertified,) = suite_report.summarise(
        [replace(result, entries=(replace(result.reference, certified=False), *result.entries[1:]))]
    ).comparisons
    assert not uncertified.certified
    assert uncertified.ratio == pytest.approx(0.2)  # momentron counts with the limit of 5 s


def test_table(results):
    text = suite_report.format_table(results)
    assert "not run: daqp, quadprog (dense only)" in text
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("  ")}
    assert lines["piqp"][:6] == ["piqp", "0.25", "0.5", "1.0e-08", "no", "0.5"]
    assert lines["libsvm"][:2] == ["libsvm", ">10"]
    assert "failed: MemoryError" in text


def test_json_and_picture(results, tmp_path):
    saved = json.loads(suite_report.as_json(results))
    assert saved["results"][0]["entries"][0]["solver"] == REFERENCE
    assert saved["results"][2]["entries"][1]["error"] is None  # inf is no JSON
    assert "numpy" in saved["environment"]["versions"]
    pytest.importorskip("matplotlib")
    (tmp_path / "bench.png").write_bytes(picture_of("bench.png", suite_report.draw(results)))
    assert (tmp_path / "bench.png").stat().st_size > 1000


# ---- growth, and the command line ----------------------------------------------------------


@pytest.mark.slow
def test_growth_tables():
    assert growth.fitted_exponent([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1.0)
    limits = replace(QUICK, rounds=1, short_rounds=1)
    peers = [SOLVERS["liblinear-1e-4"]]
    table = growth.measure_growth(
        "n", (50, 100), partial(teacher, d=3), peers, limits=limits, say=lambda line: None
    )
    assert all(seconds > 0.0 for seconds in table.seconds[REFERENCE])
    lines = growth.format_growth(table).splitlines()
    assert lines[2] == "| n | momentron | liblinear-1e-4 |" and lines[-1].startswith("| exponent")
    pytest.importorskip("matplotlib")
    assert len(picture_of("growth.png", growth.draw([table, table]))) > 1000
    X, y = teacher(2000, 10)
    memory = growth.measure_memory("teacher", X, y)
    assert memory.allocated > 0
    assert memory.resident >= 0
    assert "2,000 × 10" in growth.format_memory([memory])


def test_command_line():
    import typer
    from typer.testing import CliRunner

    from benchmarks.suite.__main__ import bench

    app = typer.Typer()
    app.command()(bench)
    listing = CliRunner().invoke(app, ["--list"])
    assert listing.exit_code == 0
    assert "mnist-01 " in listing.stdout
    assert "clarabel" in listing.stdout
    unknown = CliRunner().invoke(app, ["--problem", "nothing"])
    assert "is not known" in str(unknown.exception)


def test_rows_of_tangent_kernels_take_the_place_of_older_ones(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\n{page.END}\nafter\n")
    page.write(path, "GPT", 1000, [["EmpiricalNTK", "4.00", "4.00", "9", "", ""]])
    page.write(path, "MLP", 200, [["EmpiricalNTK", "2.00", "2.00", "9", "", ""]])
    page.write(path, "GPT", 200, [["EmpiricalNTK", "1.00", "1.00", "9", "", ""]])
    page.write(path, "GPT", 200, [["EmpiricalNTK", "3.00", "3.00", "9", "", ""]])
    lines = path.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    rows = [line.split(" | ")[:4] for line in lines if "EmpiricalNTK" in line]
    assert rows == [
        ["| GPT", "200", "EmpiricalNTK", "3.00"],
        ["| MLP", "200", "EmpiricalNTK", "2.00"],
        ["| GPT", "1,000", "EmpiricalNTK", "4.00"],
    ]
    path.write_text("no table")
    with pytest.raises(SystemExit, match="has no table between"):
        page.write(path, "GPT", 200, [])


def test_cells_are_written_between_the_marks_of_a_page(tmp_path):
    name = next(name for name, _ in cells.cells() if name.startswith("text"))
    known = {
        f"{name} | momentron": {"seconds": 0.5, "said": "OPTIMAL, gap 1e-04"},
        f"{name} | liblinear": {"seconds": 0.25, "said": "9 iterations"},
    }
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- cells text -->\nold\n<!-- end of cells -->\nafter\n")
    for _ in range(2):
        cells.write_page(path, known)
    lines = path.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    (row,) = [line for line in lines if name in line]
    assert row == f"| {name} | 0.500 | OPTIMAL, gap 1e-04 | liblinear **0.50** |  |"
    assert not [line for line in cells.table(known, "rbf") if name in line]
    path.write_text("no table")
    with pytest.raises(SystemExit, match="has no table between"):
        cells.write_page(path, known)


def test_the_chart_has_a_dot_for_each_row_with_a_peer():
    tables = chart.tables_of(
        "# Page\n\n## Hard\n\n| problem | ratio |\n|---|---|\n"
        "| a | 2.5 |\n| b | **0.5** |\n| c | – |\n\n"
        "## Grid\n\n| cell | peers / ours |\n|---|---|\n| a | libsvm 3.00, onedal **0.25** |\n\n"
        "## Growth\n\n| n | momentron | daqp |\n|---|---|---|\n| 1,000 | 0.1 | 0.2 |\n"
        "| 3,000 | 0.3 | – |\n| exponent | 1.0 | – |\n"
    )
    ratios = {heading: chart.ratios_of(table) for heading, table in tables}
    assert ratios == {"Hard": [2.5, 0.5], "Grid": [0.25], "Growth": []}
    (growth_found,) = chart.growths_of(tables)
    assert growth_found.sizes == (1000, 3000)
    assert growth_found.seconds["momentron"] == [0.1, 0.3]
    assert len(picture_of("ratios.png", chart.draw_ratios(ratios))) > 1000
