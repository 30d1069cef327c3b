"""The run that Figure 2 leaves open: normalised steps with θ_t = 1/√t on MNIST 3/5, much longer.

    python -m paper.longer_root

After 3,000 iterations its test error says nothing yet, since its steps are so short; the path that
it shares with θ = 1 predicts a good one after some 87,000. This makes the run, and prints the test
error at marks evenly spaced on a log axis, and since when it performs well for good: at most
`WELL` times the error of the soft margin that Figure 2 tunes. Seven minutes on one idle core.
"""

import argparse

from momentron.solvers import NormalizedGradientRoot
from momentron.solvers.problem import Problem
from paper.curves import log_spaced
from paper.data import mnist_pair
from paper.fig1_fig2 import WELL

SOFT = 0.033123
"""The reference of docs/figures/fig2.md."""
PER_DECADE = 40


def errors(iterations: int) -> dict[int, float]:
    """Test errors by iteration."""
    sample, solver = mnist_pair(3, 5), NormalizedGradientRoot()
    problem = Problem.from_data(sample.sparse, sample.y, fit_intercept=False).for_solver(tight=True)
    state, marks = solver.init(problem), {*log_spaced(iterations, PER_DECADE), 3000}
    found = {}
    for t in range(1, iterations + 1):
        solver.step(problem, state)
        if t in marks:
            found[t] = sample.test_error(problem.shown(state.w))
            print(f"{t:>9,} {found[t]:.4%}", flush=True)
    return found


def well_since(found: dict[int, float], limit: float) -> int | None:
    """The first mark from which on no error is above the limit; None if the last is."""
    since = None
    for t, error in found.items():
        since = None if error > limit else since or t
    return since


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=100_000)
    found = errors(parser.parse_args().iterations)
    limit = WELL * SOFT
    print(f"at most {limit:.4%} since iteration {well_since(found, limit)}")


if __name__ == "__main__":
    main()
