"""The table that `kernel_evolution` returns, and its picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from momentron.display.style import BLUE, GREEN, GREY, PURPLE, VERMILLION, picture_of, saved_figure
from momentron.errors import InputError
from momentron.safefiles import write_atomically
from momentron.table import Table

KERNEL, NETWORK, TRAIN = VERMILLION, BLUE, GREY
FIRST, LAST = PURPLE, GREEN


@dataclass(frozen=True)
class EvolutionRow:
    """One snapshot of the kernel of a network under training.

    Attributes
    ----------
    epoch : int
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

    epoch: int
    lower: float
    upper: float
    kernel_error: float
    network_error: float
    train_error: float
    alignment_first: float
    alignment_last: float


class KernelEvolution(Table[EvolutionRow]):
    """Rows of `EvolutionRow`; converts to a dict of arrays, to CSV, to pandas and to a picture.

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

    noun = "evolution"
    columns = tuple(field.name for field in fields(EvolutionRow))

    def __init__(self, rows: Iterable[EvolutionRow]) -> None:
        self._rows = tuple(rows)
        if not self._rows:
            raise InputError("an evolution has 0 rows; it needs at least 1")

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, digits enough to read every float back; written where a path."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self._rows:
            writer.writerow([repr(value) for value in astuple(row)])
        if path is not None:
            write_atomically(path, text.getvalue())
        return text.getvalue()

    def plot(self, path: str | Path | None = None, *, title: str = "") -> Any:
        """Errors, margins and alignments against epochs; needs the extra `plot` (matplotlib).

        Parameters
        ----------
        path : path, optional
            Save the picture there, in the format that its ending names.
        title : str

        Returns
        -------
        matplotlib.figure.Figure
        """
        figure, panels = saved_figure(1, 3, size=(10.5, 3.4))
        for draw, axes in zip((self._errors, self._margins, self._alignments), panels, strict=True):
            draw(axes)
            scale_epochs(axes, self["epoch"])
            axes.legend(fontsize="small")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        if path is not None:
            write_atomically(path, picture_of(path, figure, dpi=115))
        return figure

    def _errors(self, axes: Any) -> None:
        """Three lines: test errors of the kernel's predictor and the network, training error."""
        epochs = self["epoch"]
        axes.plot(epochs, self["train_error"], "-", color=TRAIN, label="network, training error")
        axes.plot(epochs, self["network_error"], "s-", color=NETWORK, markersize=4, label="network")
        axes.plot(
            epochs, self["kernel_error"], "o-", color=KERNEL, markersize=4, label="kernel predictor"
        )
        axes.set_title("Test error", loc="left", fontsize=10)
        axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_formatter("{x:.0%}")

    def _margins(self, axes: Any) -> None:
        epochs, lower, upper = self["epoch"], self["lower"], self["upper"]
        axes.fill_between(epochs, lower, upper, color=KERNEL, alpha=0.2, linewidth=0)
        axes.plot(epochs, lower, "o-", color=KERNEL, markersize=4, label="at least")
        axes.plot(epochs, upper, ":", color=KERNEL, label="at most")
        axes.set_title("Best margin in the kernel", loc="left", fontsize=10)
        axes.set_ylim(bottom=0.0)

    def _alignments(self, axes: Any) -> None:
        for which, colour in (("first", FIRST), ("last", LAST)):
            values = self[f"alignment_{which}"]
            axes.plot(
                self["epoch"], values, "o-", color=colour, markersize=4, label=f"with the {which}"
            )
        axes.set_title("Alignment of kernels", loc="left", fontsize=10)

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


def scale_epochs(axes: Any, epochs: np.ndarray) -> None:
    """A log axis on which epoch 0 has its place; a tick for every epoch that has room."""
    top = max(int(epochs[-1]), 1)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    axes.set_xlim(-0.1, 1.15 * top)
    ticks = [0, *(t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500) if t <= top)]
    ticks += [10**i for i in range(3, 10) if 10**i <= top]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("epochs")
