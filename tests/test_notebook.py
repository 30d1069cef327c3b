"""A notebook in a real kernel keeps its inline backend, and its pictures are shown."""

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib_inline")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

CELLS = [
    "import matplotlib\nbefore = matplotlib.get_backend()\nbefore",
    "from momentron import max_margin\n"
    "X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [2.0, 4.0]], [0, 0, 1, 1]\n"
    "result = max_margin(X, y)\nresult.plot(X, y);",
    "from momentron.ntk import EvolutionRow, KernelEvolution\n"
    "rows = [EvolutionRow(e, 0.1, 0.2, 0.5, 0.9, 0.9, 1.0, 1.0) for e in (0, 0.5, 2)]\n"
    "table = KernelEvolution(rows)\ntable.plot();",
    "table.plot('evolution.png')\nimport matplotlib.pyplot as plt\nlen(plt.get_fignums())",
    "assert matplotlib.get_backend() == before\nmatplotlib.get_backend()",
]


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


@pytest.mark.slow
def test_a_notebook_shows_its_pictures(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources=resources
    )
    client.execute()
    first, margin, evolution, saved, last = notebook.cells
    assert "inline" in first.outputs[0]["data"]["text/plain"]
    assert "inline" in last.outputs[0]["data"]["text/plain"]
    assert pictures(margin) == 1
    assert pictures(evolution) == 1
    assert pictures(saved) == 0  # a picture that is saved opens nothing
    assert saved.outputs[-1]["data"]["text/plain"] == "0"
    assert (tmp_path / "evolution.png").read_bytes().startswith(b"\x89PNG")
