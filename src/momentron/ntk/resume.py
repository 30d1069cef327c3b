"""The state of a training run in a file, so that the same call goes on from there."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch

from momentron.errors import InputError
from momentron.ntk.tracker import KernelTracker
from momentron.ntk.training import Training
from momentron.safefiles import open_regular, write_atomically

NAME = "training.pt"
FORMAT = 1


class TrainingFile:
    """Weights, optimiser, random states and the place in the data, replaced after each snapshot.

    Parameters
    ----------
    folder : Path
    settings : mapping of str to str
        What the training depends on besides data, model, loss and optimiser.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.path = folder / NAME
        self.settings = dict(settings)

    def save(self, training: Training, epoch: float) -> None:
        """Write all that it takes to go on after this epoch."""
        optimizer = training.optimizer
        content = {
            "format": FORMAT,
            "settings": self.settings,
            "epoch": epoch,
            "model": training.model.state_dict(),
            "optimizer": None if optimizer is None else optimizer.state_dict(),
            "place": training.place.state(),
        }
        write_atomically(self.path, lambda stream: torch.save(content, stream))

    def resume(self, training: Training, tracker: KernelTracker) -> float:
        """Go to the epoch that was reached; −1 if there was none."""
        if not self.path.exists():
            tracker.drop_from(0.0)
            return -1.0
        try:
            with open_regular(self.path) as stream:
                # numbers and tensors alone: a file cannot run code
                content = torch.load(stream, weights_only=True, map_location="cpu")
            form, settings, epoch = (content[name] for name in ("format", "settings", "epoch"))
        except (OSError, ValueError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
            raise InputError(f"{self.path} cannot be read: {error}; delete the folder") from None
        if form != FORMAT:
            raise InputError(f"{self.path} has format {form}, not {FORMAT}; delete the folder")
        for name, value in self.settings.items():
            if settings.get(name) != value:
                raise InputError(
                    f"{self.path} is of a training with {name}={settings.get(name)}, now {value}; "
                    "name another folder, or delete it"
                )
        try:
            training.model.load_state_dict(content["model"])
            if training.optimizer is not None:
                training.optimizer.load_state_dict(content["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{self.path} is of another model or optimizer: {error}") from None
        training.place.restore(content["place"])
        tracker.drop_from(epoch, inclusive=False)
        return float(epoch)
