"""Data in blocks: the same answers as in memory, whatever the blocks, and honest errors."""

import threading
from contextlib import closing

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import make_nonseparable

from momentron import InputError, Status, max_margin
from momentron.datasets import make_separable
from momentron.fitting.options import FitOptions
from momentron.streams import ArraySource, BlockError, parse_size
from momentron.streams.block_fits import open_problem
from momentron.streams.blocks import Block, Shortlist
from momentron.streams.first_pass import FirstPass
from momentron.streams.scan import Scan
from momentron.streams.stream import DiskStream, read_ahead


class Pieces:
    """A user's own source: rows in given pieces, in a given order."""

    def __init__(self, X, y, cuts, order=None):
        ends = [*sorted({cut for cut in cuts if 0 < cut < len(y)}), len(y)]
        self.slices = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False) if a < b]
        order = range(len(self.slices)) if order is None else order
        self.slices = [self.slices[i] for i in order]
        self.X, self.y = X, y

    def __len__(self):
        return len(self.slices)

    def block(self, i):
        return self.X[self.slices[i]], self.y[self.slices[i]]


def many_classes(n=150, d=5, k=4, seed=0):
    """Clusters far enough apart to be separable, with and without intercepts."""
    rng = np.random.default_rng(seed)
    centres = 4.0 * np.linalg.qr(rng.standard_normal((d, d)))[0][:k]
    codes = rng.integers(0, k, n)
    codes[:k] = np.arange(k)
    return centres[codes] + 0.3 * rng.standard_normal((n, d)), codes


def a_problem(kind, fit_intercept):
    if kind == "many":
        return many_classes()
    data = make_separable(400, 6, margin=0.2, fit_intercept=fit_intercept, random_state=3)
    return data.X, data.y


@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no-intercept", "intercept"])
@pytest.mark.parametrize("kind", ["two", "many"])
@pytest.mark.parametrize("form", ["dense", "sparse", "single"])
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_auto_equals_memory_whatever_the_blocks(form, kind, fit_intercept, data):
    X, y = a_problem(kind, fit_intercept)
    X = {"dense": X, "sparse": sp.csr_array(X), "single": X.astype(np.float32)}[form]
    cuts = data.draw(st.lists(st.integers(1, y.size - 1), max_size=6))
    source = Pieces(X, y, cuts)
    source.slices = data.draw(st.permutations(source.slices))
    here = max_margin(X, y, fit_intercept=fit_intercept, tol=1e-11)
    there = max_margin(source, fit_intercept=fit_intercept, tol=1e-11)
    assert there.status is Status.OPTIMAL
    assert there.lower == pytest.approx(here.lower, rel=1e-9)
    assert there.upper == pytest.approx(here.upper, rel=1e-9)
    assert np.allclose(there.coef, here.coef, atol=1e-8)
    assert np.allclose(there.intercept, here.intercept, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no-intercept", "intercept"])
@pytest.mark.parametrize("kind", ["two", "many"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_momentum_equals_memory_step_by_step(form, kind, fit_intercept, data):
    X, y = a_problem(kind, fit_intercept)
    X = X if form == "dense" else sp.csr_array(X)
    source = Pieces(X, y, data.draw(st.lists(st.integers(1, y.size - 1), max_size=6)))
    source.slices = data.draw(st.permutations(source.slices))
    options = {"method": "momentum", "fit_intercept": fit_intercept, "max_iter": 30}
    here, there = max_margin(X, y, **options), max_margin(source, **options)
    assert there.n_iter == here.n_iter == 30
    assert there.lower == pytest.approx(here.lower, rel=1e-9, abs=1e-12)
    assert there.upper == pytest.approx(here.upper, rel=1e-9)
    for column in ("margin", "lower", "upper", "theorem_lower", "theorem_upper"):
        assert np.allclose(there.trace[column], here.trace[column], rtol=1e-9, equal_nan=True)
    one_pass = 2 if kind == "many" and fit_intercept else 1
    assert np.all(np.diff(there.trace["passes"]) == one_pass)


def test_single_precision_momentum_has_a_certificate_in_double():
    data = make_separable(500, 8, margin=0.3, dtype=np.float32, random_state=0)
    result = max_margin(
        data.X, data.y, method="momentum", fit_intercept=False, block_size=3000, max_iter=300
    )
    exact = max_margin(data.X, data.y, fit_intercept=False, tol=1e-12)
    assert result.lower <= exact.upper
    assert result.upper >= exact.lower
    assert result.gap < 0.1


def test_result_of_a_stream():
    data = make_separable(3000, 6, margin=0.2, n_support=5, fit_intercept=True, random_state=1)
    result = max_margin(data.X, data.y, block_size=8000, tol=1e-9)
    assert set(data.support) <= set(result.support)
    assert result.dual.shape == result.support.shape
    assert np.array_equal(result.support_labels, data.y[result.support])
    signed = result.dual * result.support_labels
    assert np.linalg.norm(signed @ data.X[result.support]) == pytest.approx(data.margin, rel=1e-8)
    assert result.n_rows == 3000
    assert result.passes <= 10
    assert result.bytes_read == result.passes * (data.X.nbytes + data.y.nbytes)
    margins = data.y * (data.X @ result.coef + result.intercept)
    assert margins.min() == pytest.approx(data.margin, rel=1e-8)
    assert "passes over 3000 rows" in repr(result)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_what_nothing_separates_ends_with_its_witness(fit_intercept):
    data = make_nonseparable(
        4000, 6, n_support=6, fit_intercept=fit_intercept, overlap=0.3, random_state=2
    )
    result = max_margin(data.X, data.y, fit_intercept=fit_intercept, block_size=8000)
    assert result.status is Status.NOT_SEPARABLE
    assert result.lower == 0.0
    assert result.upper <= 1e-12 * np.linalg.norm(data.X, axis=1).max()
    signed = result.dual * result.support_labels
    assert np.linalg.norm(signed @ data.X[result.support]) <= 1e-12
    assert result.dual.sum() == pytest.approx(1.0)


EDGES = {
    "zeros": (np.zeros((10, 3)), np.arange(10) % 2),
    "zeros-many": (np.zeros((12, 3)), np.arange(12) % 3),
    "ones": (np.ones((10, 3)), np.arange(10) % 2),
    "two-rows": (np.eye(2), np.array(["a", "b"])),
    "one-feature": (np.array([[1.0], [-1.0]]), np.array([7, 8])),
    "one-row-a-class": (np.eye(3), np.arange(3)),
    "integers": (np.array([[1, 2], [3, 4], [5, 7]]), np.array([True, False, True])),
    "sparse": (sp.csr_array(np.eye(6)), np.arange(6) % 2),
}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("method", ["auto", "momentum"])
@pytest.mark.parametrize("edge", list(EDGES))
def test_edges_are_judged_as_in_memory(edge, method, fit_intercept):
    X, y = EDGES[edge]
    options = {"method": method, "fit_intercept": fit_intercept, "max_iter": 50}
    here, there = max_margin(X, y, **options), max_margin(X, y, block_size=64, **options)
    assert there.status is here.status
    assert there.lower == pytest.approx(here.lower, rel=1e-6, abs=1e-12)
    assert there.upper == pytest.approx(here.upper, rel=1e-6, abs=1e-12)


def test_a_source_that_loses_rows_is_refused():
    class Losing(Pieces):
        calls = 0

        def block(self, i):
            Losing.calls += 1
            X, y = super().block(i)
            return (X[1:], y[1:]) if Losing.calls > 4 else (X, y)

    data = make_separable(2000, 4, random_state=0)
    with pytest.raises(InputError, match="block 0 differs from the first pass"):
        max_margin(Losing(data.X, data.y, [500, 1000, 1500]), fit_intercept=False)


def a_block_problem(X, y, fit_intercept=True, block_size=1000):
    options = FitOptions.from_arguments(fit_intercept=fit_intercept)
    return open_problem(DiskStream(ArraySource(X, y, block_size)), options, block_size)


def test_working_set_stays_within_its_room():
    from momentron.solvers import Auto
    from momentron.solvers.solver import RunOptions
    from momentron.streams.rounds import WorkingSetRounds

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20000, 10))
    y = np.where(X @ rng.standard_normal(10) > 0.0, 1, -1)
    problem = a_block_problem(X, y, block_size=100_000)
    solver = WorkingSetRounds(Auto())
    state = solver.init(problem, RunOptions(tol=1e-6))
    problem.room = 600
    uppers = []
    for _ in range(12):
        solver.step(problem, state)
        uppers.append(solver.candidates(problem, state).upper)
        assert problem.working.size <= 600 + 75
    assert np.all(np.diff(uppers) <= 1e-9 * uppers[0])


@pytest.mark.parametrize("k", [2, 3])
def test_rows_that_nothing_separates_cost_no_further_pass_and_one_fallback(k, monkeypatch):
    from momentron.fitting import fits

    calls = []
    original = fits.fallback_choice
    monkeypatch.setattr(fits, "fallback_choice", lambda *a: calls.append(a) or original(*a))
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, 4000)
    X = rng.standard_normal((4000, 5)) + 0.8 * np.eye(k, 5)[y]
    result = max_margin(X, y, block_size=40_000)
    assert result.status is Status.NOT_SEPARABLE and result.is_fallback
    assert result.passes == 1 and len(calls) == 1
    outputs = X @ result.coef.T + result.intercept
    predicted = outputs > 0.0 if k == 2 else outputs.argmax(axis=1)
    whole = max_margin(X, y)
    outputs = X @ whole.coef.T + whole.intercept
    expected = outputs > 0.0 if k == 2 else outputs.argmax(axis=1)
    assert np.mean(predicted == y) >= np.mean(expected == y) - 0.02


def test_few_rows_of_a_class_and_little_memory_still_give_a_classifier():
    rng = np.random.default_rng(0)
    y = (np.arange(3000) < 12).astype(int)
    X = rng.standard_normal((3000, 5))
    X[:6] += 3.0
    result = max_margin(X, y, block_size=800)
    assert result.status is Status.NOT_SEPARABLE and result.is_fallback
    assert result.passes <= 2 and result.coef.any()


# --- the statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [False, True])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(1, 119), min_size=2, max_size=5), seed=st.integers(0, 99))
def test_findings_merge_associatively_and_commutatively(k, fit_intercept, cuts, seed):
    rng = np.random.default_rng(seed)
    X, y = many_classes(120, 5, 4, seed)
    y = y % k
    w = rng.standard_normal((5, k - 1)) * 10.0
    task = Scan(np.arange(k), fit_intercept, w if k > 2 else w[:, 0], n_worst=6)
    if k > 2 and fit_intercept:
        task.a = rng.random((120, 3))
    else:
        task.is_softmax = True
    source = Pieces(X, y, cuts)

    def parts():
        return [task(Block(X[s], y[s], i, s.start)) for i, s in enumerate(source.slices)]

    def folded(findings):
        total = findings[0]
        for finding in findings[1:]:
            total = task.merge(total, finding)
        return total

    whole = task(Block(X, y, 0, 0))
    forward, backward, order = parts(), parts()[::-1], rng.permutation(len(source.slices))
    mixed = [parts()[i] for i in order]
    half = max(1, len(mixed) // 2)
    right = folded(mixed[half:]) if mixed[half:] else None
    tree = folded(mixed[:half]) if right is None else task.merge(folded(mixed[:half]), right)
    for total in (folded(forward), folded(backward), tree):
        if task.is_softmax:
            logs = total.peaks + np.log(total.totals)
            assert np.allclose(logs, whole.peaks + np.log(whole.totals), rtol=1e-13)
        assert np.allclose(total.all_products(), whole.all_products(), rtol=1e-13)
        scale = np.abs(whole.sums).max(initial=1.0)
        assert np.allclose(total.sums, whole.sums, atol=1e-12 * scale)
        worst, expected = total.lists[0].chosen(), whole.lists[0].chosen()
        assert np.array_equal(np.sort(worst.numbers), np.sort(expected.numbers))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 4])
def test_bounds_of_scores_hold_closely(k, fit_intercept, dtype):
    from fractions import Fraction

    from momentron.certificate.bounds import norm_bounds, score_bounds

    X, y = many_classes(60, 5, 4, 7)
    X, y = X.astype(dtype), y % k
    problem = a_block_problem(X, y, fit_intercept)
    w = np.random.default_rng(1).standard_normal(problem.w_shape)
    bounds = score_bounds(problem, w, norm_bounds(problem, w)[1], sharp=False)
    bounds = problem.labels.dual_of(bounds)
    W = w if k > 2 else np.stack([np.zeros(5), w], axis=1)
    for i, (x, c) in enumerate(zip(X.astype(float).tolist(), y.tolist(), strict=True)):
        terms = [[Fraction(a) * Fraction(b) for a, b in zip(x, v, strict=True)] for v in W.T]
        F = [sum(products) for products in terms]
        for j in range(k):
            if j != c:
                exact = float(F[j] - F[c])
                bound = bounds[i] if k == 2 else bounds[i, j]
                assert exact <= bound <= exact + 1e-12


def test_sample_does_not_depend_on_the_blocks():
    X, y = many_classes(300)
    task = FirstPass(40)
    samples = []
    for cuts in ([], [7, 100], list(range(10, 300, 10))):
        source = Pieces(X, y, cuts)
        found = None
        for i, s in enumerate(source.slices):
            part = task(Block(X[s], y[s], i, s.start), found)
            found = part if found is None else task.merge(found, part)
        samples.append(np.sort(found.sample.chosen().numbers))
        assert found.counts == dict(zip(*np.unique(y, return_counts=True), strict=True))
    assert samples[0].size == 40
    assert np.array_equal(samples[0], samples[1])
    assert np.array_equal(samples[0], samples[2])


def test_shortlist_keeps_the_highest_whatever_the_order():
    rng = np.random.default_rng(0)
    ranks, X = rng.integers(0, 50, 400).astype(float), rng.standard_normal((400, 2))
    expected = np.lexsort((np.arange(400), -ranks))[:10]
    for step in (1, 7, 400):
        short = Shortlist(20)
        for start in rng.permutation(np.arange(0, 400, step)):
            index = np.arange(start, min(start + step, 400))
            codes = np.zeros(index.size, int)
            short.offer(Block(X[index], codes, 0, int(start)), ranks[index], codes, ["a"])
        rows = short.chosen()
        assert set(rows.numbers) == set(expected)
        assert np.array_equal(rows.X, X[rows.numbers])


# --- reading -------------------------------------------------------------------------------------


class Failing:
    def __init__(self, at, error):
        self.at, self.error = at, error

    def __len__(self):
        return 5

    def block(self, i):
        if i == self.at:
            raise self.error
        return np.eye(4), np.array([0, 1, 0, 1])


def reader_threads():
    return [t for t in threading.enumerate() if t.name == "momentron-reader"]


def test_errors_of_a_source_name_the_block_and_leave_no_thread():
    with pytest.raises(BlockError, match=r"block 3 of 5 .* disk on fire"):
        max_margin(Failing(3, OSError("disk on fire")))
    assert not reader_threads()


def test_leaving_the_loop_stops_the_reader():
    with closing(read_ahead(Failing(99, OSError()), 5)) as blocks:
        for block, _ in blocks:
            if block.number == 1:
                break
    assert not reader_threads()


def test_interrupt_returns_the_best_so_far():
    data = make_separable(100, 4, margin=0.3, random_state=0)

    class Interrupted(ArraySource):
        reads = 0

        def block(self, i):
            Interrupted.reads += 1
            if Interrupted.reads == 40:
                raise KeyboardInterrupt
            return super().block(i)

    source = Interrupted(data.X, data.y, 10**6)
    result = max_margin(source, method="momentum", fit_intercept=False)
    assert result.status is Status.INTERRUPTED
    assert 0.0 < result.lower <= data.margin <= result.upper
    assert not reader_threads()


@pytest.mark.clock
def test_time_budget_ends_in_the_middle_of_a_pass():
    import time

    data = make_separable(100, 4, margin=0.3, random_state=0)

    class Slow(ArraySource):
        def block(self, i):
            time.sleep(0.02)
            return super().block(i)

    begin = time.perf_counter()
    result = max_margin(
        Slow(data.X, data.y, 64), method="momentum", fit_intercept=False, tol=0.0, max_time=4.0
    )
    assert result.status is Status.TIME_BUDGET
    assert time.perf_counter() - begin < 8.0
    assert result.upper >= data.margin


@pytest.mark.slow
def test_memory_is_bounded_by_blocks():
    import tracemalloc

    class Generated:
        def __len__(self):
            return 40

        def block(self, i):
            rng = np.random.default_rng(i)
            y = rng.choice([-1, 1], 5000)
            X = rng.standard_normal((5000, 50))
            X[:, 0] = y * (1.0 + rng.exponential(size=5000))
            return X, y

    max_margin(Generated(), block_size=10_000)
    tracemalloc.start()
    result = max_margin(Generated(), block_size=100_000, tol=1e-3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.status is Status.OPTIMAL
    # all of it is 80 MB, a block is 2 MB; of each of the 200,000 rows some numbers are kept
    assert peak < 20e6 + 175 * 200_000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Pieces(np.eye(4), np.array([0, 1, 1, 0.5]), [2]), "block 1: Unknown label type"),
        (Pieces(np.array([[1.0], [np.nan], [2.0]]), np.array([0, 1, 1]), [1]), r"block 1 .*NaN"),
        (Pieces(np.eye(3), np.zeros(3, int), [1]), "y has 1 class"),
        (Pieces(1e250 * np.eye(3), np.array([0, 1, 1]), [1]), "rescale X"),
        (Failing(0, InputError("no such row")), "block 0 of 5 .*no such row"),
    ],
)
def test_bad_blocks_are_named(source, message):
    with pytest.raises(InputError, match=message):
        max_margin(source)


def test_labels_that_change_are_refused():
    class Changing(Pieces):
        calls = 0

        def block(self, i):
            Changing.calls += 1
            X, y = super().block(i)
            return X, np.full_like(y, 7) if Changing.calls > 5 else y

    data = make_separable(2000, 4, random_state=0)
    with pytest.raises(InputError, match="differs from the first pass"):
        max_margin(Changing(data.X, data.y, [500, 1000, 1500]), fit_intercept=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "adaptive"}, "method='adaptive' needs the data in memory: each of its"),
        ({"kernel": "rbf"}, "kernel='rbf' needs the data in memory"),
        ({"method": "momentum", "C": 1.0}, "C=1.0 with method='momentum' needs the data in memory"),
        ({"method": "momentum", "loss": "logistic"}, "loss='logistic'"),
        ({"block_size": "many"}, "block_size='many'"),
        ({"block_size": 0}, "block_size=0"),
    ],
)
def test_what_streams_cannot_do_is_refused(options, message):
    data = make_separable(50, 3, random_state=0)
    with pytest.raises(InputError, match=message):
        max_margin(data.X, data.y, **({"block_size": 1000} | options))


def test_sizes_are_read_as_people_write_them():
    assert parse_size("1GB") == 10**9
    assert parse_size("1.5 MiB") == 3 * 2**19
    assert parse_size(4096) == 4096


@pytest.mark.slow
def test_importing_loads_no_optional_package():
    import subprocess
    import sys

    names = ("dask", "distributed", "torch", "matplotlib", "momentron.streams.parquet")
    code = f"import momentron, sys; print([m for m in {names} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
