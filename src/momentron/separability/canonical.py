"""What a proof speaks of, as read: its JSON, the data's canonical form, rows of whole numbers.

Nothing here solves anything; the verifier reads proofs and data through this module alone.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from momentron.errors import InputError

LIMIT = 1 << 27  # characters of a proof: MNIST's threes against fives need 2^23
DIGITS = 1 << 16  # hexadecimal digits of a number: bounds the work that a hostile proof can ask for
BLOCK_ENTRIES = 1 << 19  # 4 MB of float64
Pairs = dict[tuple[int, int], int]  # (row, other class) → numerator of its weight


class ProofError(InputError):
    """The proof does not hold for these data, or is no proof: says which row, or what, fails."""


def load_proof(proof: Any) -> dict[str, Any]:
    """The proof as a dict: JSON of bounded length and known version."""
    if isinstance(proof, str | bytes):
        if len(proof) > LIMIT:
            raise ProofError(f"the proof has {len(proof)} characters; at most {LIMIT} are read")
        try:
            proof = json.loads(proof)
        except (ValueError, RecursionError) as error:
            raise ProofError(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(proof, dict) or proof.get("format") != "momentron-proof":
        raise ProofError("not a proof: its format field must say momentron-proof")
    if proof.get("version") != 1:
        raise ProofError(f"format version {proof.get('version')!r}; only 1 is known here")
    return proof


def blocks(X: Any) -> Iterator[np.ndarray]:
    """The rows of X, dense or sparse, as dense float64 blocks of a few MB, without −0.0."""
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        yield np.asarray(part.toarray() if hasattr(X, "tocsr") else part, "<f8", order="C") + 0.0


def label_texts(y: Any) -> list[str]:
    """The labels as text: 3, 3.0 and "3" are the same."""
    labels = np.asarray(y).ravel().tolist()
    return [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in labels]


def fingerprint(X: Any, labels: list[str]) -> tuple[str, int]:
    """(SHA-256 of the canonical form, E): all of X is whole in units of 2^E, E ≤ 0.

    The canonical form is the line "momentron-data 1", the line "n d", the entries of X row by row
    as little-endian float64 without −0.0, and for each label its length in UTF-8 bytes, a colon,
    the label and a line feed. It is the same for dense, sparse, float32 and float64 storage.
    """
    n, d = X.shape if hasattr(X, "tocsr") else np.shape(X)
    if n != len(labels):
        raise ValueError(f"X has {n} rows and y has {len(labels)} labels; they must agree")
    digest, unit = hashlib.sha256(f"momentron-data 1\n{n} {d}\n".encode()), 0
    for block in blocks(X):
        if not np.isfinite(block).all():
            raise ValueError("X contains NaN or infinity; every entry must be finite")
        digest.update(block.data)
        unit = min(unit, int(np.frexp(block)[1].min(where=block != 0, initial=53)) - 53)
    for text in labels:
        digest.update(f"{len(text.encode())}:{text}\n".encode())
    return digest.hexdigest(), unit


def whole_rows(X: Any, unit: int, lift: int) -> Iterator[tuple[list[int], list[int]]]:
    """Each row as (columns, integers in units of 2^unit), with a last column of 1 if lifted."""
    for block in blocks(X):
        mantissas, exponents = np.frexp(block)
        integers, shifts = (mantissas * 2.0**53).astype(np.int64), exponents - (53 + unit)
        for z, m, e in zip(block != 0, integers, shifts, strict=True):
            values = [a << b for a, b in zip(m[z].tolist(), e[z].tolist(), strict=True)]
            yield [*np.flatnonzero(z).tolist(), *[z.size] * lift], values + [1 << -unit] * lift


def number(text: str) -> int | float:
    """A hexadecimal float, such as "0x1.8p+1", or a hexadecimal integer, exactly."""
    return float.fromhex(text) if "p" in text or "inf" in text else integer(text)


def integer(text: str) -> int:
    """A hexadecimal integer of bounded length."""
    if len(text) > DIGITS:
        raise ProofError(f"a number has {len(text)} digits; at most {DIGITS} are read")
    return int(text, 16)


def whole(texts: list[str]) -> list[int]:
    """Numbers times the least power of two that makes all of them whole."""
    ratios = [number(text).as_integer_ratio() for text in texts]
    common = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def read_pairs(group: dict[str, Any], codes: list[int], k: int) -> tuple[Pairs, int]:
    """(numerators by pair, denominator) of a group of weights: all positive, each pair once."""
    rows, denominator = group["rows"], integer(group["denominator"])
    others = group["others"] if k > 2 else [1 - codes[i] for i in rows]
    numerators = [integer(text) for text in group["numerators"]]
    pairs = dict(zip(zip(rows, others, strict=True), numerators, strict=True))
    for (i, j), numerator in pairs.items():
        if i < 0 or not 0 <= j < k or j == codes[i] or min(numerator, denominator) < 1:
            raise ProofError(f"row {i}, class {j}: no such pair, or a weight that is not positive")
    if len(pairs) < len(others) or not pairs:
        raise ProofError("a group of weights is empty, or weights a row twice against a class")
    return pairs, denominator
