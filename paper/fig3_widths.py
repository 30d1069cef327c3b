"""Figure 3 again, on fewer rows: several widths, several seeds, normalised and as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from paper.claims import Claim
from paper.figure import Measured, Part
from paper.methods import PERCEPTRON
from paper.sample import Sample
from paper.tangent_curves import (
    AGGRESSIVE,
    ORDER,
    Curves,
    Features,
    curve_part,
    in_order,
    last_of,
)

WIDTHS = (32, 64, 128)
PAPER_WIDTH = 128
ROWS_PER_ITERATION = 3
"""The horizon, fixed before any of these ran: as in the run of 60,000 rows, 20,000 iterations."""
NOT_ALL_RAN = "not decided: some networks have not run"


@dataclass(frozen=True)
class Widths:
    """Networks of several widths and seeds.

    Attributes
    ----------
    sample : Sample
    seeds : tuple of int
    widths : tuple of int
    """

    sample: Sample
    seeds: tuple[int, ...]
    widths: tuple[int, ...] = WIDTHS

    @property
    def iterations(self) -> int:
        """Of each method."""
        return len(self.sample.X) // ROWS_PER_ITERATION

    @property
    def features(self) -> list[Features]:
        """In the order of the run: seed by seed, normalised before raw."""
        every = product(self.seeds, (True, False), self.widths)
        return [Features(width, seed, normalize) for seed, normalize, width in every]

    def parts(self) -> list[Part]:
        """A curve for each network and method."""
        return [
            curve_part(curve_name(f, m.name), m, self.sample, self.iterations, f)
            for f in self.features
            for m in ORDER
        ]

    def finished(self, measured: Mapping[str, Measured]) -> dict[Features, Curves]:
        """The curves of the networks for which all methods ran."""
        return {
            f: {m.name: measured[curve_name(f, m.name)].columns for m in ORDER}
            for f in self.features
            if all(curve_name(f, m.name) in measured for m in ORDER)
        }

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        """That narrower networks are similar; none where none ran."""
        finished = self.finished(measured)
        claims = []
        for normalize, scaling in ((True, "normalised"), (False, "not normalised")):
            runs = {f: curves for f, curves in finished.items() if f.normalize is normalize}
            if runs:
                claim = similar(runs, len(self.sample.X), self.iterations, scaling)
                claims.append(claim if len(runs) == self._planned else left_unfinished(claim))
        return claims

    @property
    def _planned(self) -> int:
        """Networks with normalised features, and as many with features as they are."""
        return len(self.seeds) * len(self.widths)

    def details(self, measured: Mapping[str, Measured]) -> str:
        """A table with a row per network."""
        finished = self.finished(measured)
        total = len(self.features)
        heading = [
            f"## Widths and seeds: {len(finished)} of {total} networks ran",
            "",
            f"{self.sample.title}, {self.sample.y_test.size:,} rows to test on, "
            f"{self.iterations:,} iterations of each method: one per {ROWS_PER_ITERATION} rows, "
            "the horizon of the run above, fixed before these ran. The seed draws the network's "
            "weights, and the rows that Algorithm 2 samples.",
            "",
        ]
        left = [f for f in self.features if f not in finished]
        if left:
            heading += [f"Not run, or not with every method: {unfinished_words(left)}.", ""]
        return "\n".join([*heading, *table(finished)])


def curve_name(features: Features, method: str) -> str:
    """As in file names."""
    scaling = "" if features.normalize else "raw-"
    return f"width-{features.width}-seed-{features.seed}-{scaling}{method}"


def similar(runs: Mapping[Features, Curves], rows: int, iterations: int, scaling: str) -> Claim:
    """Are the margins in the paper's order, at each narrower width for more than half the seeds."""
    is_ordered = {f: has_order(curves) for f, curves in runs.items()}
    counts = {
        width: [ordered for f, ordered in is_ordered.items() if f.width == width]
        for width in dict.fromkeys(f.width for f in runs)
    }
    narrower = [orders for width, orders in counts.items() if width < PAPER_WIDTH]
    return Claim(
        f"Experiments with narrower widths were similar (features {scaling}; the order of the "
        "margins, in more than half of the seeds at each narrower width).",
        "Appendix F, of Figure 3",
        {"rows": rows, "iterations": iterations}
        | {f"width {w}, seeds with this order": f"{sum(o)} of {len(o)}" for w, o in counts.items()},
        all(sum(orders) > len(orders) / 2 for orders in narrower) if narrower else None,
    )


def left_unfinished(claim: Claim) -> Claim:
    """A claim about all seeds while some of their networks have not run."""
    return replace(claim, holds=None, word=NOT_ALL_RAN)


def unfinished_words(left: Sequence[Features]) -> str:
    """The networks, by width and scaling, with the seeds of each.

    >>> unfinished_words([Features(32, 1, True), Features(32, 2, True), Features(64, 1, False)])
    'width 32 normalised, seeds 1, 2; width 64 as they are, seeds 1'
    """
    seeds: dict[str, list[str]] = {}
    for f in left:
        seeds.setdefault(f"width {f.width} {scaling_words(f)}", []).append(str(f.seed))
    return "; ".join(f"{kind}, seeds {', '.join(each)}" for kind, each in seeds.items())


def scaling_words(features: Features) -> str:
    return "normalised" if features.normalize else "as they are"


def has_order(curves: Curves) -> bool:
    """Is Algorithm 2 first, also by the best so far, and are the theorem's parameters last."""
    best = last_of(curves, "lower")
    return in_order(last_of(curves, "margin")) and best[AGGRESSIVE.name] >= best[PERCEPTRON.name]


def table(finished: Mapping[Features, Curves]) -> Sequence[str]:
    """Markdown: margins and test errors at the end."""
    names = " | ".join(f"{m.label}: margin | best so far | error" for m in ORDER)
    rows = [
        f"| width | seed | features | {names} | the paper's order |",
        "|---" * (4 + 3 * len(ORDER)) + "|",
    ]
    for features, curves in finished.items():
        cells = [str(features.width), str(features.seed), scaling_words(features)]
        for method in ORDER:
            columns: Mapping[str, np.ndarray] = curves[method.name]
            cells += [f"{columns[name][-1]:.4g}" for name in ("margin", "lower")]
            cells.append(f"{columns['test_error'][-1]:.2%}")
        cells.append("yes" if has_order(curves) else "**no**")
        rows.append(f"| {' | '.join(cells)} |".replace("-", "−"))
    return rows
