"""The reader of the proof format (docs/proof-format.md): from JSON to a `Proof` of bounded size.

Nothing is computed here but whether a proof says what a proof must say. What is malformed, too
large, or about other data is refused.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from momentron.environment import standard_arithmetic
from momentron.verify import limits
from momentron.verify.data import Data
from momentron.verify.errors import ProofError, ProofTooLarge
from momentron.verify.limits import Allowance
from momentron.verify.numbers import integer, number, whole_numbers

Pair = tuple[int, int]  # (row, a class other than its own)

LONGEST_JSON_INTEGER = 18  # digits: rows, classes and features are fewer


@dataclass(frozen=True)
class Group:
    """Positive rational weights q on some pairs: numerator / denominator."""

    numerators: dict[Pair, int]
    denominator: int


@dataclass(frozen=True)
class Proof:
    """What a proof says, once everything in it has been read.

    Attributes
    ----------
    kind : str
        "separable", "quasi-separable", "overlapping" or "undecided".
    complete : bool
        Whether it says of every pair on which side it is.
    fit_intercept : bool
    lower, upper : float
        The best margin lies between them.
    classes : list of str
    codes : list of int
        The class of each row, as an index into `classes`.
    weights : dict
        The coordinates of w = (w_1, …, w_{k−1}) that are not zero, in whole numbers, by their
        places in it; each w_c has d numbers, or d + 1 with its intercept last.
    boundary, conflict, dual : list of Group
        The fields `boundary`, `conflict` and `dual`.
    basis : set of pairs, or None
        The pairs of an enclosure.
    """

    kind: str
    complete: bool
    fit_intercept: bool
    lower: float
    upper: float
    classes: list[str]
    codes: list[int]
    weights: dict[int, int]
    boundary: list[Group]
    conflict: list[Group]
    dual: list[Group]
    basis: set[Pair] | None

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def groups(self) -> list[Group]:
        return [*self.boundary, *self.conflict, *self.dual]

    def is_boundary(self, pair: Pair) -> bool:
        """Whether a pair has weight among the boundary pairs."""
        return any(pair in group.numerators for group in self.boundary)


def read_proof(proof: Any, data: Data) -> Proof:
    """Read a proof of these data: a Verdict, its JSON, or the dict within."""
    allowance = Allowance.of(data)
    document = load_proof(proof, allowance)
    lower, upper = read_interval(document)
    classes = _read_classes(document, data)
    index = {label: c for c, label in enumerate(classes)}
    codes = [index[label] for label in data.labels]
    width = data.d + int(document["fit_intercept"])
    weights = _read_weights(document, width, len(classes), allowance)
    _require_few_weights(document, allowance)
    boundary, conflict, dual = (
        [read_group(group, codes, len(classes)) for group in document[name]]
        for name in ("boundary", "conflict", "dual")
    )
    for group, read in zip(document["conflict"], conflict, strict=True):
        _check_labels(group, read, data.labels, classes)
    return Proof(
        kind=document["kind"],
        complete=document["complete"],
        fit_intercept=document["fit_intercept"],
        lower=lower,
        upper=upper,
        classes=classes,
        codes=codes,
        weights=weights,
        boundary=boundary,
        conflict=conflict,
        dual=dual,
        basis=_read_basis(document["basis"], codes, len(classes)),
    )


# --- the JSON ------------------------------------------------------------------------------------


def load_proof(proof: Any, allowance: Allowance | None = None) -> dict[str, Any]:
    """The proof as a dict, of a known version: from JSON, a dict, or a Verdict that agrees."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found, allowance)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("this is not a proof: its format field must be 'momentron-proof'")
    version = found.get("version")
    if type(version) is not int or version not in (1, 2):
        raise ProofError(f"format version {str(version)[:50]}; only 1 and 2 can be read")
    if (version == 2) is not isinstance(found.get("weights"), dict):
        form = "an object" if version == 2 else "a list"
        raise ProofError(f"in format version {version} the weights must be {form}")
    for name in ("fit_intercept", "complete"):
        if type(found.get(name)) is not bool:
            raise ProofError(f"{name} is {str(found.get(name))[:50]}; it must be true or false")
    if hasattr(proof, "proof"):
        claimed = (proof.kind, proof.lower, proof.upper)
        proven = (found["kind"], *read_interval(found))
        if claimed != proven:
            raise ProofError(f"the verdict says {claimed} and its proof {proven}")
    return found


def _parse(text: str | bytes, allowance: Allowance | None) -> Any:
    """JSON of bounded length, with few containers and entries, and no key twice in an object."""
    limit = allowance.characters if allowance else limits.MAX_CHARACTERS
    if len(text) > limit:
        raise ProofTooLarge(
            f"the proof has {len(text)} characters; at most {limit} are read: no honest proof of "
            "these data needs more"
        )
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if _count(text, "[{") > limits.MAX_CONTAINERS:
            raise ProofError(
                f"more than {limits.MAX_CONTAINERS} lists and objects; no proof has so many"
            )
        if allowance and _count(text, ",") > allowance.entries:
            raise ProofTooLarge(
                f"more than {allowance.entries} entries; no honest proof of these data has so many"
            )
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_json_integer,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except ProofError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProofError(f"this is not JSON: {str(error)[:200]}") from None


def _count(text: str, characters: str) -> int:
    """How often JSON has some characters: bounds nesting and memory before it is parsed."""
    count = sum(map(text.count, characters))
    if count > limits.MAX_CONTAINERS and '"' in text:  # some may be in labels: count without them
        plain = re.sub('"[^"]*"?', "", text.replace("\\\\", "").replace('\\"', ""))
        count = sum(map(plain.count, characters))
    return count


def _json_integer(text: str) -> int:
    """A JSON integer: the number of a row, a class, a feature."""
    if len(text) > LONGEST_JSON_INTEGER:
        raise ProofError(f"the JSON integer {text[:20]}… is too long; no row has such a number")
    return int(text)


def _refuse_number(text: str) -> Any:
    raise ProofError(f"the number {text[:50]} is rounded or infinite; write it as hexadecimal text")


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) < len(items):
        names = [name for name, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProofError(f"the key {twice[:50]!r} appears twice in one object; keep one of them")
    return found


# --- its fields ----------------------------------------------------------------------------------


def read_interval(document: dict[str, Any]) -> tuple[float, float]:
    """(lower, upper): the ends of the margin, which must be float64 numbers."""
    with standard_arithmetic():  # else the smallest floats might be read as zero
        lower, upper = (number(document["margin"][end]) for end in ("lower", "upper"))
        if float(lower) != lower or float(upper) != upper:
            raise ProofError(
                "an end of the margin is not a float64; write both as hexadecimal floats"
            )
        return float(lower), float(upper)


def _read_classes(document: dict[str, Any], data: Data) -> list[str]:
    """The classes of a proof, if all that it says about the data is true."""
    said = document["data"]
    if document["version"] == 1 and data.n * data.d > limits.MAX_DENSE:
        raise ProofTooLarge(
            f"format version 1 is read for at most {limits.MAX_DENSE} entries of X; use version 2"
        )
    classes, sizes, shape = said["classes"], (said["rows"], said["features"]), (data.n, data.d)
    if data.digest(document["version"]) != said["sha256"]:
        raise ProofError("this proof is for different data: the SHA-256 of X and y differs")
    if type(classes) is not list or sorted(classes) != sorted(set(data.labels)):
        raise ProofError("this proof is for different data: its classes are not the labels in y")
    if len(classes) < 2:
        raise ProofError(f"the proof names {len(classes)} class; there must be at least 2")
    if {*map(type, sizes)} != {int} or sizes != shape:
        raise ProofError(f"the proof says {str(sizes)[:50]} rows and features; X has {shape}")
    return classes


def _read_weights(
    document: dict[str, Any], width: int, k: int, allowance: Allowance
) -> dict[int, int]:
    """The weights w that are not zero, in whole numbers, by their places among all of them."""
    found, size = document["weights"], width * (k - 1)
    if document["version"] == 1:
        if found and len(found) != size:
            raise ProofError(f"{len(found)} weights; there must be {width} per class but the first")
        places, texts = range(len(found)), found
    else:
        places, texts = found["coordinates"], found["numbers"]
        if type(places) is not list or len(places) != len(texts) or len(places) > size:
            raise ProofError("the weights must have one number for each of their coordinates")
        before = -1
        for place in places:
            if type(place) is not int or not before < place < size:
                raise ProofError(
                    f"the coordinate {str(place)[:50]} of a weight is out of order or out of range"
                )
            before = place
    allowance.require_short(texts)
    return {place: v for place, v in zip(places, whole_numbers(texts), strict=True) if v}


def _require_few_weights(document: dict[str, Any], allowance: Allowance) -> None:
    """Raise unless the groups are few, short, and of numbers that are not too long."""
    groups = [group for name in ("boundary", "conflict", "dual") for group in document[name]]
    if len(groups) > limits.MAX_GROUPS:
        raise ProofError(f"{len(groups)} groups of weights; at most {limits.MAX_GROUPS} are read")
    for group in groups:
        if len(group["numerators"]) > allowance.pairs or len(group["rows"]) > allowance.pairs:
            raise ProofTooLarge(
                f"a group has more weights than the data have pairs, {allowance.pairs}"
            )
        allowance.require_short([group["denominator"], *group["numerators"]])


def read_group(group: dict[str, Any], codes: list[int], k: int) -> Group:
    """A group of weights: all positive, each pair once."""
    denominator, pairs = integer(group["denominator"]), read_pairs(group, codes, k)
    numerators = dict(zip(pairs, map(integer, group["numerators"]), strict=True))
    if min(denominator, *numerators.values(), 1) < 1:
        raise ProofError("a weight, or the denominator of a group, is not positive")
    return Group(numerators, denominator)


def read_pairs(group: dict[str, Any], codes: list[int], k: int) -> list[Pair]:
    """The pairs of a group or basis: each is a pair of the data, and appears once."""
    rows = group["rows"]
    others = group["others"] if k > 2 or "others" in group else [1 - codes[i] for i in rows]
    pairs = list(zip(rows, others, strict=True))
    for i, j in pairs:
        # 0.5 is between two classes, and True equals 1: neither names a row or a class
        if type(i) is not int or type(j) is not int:
            raise ProofError(f"row {str(i)[:50]}, class {str(j)[:50]}: both must be integers")
        if not 0 <= i < len(codes) or not 0 <= j < k or j == codes[i]:
            raise ProofError(f"row {i}, class {j}: there is no such pair")
    if len(set(pairs)) < len(pairs) or not pairs:
        raise ProofError("a group of weights is empty, or names a pair twice")
    return pairs


def _check_labels(
    group: dict[str, Any], read: Group, labels: list[str], classes: list[str]
) -> None:
    """Raise unless the labels that a conflict repeats for human readers are those of its pairs."""
    named = [labels[i] for i, _ in read.numerators], [classes[j] for _, j in read.numerators]
    if (group["labels"], group["against"]) != named:
        raise ProofError("the labels, or the classes against which they stand, do not match y")


def _read_basis(basis: Any, codes: list[int], k: int) -> set[Pair] | None:
    """The pairs of an enclosure, if there is one."""
    if basis is None:
        return None
    if type(basis) is not dict:
        raise ProofError(f"basis is {str(basis)[:50]}; it must be null or an object of pairs")
    if len(basis["rows"]) > limits.MAX_BASIS:
        raise ProofError(
            f"the basis has {len(basis['rows'])} pairs; at most {limits.MAX_BASIS} are read"
        )
    return set(read_pairs(basis, codes, k))
