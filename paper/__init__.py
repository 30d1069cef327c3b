"""The paper's figures, measured again, and its claims about them judged by the numbers.

Every figure is one file with a subclass of `Figure`; all share one runner, which saves as it goes.
"""

from collections.abc import Callable

from paper.fig1_fig2 import Figure1, Figure2
from paper.fig3 import Figure3
from paper.fig4 import Figure4
from paper.paths import Paths
from paper.rates import Rates
from paper.runner import Figure, Reproduction, reproduce

FIGURES: dict[str, Callable[..., Figure]] = {
    Figure1.name: Figure1.from_mnist,
    Figure2.name: Figure2.from_mnist,
    Figure3.name: Figure3.from_mnist,
    Figure4.name: Figure4.from_cifar,
    Rates.name: Rates.from_mnist,
    Paths.name: Paths.from_files,
}
"""Name → the figure with its data loaded, from whether it is the quick version."""

__all__ = [
    "FIGURES",
    "Figure",
    "Figure1",
    "Figure2",
    "Figure3",
    "Figure4",
    "Paths",
    "Rates",
    "Reproduction",
    "reproduce",
]
