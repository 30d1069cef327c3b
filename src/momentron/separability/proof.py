"""A proof as a dict that JSON writes without loss."""

from typing import Any

import numpy as np

from momentron.separability.correction import Weights
from momentron.separability.rows import PairRows

DENSE_ENTRIES = 1 << 26  # of X, zeros among them: half a GB to hash
DENSE_WEIGHTS = 1 << 18


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
    """The fields of docs/proof-format.md."""
    examples, data = rows.examples, rows.examples.data
    version = version_for(data.n, data.d, len(examples.classes))
    return {
        "format": "momentron-proof",
        "version": version,
        "kind": kind,
        "complete": complete and kind != "undecided",
        "fit_intercept": bool(examples.lift),
        "data": {
            "rows": data.n,
            "features": data.d,
            "classes": examples.classes,
            "sha256": data.digest(version),
        },
        "margin": {"lower": float(lower).hex(), "upper": float(upper).hex()},
        "weights": _weights(rows, w or [], version),
        "plane": [_group(rows, part) for part in plane or []],
        "story": [_group(rows, story, labels=True)] if story is not None else [],
        "dual": [_group(rows, dual)] if dual is not None else [],
        "basis": _pairs(rows, basis) if basis is not None else None,
    }


def unread_proof(n: int, d: int, labels: list[str], *, fit_intercept: bool) -> dict[str, Any]:
    """No proof of anything: the time ended before the data were read, so it cannot name them."""
    return {
        "format": "momentron-proof",
        "version": 1,
        "kind": "undecided",
        "complete": False,
        "fit_intercept": fit_intercept,
        "data": {"rows": n, "features": d, "classes": sorted(set(labels)), "sha256": None},
        "margin": {"lower": (0.0).hex(), "upper": "inf"},
        "weights": [],
        "plane": [],
        "story": [],
        "dual": [],
        "basis": None,
    }


def version_for(n: int, d: int, k: int) -> int:
    """2 for data so large that zeros must not be written, else 1, which all readers know."""
    return 2 if n * d > DENSE_ENTRIES or d * (k - 1) > DENSE_WEIGHTS else 1


def _weights(rows: PairRows, w: list[int], version: int) -> Any:
    """w for the user's columns: all of them, or those that are not zero with their coordinates."""
    examples, d = rows.examples, rows.examples.data.d
    columns = np.append(examples.columns, np.full(examples.lift, d))
    blocks = np.arange(len(w) // examples.width)[:, None] * (d + examples.lift)
    coordinates = (blocks + columns).ravel().tolist()
    if version == 2:
        kept = [(c, v) for c, v in zip(coordinates, w, strict=True) if v]
        numbers = write_numbers([v for _, v in kept])
        return {"coordinates": [c for c, _ in kept], "numbers": numbers}
    full = [0] * (len(blocks) * (d + examples.lift))
    for c, v in zip(coordinates, w, strict=True):
        full[c] = v
    return write_numbers(full)


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
