"""Tangent kernels compared with torch.func's recipes: ``python -m benchmarks.tangent_kernel``.

The n × n kernel, summed over ten outputs, of a dense network, a residual network and a small
transformer, by `EmpiricalNTK` and by what PyTorch's tutorial on neural tangent kernels documents:

- *Jacobian contraction*: `vmap(jacrev)` writes out the Jacobians of two blocks of examples, which
  are multiplied; blocks are as large as the same memory limit allows, each pair is done once.
- *NTK-vector products*: for each pair of examples and each output a `vjp`, then a `jvp`.
- *gradients output by output*: the same contraction with one output at a time, `vmap(grad)`, which
  has blocks ten times as large (not in the tutorial, but what its readers do next).

The tutorial has no third strategy: structured derivatives exist in neural-tangents (JAX) alone.
With ``--jax PYTHON``, an interpreter that has it, its three implementations run on the dense
network too, each compiled first.

Every way has a process of its own, and all run in turn, ``--repeats`` times; the best run counts.
Memory is its peak beyond model and examples. A run that takes longer than ``--seconds`` is stopped,
scaled by the share of pairs done, and marked ≈. ``--row GPT --n 200`` is one row, which takes at
most ten times ``--seconds``; ``--page`` writes it into the table of a page. Needs the extra `ntk`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tangent_kernel import jax_peer, page
from benchmarks.tangent_kernel.kernel_worker import Run, Task, Worker
from benchmarks.tangent_kernel.strategies import STRATEGIES
from momentron.data.arguments import parse_size
from tests.networks import MODELS

OURS = "EmpiricalNTK"


def measure(name: str, n: int, options: argparse.Namespace) -> dict[str, list[Run] | str]:
    """The runs of each way, or why it has none."""
    limit = parse_size(options.max_memory)
    workers = {
        way: Worker(Task(name, way, n, limit, options.threads, options.seconds))
        for way in STRATEGIES
    }
    found: dict[str, Any] = {way: [] for way in workers}
    for _ in range(options.repeats):
        for way, worker in workers.items():
            runs = found[way]
            spent = sum(run.seconds for run in runs)
            if isinstance(runs, str) or spent > 0.7 * options.seconds:
                continue  # a run that was stopped, or so long a one, is not repeated
            run = worker.run()
            if run is None:
                found[way] = f"died within {options.max_memory}"
            else:
                runs.append(run)
    for worker in workers.values():
        worker.close()
    if options.jax and name == "MLP":
        for way in jax_peer.WAYS:
            runs, why = jax_peer.runs(
                options.jax,
                way,
                n,
                repeats=options.repeats,
                threads=options.threads,
                seconds=2.0 * options.seconds,
            )
            found[f"JAX, {way.lower().replace('_', ' ')}"] = runs or why
    return found


def rows_of(found: dict[str, list[Run] | str]) -> list[list[str]]:
    """The cells of each way's row."""
    ours = found[OURS]
    assert not isinstance(ours, str), ours
    base, rows = _best(ours), []
    for way, runs in found.items():
        if isinstance(runs, str):
            rows.append([way, runs, "", "", "", ""])
            continue
        best, peak = _best(runs), max(run.n_bytes for run in runs) / 1e6
        about = "≈ " if runs[0].share < 1.0 else ""
        cells = [f"{about}{best[0]:.2f}", f"{about}{best[1]:.2f}", f"{peak:,.0f}"]
        if way != OURS:
            cells += [f"{about}{best[0] / base[0]:.2f}", f"{about}{best[1] / base[1]:.2f}"]
        rows.append([way, *cells, *[""] * (5 - len(cells))])
    return rows


def _best(runs: list[Run]) -> tuple[float, float]:
    """The least seconds, and the least of the processor, of a whole kernel."""
    return (
        min(run.seconds / run.share for run in runs),
        min(run.cpu_seconds / run.share for run in runs),
    )


def agreement(found: dict[str, list[Run] | str]) -> str:
    """How far other kernels that were finished are from ours, over its largest entry."""
    kernels = {
        way: run.kernel
        for way, runs in found.items()
        if not isinstance(runs, str)
        for run in runs[:1]
        if run.kernel is not None
    }
    ours = kernels.pop(OURS)
    if not kernels:
        return "no other was finished"
    apart = max(np.abs(kernel - ours).max() for kernel in kernels.values()) / ours.max()
    return f"others differ by {apart:.0e}"


def main(arguments: Any = None) -> None:
    """Print all rows, and write them into a page if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = {name.lower(): name for name in MODELS}
    parser.add_argument("--n", type=int, nargs="+", default=[200, 1000], help="numbers of examples")
    parser.add_argument(
        "--row", type=str.lower, nargs="+", default=list(names), choices=list(names)
    )
    parser.add_argument("--max-memory", default="1GB", help="limit for all ways (default 1GB)")
    parser.add_argument("--seconds", type=float, default=60.0, help="then a run is stopped")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each way (default 3)")
    parser.add_argument("--threads", type=int, default=2, help="torch's threads (default 2)")
    parser.add_argument("--jax", help="a Python that has neural-tangents")
    parser.add_argument("--page", type=Path, help="write the rows into this page's table")
    options = parser.parse_args(arguments)
    print(
        f"torch {torch.__version__}, {options.threads} threads, float32, limit {options.max_memory}"
    )
    for n in options.n:
        for name in (names[row] for row in options.row):
            found = measure(name, n, options)
            entries = sum(p.numel() for p in MODELS[name][0]().parameters())
            print(f"{name}, {entries:,} parameters, n = {n:,}; {agreement(found)}")
            rows = rows_of(found)
            for way, *cells in rows:
                print(f"    {way:<29}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
            if options.page is not None:
                page.write(options.page, name, n, rows)


if __name__ == "__main__":
    main()
