"""The command line on data in blocks, and the model of how far it scales."""

import contextlib
import json
import math
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import command_line
import numpy as np
import pytest

from benchmarks.out_of_core import Case, write_case
from benchmarks.scaling_model import Drawn, Fit, Model, fitted, measure_fit, simulate
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.streams import BlockData, open_file


@pytest.fixture
def files(tmp_path):
    data = make_separable(5000, 8, margin=0.2, fit_intercept=True, random_state=0)
    np.save(tmp_path / "rows.npy", data.X)
    np.save(tmp_path / "labels.npy", data.y)
    return tmp_path


def run(capsys, *arguments):
    ended = command_line.run(capsys, "fit", *arguments)
    return ended.code, ended


def test_fit_out_of_core(files, capsys):
    options = ("--out-of-core", "--memory", "4MB", "--target", files / "labels.npy")
    code, shown = run(capsys, files / "rows.npy", *options, "--save", files / "model.npz")
    assert code == 0
    assert "MB/s" in shown.out
    assert "passes" in shown.out
    assert "certified optimal" in shown.out
    with np.load(files / "model.npz") as model:
        assert model["lower"] <= 0.2 <= model["upper"]
        assert model["dual"].shape == model["support"].shape
    code, shown = run(capsys, files / "rows.npy", *options, "--json")
    found = json.loads(shown.out)
    assert found["rows"] == 5000
    assert found["bytes_read"] >= found["passes"] * 5000 * 8 * 8
    assert found["training_error"] == 0.0


def test_checkpoint_on_the_command_line(files, capsys):
    for where in (("--out-of-core", "--target", files / "labels.npy"), ()):
        data = files / "rows.npy"
        if not where:
            rows = np.column_stack([np.load(data), np.load(files / "labels.npy")])
            np.save(files / "table.npy", rows)
            data = files / "table.npy"
        state = files / f"state{len(where)}"
        options = (*where, "--method", "momentum", "--json", "--tol", "0")
        code, _ = run(capsys, data, *options, "--max-iter", 5, "--checkpoint", state)
        assert code == 1
        assert state.exists()
        _, second = run(capsys, data, *options, "--max-iter", 9, "--checkpoint", state)
        _, straight = run(capsys, data, *options, "--max-iter", 9)
        assert json.loads(second.out)["iterations"] == 9
        assert json.loads(second.out)["lower"] == json.loads(straight.out)["lower"]
        if not where:  # in blocks the weights are averaged anew
            assert json.loads(second.out)["upper"] == json.loads(straight.out)["upper"]
        state.write_bytes(b"something else")
        code, shown = run(capsys, data, *options, "--checkpoint", state)
        assert code == 2
        assert "not a checkpoint" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out-of-core"], "need DATA"),
        (["no.npy", "--out-of-core"], "does not exist"),
        (["rows.npy", "--out-of-core", "--memory", "plenty"], "memory='plenty'"),
        (["rows.npy", "--out-of-core", "--C", "1"], "hard margin"),
        (["rows.npy", "--out-of-core", "--method", "adaptive"], "needs the data in memory"),
        (["rows.npy", "--out-of-core", "--classes", "1", "2"], "take no --classes"),
    ],
)
def test_bad_options(files, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    code, shown = run(capsys, *arguments)
    assert code == 2
    assert message in shown.err


def test_memory_sets_the_block_size():
    assert BlockData("x.npy", None, "1GB", None).block_size == 25_000_000


def test_benchmark_case_has_its_margin(tmp_path):
    from momentron import max_margin

    case = Case.named(tmp_path, "small")
    write_case(case, 20_000, 160, separable=True)
    result = max_margin(case.rows, str(case.labels), tol=1e-6)
    assert result.lower == pytest.approx(0.1, rel=1e-5)
    write_case(case, 20_000, 160, separable=False)
    twin = max_margin(case.rows, str(case.labels), tol=1e-4)
    assert twin.status.name == "NOT_SEPARABLE"
    assert twin.upper < 1e-11


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own count")
def test_benchmark_reports_memory_and_throughput(tmp_path):
    case = Case.named(tmp_path, "small")
    write_case(case, 5_000, 160, separable=True)
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--worker"]
    found = subprocess.run(
        [*command, case.rows, case.labels], check=True, capture_output=True, text=True
    )
    report = json.loads(found.stdout.splitlines()[-1])
    assert report["status"] == "OPTIMAL"
    assert report["gap"] <= 1e-4
    assert report["passes"] <= 25
    assert 0.0 <= report["memory beyond imports, MB"] < 300.0


def test_drawn_rows_are_the_same_every_time_and_have_their_margin():
    fit = measure_fit(4000, 8)
    assert fit.gap <= 1e-4
    source = Drawn(4000, 8, block=1000)
    X, y = source.block(2)
    again, labels = source.block(2)
    assert np.array_equal(X, again)
    assert np.array_equal(y, labels)
    margins = y * (X @ source.made.coef + source.made.intercept)
    assert margins.min() == pytest.approx(0.1, rel=1e-5)


def test_model_recovers_its_coefficients():
    truth = Model(rate=1e9, linear=1e-3, cubic=1e-8, level=2.0, slope=0.5)
    sizes = [(10**4, 50), (10**5, 50), (10**6, 100), (10**5, 200), (10**7, 400)]
    fits = []
    for n, d in sizes:
        passes = truth.passes(n, d)
        rounds = passes - 1.0
        fits.append(Fit(n, d, passes, rounds, 0.0, truth.solving(n, d), 0.0))
    found = fitted(fits, 1e9)
    for name in ("linear", "cubic", "level", "slope"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=1e-6)
    one, many = truth.seconds(10**9, 1000, 1), truth.seconds(10**9, 1000, 16)
    assert one / 17.0 < many < one
    # the simulation with workers that differ little brackets the model
    simulated = [simulate(truth, 10**9, 1000, 16, seed) for seed in range(5)]
    assert many * 0.8 < np.mean(simulated) < many * 1.5
    assert math.isclose(simulated[0], simulate(truth, 10**9, 1000, 16, 0))


def test_file_sources_pickle(files):
    import pickle

    source = open_file(files / "rows.npy", str(files / "labels.npy"), 50_000)
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(source.block(1)[0], again.block(1)[0])
    with pytest.raises(InputError, match="neither"):
        open_file(files / "rows.npy", "kind")


def serve(answer):
    """A server that is no scheduler: says something to all, or nothing."""
    server = socket.create_server(("127.0.0.1", 0))

    def work():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=reply, args=(connection,), daemon=True).start()

    def reply(connection):
        with connection, contextlib.suppress(OSError):
            if answer is None or answer.startswith(b"HTTP"):  # which speaks when spoken to
                connection.recv(10)
            if answer is None:
                time.sleep(30.0)
            else:
                connection.sendall(answer)

    threading.Thread(target=work, daemon=True).start()
    return server


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"", None],
    ids=["web", "shell", "closed", "silent"],
)
def test_what_is_no_scheduler_gives_one_line(files, capsys, answer):
    pytest.importorskip("distributed")
    with serve(answer) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        begin = time.perf_counter()
        code, shown = run(capsys, files / "rows.npy", "--dask", address)
    assert time.perf_counter() - begin < 15.0
    assert code == 2
    assert len(shown.err.strip().splitlines()) == 1
    assert "scheduler" in shown.err


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense", "x://y", "", "tcp://127.0.0.1:99999999"],
)
def test_addresses_where_nothing_is(files, capsys, address):
    pytest.importorskip("distributed")
    code, shown = run(capsys, files / "rows.npy", "--dask", address)
    assert code == 2
    assert len(shown.err.strip().splitlines()) == 1
