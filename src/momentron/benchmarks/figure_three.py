"""Margins at equal kernel evaluations: the comparison of the paper's Figure 3.

Run with ``python -m momentron.benchmarks.figure_three [--rows 10000] [--iterations 10000]``. The
data are MNIST, ten classes, seen through the tangent kernel of a two-layer ReLU network of width
128. Every method uses one kernel column an iteration, so that equal iterations are equal numbers of
kernel values; how many of these were computed, and not found in memory, is printed too.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentron.api import max_margin
from momentron.datasets import load
from momentron.kernels import BoundKernel, Kernel
from momentron.kernels.base import Index
from momentron.ntk import TwoLayerReLUKernel
from momentron.result import MarginResult
from momentron.rounding import gamma
from momentron.solvers import Adaptive, BatchPerceptron, Solver

CHECKPOINTS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # shares of the run that are printed


@dataclass(frozen=True)
class TangentKernel(Kernel):
    """A two-layer ReLU kernel that keeps what it needs of the rows it is bound to."""

    network: TwoLayerReLUKernel

    def bind(self, X: Any) -> "BoundTangentKernel":
        return BoundTangentKernel(self.network, X)


class BoundTangentKernel(BoundKernel):
    """The kernel over the rows of X, whose hidden layer is computed once."""

    def __init__(self, network: TwoLayerReLUKernel, X: Any) -> None:
        self.network = network
        self.rows = network.prepare(X)
        self.n = len(self.rows)
        width, d = network.V.shape
        # three inner products; by Cauchy and Schwarz each errs by γ times a share of √(K_ii K_jj)
        error = gamma(d + 2 * width + 16)
        diagonal = network.diagonal(self.rows)
        self._set_errors(diagonal, error, on_diagonal=error, absolute=0.0)
        self.diagonal_evaluations = self.n

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.network(self.rows[rows], self.rows[cols])

    def cross(self, B: Any, index: Index = slice(None)) -> np.ndarray:
        return self.network(B, self.rows[index])


def methods(iterations: int) -> dict[str, Solver]:
    """The three curves of the figure."""
    return {
        "aggressive": Adaptive("aggressive"),
        "batch perceptron": BatchPerceptron(),
        "theory": Adaptive("theory", n_steps=iterations),
    }


def compare(
    X: np.ndarray,
    y: np.ndarray,
    iterations: int,
    *,
    width: int = 128,
    normalize: bool = True,
    seed: int = 0,
    cache_size: float = 2000.0,
) -> dict[str, MarginResult]:
    """Run the three methods for so many iterations each, without intercepts as in the paper."""
    network = TwoLayerReLUKernel(X.shape[1], width, seed, normalize=normalize)
    return {
        name: max_margin(
            X,
            y,
            method=solver,
            kernel=TangentKernel(network),
            cache_size=cache_size,
            fit_intercept=False,
            tol=0.0,
            max_iter=iterations,
            random_state=seed,
        )
        for name, solver in methods(iterations).items()
    }


def format_table(results: dict[str, MarginResult], n: int) -> str:
    """The margins of the current iterates, the bounds at the end, and what was computed."""
    margins = {name: result.trace["margin"] for name, result in results.items()}
    length = min(len(margin) for margin in margins.values())
    head = "".join(f"{name:>18}" for name in results)
    lines = [f"{'iterations':>10} {'kernel values':>14}{head}"]
    for count in sorted({max(1, round(share * length)) for share in CHECKPOINTS}):
        cells = "".join(f"{margin[count - 1]:>18.6f}" for margin in margins.values())
        lines.append(f"{count:>10,} {count * n:>14.2e}{cells}")
    shown = {
        "best margin": lambda result: f"{result.lower:.6f}",
        "upper bound": lambda result: f"{result.upper:.6f}",
        "values computed": lambda result: f"{result.trace['evaluations'][-1]:.2e}",
        "seconds": lambda result: f"{result.trace['seconds'][-1]:.1f}",
    }
    for title, show in shown.items():
        lines.append(f"{title:>25}" + "".join(f"{show(r):>18}" for r in results.values()))
    return "\n".join(lines)


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--raw", action="store_true", help="do not normalise the kernel")
    parser.add_argument("--cache-size", type=float, default=2000.0, help="MB for kernel columns")
    options = parser.parse_args()
    data = load("mnist", subset=options.rows)
    results = compare(
        data.X,
        data.y,
        options.iterations,
        width=options.width,
        normalize=not options.raw,
        seed=options.seed,
        cache_size=options.cache_size,
    )
    kind = "as it is" if options.raw else "normalised"
    print(f"MNIST, {data.X.shape[0]:,} rows, ten classes; tangent kernel of width {options.width},")
    print(f"{kind}; margins of the current iterates (batch perceptron: of the average)")
    print(format_table(results, data.X.shape[0]))


if __name__ == "__main__":
    main()
