"""The report: a table, a summary, JSON, and a picture."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from benchmarks.suite.solvers import ANOTHER_VARIANT, CLASSICS, REFERENCE
from benchmarks.suite.turns import Entry, ProblemResult

PACKAGES = (
    "momentron",
    "numpy",
    "scipy",
    "scikit-learn",
    "daqp",
    "piqp",
    "quadprog",
    "rehline",
    "osqp",
    "clarabel",
    "scikit-learn-intelex",
    "skglm",
)
SCORE_NAMES = {
    "separable": "1−margin/opt",
    "witness": "‖Zᵀq‖/R",
    "soft": "excess",
    "hinge": "excess",
}


@dataclass(frozen=True)
class Comparison:
    """momentron against the fastest peer that reaches the target, on one problem.

    `ratio` is peer seconds over momentron seconds, at least 1 where momentron wins; nan where no
    peer reaches the target. `classic_ratio` is the same against the better of LIBLINEAR and LIBSVM,
    which count with the time limit where neither reaches the target (`classic_reached` false).
    Where momentron does not certify its answer (`certified` false), `seconds` is the time limit.
    `cold` and `cold_ratio` are of first calls, each in a fresh process, against the peer that is
    the fastest then.
    """

    problem: str
    seconds: float
    certified: bool
    peer: str | None
    peer_seconds: float
    ratio: float
    classic_ratio: float
    classic_reached: bool
    cold: float = math.nan
    cold_peer: str | None = None
    cold_ratio: float = math.nan

    @property
    def losses(self) -> list[str]:
        """What is lost against the fastest peer, cold or warm: a line each."""
        lines = []
        if self.ratio < 1.0:
            lines.append(
                f"{self.problem}, warm: {_number(self.seconds)} s, {self.peer} "
                f"{_number(self.peer_seconds)} s, ratio {_number(self.ratio)}"
            )
        if self.cold_ratio < 1.0:
            lines.append(
                f"{self.problem}, cold: {_number(self.cold)} s, {self.cold_peer} "
                f"{_number(self.cold * self.cold_ratio)} s, ratio {_number(self.cold_ratio)}"
            )
        return lines


@dataclass(frozen=True)
class Summary:
    """One comparison a problem, and the geometric means over problems."""

    comparisons: tuple[Comparison, ...]
    mean_ratio: float
    classic_mean: float
    classic_mean_reached: float
    cold_mean: float = math.nan


def summarise(results: Sequence[ProblemResult]) -> Summary:
    """Compare momentron with the fastest peer, and with the better of LIBLINEAR and LIBSVM."""
    rows = tuple(_compare(result) for result in results)
    return Summary(
        rows,
        geometric_mean(row.ratio for row in rows),
        geometric_mean(row.classic_ratio for row in rows),
        geometric_mean(row.classic_ratio for row in rows if row.classic_reached),
        geometric_mean(row.cold_ratio for row in rows),
    )


def geometric_mean(values: Any) -> float:
    """Over the values that are numbers; nan where there are none."""
    logs = [math.log(v) for v in values if math.isfinite(v) and v > 0.0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _compare(result: ProblemResult) -> Comparison:
    own = result.reference
    certified = own.certified and _reaches(own, result)
    seconds = own.seconds if certified else result.limit
    peers = [e for e in result.entries if e.solver != REFERENCE and _reaches(e, result)]
    best = min(peers, key=lambda entry: entry.seconds, default=None)
    classics = [e for e in result.entries if e.solver in CLASSICS and e.status != "skipped"]
    reached = [e.seconds for e in classics if _reaches(e, result)]
    classic = math.nan
    # neither library offers a witness; and where nobody solves a problem, nobody wins
    if result.kind != "witness" and classics and (reached or certified):
        classic = min(reached, default=result.limit)
    peer_seconds = best.seconds if best else math.nan
    measured = [e for e in peers if math.isfinite(e.cold)]
    first = min(measured, key=lambda entry: entry.cold, default=None)
    cold = own.cold if certified else result.limit
    return Comparison(
        problem=result.name,
        seconds=seconds,
        certified=certified,
        peer=best.solver if best else None,
        peer_seconds=peer_seconds,
        ratio=peer_seconds / seconds,
        classic_ratio=classic / seconds,
        classic_reached=bool(reached),
        cold=cold,
        cold_peer=first.solver if first else None,
        cold_ratio=first.cold / cold if first else math.nan,
    )


def _reaches(entry: Entry, result: ProblemResult) -> bool:
    return entry.status == "ok" and entry.error <= result.target


def format_table(results: Sequence[ProblemResult]) -> str:
    """Every problem and solver: seconds, score, certified or not, ratio to momentron."""
    return "\n\n".join(_format_problem(result) for result in results)


def _format_problem(result: ProblemResult) -> str:
    own = result.reference.seconds
    lines = [
        f"{result.name}: {result.description} (limit {result.limit:.0f} s)",
        f"  {'solver':<16} {'seconds':>9} {'cold':>9} {SCORE_NAMES[result.kind]:>12} "
        f"{'certified':>9} {'ratio':>8}  note",
    ]
    skipped: dict[str, list[str]] = {}
    for entry in result.entries:
        if entry.status == "skipped" and entry.note == ANOTHER_VARIANT:
            continue
        if entry.status == "skipped":
            skipped.setdefault(entry.note, []).append(entry.solver)
        else:
            lines.append(_format_entry(entry, own))
    lines += [f"  not run: {', '.join(names)} ({why})" for why, names in skipped.items()]
    return "\n".join(lines)


def _format_entry(entry: Entry, own: float) -> str:
    sign = ">" if entry.status == "timeout" else ""
    seconds = f"{sign}{entry.seconds:.4g}" if math.isfinite(entry.seconds) else "–"
    ratio = f"{sign}{entry.seconds / own:.3g}" if math.isfinite(entry.seconds / own) else "–"
    error = f"{entry.error:.1e}" if entry.status == "ok" else "–"
    if entry.status == "failed":
        seconds = ratio = "–"
    cold = _number(entry.cold)
    certified = "yes" if entry.certified else "no"
    note = entry.note if entry.status == "ok" else f"{entry.status}: {entry.note}"
    columns = f"{seconds:>9} {cold:>9} {error:>12} {certified:>9} {ratio:>8}"
    return f"  {entry.solver:<16} {columns}  {note}".rstrip()


def format_summary(summary: Summary) -> str:
    """momentron against the fastest peer, problem by problem, and the geometric means."""
    lines = [
        "momentron, certified, against the fastest peer that reaches the target uncertified",
        "(ratio = peer seconds / momentron seconds; 1 and above is a win)",
        f"  {'problem':<22} {'seconds':>9} {'certified':>9}  {'fastest peer':<16} {'seconds':>9} "
        f"{'ratio':>8} {'cold':>9} {'cold ratio':>10} {'LIBLINEAR/SVM':>14}",
    ]
    for row in summary.comparisons:
        sign = "" if row.classic_reached else ">"
        classic = f"{sign}{row.classic_ratio:.3g}" if math.isfinite(row.classic_ratio) else "–"
        lines.append(
            f"  {row.problem:<22} {_number(row.seconds):>9} "
            f"{'yes' if row.certified else 'NO':>9}  {row.peer or 'none reaches it':<16} "
            f"{_number(row.peer_seconds):>9} {_number(row.ratio):>8} {_number(row.cold):>9} "
            f"{_number(row.cold_ratio):>10} {classic:>14}"
        )
    wins = sum(row.certified and not row.ratio < 1.0 for row in summary.comparisons)
    lines += [
        "",
        f"no slower than the fastest peer, and certified: {wins} of "
        f"{len(summary.comparisons)} problems; "
        f"geometric mean of the ratios {_number(summary.mean_ratio)}, of first calls "
        f"{_number(summary.cold_mean)}",
        "geometric mean against the better of LIBLINEAR and LIBSVM: "
        f"{_number(summary.classic_mean)} where a miss of the target counts with the time limit "
        f"(marked >), {_number(summary.classic_mean_reached)} over the problems they solve",
    ]
    losses = [line for row in summary.comparisons for line in row.losses]
    lines += ["", "lost: nothing"] if not losses else ["", "lost:", *(f"  {v}" for v in losses)]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def as_dict(results: Sequence[ProblemResult]) -> dict[str, Any]:
    """Everything measured, with what it was measured on; nan and inf become null."""
    return _plain(
        {
            "environment": environment(),
            "results": [asdict(result) for result in results],
            "summary": asdict(summarise(results)),
        }
    )


def environment() -> dict[str, Any]:
    """The machine and the versions, without anything that names its owner."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_json(results: Sequence[ProblemResult]) -> str:
    return json.dumps(as_dict(results), indent=2) + "\n"


def draw(results: Sequence[ProblemResult]) -> Any:
    """Time ratios to momentron on a log axis, one line of marks a problem.

    Full marks reach the target, hollow ones do not; arrows were killed at the time limit.
    """
    from momentron.views.display.style import saved_figure

    height = 1.5 + 0.35 * len(results)
    figure, axes = saved_figure(size=(9.0, height))
    run = (e.solver for r in results for e in r.entries if e.status in ("ok", "timeout"))
    names = list(dict.fromkeys(run))
    colours = {name: f"C{i % 10}" for i, name in enumerate(n for n in names if n != REFERENCE)}
    for row, result in enumerate(results):
        own = result.reference.seconds
        for entry in result.entries:
            ratio = entry.seconds / own
            if entry.solver == REFERENCE or entry.status == "failed" or not math.isfinite(ratio):
                continue
            reached, colour = _reaches(entry, result), colours[entry.solver]
            marker = ">" if entry.status == "timeout" else "o"
            face = colour if reached else "none"
            axes.plot(ratio, row, marker, color=colour, markerfacecolor=face, markersize=7)
    for name, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=name)
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yticks(range(len(results)), [result.name for result in results])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        "seconds / momentron's certified seconds  "
        "(hollow: misses the target; triangle: killed at the limit)"
    )
    if colours:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure
