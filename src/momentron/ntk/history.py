"""What a tracker has seen, in memory or in a folder: rows of numbers and kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from momentron.data.safefiles import (
    Pathname,
    open_regular,
    require_writable_folder,
    write_atomically,
)
from momentron.errors import InputError, short

ROWS = "looks.json"
FORMAT = 1


class History:
    """Rows in the order of their epochs, each with its kernel.

    In a folder, a kernel is a .npy file that is mapped into memory, and the rows are a text file
    that is replaced after each snapshot: whoever opens the folder again goes on from there.

    Parameters
    ----------
    folder : path or None
        None keeps everything in memory.
    identity : mapping of str to str
        What the rows depend on. A folder with rows of anything else is refused.
    """

    def __init__(self, folder: Pathname | None, identity: Mapping[str, str]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.identity = dict(identity)
        self.rows: list[dict[str, Any]] = []
        self.kernels: list[np.ndarray] = []
        if self.folder is not None:
            require_writable_folder(self.folder)
            if (self.folder / ROWS).exists():
                self.rows = self._read(self.folder / ROWS)
                self.kernels = [self._mapped(row["epoch"]) for row in self.rows]

    def add(self, row: dict[str, Any], kernel: np.ndarray) -> None:
        """Keep a snapshot; what was seen at its epoch or later is dropped first."""
        epoch = row["epoch"]
        self.keep(sum(row["epoch"] < epoch for row in self.rows))
        self.rows.append(row)
        if self.folder is None:
            self.kernels.append(kernel)
            return
        write_atomically(self._file(epoch), lambda stream: np.save(stream, kernel))
        self.kernels.append(self._mapped(epoch))
        content = {"format": FORMAT, "identity": self.identity, "rows": self.rows}
        write_atomically(self.folder / ROWS, json.dumps(content, indent=1) + "\n")

    def keep(self, count: int) -> None:
        """Forget all but the first snapshots: the training went back."""
        del self.rows[count:], self.kernels[count:]

    def _file(self, epoch: float) -> Path:
        assert self.folder is not None
        return self.folder / f"kernel-{epoch!r}.npy"  # all digits: steps may be millions

    def _mapped(self, epoch: float) -> np.ndarray:
        path = self._file(epoch)
        try:
            found: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}; delete the folder") from None
        return found

    def _read(self, path: Path) -> list[dict[str, Any]]:
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
        return list(rows)
