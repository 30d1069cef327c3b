"""The tangent kernel of a network while you train it, from your own loop."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from torch import nn

from momentron.api import max_margin
from momentron.data.arguments import as_count
from momentron.data.safefiles import Pathname
from momentron.errors import InputError, short
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.evolution_table import EvolutionRow, KernelEvolution
from momentron.ntk.history import History
from momentron.ntk.inputs import Outputs, Selection
from momentron.ntk.labelled import Data, Labelled, as_pair, modes_kept, on_host
from momentron.ntk.spectra import kernel_alignment
from momentron.result import MarginResult
from momentron.solvers import Solver, as_solver
from momentron.solvers.identity import digest_of, parameters_of
from momentron.status import Status
from momentron.views.progress import Progress, Tell, as_progress, part_of


@dataclass(frozen=True, repr=False)
class Snapshot:
    """What is seen of the kernel at one epoch.

    Attributes
    ----------
    epoch : int or float
    kernel : ndarray of shape (n, n)
        Of the training examples.
    cross : ndarray of shape (n_test, n)
        Of the test examples with them.
    result : MarginResult
        The maximum-margin predictor in this kernel.
    """

    epoch: float
    kernel: np.ndarray
    cross: np.ndarray
    result: MarginResult

    def __repr__(self) -> str:
        kernel, cross = (" × ".join(map(str, K.shape)) for K in (self.kernel, self.cross))
        interval = f"[{self.result.lower:.6g}, {self.result.upper:.6g}]"
        return (
            f"Snapshot(epoch {self.epoch:g}, kernel {kernel}, cross {cross}, margin in {interval})"
        )


class KernelTracker:
    """Looks at the tangent kernel of a network that you train, whenever you say so.

    Each look computes the kernel of the training examples and that of the test examples with them,
    and fits the maximum-margin predictor; the rows are those of `kernel_evolution`.

    Parameters
    ----------
    train, test : (X, y), Dataset or DataLoader
        The examples to look at, with labels of any kind; read once. The network has one output per
        class, or a single one for two.
    method, fit_intercept, tol, max_iter
        Of the predictor, as in `max_margin`; the paper fits no intercept, and its method is
        "adaptive".
    seed : int
        Of method="adaptive".
    normalize, input_shape, max_memory, outputs, parameters
        As in `EmpiricalNTK`; the limit holds for each kernel.
    folder : path, optional
        Keep the kernels there, as .npy files, and the rows: a tracker that is made again with the
        same data goes on from its last look. Without, all kernels stay in memory.
    progress : bool or callable, optional
        Of each look; see `momentron.views.progress`.

    Attributes
    ----------
    history : History
        The rows and kernels so far, in memory or in the folder.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import KernelTracker
    >>> X, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> tracker = KernelTracker((X, y), (X, y))
    >>> for epoch in range(101):
    ...     if epoch % 50 == 0:
    ...         snapshot = tracker.look(model, epoch)
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.cross_entropy(model(X), y).backward()
    ...     optimizer.step()
    >>> tracker.evolution["epoch"]
    array([  0,  50, 100])
    """

    def __init__(
        self,
        train: Data,
        test: Data,
        *,
        method: str | Solver = "auto",
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        seed: int = 0,
        normalize: bool = True,
        input_shape: tuple[int, ...] | None = None,
        max_memory: str | int = "1GB",
        outputs: Outputs = None,
        parameters: Selection = None,
        folder: Pathname | None = None,
        progress: Progress = None,
    ) -> None:
        as_count("seed", seed, 0)
        self._fit = {
            "method": as_solver(method),
            "fit_intercept": fit_intercept,
            "tol": tol,
            "max_iter": max_iter,
            "random_state": seed,
        }
        self._kernel = {
            "normalize": normalize,
            "input_shape": None if input_shape is None else tuple(input_shape),
            "max_memory": max_memory,
            "outputs": outputs,
            "parameters": parameters,
        }
        self._train, self._test = as_pair(train, "train"), as_pair(test, "test")
        self._progress = progress
        as_progress(progress, "")  # refused now if it is invalid
        self.history = History(folder, self._identity() if folder is not None else {})

    def look(self, model: nn.Module, epoch: float, *, tell: Tell | None = None) -> Snapshot:
        """Take a look at the model as it is, in evaluation mode, and leave it as it was.

        Parameters
        ----------
        model : torch.nn.Module
        epoch : int or float
            How far the training is, in units of your own. A look at an epoch that is not after the
            last takes the place of all from there on: the training was taken up again from there.
        tell : callable, optional
            Told the share that is done, in place of `progress`.

        Returns
        -------
        Snapshot
        """
        epoch = as_epoch(epoch)
        tell = tell or as_progress(self._progress, f"look at epoch {epoch:g}")
        ntk = EmpiricalNTK(model, **self._kernel)  # type: ignore[arg-type]
        seen, unseen, classes = self.labelled(model)
        with modes_kept(model):
            model.eval()
            errors = {
                "network_error": unseen.network_error(model, classes),
                "train_error": seen.network_error(model, classes),
            }
            snapshot = self._snapshot(ntk, epoch, seen, unseen, tell)
        row = {
            "epoch": epoch,
            "lower": snapshot.result.lower,
            "upper": snapshot.result.upper,
            "kernel_error": float(np.mean(predict(snapshot.result, snapshot.cross) != unseen.y)),
        }
        self.history.add(row | errors, snapshot.kernel)
        return snapshot

    def labelled(self, model: nn.Module) -> tuple[Labelled, Labelled, np.ndarray]:
        """The training and the test examples as the model reads them, and all classes, sorted."""
        shape: Any = self._kernel["input_shape"]
        seen = Labelled(self._train, model, shape, "train")
        unseen = Labelled(self._test, model, shape, "test")
        return seen, unseen, np.unique(np.concatenate([seen.y, unseen.y]))

    def _snapshot(
        self, ntk: EmpiricalNTK, epoch: float, seen: Labelled, unseen: Labelled, tell: Tell
    ) -> Snapshot:
        """Both kernels at the present weights, and the predictor."""
        X, X_test = seen.examples.X, unseen.examples.X
        first = len(seen) / (len(seen) + len(unseen))  # by the examples that pass the network
        kernel = ntk(X, progress=part_of(tell, 0.0, first))
        result = max_margin(kernel, seen.y, kernel="precomputed", **self._fit)  # type: ignore[arg-type]
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        cross = ntk(X_test, X, progress=part_of(tell, first, 1.0))
        return Snapshot(epoch, kernel, cross, result)

    def __len__(self) -> int:
        return len(self.history.rows)

    @property
    def evolution(self) -> KernelEvolution:
        """The table of all looks so far.

        Raises
        ------
        InputError
            If there was none.
        """
        rows, kernels = self.history.rows, self.history.kernels
        if not rows:
            raise InputError("the tracker has seen nothing yet; call look(model, epoch) first")
        first, last = kernels[0], kernels[-1]
        return KernelEvolution(
            EvolutionRow(
                **row,
                alignment_first=kernel_alignment(kernel, first),
                alignment_last=kernel_alignment(kernel, last),
            )
            for row, kernel in zip(rows, kernels, strict=True)
        )

    def kernel(self, epoch: float) -> np.ndarray:
        """The training kernel of the look at this epoch; with a folder, mapped from its file."""
        seen = [row["epoch"] for row in self.history.rows]
        if epoch in seen:
            return self.history.kernels[seen.index(epoch)]
        raise InputError(f"there was no look at epoch {short(epoch)}; there were looks at {seen}")

    def __repr__(self) -> str:
        epochs = [f"{row['epoch']:g}" for row in self.history.rows]
        where = "" if self.history.folder is None else f", kept in {self.history.folder}"
        return f"KernelTracker({len(epochs)} looks, at epochs [{', '.join(epochs)}]{where})"

    def _identity(self) -> dict[str, str]:
        """What the rows depend on besides the model."""
        solver, fit = self._fit["method"], self._fit
        settings = {name: value for name, value in fit.items() if name != "method"}
        kernel = {
            name: value
            for name, value in self._kernel.items()
            if name != "max_memory" and not callable(value)
        }
        return {
            "training data": _digest(self._train),
            "test data": _digest(self._test),
            "method": f"{solver.name}({parameters_of(solver)})",  # type: ignore[attr-defined]
            "fit": repr(settings),
            "kernel": repr(kernel),
        }


def as_epoch(epoch: Any) -> float:
    """A number of at least 0; a whole one as an int."""
    if not isinstance(epoch, Real) or isinstance(epoch, bool) or not 0.0 <= float(epoch) < np.inf:
        raise InputError(f"epoch={short(epoch)} must be a number of at least 0")
    number = float(epoch)
    return int(number) if number.is_integer() else number


def predict(result: MarginResult, cross: np.ndarray) -> np.ndarray:
    """The labels that a predictor gives to examples, from their kernel with the training ones."""
    outputs = cross @ result.coef.T + result.intercept
    if outputs.ndim == 1:
        return result.classes[(outputs > 0.0).astype(int)]
    return result.classes[outputs.argmax(axis=1)]


def _digest(pair: tuple[Any, Any]) -> str:
    X, labels = (on_host(part) for part in pair)
    return digest_of(X, labels if labels.dtype.kind != "O" else labels.astype(str))
