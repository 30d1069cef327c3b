"""What a tracker has seen: rows of numbers and kernels, in memory or in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from momentron.errors import InputError, short
from momentron.safefiles import Pathname, open_regular, require_writable_folder, write_atomically

NAME = "looks.json"
FORMAT = 1


class Looks:
    """Rows in the order of their epochs, each with its kernel.

    In a folder, a kernel is a .npy file that is read when it is asked for, and the rows are a text
    file that is replaced after each look: whoever opens the folder again goes on from there.

    Parameters
    ----------
    folder : path or None
        None keeps everything in memory.
    identity : mapping of str to str
        What the looks depend on. A folder with looks of anything else is refused.
    """

    def __init__(self, folder: Pathname | None, identity: Mapping[str, str]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.identity = dict(identity)
        self.rows: list[dict[str, Any]] = []
        self._kernels: list[np.ndarray] = []
        if self.folder is not None:
            require_writable_folder(self.folder)
            self._read(self.folder / NAME)

    def add(self, row: dict[str, Any], kernel: np.ndarray) -> None:
        """Keep a look; what was seen at its epoch or later is dropped first."""
        self.drop_from(row["epoch"])
        self.rows.append(row)
        if self.folder is None:
            self._kernels.append(kernel)
            return
        write_atomically(self._file(row["epoch"]), lambda stream: np.save(stream, kernel))
        self._write(self.folder)

    def drop_from(self, epoch: float) -> None:
        """Forget what was seen at this epoch or later: the run went back."""
        kept = sum(row["epoch"] < epoch for row in self.rows)
        del self.rows[kept:], self._kernels[kept:]

    def kernel(self, number: int) -> np.ndarray:
        """The kernel of a look, by its place among them; from a folder it is mapped, not read."""
        if self.folder is None:
            return self._kernels[number]
        path = self._file(self.rows[number]["epoch"])
        try:
            found: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}; look again from there") from None
        return found

    def _file(self, epoch: float) -> Path:
        assert self.folder is not None
        return self.folder / f"kernel-{epoch!r}.npy"  # all digits: steps may be millions

    def _write(self, folder: Path) -> None:
        content = {"format": FORMAT, "identity": self.identity, "rows": self.rows}
        write_atomically(folder / NAME, json.dumps(content, indent=1) + "\n")

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            with open_regular(path) as stream:
                content = json.load(stream)
            form, identity, rows = content["format"], content["identity"], content["rows"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path} is not a file of looks; name another folder") from None
        if form != FORMAT:
            raise InputError(f"{path} has format {form}, not {FORMAT}; name another folder")
        for name, value in self.identity.items():
            if identity.get(name) != value:
                raise InputError(
                    f"{path.parent} holds looks with another {name} ({short(identity.get(name))}, "
                    f"now {short(value)}); name another folder, or delete it"
                )
        self.rows = list(rows)
