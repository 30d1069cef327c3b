"""The runner that all figures share: measure the parts, save as it goes, then write the results."""

import csv
import hashlib
import io
import json
import math
import os
import platform
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import momentron
from momentron.data.safefiles import open_regular, require_writable_folder, write_atomically
from momentron.errors import InputError
from momentron.views.display.style import require
from paper.curves import render
from paper.figure import Figure, Measured, Part
from paper.judge import PAPER, Claim, page

COLUMN = "column."
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Store:
    """Finished parts in a folder, each under the hash of all it depends on.

    Parameters
    ----------
    folder : Path
    identity : mapping
        What every part depends on: the data, the seed, the versions.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder = folder
        self._identity = dict(identity)

    def load(self, part: Part) -> tuple[Measured, float] | None:
        """What the part measured and how many seconds that took, or None if it is not finished."""
        arrays = _read(self._path(part))
        if arrays is None:
            return None
        words = json.loads(arrays.pop("words").tobytes())
        columns = {name.removeprefix(COLUMN): array for name, array in arrays.items()}
        return Measured(columns, words["facts"], words["files"]), words["seconds"]

    def save(self, part: Part, measured: Measured, seconds: float) -> None:
        """Keep what the part measured."""
        words = {"facts": measured.facts, "files": measured.files, "seconds": seconds}
        arrays: dict[str, Any] = {COLUMN + n: array for n, array in measured.columns.items()}
        arrays["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)
        path = self._path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, stream.getvalue())

    def _path(self, part: Part) -> Path:
        everything = {"part": part.name, "parameters": dict(part.parameters), **self._identity}
        digest = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{part.name}-{digest[:16]}.npz"


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file; None where there is none, or none that can be read."""
    if not path.exists():
        return None
    try:
        # np.load would leave a file that it cannot read open
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except UNREADABLE:
        return None


Watch = Callable[[str, float], None]
"""Told the part in hand, and the share of the work that is done."""

LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Reproduction:
    """What a run wrote.

    Attributes
    ----------
    folder : Path
        Where the picture, the curves, the page and `claims.json` are.
    claims : list of Claim
    seconds : float
        All parts together, those of an earlier run included.
    resumed : list of str
        The parts that an earlier run had finished.
    """

    folder: Path
    claims: list[Claim]
    seconds: float
    resumed: list[str]


def reproduce(
    figure: Figure, out: Path, *, watch: Watch | None = None, max_time: float | None = None
) -> Reproduction:
    """Measure a figure, draw it, and judge the paper's claims about it.

    Parts that an earlier run into the same folder has finished, with the same parameters, data and
    versions, are not run again.

    Parameters
    ----------
    figure : Figure
    out : Path
        The results go to a folder of the figure's name in it.
    watch : callable, optional
        Told of the progress.
    max_time : float, optional
        Seconds after which no further part is begun; what is finished is shown.

    Raises
    ------
    InputError
        If max_time was too short for a figure that can be shown.
    """
    folder = out / figure.name
    require()
    require_writable_folder(folder)
    store = Store(folder / "parts", identity(figure))
    deadline = math.inf if max_time is None else time.monotonic() + max_time
    measured, seconds, resumed = measure(figure.parts(), store, watch, deadline)
    further = measure(figure.parts_after(measured), store, watch, deadline)
    measured, seconds, resumed = measured | further[0], seconds + further[1], resumed + further[2]
    if not figure.can_show(measured):
        raise InputError(
            f"{len(measured)} of {len(figure.parts())} parts are finished, too few for a picture; "
            "the same command goes on from here, with more time"
        )
    claims = figure.judged(measured)
    for suffix, picture in render(lambda: figure.draw(measured)).items():
        write_atomically(folder / f"{figure.name}.{suffix}", picture)
    curves = {name: part.columns for name, part in measured.items() if part.columns}
    write_atomically(folder / f"{figure.name}.csv", curves_csv(curves, leave_out=("seconds",)))
    write_atomically(
        folder / f"{figure.name}-seconds.csv", curves_csv(curves, only=("iteration", "seconds"))
    )
    for part in measured.values():
        for name, text in part.files.items():
            write_atomically(folder / name, text)
    summary = summarise(figure, claims, seconds)
    text = page(summary, figure.title, figure.about(), figure.details(measured))
    write_atomically(folder / f"{figure.name}.md", text)
    write_atomically(
        folder / "claims.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    )
    return Reproduction(folder, claims, seconds, resumed)


def measure(
    parts: Sequence[Part], store: Store, watch: Watch | None = None, deadline: float = math.inf
) -> tuple[dict[str, Measured], float, list[str]]:
    """What the parts measured, now or before, the seconds, and which were in the store.

    Past the deadline, in seconds of `time.monotonic`, no part is begun.
    """
    found = {part.name: store.load(part) for part in parts}
    resumed = [name for name, earlier in found.items() if earlier is not None]
    left = sum(part.weight for part in parts if found[part.name] is None)
    measured, total, done = {}, 0.0, 0.0
    for part in parts:
        earlier = found[part.name]
        if earlier is None:
            if time.monotonic() >= deadline:
                continue
            tell = _teller(watch, part, done, left)
            tell(0.0)
            start = time.perf_counter()
            result = part.measure(tell)
            earlier = result, time.perf_counter() - start
            store.save(part, *earlier)
            done += part.weight
            tell(1.0)
        measured[part.name] = earlier[0]
        total += earlier[1]
    return measured, total, resumed


def _teller(watch: Watch | None, part: Part, done: float, left: float) -> Callable[[float], None]:
    def tell(share: float) -> None:
        if watch is not None:
            watch(part.name, (done + share * part.weight) / left)

    return tell


def identity(figure: Figure) -> dict[str, Any]:
    """What all parts of a figure depend on."""
    return {
        "figure": figure.name,
        "data": figure.sample.fingerprint,
        "seed": figure.seed,
        "momentron": momentron.__version__,
        "numpy": np.__version__,
        "scipy": version("scipy"),
    }


def summarise(figure: Figure, claims: Sequence[Claim], seconds: float) -> dict[str, Any]:
    """What `claims.json` holds."""
    return {
        "figure": figure.name,
        "paper": PAPER,
        "momentron": momentron.__version__,
        "versions": {"python": platform.python_version()}
        | {library: version(library) for library in (*LIBRARIES, *figure.libraries)},
        "seed": figure.seed,
        "quick": figure.quick,
        "data": {"name": figure.sample.title, "fingerprint": figure.sample.fingerprint},
        "seconds": round(seconds, 2),
        "cpus": os.cpu_count(),
        "claims": [claim.to_dict() for claim in claims],
    }


def curves_csv(
    curves: Mapping[str, Mapping[str, np.ndarray]],
    *,
    leave_out: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> str:
    """One row per iteration of each curve, digits enough to read every float back as it was.

    A curve without a column, or without a number in it, has an empty cell.
    """
    every = dict.fromkeys(name for columns in curves.values() for name in columns)
    names = [n for n in (every if only is None else only) if n not in leave_out]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["curve", *names])
    for curve, columns in curves.items():
        length = columns["iteration"].size
        cells = [columns[n].tolist() if n in columns else [None] * length for n in names]
        for row in zip(*cells, strict=True):
            writer.writerow([curve, *("" if v is None or v != v else repr(v) for v in row)])
    return text.getvalue()
