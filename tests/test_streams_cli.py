"""The command line on data in blocks, and the model of how far it scales."""

import contextlib
import json
import re
import socket
import threading
import time

import command_line
import numpy as np
import pytest

from momentron import max_margin
from momentron.datasets import make_separable
from momentron.errors import InputError
from momentron.streams import ArraySource, BlockData, as_stream, open_file
from momentron.views import progress


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


@pytest.mark.parametrize("penalty", ["hinge", "squared_hinge"])
def test_soft_margins_out_of_core(files, capsys, penalty):
    found = []
    for where in (("--out-of-core", "--memory", "2MB"), ("--in-memory",)):
        options = ("--target", files / "labels.npy", "-C", "0.01", "--penalty", penalty, "--json")
        code, shown = run(
            capsys, files / "rows.npy", *where, *options, "--class-weight", "balanced"
        )
        assert code == 0
        found.append(json.loads(shown.out))
    blocks, memory = found
    assert blocks["is_soft"] and "bytes_read" in blocks
    assert blocks["lower"] <= memory["upper"] and memory["lower"] <= blocks["upper"]


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
        (["rows.npy", "--out-of-core", "--C", "1", "--method", "momentum"], "C=1.0 with method"),
        (["rows.npy", "--out-of-core", "--method", "adaptive"], "needs the data in memory"),
        (["rows.npy", "--out-of-core", "--classes", "1", "2"], "exclude --classes"),
    ],
)
def test_bad_options(files, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    code, shown = run(capsys, *arguments)
    assert code == 2
    assert message in shown.err


def test_progress_has_the_share_of_the_pass_and_the_time_left_in_80_columns(capsys, monkeypatch):
    class Slow(ArraySource):
        def read(self, rows):
            time.sleep(0.05)
            return super().read(rows)

    monkeypatch.setattr(progress, "SILENCE", 0.02)
    data = make_separable(100, 4, margin=0.2, random_state=0)
    max_margin(Slow(data.X, data.y, block_size=800), None, verbose=1)
    shown = capsys.readouterr().out
    assert re.search(r"working: 0 s, pass 1: \d+%, \d+ s left, [\d.e-]+ GB at \d+ MB/s\n", shown)
    assert max(map(len, shown.splitlines())) < 80
    stream = as_stream(data.X, data.y)
    stream.passes, stream.share, stream._begun, stream._clock = 120, 0.05, 0.0, 3000.0
    stream.nbytes, stream.seconds = 9_876 * 10**9, 3000.0
    assert stream.activity() == "pass 121: 5%, 57000 s left, 9876 GB at 3292 MB/s"
    stream.share = 0.0  # between two passes
    assert stream.activity() == "120 passes, 9876 GB at 3292 MB/s"


def test_memory_sets_the_block_size():
    assert BlockData("x.npy", None, "1GB", None).block_size == 25_000_000


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


@pytest.mark.clock
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
