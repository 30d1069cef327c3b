"""From JSON to a document of bounded size: a proof may be hostile.

Everything is bounded before it is done, by what the largest honest proof of the same data needs.
What `check_separability` writes obeys the same limits.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from momentron.verify.errors import NotJSON, ProofError, ProofTooLarge
from momentron.verify.exact_table import Table
from momentron.verify.proof import read_interval

VERSION = 4
FIELDS = {
    *("format", "version", "family", "link", "fit_intercept", "data", "kind", "complete", "margin"),
    *("weights", "boundary", "conflict", "dual", "basis", "estimates", "names"),
}
OPTIONAL = {"class_rows"}  # proofs written before it was there have no such field
GONE = {  # why older versions are not read
    1: "its fields had other names and other meanings",
    2: "its fields had other names and other meanings",
    3: "it did not name the link of the model",
}

MAX_CHARACTERS = 1 << 26  # of a proof: MNIST's threes against fives need 2^23
MAX_CONTAINERS = 96  # lists and objects in a proof: groups of weights and estimates need 70
MAX_VECTORS = 64  # bounds, directions and null vectors of estimates, of full length
MAX_GROUPS = 4  # groups of weights: two of boundary weights, a conflict, a dual
MAX_BASIS = 4_000  # pairs of an enclosure, or of the estimates' basis: 128 MB per dense matrix
MAX_DIGITS = 1 << 16  # hexadecimal digits of a number
MAX_WORK = 1 << 37  # products of 30-bit digits: some minutes
LONGEST_NAME = 100  # characters of a column's name that a proof keeps
LONGEST_JSON_INTEGER = 18  # digits: rows, classes and features are fewer
KARATSUBA = 70  # digits from which Python splits factors in three


@dataclass(frozen=True)
class Allowance:
    """What the largest honest proof of some data needs, with room to spare: more is not read.

    Attributes
    ----------
    characters : int
        Of its JSON.
    entries : int
        Of all its lists together.
    bits : int
        Of each number. A system of r equations has solutions of r times the bits of its entries.
    pairs : int
        The pairs (row, other class) of the data.
    """

    characters: int
    entries: int
    bits: int
    pairs: int

    @classmethod
    def of(cls, table: Table) -> "Allowance":
        classes = set(table.labels)
        others = max(2, len(classes) - 1)  # a row of the Poisson or the ordinal family has up to 2
        pairs, weights = table.n * others, (table.d + 1) * others
        rank = 1 + min(pairs, (table.used.size + 1) * others)
        bits = min(4 * MAX_DIGITS, 4 * rank * (table.bits + rank.bit_length()) + (1 << 13))
        longest = max((len(label) for label in classes), default=0)
        names = sum(len(label) for label in classes) + 2 * rank * longest
        vectors = weights * min(weights, MAX_VECTORS)  # of the estimates
        entries = 64 + len(classes) + 3 * weights + 12 * pairs + 6 * rank + table.d + 4 * vectors
        characters = (1 << 12) + 12 * (names + table.d * LONGEST_NAME)
        characters += (vectors + 4 * pairs) * (bits // 4 + 100)
        return cls(min(MAX_CHARACTERS, characters), entries, bits, pairs)


def load_proof(proof: Any, allowance: Allowance | None = None) -> dict[str, Any]:
    """The proof as a dict, of a known version: from JSON, a dict, or a Verdict that agrees."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found, allowance)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("this is not a proof: its format field must be 'momentron-proof'")
    version = found.get("version")
    if type(version) is int and version in GONE:
        raise ProofError(
            f"format version {version} is no longer read: {GONE[version]}; make the proof again "
            "with check_separability or `momentron check`"
        )
    if type(version) is not int or version != VERSION:
        raise ProofError(f"format version {str(version)[:50]}; only {VERSION} can be read")
    strange = sorted(FIELDS.symmetric_difference(found) - OPTIONAL, key=str)
    if strange:
        state = "is missing" if strange[0] in FIELDS else "is no field of a proof"
        raise ProofError(f"{str(strange[0])[:50]!r} {state}")
    for name in ("fit_intercept", "complete"):
        if type(found[name]) is not bool:
            raise ProofError(f"{name} is {str(found[name])[:50]}; it must be true or false")
    if hasattr(proof, "proof"):
        claimed = (proof.kind, proof.lower, proof.upper)
        proven = (found["kind"], *read_interval(found))
        if claimed != proven:
            raise ProofError(f"the verdict says {claimed} and its proof {proven}")
    return found


def _parse(text: str | bytes, allowance: Allowance | None) -> Any:
    """JSON of bounded length, with few containers and entries, and no key twice in an object."""
    limit = allowance.characters if allowance else MAX_CHARACTERS
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
    if count > MAX_CONTAINERS and '"' in text:  # some may be in labels: count without them
        plain = re.sub('"[^"]*"?', "", text.replace("\\\\", "").replace('\\"', ""))
        count = sum(map(plain.count, characters))
    return count


def _json_integer(text: str) -> int:
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


def require_modest(document: dict[str, Any], table: Table) -> None:
    """Raise unless the lists, the numbers and the work of a proof are within their limits."""
    allowed, weights = Allowance.of(table), document["weights"]
    groups = [group for name in ("boundary", "conflict", "dual") for group in document[name]]
    if len(groups) > MAX_GROUPS:
        raise ProofError(f"{len(groups)} groups of weights; at most {MAX_GROUPS} are read")
    for group in groups:
        if max(len(group["numerators"]), len(group["rows"])) > allowed.pairs:
            raise ProofTooLarge(
                f"a group has more weights than the data have pairs, {allowed.pairs}"
            )
    for name, part in (("basis", document), ("basis of the estimates", document["estimates"])):
        basis = part and part["basis"]
        if isinstance(basis, dict) and len(basis["rows"]) > MAX_BASIS:
            raise ProofError(
                f"the {name} has {len(basis['rows'])} pairs; at most {MAX_BASIS} are read"
            )
    n_entries = int(table.ends[-1]) + table.n
    w = _bits(allowed, weights["numbers"] if isinstance(weights, dict) else ())
    work = n_entries * _cost(w, table.bits) * max(1, len(document["data"]["classes"]) - 1)
    common = sum(_bits(allowed, [group["denominator"]]) for group in groups)
    for group in groups:
        q = _bits(allowed, group["numerators"])
        longest = q + table.bits + common + 64
        share = n_entries * min(1.0, 2 * len(group["rows"]) / table.n)
        work += int(2 * share * _cost(q, table.bits)) + len(group["rows"]) * _cost(q, common)
        work += int(min(share, table.used.size + 1)) * 2 * _cost(longest, longest)
    if document["estimates"] is not None:
        work += _work_of_estimates(document["estimates"], table, allowed)
    if work > MAX_WORK:
        raise ProofTooLarge(
            f"the numbers are too long to be checked on so many entries of X: about {work:.1e} "
            f"products of digits, where at most {MAX_WORK:.1e} are computed"
        )


def _work_of_estimates(said: dict[str, Any], table: Table, allowed: Allowance) -> int:
    """Every vector meets every entry of X; weights of bounds meet those of their rows."""
    work = 0
    for name in ("null", "directions", "aliases"):
        bits = _bits(allowed, said[name]["numbers"])
        work += len(said[name]["starts"]) * int(table.ends[-1]) * _cost(bits, table.bits) // 64
    if len(said["design"]["rows"]) > MAX_BASIS:
        raise ProofError(f"the design has {len(said['design']['rows'])} rows; that is too many")
    q = _bits(allowed, said["bounds"]["numerators"])
    return work + len(said["bounds"]["rows"]) * (table.used.size + 1) * _cost(q, table.bits)


def _bits(allowed: Allowance, texts: Iterable[str]) -> int:
    """Bits of the longest of some numbers, at most; raise if an honest proof has none so long."""
    longest = max(map(len, texts), default=0)
    if longest > MAX_DIGITS:
        raise ProofTooLarge(f"a number has {longest} digits; at most {MAX_DIGITS} are read")
    if 4 * (longest - 8) > allowed.bits:
        raise ProofTooLarge(
            f"the numbers are too long to be checked: {longest} digits, and no honest proof of "
            f"these data needs more than {allowed.bits // 4}"
        )
    return 4 * longest


def _cost(first: int, second: int) -> int:
    """Products of 30-bit digits in a product of two numbers with so many bits; 64 at least."""
    short, long = sorted((1 + first // 30, 1 + second // 30))
    if short >= KARATSUBA:  # Python splits the longer factor into pieces, and these in three
        short = int(KARATSUBA * (short / KARATSUBA) ** 0.6)
    return 64 + short * long
