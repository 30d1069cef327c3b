"""`momentron check`: are the classes linearly separable, and why."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentron.cli.inputs import Loaded, OrderOption, Source, as_order, load_data, reads_data
from momentron.cli.output import answer, progress, say_json
from momentron.cli.verdict_text import print_summary
from momentron.data.safefiles import require_writable
from momentron.separability import FeatureRole, Verdict, check_separability, feature_roles
from momentron.separability.class_pairs import most_separated_first

EXIT_CODES = {"separable": 0, "quasi-separable": 3, "overlapping": 4, "undecided": 5}
# what a summary says in the verdict's own words
SAME = ["kind", "sentence", "classes", "family", "link", "model", "lower", "upper", "arithmetic"]
SAME += ["decimals", "caveat", "reason", "seconds"]


@reads_data()
def check(
    source: Source,
    family: Annotated[
        str | None,
        typer.Option(
            help="binomial, multinomial, ordinal, poisson, negative-binomial or truncated-poisson; "
            "binomial or multinomial by default."
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            help="logit (the default), probit, cloglog, loglog, cauchit, cdf; log or logc of "
            "binomial models; log of counts."
        ),
    ] = None,
    order: OrderOption = None,
    intercept: Annotated[bool, typer.Option(help="Fit an intercept.")] = True,
    decimals: Annotated[
        str, typer.Option(help="Floats as the shortest decimals that print as them, or binary.")
    ] = "shortest",
    max_time: Annotated[float | None, typer.Option(help="Time budget in seconds.")] = None,
    proof: Annotated[Path | None, typer.Option(help="Write the proof to this JSON file.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The class that multinomial contrasts are against; the class that is not the "
            "event of the links log and logc."
        ),
    ] = None,
    features: Annotated[
        bool, typer.Option(help="Find the features without which the classes are not separable.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide whether a hyperplane separates the classes, and prove it in exact arithmetic.

    Exit code 0: separable. 3: quasi-separable. 4: overlapping. 5: undecided. 2: bad input.
    """
    if proof is not None:
        require_writable(proof)
    loaded = load_data(source)
    with progress("deciding separability", max_time=max_time, quiet=as_json):
        verdict = check_separability(
            loaded.design,
            fit_intercept=intercept,
            family=family,
            link=link,
            order=as_order(order),
            decimals=decimals,
            reference=reference,
            max_time=max_time,
        )
    roles: list[FeatureRole] = []
    if features and verdict.kind in ("separable", "quasi-separable"):
        with progress("finding the features needed", max_time=max_time, quiet=as_json):
            roles = feature_roles(verdict, loaded.design.X, loaded.design.y, max_time=max_time)
    summary = summarise(loaded, verdict, roles)
    show = partial(say_json if as_json else print_summary, summary)
    answer(show, proof, verdict.to_json(), word=None if as_json else "saved")
    raise typer.Exit(EXIT_CODES[verdict.kind])


def summarise(loaded: Loaded, verdict: Verdict, roles: list[FeatureRole]) -> dict[str, Any]:
    """Everything the command reports, as plain numbers."""
    n_separated, n_observations, noun = verdict.observations
    design, is_quasi = loaded.design, verdict.kind == "quasi-separable"
    is_joint, is_counted = len(verdict.classes) > 2, noun == "observations"
    row_names = None if design.given is None else design.given.names
    order = f"order {' < '.join(verdict.classes)}"  # which nothing else shows
    pairs = most_separated_first(verdict.class_pairs) if is_joint else []
    return {name: getattr(verdict, name) for name in SAME} | {
        "data": loaded.title,
        "rows": verdict.n_rows,
        "features": design.X.shape[1],
        "observations": n_observations if is_counted else None,
        "separated_observations": n_separated if is_counted else None,
        "notes": list(verdict.notes),
        "in_a_paper": verdict.paper_sentence,
        "estimates": [
            {"class": e.label, "feature": e.feature, "estimate": e.estimate, "reason": e.reason}
            for e in verdict.estimates
        ],
        "boundary_rows": verdict.boundary_rows.tolist() if is_quasi else [],
        "separated_rows": verdict.separated_rows.tolist(),
        "boundary_pairs": list(map(list, verdict.boundary_pairs)) if is_quasi and is_joint else [],
        "class_pairs": [asdict(pair) for pair in pairs],
        "conflict": [[r.row, r.label, r.against, r.weight] for r in verdict.conflict],
        "read": [*loaded.taken, order] if verdict.family == "ordinal" else loaded.taken,
        "constant": _constant(loaded, verdict),
        "row_names": None if row_names is None else [str(name) for name in row_names],
        "feature_names": design.feature_names,
        "direction": _direction(loaded, verdict) if is_quasi and not is_joint else [],
        "needed_features": [role.feature for role in roles if role.is_needed],
        "spare_features": [role.feature for role in roles if role.is_needed is False],
    }


def _column_names(loaded: Loaded) -> list[str]:
    design = loaded.design
    return design.feature_names or [f"column {i}" for i in range(design.X.shape[1])]


def _constant(loaded: Loaded, verdict: Verdict) -> list[str]:
    """The columns that are the same in every row, which repeat the intercept if there is one."""
    if not verdict.proof["fit_intercept"]:
        return []
    X = loaded.design.X
    least, most = X.min(axis=0), X.max(axis=0)
    least, most = (np.ravel(v.toarray() if hasattr(v, "toarray") else v) for v in (least, most))
    names = _column_names(loaded)
    return [names[i] for i in np.flatnonzero(least == most).tolist()]


def _direction(loaded: Loaded, verdict: Verdict) -> list[list[Any]]:
    """The features along which no row is on the wrong side, with their weights, largest first."""
    weights = np.ravel(verdict.coef)
    used = np.flatnonzero(weights)
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    names = _column_names(loaded)
    return [[names[i], float(weights[i] / np.abs(weights).max())] for i in order.tolist()]
