"""`python -m benchmarks.hostile`: every campaign against the library, and a table of what it found.

Exit code 0: no false answer, no crash, no hang. 1: some.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.hostile.campaigns import CAMPAIGNS, Tally, run
from benchmarks.hostile.environments import is_supported


def main() -> int:
    options = _options()
    if options.repeat:
        return _repeat(options.repeat, options.seed)
    tallies = []
    for name in CAMPAIGNS:
        count = getattr(options, name)
        if name == "environments" and not is_supported():
            print("environments: left out, for x86-64 with glibc only")
            continue
        if count:
            tallies.append(run(name, options.seed, range(count), _say))
    _say(table(tallies))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1))
    return 0 if all(tally.is_clean for tally in tallies) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    for name, campaign in CAMPAIGNS.items():
        text = f"trials; {campaign.count} by default, 0 for none"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part of each campaign")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts and recipes")
    parser.add_argument("--repeat", metavar="CAMPAIGN:NUMBER", help="make one trial again")
    options = parser.parse_args()
    for name, campaign in CAMPAIGNS.items():
        asked = getattr(options, name)
        default = campaign.quick if options.quick else campaign.count
        most = campaign.count if name == "liars" else sys.maxsize
        setattr(options, name, min(most, default if asked is None else max(0, asked)))
    return options


def _repeat(what: str, seed: int) -> int:
    """One trial in a child, as the campaign made it."""
    name, _, number = what.partition(":")
    first = int(number)
    tally = run(name, seed, range(first, first + 1), _say)
    _say("true" if tally.is_clean else "failed")
    return 0 if tally.is_clean else 1


def table(tallies: list[Tally]) -> str:
    """The counts of each campaign, one line each."""
    lines = [f"{'campaign':<14}{'trials':>8}{'false':>8}{'crashes':>9}{'hangs':>7}{'seconds':>9}"]
    lines += [
        f"{t.name:<14}{t.trials:>8}{t.false:>8}{t.crashes:>9}{t.hangs:>7}{t.seconds:>9.0f}"
        for t in tallies
    ]
    return "\n".join(lines)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
