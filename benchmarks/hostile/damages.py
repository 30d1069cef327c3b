"""Ways to damage a file, or to plant another in its place."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from momentron.solvers.checkpoint import TITLE, read_arrays, write_arrays

Damage = Callable[[np.random.Generator, Path], None]


def flip_bits(rng: np.random.Generator, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 9))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def overwrite(rng: np.random.Generator, path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content)))
    length = int(rng.integers(1, 64))
    fill = [bytes(length), b"\xff" * length, rng.bytes(length)][int(rng.integers(3))]
    content[start : start + length] = fill
    path.write_bytes(content)


def truncate(rng: np.random.Generator, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(rng.integers(len(content)))])


def append(rng: np.random.Generator, path: Path) -> None:
    content = path.read_bytes()
    more = content if rng.random() < 0.5 else rng.bytes(int(rng.integers(1, 200)))
    path.write_bytes(content + more)


def junk(rng: np.random.Generator, path: Path) -> None:
    path.write_bytes(rng.bytes(int(rng.integers(0, 400))))


def missing(rng: np.random.Generator, path: Path) -> None:
    path.unlink()


def folder(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def nothing(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


def loop(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def dangling(rng: np.random.Generator, path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def sibling(rng: np.random.Generator, path: Path) -> None:
    """Another of the files next to it, under this name."""
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p != path]
    if others:
        path.write_bytes(others[int(rng.integers(len(others)))].read_bytes())


def _lying(rng: np.random.Generator, value: np.ndarray) -> np.ndarray:
    """An array of another content, type, shape or size."""
    value = np.array(value)
    numeric = value.dtype.kind in "fiu" and value.size > 0
    lies: list[Callable[[], np.ndarray]] = [
        lambda: np.zeros_like(value),
        lambda: np.concatenate([value.ravel(), value.ravel()]),
        lambda: value.ravel()[: max(0, value.size - 1)],
        lambda: value[None],
        lambda: np.empty(0),
    ]
    if numeric:
        lies += [
            lambda: (value * rng.choice([-1.0, 1e-9, 1e9, 0.5])).astype(value.dtype),
            lambda: value.astype(np.float64) * np.nan,
            lambda: value.astype(np.float64) + np.inf,
            lambda: value.astype(np.int64) + int(rng.choice([-(2**40), 1, 2**40, 2**62])),
            lambda: rng.permutation(value.ravel()).reshape(value.shape),
            lambda: -np.abs(value),
            lambda: value.astype(np.complex128),
            lambda: value.astype(np.float32),
        ]
    with np.errstate(all="ignore"):
        return lies[int(rng.integers(len(lies)))]()


def huge_header(rng: np.random.Generator, content: bytes) -> bytes:
    """A .npy file that declares more than any memory holds."""
    start = content.index(b"'shape': (") + len(b"'shape': (")
    end = content.index(b")", start)
    shape = [b"1000000000000, 4", b"999999999999,", b"-5,", b"4611686018427387904, 4"]
    header = content[:start] + shape[int(rng.integers(len(shape)))] + content[end:]
    stop = header.index(b"\n")
    filled = header[:10] + header[10:stop].rstrip().ljust(118 - 1) + b"\n"
    size = (len(filled) - 10).to_bytes(2, "little")
    return filled[:8] + size + filled[10:] + header[stop + 1 :]


def lying_array(rng: np.random.Generator, path: Path) -> None:
    """A .npy file of another content, or with a header that lies."""
    if rng.random() < 0.4:
        path.write_bytes(huge_header(rng, path.read_bytes()))
        return
    np.save(path.with_suffix(".npy"), _lying(rng, np.load(path)))


def lying_archive(rng: np.random.Generator, path: Path) -> None:
    """An .npz file with some arrays changed."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **_changed(rng, arrays))


def _changed(rng: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
    for _ in range(int(rng.integers(1, 4))):
        name = str(rng.choice(sorted(arrays)))
        if rng.random() < 0.1 and len(arrays) > 1:
            del arrays[name]
        else:
            arrays[name] = _lying(rng, arrays[name])
    return arrays


def lying_checkpoint(rng: np.random.Generator, path: Path) -> None:
    """A checkpoint whose arrays lie, with the hash that belongs to them."""
    with path.open("rb") as file:
        words, arrays = read_arrays(file, TITLE)
    while True:
        try:
            with path.open("wb") as file:
                write_arrays(file, TITLE, words, _changed(rng, dict(arrays)))
            return
        except TypeError:  # a type that no such file can hold
            continue


def lying_numbers(rng: np.random.Generator, path: Path) -> None:
    """Raw numbers, changed as numbers: signs, sizes, places."""
    dtype = np.int32 if "ind" in path.name else np.float64
    content = path.read_bytes()
    values = np.frombuffer(content[: len(content) // 8 * 8], dtype)
    changed = _lying(rng, values)
    path.write_bytes(changed.astype(dtype, copy=False).tobytes())


def lying_json(rng: np.random.Generator, path: Path) -> None:
    """JSON with a value changed somewhere."""
    first, line_end, rest = path.read_text().partition("\n")  # a signature may follow
    path.write_text(json.dumps(_edited(rng, json.loads(first))) + line_end + rest)


def _edited(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.95:
        name = str(rng.choice(sorted(value)))
        if rng.random() < 0.05:
            del value[name]
        else:
            value[name] = _edited(rng, value[name])
        return value
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        value[place] = _edited(rng, value[place])
        return value
    others: list[Any] = [
        0,
        1,
        -1,
        2**70,
        1e400,
        None,
        True,
        [],
        {},
        "",
        "0x1p+0",
        "0x0",
        "-0x1",
        "separable",
    ]
    others += ["overlapping", "quasi-separable", "0x" + "f" * 40_000, "0x1p+99999", "nan", "inf"]
    others += [[[[]]], {"a": 1}, 3.5, "0x1.8p-1", [0, 1, 2], ["0x1", "0x1"]]
    return others[int(rng.integers(len(others)))]


def deep_json(rng: np.random.Generator, path: Path) -> None:
    path.write_text("[" * 200_000)


def hostile_text(rng: np.random.Generator, path: Path) -> None:
    """Lines that a reader of tables or svmlight should not believe."""
    lines = path.read_text().splitlines()
    bad = [
        "1 99999999:1",
        "1 2147483647:1",
        "1 2147483648:1",
        "1 9223372036854775807:1",
        "1 -1:1",
        "1 1:nan",
        "1 1:1e999",
        "1 1:1 1:2",
        "nan 1:1",
        "1e999,1,1,1,1",
        "1,2,3",
        "," * 5000,
        '"' * 999,
        "\x00" * 50,
        "[/a],1,1,1,1",
        "\x1b[31m,1,1,1,1",
        "1" * 5000 + ",1,1,1,1",
        "9007199254740993,1,1,1,0",
    ]
    place = int(rng.integers(len(lines) + 1))
    lines.insert(place, bad[int(rng.integers(len(bad)))])
    path.write_text("\n".join(lines) + "\n")


ANY: tuple[Damage, ...] = (
    flip_bits,
    flip_bits,
    flip_bits,
    overwrite,
    overwrite,
    truncate,
    append,
    junk,
    missing,
    folder,
    fifo,
    endless,
    nothing,
    loop,
    dangling,
    sibling,
)
BY_SUFFIX: dict[str, tuple[Damage, ...]] = {
    ".npy": (lying_array,),
    ".npz": (lying_archive,),
    ".bin": (lying_numbers,),
    ".json": (lying_json, lying_json, lying_json, deep_json),
    ".csv": (hostile_text,),
    ".svm": (hostile_text,),
    ".state": (lying_checkpoint, lying_checkpoint, lying_checkpoint),
}


def damage(rng: np.random.Generator, path: Path) -> str:
    """Damage a file in some way, and say how."""
    special = BY_SUFFIX.get(path.suffix, ())
    ways = special if special and rng.random() < 0.5 else ANY
    way = ways[int(rng.integers(len(ways)))]
    way(rng, path)
    return f"{path.name}: {way.__name__}"
