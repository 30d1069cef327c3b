"""What a proof speaks of, as read: its JSON, the data's canonical form, rows of whole numbers.

Nothing here solves anything; the verifier reads proofs and data through this module alone.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from momentron.errors import InputError
from momentron.exactness import require_exact

LIMIT = 1 << 26  # characters of a proof: MNIST's threes against fives need 2^23
MAX_CONTAINERS = 64  # lists and objects in a proof: four groups of weights need fewer than 50
BUDGET = 1 << 43  # entries of X times bits of the numbers they meet: some minutes
MAX_BASIS = 4_000  # pairs of an enclosure: 128 MB for each of a few dense matrices
DIGITS = 1 << 16  # hexadecimal digits of a number: bounds the work that a hostile proof can ask for
BLOCK_ENTRIES = 1 << 19  # 4 MB of float64
Pairs = dict[tuple[int, int], int]  # (row, other class) → numerator of its weight
FAULTS = (  # what a hostile proof, or data that are none, can make Python raise
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    RuntimeError,  # RecursionError too, and arrays that refuse to be converted
)


class ProofError(InputError):
    """The proof does not hold for these data, or is no proof: says which row, or what, fails."""


def reason(error: BaseException) -> str:
    """Why a proof was not read, in one line."""
    if isinstance(error, InputError):  # says it already
        return str(error)
    return f"malformed: {type(error).__name__}: {str(error)[:200]}"


def load_proof(proof: Any) -> dict[str, Any]:
    """The proof as a dict, of known version: of JSON, a dict, or a Verdict that agrees with it."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("not a proof: its format field must say momentron-proof")
    version = found.get("version")
    if type(version) is not int or version != 1:
        raise ProofError(f"format version {str(version)[:50]}; only 1 is known here")
    for name in ("fit_intercept", "complete"):
        if type(found.get(name)) is not bool:
            raise ProofError(f"{name} is {str(found.get(name))[:50]}; it must be true or false")
    if hasattr(proof, "proof"):
        claimed, proven = (proof.kind, proof.lower, proof.upper), (found["kind"], *interval(found))
        if claimed != proven:
            raise ProofError(f"the verdict says {claimed} and its proof {proven}")
    return found


def _parse(text: str | bytes) -> Any:
    """JSON of bounded length, with few containers, and no key twice in one of them."""
    if len(text) > LIMIT:
        raise ProofError(f"the proof has {len(text)} characters; at most {LIMIT} are read")
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if _containers(text) > MAX_CONTAINERS:
            raise ProofError(f"more than {MAX_CONTAINERS} lists and objects; no proof has so many")
        return json.loads(text, object_pairs_hook=_object)
    except ProofError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProofError(f"not JSON: {str(error)[:200]}") from None


def _containers(text: str) -> int:
    """How many lists and objects JSON opens: bounds nesting and memory before it is parsed."""
    count = text.count("[") + text.count("{")
    if count > MAX_CONTAINERS:  # some may be in labels: count again without the strings
        plain = re.sub('"[^"]*"?', "", text.replace("\\\\", "").replace('\\"', ""))
        count = plain.count("[") + plain.count("{")
    return count


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) < len(items):
        names = [name for name, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProofError(f"the key {twice[:50]!r} comes twice in one object; keep one of them")
    return found


def interval(proof: dict[str, Any]) -> tuple[float, float]:
    """The ends of the margin, which must be floats without a rounding."""
    lower, upper = (number(proof["margin"][end]) for end in ("lower", "upper"))
    if float(lower) != lower or float(upper) != upper:
        raise ProofError("an end of the margin is no float64; write both as hexadecimal floats")
    return float(lower), float(upper)


def read_classes(data: dict[str, Any], digest: str, labels: list[str], d: int) -> list[str]:
    """The classes of a proof, if all that it says of the data is true."""
    if digest != data["sha256"]:
        raise ProofError("the proof speaks of other data: the SHA-256 of X and y differs")
    classes, sizes, shape = data["classes"], (data["rows"], data["features"]), (len(labels), d)
    if type(classes) is not list or sorted(classes) != sorted(set(labels)):
        raise ProofError("the proof speaks of other data: its classes are not the labels in y")
    if len(classes) < 2:
        raise ProofError(f"the proof speaks of {len(classes)} class; at least 2 can be separated")
    if {*map(type, sizes)} != {int} or sizes != shape:
        raise ProofError(f"the proof says {str(sizes)[:50]} rows and features; X has {shape}")
    return classes


def blocks(X: Any) -> Iterator[np.ndarray]:
    """The rows of X, dense or sparse, as dense float64 blocks of a few MB, without −0.0."""
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        part = part.toarray() if hasattr(X, "tocsr") else part
        require_exact(part)  # once more: duplicates of a sparse matrix are summed only here
        yield np.asarray(part, "<f8", order="C") + 0.0


def label_texts(y: Any) -> list[str]:
    """The labels as text: 3, 3.0 and "3" are the same, and no others are."""
    # a list goes to objects: numpy would round large integers beside a float, and cut "a\\0" to "a"
    array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    return [_label_text(v) for v in array.ravel().tolist()]


def _label_text(label: Any) -> str:
    if isinstance(label, float | np.floating) and label.is_integer():
        label = int(label)
    elif isinstance(label, np.float32 | np.float16):
        label = float(label)  # as an array of them reads
    text = str(label)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"y has the label {text!r}, a lone surrogate; rename it") from None
    return text


def fingerprint(X: Any, labels: list[str]) -> tuple[str, int]:
    """(SHA-256 of the canonical form, E): all of X is whole in units of 2^E, E ≤ 0.

    The canonical form is the line "momentron-data 1", the line "n d", the entries of X row by row
    as little-endian float64 without −0.0, and for each label its length in UTF-8 bytes, a colon,
    the label and a line feed. It is the same for dense, sparse, float32 and float64 storage.
    """
    require_exact(X)
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


def widest(numbers: Iterable[int]) -> int:
    """Bits of the longest of some numbers."""
    return max((abs(v).bit_length() for v in numbers), default=0)


def work_of_sums(parts: list[tuple[str, tuple[Pairs, int]]], entries: int) -> int:
    """What products of the sums with denominators and themselves may cost, in units of BUDGET."""
    work = 0
    for name, (pairs, _) in parts:
        common = sum(b.bit_length() for other, (_, b) in parts if other == name)
        bits = widest(pairs.values())
        work += entries * bits * ((bits + common) // 4096)  # long products are not linear in bits
    return work


def read_groups(
    proof: dict[str, Any], labels: list[str], codes: list[int], classes: list[str]
) -> list[tuple[str, tuple[Pairs, int]]]:
    """The groups of plane, story and dual, each with the name of its field."""
    groups = [(name, group) for name in ("plane", "story", "dual") for group in proof[name]]
    if len(groups) > 4:
        raise ProofError(f"{len(groups)} groups of weights; at most 4 are read")
    parts = [(name, read_pairs(group, codes, len(classes))) for name, group in groups]
    for (name, group), (_, (pairs, _)) in zip(groups, parts, strict=True):
        if name == "story":
            check_story(group, pairs, labels, classes)
    return parts


def read_pairs(group: dict[str, Any], codes: list[int], k: int) -> tuple[Pairs, int]:
    """(numerators by pair, denominator) of a group of weights: all positive, each pair once."""
    denominator, pairs = integer(group["denominator"]), list_pairs(group, codes, k)
    weights = dict(zip(pairs, map(integer, group["numerators"]), strict=True))
    if min(denominator, *weights.values(), 1) < 1:
        raise ProofError("a weight, or the denominator of a group, is not positive")
    return weights, denominator


def list_pairs(group: dict[str, Any], codes: list[int], k: int) -> list[tuple[int, int]]:
    """The pairs (row, other class) of a group or basis: each is one of the data's, and once."""
    rows = group["rows"]
    others = group["others"] if k > 2 or "others" in group else [1 - codes[i] for i in rows]
    pairs = list(zip(rows, others, strict=True))
    for i, j in pairs:
        # 0.5 is between two classes, and True equals 1: neither names a row or a class
        if type(i) is not int or type(j) is not int:
            raise ProofError(f"row {str(i)[:50]}, class {str(j)[:50]}: both must be integers")
        if not 0 <= i < len(codes) or not 0 <= j < k or j == codes[i]:
            raise ProofError(f"row {i}, class {j}: no such pair")
    if len(set(pairs)) < len(pairs) or not pairs:
        raise ProofError("a group of weights is empty, or weights a row twice against a class")
    return pairs


def check_story(group: dict[str, Any], pairs: Pairs, labels: list[str], classes: list[str]) -> None:
    """Raise unless the labels that a story repeats for human readers are those of its pairs."""
    named = [labels[i] for i, _ in pairs], [classes[j] for _, j in pairs]
    if (group["labels"], group["against"]) != named:
        raise ProofError("the labels or against of the story are not those of its rows")


def read_basis(basis: dict[str, Any], codes: list[int], k: int) -> set[tuple[int, int]]:
    """The pairs of an enclosure, no more than it may have."""
    if len(basis["rows"]) > MAX_BASIS:
        raise ProofError(f"the basis has {len(basis['rows'])} pairs; at most {MAX_BASIS} are read")
    return set(list_pairs(basis, codes, k))


def square(rows: list[tuple[int, list[int], np.ndarray]], used: np.ndarray) -> np.ndarray:
    """The matrix M of an enclosure, of the used coordinates alone; two parts of rows a column.

    A part is (class, columns, values); class 0 has no coordinates.
    """
    size = int(used[1:].sum())
    if len(rows) != 2 * size:
        raise ProofError(
            f"no enclosure: {len(rows) // 2} pairs of the basis are on the plane, which has {size} "
            "coordinates; need as many"
        )
    M, place = np.zeros((size, size)), np.cumsum(used[1:]).reshape(used[1:].shape) - 1
    for at, (c, columns, values) in enumerate(rows):
        if c:
            M[place[c - 1, columns], at // 2] = values
    return M
