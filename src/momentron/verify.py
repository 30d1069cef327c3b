"""The verifier: checks a proof of separability in whole numbers, and trusts no solver.

A float is an integer times a power of two, so in units of 2^E every x is a vector of integers. For
x of class c and another class j let s = (w_c − w_j)·x, with w_0 = 0, and a the vector with s = w·a.
Checked without a rounding, in one pass over the rows (docs/proof-format.md): every s ≥ 0;
Σ q a = 0 with q ≥ 0; and s > 0 or q > 0 on every pair (x, j). All s > 0 is separable, all q > 0 is
overlapping (Stiemke), both kinds of pairs is quasi-separable.

A proof may be hostile: its size is bounded before it is parsed, the numbers' lengths before they
are read, and the work before it is begun, all by what honest proofs of the same data need.
"""

import math
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from momentron.clock import OutOfTime, require_time, until
from momentron.environment import standard_arithmetic
from momentron.separability import canonical
from momentron.separability.canonical import Allowance, Pairs, ProofError, product_cost, widest
from momentron.separability.data import Data, label_texts
from momentron.separability.patience import patiently

Vector = dict[int, int]  # place → whole number; what is absent is zero
Group = tuple[str, tuple[Pairs, int]]  # (field, (numerators by pair, denominator))


def verify(proof: Any, X: Any, y: Any, *, max_time: float | None = None) -> bool:
    """Check a proof of separability against the data it speaks of, in exact arithmetic.

    Parameters
    ----------
    proof : Verdict, its JSON (str or bytes), or the dict within
    X, y : the data, dense or sparse, and their labels
    max_time : float, optional
        Seconds; a proof that is not checked within them is not accepted.

    Returns
    -------
    bool
        True; where the proof fails, `ProofError` is raised with the first row that fails.

    >>> from momentron.separability.check import check_separability
    >>> verify(check_separability([[0], [1], [2]], [0, 1, 0]).to_json(), [[0], [1], [2]], [0, 1, 0])
    True
    """
    moment = math.inf if max_time is None else time.perf_counter() + max_time
    with standard_arithmetic():
        try:
            with until(moment):
                check_claim(proof, Data(X, label_texts(y)))
        except ProofError:
            raise
        except OutOfTime:
            if time.perf_counter() < moment:
                raise  # the deadline of a caller
            raise ProofError(f"not checked: max_time={max_time} s ended first") from None
        except canonical.FAULTS as error:
            raise ProofError(canonical.reason(error)) from None
    return True


def check_claim(proof: Any, data: Data) -> None:
    """Raise unless the proof holds for the data."""
    allowance = Allowance.of(data)
    _Claim(canonical.load_proof(proof, allowance), data, allowance).check()


class _Claim:
    """What a proof says, read; `check` says whether it is so.

    Places number the columns of X that hold anything, then the intercept: all other columns are
    zero in every row, so that weights on them (`idle`) only make w longer.
    """

    def __init__(self, proof: dict[str, Any], data: Data, allowance: Allowance) -> None:
        self.data = data
        self.kind, self.complete = proof["kind"], proof["complete"]
        self.lift = int(proof["fit_intercept"])
        self.basis = proof["basis"]
        self.lower, self.upper = canonical.interval(proof)
        classes = canonical.read_classes(proof, data)
        index = {label: c for c, label in enumerate(classes)}
        self.codes, self.k = [index[label] for label in data.labels], len(index)
        self.features = data.used.size
        self.width = self.features + self.lift
        self._read_weights(canonical.read_weights(proof, data.d + self.lift, self.k, allowance))
        self.groups = canonical.read_groups(proof, data.labels, self.codes, classes, allowance)
        self.plane = [q for name, (q, _) in self.groups if name == "plane"]

    def _read_weights(self, weights: Vector) -> None:
        """Sort the weights by class and place: `w` has a list for classes 1 to k − 1, or none."""
        self.w = [[0] * self.width for _ in range(self.k - 1)] if weights else []
        self.idle: dict[int, list[int]] = {}  # column → its weights, by class
        places = {column: place for place, column in enumerate(self.data.used.tolist())}
        if self.lift:
            places[self.data.d] = self.features
        for coordinate, value in weights.items():
            c, column = divmod(coordinate, self.data.d + self.lift)
            if column in places:
                self.w[c][places[column]] = value
            else:
                self.idle.setdefault(column, [0] * (self.k - 1))[c] = value

    def check(self) -> None:
        self._require_modest_work()
        sums = [[Vector() for _ in range(self.k)] for _ in self.groups]  # Σ q a, for each class
        left = [len(q) for _, (q, _) in self.groups]
        strict, least = 0, math.inf  # how many s > 0; the least s
        for i, columns, x in self._rows():
            own, scores = self.codes[i], self._scores(columns, x)
            for j in range(self.k):
                if j == own:
                    continue
                s, pair = scores[own] - scores[j], (i, j)
                if s < 0 or (s == 0 and self.complete and not self._on_plane(pair)):
                    raise ProofError(f"row {i}, class {j}: s {'<' if s else '='} 0, no weight")
                strict, least = strict + (s > 0), min(least, s)
                for g, (_, (q, _)) in enumerate(self.groups):
                    if t := q.get(pair):
                        left[g] -= 1
                        for c, u in ((own, t), (j, -t)):
                            if c:  # w_0 = 0: class 0 has no coordinates
                                _add(sums[g][c], u, columns, x)
        if any(left):
            raise ProofError("a group weights pairs that are not among the data's")
        self._check_kind(strict)
        self._check_sums(sums)
        self._check_lower(least if self.w else 0)
        self._check_upper(*self._total("dual", sums))

    def _rows(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """The rows that matter: without w, s = 0 everywhere, and only rows with weights count."""
        if self.w:
            for i, (columns, x) in enumerate(self.data.rows(self.lift)):
                yield i, columns, x
            return
        if self.complete:
            for i, own in enumerate(self.codes):
                for j in range(self.k):
                    if j != own and not self._on_plane((i, j)):
                        raise ProofError(f"row {i}, class {j}: s = 0, no weight")
        for i in sorted({i for _, (q, _) in self.groups for i, _ in q}):
            require_time()
            yield i, *self.data.row(i, self.lift)

    def _on_plane(self, pair: tuple[int, int]) -> bool:
        return any(pair in q for q in self.plane)

    def _scores(self, columns: list[int], x: list[int]) -> list[int]:
        """w_c·x for each class c."""
        if not self.w:
            return [0] * self.k
        return [0, *(sum(map(int.__mul__, x, map(v.__getitem__, columns))) for v in self.w)]

    def _check_kind(self, strict: int) -> None:
        found = ("quasi-separable" if strict else "overlapping") if self.plane else "separable"
        sure = self.complete or found == "quasi-separable"
        if self.kind != "undecided" and (found != self.kind or not sure):
            raise ProofError(f"the proof claims {self.kind!r} and shows {found!r} at most")

    def _check_sums(self, sums: list[list[Vector]]) -> None:
        """The weights of the plane and of the story cancel; an enclosure may mend the plane's."""
        total, _ = self._total("plane", sums)
        if _some(total):
            if not self.basis:
                raise ProofError("the plane weights do not cancel: Σ q a is not zero")
            self._enclose(total)
        size = sum(len(q) for name, (q, _) in self.groups if name == "story")
        most = (self.data.d + self.lift) * (self.k - 1) + 1
        if _some(self._total("story", sums)[0]) or size > most:
            raise ProofError("the story does not cancel, or has more rows than it may")

    def _total(self, name: str, sums: list[list[Vector]]) -> tuple[list[Vector], int]:
        """(Σ q a over the groups of that name, Σ q), both times the product of denominators."""
        mine = [(q, b, g) for (n, (q, b)), g in zip(self.groups, sums, strict=True) if n == name]
        common = math.prod(b for _, b, _ in mine)
        total = [Vector() for _ in range(self.k)]
        for _, b, parts in mine:
            for c, part in enumerate(parts):
                _add(total[c], common // b, part.keys(), part.values())
        return total, sum(sum(q.values()) * (common // b) for q, b, _ in mine)

    def _check_lower(self, least: Any) -> None:
        """lower ≤ min s/‖w‖, as squares of whole numbers; ‖w‖ is least over all shifts of w."""
        if not self.upper >= max(0, self.lower):
            raise ProofError(f"the interval [{self.lower}, {self.upper}] is empty or below 0")
        if self.lower <= 0:
            return
        many = self.k > 2
        columns = [*zip(*(v[: self.features] for v in self.w), strict=True), *self.idle.values()]
        length = sum(v * v for column in columns for v in column) * self.k  # k ‖w‖²
        length -= many * sum(sum(column) ** 2 for column in columns)
        numerator, denominator = self.lower.as_integer_ratio()
        reached = self.k * (least * denominator) ** 2
        if least <= 0 or reached < numerator**2 * length << (-2 * self.data.unit):
            raise ProofError(f"the margin of w is below the lower bound {self.lower}")

    def _check_upper(self, total: list[Vector], mass: int) -> None:
        """upper ≥ ‖Σ q a‖/Σ q, as squares of whole numbers."""
        if self.kind not in ("separable", "undecided") or self.upper == math.inf:
            return
        if any(part.get(self.features) for part in total) or not mass:
            raise ProofError("the dual weights are absent, or the intercept's do not cancel")
        square = sum(v * v for part in total for v in part.values())
        if self.k > 2:  # class 0 has the slope that balances the others
            balance = Vector()
            for part in total:
                _add(balance, 1, part.keys(), part.values())
            square += sum(v * v for v in balance.values())
        numerator, denominator = self.upper.as_integer_ratio()
        if (numerator * mass) ** 2 << (-2 * self.data.unit) < square * denominator**2:
            raise ProofError(f"the dual weights do not reach the upper bound {self.upper}")

    def _require_modest_work(self) -> None:
        """Refuse numbers whose products would take more than a minute, before any is computed."""
        lengths, x = self.data.lengths + self.lift, self.data.bits
        weights = widest(v for row in self.w for v in row)
        work = int(lengths.sum()) * product_cost(weights, x) * len(self.w)
        work += (self.width + len(self.idle)) * self.k * product_cost(weights, weights)
        work += self.data.n * self.k * 64
        for name, (q, _) in self.groups:
            bits = widest(q.values())
            entries = int(lengths[[i for i, _ in q]].sum())
            common = sum(b.bit_length() for other, (_, b) in self.groups if other == name)
            longest = bits + x + common + 64
            work += 2 * entries * product_cost(bits, x)
            work += min(entries, self.width) * self.k * product_cost(longest, longest)
            work += len(q) * product_cost(bits, common)
        if work > canonical.BUDGET:
            raise canonical.ProofTooLarge(
                "the numbers are too long to be checked on so many entries of X: about "
                f"{work:.1e} products of digits, where at most {canonical.BUDGET:.1e} are computed"
            )

    def _enclose(self, total: list[Vector]) -> None:
        """Weights q + δ that cancel exist: ‖δ‖ ≤ ‖Cρ‖ / (1 − ‖I − CM‖) < q, with C ≈ M⁻¹."""
        basis = canonical.read_basis(self.basis, self.codes, self.k)
        groups = [part for name, part in self.groups if name == "plane"]
        used, rows, least = np.zeros((self.k, self.width), bool), [], math.inf
        for i in sorted({i for q in self.plane for i, _ in q}):
            require_time()
            columns, x = self.data.row(i, self.lift)
            for j in {j for j in range(self.k) if self._on_plane((i, j))}:
                used[self.codes[i], columns] = used[j, columns] = True
                if (i, j) in basis and len(x) <= len(basis):  # longer ones make no square M
                    a = np.array([v / (1 << -self.data.unit) for v in x])
                    rows += [(self.codes[i], columns, a), (j, columns, -a)]
                    least = min(least, sum(q.get((i, j), 0) / b for q, b in groups))
        A, common = canonical.square(rows, used), math.prod(b for _, b in groups)
        rho = np.zeros((self.k, self.width))
        for c, part in enumerate(total):
            for column, v in part.items():
                rho[c, column] = abs(v) / (common << -self.data.unit)
        if not _is_enclosed(A, rho[1:][used[1:]], least):
            raise ProofError("the plane weights do not cancel, and no enclosure shows that some do")


def _is_enclosed(A: np.ndarray, rho: np.ndarray, least: float) -> bool:
    """Whether ‖A⁻¹ρ‖ < least, for certain; all roundings are bounded."""
    size, gamma = len(A), (len(A) + 8) * 2.0**-52  # gamma is above a product's roundings
    with np.errstate(all="ignore"):  # what overflows fails the test
        C = patiently(2.0 * size**3, np.linalg.inv, A)
        distance, reach = 0.0, 0.0
        for start in range(0, size, 128):
            require_time()
            part = C[start : start + 128]
            gap = np.abs(np.eye(len(part), size, start) - part @ A)
            gap += gamma * (np.abs(part) @ np.abs(A) + 1.0)
            distance = np.maximum(distance, gap.sum(axis=1).max())  # NaN stays
            reach = np.maximum(reach, (np.abs(part) @ (rho + 1e-300)).max())
    return bool(distance < 0.5 and 1e-290 + 2.1 * reach < least)  # 1e-290 is above all underflows


def _add(total: Vector, factor: int, columns: Iterable[int], values: Iterable[int]) -> None:
    """total += factor · vector."""
    if not total:
        total.update(zip(columns, [factor * v for v in values], strict=True))
        return
    for column, v in zip(columns, values, strict=True):
        total[column] = total.get(column, 0) + factor * v


def _some(vectors: list[Vector]) -> bool:
    """Whether any entry is not zero."""
    return any(v for part in vectors for v in part.values())
