"""`momentron verify`: check a proof against the data it speaks of."""

from pathlib import Path
from typing import Annotated

import typer

from momentron.cli.data import ClassesOption, DataArgument, TargetOption, load_data
from momentron.cli.output import say
from momentron.safefiles import open_regular
from momentron.separability.canonical import LIMIT, ProofError, interval, load_proof
from momentron.verify import verify as verify_proof

REJECTED = 1


def verify(
    proof: Annotated[Path, typer.Argument(help="A proof that `momentron check --proof` wrote.")],
    data: DataArgument = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    max_time: Annotated[
        float | None, typer.Option(help="Seconds after which to give up; no limit by default.")
    ] = None,
) -> None:
    """Check a proof of separability in exact arithmetic, trusting no solver.

    Exit code 0: the proof holds. 1: it does not, or is of an undecided verdict. 2: a file cannot be
    read.
    """
    with open_regular(proof) as file:
        content = file.read(LIMIT + 1)  # one more than is allowed, so that longer files are seen
    loaded = load_data(data, target, classes)
    try:
        claim = load_proof(content)
        verify_proof(claim, loaded.X, loaded.y, max_time=max_time)
    except ProofError as error:
        say(f"rejected: {error}")
        raise typer.Exit(REJECTED) from None
    lower, upper = interval(claim)
    intercept = "with an intercept" if claim["fit_intercept"] else "without an intercept"
    margin = f"{intercept}, best margin in [{lower!r}, {upper!r}]"
    if claim["kind"] == "undecided":
        say(f"undecided: the proof for {loaded.title} proves nothing but the interval: {margin}")
        raise typer.Exit(REJECTED)
    say(f"verified: {loaded.title} is {claim['kind']} {margin}, in exact arithmetic")
