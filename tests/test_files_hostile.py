"""Files that somebody planted, damaged or holds: an error of one line or the right answer."""

import gc
import hashlib
import io
import os
import stat
import struct
import subprocess
import sys
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from momentron import InputError, max_margin
from momentron.datasets import make_separable
from momentron.solvers.checkpoint import TITLE
from momentron.streams import open_file
from momentron.streams.source import ENTRY

posix = pytest.mark.skipif(os.name == "nt", reason="links, pipes and limits of POSIX")
TEXT = "1 1:2.0 2:1.0\n-1 1:-2.0 2:-1.5\n1 1:3.0\n-1 2:-4.0\n"
TRUTH = max_margin([[2.0, 1.0], [-2.0, -1.5], [3.0, 0.0], [0.0, -4.0]], [1, -1, 1, -1], tol=1e-9)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of the user's own that no other test has seen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "data" / "rows.svm"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def data():
    return make_separable(200, 4, margin=0.2, fit_intercept=True, random_state=4)


def run(code, *args, **options):
    """A script in a process of its own, so that a crash is seen as one."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


FIT = """
import sys, warnings
warnings.simplefilter("ignore")
from momentron import InputError, max_margin
for path in sys.argv[1:]:
    try:
        result = max_margin(path, tol=1e-9, block_size="16MiB")
    except InputError as error:
        print("refused", error)
    else:
        print(result.lower, result.upper)
"""


def answers(*paths):
    """What fits say of the files, in another process: the interval, or None for a refusal."""
    done = run(FIT, *paths)
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    return [None if s.startswith("refused") else tuple(map(float, s.split())) for s in lines]


def answer(path):
    """The same for one file, in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = max_margin(path, tol=1e-9, block_size="16MiB")
    gc.collect()  # with the source goes its private folder
    return found.lower, found.upper


def is_true(found):
    return found is not None and found[0] <= TRUTH.upper and TRUTH.lower <= found[1]


# --- conversions of svmlight ---------------------------------------------------------------------


def test_a_text_that_changes_at_equal_size_and_time_is_read_again(text):
    open_file(text)
    stamp = text.stat().st_mtime_ns
    text.write_text(TEXT.replace("3.0", "9.0"))
    os.utime(text, ns=(stamp, stamp))
    X, _ = open_file(text).block(0)
    assert X.toarray().max() == 9.0


def test_a_folder_of_an_earlier_version_is_neither_read_nor_removed(text):
    folder = text.with_name(text.name + ".momentron-cache")
    folder.mkdir()
    (folder / "values.bin").write_bytes(np.full(6, 9.0).tobytes())
    assert is_true(answer(text))
    assert [p.name for p in folder.iterdir()] == ["values.bin"]
    assert sorted(p.name for p in text.parent.iterdir()) == ["rows.svm", folder.name]


def test_a_part_that_changes_while_in_use_is_an_error_not_a_crash(text):
    source = open_file(text)
    part = Path(source.file)
    entries = np.fromfile(part, ENTRY)
    entries["index"] = 2**30
    part.write_bytes(entries.tobytes())
    with pytest.raises(InputError, match="changed while it was in use"):
        source.block(0)
    part.write_bytes(b"")
    with pytest.raises(InputError, match="changed while it was in use"):
        source.block(0)


@pytest.mark.adversarial
def test_two_processes_convert_at_once(text):
    command = [sys.executable, "-W", "error", "-c", FIT.replace('"ignore"', '"error"'), str(text)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert is_true(tuple(map(float, out.split())))
    assert [p.name for p in text.parent.iterdir()] == ["rows.svm"]


@posix
def test_the_file_of_a_conversion_is_private_and_goes_with_its_source(text):
    source = open_file(text)
    assert source.block(0)[0].shape == (4, 2)
    file = Path(source.file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    del source
    gc.collect()
    assert not file.exists()
    assert [p.name for p in text.parent.iterdir()] == ["rows.svm"]


# --- checkpoints ---------------------------------------------------------------------------------

OPTIONS = {"method": "momentum", "max_iter": 40, "tol": 0.0}


def written(data, path, **more):
    max_margin(data.X, data.y, checkpoint=path, **(OPTIONS | more))
    return path.read_bytes()


@posix
def test_a_planted_part_file_is_not_followed(data, tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / "state.part").symlink_to(precious)
    written(data, tmp_path / "state")
    assert precious.read_bytes() == b"mine"


@posix
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link", "dangling"])
def test_a_checkpoint_is_a_regular_file(data, tmp_path, kind):
    path, other = tmp_path / "state", tmp_path / "other"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/null")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(other)
        if kind == "link":
            written(data, other)
    before = other.read_bytes() if other.exists() else None
    ended = []

    def fit():
        try:
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)
        except InputError as error:
            ended.append(str(error))

    thread = threading.Thread(target=fit, daemon=True)  # a pipe may block for ever
    thread.start()
    thread.join(20.0)
    assert len(ended) == 1
    assert "link" in ended[0] or "not a regular file" in ended[0]
    assert (other.read_bytes() if other.exists() else None) == before


@posix
def test_a_second_writer_is_refused(data, tmp_path):
    path, started, release = tmp_path / "state", threading.Event(), threading.Event()

    def wait(row):
        started.set()
        release.wait(30.0)

    first = threading.Thread(
        target=lambda: max_margin(data.X, data.y, checkpoint=path, callback=wait, **OPTIONS)
    )
    first.start()
    assert started.wait(30.0)
    try:
        with pytest.raises(InputError, match="another run is writing"):
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)
    finally:
        release.set()
        first.join()
    written(data, path)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["state"]


HOLD = """
import sys, time
from momentron import max_margin
def wait(row):
    print("ready", flush=True)
    time.sleep(60.0)
max_margin([[1.0], [-1.0]], [1, -1], method="momentum", checkpoint=sys.argv[1], callback=wait,
           tol=0.0, max_iter=5)
"""


@pytest.mark.adversarial
@posix
def test_the_lock_of_a_dead_process_is_free(tmp_path):
    path = tmp_path / "state"
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    options = {"method": "momentum", "tol": 0.0, "max_iter": 5, "checkpoint": path}
    with pytest.raises(InputError, match="another run is writing"):
        max_margin([[1.0], [-1.0]], [1, -1], **options)
    process.kill()
    process.communicate()
    assert max_margin([[1.0], [-1.0]], [1, -1], **options).upper >= 1.0


def test_every_damaged_byte_is_seen(data, tmp_path):
    path = tmp_path / "state"
    good = written(data, path)
    rng = np.random.default_rng(0)
    for _ in range(60):
        place, bit = int(rng.integers(len(good))), 1 << int(rng.integers(8))
        path.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
        with pytest.raises(InputError, match=r"damaged|not a checkpoint"):
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)
    for length in rng.integers(0, len(good), 20):
        path.write_bytes(good[:length])
        with pytest.raises(InputError, match=r"damaged|not a checkpoint"):
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)
    path.write_bytes(good + b"\0")
    with pytest.raises(InputError, match="damaged"):
        max_margin(data.X, data.y, checkpoint=path, **OPTIONS)


def forged(members):
    """A checkpoint with these files in its archive, and the hash that belongs to it."""
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w") as archive:
        warnings.simplefilter("ignore")  # two files of one name
        for name, content in members:
            archive.writestr(name, content)
    body = packed.getvalue()
    return TITLE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def member(kind, shape, payload=b""):
    """An array as `.npz` has it, with whatever its header says."""
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


def test_headers_that_promise_too_much_are_refused(data, tmp_path):
    path = tmp_path / "state"
    members = [
        member("<f8", f"({10**15},)"),
        member("<f8", f"({2**62}, {2**62})"),
        member("<f8", "(" + "0, " * 100 + ")"),
        member("<f8", f"(0, {2**62}, {2**62})"),
        member("|O", "(1,)", b"\x80\x04N."),
        member([("a", "<f8"), ("b", "<f8")], "(1,)", bytes(16)),
        member("<f3", "(1,)"),
        member("<f8", "(-1,)"),
        member("<f8", "(1.5,)"),
        member("<f8", "True"),
        member("<U1", "(1,)", b"\xff\xff\xff\xff"),
        member("|b1", "(1,)", b"\x07"),
        member("<f8", "(((((("),
        b"no array",
    ]
    words = ("words.npy", member("|u1", "(2,)", b"{}"))
    for content in members:
        path.write_bytes(forged([words, ("state.w.npy", content)]))
        with pytest.raises(InputError, match="damaged"):
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)
    twice = ("state.w.npy", member("<f8", "(0,)"))
    lying = ("words.npy", member("|u1", "(11,)", b'{"data": 3}'))
    for wrong in ([words, twice, twice], [lying], [], [("words.npy", member("|u1", "(1,)", b"["))]):
        path.write_bytes(forged(wrong))
        with pytest.raises(InputError, match="damaged"):
            max_margin(data.X, data.y, checkpoint=path, **OPTIONS)


def test_a_compressed_checkpoint_is_not_unpacked(data, tmp_path):
    """A file of some kilobytes may stand for gigabytes."""
    packed = io.BytesIO()
    np.savez_compressed(packed, words=np.zeros(10**7))
    body = packed.getvalue()
    path = tmp_path / "state"
    path.write_bytes(TITLE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(InputError, match="damaged"):
        max_margin(data.X, data.y, checkpoint=path, **OPTIONS)


@posix
def test_a_checkpoint_larger_than_memory_is_refused_before_it_is_read(data, tmp_path):
    path = tmp_path / "state"
    size = 2**42
    path.write_bytes(forged([("state.w.npy", member("<f8", f"({size // 8},)"))]))
    os.truncate(path, path.stat().st_size + size)  # a hole, which takes no room on disk
    with pytest.raises(InputError, match="bytes, but only"):
        max_margin(data.X, data.y, checkpoint=path, **OPTIONS)


def test_every_row_is_part_of_the_identity(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    path = tmp_path / "state"
    max_margin(X, y, checkpoint=path, **OPTIONS)
    X[1234, 1:] *= -1.0  # between the rows that a sample would look at; of the same length
    with pytest.raises(InputError, match="its data is"):
        max_margin(X, y, checkpoint=path, **OPTIONS)


KERNEL = """
import sys, numpy as np
from momentron import max_margin
pad = [object() for _ in range(int(sys.argv[2]))]
scale = float(sys.argv[3])
def make(s):
    def kernel(A, B):
        return np.exp(-s * ((A[:, None] - B[None]) ** 2).sum(-1))
    return kernel
X = np.random.default_rng(0).standard_normal((30, 2))
r = max_margin(X, np.arange(30) % 2, kernel=make(scale), method="momentum", max_iter=20, tol=0.0,
               checkpoint=sys.argv[1])
print(r.n_iter)
"""


@pytest.mark.adversarial
def test_a_kernel_that_is_a_function_goes_on_in_another_process(tmp_path):
    first = run(KERNEL, tmp_path / "state", 0, 1.0)
    assert first.returncode == 0, first.stderr
    again = run(KERNEL, tmp_path / "state", 1000, 1.0)
    assert again.returncode == 0, again.stderr
    other = run(KERNEL, tmp_path / "state", 0, 2.0)
    assert other.returncode == 1
    assert "its kernel is" in other.stderr


# --- disks that are full -------------------------------------------------------------------------

LIMITED = """
import resource, signal, sys, warnings
import numpy as np
from momentron import max_margin
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
X = np.random.default_rng(0).standard_normal((3000, 3))
y = np.where(X[:, 0] > 0.0, 1, -1)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # as if the disk had so much room
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = max_margin(X, y, method="momentum", max_iter=30, checkpoint=sys.argv[1])
print(result.upper, [str(w.message) for w in caught])
"""


@pytest.mark.adversarial
@posix
def test_a_full_disk_does_not_lose_the_answer(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    done = run(LIMITED, folder / "state")
    assert done.returncode == 0, done.stderr
    assert "could not be written" in done.stdout
    assert list(folder.iterdir()) == []
