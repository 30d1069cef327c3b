"""`--method module:Class`: solvers of one's own on the command line."""

import sys

import pytest
from command_line import run

from momentron.cli.inputs import named_solver
from momentron.errors import InputError
from momentron.solvers import Momentum

MODULE = """
from momentron.solvers import Momentum, NormalizedGradient, Solver

half = NormalizedGradient(step=0.5)
number = 3


class Mine(Momentum):
    name = "mine"


class Greedy(Momentum):
    def __init__(self, appetite):
        super().__init__()


class Unfinished(Solver):
    def init(self, problem, options=None):
        return None
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """Modules in the working directory, which no other test has imported."""
    (tmp_path / "own_solvers.py").write_text(MODULE)
    (tmp_path / "broken_solvers.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_solvers", raising=False)


def test_a_name_a_class_and_an_object():
    assert isinstance(named_solver("momentum"), Momentum)
    assert named_solver("own_solvers:Mine").name == "mine"
    assert named_solver("own_solvers:half").name == "normalized-gradient"
    assert named_solver("momentron.solvers:Momentum").name == "momentum"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("magic", "is not known; choose one of auto, .* as module:Class"),
        ("own_solvers:", "is not known"),
        ("nowhere:Mine", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("broken_solvers:Mine", "cannot be imported: ZeroDivisionError"),
        ("own_solvers:Mime", "has no 'Mime'; its solvers are: half, Mine, Greedy, Unfinished"),
        ("own_solvers:number", "is an object of type int; it must be a subclass"),
        ("own_solvers:Greedy", "cannot be created without arguments: .*appetite"),
        ("own_solvers:Unfinished", "is not complete: it does not define candidates, step"),
    ],
)
def test_mistakes_are_named(method, message):
    with pytest.raises(InputError, match=message):
        named_solver(method)


def test_race_and_fit_take_them(capsys):
    mine = ["digits", "--classes", "3", "8", "--method", "own_solvers:Mine"]
    raced = run(capsys, "race", *mine, "--method", "momentum", "--passes", "20")
    assert raced.code == 0
    lines = [line.split() for line in raced.out.splitlines()]
    rows = {line[0]: line[1:] for line in lines if line}
    assert rows["passes"] == ["10", "20"]
    assert rows["own_solvers:Mine"] == rows["momentum"]
    fitted = run(capsys, "fit", *mine, "--max-iter", "5")
    assert fitted.code == 1
    assert "mine, 5 iterations" in fitted.out
    refused = run(capsys, "fit", "digits", "--method", "own_solvers:Mime")
    assert refused.code == 2
    assert "its solvers are" in refused.err
