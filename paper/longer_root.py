"""The run that Figure 2 leaves open: normalised steps with θ_t = 1/√t on MNIST 3/5, much longer.

    python -m paper.longer_root

After 3,000 iterations its test error says nothing yet, since its steps are so short. This prints it
at marks evenly spaced on a log axis, and since when it performs well for good: at most `WELL` times
the error of the soft margin that Figure 2 tunes. Seven minutes on one idle core.
"""

import argparse

from paper.data import mnist_pair
from paper.fig1_fig2 import WELL
from paper.judge import since
from paper.method_curves import NORMALIZED_ROOT, errors_of, method_part

SOFT = 0.033123
"""The reference of docs/figures/fig2.md."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=100_000)
    sample = mnist_pair(3, 5)

    errors = errors_of(NORMALIZED_ROOT, sample.test_error)
    iterations = parser.parse_args().iterations
    part = method_part(NORMALIZED_ROOT, sample, iterations, extras=errors, per_decade=40)
    columns = part.measure(lambda share: None).columns
    for t, error in zip(columns["iteration"], columns["test_error"], strict=True):
        print(f"{t:>9,} {error:.4%}")
    limit = WELL * SOFT
    place = since(columns["test_error"] > limit)
    when = None if place is None else columns["iteration"][place]
    print(f"at most {limit:.4%} since iteration {when}")


if __name__ == "__main__":
    main()
