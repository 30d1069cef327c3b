"""A proof as read: its JSON, its numbers, its groups of weights, all of bounded size.

Nothing here solves anything; the verifier reads proofs through this module alone, and the data
through `momentron.separability.data`. What `check_separability` writes obeys the same limits.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.separability.data import Data
from momentron.separability.data import fingerprint as fingerprint
from momentron.separability.data import label_texts as label_texts

LIMIT = 1 << 26  # characters of a proof: MNIST's threes against fives need 2^23
MAX_CONTAINERS = 64  # lists and objects in a proof: four groups of weights need fewer than 50
BUDGET = 1 << 37  # products of 30-bit digits that the verifier computes: some minutes
MAX_BASIS = 4_000  # pairs of an enclosure: 128 MB for each of a few dense matrices
DIGITS = 1 << 16  # hexadecimal digits of a number
MAX_DENSE = 1 << 35  # entries of X, zeros among them, up to which version 1 is hashed: minutes
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


class ProofTooLarge(ProofError):
    """The proof has more characters, entries, digits or work than is read."""


@dataclass(frozen=True)
class Allowance:
    """What the largest honest proof of some data needs, with room to spare: more is not read.

    Attributes
    ----------
    characters : int
        Of its JSON,
    entries : int
        and of its lists together.
    bits : int
        Of a number. A system of r equations has solutions of r times the bits of its entries.
    pairs : int
        The pairs (row, other class) of the data.
    """

    characters: int
    entries: int
    bits: int
    pairs: int

    @classmethod
    def of(cls, data: Data) -> "Allowance":
        classes = set(data.labels)
        others = max(1, len(classes) - 1)
        pairs, weights = data.n * others, (data.d + 1) * others
        rank = 1 + min(pairs, (data.used.size + 1) * others)
        bits = min(4 * DIGITS, 4 * rank * (data.bits + rank.bit_length()) + (1 << 13))
        longest = max((len(label) for label in classes), default=0)
        names = sum(len(label) for label in classes) + 2 * rank * longest
        entries = 64 + len(classes) + 2 * weights + 12 * pairs + 4 * rank
        characters = (1 << 12) + 12 * names + (weights + 4 * pairs) * (bits // 4 + 100)
        return cls(min(LIMIT, characters), entries, bits, pairs)

    def require_short(self, numbers: Iterable[str]) -> None:
        """Raise unless the numbers, as text, are no longer than an honest proof's."""
        longest = max(map(len, numbers), default=0)
        if longest > DIGITS:
            raise ProofTooLarge(f"a number has {longest} digits; at most {DIGITS} are read")
        if 4 * (longest - 8) > self.bits:
            raise ProofTooLarge(
                f"the numbers are too long to be checked: {longest} digits, and no honest proof of "
                f"these data needs more than {self.bits // 4}"
            )


def reason(error: BaseException) -> str:
    """Why a proof was not read, in one line."""
    if isinstance(error, InputError):  # says it already
        return str(error)
    return f"malformed: {type(error).__name__}: {str(error)[:200]}"


def load_proof(proof: Any, allowance: Allowance | None = None) -> dict[str, Any]:
    """The proof as a dict, of known version: of JSON, a dict, or a Verdict that agrees with it."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found, allowance)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("not a proof: its format field must say momentron-proof")
    version = found.get("version")
    if type(version) is not int or version not in (1, 2):
        raise ProofError(f"format version {str(version)[:50]}; only 1 and 2 are known here")
    if (version == 2) is not isinstance(found.get("weights"), dict):
        form = "an object" if version == 2 else "a list"
        raise ProofError(f"format version {version} has its weights as {form}")
    for name in ("fit_intercept", "complete"):
        if type(found.get(name)) is not bool:
            raise ProofError(f"{name} is {str(found.get(name))[:50]}; it must be true or false")
    if hasattr(proof, "proof"):
        claimed, proven = (proof.kind, proof.lower, proof.upper), (found["kind"], *interval(found))
        if claimed != proven:
            raise ProofError(f"the verdict says {claimed} and its proof {proven}")
    return found


def _parse(text: str | bytes, allowance: Allowance | None) -> Any:
    """JSON of bounded length, with few containers and entries, and no key twice in an object."""
    limit = allowance.characters if allowance else LIMIT
    if len(text) > limit:
        raise ProofTooLarge(
            f"the proof has {len(text)} characters; at most {limit} are read: no honest proof of "
            "these data needs more"
        )
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if _count(text, "[{") > MAX_CONTAINERS:
            raise ProofError(f"more than {MAX_CONTAINERS} lists and objects; no proof has so many")
        if allowance and _count(text, ",") > allowance.entries:
            raise ProofTooLarge(
                f"more than {allowance.entries} entries; no honest proof of these data has so many"
            )
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_row_number,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except ProofError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProofError(f"not JSON: {str(error)[:200]}") from None


def _count(text: str, characters: str) -> int:
    """How often JSON has some characters: bounds nesting and memory before it is parsed."""
    count = sum(map(text.count, characters))
    if count > MAX_CONTAINERS and '"' in text:  # some may be in labels: count without the strings
        plain = re.sub('"[^"]*"?', "", text.replace("\\\\", "").replace('\\"', ""))
        count = sum(map(plain.count, characters))
    return count


def _row_number(text: str) -> int:
    """A JSON integer: the number of a row, a class, a feature."""
    if len(text) > 18:
        raise ProofError(f"the JSON integer {text[:20]}… is too long; no row has such a number")
    return int(text)


def _no_number(text: str) -> Any:
    raise ProofError(
        f"the number {text[:50]} is rounded or infinite; proofs write hexadecimal text"
    )


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) < len(items):
        names = [name for name, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProofError(f"the key {twice[:50]!r} comes twice in one object; keep one of them")
    return found


def interval(proof: dict[str, Any]) -> tuple[float, float]:
    """The ends of the margin, which must be floats without a rounding."""
    with standard_arithmetic():  # else the smallest floats might be read as zero
        lower, upper = (number(proof["margin"][end]) for end in ("lower", "upper"))
        if float(lower) != lower or float(upper) != upper:
            raise ProofError("an end of the margin is no float64; write both as hexadecimal floats")
        return float(lower), float(upper)


def read_classes(proof: dict[str, Any], data: Data) -> list[str]:
    """The classes of a proof, if all that it says of the data is true."""
    said = proof["data"]
    if proof["version"] == 1 and data.n * data.d > MAX_DENSE:
        raise ProofTooLarge(f"version 1 of the format is read for at most {MAX_DENSE} entries of X")
    classes, sizes, shape = said["classes"], (said["rows"], said["features"]), (data.n, data.d)
    if data.digest(proof["version"]) != said["sha256"]:
        raise ProofError("the proof speaks of other data: the SHA-256 of X and y differs")
    if type(classes) is not list or sorted(classes) != sorted(set(data.labels)):
        raise ProofError("the proof speaks of other data: its classes are not the labels in y")
    if len(classes) < 2:
        raise ProofError(f"the proof speaks of {len(classes)} class; at least 2 can be separated")
    if {*map(type, sizes)} != {int} or sizes != shape:
        raise ProofError(f"the proof says {str(sizes)[:50]} rows and features; X has {shape}")
    return classes


FLOAT = re.compile(r"(-?)0x([0-9a-f]+)\.?([0-9a-f]*)p([+-]?[0-9]{1,5})")
INTEGER = re.compile(r"-?0x[0-9a-f]+")


def number(text: str) -> int | float:
    """A hexadecimal float, such as "0x1.8p+1", or a hexadecimal integer, exactly."""
    if text in ("inf", "-inf"):
        return float(text)
    if "p" not in text:
        return integer(text)
    parts = FLOAT.fullmatch(text) if len(text) <= 64 else None
    if parts is None:
        raise ValueError(f"{text[:50]!r} is no hexadecimal float")
    value = float.fromhex(text)
    if value.hex() != text:  # written otherwise: then float64 must hold it all the same
        sign, whole_part, fraction, power = parts.groups()
        mantissa = int(sign + whole_part + fraction, 16)
        exponent = int(power) - 4 * len(fraction)
        numerator, denominator = value.as_integer_ratio()
        if numerator << max(0, -exponent) != (mantissa * denominator) << max(0, exponent):
            raise ValueError(f"{text[:50]!r} is no float64: it would be rounded")
    return value


def integer(text: str) -> int:
    """A hexadecimal integer of bounded length."""
    if len(text) > DIGITS:
        raise ProofTooLarge(f"a number has {len(text)} digits; at most {DIGITS} are read")
    if not INTEGER.fullmatch(text):
        raise ValueError(f"{text[:50]!r} is no hexadecimal integer")
    return int(text, 16)


def whole(texts: list[str]) -> list[int]:
    """Numbers times the least power of two that makes all of them whole."""
    ratios = [number(text).as_integer_ratio() for text in texts]
    common = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def widest(numbers: Iterable[int]) -> int:
    """Bits of the longest of some numbers."""
    return max((abs(v).bit_length() for v in numbers), default=0)


def product_cost(first: int, second: int) -> int:
    """Products of 30-bit digits, of numbers with so many bits; 64 for a short one."""
    digits = sorted((1 + first // 30, 1 + second // 30))
    # of two long factors Python splits the longer one into pieces, and these in three (Karatsuba)
    short = digits[0] if digits[0] < 70 else int(70 * (digits[0] / 70) ** 0.6)
    return 64 + short * digits[1]


def read_weights(proof: dict[str, Any], width: int, k: int, allowance: Allowance) -> dict[int, int]:
    """The weights that are not zero, in whole numbers, by coordinate (class − 1)·width + column."""
    found, size = proof["weights"], width * (k - 1)
    if proof["version"] == 1:
        if found and len(found) != size:
            raise ProofError(f"{len(found)} weights; need {width} for each class but the first")
        places, texts = range(len(found)), found
    else:
        places, texts = found["coordinates"], found["numbers"]
        if type(places) is not list or len(places) != len(texts) or len(places) > size:
            raise ProofError("the weights have not one number for each of their coordinates")
        before = -1
        for place in places:
            if type(place) is not int or not before < place < size:
                raise ProofError(
                    f"the weights' coordinate {str(place)[:50]} is out of order or range"
                )
            before = place
    allowance.require_short(texts)
    return {c: v for c, v in zip(places, whole(texts), strict=True) if v}


def read_groups(
    proof: dict[str, Any],
    labels: list[str],
    codes: list[int],
    classes: list[str],
    allowance: Allowance,
) -> list[tuple[str, tuple[Pairs, int]]]:
    """The groups of plane, story and dual, each with the name of its field."""
    groups = [(name, group) for name in ("plane", "story", "dual") for group in proof[name]]
    if len(groups) > 4:
        raise ProofError(f"{len(groups)} groups of weights; at most 4 are read")
    for _, group in groups:
        if len(group["numerators"]) > allowance.pairs or len(group["rows"]) > allowance.pairs:
            raise ProofTooLarge(
                f"a group has more weights than the data have pairs, {allowance.pairs}"
            )
        allowance.require_short([group["denominator"], *group["numerators"]])
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
