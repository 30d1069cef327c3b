"""An independent checker of proofs, written from docs/proof-format.md alone.

Its author has not seen the verifier, and it shares no code with the library. `check` returns True
or raises ValueError. All numbers are integers and fractions; floats serve only as a guess for the
matrix C of an enclosure, which is then checked exactly.
"""

import hashlib
import itertools
import json
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import lcm

import numpy as np

FIRST_LINE = ("logit", "probit", "cloglog", "loglog", "cauchit", "cdf")
MODELS = {
    "binomial": (*FIRST_LINE, "log", "logc"),
    "multinomial": ("logit",),
    "poisson": ("log",),
    "negative-binomial": ("log",),
    "truncated-poisson": ("log",),
    "ordinal": FIRST_LINE,
}
COUNTS = {
    "poisson": ["0", "> 0"],
    "negative-binomial": ["0", "> 0"],
    "truncated-poisson": ["1", "> 1"],
}
FIELDS = [
    *("format", "version", "family", "link", "fit_intercept", "data", "kind", "complete", "margin"),
    *("weights", "boundary", "conflict", "dual", "basis", "estimates", "names"),
]
STATUSES = ("finite", "+inf", "-inf", "undetermined", "aliased", "undecided")
INTEGER = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
FLOAT = re.compile(r"(-?)0x([0-9a-f]+)\.?([0-9a-f]*)p([+-]?[0-9]{1,5})", re.ASCII)


def need(condition, reason):
    if not condition:
        raise ValueError(reason)


# --- values of the JSON --------------------------------------------------------------------------


def load(text):
    def pairs(items):
        result = dict(items)
        need(len(result) == len(items), "a key comes twice in an object")
        return result

    def no(token):
        raise ValueError(f"number not allowed: {token[:30]}")

    def whole(token):
        need(len(token) <= 18, "a JSON integer is too long")
        return int(token)

    need(isinstance(text, str) and len(text) <= 2**26, "the proof is not text, or too long")
    try:
        return json.loads(
            text, object_pairs_hook=pairs, parse_float=no, parse_constant=no, parse_int=whole
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def is_index(v):
    return type(v) is int and v >= 0


def get(obj, key, what):
    need(type(obj) is dict, f"{what} is not an object")
    need(key in obj, f"{what}.{key} is missing")
    return obj[key]


def text(v, what):
    need(type(v) is str, f"{what} is not a text")
    return v


def boolean(v, what):
    need(type(v) is bool, f"{what} is not true or false")
    return v


def index(v, what):
    need(is_index(v), f"{what} is not an index")
    return v


def a_list(v, what):
    need(type(v) is list, f"{what} is not a list")
    return v


def indices(v, what):
    need(all(is_index(i) for i in a_list(v, what)), f"{what}: not an index")
    return v


def texts(v, what):
    need(all(type(i) is str for i in a_list(v, what)), f"{what}: not a text")
    return v


def integer(v, what):
    need(type(v) is str and len(v) <= 2**16 and INTEGER.fullmatch(v), f"{what}: not an integer")
    return int(v, 16)


def integers(v, what):
    return [integer(i, what) for i in a_list(v, what)]


def hexfloat(v, what):
    match = FLOAT.fullmatch(v) if type(v) is str and len(v) <= 64 else None
    need(match, f"{what}: not a float")
    sign, before, after, exponent = match.groups()
    value = Fraction(int(before + after, 16)) * Fraction(2) ** (int(exponent) - 4 * len(after))
    need(is_float64(value), f"{what}: not exactly a float64")
    return -value if sign else value


def is_float64(value):
    try:
        return Fraction(float(value)) == value  # int / int division of a Fraction rounds correctly
    except OverflowError:
        return False


def number(v, what):
    """An integer or a float, as a Fraction."""
    if type(v) is str and INTEGER.fullmatch(v):
        return Fraction(integer(v, what))
    return hexfloat(v, what)


# --- the data ------------------------------------------------------------------------------------


def label_text(label):
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def as_number(label):
    """A label that reads as a number, or None."""
    if label in ("False", "True"):
        return Fraction(label == "True")
    try:
        return Fraction(Decimal(label))
    except (InvalidOperation, OverflowError, ValueError):
        return None


class Table:
    """Rows as integers in units of 1 / scale, labels as text, and the digest."""

    def __init__(self, X, y, decimals, left_out):
        X = np.asarray(X)
        need(X.ndim == 2, "X is not a matrix")
        F = X.astype(np.float64)
        need(
            X.dtype == np.float64
            or (X.dtype.kind in "iub" and all(abs(int(v)) <= 2**53 for v in X.flat)),
            "X is not float64",
        )
        need(bool(np.isfinite(F).all()), "X is not finite")
        self.n, self.d = F.shape
        self.labels = [label_text(v) for v in np.asarray(y)]
        need(len(self.labels) == self.n, "X and y have different lengths")
        self.left = set(left_out)
        rows, columns = np.nonzero(F)
        values = F[rows, columns]
        digest = hashlib.sha256(f"momentron-data 3\n{self.n} {self.d}\n{decimals}\n".encode())
        digest.update(np.bincount(rows, minlength=self.n).astype("<i8").tobytes())
        digest.update(columns.astype("<i8").tobytes())
        digest.update(values.astype("<f8").tobytes())
        for label in self.labels:
            raw = label.encode()
            digest.update(b"%d:%b\n" % (len(raw), raw))
        self.sha256 = digest.hexdigest()
        exact = {}
        for v in set(values.tolist()):
            exact[v] = Fraction(v) if decimals == "binary" else Fraction(repr(v))
        self.scale = lcm(1, *(f.denominator for f in exact.values()))
        exact = {v: int(f * self.scale) for v, f in exact.items()}
        self.rows = [[] for _ in range(self.n)]
        for i, c, v in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
            self.rows[i].append((c, exact[v]))
        self.kept = [i for i in range(self.n) if i not in self.left]
        self.nonzero_columns = sorted(set(columns.tolist()))


class Model:
    """The pairs of the data and their vectors."""

    def __init__(self, table, family, link, fit_intercept, classes):
        self.t, self.family, self.link, self.k = table, family, link, len(classes)
        self.first_line = family == "binomial" and link in FIRST_LINE
        self.contrasts = self.first_line or family == "multinomial"
        self.blocks = self.k - 1 if family == "multinomial" else 1
        self.intercepts = 0 if not fit_intercept else self.k - 1 if family == "ordinal" else 1
        self.width = table.d + self.intercepts
        self.size = self.width * self.blocks
        self.cls = {}
        if family in COUNTS:
            for i in table.kept:
                try:
                    count = Decimal(table.labels[i])
                except InvalidOperation:
                    raise ValueError("a count is not a number") from None
                need(count.is_finite() and count >= 0, "a count is not finite or below 0")
                if family == "truncated-poisson":
                    need(count >= 1 and count == int(count), "a count is not whole or below 1")
                    self.cls[i] = int(count > 1)
                else:
                    self.cls[i] = int(count > 0)
            need(family != "negative-binomial" or 1 in self.cls.values(), "no count is above 0")
        else:
            place = {label: c for c, label in enumerate(classes)}
            self.cls = {i: place[table.labels[i]] for i in table.kept}
        self.pairs = [(i, j) for i in table.kept for j in self.others(i)]

    def others(self, row):
        c = self.cls[row]
        if self.contrasts:
            return [j for j in range(self.k) if j != c]
        if self.family == "ordinal":
            return [j for j in (c - 1, c + 1) if 0 <= j < self.k]
        if self.link == "logc":
            return [1] if c == 1 else [0, 1]
        return [1] if c == 0 else [0, 1]

    def is_pair(self, pair):
        return pair[0] in self.cls and pair[1] in self.others(pair[0])

    def vector(self, pair):
        """a, as a list of (coordinate, integer)."""
        row, j = pair
        c, x, scale, d, width = self.cls[row], self.t.rows[row], self.t.scale, self.t.d, self.width
        if self.family == "ordinal":
            sign, t = (1, c - 1) if j < c else (-1, c)
            return [(p, sign * v) for p, v in x] + [(d + t, sign * scale)]
        if self.intercepts:
            x = [*x, (d, scale)]
        if self.family == "multinomial":
            result = [((c - 1) * width + p, v) for p, v in x] if c else []
            return result + ([((j - 1) * width + p, -v) for p, v in x] if j else [])
        sign = 1 if j == 0 else -1
        return [(p, sign * v) for p, v in x]


def total(vectors_and_weights):
    result = {}
    for vector, q in vectors_and_weights:
        for p, v in vector:
            result[p] = result.get(p, 0) + q * v
    return {p: v for p, v in result.items() if v}


def dot(vector, w):
    """Of a list of (coordinate, value) with a dict."""
    return sum(v * w[p] for p, v in vector if p in w)


# --- linear algebra ------------------------------------------------------------------------------


def regular_modulo(matrix, prime):
    size = len(matrix)
    need(all(len(row) == size for row in matrix), "a matrix is not square")
    A = np.array([[v % prime for v in row] for row in matrix], dtype=np.int64).reshape(size, size)
    for i in range(size):
        below = np.nonzero(A[i:, i])[0]
        if not len(below):
            return False
        p = i + int(below[0])
        A[[i, p]] = A[[p, i]]
        A[i] = A[i] * pow(int(A[i, i]), -1, prime) % prime
        if i + 1 < size:
            A[i + 1 :] = (A[i + 1 :] - A[i + 1 :, i : i + 1] * A[i] % prime) % prime
    return True


def solve(M, b):
    """The exact solution of M x = b in fractions, or None (fraction-free elimination)."""
    size = len(M)
    A = [[*row, v] for row, v in zip(M, b, strict=True)]
    last = 1
    for i in range(size):
        p = next((r for r in range(i, size) if A[r][i]), None)
        if p is None:
            return None
        A[i], A[p] = A[p], A[i]
        pivot = A[i]
        for r in range(i + 1, size):
            row, f = A[r], A[r][i]
            A[r] = [0] * (i + 1) + [
                (row[c] * pivot[i] - f * pivot[c]) // last for c in range(i + 1, size + 1)
            ]
        last = pivot[i]
    x = [Fraction(0)] * size
    for i in reversed(range(size)):
        x[i] = (A[i][size] - sum(A[i][c] * x[c] for c in range(i + 1, size))) / Fraction(A[i][i])
    return x


def enclosure(model, boundary, basis, residual):
    """Whether basis shows that weights near those of boundary cancel. residual: Σ q a."""
    pairs = [pair for pair in basis if pair in boundary]
    coordinates = sorted({p for pair in boundary for p, v in model.vector(pair) if v})
    size = len(pairs)
    need(
        size == len(coordinates) and size <= 4000,
        "the matrix of the enclosure is not square, or too large",
    )
    place = {p: i for i, p in enumerate(coordinates)}
    M = [[0] * size for _ in range(size)]
    for column, pair in enumerate(pairs):
        for p, v in model.vector(pair):
            M[place[p]][column] = v
    rho = [Fraction(residual.get(p, 0)) for p in coordinates]
    least = min(boundary[pair] for pair in pairs)
    unit = lcm(*(v.denominator for v in rho))
    if size > 60:  # a float inverse as C, checked exactly
        try:
            C = np.linalg.inv(
                np.array([[float(Fraction(v, model.t.scale)) for v in row] for row in M])
            )
        except (np.linalg.LinAlgError, OverflowError):
            C = None
        if C is not None and np.isfinite(C).all() and C.any():
            one = 2 ** max(0, 70 - int(np.frexp(np.abs(C).max())[1]))
            C = [[int(Fraction(v) * one) for v in row] for row in C.tolist()]
            columns = [[(i, M[i][c]) for i in range(size) if M[i][c]] for c in range(size)]
            whole = one * model.t.scale
            norm = max(
                sum(
                    abs((whole if i == c else 0) - sum(row[e] * v for e, v in column))
                    for c, column in enumerate(columns)
                )
                for i, row in enumerate(C)
            )
            if norm < whole:
                rhs = [int(v * unit) for v in rho]
                size_of = max(abs(sum(c * v for c, v in zip(row, rhs, strict=True))) for row in C)
                if Fraction(size_of, whole * unit) / (1 - Fraction(norm, whole)) < least:
                    return True
    delta = solve(M, [-int(v * unit) for v in rho])
    return delta is not None and max(abs(v) for v in delta) / unit < least


# --- groups and vectors --------------------------------------------------------------------------


def read_pairs(obj, what, model, may_omit):
    """rows and others, each a pair of the data, each once (not checked here)."""
    rows = indices(get(obj, "rows", what), f"{what}.rows")
    if may_omit and model.first_line and "others" not in obj:
        need(all(i in model.cls for i in rows), f"{what}: a row makes no pairs")
        others = [1 - model.cls[i] for i in rows]
    else:
        others = indices(get(obj, "others", what), f"{what}.others")
    need(len(rows) == len(others), f"{what}: lists of different lengths")
    pairs = list(zip(rows, others, strict=True))
    need(all(model.is_pair(p) for p in pairs), f"{what}: not a pair of the data")
    return pairs


def read_groups(groups, what, model):
    result = []
    for g in a_list(groups, what):
        denominator = integer(get(g, "denominator", what), f"{what}.denominator")
        numerators = integers(get(g, "numerators", what), f"{what}.numerators")
        pairs = read_pairs(g, what, model, True)
        need(
            pairs and len(pairs) == len(numerators),
            f"{what}: an empty group, or lists of different lengths",
        )
        need(len(set(pairs)) == len(pairs), f"{what}: a pair comes twice in a group")
        need(denominator >= 1 and min(numerators) >= 1, f"{what}: a weight is not positive")
        result.append((g, denominator, pairs, numerators))
    return result


def weights_of(groups):
    """The weight of each pair times a common denominator, and that denominator."""
    common = lcm(1, *(g[1] for g in groups))
    q = {}
    for _, denominator, pairs, numerators in groups:
        for pair, v in zip(pairs, numerators, strict=True):
            q[pair] = q.get(pair, 0) + v * (common // denominator)
    return q, common


def slices(starts, length, what):
    indices(starts, f"{what}.starts")
    need(
        starts
        and starts[0] == 0
        and starts[-1] == length
        and all(a <= b for a, b in itertools.pairwise(starts)),
        f"{what}.starts is wrong",
    )
    return list(itertools.pairwise(starts))


def read_vectors(obj, what, size):
    coordinates = indices(get(obj, "coordinates", what), f"{what}.coordinates")
    numbers = integers(get(obj, "numbers", what), f"{what}.numbers")
    need(len(coordinates) == len(numbers), f"{what}: lists of different lengths")
    need(all(p < size for p in coordinates), f"{what}: no such coordinate")
    result = []
    for a, b in slices(get(obj, "starts", what), len(numbers), what):
        vector = dict(zip(coordinates[a:b], numbers[a:b], strict=True))
        need(len(vector) == b - a, f"{what}: a coordinate comes twice in a vector")
        result.append({p: v for p, v in vector.items() if v})
    return result


# --- the rules -----------------------------------------------------------------------------------


def check(proof_text, X, y, left_out=(), names=None, order=None):
    proof = load(proof_text)
    # 1. form, 2. data
    need(type(proof) is dict, "the proof is not an object")
    need(proof.get("format") == "momentron-proof", "format")
    need(type(proof.get("version")) is int and proof["version"] == 4, "version")
    for key in FIELDS:
        need(key in proof, f"{key} is missing")
    for key in proof:
        need(key in FIELDS or key == "class_rows", f"unknown field {key[:50]!r}")
    family, link = text(proof["family"], "family"), text(proof["link"], "link")
    need(family in MODELS and link in MODELS[family], "no such family and link")
    fit_intercept = boolean(proof["fit_intercept"], "fit_intercept")
    need(
        fit_intercept
        or not (family == "ordinal" or (family == "binomial" and link in ("log", "logc"))),
        "the model needs an intercept",
    )
    complete = boolean(proof["complete"], "complete")
    kind = text(proof["kind"], "kind")
    need(kind in ("separable", "quasi-separable", "overlapping", "undecided"), "no such kind")
    data = proof["data"]
    n, d = (index(get(data, key, "data"), f"data.{key}") for key in ("rows", "features"))
    classes = texts(get(data, "classes", "data"), "data.classes")
    decimals = text(get(data, "decimals", "data"), "data.decimals")
    need(decimals in ("binary", "shortest"), "data.decimals")
    left = indices(get(data, "left_out", "data"), "data.left_out")
    need(left == sorted({int(i) for i in left_out}), "data.left_out is not that of the data")
    sha256 = text(get(data, "sha256", "data"), "data.sha256")
    t = Table(X, y, decimals, left)
    need((n, d) == (t.n, t.d), "the shape of X is another")
    need(sha256 == t.sha256, "the digest is another")
    # 3. classes
    need(t.kept, "no row is left")
    need(len(set(classes)) == len(classes) >= 2, "a class comes twice, or there are less than two")
    if family in COUNTS:
        need(classes == COUNTS[family], "data.classes are not those of the family")
    else:
        need(set(classes) == {t.labels[i] for i in t.kept}, "data.classes are not the labels of y")
        need(family != "binomial" or len(classes) == 2, "there are not two classes")
    model = Model(t, family, link, fit_intercept, classes)
    k = len(classes)
    # 4. w
    coordinates = indices(get(proof["weights"], "coordinates", "weights"), "weights.coordinates")
    numbers = [
        number(v, "weights")
        for v in a_list(get(proof["weights"], "numbers", "weights"), "weights.numbers")
    ]
    need(len(coordinates) == len(numbers), "weights: lists of different lengths")
    need(
        all(a < b for a, b in itertools.pairwise(coordinates)),
        "weights.coordinates do not increase",
    )
    need(all(p < model.size for p in coordinates), "weights: no such coordinate")
    common = lcm(1, *(v.denominator for v in numbers))
    w = {p: int(v * common) for p, v in zip(coordinates, numbers, strict=True) if v}
    s = {pair: dot(model.vector(pair), w) for pair in model.pairs}
    need(min(s.values()) >= 0, "w has s < 0 on a pair")
    # 5. groups
    need(
        sum(len(a_list(proof[g], g)) for g in ("boundary", "conflict", "dual")) <= 4,
        "too many groups",
    )
    boundary, conflict, dual = (
        read_groups(proof[g], g, model) for g in ("boundary", "conflict", "dual")
    )
    basis = proof["basis"]
    if basis is not None:
        basis = read_pairs(basis, "basis", model, True)
        need(basis and len(set(basis)) == len(basis), "basis is empty, or a pair comes twice")
    # 6. the boundary cancels
    q, unit = weights_of(boundary)
    residual = total((model.vector(pair), v) for pair, v in q.items())
    if residual:
        need(basis is not None, "boundary does not cancel")
        need(
            enclosure(
                model,
                {pair: Fraction(v, unit) for pair, v in q.items()},
                basis,
                {p: Fraction(v, unit) for p, v in residual.items()},
            ),
            "the enclosure fails",
        )
    # 7. no pair is open, 8. kind
    need(not complete or all(v > 0 or pair in q for pair, v in s.items()), "a pair is open")
    shown = "separable" if not q else "quasi-separable" if max(s.values()) > 0 else "overlapping"
    need(kind in (shown, "undecided"), f"kind is {kind}, shown is {shown}")
    need(complete or kind not in ("separable", "overlapping"), "the kind needs complete")
    # 9. conflict
    qc, _ = weights_of(conflict)
    need(not total((model.vector(pair), v) for pair, v in qc.items()), "conflict does not cancel")
    need(sum(len(g[2]) for g in conflict) <= model.size + 1, "conflict has too many pairs")
    for g, _, pairs, _ in conflict:
        need(
            texts(get(g, "labels", "conflict"), "labels") == [t.labels[i] for i, _ in pairs],
            "conflict.labels",
        )
        need(
            texts(get(g, "against", "conflict"), "against") == [classes[j] for _, j in pairs],
            "conflict.against",
        )
    # 10. interval
    lower = number(get(proof["margin"], "lower", "margin"), "margin.lower")
    upper = get(proof["margin"], "upper", "margin")
    upper = None if upper == "inf" else number(upper, "margin.upper")
    need(
        is_float64(lower) and (upper is None or is_float64(upper)), "margin: not exactly a float64"
    )
    need(lower >= 0 and (upper is None or lower <= upper), "the interval is empty or negative")
    if lower > 0:
        least = Fraction(min(s.values()), t.scale)
        need(
            least > 0 and lower**2 * norm_of_w(w, model) <= least**2, "margin.lower is not reached"
        )
    if kind in ("quasi-separable", "overlapping"):
        need(lower == 0 and upper == 0, "the interval is not [0, 0]")
    elif upper is not None:
        need(dual, "dual is empty")
        qd, _ = weights_of(dual)
        sums = total((model.vector(pair), v) for pair, v in qd.items())
        need(all(p % model.width < d for p in sums), "dual does not cancel along an intercept")
        norm = sum(v * v for v in sums.values())
        if model.blocks > 1:
            norm += sum(v * v for v in over_blocks(sums, model).values())
        need(upper**2 * sum(qd.values()) ** 2 * t.scale**2 >= norm, "margin.upper is not shown")
    # 11. repeated for human readers
    repeated = proof.get("class_rows")
    if repeated is not None:
        counts = indices(get(repeated, "counts", "class_rows"), "class_rows.counts")
        on = indices(get(repeated, "boundary", "class_rows"), "class_rows.boundary")
        found = list(model.cls.values())
        need(counts == [found.count(c) for c in range(k)], "class_rows.counts")
        need(on == [model.cls[i] for i in sorted({i for i, _ in q})], "class_rows.boundary")
    if proof["names"] is not None:
        need(len(texts(proof["names"], "names")) == d, "names")
        need(
            names is None or [str(v)[:100] for v in names] == proof["names"],
            "names are not those of the data",
        )
    # 12. order
    if family == "ordinal":
        if order is None:
            values = [as_number(c) for c in classes]  # other text: the order of the proof is taken
            need(
                None in values or all(a < b for a, b in itertools.pairwise(values)),
                "classes are not in order",
            )
        else:
            need(
                [c for c in map(label_text, order) if c in classes] == classes,
                "classes are not in order",
            )
    # 13. estimates
    if proof["estimates"] is not None:
        need(complete, "estimates need complete")
        check_estimates(proof["estimates"], t, model, w, q)
    return True


def over_blocks(v, model):
    """The sum of all blocks, without intercepts."""
    result = {}
    for p, value in v.items():
        if p % model.width < model.t.d:
            result[p % model.width] = result.get(p % model.width, 0) + value
    return result


def norm_of_w(w, model):
    norm = Fraction(sum(v * v for p, v in w.items() if p % model.width < model.t.d))
    if model.blocks > 1:
        norm -= Fraction(sum(v * v for v in over_blocks(w, model).values()), model.k)
    return norm


def check_estimates(e, t, model, w, boundary):
    what = "estimates"
    # 1. used, prime, reference, status
    reference = index(get(e, "reference", what), "reference")
    need(reference < model.k, "reference")
    used = get(e, "used", what)
    truth = t.nonzero_columns or ([0] if t.d else [])
    if used is not None:
        need(indices(used, "used") == truth, "used is not the columns in use")
        need(len(t.nonzero_columns) < t.d, "used is not null, though all columns are in use")
    else:
        need(len(truth) == t.d, "used is null, though a column is zero")
    m = len(truth)
    width, blocks = m + model.intercepts, model.blocks
    size = width * blocks
    new = {c: i for i, c in enumerate(truth)}
    new.update({t.d + i: m + i for i in range(model.intercepts)})

    def move(p):
        """The coordinate among all columns as one of estimates, or None for a column of zeros."""
        block, inside = divmod(p, model.width)
        return block * width + new[inside] if inside in new else None

    def vector(pair):
        return [(move(p), v) for p, v in model.vector(pair)]

    prime = index(get(e, "prime", what), "prime")
    need(prime in (8388593, 8388587, 8388581), "prime")
    forms, places = [], []
    if model.contrasts:
        for c in range(model.k):
            if c != reference:
                for p in range(width):
                    form = {} if c == 0 else {(c - 1) * width + p: 1}
                    if reference:
                        form[(reference - 1) * width + p] = -1
                    forms.append(form)
                    places.append(p)
    else:
        for p in range(width):
            forms.append({p: -1 if model.family == "ordinal" and p >= m else 1})
            places.append(p)
    status = texts(get(e, "status", what), "status")
    need(len(status) == len(forms), "status has not one entry per coefficient")
    need(all(v in STATUSES for v in status), "no such status")
    # 2. basis
    pivots = indices(get(e, "pivots", what), "pivots")
    need(len(set(pivots)) == len(pivots) and all(p < size for p in pivots), "pivots")
    r, pivot_set = len(pivots), set(pivots)
    basis_object = get(e, "basis", what)
    basis = []
    if r:
        pairs = read_pairs(basis_object, "estimates.basis", model, True)
        need(
            len(pairs) == len(set(pairs)) == r,
            "estimates.basis has not one pair per pivot, each once",
        )
        need(
            all(pair in boundary for pair in pairs), "a pair of estimates.basis is not in boundary"
        )
        basis = [vector(pair) for pair in pairs]
        need(
            regular_modulo([[dict(a).get(p, 0) for p in pivots] for a in basis], prime),
            "the basis is singular",
        )
    # 3. null vectors
    null = get(e, "null", what)
    free = indices(get(null, "free", "null"), "null.free")
    need(
        len(set(free)) == len(free) and all(p < size and p not in pivot_set for p in free),
        "null.free",
    )
    vectors = read_vectors(null, "null", size)
    need(len(vectors) == len(free), "null has not one vector per free coordinate")
    for p, v in zip(free, vectors, strict=True):
        need(p in v, "a null vector is 0 at its coordinate")
        need(all(c == p or c in pivot_set for c in v), "a null vector has entries elsewhere")
    known = pivot_set | set(free)

    def orthogonal(a):
        return all(p in known for p, v in a if v) and not any(dot(a, v) for v in vectors)

    need(all(orthogonal(a) for a in basis), "a basis pair is not orthogonal to the null vectors")
    unit = [p for p in range(size) if p not in known]

    def values(form):
        """Of a dict, on all null vectors, written or not."""
        items = list(form.items())
        return [dot(items, v) for v in vectors] + [form.get(p, 0) for p in unit]

    # 4. bounds
    b = get(e, "bounds", what)
    pairs = read_pairs(b, "bounds", model, False)
    numerators = integers(get(b, "numerators", "bounds"), "bounds.numerators")
    need(len(pairs) == len(numerators), "bounds: lists of different lengths")
    need(all(v >= 1 for v in numerators), "bounds: a numerator is below 1")
    need(not any(pair in boundary for pair in pairs), "bounds: a pair is in boundary")
    bounds = []
    for start, stop in slices(get(b, "starts", "bounds"), len(pairs), "bounds"):
        need(
            start < stop and len(set(pairs[start:stop])) == stop - start,
            "a bound is empty, or a pair comes twice",
        )
        bounds.append((start, stop))
    of = indices(get(b, "of", "bounds"), "bounds.of")
    # 5. directions and aliases
    directions = read_vectors(get(e, "directions", what), "directions", size)
    aliases = read_vectors(get(e, "aliases", what), "aliases", size)
    need(
        all(p < width for v in aliases for p in v),
        "an alias has entries outside of the first block",
    )
    if directions or aliases:
        for pair in model.pairs:
            a = vector(pair)
            need(all(dot(a, v) >= 0 for v in directions), "a direction has s < 0 on a pair")
            need(not any(dot(a, v) for v in aliases), "an alias has s other than 0 on a pair")
    # 6. dimension
    dimension = get(e, "dimension", what)
    if dimension is not None:
        need(index(dimension, "dimension") == model.size - r, "dimension")
        need(
            all(orthogonal(vector(pair)) for pair in boundary),
            "a boundary pair is not in the span of the basis",
        )
    # 7. rank
    rank = get(e, "rank", what)
    design = get(e, "design", what)
    rows = indices(get(design, "rows", "design"), "design.rows")
    at = indices(get(design, "places", "design"), "design.places")
    all_known = False
    if rank is not None:
        one = 1 if model.intercepts else 0
        need(
            index(rank, "rank") == len(rows) == len(at), "rank is not the number of rows in design"
        )
        need(all(i in model.cls for i in rows), "a row of design is left out, or is none")
        need(len(set(at)) == len(at) and all(p < m + one for p in at), "design.places")
        matrix = []
        for i in rows:
            x = {new[c]: v for c, v in t.rows[i]}
            if one:
                x[m] = t.scale
            matrix.append([x.get(p, 0) for p in at])
        need(regular_modulo(matrix, prime), "design is singular")
        seen = set()
        for v in aliases:
            need(not set(v) <= seen, "an alias has no new coordinate")
            seen |= set(v)
        former = m + one - len(aliases)
        need(rank == min(former, len(t.kept)), "rank is not that of the data")
        all_known = rank == former
    # 8. statuses, 9. of
    need(
        len(of) == sum(v in ("+inf", "-inf") for v in status),
        "bounds.of has not one entry per infinite coefficient",
    )
    need(all(i < len(bounds) for i in of), "bounds.of: no such bound")
    probes = [{move(p): v for p, v in w.items() if move(p) is not None}, *directions]
    alias_places = {p for v in aliases for p in v}
    of, cache = iter(of), {}
    for f, p, claim in zip(forms, places, status, strict=True):
        if claim == "finite":
            need(not any(values(f)), "a finite coefficient is not in the span of the boundary")
        elif claim in ("+inf", "-inf"):
            i = next(of)
            if i not in cache:
                start, stop = bounds[i]
                cache[i] = values(
                    total((vector(pairs[x]), numerators[x]) for x in range(start, stop))
                )
            sign = 1 if claim == "+inf" else -1
            need(
                positive_multiple(cache[i], [sign * v for v in values(f)]),
                f"a coefficient is not shown to be {claim}",
            )
        elif claim == "aliased":
            need(p in alias_places, "no alias shows that a coefficient is aliased")
        elif claim == "undetermined":
            signs = [dot(list(f.items()), v) for v in probes]
            need(max(signs) > 0 > min(signs), "a coefficient is not shown to have both signs")
            need(p not in alias_places and all_known, "an undetermined coefficient may be aliased")


def positive_multiple(u, v):
    """Whether u = c v with c > 0 and u != 0."""
    i = next((i for i, x in enumerate(u) if x), None)
    return (
        i is not None
        and u[i] * v[i] > 0
        and all(a * v[i] == b * u[i] for a, b in zip(u, v, strict=True))
    )
