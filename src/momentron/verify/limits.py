"""From JSON to a document of bounded size: a proof may be hostile.

Everything is bounded before it is done, by what the largest honest proof of the same data needs.
What `check_separability` writes obeys the same limits.
"""

import json
import re
from collections.abc import Iterable
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

MAX_CHARACTERS = 1 << 26  # of a proof: MNIST's threes against fives need 2^23
MAX_CONTAINERS = 96  # lists and objects in a proof: groups of weights and estimates need 70
MAX_ENTRIES = 1 << 23  # of all lists together: two groups of a million pairs need 2^22
MAX_GROUPS = 4  # groups of weights: two of boundary weights, a conflict, a dual
MAX_BASIS = 4_000  # pairs of an enclosure, or of the estimates' basis: 128 MB per dense matrix
MAX_DIGITS = 1 << 16  # hexadecimal digits of a number
MAX_WORK = 1 << 37  # products of 30-bit digits: some minutes
LONGEST_NAME = 100  # characters of a column's name that a proof keeps
LONGEST_JSON_INTEGER = 18  # digits: rows, classes and features are fewer
KARATSUBA = 70  # digits from which Python splits factors in three


def load_proof(proof: Any) -> dict[str, Any]:
    """The proof as a dict, of a known version: from JSON, a dict, or a Verdict that agrees."""
    found = getattr(proof, "proof", proof)
    if isinstance(found, str | bytes):
        found = _parse(found)
    if not isinstance(found, dict) or found.get("format") != "momentron-proof":
        raise ProofError("this is not a proof: its format field must be 'momentron-proof'")
    version = found.get("version")
    if type(version) is int and 1 <= version < VERSION:
        what = "it did not name the link of the model" if version == 3 else "its fields differed"
        raise ProofError(
            f"format version {version} is no longer read: {what}; make the proof again with "
            "check_separability or `momentron check`"
        )
    if type(version) is not int or version != VERSION:
        raise ProofError(f"format version {str(version)[:50]}; only {VERSION} can be read")
    strange = sorted(FIELDS.symmetric_difference(found) - OPTIONAL, key=str)
    if strange:
        state = "is missing" if strange[0] in FIELDS else "is not a field of a proof"
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


def _parse(text: str | bytes) -> Any:
    """JSON of bounded length, with few containers and entries, and no key twice in an object."""
    if len(text) > MAX_CHARACTERS:
        raise ProofTooLarge(f"{len(text)} characters; at most {MAX_CHARACTERS} are read")
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if _count(text, "[{") > MAX_CONTAINERS:
            raise ProofError(f"more than {MAX_CONTAINERS} lists and objects: no proof needs more")
        if _count(text, ",") > MAX_ENTRIES:
            raise ProofTooLarge(f"more than {MAX_ENTRIES} entries of lists; no more are read")
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


def honest_bits(table: Table) -> int:
    """Bits of the longest number that an honest proof of some data needs, with room to spare.

    A system of r equations has solutions of r times the bits of its entries.
    """
    others = max(2, len(set(table.labels)) - 1)  # a row of an ordinal family has up to 2 pairs
    rank = 1 + min(table.n, table.used.size + 1) * others
    return min(4 * MAX_DIGITS, 4 * rank * (table.bits + rank.bit_length()) + (1 << 13))


def require_modest(document: dict[str, Any], table: Table) -> None:
    """Raise unless the lists, the numbers and the work of a proof are within their limits."""
    lists = [document[name] for name in ("boundary", "conflict", "dual")]
    groups = [group for part in lists for group in part]
    weights, said, bits = document["weights"], document["estimates"], honest_bits(table)
    lists += [document["names"] or [], *(group["numerators"] for group in groups)]
    if {*map(type, lists)} != {list}:
        raise ProofError("boundary, conflict, dual, numerators and names must be lists")
    if len(groups) > MAX_GROUPS:
        raise ProofError(f"{len(groups)} groups of weights; at most {MAX_GROUPS} are read")
    bases = {"basis": document["basis"]}
    if said is not None:
        bases |= {"basis of the estimates": said["basis"], "design": said["design"]}
    for name, basis in bases.items():
        if isinstance(basis, dict) and len(basis["rows"]) > MAX_BASIS:
            raise ProofError(
                f"the {name} has {len(basis['rows'])} pairs; at most {MAX_BASIS} are read"
            )
    n_all = (int(table.ends[-1]) + table.n) * max(1, len(document["data"]["classes"]) - 1)
    vectors = [(1, weights["numbers"])] if isinstance(weights, dict) else []
    if said is not None:
        flat = [said[name] for name in ("null", "directions", "aliases")]
        vectors += [(len(part["starts"]), part["numbers"]) for part in flat]
        groups = [*groups, said["bounds"] | {"denominator": "0x1"}]
    work = sum(m * n_all * _cost(_bits(texts, bits), table.bits) // 8 for m, texts in vectors)
    common = sum(_bits([group["denominator"]], bits) for group in groups)
    for group in groups:
        n_pairs, q = len(group["rows"]), _bits(group["numerators"], bits)
        if max(n_pairs, len(group["numerators"])) > 2 * n_all:
            raise ProofTooLarge(f"a group has {n_pairs} weights, more than the data have pairs")
        longest = q + table.bits + common + 64
        work += min(n_pairs * (table.used.size + 1), 2 * n_all) * _cost(q, table.bits) // 4
        work += n_pairs * _cost(q, common) + (table.used.size + 1) * 2 * _cost(longest, longest)
    if work > MAX_WORK:
        raise ProofTooLarge(
            f"the numbers are too long to be checked on this many entries of X: about {work:.1e} "
            f"products of digits, where at most {MAX_WORK:.1e} are computed"
        )


def _bits(texts: Iterable[str], most: int) -> int:
    """Bits of the longest of some numbers, at most; raise if an honest proof has none so long."""
    longest = max(map(len, texts), default=0)
    if longest > MAX_DIGITS:
        raise ProofTooLarge(f"a number has {longest} digits; at most {MAX_DIGITS} are read")
    if 4 * (longest - 8) > most:
        raise ProofTooLarge(
            f"the numbers are too long to be checked: {longest} digits, and no honest proof of "
            f"these data needs more than {most // 4}"
        )
    return 4 * longest


def _cost(first: int, second: int) -> int:
    """Products of 30-bit digits in a product of two numbers with this many bits; at least 64."""
    short, long = sorted((1 + first // 30, 1 + second // 30))
    if short >= KARATSUBA:  # Python splits the longer factor into pieces, and these in three
        short = int(KARATSUBA * (short / KARATSUBA) ** 0.6)
    return 64 + short * long
