"""The reader of the section `estimates` (docs/proof-format.md): from JSON to `Estimates`."""

from itertools import pairwise
from typing import Any

from momentron.verify import limits
from momentron.verify.data import Data
from momentron.verify.errors import ProofError
from momentron.verify.estimates import STATUSES, Estimates, Space, Vector
from momentron.verify.format import Pair, Proof, read_pairs
from momentron.verify.limits import Allowance
from momentron.verify.modular import PRIMES
from momentron.verify.numbers import integer


def read_estimates(found: Any, proof: Proof, data: Data) -> Estimates | None:
    """The estimates of a proof, if it has any; every index in them is in range."""
    if found is None:
        return None
    allowance = Allowance.of(data)
    space = Space(data, proof.family, proof.codes)
    statuses = found["status"]
    if type(statuses) is not list or not all(s in STATUSES for s in statuses):
        raise ProofError(f"a status of the estimates is not one of {list(STATUSES)}")
    if found["prime"] not in PRIMES:
        raise ProofError(f"prime is {str(found['prime'])[:20]}; it must be one of {list(PRIMES)}")
    used = data.used.tolist() if data.used.size < data.d else None
    if found["used"] != used:
        raise ProofError("the columns that the estimates use are not those that hold anything")
    basis = read_pairs(found["basis"], proof.codes, proof.family) if found["pivots"] else []
    if len(basis) > limits.MAX_BASIS:
        raise ProofError(f"the basis of the estimates has {len(basis)} pairs; that is too many")
    free = _indices(found["null"]["free"], space.size)
    null = _vectors(found["null"], space.size, allowance)
    if len(set(free)) < len(free) or len(free) != len(null):
        raise ProofError("there must be one null vector for each of its coordinates")
    n_places = space.n_features + proof.fit_intercept
    return Estimates(
        reference=_indices([found["reference"]], proof.family.k)[0],
        statuses=statuses,
        prime=found["prime"],
        basis=basis,
        pivots=_indices(found["pivots"], space.size),
        null=dict(zip(free, null, strict=True)),
        bounds=_bounds(found["bounds"], proof, allowance),
        bound_of=_indices(found["bounds"]["of"], len(found["bounds"]["starts"])),
        directions=_vectors(found["directions"], space.size, allowance),
        aliases=_vectors(found["aliases"], space.size, allowance),
        dimension=_count(found["dimension"]),
        rank=_count(found["rank"]),
        design_rows=_kept_rows(found["design"]["rows"], proof),
        design_places=_indices(found["design"]["places"], n_places),
    )


def _kept_rows(values: Any, proof: Proof) -> list[int]:
    rows = _indices(values, len(proof.codes))
    if any(proof.codes[i] < 0 for i in rows):
        raise ProofError("a row of the design is left out")
    return rows


def _indices(values: Any, size: int) -> list[int]:
    """Integers from 0 to below a size."""
    if type(values) is not list:
        raise ProofError("the estimates must hold lists of integers")
    for v in values:
        if type(v) is not int or not 0 <= v < size:
            raise ProofError(f"{str(v)[:50]} is no index below {size}")
    return values


def _count(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ProofError(f"{str(value)[:50]} must be null or an integer")
    return value


def _pieces(found: Any, size: int) -> list[slice]:
    """Which entries of the lists belong to which vector."""
    starts = found["starts"]
    _indices(starts, size + 1)
    if not starts or starts[0] != 0 or starts[-1] != size or sorted(starts) != starts:
        raise ProofError("the starts of some vectors do not fit their entries")
    return [slice(a, b) for a, b in pairwise(starts)]


def _vectors(found: Any, size: int, allowance: Allowance) -> list[Vector]:
    """Whole numbers by coordinate, zeros left out."""
    coordinates, numbers = _indices(found["coordinates"], size), found["numbers"]
    allowance.require_short(numbers)
    vectors = []
    for piece in _pieces(found, len(coordinates)):
        at, texts = coordinates[piece], numbers[piece]
        if len(set(at)) < len(at):
            raise ProofError("a vector of the estimates names a coordinate twice")
        values = dict(zip(at, map(integer, texts), strict=True))
        vectors.append({c: v for c, v in values.items() if v})
    if len(numbers) != len(coordinates):
        raise ProofError("a vector of the estimates needs one number for each coordinate")
    return vectors


def _bounds(found: Any, proof: Proof, allowance: Allowance) -> list[dict[Pair, int]]:
    """Positive weights on pairs of the data."""
    rows, others, numbers = found["rows"], found["others"], found["numerators"]
    allowance.require_short(numbers)
    if not len(rows) == len(others) == len(numbers):
        raise ProofError("a bound of the estimates needs one number for each pair")
    bounds = []
    for piece in _pieces(found, len(rows)):
        named = {"rows": rows[piece], "others": others[piece]}
        pairs = read_pairs(named, proof.codes, proof.family)
        weights = dict(zip(pairs, map(integer, numbers[piece]), strict=True))
        if min(weights.values()) < 1:
            raise ProofError("a weight of a bound of the estimates is not positive")
        bounds.append(weights)
    return bounds
