"""Proofs as dicts that JSON writes without loss (docs/proof-format.md)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentron.separability.cone import Cone
from momentron.separability.exact_weights import ExactWeights
from momentron.separability.family import Family
from momentron.separability.interval import Interval
from momentron.solvers.rational import primitive
from momentron.verify.limits import VERSION


def empty_proof(shape: tuple[int, ...], family: Family, decimals: str) -> dict[str, Any]:
    """No proof of anything: if time ends before the data are read it cannot even name them."""
    return {
        "format": "momentron-proof",
        "version": VERSION,
        "family": family.name,
        "link": family.link,
        "fit_intercept": family.fit_intercept,
        "data": {
            "rows": shape[0],
            "features": shape[1],
            "classes": family.classes,
            "decimals": decimals,
            "left_out": [],
            "sha256": None,
        },
        "kind": "undecided",
        "complete": False,
        "margin": {"lower": (0.0).hex(), "upper": "inf"},
        "weights": {"coordinates": [], "numbers": []},
        "boundary": [],
        "conflict": [],
        "dual": [],
        "basis": None,
        "estimates": None,
        "names": None,
        "class_rows": None,
    }


def build_proof(
    cone: Cone,
    kind: str,
    found: Interval,
    *,
    complete: bool = True,
    boundary: Sequence[ExactWeights] = (),
    conflict: ExactWeights | None = None,
    basis: np.ndarray | None = None,
) -> dict[str, Any]:
    """A proof with the fields of docs/proof-format.md."""
    table = cone.table
    proof = empty_proof((table.n, table.d), cone.family, table.decimals)
    proof["data"] |= {"left_out": table.left_out, "sha256": table.sha256}
    is_on = np.zeros(cone.n, bool)  # the boundary
    for group in boundary:
        is_on[cone.example[group.pairs]] = True
    counts = np.bincount(cone.codes + 1, minlength=cone.k + 1)  # rows left out have the code −1
    return proof | {
        "kind": kind,
        "complete": complete and kind != "undecided",
        "margin": {"lower": found.lower.hex(), "upper": found.upper.hex()},
        "weights": _sparse_vector(cone, found.w),
        "boundary": [_group(cone, part) for part in boundary],
        "conflict": [_group(cone, conflict, labels=True)] if conflict is not None else [],
        "dual": [_group(cone, found.dual)] if found.dual is not None else [],
        "basis": named_pairs(cone, basis) if basis is not None else None,
        "class_rows": {"counts": counts[1:].tolist(), "boundary": cone.codes[is_on].tolist()},
    }


def _sparse_vector(cone: Cone, w: Sequence[int]) -> dict[str, Any]:
    """w for the user's columns, up to a factor: the weights that are not zero."""
    d, n_intercepts = cone.table.d, cone.family.n_intercepts
    columns = np.append(cone.table.used.astype(np.int64), d + np.arange(n_intercepts))
    blocks = np.arange(cone.family.n_blocks)[:, None] * (d + n_intercepts)
    kept = [c for c, v in enumerate(w) if v]
    numbers = primitive([w[c] for c in kept])
    return {
        "coordinates": (blocks + columns).ravel()[kept].tolist(),
        "numbers": [hex(v) for v in numbers],
    }


def named_pairs(cone: Cone, pairs: np.ndarray) -> dict[str, Any]:
    """Pairs by row and class."""
    return {"rows": cone.example[pairs].tolist(), "others": cone.other[pairs].tolist()}


def _group(cone: Cone, weights: ExactWeights, *, labels: bool = False) -> dict[str, Any]:
    named = named_pairs(cone, weights.pairs)
    others = named["others"]
    if cone.family.name == "binomial" and cone.family.is_classifier:
        del named["others"]  # with two classes the other one is known
    group: dict[str, Any] = {
        "denominator": hex(weights.denominator),
        **named,
        "numerators": [hex(v) for v in weights.numerators],
    }
    if labels:
        group["labels"] = [cone.table.labels[i] for i in named["rows"]]
        group["against"] = [cone.classes[c] for c in others]
    return group
