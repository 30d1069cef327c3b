"""Margins from 1e-1 to 1e-250 of the rows' length, offsets up to 1e12: is `tol` reached?

    python -m benchmarks.every_digit [--count 1000] [--tol 1e-6] [--first 0]

Each problem is small, so that its best margin is known in rational arithmetic
(`tests.oracles.small_margins`, which shares no code with the library). Counted by family are the
problems on which the certified gap is within the tolerance, the other endings by status, and
intervals that miss the truth, of which there must be none.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterator

from momentron import MarginResult, Status
from tests.oracles.small_margins import FAMILIES, Drawn, drawn, misses, solve


def campaign(first: int, count: int, tol: float) -> Iterator[tuple[Drawn, MarginResult, float]]:
    """Every problem with its result, and the processor time that it took."""
    for seed in range(first, first + count):
        problem = drawn(seed)
        begin = time.process_time()
        result = solve(problem, tol)
        yield problem, result, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--failures", action="store_true", help="a line for each gap above tol")
    options = parser.parse_args()
    endings: dict[str, Counter[str]] = {family.__name__: Counter() for family in FAMILIES}
    slowest, wrong = 0.0, 0
    for i, (problem, result, seconds) in enumerate(
        campaign(options.first, options.count, options.tol), options.first
    ):
        is_reached = result.lower > 0.0 and result.gap <= options.tol
        ending = "reached" if is_reached else ""
        if result.status is not Status.OPTIMAL:
            ending += (", " if ending else "") + result.status.name
        endings[problem.family][ending] += 1
        slowest = max(slowest, seconds)
        if misses(problem, result):
            wrong += 1
            print(f"problem {i}: [{result.lower!r}, {result.upper!r}] misses the best margin")
        if options.failures and not is_reached:
            print(
                f"problem {i}: {problem.family} {problem.X.shape}, intercept "
                f"{problem.fit_intercept}, margin 1e{problem.decades:.1f} of the rows' length: "
                f"{result.status.name}, gap {result.gap:.1e}, {1e3 * seconds:.0f} ms"
            )
    for family, counts in endings.items():
        print(f"{family:12}", ", ".join(f"{v} {k}" for k, v in counts.most_common()))
    print(f"{wrong} intervals miss the best margin; the slowest took {slowest:.2f} s")


if __name__ == "__main__":
    main()
