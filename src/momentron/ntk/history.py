"""What a tracker has seen, in memory or in a folder: rows of numbers, kernels, and a training."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from momentron.data.safefiles import (
    Pathname,
    open_regular,
    require_writable_folder,
    write_atomically,
)
from momentron.errors import InputError, short

ROWS = "looks.json"
TRAINING = "training.pt"
FORMAT = 1


class History:
    """Rows in the order of their epochs, each with its kernel.

    In a folder, a kernel is a .npy file that is read when it is asked for, and the rows are a text
    file that is replaced after each snapshot: whoever opens the folder again goes on from there.

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
        self._kernels: list[np.ndarray] = []
        if self.folder is not None:
            require_writable_folder(self.folder)
            self._read(self.folder / ROWS)

    def add(self, row: dict[str, Any], kernel: np.ndarray) -> None:
        """Keep a snapshot; what was seen at its epoch or later is dropped first."""
        self.drop_from(row["epoch"])
        self.rows.append(row)
        if self.folder is None:
            self._kernels.append(kernel)
            return
        write_atomically(self._file(row["epoch"]), lambda stream: np.save(stream, kernel))
        content = {"format": FORMAT, "identity": self.identity, "rows": self.rows}
        write_atomically(self.folder / ROWS, json.dumps(content, indent=1) + "\n")

    def drop_from(self, epoch: float) -> None:
        """Forget what was seen at this epoch or later: the run went back."""
        kept = sum(row["epoch"] < epoch for row in self.rows)
        del self.rows[kept:], self._kernels[kept:]

    def kernel(self, number: int) -> np.ndarray:
        """The kernel of a row, by its number; from a folder it is mapped, not read."""
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

    def save_training(self, epoch: float, settings: Mapping[str, str], state: Any) -> None:
        """Keep the state of a training in the folder, if there is one."""
        if self.folder is not None:
            content = {"format": FORMAT, "settings": settings, "epoch": epoch, "state": state}
            path = self.folder / TRAINING
            write_atomically(path, lambda stream: torch.save(content, stream))

    def load_training(self, settings: Mapping[str, str]) -> tuple[float, Any] | None:
        """The epoch that was reached with these settings, and its state; None if there is none.

        Rows of later epochs are dropped.
        """
        path = None if self.folder is None else self.folder / TRAINING
        if path is None or not path.exists():
            self.drop_from(0.0)
            return None
        try:
            with open_regular(path) as stream:
                # numbers and tensors alone: a file cannot run code
                content = torch.load(stream, weights_only=True, map_location="cpu")
            form, old, epoch = (content[name] for name in ("format", "settings", "epoch"))
            state = content["state"]
        except (OSError, ValueError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
            raise InputError(f"{path} cannot be read: {error}; delete the folder") from None
        if form != FORMAT:
            raise InputError(f"{path} has format {form}, not {FORMAT}; delete the folder")
        for name, value in settings.items():
            if old.get(name) != value:
                raise InputError(
                    f"{path} is of a training with {name}={old.get(name)}, now {value}; "
                    "name another folder, or delete it"
                )
        self.drop_from(np.nextafter(epoch, np.inf))
        return float(epoch), state
