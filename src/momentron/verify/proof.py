"""The heart of the verifier: what decides whether a proof is accepted. Nothing is rounded.

Written from docs/proof-format.md, to be read next to it; needs the standard library and numpy, and
nothing else of momentron. In units of 1/scale every row x of X is a vector of integers; x̃ is x
with a last 1 if there is an intercept. The coordinates of w come in blocks of equal width, columns
first and then intercepts. Each row makes some *pairs* (row, j), each with a vector a: a sum of
*terms* (block, sign, shift), ±x̃ in that block with the last 1 moved on by `shift` places. Along a
direction w a pair changes by s = w·a.

1. *Every pair is on its side*: s ≥ 0 for all pairs. If all s > 0 the classes are separable.
2. *Weights that cancel*: q ≥ 0, q ≠ 0 with Σ q a = 0 (Gordan). No w then has s > 0 on all pairs,
   since Σ q s = w·Σ q a = 0; and every w with s ≥ 0 everywhere has s = 0 wherever q > 0: these are
   the boundary pairs. If q > 0 on all pairs, every such w has s = 0 on all (Stiemke): overlap.
3. *No pair is left open*: s > 0 or q > 0 on each, unless the proof says that it is not complete.
4. *The interval* (weak duality): min s/‖w‖ ≤ best margin ≤ ‖Σ q a‖/Σ q, for every w and for every
   q ≥ 0 with which Σ q a vanishes along the intercepts, which have no part in ‖w‖.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np

Pair = tuple[int, int]  # (row, class)
Vector = dict[int, int]  # coordinate → integer; what is absent is zero
Term = tuple[int, int, int]  # (block, sign, shift of the intercept)

CUMULATIVE = ("logit", "probit", "cloglog", "loglog", "cauchit", "cdf")
LINKS = {
    "binomial": (*CUMULATIVE, "log", "logc"),
    "multinomial": ("logit",),
    "poisson": ("log",),
    "negative-binomial": ("log",),
    "truncated-poisson": ("log",),
    "ordinal": CUMULATIVE,
}
COUNTS = {  # family: its two classes, and the count up to which a row is of the first
    "poisson": ("0", "> 0", 0),
    "negative-binomial": ("0", "> 0", 0),
    "truncated-poisson": ("1", "> 1", 1),
}
LEFT_OUT = -1  # the class of a row without pairs
INTEGER = re.compile(r"-?0x[0-9a-f]+")
FLOAT = re.compile(r"(-?)0x([0-9a-f]+)\.?([0-9a-f]*)p([+-]?[0-9]{1,5})")
LONGEST_FLOAT = 64  # characters
SECONDS_PER_FLOP = 5e-11  # of a dense inverse


class Refused(ValueError):
    """The proof does not hold: says which row, or what, fails."""


# --- numbers -------------------------------------------------------------------------------------


def number(text: str) -> int | float:
    """A hexadecimal integer, an infinity, or a hexadecimal float that is exactly a float64."""
    if text in ("inf", "-inf"):
        return float(text)
    if "p" not in text:
        if not INTEGER.fullmatch(text):
            raise ValueError(f"{text[:50]!r} is not a hexadecimal integer")
        return int(text, 16)
    parts = FLOAT.fullmatch(text) if len(text) <= LONGEST_FLOAT else None
    if parts is None:
        raise ValueError(f"{text[:50]!r} is not a hexadecimal float")
    value = float.fromhex(text)
    sign, whole, fraction, power = parts.groups()
    mantissa, exponent = int(sign + whole + fraction, 16), int(power) - 4 * len(fraction)
    numerator, denominator = value.as_integer_ratio()
    if numerator << max(0, -exponent) != (mantissa * denominator) << max(0, exponent):
        raise ValueError(f"{text[:50]!r} is not a float64: it would be rounded")
    return value


def integer(text: str) -> int:
    """A hexadecimal integer."""
    found = number(text)
    if type(found) is not int:
        raise ValueError(f"{text[:50]!r} is not a hexadecimal integer")
    return found


def whole_numbers(texts: list[str]) -> list[int]:
    """Numbers times the least power of two that makes all of them integers.

    >>> whole_numbers(["0x1.8p+0", "0x1", "-0x1p-2"])
    [6, 4, -1]
    """
    ratios = [number(text).as_integer_ratio() for text in texts]
    common = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (common // denominator) for numerator, denominator in ratios]


def read_interval(document: dict[str, Any]) -> tuple[float, float]:
    """(lower, upper): the ends of the margin, which must be float64 numbers."""
    lower, upper = (number(document["margin"][end]) for end in ("lower", "upper"))
    if float(lower) != lower or float(upper) != upper:
        raise Refused("an end of the margin is not a float64; write both as hexadecimal floats")
    return float(lower), float(upper)


# --- the models ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A family and a link: which pairs the rows of each class make, and of what terms."""

    family: str
    link: str
    k: int
    fit_intercept: bool

    @property
    def is_simple(self) -> bool:
        """Whether each class has weights of its own, and rows are compared with other classes."""
        return self.family in ("binomial", "multinomial") and self.link not in ("log", "logc")

    @property
    def n_blocks(self) -> int:
        return self.k - 1 if self.is_simple else 1

    @property
    def n_intercepts(self) -> int:
        """Intercepts per block."""
        return self.k - 1 if self.family == "ordinal" else int(self.fit_intercept)

    def pairs(self, c: int) -> dict[int, list[Term]]:
        """The j of the pairs (row, j) of a row of class c, with the terms of their vectors."""
        if c == LEFT_OUT:
            return {}
        if self.link in ("log", "logc"):  # one class may tend to −∞, the other holds η
            falls = {1: [(0, -1, 0)]}
            return falls if c == (self.link == "logc") else {0: [(0, 1, 0)]} | falls
        if self.family == "ordinal":
            near = [j for j in (c - 1, c + 1) if 0 <= j < self.k]
            return {j: [(0, c - j, min(c, j))] for j in near}
        return {
            j: [(b - 1, sign, 0) for b, sign in ((c, 1), (j, -1)) if b > 0]
            for j in range(self.k)
            if j != c
        }

    def class_of(self, label: str) -> str:
        """The class to which a label belongs; counts fall into two."""
        if self.family not in COUNTS:
            return label
        low, high, least = COUNTS[self.family]
        value = Decimal(label, Context(traps=[]))  # NaN of other text
        is_count = value.is_finite() and value >= least
        if not is_count or (least and value != value.to_integral_value()):
            wanted = "whole numbers ≥ 1" if least else "finite numbers ≥ 0"
            raise Refused(f"y has {label[:40]!r}; counts of this family must be {wanted}")
        return high if value > least else low


def read_model(document: dict[str, Any], table: Any) -> Model:
    """The model of a proof, if all that the proof says about the data is true."""
    said, family, link = document["data"], document["family"], document["link"]
    classes, sizes, shape = said["classes"], (said["rows"], said["features"]), (table.n, table.d)
    if said["decimals"] not in ("binary", "shortest") or said["decimals"] != table.decimals:
        raise Refused("data.decimals must be 'binary' or 'shortest'")
    if said["sha256"] != table.sha256:
        raise Refused("this proof is for different data: the SHA-256 of X and y differs")
    if said["left_out"] != table.left_out or not all(type(i) is int for i in said["left_out"]):
        raise Refused(
            f"this proof leaves out {len(said['left_out'])} rows and the data {len(table.left_out)}"
            " (rows of weight 0), or other ones; pass the sample_weight with which it was made"
        )
    if type(family) is not str or family not in LINKS:
        raise Refused(f"family is {str(family)[:50]}; it must be one of {list(LINKS)}")
    if type(link) is not str or link not in LINKS[family]:
        known = list(LINKS[family])
        raise Refused(f"link is {str(link)[:50]}; of family {family!r} it must be one of {known}")
    if family in COUNTS:
        are_classes = classes == list(COUNTS[family][:2])
    else:
        are_classes = type(classes) is list and sorted(classes) == sorted(set(table.kept_labels))
    if not are_classes:
        raise Refused("this proof is for different data: its classes are not the labels in y")
    if {*map(type, sizes)} != {int} or sizes != shape:
        raise Refused(f"the proof says {str(sizes)[:50]} rows and features; X has {shape}")
    k = len(classes) if table.kept_labels else 0  # counts have two classes even without any row
    fit_intercept = document["fit_intercept"]
    if k < 2 or (family == "binomial" and k != 2):
        needs = "exactly 2" if k > 2 else "at least 2"
        raise Refused(f"y has {k} class{'es' * (k != 1)}; family {family!r} needs {needs}")
    has_event = family == "binomial" and link in ("log", "logc")
    if not fit_intercept and (family == "ordinal" or has_event):
        raise Refused(f"family {family!r} with link {link!r} needs an intercept")
    return Model(family, link, k, fit_intercept)


# --- the proof -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Positive rational weights q on some pairs: numerator / denominator."""

    numerators: dict[Pair, int]
    denominator: int


class Proof:
    """A proof of a table, read and checked: `Refused` is raised unless it holds.

    Parameters
    ----------
    document : dict
        With the fields of docs/proof-format.md, of a known version; nothing in it is trusted.
    table : Table
    model : Model
        As `read_model` finds it.
    """

    def __init__(self, document: dict[str, Any], table: Any, model: Model) -> None:
        self.table, self.model = table, model
        self.kind, self.complete = document["kind"], document["complete"]
        self.lower, self.upper = read_interval(document)
        self.classes, self.names = document["data"]["classes"], document["names"]
        self.codes = self._codes()
        self.pairs = {c: model.pairs(c) for c in range(LEFT_OUT, model.k)}
        self.n_features = int(table.used.size)
        self.width = self.n_features + self.model.n_intercepts
        self.size = self.width * self.model.n_blocks
        self.w, self.by_column = self._weights(document["weights"])
        self.boundary, self.conflict, self.dual = (
            [self.read_group(group) for group in document[name]]
            for name in ("boundary", "conflict", "dual")
        )
        self.on_boundary = set().union(*(group.numerators for group in self.boundary))
        least, n_strict = self._check_sides()
        self._check_kind(n_strict)
        self._check_boundary(document["basis"])
        self._check_conflict()
        self._check_interval(least)

    def _codes(self) -> np.ndarray:
        """The class of each row, as an index; −1 if it is left out."""
        index = {label: c for c, label in enumerate(self.classes)}
        code_of = {label: index[self.model.class_of(label)] for label in {*self.table.kept_labels}}
        codes = np.array([code_of.get(label, LEFT_OUT) for label in self.table.labels], np.int64)
        codes[self.table.left_out] = LEFT_OUT
        if self.model.family == "negative-binomial" and not (codes == 1).any():
            raise Refused("family 'negative-binomial' needs a count above 0")
        return codes

    def _weights(self, found: Any) -> tuple[Vector, dict[int, list[int]]]:
        """(w by coordinate, without columns of zeros; its weights by column, which make up ‖w‖)."""
        if type(found) is not dict:
            raise Refused("the weights must be an object of coordinates and numbers")
        d = self.table.d
        width = d + self.model.n_intercepts
        at, texts = found["coordinates"], found["numbers"]
        if {type(at), type(texts)} != {list} or len(at) != len(texts):
            raise Refused("weights must have one number for each of their coordinates")
        require_indices(at, width * self.model.n_blocks, "the coordinate of a weight")
        if any(a >= b for a, b in pairwise(at)):
            raise Refused("a coordinate of a weight is out of order")
        places = {column: p for p, column in enumerate(self.table.used.tolist())}
        places |= {d + i: self.n_features + i for i in range(self.model.n_intercepts)}
        w: Vector = {}
        by_column: dict[int, list[int]] = {}
        for coordinate, value in zip(at, whole_numbers(texts), strict=True):
            block, column = divmod(coordinate, width)
            if column in places and value:
                w[block * self.width + places[column]] = value
            if column < d:
                by_column.setdefault(column, []).append(value)
        return w, by_column

    def read_group(self, group: dict[str, Any]) -> Group:
        """A group of weights, all positive."""
        denominator, pairs = integer(group["denominator"]), self.read_pairs(group)
        numerators = dict(zip(pairs, map(integer, group["numerators"]), strict=True))
        if min(denominator, *numerators.values()) < 1:
            raise Refused("a weight, or the denominator of a group, is not positive")
        return Group(numerators, denominator)

    def read_pairs(self, group: dict[str, Any]) -> list[Pair]:
        """The pairs of a group or basis: each is a pair of the data, and appears once."""
        rows = group["rows"]
        if self.model.family == "binomial" and self.model.is_simple and "others" not in group:
            others = [1 - int(self.codes[i]) for i in rows]
        else:
            others = group["others"]
        pairs = list(zip(rows, others, strict=True))
        for i, j in pairs:
            # 0.5 is between two classes, and True equals 1: neither names a row or a class
            if type(i) is not int or type(j) is not int:
                raise Refused(f"row {str(i)[:50]}, class {str(j)[:50]}: both must be integers")
            if not 0 <= i < self.table.n or j not in self.pairs[int(self.codes[i])]:
                raise Refused(f"row {i}, class {j}: there is no such pair")
        if len(set(pairs)) < len(pairs) or not pairs:
            raise Refused("a group of weights is empty, or names a pair twice")
        return pairs

    # --- vectors and sums ------------------------------------------------------------------------

    def sides(self, vectors: list[Vector]) -> Iterator[tuple[np.ndarray, int, list[np.ndarray]]]:
        """(rows, j, the values v·a of each vector on the pairs (row, j)), for all pairs."""
        bits = max((abs(v).bit_length() for vector in vectors for v in vector.values()), default=0)
        at, scale = self.n_features, self.table.scale
        blocks = [[[0] * self.width for _ in range(self.model.n_blocks)] for _ in vectors]
        for vector, parts in zip(vectors, blocks, strict=True):
            for c, v in vector.items():
                parts[c // self.width][c % self.width] = v
        kept = np.flatnonzero(self.codes != LEFT_OUT)
        for rows, ends, places, x in self.table.pieces(kept, bits):
            products = []
            for parts in blocks:
                self.table.tick(0.0)
                sums = []
                for part in parts:  # differences undo what running sums of int64 wrap
                    running = np.cumsum(x * np.array(part, x.dtype)[places], dtype=x.dtype)
                    sums.append(np.diff(np.append(np.zeros(1, x.dtype), running)[ends]))
                products.append(sums)
            codes = self.codes[rows]
            for c in np.unique(codes).tolist():
                own = np.flatnonzero(codes == c)
                for j, terms in self.pairs[c].items():
                    values = []
                    for parts, sums in zip(blocks, products, strict=True):
                        s: Any = sum(sign * sums[block][own] for block, sign, _ in terms)
                        if self.model.fit_intercept:
                            s = s + scale * sum(sign * parts[b][at + m] for b, sign, m in terms)
                        values.append(s)
                    yield rows[own], j, values

    def vectors(self, pairs: Sequence[Pair]) -> dict[Pair, Vector]:
        """The vectors a of some pairs."""
        by_row: dict[int, list[int]] = {}
        for i, j in pairs:
            by_row.setdefault(i, []).append(j)
        found: dict[Pair, Vector] = {}
        for rows, ends, places, x in self.table.pieces(np.array(sorted(by_row), np.int64)):
            for m, i in enumerate(rows.tolist()):
                entries = slice(ends[m], ends[m + 1])
                row = dict(zip(places[entries].tolist(), x[entries].tolist(), strict=True))
                for j in by_row[i]:
                    a: Vector = found.setdefault((i, j), {})
                    for block, sign, shift in self.pairs[int(self.codes[i])][j]:
                        start = block * self.width
                        a.update({start + p: sign * v for p, v in row.items()})
                        if self.model.fit_intercept:
                            a[start + self.n_features + shift] = sign * self.table.scale
        return found

    def total(self, weights: dict[Pair, int]) -> Vector:
        """Σ q a over some pairs."""
        by_block: dict[int, dict[int, int]] = {}  # block → row → signed sum of its weights
        total: Vector = {}
        for (i, j), q in weights.items():
            for block, sign, shift in self.pairs[int(self.codes[i])][j]:
                of_rows = by_block.setdefault(block, {})
                of_rows[i] = of_rows.get(i, 0) + sign * q
                if self.model.fit_intercept:
                    c = block * self.width + self.n_features + shift
                    total[c] = total.get(c, 0) + sign * q * self.table.scale
        for block, of_rows in by_block.items():
            bits = max(abs(q).bit_length() for q in of_rows.values())
            for rows, ends, places, x in self.table.pieces(np.array(sorted(of_rows)), bits):
                factors = np.array([of_rows[i] for i in rows.tolist()], x.dtype)
                sums = np.zeros(self.n_features, x.dtype)
                np.add.at(sums, places, x * np.repeat(factors, np.diff(ends)))
                for p in np.flatnonzero(sums).tolist():
                    c = block * self.width + p
                    total[c] = total.get(c, 0) + int(sums[p])
        return {c: v for c, v in total.items() if v}

    def cancelled(self, groups: list[Group]) -> tuple[Vector, int, int]:
        """(Σ q a, Σ q, D) over some groups, both sums times the common denominator D."""
        common = math.prod(group.denominator for group in groups)
        total: Vector = {}
        mass = 0
        for group in groups:
            factor = common // group.denominator
            mass += factor * sum(group.numerators.values())
            for c, v in self.total(group.numerators).items():
                total[c] = total.get(c, 0) + factor * v
        return {c: v for c, v in total.items() if v}, mass, common

    # --- the checks ------------------------------------------------------------------------------

    def _check_sides(self) -> tuple[int, int]:
        """(the least s, on how many pairs s > 0); s ≥ 0 on every pair, and no pair is left open."""
        least, n_strict = None, 0
        for rows, j, (s,) in self.sides([self.w]):
            if not rows.size:
                continue
            low = int(s.min())
            least = low if least is None else min(least, low)
            n_strict += int((s > 0).sum())
            if low > 0 or (low == 0 and not self.complete):
                continue
            for i, value in zip(rows.tolist(), s.tolist(), strict=True):
                against = f"row {i}, compared with class {self.classes[j][:40]!r}"
                if value < 0:
                    raise Refused(f"{against}, is on the wrong side of the proof's hyperplane")
                if value == 0 and self.complete and (i, j) not in self.on_boundary:
                    raise Refused(
                        f"{against}, lies on the proof's hyperplane, and the proof does not show "
                        "that it must"
                    )
        return least or 0, n_strict

    def _check_kind(self, n_strict: int) -> None:
        """The kind that is claimed is the kind that is shown."""
        shown = "separable"
        if self.boundary:
            shown = "quasi-separable" if n_strict else "overlapping"
        # one pair with s > 0 and one with q > 0 suffice; the other kinds speak of every pair
        is_sure = self.complete or shown == "quasi-separable"
        if self.kind != "undecided" and (shown != self.kind or not is_sure):
            raise Refused(f"the proof claims {self.kind!r} and shows {shown!r} at most")

    def _check_boundary(self, basis: Any) -> None:
        """The boundary weights cancel, or an enclosure shows that weights near them do."""
        if basis is not None and type(basis) is not dict:
            raise Refused(f"basis is {str(basis)[:50]}; it must be null or an object of pairs")
        members = None if basis is None else self.read_pairs(basis)
        rho, _, denominator = self.cancelled(self.boundary)
        if not rho:
            return
        if members is None:
            raise Refused("the boundary weights do not cancel: Σ q a is not zero")
        members = [pair for pair in members if pair in self.on_boundary]
        used = {c: m for m, c in enumerate(sorted(self.coordinates(self.on_boundary)))}
        if len(members) != len(used):
            raise Refused(
                f"no enclosure: {len(members)} pairs of the basis are boundary pairs, which have "
                f"{len(used)} coordinates; the two numbers must agree"
            )
        M = np.zeros((len(used), len(used)))
        for m, a in enumerate(self.vectors(members).values()):
            for c, v in a.items():
                M[used[c], m] = v / self.table.scale
        sizes = np.zeros(len(used))
        for c, v in rho.items():
            sizes[used[c]] = abs(v) / (denominator * self.table.scale)
        shares = [[g.numerators.get(p, 0) / g.denominator for p in members] for g in self.boundary]
        least = float(np.sum(shares, axis=0).min())
        if not is_enclosed(M, sizes, least, self.table.tick):
            raise Refused("the boundary weights do not cancel, and no enclosure shows that some do")

    def coordinates(self, pairs: Iterable[Pair]) -> set[int]:
        """The coordinates in which some of these pairs are not zero."""
        by_terms: dict[tuple[Term, ...], set[int]] = {}
        for i, j in pairs:
            key = tuple(self.pairs[int(self.codes[i])][j])
            by_terms.setdefault(key, set()).add(i)
        found: set[int] = set()
        for terms, rows in by_terms.items():
            for _, _, places, _ in self.table.pieces(np.array(sorted(rows))):
                at = np.unique(places).tolist()
                for block, _, shift in terms:
                    found.update(block * self.width + p for p in at)
                    if self.model.fit_intercept:
                        found.add(block * self.width + self.n_features + shift)
        return found

    def _check_conflict(self) -> None:
        """The weights of the conflict cancel, and are no more than Carathéodory's theorem needs."""
        n_pairs = sum(len(group.numerators) for group in self.conflict)
        most = (self.table.d + self.model.n_intercepts) * self.model.n_blocks + 1
        if self.cancelled(self.conflict)[0]:
            raise Refused("the weights of the conflict do not cancel: Σ q a is not zero")
        if n_pairs > most:
            raise Refused(f"the conflict has {n_pairs} pairs; {most} suffice, and no more are read")

    def _check_interval(self, least: int) -> None:
        """lower ≤ min s/‖w‖ and upper ≥ ‖Σ q a‖/Σ q, as squares of integers."""
        if not self.upper >= max(0, self.lower):
            raise Refused(f"the interval [{self.lower}, {self.upper}] is empty or below 0")
        # with k > 2 classes k‖w‖² = k Σ‖w_c‖² − ‖Σ w_c‖², the least over all shifts of every w_c
        m = self.model.n_blocks + 1 if self.model.n_blocks > 1 else 1
        if self.lower > 0:
            columns = self.by_column.values()
            squares = m * sum(v * v for column in columns for v in column)
            if m > 1:
                squares -= sum(sum(column) ** 2 for column in columns)
            numerator, denominator = self.lower.as_integer_ratio()
            wanted = (numerator * self.table.scale) ** 2 * squares
            if least <= 0 or m * (least * denominator) ** 2 < wanted:
                raise Refused(f"the margin of w is below the lower bound {self.lower}")
        if self.kind in ("quasi-separable", "overlapping"):
            if self.lower or self.upper:
                raise Refused(
                    f"the margin is said to be in [{self.lower}, {self.upper}]; both ends must be "
                    f"0 where the classes are {self.kind}"
                )
            return
        if self.lower < 0:
            raise Refused(f"the lower bound is {self.lower}; it must not be below 0")
        if self.upper == math.inf:
            return
        total, mass, _ = self.cancelled(self.dual)
        if not mass or any(c % self.width >= self.n_features for c in total):
            raise Refused("there are no dual weights, or they do not cancel along the intercept")
        square = sum(v * v for v in total.values())
        if m > 1:  # what the other classes sum to, class 0 has with the other sign
            first: Vector = {}
            for c, v in total.items():
                first[c % self.width] = first.get(c % self.width, 0) + v
            square += sum(v * v for v in first.values())
        numerator, denominator = self.upper.as_integer_ratio()
        if (numerator * mass * self.table.scale) ** 2 < square * denominator**2:
            raise Refused(f"the dual weights do not reach the upper bound {self.upper}")


def require_indices(values: Any, size: int, what: str = "an index of the estimates") -> list[int]:
    """Integers from 0 to below a size."""
    if type(values) is not list:
        raise Refused(f"{what} must be in a list of integers")
    for v in values:
        if type(v) is not int or not 0 <= v < size:
            raise Refused(f"{what}, {str(v)[:50]}, is out of range: it must be below {size}")
    return values


def is_enclosed(
    M: np.ndarray, rho: np.ndarray, least: float, tick: Callable[[float], None]
) -> bool:
    """Whether M δ = −ρ surely has a solution with ‖δ‖ < least, in the maximum norm.

    For any matrix C, ‖I − CM‖ < 1 makes M regular, and δ = (I − CM)δ − Cρ gives
    ‖δ‖ ≤ ‖Cρ‖ / (1 − ‖I − CM‖). All roundings are bounded; |ρ| is given up to its own.
    """
    size = len(M)
    gamma = (size + 8) * 2.0**-52  # bounds the relative rounding of a product
    distance, length = 0.0, 0.0  # ‖I − CM‖ and ‖Cρ‖
    with np.errstate(all="ignore"):  # what overflows fails the test
        tick(SECONDS_PER_FLOP * 2.0 * size**3)
        C = np.linalg.inv(M)
        for start in range(0, size, 128):
            tick(0.0)
            part = C[start : start + 128]
            difference = np.abs(np.eye(len(part), size, start) - part @ M)
            difference += gamma * (np.abs(part) @ np.abs(M) + 1.0)
            distance = np.maximum(distance, difference.sum(axis=1).max())  # NaN stays
            length = np.maximum(length, (np.abs(part) @ (rho + 1e-300)).max())
    # with ‖I − CM‖ < ½ the bound is at most 2‖Cρ‖; 0.1 more covers the rounding of that product,
    # and 1e-290 is above the sum of all underflows
    return bool(distance < 0.5 and 1e-290 + 2.1 * length < least)
