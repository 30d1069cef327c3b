"""The verifier: checks a proof of separability in whole numbers, and trusts no solver.

A float is an integer times a power of two, so in units of 2^E every x is a vector of integers. For
x of class c and another class j let s = (w_c − w_j)·x, with w_0 = 0, and a the vector with s = w·a.
Checked without a rounding, in two passes over blocks of rows (docs/proof-format.md): every s ≥ 0;
Σ q a = 0 with q ≥ 0; and s > 0 or q > 0 on every pair (x, j). All s > 0 is separable, all q > 0 is
overlapping (Stiemke), both kinds of pairs is quasi-separable.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from momentron.separability import canonical
from momentron.separability.canonical import ProofError, whole_rows, widest


def verify(proof: Any, X: Any, y: Any) -> bool:
    """Check a proof of separability against the data it speaks of, in exact arithmetic.

    Parameters
    ----------
    proof : Verdict, its JSON (str or bytes), or the dict within
    X, y : the data, dense or sparse, and their labels

    Returns
    -------
    bool
        True; where the proof fails, `ProofError` is raised with the first row that fails.

    >>> from momentron.separability.check import check_separability
    >>> verify(check_separability([[0], [1], [2]], [0, 1, 0]).to_json(), [[0], [1], [2]], [0, 1, 0])
    True
    """
    try:
        _Claim(canonical.load_proof(proof), X, y).check(X)
    except ProofError:
        raise
    except canonical.FAULTS as error:
        raise ProofError(canonical.reason(error)) from None
    return True


class _Claim:
    def __init__(self, proof: dict[str, Any], X: Any, y: Any) -> None:
        labels, (_, self.d) = canonical.label_texts(y), np.shape(X)
        digest, self.unit = canonical.fingerprint(X, labels)
        classes = canonical.read_classes(proof["data"], digest, labels, self.d)
        index = {label: c for c, label in enumerate(classes)}
        self.codes, self.k = [index[label] for label in labels], len(index)
        self.lift, self.complete = int(proof["fit_intercept"]), proof["complete"]
        self.kind, self.basis = proof["kind"], proof["basis"]
        self.lower, self.upper = canonical.interval(proof)
        width, flat = self.d + self.lift, canonical.whole(proof["weights"])
        if flat and len(flat) != width * (self.k - 1):
            raise ProofError(f"{len(flat)} weights; need {width} for each class but the first")
        self.w = [flat[c : c + width] for c in range(0, len(flat), width)]
        self.parts = canonical.read_groups(proof, labels, self.codes, classes)
        self.plane = [q for name, (q, _) in self.parts if name == "plane"]

    def check(self, X: Any) -> None:
        width, strict, least = self.d + self.lift, 0, math.inf
        work = canonical.work_of_sums(self.parts, width * self.k)
        sums = [[[0] * width for _ in range(self.k)] for _ in self.parts]
        bits, left = sum(widest(v) for v in self.w), [len(q) for _, (q, _) in self.parts]
        sizes = [widest(q.values()) for _, (q, _) in self.parts]
        for i, (columns, x) in enumerate(whole_rows(X, self.unit, self.lift)):
            dots = (sum(map(int.__mul__, x, map(v.__getitem__, columns))) for v in self.w)
            own, f = self.codes[i], [0, *dots] if self.w else [0] * self.k
            work += len(x) * bits
            for j in {*range(self.k)} - {own}:
                s, pair = f[own] - f[j], (i, j)
                if s < 0 or (s == 0 and self.complete and not any(pair in q for q in self.plane)):
                    raise ProofError(f"row {i}, class {j}: s {'<' if s else '='} 0, no weight")
                strict, least = strict + (s > 0), min(least, s)
                for g, ((_, (q, _)), total) in enumerate(zip(self.parts, sums, strict=True)):
                    if t := q.get(pair):
                        left[g], work = left[g] - 1, work + len(x) * sizes[g]
                        for c, u in ((own, t), (j, -t)):
                            for column, v in zip(columns, x, strict=True) if c else ():  # w_0 = 0
                                total[c][column] += u * v
            if work > canonical.BUDGET:
                raise ProofError("the numbers are too long to be checked on so many entries of X")
        if any(left):
            raise ProofError("a group weights pairs that are not among the data's")
        found = ("quasi-separable" if strict else "overlapping") if self.plane else "separable"
        sure = self.complete is True or found == "quasi-separable"
        if self.kind != "undecided" and (found != self.kind or not sure):
            raise ProofError(f"the proof claims {self.kind!r} and shows {found!r} at most")
        if any(map(any, self.total("plane", sums)[0])):
            if not self.basis:
                raise ProofError("the plane weights do not cancel: Σ q a is not zero")
            self.enclose(X, self.total("plane", sums)[0])
        size = sum(len(q) for name, (q, _) in self.parts if name == "story")
        if any(map(any, self.total("story", sums)[0])) or size > width * (self.k - 1) + 1:
            raise ProofError("the story does not cancel, or has more rows than it may")
        self.check_interval(least, sums)

    def total(self, name: str, sums: list[list[list[int]]]) -> tuple[list[list[int]], int]:
        """(Σ q a over the groups of that name, Σ q), both times the product of denominators."""
        mine = [(q, b, g) for (n, (q, b)), g in zip(self.parts, sums, strict=True) if n == name]
        common = math.prod(b for _, b, _ in mine)
        scaled = [[[v * (common // b) for v in part] for part in g] for _, b, g in mine]
        total = [[sum(v) for v in zip(*part, strict=True)] for part in zip(*scaled, strict=True)]
        return total, sum(sum(q.values()) * (common // b) for q, b, _ in mine)

    def check_interval(self, least: Any, sums: list[list[list[int]]]) -> None:
        """lower ≤ min s/‖w‖ and upper ≥ ‖Σ q a‖/Σ q, as squares; of least length over shifts."""
        scale, many = Fraction(1, 4**-self.unit), self.k > 2
        if not self.upper >= max(0, self.lower):
            raise ProofError(f"the interval [{self.lower}, {self.upper}] is empty or below 0")
        G, mass = self.total("dual", sums)
        w = [v[: self.d] for v in self.w]
        length = Fraction(sum(a * a for v in w for a in v))
        length -= Fraction(sum(sum(v) ** 2 for v in zip(*w, strict=True)) * many, self.k)
        square = max(0, least) ** 2 * scale
        if self.lower > 0 and not 0 < square >= Fraction(self.lower) ** 2 * length:
            raise ProofError(f"the margin of w is below the lower bound {self.lower}")
        if self.kind in ("separable", "undecided") and self.upper < math.inf:
            if any(v for part in G for v in part[self.d :]) or not mass:
                raise ProofError("the dual weights are absent, or the intercept's do not cancel")
            g = [part[: self.d] for part in G]
            square = sum(a * a for v in g for a in v)
            square += many * sum(sum(v) ** 2 for v in zip(*g, strict=True))
            if Fraction(self.upper) ** 2 * mass**2 < square * scale:
                raise ProofError(f"the dual weights do not reach the upper bound {self.upper}")

    def enclose(self, X: Any, total: list[list[int]]) -> None:
        """Weights q + δ that cancel exist: ‖δ‖ ≤ ‖Cρ‖ / (1 − ‖I − CM‖) < q, with C ≈ M⁻¹."""
        basis = canonical.read_basis(self.basis, self.codes, self.k)
        used, rows, least = np.zeros((self.k, len(total[0])), bool), [], math.inf
        groups = [part for name, part in self.parts if name == "plane"]
        for i, (columns, x) in enumerate(whole_rows(X, self.unit, self.lift)):
            for j in {j for j in range(self.k) if any((i, j) in q for q in self.plane)}:
                used[self.codes[i], columns] = used[j, columns] = True
                if (i, j) in basis and len(x) <= len(basis):  # longer ones make no square M
                    a = np.array([v / (1 << -self.unit) for v in x])
                    rows += [(self.codes[i], columns, a), (j, columns, -a)]
                    least = min(least, sum(q.get((i, j), 0) / b for q, b in groups))
        A, common = canonical.square(rows, used), math.prod(b for _, b in groups)
        rho = np.array([[abs(v) / (common << -self.unit) for v in g] for g in total])[1:][used[1:]]
        with np.errstate(all="ignore"):  # what overflows fails the test below
            C, gamma = np.linalg.inv(A), (len(A) + 8) * 2.0**-52  # above a product's roundings
            gap = np.abs(np.eye(len(A)) - C @ A) + gamma * (np.abs(C) @ np.abs(A) + 1.0)
            reach = 1e-290 + 2.1 * (np.abs(C) @ (rho + 1e-300)).max()  # above all underflows
        if not (gap.sum(axis=1).max() < 0.5 and reach < least):
            raise ProofError("the plane weights do not cancel, and no enclosure shows that some do")
