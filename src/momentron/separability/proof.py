"""A proof as a dict that JSON writes without loss."""

from typing import Any

from momentron.separability.correction import Weights
from momentron.separability.rows import PairRows


def build_proof(
    rows: PairRows,
    kind: str,
    *,
    w: list[int] | None = None,
    plane: list[Weights] | None = None,
    story: Weights | None = None,
    dual: Weights | None = None,
    basis: Weights | None = None,
    lower: float = 0.0,
    upper: float = 0.0,
    complete: bool = True,
) -> dict[str, Any]:
    """The fields of docs/proof-format.md, version 1."""
    examples = rows.examples
    n, d = examples.shape
    return {
        "format": "momentron-proof",
        "version": 1,
        "kind": kind,
        "complete": complete and kind != "undecided",
        "fit_intercept": bool(examples.lift),
        "data": {"rows": n, "features": d, "classes": examples.classes, "sha256": examples.digest},
        "margin": {"lower": float(lower).hex(), "upper": float(upper).hex()},
        "weights": write_numbers(w or []),
        "plane": [_group(rows, part) for part in plane or []],
        "story": [_group(rows, story, labels=True)] if story is not None else [],
        "dual": [_group(rows, dual)] if dual is not None else [],
        "basis": _pairs(rows, basis) if basis is not None else None,
    }


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


def _pairs(rows: PairRows, weights: Weights) -> dict[str, Any]:
    return {
        "rows": rows.example[weights.pairs].tolist(),
        "others": rows.other[weights.pairs].tolist(),
    }


def _group(rows: PairRows, weights: Weights, *, labels: bool = False) -> dict[str, Any]:
    group: dict[str, Any] = {
        "denominator": hex(weights.denominator),
        **_pairs(rows, weights),
        "numerators": [hex(v) for v in weights.numerators],
    }
    if len(rows.examples.classes) == 2:
        del group["others"]  # with two classes the other one is known
    if labels:
        classes, codes = rows.examples.classes, rows.examples.codes
        group["labels"] = [classes[c] for c in codes[rows.example[weights.pairs]].tolist()]
        group["against"] = [classes[c] for c in rows.other[weights.pairs].tolist()]
    return group
