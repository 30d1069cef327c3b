"""Dask collections: the same answers on threads and on a cluster, and when workers die."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from makers import make_nonseparable

from momentron import InputError, MaxMarginClassifier, Status, max_margin
from momentron.datasets import make_separable

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from momentron.streams import dask as module  # noqa: E402
from momentron.streams.dask import ClusterError, DaskStream  # noqa: E402

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def data():
    return make_separable(3000, 6, margin=0.1, fit_intercept=True, random_state=0)


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    centres = 4.0 * np.linalg.qr(rng.standard_normal((6, 6)))[0][:4]
    y = rng.integers(0, 4, 300)
    return centres[y] + 0.3 * rng.standard_normal((300, 6)), y


def agrees(there, here, rel=1e-9):
    assert there.status is here.status
    assert there.lower == pytest.approx(here.lower, rel=rel)
    assert there.upper == pytest.approx(here.upper, rel=rel)


# --- on threads --------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("rows", [600, 3000])
def test_arrays_on_threads(data, many, fit_intercept, rows):
    for X, y in ((data.X, data.y), many):
        lazy_X, lazy_y = da.from_array(X, chunks=(rows, 3)), da.from_array(y, chunks=77)
        options = {"fit_intercept": fit_intercept, "tol": 1e-11, "max_iter": 40}
        agrees(max_margin(lazy_X, lazy_y, **options), max_margin(X, y, **options))
        options |= {"method": "momentum", "tol": 0.0, "max_iter": 15}
        agrees(max_margin(lazy_X, y, **options), max_margin(X, y, **options))


def test_data_frames(data):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(data.X, columns=list("abcdef"))
    frame["kind"] = np.where(data.y > 0, "yes", "no")
    lazy = dd.from_pandas(frame, npartitions=5)
    lazy = lazy[lazy["a"] < 1e9]  # sizes are unknown from here on
    here = max_margin(data.X, data.y, tol=1e-11)
    there = max_margin(lazy, "kind", tol=1e-11)
    agrees(there, here)
    assert there.classes.tolist() == ["no", "yes"]
    model = MaxMarginClassifier(C=np.inf, tol=1e-9).fit(lazy[list("abcdef")], lazy["kind"])
    assert (model.predict(frame[list("abcdef")]) == frame["kind"]).all()
    assert (model.predict(lazy[list("abcdef")]).compute() == frame["kind"]).all()


def test_predictions_are_lazy(data, many):
    for X, y in ((data.X, data.y), many):
        lazy = da.from_array(X, chunks=(97, 2))
        model = MaxMarginClassifier(C=np.inf, tol=1e-8).fit(lazy, y)
        in_memory = MaxMarginClassifier(C=np.inf, tol=1e-8).fit(X, y)
        assert np.allclose(model.coef_, in_memory.coef_, atol=1e-6)
        assert np.array_equal(np.sort(model.support_), model.support_)
        assert model.dual_coef_.shape == (model.coef_.shape[0], model.support_.size)
        assert np.allclose(model.dual_coef_ @ X[model.support_], model.coef_, atol=1e-4)
        decision, labels = model.decision_function(lazy), model.predict(lazy)
        assert isinstance(decision, da.Array)
        assert isinstance(labels, da.Array)
        assert decision.shape == model.decision_function(X).shape
        assert np.allclose(decision.compute(), model.decision_function(X))
        assert np.array_equal(labels.compute(), y)


def test_what_nothing_separates_still_gets_a_classifier():
    data = make_nonseparable(2000, 5, fit_intercept=True, random_state=1)
    with pytest.warns(UserWarning, match="no classifier separates"):
        model = MaxMarginClassifier(C=np.inf).fit(da.from_array(data.X, chunks=(300, -1)), data.y)
    assert model.status_ is Status.NOT_SEPARABLE
    assert model.margin_ < 0.0
    assert model.score(data.X, data.y) > 0.9


def test_bad_collections_are_refused(data):
    X = da.from_array(data.X, chunks=(500, -1))
    with pytest.raises(InputError, match="y is None"):
        max_margin(X)
    with pytest.raises(InputError, match="they must agree"):
        max_margin(X, data.y[:-1])
    with pytest.raises(InputError, match="2, a row for each"):
        max_margin(X[:, 0], data.y)
    with pytest.raises(InputError, match="kernel"):
        max_margin(X, data.y, kernel="rbf")
    bad = X.map_blocks(lambda block: np.where(block > block.max() - 1e-9, np.nan, block))
    with pytest.raises(InputError, match="NaN"):
        max_margin(bad, data.y)


# --- on a cluster --------------------------------------------------------------------------------


class Cluster:
    """A scheduler here, and workers in processes of their own that nobody starts again."""

    def __init__(self):
        self.local = distributed.LocalCluster(
            n_workers=0, dashboard_address=":0", protocol="tcp://", host="127.0.0.1"
        )
        self.client = distributed.Client(self.local)
        self.processes = []

    def require(self, n_workers):
        command = [sys.executable, "-m", "distributed.cli.dask_worker"]
        command += [self.local.scheduler_address, "--no-nanny", "--nthreads", "1"]
        command += ["--no-dashboard", "--memory-limit", "0"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes = [process for process in self.processes if process.poll() is None]
        while len(self.processes) < n_workers:
            self.processes.append(subprocess.Popen(command, **quiet))
        self.client.wait_for_workers(n_workers, timeout=60)

    def kill(self, number):
        os.kill(self.processes[number].pid, signal.SIGKILL)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.client.close()
        self.local.close()


@pytest.fixture(scope="module")
def shared_cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.fixture
def cluster(shared_cluster):
    shared_cluster.require(2)
    return shared_cluster


def persisted(cluster, X, y, rows):
    lazy = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)
    X, y = cluster.client.persist(list(lazy))
    distributed.wait([X, y])
    return X, y


def test_cluster_agrees_and_survives_one_worker(cluster, data, many):
    for X, y in ((data.X, data.y), many):
        lazy = persisted(cluster, X, y, len(y) // 6)
        agrees(max_margin(*lazy, tol=1e-11), max_margin(X, y, tol=1e-11))
    options = {"method": "momentum", "tol": 0.0, "max_iter": 12}
    lazy = persisted(cluster, data.X, data.y, 500)
    here = max_margin(data.X, data.y, **options)
    agrees(max_margin(*lazy, **options), here)

    def kill_one(row):
        if row.iteration == 4:
            cluster.kill(0)

    agrees(max_margin(*lazy, **options, callback=kill_one), here)
    assert len(cluster.client.nthreads()) == 1


def test_no_worker_left_is_an_error_soon(cluster, data, monkeypatch):
    assert module.PATIENCE <= 25.0  # with the last second of a wait, well within a minute
    monkeypatch.setattr(module, "PATIENCE", 3.0)
    lazy = persisted(cluster, data.X, data.y, 500)

    def kill_all(row):
        if row.iteration == 3:
            cluster.kill(0)
            cluster.kill(1)

    begin = time.perf_counter()
    with pytest.raises(ClusterError, match="no worker"):
        max_margin(*lazy, method="momentum", tol=0.0, callback=kill_all)
    assert time.perf_counter() - begin < 40.0


@pytest.mark.skipif(not Path("/proc/net/dev").exists(), reason="reads Linux's own count")
def test_partitions_stay_and_little_travels(cluster):
    from tests.counters import sent_over_loopback

    rng = np.random.default_rng(0)
    n, d, k, workers = 24, 30_000, 3, 2
    centres = rng.standard_normal((k, d))
    y = np.arange(n) % k
    X = centres[y] + 0.1 * rng.standard_normal((n, d))
    lazy = persisted(cluster, X, y, 4)
    held = cluster.client.who_has(lazy[0])
    counts = []

    def count(row):
        counts.append(sent_over_loopback())

    result = max_margin(
        *lazy, method="momentum", fit_intercept=False, tol=0.0, max_iter=8, callback=count
    )
    assert result.n_iter == 8
    assert cluster.client.who_has(lazy[0]) == held  # no partition was copied elsewhere
    # others on the machine may use the loopback too, so the least is what is ours
    assert min(np.diff(counts)) < 2 * workers * d * k * 8


def test_persisted_frames_stay_too(cluster, data):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(data.X, columns=list("abcdef")).assign(kind=data.y)
    lazy = cluster.client.persist(dd.from_pandas(frame, npartitions=4))
    distributed.wait(lazy)
    held = cluster.client.who_has(lazy)
    stream = DaskStream.from_collections(lazy[list("abcdef")], lazy["kind"])
    assert [tuple(places) for places in stream._holders().values()] == [
        held[key] for key in sorted(held)
    ]
    agrees(max_margin(lazy, "kind", tol=1e-11), max_margin(data.X, data.y, tol=1e-11))
    assert cluster.client.who_has(lazy) == held


def test_source_read_by_workers(cluster, data, tmp_path):
    from momentron.streams import open_file

    np.save(tmp_path / "rows.npy", data.X)
    np.save(tmp_path / "y.npy", data.y)
    source = open_file(tmp_path / "rows.npy", str(tmp_path / "y.npy"), 20_000)
    stream = DaskStream.from_source(source, cluster.client)
    held = stream._holders()
    assert all(len(places) == 1 for places in held.values())
    there = max_margin(stream, tol=1e-11, max_iter=40)
    assert stream._holders() == held  # read once, by the worker that keeps it
    agrees(there, max_margin(data.X, data.y, tol=1e-11))


def test_command_line_on_a_cluster(cluster, data, tmp_path, capsys):
    np.save(tmp_path / "table.npy", np.column_stack([data.X, data.y]))
    address = cluster.local.scheduler_address
    ended = run(capsys, "fit", tmp_path / "table.npy", "--dask", address, "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert found["lower"] <= 0.1 <= found["upper"] * (1 + 1e-12)
