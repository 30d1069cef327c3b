"""What is seen of a kernel in training, the table that `kernel_evolution` returns, its picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from momentron.data.safefiles import Pathname, write_atomically
from momentron.errors import InputError
from momentron.result import MarginResult
from momentron.views.display.evolution import EvolutionDisplay
from momentron.views.trace import Table


@dataclass(frozen=True, repr=False)
class Snapshot:
    """What is seen of the kernel at one epoch.

    Attributes
    ----------
    epoch : int or float
    kernel : ndarray of shape (n, n)
        The kernel of the training examples.
    cross : ndarray of shape (n_test, n)
        The kernel of the test examples with the training examples.
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


@dataclass(frozen=True)
class EvolutionRow:
    """One snapshot of the kernel of a network under training.

    Attributes
    ----------
    epoch : int or float
        Epochs of training so far.
    lower, upper : float
        The best margin in the kernel lies between them.
    kernel_error : float
        Share of the test examples that the maximum-margin predictor gets wrong.
    network_error, train_error : float
        Share of the test and of the training examples that the network itself gets wrong.
    alignment_first, alignment_last : float
        ⟨K, L⟩/(‖K‖ ‖L‖) with L the kernel of the first and of the last snapshot.
    """

    epoch: float
    lower: float
    upper: float
    kernel_error: float
    network_error: float
    train_error: float
    alignment_first: float
    alignment_last: float


class KernelEvolution(Table[EvolutionRow], noun="evolution", rows=EvolutionRow):
    """A table of `EvolutionRow`; converts to a dict of arrays, CSV, pandas or a picture.

    Parameters
    ----------
    rows : iterable of EvolutionRow
        At least one.

    Examples
    --------
    >>> table = KernelEvolution([EvolutionRow(0, 0.1, 0.2, 0.5, 0.9, 0.9, 1.0, 1.0)])
    >>> table["upper"]
    array([0.2])
    >>> print(table)
     epoch         margin, between      kernel  network  training   aligned with
                                         error    error     error   first   last
         0      0.1000      0.2000      50.00%   90.00%    90.00%  1.0000 1.0000
    """

    def __init__(self, rows: Iterable[EvolutionRow]) -> None:
        super().__init__(rows)
        if not self._rows:
            raise InputError("an evolution has 0 rows; it needs at least 1")

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text that keeps every float exactly; also written to `path`, if any."""
        text: str = self.to_pandas().to_csv(index=False, lineterminator="\n")
        if path is not None:
            write_atomically(path, text)
        return text

    def plot(self, path: Pathname | None = None, **options: Any) -> EvolutionDisplay:
        """Errors, margins and alignments against epochs; needs the extra `plot` (matplotlib).

        Saved at `path`, if there is one; `EvolutionDisplay.plot` explains it and the options.
        """
        return EvolutionDisplay(self.to_dict()).plot(path, **options)

    def __str__(self) -> str:
        lines = [
            " epoch         margin, between      kernel  network  training   aligned with",
            "                                     error    error     error   first   last",
        ]
        lines += [
            f"{row.epoch:>6}  {row.lower:>#10.4g}  {row.upper:>#10.4g}  {row.kernel_error:>10.2%} "
            f"{row.network_error:>8.2%} {row.train_error:>9.2%} {row.alignment_first:>7.4f} "
            f"{row.alignment_last:>6.4f}"
            for row in self._rows
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        last = self._rows[-1]
        return (
            f"KernelEvolution({len(self)} snapshots; last: epoch {last.epoch}, margin in "
            f"[{last.lower:.6g}, {last.upper:.6g}], kernel error {last.kernel_error:.2%}, "
            f"network error {last.network_error:.2%})"
        )
