"""Streams against data that change, solvers that lie, files that lie, sources that hang."""

import math
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from margins_known import corners

from momentron import InputError, Status, max_margin
from momentron.errors import SolverError
from momentron.fitting.options import FitOptions
from momentron.solvers import Auto, BatchPerceptron, Momentum, Primal
from momentron.solvers.checkpoint import Checkpoint
from momentron.streams import ArraySource
from momentron.streams.block_fits import open_problem
from momentron.streams.blocks import Block
from momentron.streams.stream import DiskStream
from tests.oracles.margins import best_margin_squared, signed_square


def two_classes(n=48, d=3, seed=0):
    """Small whole numbers: the exact margin is cheap, and every block has both classes."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    X = rng.integers(-8, 9, (n, d)).astype(float)
    X[:, 0] = y * rng.integers(2, 9, n)
    return X, y


def overlapping(n=48, d=3, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(-8, 9, (n, d)).astype(float), np.where(np.arange(n) % 2, 1, -1)


DATA = {"two": two_classes, "overlapping": overlapping, "many": lambda: corners(4, 12)[:2]}
METHODS = ("auto", "momentum")


def truth(kind, X, y, fit_intercept=True):
    """The square of the best margin, exact."""
    if kind == "many":
        return Fraction(1, 3)
    return max(Fraction(0), best_margin_squared(X, y, fit_intercept))


def is_true(result, square):
    slack = Fraction(1, 10**12) if square == Fraction(1, 3) else 0  # rows are rounded there
    low, high = signed_square(result.lower), signed_square(result.upper)
    return low <= square * (1 + slack) and square * (1 - slack) <= high


def shuffled(X, y, seed=5):
    order = np.random.default_rng(seed).permutation(y.size)
    return X[order], y[order]


class Pieces:
    """Six blocks; `change(X, y)` is what one of them becomes from its second read on."""

    def __init__(self, X, y, change=None, block=3, from_read=2):
        self.parts = list(zip(np.array_split(X, 6), np.array_split(y, 6), strict=True))
        self.change, self.changed, self.from_read = change, block, from_read
        self.reads = [0] * 6

    def __len__(self):
        return len(self.parts)

    def block(self, i):
        self.reads[i] += 1
        X, y = (part.copy() for part in self.parts[i])
        if self.change is not None and i == self.changed and self.reads[i] >= self.from_read:
            return self.change(X, y)
        return X, y


def one_line(error):
    return "\n" not in str(error.value) and len(str(error.value)) < 300


# --- data that change ----------------------------------------------------------------------------


def with_entry(value):
    def change(X, y):
        X[2, 1] = value(X[2, 1])
        return X, y

    return change


CHANGES = {
    "an entry": with_entry(lambda x: x + 1.0),
    "a sign": with_entry(lambda x: -x - 0.0 if x else -1.0),
    "the last bit": with_entry(lambda x: np.nextafter(x, 9.0)),
    "a label": lambda X, y: (X, np.where(np.arange(y.size) == 1, y[y != y[1]][0], y)),
    "all labels": lambda X, y: (X, np.roll(y, 1)),
    "the order of rows": lambda X, y: (X[::-1].copy(), y[::-1].copy()),
    "a row lost": lambda X, y: (X[1:], y[1:]),
    "a row more": lambda X, y: (np.vstack([X, X[:1]]), np.append(y, y[:1])),
    "single precision": lambda X, y: (X.astype(np.float32), y),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["two", "many"])
@pytest.mark.parametrize("name", list(CHANGES))
def test_a_middle_block_that_changes_is_named(name, kind, method):
    X, y = shuffled(*DATA[kind]())
    y = y.astype(np.int64)
    source = Pieces(X, y, CHANGES[name])
    with pytest.raises(InputError, match="block 3 differs from the first pass; the data must"):
        max_margin(source, method=method, max_iter=30)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_in_another_order_are_refused(method):
    X, y = two_classes()

    class Reordered(Pieces):
        def block(self, i):
            self.reads[i] += 1
            other = {2: 4, 4: 2}.get(i, i) if self.reads[i] > 1 else i
            return self.parts[other]

    with pytest.raises(InputError, match="block 2 differs from the first pass"):
        max_margin(Reordered(X, y), method=method, max_iter=30)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_blocks", [5, 7])
def test_another_number_of_blocks_is_refused(method, n_blocks):
    X, y = two_classes()

    class Growing(Pieces):
        def __len__(self):
            return n_blocks if self.reads[5] else 6

        def block(self, i):
            return super().block(min(i, 5))

    with pytest.raises(InputError, match=f"had 6 blocks in the first pass and now has {n_blocks};"):
        max_margin(Growing(X, y), method=method, max_iter=30)


def test_a_source_that_reuses_its_memory_is_refused():
    X, y = two_classes()
    memory = np.empty((8, 3))

    class Reusing(Pieces):
        def block(self, i):
            memory[:] = self.parts[i][0]
            return memory, self.parts[i][1]

    with pytest.raises(InputError, match="new memory for every block"):
        max_margin(Reusing(X, y), method="momentum", max_iter=30)


def test_a_source_may_give_the_same_rows_twice():
    X, y = two_classes()

    class Constant(Pieces):
        def block(self, i):
            return X, y

    assert is_true(max_margin(Constant(X, y)), truth("two", X, y))


def test_partitions_that_change_are_refused():
    pytest.importorskip("dask.array")
    import dask
    import dask.array as da

    X, y = two_classes()
    calls = []

    @dask.delayed(pure=False)
    def rows():
        calls.append(1)
        return X[:24] + (len(calls) > 2)  # the first look is at the width alone

    parts = [da.from_delayed(rows(), (24, 3), float), da.from_array(X[24:], chunks=(24, 3))]
    lazy = da.concatenate(parts)
    with pytest.raises(InputError, match="block 0 differs from the first pass"):
        max_margin(lazy, y, method="momentum", max_iter=10)


@pytest.mark.parametrize("sizes", [(11, 5), (5, 11)])
@pytest.mark.parametrize("method", METHODS)
def test_partitions_of_other_sizes_than_declared_are_refused(method, sizes):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    X, y = two_classes(16, 2)

    def declared(array):
        parts = np.split(array, [sizes[0]])
        shape = (8, *array.shape[1:])
        lazy = [da.from_delayed(dask.delayed(part), shape, array.dtype) for part in parts]
        return da.concatenate(lazy)

    with pytest.raises(InputError, match="rows, but 8 were declared"):
        max_margin(declared(X), declared(y), method=method)


def test_every_bit_counts():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 30)), np.arange(40) % 2
    block = Block(X, y, 0, 0)
    first, words = block.checksum(), X.view(np.uint64)
    for bit in range(64):
        i, j = rng.integers(40), rng.integers(30)
        words[i, j] ^= np.uint64(1 << bit)
        assert block.checksum() != first
        words[i, j] ^= np.uint64(1 << bit)
    assert block.checksum() == first
    wide = Block(X.reshape(30, 40), y[:30], 0, 0)
    assert wide.checksum() != block.checksum()


# --- solvers that lie ----------------------------------------------------------------------------


class Zeroing(Momentum):
    """Sets one of its fields to zero, or to another number, after every step."""

    def __init__(self, field, value=0.0):
        super().__init__()
        self.field, self.value = field, value

    def step(self, problem, state):
        super().step(problem, state)
        part = state.now if hasattr(state.now, self.field) else state
        held = getattr(part, self.field)
        if isinstance(held, np.ndarray):
            held[...] = self.value
        else:  # weights: an array of its own takes their place
            setattr(part, self.field, np.full(state.now.w.size, self.value))


class Proposing(Momentum):
    """Proposes what `change` makes of its candidates."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        self.change(found, problem)
        return found


class Averaging(Momentum):
    """Asks for averages of its own."""

    def __init__(self, share, w=None):
        super().__init__()
        self.share, self.w = share, w

    def step(self, problem, state):
        super().step(problem, state)
        w = state.now.w if self.w is None else np.full_like(state.now.w, self.w)
        q = problem.evaluate(w).weights
        state.mu = problem.mix(state.mu, 1.0 - self.share, q, self.share)


class Writing(Momentum):
    """Writes zeros wherever the problem lets it."""

    def step(self, problem, state):
        super().step(problem, state)
        evaluation = problem.evaluate(state.now.w)
        for array in (
            evaluation.scores,
            problem.gradient(state.now.weights),
            state.now.scores,
            state.z_mu,
        ):
            array[...] = 0.0


class Unsteady(np.ndarray):
    """An array that is another one at every look."""

    looks = 0

    def __getitem__(self, key):
        Unsteady.looks += 1
        return np.roll(np.asarray(self), Unsteady.looks)[key]

    def __array__(self, *args, **options):
        Unsteady.looks += 1
        return np.roll(np.asarray(self.view(np.ndarray)), Unsteady.looks)


class UnsteadyWeights(Auto):
    """Proposes weights that change with every look."""

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        found.q = found.q.view(Unsteady)
        return found


class Idle(Auto):
    """Finds nothing in any working set."""

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        found.primals = [Primal(problem.zeros(), np.zeros(problem.size))]
        found.refined = None
        return found


class Overweight(BatchPerceptron):
    """Adds mass until it overflows, in the hope of a quotient of zero."""

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        q = found.q
        for _ in range(4):
            q = problem.mix(q, 2.0**400, q, 2.0**400)
        found.q, found.upper = q, 0.0
        return found


def set_w(value):
    def change(found, problem):
        found.primals[0].w = value(found.primals[0].w)

    return change


def set_fields(**values):
    def change(found, problem):
        for name, value in values.items():
            setattr(found, name, value(found) if callable(value) else value)

    return change


def margin_of_one(found, problem):
    found.primals[0].scores = np.full_like(found.primals[0].scores, -1e6)


def no_weights(found, problem):
    found.q, found.upper = problem.no_weights(), 0.0


def foreign_weights(found, problem):
    """Those of data whose rows are all zero."""
    stream = DiskStream(Pieces(np.zeros((48, problem.zeros().shape[0])), np.arange(48) % 2))
    options = FitOptions.from_arguments(method=Momentum())
    found.q, found.upper = open_problem(stream, options, 10**6).no_weights(), 0.0


def other_classifier(found, problem):
    """Another w than the one its scores are of."""
    rng = np.random.default_rng(3)
    found.primals[0].w = rng.standard_normal(found.primals[0].w.shape)
    margin_of_one(found, problem)


def some_weights(problem):
    return np.random.default_rng(1).uniform(0.5, 1.0, problem.size)


def mixes_in_place(found, problem):
    q = some_weights(problem)
    problem.gradient(q)
    found.q, found.upper = problem.mix(q, 8.0, q, 8.0, in_place=True), 0.0


def mixes_by_factors_that_underflow(found, problem):
    q = some_weights(problem)
    problem.gradient(1e300 * q)
    problem.mix(q, 1e-300, q, 0.0)
    found.q, found.upper = q, 0.0


def mixes_in_half_precision(found, problem):
    q, r = some_weights(problem), some_weights(problem)[::-1].copy()
    problem.gradient(q), problem.gradient(r)
    found.q, found.upper = problem.mix(q, np.float16(0.3), r, np.float16(0.7)), 0.0


def claims(found, w, problem):
    found.primals = [Primal(w, np.full(problem.size, -1e6))]


def evaluates_what_nearly_vanishes(found, problem):
    direction = np.sign(found.primals[0].w)
    problem.evaluate(2.0**-1074 * direction * max(problem.radius, 1.0))
    claims(found, 2.0**-59 * direction, problem)


def evaluates_in_half_precision(found, problem):
    w = found.primals[0].w
    w = (w / np.abs(w).max(initial=1e-300) * problem.radius).astype(np.float16)
    problem.evaluate(w)
    claims(found, (w / np.float16(problem.radius)).astype(float), problem)


class OwnProducts(np.ndarray):
    """Its products are four times what they are."""

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        plain = [x.view(np.ndarray) if isinstance(x, OwnProducts) else x for x in inputs]
        result = getattr(ufunc, method)(*plain, **more)
        return 4.0 * result if ufunc is np.matmul else result.view(OwnProducts)


def evaluates_its_own_products(found, problem):
    w = np.array(found.primals[0].w)
    problem.evaluate(w.view(OwnProducts))
    claims(found, w / problem.radius, problem)


def halves_the_share(found, problem):
    problem.dual_set.share = 0.5 * problem.dual_set.share
    found.q, found.upper = problem.evaluate(found.primals[0].w).weights, 0.0


LIARS = {
    "q is zero": lambda: Zeroing("weights"),
    "mu is zero": lambda: Zeroing("mu"),
    "q is one": lambda: Zeroing("weights", 1.0),
    "scores are zero": lambda: Zeroing("scores"),
    "scores are minus infinity": lambda: Zeroing("scores", -math.inf),
    "w is zero": lambda: Zeroing("w"),
    "w is one": lambda: Zeroing("w", 1.0),
    "w is not a number": lambda: Zeroing("w", math.nan),
    "w is infinite": lambda: Zeroing("w", math.inf),
    "w is huge": lambda: Zeroing("w", 1e300),
    "w is tiny": lambda: Zeroing("w", 1e-300),
    "g is not a number": lambda: Zeroing("g", math.nan),
    "z_mu is zero": lambda: Zeroing("z_mu"),
    "upper is zero": lambda: Proposing(set_fields(upper=0.0)),
    "upper is zero and so is q": lambda: Proposing(
        set_fields(upper=0.0, q=lambda c: np.zeros_like(c.primals[0].w))
    ),
    "q is nothing": lambda: Proposing(set_fields(upper=0.0, q=None)),
    "no weights at all": lambda: Proposing(no_weights),
    "weights of another problem": lambda: Proposing(foreign_weights),
    "weights that change": UnsteadyWeights,
    "a working set without a classifier": Idle,
    "mass that overflows": Overweight,
    "q is empty": lambda: Proposing(set_fields(upper=0.0, q=np.empty(0))),
    "twice the columns": lambda: Proposing(set_w(lambda w: np.concatenate([w, w], axis=-1))),
    "one dimension more": lambda: Proposing(set_w(lambda w: w[None])),
    "complex": lambda: Proposing(set_w(lambda w: w.astype(complex))),
    "objects": lambda: Proposing(set_w(lambda w: w.astype(object))),
    "extended": lambda: Proposing(set_w(lambda w: w.astype(np.longdouble))),
    "no numbers": lambda: Proposing(set_w(lambda w: np.full_like(w, math.nan))),
    "a margin that is none": lambda: Proposing(margin_of_one),
    "another classifier": lambda: Proposing(other_classifier),
    "negated": lambda: Proposing(set_w(lambda w: -w)),
    "says that it is optimal": lambda: Proposing(set_fields(ending=Status.OPTIMAL)),
    "share above one": lambda: Averaging(1.5),
    "share below zero": lambda: Averaging(-0.5),
    "share not a number": lambda: Averaging(math.nan),
    "shares of its own": lambda: Averaging(0.7),
    "share of one": lambda: Averaging(1.0),
    "average at another w": lambda: Averaging(0.5, w=2.0),
    "average at no numbers": lambda: Averaging(0.5, w=math.nan),
    "writes everywhere": Writing,
    "a mix with itself in place": lambda: Proposing(mixes_in_place),
    "a mix that underflows": lambda: Proposing(mixes_by_factors_that_underflow),
    "a mix by numbers of half precision": lambda: Proposing(mixes_in_half_precision),
    "a classifier that nearly vanishes": lambda: Proposing(evaluates_what_nearly_vanishes),
    "a classifier in half precision": lambda: Proposing(evaluates_in_half_precision),
    "a classifier with its own products": lambda: Proposing(evaluates_its_own_products),
    "another share of the dual set": lambda: Proposing(halves_the_share),
}


@pytest.mark.adversarial
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", list(DATA))
@pytest.mark.parametrize("name", list(LIARS))
def test_a_solver_that_lies_loosens_or_is_refused(name, kind, fit_intercept):
    X, y = DATA[kind]()
    try:
        with np.errstate(all="ignore"):
            result = max_margin(
                Pieces(X, y), method=LIARS[name](), fit_intercept=fit_intercept, max_iter=12
            )
    except (InputError, SolverError) as error:
        assert "\n" not in str(error)
        return
    assert is_true(result, truth(kind, X, y, fit_intercept))


def test_a_working_set_without_a_classifier_is_not_the_end():
    X, y = two_classes()
    result = max_margin(Pieces(X, y), method=Idle(), max_iter=3)
    assert result.status is not Status.OPTIMAL and is_true(result, truth("two", X, y))


@pytest.mark.parametrize("share", [None, 1.001, -0.001])  # the last two mix with numbers below 0
@pytest.mark.parametrize("begins_empty", [False, True])
@pytest.mark.parametrize("kind", ["two", "many"])
def test_sums_of_mixed_weights_bound_the_exact_ones(kind, begins_empty, share):
    """What is remembered of weights is mixed as they are, and its rounding is counted."""
    X, y = DATA[kind]()
    options = FitOptions.from_arguments(method=Momentum(), fit_intercept=False)
    problem = open_problem(DiskStream(Pieces(X, y)), options, 10**6)
    rng, exact_X = np.random.default_rng(2), np.vectorize(Fraction)(X)
    average = problem.no_weights() if begins_empty else problem.evaluate(problem.zeros()).weights
    for t in range(1, 30):
        lam = 2.0 / (t + 2.0) if share is None or t < 29 else share
        q = problem.evaluate(0.3 * rng.standard_normal(problem.w_shape)).weights
        average = problem.mix(average, 1.0 - lam, q, lam)
    problem.close()  # no pass from now on
    bound = problem.certify(problem.zeros(), average).upper
    assert average.min() >= 0.0
    weights = np.vectorize(Fraction)(average)
    table = weights.reshape(y.size, -1)
    if kind == "many":
        own = np.eye(4, dtype=bool)[y]
        a = np.zeros((y.size, 4), object)
        a[~own] = weights
        a[own] = -table.sum(axis=1)
    else:
        a = table * -y[:, None]
    image = exact_X.T @ a
    exact = (image * image).sum() / weights.sum() ** 2
    assert exact <= signed_square(bound) <= exact * (1 + Fraction(1, 10**10))


# --- files that lie ------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Runs that end early: (the arrays of their checkpoint, a way to write others)."""
    made = []
    original = Checkpoint.__init__

    def init(self, path, identity, *rest, **options):
        original(self, path, identity, *rest, **options)
        made.append(dict(identity))

    monkeypatch.setattr(Checkpoint, "__init__", init)

    def run(X, y, method):
        path = tmp_path / "state"
        path.unlink(missing_ok=True)
        steps = 4 if method == "momentum" else 1
        max_margin(Pieces(X, y), method=method, checkpoint=path, max_iter=steps, tol=0.0)
        file = Checkpoint(path, made[-1])
        return file.read(), file

    return run


def resumed_truly(X, y, kind, method, file, arrays, max_iter=8):
    """Whether a file with these arrays gives a true interval, or an error of one line."""
    file.path.unlink(missing_ok=True)
    try:
        file.write(arrays)
    except TypeError as error:
        assert "no file can hold" in str(error)
        return False
    try:
        with np.errstate(all="ignore"):
            result = max_margin(
                Pieces(X, y), method=method, checkpoint=file.path, max_iter=max_iter, tol=0.0
            )
    except (InputError, SolverError) as error:
        assert "\n" not in str(error)
        return False
    assert is_true(result, truth(kind, X, y)), (result.lower, result.upper)
    return True


def problem_of(kind):
    """Data on which auto takes some rounds."""
    if kind == "many":
        return corners(4, 12)[:2]
    X, y = two_classes(600, 5, seed=7)
    return X, y


def replaced(**values):
    """The arrays with some replaced: by a value, or by a function of what was there."""

    def change(arrays):
        for name, value in values.items():
            key = name.replace("__", ".")
            if key in arrays:
                arrays[key] = np.asarray(value(arrays[key]) if callable(value) else value)
        return arrays

    return change


def without(name):
    def change(arrays):
        arrays.pop(name, None)
        return arrays

    return change


LIES = {
    "best w is zero": replaced(best__w=np.zeros_like),
    "best w is huge": replaced(best__w=lambda w: w * 0 + 1e300),
    "best w is no number": replaced(best__w=lambda w: w * math.nan),
    "best w is negated": replaced(best__w=np.negative),
    "best w is wider": replaced(best__w=lambda w: np.concatenate([w, w])),
    "best w is text": replaced(best__w=lambda w: w.astype(str)),
    "best w is complex": replaced(best__w=lambda w: w * 1j),
    "best q is zero": replaced(best__q=np.zeros_like),
    "best q is longer": replaced(best__q=lambda q: np.zeros(q.size + 1)),
    "no best w": without("best.w"),
    "last w is no number": replaced(best__last_w=lambda w: w * math.nan),
    "lower is 283": replaced(numbers=lambda n: np.array([283.0, *n[1:]])),
    "upper is zero": replaced(numbers=lambda n: np.array([n[0], 0.0, *n[2:]])),
    "crossed": replaced(numbers=lambda n: np.array([283.0, 0.715, *n[2:]])),
    "bounds are no numbers": replaced(numbers=lambda n: n * math.nan),
    "ask never again": replaced(numbers=lambda n: np.array([n[0], n[1], 1e300, n[3]])),
    "ask at infinity": replaced(numbers=lambda n: np.array([n[0], n[1], math.inf, n[3]])),
    "time runs backwards": replaced(numbers=lambda n: np.array([n[0], n[1], n[2], -1e9])),
    "three numbers": replaced(numbers=lambda n: n[:3]),
    "no numbers": without("numbers"),
    "no trace": without("trace"),
    "an empty trace": replaced(trace=lambda t: t[:0]),
    "a longer trace": replaced(trace=lambda t: np.vstack([t, t])),
    "a narrow trace": replaced(trace=lambda t: t[:, :-1]),
    "a trace of infinities": replaced(trace=lambda t: t * math.inf),
    "a trace of lies": replaced(trace=lambda t: np.column_stack([t[:, 0], t[:, 1:] * 0])),
    "t is negative": replaced(state__t=-5),
    "t is huge": replaced(state__t=2**62),
    "t is an array": replaced(state__t=lambda t: np.full(3, t)),
    "no t": without("state.t"),
    "passes are negative": replaced(problem__counts=lambda c: -c),
    "passes are infinite": replaced(problem__counts=lambda c: c * math.inf),
    "no passes": without("problem.counts"),
    "other data": replaced(problem__content=lambda c: c[::-1]),
    "no data": without("problem.content"),
    "data of another length": replaced(problem__content=lambda c: c[:4]),
    # of momentum
    "state w is huge": replaced(state__w=lambda w: w * 0 + 1e300),
    "state w is no number": replaced(state__w=lambda w: w * math.nan),
    "images are zero": replaced(state__q=np.zeros_like, state__mu=np.zeros_like),
    "scores are zero": replaced(state__scores=np.zeros_like, state__z_mu=np.zeros_like),
    "scores are low": replaced(state__scores=lambda s: s * 0 - 1e9),
    "lambda is zero": replaced(state__lam=0.0),
    "lambda is two": replaced(state__lam=2.0),
    "theta is zero": replaced(state__theta=0.0),
    "psi is infinite": replaced(state__psi=math.inf),
    # of auto
    "rows twice": replaced(problem__working=lambda n: np.concatenate([n, n])),
    "rows that are not there": replaced(problem__working=lambda n: n + 10**9),
    "rows below zero": replaced(problem__working=lambda n: -1 - n),
    "no rows": replaced(problem__working=lambda n: n[:0]),
    "one row": replaced(problem__working=lambda n: n[:1]),
    "rows as text": replaced(problem__working=lambda n: n.astype(str)),
    "other rows": replaced(problem__working=lambda n: np.arange(n.size)),
    "weights are zero": replaced(best__q=np.zeros_like),
    "weights are negative": replaced(best__q=np.negative),
    "weights are no numbers": replaced(best__q=lambda w: w * math.nan),
    "weights are huge": replaced(best__q=lambda w: w * 1e300),
    "weights of others": replaced(best__q=lambda w: np.roll(w, 1, axis=0)),
    "weights of another shape": replaced(best__q=lambda w: np.ones((3, 3, 3))),
    "asks for nothing": replaced(state__asked=0.0),
    "asks for no number": replaced(state__asked=math.nan),
}


@pytest.mark.adversarial
@pytest.mark.parametrize("kind", ["two", "many"])
@pytest.mark.parametrize("method", METHODS)
def test_lies_in_a_checkpoint_are_errors_or_loosen(method, kind, written):
    X, y = problem_of(kind)
    arrays, file = written(X, y, method)
    with np.errstate(all="ignore"):
        lies = {name: lie(dict(arrays)) for name, lie in LIES.items()}
    ends = {name: resumed_truly(X, y, kind, method, file, lie) for name, lie in lies.items()}
    assert resumed_truly(X, y, kind, method, file, dict(arrays))
    for name in ("other data", "no data", "no t", "no numbers", "three numbers", "no best w"):
        assert not ends[name], name


SPOILED = {
    "zeros": lambda a, rng: np.zeros_like(a),
    "noise": lambda a, rng: rng.standard_normal(a.shape),
    "not finite": lambda a, rng: rng.choice([math.nan, math.inf, -math.inf, 1.0], a.shape),
    "huge": lambda a, rng: rng.choice([-1e300, 1e300], a.shape),
    "negative": lambda a, rng: -np.abs(a) - 1,
    "shuffled": lambda a, rng: rng.permutation(a.ravel()).reshape(a.shape),
    "flat": lambda a, rng: a.reshape(1, -1),
    "cut": lambda a, rng: a.ravel()[: a.size // 2],
    "whole": lambda a, rng: rng.integers(-(2**62), 2**62, a.shape),
    "text": lambda a, rng: np.full(a.shape, "x"),
    "times": lambda a, rng: np.zeros(a.shape, "M8[s]"),
    "one bit": lambda a, rng: one_bit(a, rng),
}


def one_bit(array, rng):
    raw = bytearray(np.ascontiguousarray(array).tobytes())
    if raw:
        raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)


@pytest.mark.adversarial
@pytest.mark.parametrize("method", METHODS)
def test_spoiled_arrays_are_errors_or_loosen(method, written):
    X, y = problem_of("two")
    arrays, file = written(X, y, method)
    rng = np.random.default_rng(11)
    for key in arrays:
        for name, spoil in SPOILED.items():
            spoiled = arrays | {key: np.asarray(spoil(arrays[key], rng))}
            try:
                resumed_truly(X, y, "two", method, file, spoiled, max_iter=5)
            except BaseException as error:
                raise AssertionError(f"{key}: {name}: {error!r}") from error


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block", range(6))
def test_data_that_change_before_a_resume_are_refused(block, method, written):
    X, y = problem_of("two")
    _, file = written(X, y, method)
    source = Pieces(X, y, with_entry(lambda x: x + 1.0), block, from_read=0)
    with pytest.raises(InputError, match="it belongs to a different data set") as error:
        max_margin(source, method=method, checkpoint=file.path, tol=0.0)
    assert one_line(error)


# --- budgets and interrupts ----------------------------------------------------------------------


class Slow(Pieces):
    """Takes so many seconds for a block, for ever from some read of the last block on."""

    def __init__(self, X, y, seconds=0.0, hangs_at=math.inf):
        super().__init__(X, y)
        self.seconds, self.hangs_at = seconds, hangs_at
        self.released = threading.Event()

    def block(self, i):
        found = super().block(i)
        if i == 5 and self.reads[5] >= self.hangs_at:
            self.released.wait(60.0)
        time.sleep(self.seconds)
        return found


def timed(function):
    begin = time.perf_counter()
    return function(), time.perf_counter() - begin


@pytest.mark.clock
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hangs_at", [1, math.inf])
def test_no_time_for_the_first_pass_is_an_error(method, hangs_at):
    X, y = two_classes()
    source = Slow(X, y, 0.6 if math.isinf(hangs_at) else 0.0, hangs_at)
    begin = time.perf_counter()
    with pytest.raises(InputError, match=r"max_time=1 expired after \d+% of the first") as error:
        max_margin(source, method=method, max_time=1.0)
    assert time.perf_counter() - begin < 2.0
    assert one_line(error)
    source.released.set()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hangs_at", [2, 3])
def test_a_source_that_hangs_ends_at_the_deadline(method, hangs_at):
    X, y = overlapping() if method == "momentum" else two_classes(600, 5, seed=7)
    source = Slow(X, y, hangs_at=hangs_at)
    result, seconds = timed(lambda: max_margin(source, method=method, tol=0.0, max_time=1.5))
    assert seconds < 2.5
    assert result.status is Status.TIME_BUDGET
    assert is_true(result, truth("two", X, y))
    source.released.set()


def test_the_last_certificate_starts_no_pass():
    X, y = two_classes()
    source = Slow(X, y, 0.3)

    class Hiding(Momentum):
        """Proposes classifiers that no pass has looked at."""

        def candidates(self, problem, state):
            found = super().candidates(problem, state)
            found.primals[0].w = found.primals[0].w * 1.5
            return found

    result, seconds = timed(
        lambda: max_margin(source, method=Hiding(), fit_intercept=False, tol=0.0, max_time=4.5)
    )
    assert result.status is Status.TIME_BUDGET
    assert seconds < 5.5
    assert is_true(result, truth("two", X, y, False))


@pytest.fixture
def alarm():
    """Ctrl-C after so many seconds, as the main thread would hear it."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.clock
@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_in_a_read_that_hangs_is_heard(method, alarm):
    X, y = two_classes(600, 5, seed=7)
    source = Slow(X, y, hangs_at=2)
    alarm(1.0)
    result, seconds = timed(lambda: max_margin(source, method=method, tol=0.0))
    assert result.status is Status.INTERRUPTED
    assert seconds < 2.0
    assert is_true(result, truth("two", X, y))
    source.released.set()


@pytest.mark.clock
@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_in_the_first_pass_is_passed_on(method, alarm):
    X, y = two_classes()
    source = Slow(X, y, hangs_at=1)
    alarm(0.5)
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        max_margin(source, method=method)
    assert time.perf_counter() - begin < 1.5
    source.released.set()


@pytest.mark.clock
@pytest.mark.parametrize("method", METHODS)
def test_partitions_that_hang_end_at_the_deadline(method, alarm):
    pytest.importorskip("dask.array")
    pytest.importorskip("distributed")  # whose import is not what is timed here
    import dask
    import dask.array as da

    X, y = two_classes(600, 5, seed=7)
    reads, released = [], threading.Event()

    @dask.delayed(pure=False)
    def rows():
        reads.append(1)
        if len(reads) > 2:
            released.wait(60.0)
        return X

    lazy = da.from_delayed(rows(), X.shape, float)
    result, seconds = timed(lambda: max_margin(lazy, y, method=method, tol=0.0, max_time=1.5))
    assert result.status is Status.TIME_BUDGET
    assert seconds < 2.5
    alarm(1.0)
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        max_margin(lazy, y, method=method)
    assert time.perf_counter() - begin < 2.0
    released.set()


class Uneven(Auto):
    """Weights of the working set that are not the solver's: what they prove is computed."""

    def candidates(self, problem, state):
        found = super().candidates(problem, state)
        found.q, found.upper = np.arange(1.0, problem.size + 1.0), 0.0
        return found


def test_weights_of_a_working_set_prove_what_they_prove():
    X, y = two_classes(60, 3, seed=1)
    result = max_margin(ArraySource(X, y, 500), method=Uneven(), max_iter=3)
    best = max_margin(X, y, tol=1e-9)
    assert result.lower <= best.upper
    assert result.upper >= best.lower


# --- too little memory ---------------------------------------------------------------------------

SHORT_OF_MEMORY = """
import os, resource, signal
from momentron.arithmetic.clock import Work

def size():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmSize")).split()[1])

ends = set()
for free in range(0, 240, 12):
    child = os.fork()
    if not child:
        limit = size() + free * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.alarm(20)
        try:
            os._exit(Work(lambda _: 0).result())
        except (MemoryError, RuntimeError):
            os._exit(2)
    ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(ends))
"""


@pytest.mark.adversarial
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space")
def test_a_thread_that_finds_no_memory_is_an_error_and_not_waited_for():
    command = [sys.executable, "-c", SHORT_OF_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[0, 2]", done.stderr
