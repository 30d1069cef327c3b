"""Proofs as dicts that JSON writes without loss (docs/proof-format.md)."""

from typing import Any

import numpy as np

from momentron.separability.basis import ExactWeights
from momentron.separability.pairs import Pairs

DENSE_ENTRIES = 1 << 26  # of X, zeros among them: half a GB to hash
DENSE_WEIGHTS = 1 << 18


def build_proof(
    pairs: Pairs,
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
    data = pairs.data
    version = version_for(data.n, data.d, pairs.k)
    return {
        "format": "momentron-proof",
        "version": version,
        "kind": kind,
        "complete": complete and kind != "undecided",
        "fit_intercept": pairs.fit_intercept,
        "data": _described(data.n, data.d, pairs.classes, data.digest(version)),
        "margin": {"lower": float(lower).hex(), "upper": float(upper).hex()},
        "weights": _weights(pairs, w or [], version),
        "boundary": [_group(pairs, part) for part in boundary or []],
        "conflict": [_group(pairs, conflict, labels=True)] if conflict is not None else [],
        "dual": [_group(pairs, dual)] if dual is not None else [],
        "basis": _named(pairs, basis) if basis is not None else None,
    }


def unread_proof(n: int, d: int, labels: list[str], *, fit_intercept: bool) -> dict[str, Any]:
    """No proof of anything: the time ended before the data were read, so it cannot name them."""
    return {
        "format": "momentron-proof",
        "version": 1,
        "kind": "undecided",
        "complete": False,
        "fit_intercept": fit_intercept,
        "data": _described(n, d, sorted(set(labels)), None),
        "margin": {"lower": (0.0).hex(), "upper": "inf"},
        "weights": [],
        "boundary": [],
        "conflict": [],
        "dual": [],
        "basis": None,
    }


def _described(n: int, d: int, classes: list[str], digest: str | None) -> dict[str, Any]:
    return {"rows": n, "features": d, "classes": classes, "sha256": digest}


def version_for(n: int, d: int, k: int) -> int:
    """2 for data so large that zeros must not be written, else 1, which all readers know."""
    return 2 if n * d > DENSE_ENTRIES or d * (k - 1) > DENSE_WEIGHTS else 1


def _weights(pairs: Pairs, w: list[int], version: int) -> Any:
    """w for the user's columns: all of them, or those that are not zero with their coordinates."""
    d, width = pairs.data.d, pairs.data.d + pairs.fit_intercept
    columns = np.append(pairs.data.used, [d] if pairs.fit_intercept else [])
    blocks = np.arange(len(w) // pairs.width)[:, None] * width
    coordinates = (blocks + columns.astype(np.int64)).ravel().tolist()
    if version == 2:
        kept = [(c, v) for c, v in zip(coordinates, w, strict=True) if v]
        numbers = write_numbers([v for _, v in kept])
        return {"coordinates": [c for c, _ in kept], "numbers": numbers}
    full = [0] * (len(blocks) * width)
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


def _named(pairs: Pairs, weights: ExactWeights) -> dict[str, Any]:
    return {
        "rows": pairs.example[weights.pairs].tolist(),
        "others": pairs.other[weights.pairs].tolist(),
    }


def _group(pairs: Pairs, weights: ExactWeights, *, labels: bool = False) -> dict[str, Any]:
    named = _named(pairs, weights)
    others = named["others"]
    if pairs.k == 2:
        del named["others"]  # with two classes the other one is known
    group: dict[str, Any] = {
        "denominator": hex(weights.denominator),
        **named,
        "numerators": [hex(v) for v in weights.numerators],
    }
    if labels:
        group["labels"] = [pairs.classes[c] for c in pairs.own[weights.pairs].tolist()]
        group["against"] = [pairs.classes[c] for c in others]
    return group
