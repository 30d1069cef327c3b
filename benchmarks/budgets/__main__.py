"""python -m benchmarks.budgets [--quick] [--only TEXT]: a Markdown table, a line per path."""

import argparse
import random

from benchmarks.budgets.run import run
from benchmarks.budgets.timed_calls import PATHS

ASKED = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budgets", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one Ctrl-C per path, not three")
    parser.add_argument("--only", default="", help="paths whose names contain this text")
    options = parser.parse_args()
    rng = random.Random(0)
    worst, slowest = (0.0, ""), (0.0, "")
    print("| path | asked (s) | taken (s) | ended | Ctrl-C to the return (s) |")
    print("|---|---|---|---|---|")
    for path in PATHS:
        if options.only not in path:
            continue
        budget = run(path, max_time=ASKED)
        strikes = [rng.uniform(0.2, ASKED + 1.0) for _ in range(1 if options.quick else 3)]
        latencies = [run(path, strike=strike)["seconds"] for strike in strikes]
        worst = max(worst, (budget["seconds"] / ASKED, path))
        slowest = max(slowest, (max(latencies), path))
        shown = ", ".join(f"{latency:.2f}" for latency in latencies)
        print(
            f"| {path} | {ASKED:g} | {budget['seconds']:.2f} | {budget['ending']} | {shown} |",
            flush=True,
        )
    print(f"\nWorst ratio of taken to asked: {worst[0]:.2f} ({worst[1]}).")
    print(f"Longest wait after Ctrl-C: {slowest[0]:.2f} s ({slowest[1]}).")


if __name__ == "__main__":
    main()
