"""``python -m benchmarks.false_verdicts``: the table, and the mutations."""

import argparse
import time
from collections import Counter, defaultdict

import numpy as np

from benchmarks.false_verdicts.known_problems import KnownProblem, all_problems
from benchmarks.false_verdicts.mutations import MUTATIONS, Case, Tally, mutate_all
from benchmarks.false_verdicts.peers import LATE, NO, NONE, PEERS, YES, Peer
from momentron.separability import check_separability
from momentron.verify import verify

SMALL = 400  # entries of X up to which a proof serves the mutations


def judge(truth: str, answer: str) -> str:
    """Right, wrong, none or late, of an answer to "separable?"."""
    if answer in (NONE, LATE):
        return answer
    return "right" if (truth == "separable") == (answer == YES) else "wrong"


def ours(problem: KnownProblem, cases: list[Case]) -> tuple[str, float]:
    """(right, wrong or no answer; seconds): the exact kind is asked of us, and a verified proof."""
    start = time.perf_counter()
    verdict = check_separability(
        problem.X, problem.y, fit_intercept=problem.fit_intercept, decimals="binary"
    )
    seconds = time.perf_counter() - start
    verify(verdict.to_json(), problem.X, problem.y)
    if problem.X.size <= SMALL:
        cases.append(Case(verdict.proof, problem.X, problem.y))
    if verdict.kind == "undecided":
        return NONE, seconds
    return ("right" if verdict.kind == problem.kind else "wrong"), seconds


def joint_cases() -> list[Case]:
    """Proofs about three classes: apart, touching and overlapping, for the mutations."""
    rng = np.random.default_rng(0)
    cases = []
    for shift in (100.0, 1.0, 0.0):
        X = rng.integers(0, 3, (12, 2)).astype(float)
        y = np.arange(12) % 3
        X[:, 0] += shift * y
        X[:, 1] += shift * (y == 1)
        for fit_intercept in (True, False):
            verdict = check_separability(X, y, fit_intercept=fit_intercept, decimals="binary")
            cases.append(Case(verdict.proof, X, y))
    return cases


def print_table(
    counts: dict[str, dict[str, Counter[str]]], totals: dict[str, Counter[str]]
) -> None:
    """A line for each family and system: wrong answers, none, time-outs."""
    print("| family | problems | " + " | ".join(counts) + " |")
    print("|---|---|" + "---|" * len(counts))
    for family, total in totals.items():
        cells = [_cell(counts[name][family]) for name in counts]
        print(f"| {family} | {total['problems']} | " + " | ".join(cells) + " |")
    everything = [_cell(sum(counts[name].values(), Counter())) for name in counts]
    problems = sum(total["problems"] for total in totals.values())
    print(f"| all | {problems} | " + " | ".join(everything) + " |")
    print("\nwrong / no answer / time-out; – where all answers are right")


def _cell(counts: Counter[str]) -> str:
    found = (counts["wrong"], counts[NONE], counts[LATE])
    return " / ".join(map(str, found)) if any(found) else "–"


def print_mutations(tally: Tally, seconds: float) -> None:
    """What became of each kind of mutation."""
    print("\n| mutation | rejected | still true |\n|---|---|---|")
    for name in MUTATIONS:
        print(f"| {name} | {tally.rejected[name]} | {tally.still_true[name]} |")
    done = tally.rejected.total() + tally.still_true.total() + len(tally.failures)
    print(f"\n{done} mutations, {len(tally.failures)} failures, {seconds:.1f} s")
    for failure in tally.failures[:20]:
        print("  ", failure)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the problems")
    parser.add_argument("--seconds", type=float, default=0.5, help="time limit of a peer")
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    options = parser.parse_args()
    peers = {name: Peer(name, options.seconds) for name in options.peers}
    counts: dict[str, dict[str, Counter[str]]] = {
        name: defaultdict(Counter) for name in ["momentron", *peers]
    }
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    cases: list[Case] = []
    spent = []
    for problem in all_problems(options.share):
        family = f"{problem.family}, {problem.kind}"
        totals[family]["problems"] += 1
        answer, seconds = ours(problem, cases)
        counts["momentron"][family][answer] += 1
        spent.append(seconds)
        for name, peer in peers.items():
            counts[name][family][judge(problem.kind, peer.answer(problem))] += 1
    for peer in peers.values():
        peer.close()
    print_table(counts, totals)
    print(
        f"momentron: {sum(spent):.1f} s, {np.median(spent):.4f} s median, {max(spent):.2f} s most"
    )
    if options.mutations:
        start = time.perf_counter()
        tally = mutate_all(cases + joint_cases(), options.mutations)
        print_mutations(tally, time.perf_counter() - start)


__all__ = ["NO", "judge", "main", "ours"]

if __name__ == "__main__":
    main()
