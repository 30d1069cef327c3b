"""`momentron verify`: check a proof against the data it is for."""

from pathlib import Path
from typing import Annotated

import typer

from momentron.cli.data import (
    ClassesOption,
    ColumnsOption,
    DataArgument,
    DecimalOption,
    DelimiterOption,
    DropNaOption,
    DropOption,
    DummiesOption,
    FailuresOption,
    FormulaOption,
    NaOption,
    TargetOption,
    WeightOption,
    load_data,
    load_formula,
    table_options,
)
from momentron.cli.output import say
from momentron.safefiles import open_regular
from momentron.verify import ProofError
from momentron.verify import verify as verify_proof
from momentron.verify.format import load_proof, read_interval
from momentron.verify.limits import MAX_CHARACTERS

REJECTED = 1


def verify(
    proof: Annotated[Path, typer.Argument(help="A proof written by `momentron check --proof`.")],
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    formula: FormulaOption = None,
    columns: ColumnsOption = None,
    drop: DropOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    na: NaOption = None,
    drop_na: DropNaOption = False,
    dummies: DummiesOption = False,
    weight: WeightOption = None,
    failures: FailuresOption = None,
    max_time: Annotated[
        float | None, typer.Option(help="Seconds after which to give up; no limit by default.")
    ] = None,
) -> None:
    """Check a proof of separability in exact arithmetic, trusting no solver.

    Say of the table what was said to `momentron check`: it must be read in the same way.

    Exit code 0: the proof holds. 1: it does not hold, or its verdict is undecided. 2: a file cannot
    be read.
    """
    with open_regular(proof) as file:
        content = file.read(MAX_CHARACTERS + 1)  # one too many shows that a file is too long
    options = table_options(
        columns, drop, delimiter, decimal, na, drop_na, dummies, weight, failures
    )
    loaded = (
        load_data(data, target, classes, options)
        if formula is None
        else load_formula(data, formula, options)
    )
    try:
        claim = load_proof(content)
        verify_proof(claim, loaded.X, loaded.y, sample_weight=loaded.weights, max_time=max_time)
    except ProofError as error:
        say(f"rejected: {error}")
        raise typer.Exit(REJECTED) from None
    lower, upper = read_interval(claim)
    intercept = "with an intercept" if claim["fit_intercept"] else "without an intercept"
    margin = f"{intercept}, best margin in [{lower!r}, {upper!r}]"
    if claim["kind"] == "undecided":
        say(f"undecided: for {loaded.title} only an interval is proven, {margin}")
        raise typer.Exit(REJECTED)
    say(f"verified: {loaded.title} is {claim['kind']} {margin}, in exact arithmetic")
