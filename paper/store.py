"""The parts that a run has finished, on disk: an interrupted run goes on with the others."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from momentron.safefiles import open_regular, write_atomically
from paper.figure import Measured, Part

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
