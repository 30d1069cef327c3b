"""The campaigns by name: how to make a trial, and what its child needs."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.hostile import (
    cuts,
    environments,
    files,
    interrupts,
    liar_matrix,
    random_problems,
    soft_optima,
    statistical_models,
)
from benchmarks.hostile.children import run_trials

GIB = 1 << 30


@dataclass(frozen=True)
class Campaign:
    """Trials of one sort.

    Attributes
    ----------
    name : str
    trial : callable
        (seed, number) ↦ why it failed, or None.
    count, quick : int
        How many trials there are by default, and in the quick version.
    seconds : float
        After which a trial is a hang.
    limits : dict
        Of `run_trials`.
    prepare : callable
        Called once, before any child is forked.
    """

    name: str
    trial: Callable[[int, int], str | None]
    count: int
    quick: int
    seconds: float
    limits: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None

    def run(self, seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, str | None]]:
        """(number, why it failed or None) of every trial."""
        self.prepare()
        yield from run_trials(
            lambda number: self.trial(seed, number),
            numbers,
            seconds=self.seconds,
            **self.limits,
        )


CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (
        Campaign("liars", liar_matrix.trial, len(liar_matrix.all_cells()), 300, 30.0),
        Campaign("problems", random_problems.trial, 20_000, 400, 60.0),
        Campaign(
            "models", statistical_models.trial, 5_000, 200, 60.0, prepare=statistical_models.prepare
        ),
        Campaign("soft", soft_optima.trial, 5_000, 60, 60.0),
        Campaign("cuts", cuts.trial, 5_000, 60, 60.0),
        Campaign("interrupts", interrupts.trial, 10_000, 200, 100.0),
        Campaign(
            "files",
            files.trial,
            1_000,
            60,
            20.0,
            {"memory": 4 * GIB, "is_fresh": True},
            files.prepare,
        ),
        Campaign("environments", environments.trial, 500, 36, 60.0, {"is_fresh": True}),
    )
}


@dataclass
class Tally:
    """What became of a campaign."""

    name: str
    seed: int
    trials: int = 0
    false: int = 0
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.failures

    def count(self, number: int, reason: str | None) -> str | None:
        """Enter a trial; one line on how to repeat it where it failed."""
        self.trials += 1
        if reason is None:
            return None
        self.hangs += reason.startswith("HANG")
        self.crashes += reason.startswith("CRASH")
        self.false += reason.startswith("FALSE")
        recipe = f"python -m benchmarks.hostile --seed {self.seed} --repeat {self.name}:{number}"
        self.failures.append(f"{recipe}  # {reason}")
        return self.failures[-1]


def run(
    name: str, seed: int, numbers: Sequence[int], say: Callable[[str], None] = lambda line: None
) -> Tally:
    """Make the trials of a campaign; `say` hears of progress and of each failure."""
    tally, start = Tally(name, seed), time.perf_counter()
    said = start
    for number, reason in CAMPAIGNS[name].run(seed, numbers):
        line = tally.count(number, reason)
        if line is not None:
            say(line)
        if time.perf_counter() - said > 10.0:
            said = time.perf_counter()
            say(f"{name}: {tally.trials} of {len(numbers)}, {len(tally.failures)} failures")
    tally.seconds = time.perf_counter() - start
    return tally
