"""Data that are not separable: Algorithm 1's path and the soft margin's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from momentron.api import max_margin
from momentron.separability import check_separability
from momentron.solvers import Momentum
from momentron.solvers.problem import Problem
from momentron.solvers.solver import Candidates
from momentron.verify import verify
from momentron.views.display.style import BLUE, INK, VERMILLION, colour_of, saved_figure
from momentron.views.progress import part_of
from paper.data import (
    TRAIN,
    VALIDATION,
    Pool,
    Sample,
    adults,
    animals,
    digits,
    letters,
    pages,
    require_end,
)
from paper.judge import Claim
from paper.method_curves import log_spaced, record
from paper.path_findings import (
    CLOSE,
    SAME,
    as_good,
    in_order,
    nearer_to_its_own,
    not_separable,
    on_path,
    on_soft_path,
    over_all_sets,
    stays_close,
    stopping_matters,
)
from paper.runner import Figure, Measured, Part, Report

SOFT_TOL = 1e-4
RIDGE = {"maxiter": 1500, "maxcor": 30, "ftol": 0.0, "gtol": 1e-8}
"""For L-BFGS: it stops by the slope alone, or after this many steps."""


def momentum_path(
    X: Any, y: np.ndarray, marks: Sequence[int], report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """(the marks, Algorithm 1's w_t at each, a row per mark)."""
    path: list[np.ndarray] = []

    def keep(proposal: Candidates) -> dict[str, float]:
        path.append(proposal.primals[0].w.copy())
        return {}

    pose = partial(Problem.from_data, X, y, fit_intercept=False)
    columns = record(pose, Momentum(), marks[-1], report, extras=keep, marks=marks)
    return columns["iteration"], np.array(path)


def soft_path(X: Any, y: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The soft margin with squared hinge for each C, from the smallest on, a row each.

    Each fit starts from the one before.
    """
    path: list[np.ndarray] = []
    last = None
    for C in grid:
        last = max_margin(X, y, fit_intercept=False, C=float(C), tol=SOFT_TOL, initial=last)
        require_end(last.status)
        path.append(np.ravel(last.coef))
    return np.array(path)


def ridge_path(X: Any, y: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, float]:
    """The least ln Σ exp(Zw) + λ‖w‖²/2 for each λ, a row each, and the largest slope left.

    Algorithm 1 descends on the first term: this is the regularisation path of its own loss. The λ
    fall, and each search starts from the one before. Slopes are over λ‖w‖: zero at the least.
    """
    problem = Problem.from_data(X, y, fit_intercept=False)

    def objective(w: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        found = problem.evaluate(w)
        slope = problem.gradient(found.weights) + lam * w
        return found.psi + 0.5 * lam * float(w @ w), slope

    path, w, slopes = [], problem.zeros(), []
    for lam in grid:
        found = minimize(objective, w, (float(lam),), method="L-BFGS-B", jac=True, options=RIDGE)
        w = found.x
        path.append(w.copy())
        slopes.append(np.linalg.norm(found.jac) / (lam * np.linalg.norm(w)))
    return np.array(path), float(max(slopes))


def angles(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """In degrees, between each row of the first and each of the second.

    >>> angles(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0], [3.0, 3.0]])).round(6).tolist()
    [[90.0, 45.0]]
    """
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second))
    found: np.ndarray = np.degrees(np.arccos(np.clip(one @ other.T, -1.0, 1.0)))
    return found


PROOF_SECONDS = 120.0
TICKS = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0), tuple(np.arange(1.0, 9.9, 0.2)))
"""Leading digits of the ticks of an error axis: the first of these that gives three ticks."""


@dataclass(frozen=True)
class Grid:
    """How large a run is."""

    splits: int  # ways of cutting each set into rows to train, to validate and to test on
    iterations: int  # of Algorithm 1
    per_decade: int  # values of t, of C and of λ in a factor of ten
    rows: int  # of each set, at most

    @property
    def marks(self) -> list[int]:
        """The t that are looked at; as many per decade of t as of C would be too few to choose."""
        return log_spaced(self.iterations, 3 * self.per_decade)

    @property
    def C(self) -> np.ndarray:
        """From far too small to far too large, for rows of length at most 1."""
        return 10.0 ** np.arange(-6.0, 6.0 + 1e-9, 1.0 / self.per_decade)

    @property
    def ridge(self) -> np.ndarray:
        """λ, falling."""
        return 10.0 ** np.arange(1.5, -7.0 - 1e-9, -1.0 / self.per_decade)


FULL = Grid(splits=6, iterations=5000, per_decade=4, rows=12_000)
QUICK = Grid(splits=2, iterations=500, per_decade=2, rows=2400)
LOADERS = (adults, pages, letters, digits, animals)


class Paths(Figure):
    """Angles between the paths, test errors along them, and what validation chooses on each.

    Parameters
    ----------
    pools : sequence of Pool
    grid : Grid
    quick : bool
    """

    name = "paths"
    title = "Data that are not separable: Algorithm 1 and the soft margin"
    seed = 0

    def __init__(self, pools: Sequence[Pool], grid: Grid, *, quick: bool) -> None:
        first, titles = pools[0], ", ".join(pool.title for pool in pools)
        # the parts carry the fingerprints of their own sets
        super().__init__(Sample(first.X, first.y, first.X[:0], first.y[:0], titles), quick=quick)
        self.pools, self.grid = list(pools), grid

    @classmethod
    def from_files(cls, quick: bool) -> "Paths":
        """Five real sets; the quick version has fewer rows of each, and two splits."""
        grid = QUICK if quick else FULL
        return cls([load(grid.rows) for load in LOADERS], grid, quick=quick)

    def numbers(self) -> dict[str, Any]:
        grid = self.grid
        sets = (f"{pool.title} ({pool.y.size:,} × {pool.X.shape[1]})" for pool in self.pools)
        return {
            "sets": ", ".join(sets),
            "splits": grid.splits,
            "train": TRAIN,
            "validation": VALIDATION,
            "iterations": grid.iterations,
            "n_C": grid.C.size,
            "C": (grid.C[0], grid.C[-1]),
            "n_ridge": grid.ridge.size,
            "ridge": (grid.ridge[0], grid.ridge[-1]),
            "close": CLOSE,
            "same": 100 * SAME,
        }

    def parts(self) -> list[Part]:
        return [self._part(pool, seed) for pool in self.pools for seed in range(self.grid.splits)]

    def _part(self, pool: Pool, seed: int) -> Part:
        grid = self.grid
        parameters = {
            "rows": pool.fingerprint,
            "split": seed,
            "iterations": grid.iterations,
            "per_decade": grid.per_decade,
            "C": [grid.C[0], grid.C[-1]],
            "ridge": [grid.ridge[0], grid.ridge[-1]],
            "proof_seconds": PROOF_SECONDS,
        }
        measure = partial(measure_split, pool, seed, grid)
        return Part(part_name(pool, seed), parameters, float(pool.X.size), measure)

    def splits_of(self, measured: Mapping[str, Measured]) -> dict[str, list[Measured]]:
        """Set → what its splits measured."""
        return {
            pool.title: [measured[part_name(pool, seed)] for seed in range(self.grid.splits)]
            for pool in self.pools
        }

    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        splits = self.splits_of(measured)
        return [
            not_separable(splits),
            stays_close(splits, "nearest_angle", until_chosen=True),
            stays_close(splits, "nearest_angle", until_chosen=False),
            in_order(splits),
            stays_close(splits, "own_angle", until_chosen=False),
            nearer_to_its_own(splits),
            as_good(splits),
            over_all_sets(splits),
            stopping_matters(splits),
        ]

    def draw(self, measured: Mapping[str, Measured]) -> Any:
        splits = self.splits_of(measured)
        figure, panels = saved_figure(4, 2, size=(9.2, 11.5))
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=11)
        *errors, angle_soft, angle_own = panels.flat
        for axes, (name, each) in zip(errors, splits.items(), strict=False):
            draw_errors(axes, name, each)
        for axes in errors[len(splits) :]:
            axes.axis("off")
        draw_angles(angle_soft, splits, "nearest_angle", "the soft-margin path")
        draw_angles(angle_own, splits, "own_angle", "its own loss's path")
        top = max(axes.get_ylim()[1] for axes in (angle_soft, angle_own))
        for axes in (angle_soft, angle_own):
            axes.set(ylim=(0, top))
        handles, labels = errors[0].get_legend_handles_labels()
        blank = errors[-1]
        blank.legend(handles, labels, loc="upper left", title="Test errors", alignment="left")
        handles, labels = angle_soft.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return figure


def part_name(pool: Pool, seed: int) -> str:
    """Of the part that measures one split of a set."""
    return f"{pool.slug}-{seed}"


def measure_split(pool: Pool, seed: int, grid: Grid, report: Report) -> Measured:
    """Both paths of one split: errors along them, and the angles between them."""
    train, validation, test = pool.split(seed)
    X, y = pool.rows(train), pool.y[train]
    verdict = check_separability(
        X, y, fit_intercept=False, decimals="binary", max_time=PROOF_SECONDS
    )
    kind, verified = str(verdict.kind), bool(verify(verdict.to_json(), X, y))
    report(0.3)
    t, path = momentum_path(X, y, grid.marks, part_of(report, 0.3, 0.7))
    soft = soft_path(X, y, grid.C)
    report(0.85)
    own, slope = ridge_path(X, y, grid.ridge)
    both, between = np.concatenate([path, soft]), angles(path, soft)
    missing = np.full(grid.C.size, np.nan)
    columns = {  # first a row per t, then with t = 0 one per C
        "iteration": np.concatenate([t, np.zeros(grid.C.size, dtype=t.dtype)]),
        "C": np.concatenate([np.full(t.size, np.nan), grid.C]),
        "validation_error": pool.errors(both, validation),
        "test_error": pool.errors(both, test),
    }
    for name, values in (
        ("travelled", angles(path, path[:1])[:, 0]),
        ("nearest_angle", between.min(axis=1)),
        ("nearest_C", grid.C[between.argmin(axis=1)]),
        ("own_angle", angles(path, own).min(axis=1)),
        *((f"angle at C = {C:.3g}", between[:, i]) for i, C in enumerate(grid.C)),
    ):
        columns[name] = np.concatenate([values, missing])
    neighbours = float(np.diagonal(angles(soft, soft), 1).max())
    facts = {"kind": kind, "verified": verified, "rows": len(y), "features": pool.X.shape[1]}
    quality = {"angle between neighbouring C": neighbours, "slope left on its own path": slope}
    return Measured(columns, facts | chosen(columns) | quality)


def chosen(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The t, and the C, of the least validation error, the smallest of those that tie."""
    facts: dict[str, float] = {}
    is_t = columns["iteration"] > 0
    for name, column, rows in (("t", "iteration", is_t), ("C", "C", ~is_t)):
        best = int(columns["validation_error"][rows].argmin())
        facts[f"chosen {name}"] = float(columns[column][rows][best])
        facts[f"test error at chosen {name}"] = float(columns["test_error"][rows][best])
    return facts


def draw_errors(axes: Any, name: str, splits: Sequence[Measured]) -> None:
    """Mean test errors against t, below, and against C, above; and where validation stops."""
    above = axes.twiny()
    for twin, column, read, what, colour, line, marker, label in (
        (axes, "iteration", on_path, "t", VERMILLION, "-", "o", "Algorithm 1, against t (below)"),
        (above, "C", on_soft_path, "C", BLUE, "--", "s", "soft margin, against C (above)"),
    ):
        x = read(splits[0], column)
        y = np.mean([read(split, "test_error") for split in splits], axis=0)
        axes.plot([], [], line, color=colour, label=label)
        twin.plot(x, y, line, color=colour)
        picked = [split.facts[f"chosen {what}"] for split in splits]
        error = np.mean([split.facts[f"test error at chosen {what}"] for split in splits])
        twin.plot(np.median(picked), error, marker, color=colour, markersize=7, zorder=5)
        axes.plot([], [], marker, color=colour, label=f"{what} chosen by validation")
        twin.set(xscale="log", xlim=(x[0], x[-1]))
        twin.tick_params(axis="x", colors=colour, which="both")
        twin.set_xlabel({"t": "iterations t", "C": "C"}[what], color=colour)
    above.grid(visible=False)
    above.spines["top"].set_visible(True)
    axes.set(yscale="log", ylabel="test error")
    axes.set_title(name)
    scale_errors(axes)


def scale_errors(axes: Any) -> None:
    """Ticks in per cent on a log axis, denser where it is short."""
    low, high = axes.get_ylim()
    ticks: list[float] = []
    for digits_shown in TICKS:
        every = [digit * power for power in (0.001, 0.01, 0.1) for digit in digits_shown]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) >= 3:
            break
    axes.set_yticks(ticks, [f"{100 * tick:.3g}%" for tick in ticks])
    axes.minorticks_off()


def draw_angles(
    axes: Any, splits: Mapping[str, Sequence[Measured]], column: str, path: str
) -> None:
    """The mean angle from w_t to the nearest point of a path at each t, a line per set."""
    for number, (name, each) in enumerate(splits.items()):
        t = on_path(each[0], "iteration")
        mean = np.mean([on_path(split, column) for split in each], axis=0)
        axes.plot(t, mean, color=colour_of(number), label=name)
        axes.set(xlim=(t[0], t[-1]))
    axes.axhline(CLOSE, color=INK, linewidth=0.9, linestyle=":", label=f"close: {CLOSE:g}°")
    axes.set(xscale="log", xlabel="iterations t", ylabel="angle in degrees")
    axes.set_title(f"From w_t to the nearest point of {path}")
