"""Mutations of proofs and of their data: the verifier must reject them, unless they are still true.

What it accepts is checked again here with plain fractions, by code of its own: only the reading of
numbers and the digest are shared. Enclosures are not among the cases. The digest of
mutated data is written into the proof, so that only arithmetic can find them out.
"""

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from momentron.verify import ProofError, verify
from momentron.verify.outcomes import label_texts, read_table
from momentron.verify.proof import number

GARBAGE: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**400, "", "0x", "nan", "inf", "0x1p+99999", "-0x1", "0x" + "f" * 999,
    [], [[]], {}, ["0x1"], "separable", "overlapping", "quasi-separable", "undecided",
)  # fmt: skip


@dataclass
class Case:
    """A proof that holds, with its data."""

    proof: dict[str, Any]
    X: np.ndarray
    y: np.ndarray


@dataclass
class Tally:
    """What became of the mutations."""

    rejected: Counter[str] = field(default_factory=Counter)
    still_true: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def mutate_all(cases: list[Case], count: int, seed: int = 0) -> Tally:
    """Apply `count` mutations, of each kind in turn, to random cases, and judge each answer."""
    rng = random.Random(seed)
    tally = Tally()
    for step in range(count):
        case = rng.choice(cases)
        name = list(MUTATIONS)[step % len(MUTATIONS)]
        try:
            proof, X, y = MUTATIONS[name](rng, case)
            verify(proof, X, y)
        except ProofError:
            tally.rejected[name] += 1
        except Exception as error:
            tally.failures.append(f"{name}: {type(error).__name__}: {error}")
        else:
            claim = json.loads(proof) if isinstance(proof, str | bytes) else proof
            if is_true(claim, X, y):
                tally.still_true[name] += 1
            else:
                tally.failures.append(f"{name}: a false proof of {claim['kind']!r} was accepted")
    return tally


Mutant = tuple[Any, np.ndarray, np.ndarray]


def _nudge(rng: random.Random, text: str) -> str:
    """One unit in the last place, up or down."""
    value = number(text)
    if isinstance(value, int):
        return hex(value + rng.choice((-1, 1)))
    return math.nextafter(value, rng.choice((-math.inf, math.inf))).hex()


def _weight(rng: random.Random, case: Case) -> Mutant:
    proof = copy.deepcopy(case.proof)
    numbers = proof["weights"]["numbers"]
    places = [(numbers, i) for i in range(len(numbers))]
    for name in ("boundary", "conflict", "dual"):
        for group in proof[name]:
            places += [(group["numerators"], i) for i in range(len(group["numerators"]))]
    values, i = rng.choice(places)
    values[i] = _nudge(rng, values[i])
    return proof, case.X, case.y


def _interval(rng: random.Random, case: Case) -> Mutant:
    proof = copy.deepcopy(case.proof)
    end = rng.choice(("lower", "upper"))
    proof["margin"][end] = _nudge(rng, proof["margin"][end])
    return proof, case.X, case.y


def _rehash(case: Case, X: np.ndarray, y: np.ndarray) -> Mutant:
    proof = copy.deepcopy(case.proof)
    proof["data"]["sha256"] = read_table(X, y).sha256
    return proof, X, y


def _label(rng: random.Random, case: Case) -> Mutant:
    y = case.y.copy()
    i = rng.randrange(len(y))
    y[i] = rng.choice([c for c in np.unique(case.y).tolist() if c != y[i]])
    return _rehash(case, case.X, y)


def _feature(rng: random.Random, case: Case) -> Mutant:
    X = case.X.copy()
    i, j = rng.randrange(X.shape[0]), rng.randrange(X.shape[1])
    X[i, j] = np.nextafter(X[i, j], rng.choice((-np.inf, np.inf)))
    return _rehash(case, X, case.y)


def _other_data(rng: random.Random, case: Case) -> Mutant:
    X = case.X.copy()
    i, j = rng.randrange(X.shape[0]), rng.randrange(X.shape[1])
    X[i, j] = np.nextafter(X[i, j], np.inf)
    return case.proof, X, case.y


def _kind(rng: random.Random, case: Case) -> Mutant:
    proof = copy.deepcopy(case.proof)
    kinds = {"separable", "quasi-separable", "overlapping", "undecided", "nonsense"}
    proof["kind"] = rng.choice(sorted(kinds - {proof["kind"]}))
    return proof, case.X, case.y


def _drop(rng: random.Random, case: Case) -> Mutant:
    """Forget a weighted row."""
    proof = copy.deepcopy(case.proof)
    groups = [g for name in ("boundary", "conflict", "dual") for g in proof[name]]
    group = rng.choice(groups)
    i = rng.randrange(len(group["rows"]))
    for name in ("rows", "numerators", "others"):
        if name in group:
            del group[name][i]
    return proof, case.X, case.y


def _truncate(rng: random.Random, case: Case) -> Mutant:
    text = json.dumps(case.proof)
    return text[: rng.randrange(len(text))], case.X, case.y


def _bytes(rng: random.Random, case: Case) -> Mutant:
    text = bytearray(json.dumps(case.proof).encode())
    for _ in range(rng.randrange(1, 4)):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(text), case.X, case.y


def _garbage(rng: random.Random, case: Case) -> Mutant:
    """Replace any part of the proof by something hostile, or take it away."""
    proof: Any = copy.deepcopy(case.proof)
    node: Any = proof
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        if rng.random() < 0.2:
            del node[key]
        else:
            node[key] = rng.choice(GARBAGE)
        return proof, case.X, case.y


def _hostile(rng: random.Random, case: Case) -> Mutant:
    text = json.dumps(case.proof)
    files = ("[" * 100_000, '{"a":' * 50_000, "\x00" * 99, "NaN", "1" * 5000, text + text, text[1:])
    return rng.choice(files), case.X, case.y


MUTATIONS: dict[str, Callable[[random.Random, Case], Mutant]] = {
    "weight by one unit": _weight,
    "interval by one unit": _interval,
    "label": _label,
    "feature by one unit": _feature,
    "other data": _other_data,
    "kind": _kind,
    "row dropped": _drop,
    "truncated": _truncate,
    "random bytes": _bytes,
    "hostile value": _garbage,
    "hostile file": _hostile,
}


def is_true(proof: dict[str, Any], X: np.ndarray, y: np.ndarray) -> bool:
    """Whether all that a proof says is true, recomputed with fractions, apart from the verifier."""
    labels = label_texts(y)
    classes = proof["data"]["classes"]
    x = [
        [*map(Fraction, row), *[Fraction(1)] * (proof["fit_intercept"] is True)]
        for row in X.tolist()
    ]
    d, width, k = X.shape[1], len(x[0]), len(classes)
    if read_table(X, y).sha256 != proof["data"]["sha256"] or set(classes) != set(labels):
        return False
    flat = [Fraction(0)] * ((k - 1) * width)
    for place, text in zip(
        proof["weights"]["coordinates"], proof["weights"]["numbers"], strict=True
    ):
        flat[place] = Fraction(number(text))
    w = [[Fraction(0)] * width, *(flat[c : c + width] for c in range(0, len(flat), width))]
    w += [[Fraction(0)] * width] * (k - len(w))
    own = [classes.index(label) for label in labels]
    s = {
        (i, j): sum((a - b) * v for a, b, v in zip(w[own[i]], w[j], x[i], strict=True))
        for i in range(len(x))
        for j in range(k)
        if j != own[i]
    }
    q = {name: _weights(proof[name], own, k) for name in ("boundary", "conflict", "dual")}
    plane, kind = q["boundary"], proof["kind"]
    if any(v <= 0 for part in q.values() for v in part.values()):
        return False
    if any(v for name in ("boundary", "conflict") for v in _sum(q[name], x, own, k)):
        return False
    strict = [pair for pair, v in s.items() if v > 0]
    facts = {
        "separable": len(strict) == len(s),
        "quasi-separable": min(s.values()) == 0 and bool(strict) and bool(plane),
        "overlapping": set(plane) == set(s),
        "undecided": True,
    }
    return kind in facts and facts[kind] and _interval_is_true(proof, w, s, q["dual"], x, own, d)


def _weights(groups: list[Any], own: list[int], k: int) -> dict[tuple[int, int], Fraction]:
    total: dict[tuple[int, int], Fraction] = {}
    for group in groups:
        others = group["others"] if k > 2 else [1 - own[i] for i in group["rows"]]
        for i, j, v in zip(group["rows"], others, group["numerators"], strict=True):
            share = Fraction(int(v, 16), int(group["denominator"], 16))
            total[i, j] = total.get((i, j), Fraction(0)) + share
    return total


def _sum(
    q: dict[tuple[int, int], Fraction], x: list[list[Fraction]], own: list[int], k: int
) -> list[Fraction]:
    """Σ q a over all k classes."""
    width = len(x[0])
    total = [Fraction(0)] * (k * width)
    for (i, j), weight in q.items():
        for c, v in enumerate(x[i]):
            total[own[i] * width + c] += weight * v
            total[j * width + c] -= weight * v
    return total


def _interval_is_true(
    proof: dict[str, Any],
    w: list[list[Fraction]],
    s: dict[tuple[int, int], Fraction],
    dual: dict[tuple[int, int], Fraction],
    x: list[list[Fraction]],
    own: list[int],
    d: int,
) -> bool:
    lower, upper = (number(proof["margin"][end]) for end in ("lower", "upper"))
    if upper < max(0, lower):
        return False
    if proof["kind"] in ("quasi-separable", "overlapping"):
        return lower == upper == 0
    k, width = len(w), len(x[0])
    features = [v[:d] for v in w]
    if lower > 0:
        mean = [sum(column) / k if k > 2 else Fraction(0) for column in zip(*features, strict=True)]
        length = sum((a - m) ** 2 for v in features for a, m in zip(v, mean, strict=True))
        least = min(s.values())
        if least <= 0 or Fraction(lower) ** 2 * length > least**2:
            return False
    if proof["kind"] in ("separable", "undecided") and upper < math.inf:
        total = _sum(dual, x, own, k)
        if not dual:
            return False
        if any(total[c * width + d] for c in range(k) if width > d):
            return False
        square = sum(total[c * width + f] ** 2 for c in range(k) for f in range(d))
        halves = 2 if k == 2 else 1  # with two classes only one of the two slopes counts
        return square <= halves * (Fraction(upper) * sum(dual.values())) ** 2
    return True
