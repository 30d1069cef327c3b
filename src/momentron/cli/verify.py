"""`momentron verify`: check a proof against the data it is for."""

import json
from pathlib import Path

import typer

from momentron.cli.commands import Source
from momentron.cli.inputs import as_order, load_design
from momentron.cli.output import complain, say
from momentron.data.safefiles import open_regular, require_file
from momentron.errors import InputError
from momentron.separability import Verdict
from momentron.separability.sentences import sentence_on_estimates
from momentron.verify import ProofError
from momentron.verify import verify as verify_proof
from momentron.verify.errors import NotJSON
from momentron.verify.limits import MAX_CHARACTERS, load_proof

REJECTED = 1


def verify(proof: Path, source: Source, order: str | None, max_time: float | None) -> None:
    """Check the proof, and say what it proves."""
    require_file(proof)
    with open_regular(proof) as file:
        content = file.read(MAX_CHARACTERS + 1)  # one too many shows that a file is too long
    design, _ = load_design(source)
    try:
        claim = load_proof(content)
        verify_proof(
            claim,
            design.X,
            design.y,
            order=as_order(order),
            sample_weight=design.sample_weight,
            feature_names=design.feature_names,
            max_time=max_time,
        )
    except NotJSON as error:
        raise InputError(f"{proof} cannot be read: {error}; write the proof again") from None
    except ProofError as error:
        say(f"rejected: {error}")
        raise typer.Exit(REJECTED) from None
    if claim["names"] is not None and design.feature_names is None:
        complain(
            f"warning: {source.title} has no column names, so those in the proof are not compared"
        )
    # under the names that DATA gives its columns
    verdict = Verdict.from_json(json.dumps(claim | {"names": design.feature_names}))
    intercept = "with an intercept" if claim["fit_intercept"] else "without an intercept"
    margin = f"{intercept}, best margin in [{verdict.lower!r}, {verdict.upper!r}]"
    if verdict.kind == "undecided":
        say(f"undecided: for {source.title} only an interval is proven, {margin}")
        raise typer.Exit(REJECTED)
    kind = verdict.kind
    if verdict.family == "ordinal":  # whose signs depend on the order
        kind += f" in the order {' < '.join(verdict.classes)},"
    elif verdict.link in ("log", "logc") and verdict.family == "binomial":
        kind += f" with the event {verdict.classes[1]!r},"
    words = sentence_on_estimates(verdict.estimates) or "nothing is said about estimates"
    say(
        f"verified: {source.title} is {kind} {margin}, in exact arithmetic; in the {verdict.model} "
        f"{words}"
    )
