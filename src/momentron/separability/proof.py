"""Proofs as dicts that JSON writes without loss (docs/proof-format.md)."""

from typing import Any

import numpy as np

from momentron.separability.basis import ExactWeights
from momentron.separability.cone import Cone
from momentron.verify.family import Family
from momentron.verify.format import VERSION


def build_proof(
    cone: Cone,
    kind: str,
    *,
    w: list[int] | None = None,
    boundary: list[ExactWeights] | None = None,
    conflict: ExactWeights | None = None,
    dual: ExactWeights | None = None,
    basis: ExactWeights | None = None,
    lower: float = 0.0,
    upper: float = 0.0,
    complete: bool = True,
) -> dict[str, Any]:
    """A proof with the fields of docs/proof-format.md."""
    data = cone.data
    described = _described(data.n, data.d, cone.classes, data.decimals, data.left_out)
    return {
        **_header(cone.family, described | {"sha256": data.digest()}),
        "kind": kind,
        "complete": complete and kind != "undecided",
        "margin": {"lower": float(lower).hex(), "upper": float(upper).hex()},
        "weights": sparse_vector(cone, w or []),
        "boundary": [_group(cone, part) for part in boundary or []],
        "conflict": [_group(cone, conflict, labels=True)] if conflict is not None else [],
        "dual": [_group(cone, dual)] if dual is not None else [],
        "basis": named_pairs(cone, basis.pairs) if basis is not None else None,
        "estimates": None,
        "names": None,
        "class_rows": _class_rows(cone, boundary or []),
    }


def unread_proof(
    n: int, d: int, classes: list[str], family: Family, decimals: str
) -> dict[str, Any]:
    """No proof of anything: the time ended before the data were read, so it cannot name them."""
    return {
        **_header(family, _described(n, d, classes, decimals, [])),
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


def _class_rows(cone: Cone, boundary: list[ExactWeights]) -> dict[str, Any]:
    """How many rows each class has, and the class of each boundary row, by increasing row."""
    is_on = np.zeros(cone.n, bool)
    for group in boundary:
        is_on[cone.example[group.pairs]] = True
    counts = np.bincount(cone.codes + 1, minlength=cone.k + 1)  # rows left out have the code −1
    return {"counts": counts[1:].tolist(), "boundary": cone.codes[is_on].tolist()}


def _header(family: Family, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": "momentron-proof",
        "version": VERSION,
        "family": family.name,
        "link": family.link,
        "fit_intercept": family.fit_intercept,
        "data": data,
    }


def _described(
    n: int, d: int, classes: list[str], decimals: str, left_out: list[int]
) -> dict[str, Any]:
    return {
        "rows": n,
        "features": d,
        "classes": classes,
        "decimals": decimals,
        "left_out": left_out,
        "sha256": None,
    }


def sparse_vector(cone: Cone, w: list[int]) -> dict[str, Any]:
    """w for the user's columns: the weights that are not zero, with their coordinates."""
    kept = [(c, v) for c, v in enumerate(w) if v]
    coordinates = user_coordinates(cone)
    return {
        "coordinates": [int(coordinates[c]) for c, _ in kept],
        "numbers": write_numbers([v for _, v in kept]),
    }


def user_coordinates(cone: Cone) -> np.ndarray:
    """For each coordinate of the cone, which leaves empty columns out, that of all columns."""
    d, n_intercepts = cone.data.d, cone.family.n_intercepts
    columns = np.append(cone.data.used.astype(np.int64), d + np.arange(n_intercepts))
    blocks = np.arange(cone.family.n_blocks)[:, None] * (d + n_intercepts)
    return (blocks + columns).ravel()


def write_numbers(values: list[int]) -> list[str]:
    """Whole numbers, up to a common factor: as hexadecimal floats where these hold them exactly."""
    top = max((abs(v).bit_length() for v in values), default=0)
    try:
        floats = [v / (1 << top) for v in values]
    except OverflowError:
        return [hex(v) for v in values]
    if all(_is_exact(f, v, top) for f, v in zip(floats, values, strict=True)):
        return [f.hex() for f in floats]
    return [hex(v) for v in values]


def _is_exact(value: float, integer: int, bits: int) -> bool:
    numerator, denominator = value.as_integer_ratio()
    return numerator << bits == integer * denominator


def named_pairs(cone: Cone, pairs: np.ndarray) -> dict[str, Any]:
    """Pairs by row and class."""
    return {"rows": cone.example[pairs].tolist(), "others": cone.other[pairs].tolist()}


def _group(cone: Cone, weights: ExactWeights, *, labels: bool = False) -> dict[str, Any]:
    named = named_pairs(cone, weights.pairs)
    others = named["others"]
    if cone.family.has_one_pair:
        del named["others"]  # with two classes the other one is known
    group: dict[str, Any] = {
        "denominator": hex(weights.denominator),
        **named,
        "numerators": [hex(v) for v in weights.numerators],
    }
    if labels:
        group["labels"] = [cone.data.labels[i] for i in named["rows"]]
        group["against"] = [cone.classes[c] for c in others]
    return group
