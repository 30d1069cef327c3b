"""The reader of the proof format (docs/proof-format.md): from JSON to a `Proof` of bounded size.

Nothing is computed here but whether a proof says what a proof must say. What is malformed, too
large, or about other data is refused.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from momentron.arithmetic.environment import standard_arithmetic
from momentron.errors import InputError
from momentron.verify import limits
from momentron.verify.data import Data
from momentron.verify.errors import NotJSON, ProofError, ProofTooLarge
from momentron.verify.family import LEFT_OUT, MODELS, Family, family_named
from momentron.verify.limits import Allowance
from momentron.verify.numbers import integer, number, whole_numbers

Pair = tuple[int, int]  # (row, a class): see `family`

VERSION = 4
FIELDS = {
    *("format", "version", "family", "link", "fit_intercept", "data", "kind", "complete", "margin"),
    *("weights", "boundary", "conflict", "dual", "basis", "estimates", "names"),
}
OPTIONAL = {"class_rows"}  # proofs written before it was there have no such field

LONGEST_NAME = 100  # characters of a column's name that a proof keeps
HEADER = 1 << 20  # characters among which a proof names its reading
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
    family : Family
        Which pairs the rows make.
    lower, upper : float
        The best margin lies between them.
    classes : list of str
    codes : list of int
        The class of each row, as an index into `classes`; −1 where it is left out.
    weights : dict
        The coordinates of w that are not zero, in whole numbers, by their places in it: one block
        after the other, each with d numbers and then its intercepts.
    boundary, conflict, dual : list of Group
        The fields `boundary`, `conflict` and `dual`.
    basis : set of pairs, or None
        The pairs of an enclosure.
    names : list of str or None
        Of the columns of X; covered by no digest.
    """

    kind: str
    complete: bool
    family: Family
    lower: float
    upper: float
    classes: list[str]
    codes: list[int]
    weights: dict[int, int]
    boundary: list[Group]
    conflict: list[Group]
    dual: list[Group]
    basis: set[Pair] | None
    names: list[str] | None

    @property
    def fit_intercept(self) -> bool:
        return self.family.fit_intercept

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
    family, classes = _read_classes(document, data)
    _check_names(document["names"], data.d)
    codes = read_codes(data, family, classes)
    weights = _read_weights(document, family.n_blocks * (data.d + family.n_intercepts), allowance)
    _require_few_weights(document, allowance)
    boundary, conflict, dual = (
        [read_group(group, codes, family) for group in document[name]]
        for name in ("boundary", "conflict", "dual")
    )
    for group, read in zip(document["conflict"], conflict, strict=True):
        _check_labels(group, read, data.labels, classes)
    return Proof(
        kind=document["kind"],
        complete=document["complete"],
        family=family,
        lower=lower,
        upper=upper,
        classes=classes,
        codes=codes,
        weights=weights,
        boundary=boundary,
        conflict=conflict,
        dual=dual,
        basis=_read_basis(document["basis"], codes, family),
        names=document["names"],
    )


def read_codes(data: Data, family: Family, classes: list[str]) -> list[int]:
    """The class of each row, as an index into the classes; −1 where it is left out."""
    index = {label: c for c, label in enumerate(classes)}
    codes = [LEFT_OUT] * data.n
    gone = set(data.left_out)
    for i, label in enumerate(data.labels):
        if i not in gone:
            codes[i] = index[family.class_name(label)]
    family.require_rows(codes)
    return codes


# --- the JSON ------------------------------------------------------------------------------------


def load_proof(proof: Any, allowance: Allowance | None = None) -> dict[str, Any]:
    """The proof as a dict, of a known version: from JSON, a dict, or a Verdict that agrees."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found, allowance)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("this is not a proof: its format field must be 'momentron-proof'")
    version = found.get("version")
    if type(version) is int and 1 <= version < VERSION:
        what = "it did not name the link of the model"
        if version < 3:
            what = "its fields had other names and other meanings"
        raise ProofError(
            f"format version {version} is no longer read: {what}; make the proof again with "
            "check_separability or `momentron check`"
        )
    if type(version) is not int or version != VERSION:
        raise ProofError(f"format version {str(version)[:50]}; only {VERSION} can be read")
    strange = sorted(FIELDS.symmetric_difference(found) - OPTIONAL, key=str)
    if strange:
        state = "is missing" if strange[0] in FIELDS else "is no field of a proof"
        raise ProofError(f"{str(strange[0])[:50]!r} {state}")
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
        raise NotJSON(f"this is not JSON: {str(error)[:200]}") from None


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


def named_reading(proof: Any) -> str:
    """How a proof seems to read decimals: a guess at what to read first, believed by nobody."""
    if isinstance(proof, str | bytes):
        word: Any = '"shortest"' if isinstance(proof, str) else b'"shortest"'
        return "shortest" if word in proof[:HEADER] else "binary"
    said = getattr(proof, "proof", proof)
    data = said.get("data") if isinstance(said, dict) else None
    found = data.get("decimals") if isinstance(data, dict) else None
    return "shortest" if found == "shortest" else "binary"


def read_interval(document: dict[str, Any]) -> tuple[float, float]:
    """(lower, upper): the ends of the margin, which must be float64 numbers."""
    with standard_arithmetic():  # else the smallest floats might be read as zero
        lower, upper = (number(document["margin"][end]) for end in ("lower", "upper"))
        if float(lower) != lower or float(upper) != upper:
            raise ProofError(
                "an end of the margin is not a float64; write both as hexadecimal floats"
            )
        return float(lower), float(upper)


def _read_classes(document: dict[str, Any], data: Data) -> tuple[Family, list[str]]:
    """The family of a proof and its classes, if all that it says about the data is true."""
    said, name, link = document["data"], document["family"], document["link"]
    classes, sizes, shape = said["classes"], (said["rows"], said["features"]), (data.n, data.d)
    if said["decimals"] != data.decimals:
        raise ProofError(
            f"this proof reads decimals as {str(said['decimals'])[:50]!r}, the data are read as "
            f"{data.decimals!r}"
        )
    if data.digest() != said["sha256"]:
        raise ProofError("this proof is for different data: the SHA-256 of X and y differs")
    if said["left_out"] != data.left_out or not all(type(i) is int for i in said["left_out"]):
        raise ProofError(
            f"this proof leaves out {len(said['left_out'])} rows and the data {len(data.left_out)}"
            " (rows of weight 0), or other ones; pass the sample_weight with which it was made"
        )
    if type(name) is not str or name not in MODELS:
        raise ProofError(f"family is {str(name)[:50]}; it must be one of {list(MODELS)}")
    if type(link) is not str or link not in MODELS[name]:
        raise ProofError(
            f"link is {str(link)[:50]}; of family {name!r} it must be one of {list(MODELS[name])}"
        )
    if type(classes) is not list or not MODELS[name][link].are_classes(classes, data.kept_labels):
        raise ProofError("this proof is for different data: its classes are not the labels in y")
    if {*map(type, sizes)} != {int} or sizes != shape:
        raise ProofError(f"the proof says {str(sizes)[:50]} rows and features; X has {shape}")
    try:
        return family_named(name, link, len(classes), document["fit_intercept"]), classes
    except InputError as error:
        raise ProofError(str(error)) from None


def _check_names(names: Any, d: int) -> None:
    """The digest does not cover the names of columns: here only their number is checked."""
    if names is None:
        return
    if type(names) is not list or len(names) != d or {*map(type, names)} - {str}:
        raise ProofError(f"names must be null or {d} texts, one for each column")


def compare_names(said: list[str] | None, names: Sequence[str] | None) -> None:
    """Raise where both the proof and the data name their columns, and differently."""
    if said is None or names is None:
        return
    if len(names) != len(said):
        raise ProofError(f"the data have {len(names)} names of columns; the proof has {len(said)}")
    for j, (a, b) in enumerate(zip(said, names, strict=True)):
        if a != str(b)[:LONGEST_NAME]:
            raise ProofError(
                f"the names of the columns differ: column {j} is {a!r} in the proof and "
                f"{str(b)[:LONGEST_NAME]!r} in the data"
            )


def _read_weights(document: dict[str, Any], size: int, allowance: Allowance) -> dict[int, int]:
    """The weights w that are not zero, in whole numbers, by their places among all of them."""
    found = document["weights"]
    if type(found) is not dict:
        raise ProofError("the weights must be an object of coordinates and numbers")
    allowance.require_short(found["numbers"])
    return read_vector(found, size)


def read_vector(found: dict[str, Any], size: int) -> dict[int, int]:
    """Whole numbers by coordinate, in increasing order, up to a common power of two."""
    places, texts = found["coordinates"], found["numbers"]
    if type(places) is not list or len(places) != len(texts) or len(places) > size:
        raise ProofError("weights must have one number for each of their coordinates")
    before = -1
    for place in places:
        if type(place) is not int or not before < place < size:
            raise ProofError(
                f"the coordinate {str(place)[:50]} of a weight is out of order or out of range"
            )
        before = place
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


def read_group(group: dict[str, Any], codes: list[int], family: Family) -> Group:
    """A group of weights: all positive, each pair once."""
    denominator, pairs = integer(group["denominator"]), read_pairs(group, codes, family)
    numerators = dict(zip(pairs, map(integer, group["numerators"]), strict=True))
    if min(denominator, *numerators.values(), 1) < 1:
        raise ProofError("a weight, or the denominator of a group, is not positive")
    return Group(numerators, denominator)


def read_pairs(group: dict[str, Any], codes: list[int], family: Family) -> list[Pair]:
    """The pairs of a group or basis: each is a pair of the data, and appears once."""
    rows = group["rows"]
    is_clear = family.has_one_pair and "others" not in group
    others = [1 - codes[i] for i in rows] if is_clear else group["others"]
    pairs = list(zip(rows, others, strict=True))
    for i, j in pairs:
        # 0.5 is between two classes, and True equals 1: neither names a row or a class
        if type(i) is not int or type(j) is not int:
            raise ProofError(f"row {str(i)[:50]}, class {str(j)[:50]}: both must be integers")
        if not 0 <= i < len(codes) or j not in family.others(codes[i]):
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


def check_class_rows(found: Any, proof: Proof) -> None:
    """Raise unless the rows are of the classes that a proof says, if it says so."""
    if found is None:
        return
    if type(found) is not dict or found.keys() != {"counts", "boundary"}:
        raise ProofError("class_rows must be null or an object of counts and boundary")
    said = [found["counts"], found["boundary"]]
    if any(type(values) is not list or {*map(type, values)} - {int} for values in said):
        raise ProofError("class_rows must hold lists of integers")
    counts = [0] * proof.family.k
    for code in proof.codes:
        if code >= 0:
            counts[code] += 1
    rows = sorted({i for group in proof.boundary for i, _ in group.numerators})
    if said != [counts, [proof.codes[i] for i in rows]]:
        raise ProofError("the classes of rows in class_rows are not those in y")


def _read_basis(basis: Any, codes: list[int], family: Family) -> set[Pair] | None:
    """The pairs of an enclosure, if there is one."""
    if basis is None:
        return None
    if type(basis) is not dict:
        raise ProofError(f"basis is {str(basis)[:50]}; it must be null or an object of pairs")
    if len(basis["rows"]) > limits.MAX_BASIS:
        raise ProofError(
            f"the basis has {len(basis['rows'])} pairs; at most {limits.MAX_BASIS} are read"
        )
    return set(read_pairs(basis, codes, family))
