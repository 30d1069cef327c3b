"""The tangent kernel of AlexNet: ``python -m benchmarks.tangent_kernel``.

Time of `EmpiricalNTK` on 128 × 128 random images against chunked Jacobian contraction (for each
output and each block of images `torch.func.jacrev` writes out the gradients of every parameter, and
blocks are multiplied), in turn in one process; peak resident memory beyond model and images, in a
fresh process for each limit; and the time of a 10,000 × 128 kernel. ``--quick`` takes 32 images in
place of 128 and 1,000 in place of 10,000. Jacobians take 6 GB of memory. Needs the extra `ntk`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, jacrev, vmap

from benchmarks.memory import peak_resident
from momentron.arguments import parse_size
from momentron.ntk import EmpiricalNTK, alexnet

LIMITS = ("256MB", "2GB")
JACOBIAN_BLOCK = 32  # images; two blocks of AlexNet's gradients take 5.2 GB


def images(n: int, seed: int) -> torch.Tensor:
    """Random images of CIFAR-10's shape."""
    return torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def jacobian_kernel(
    model: torch.nn.Module, X: torch.Tensor, n_outputs: int, block: int = JACOBIAN_BLOCK
) -> np.ndarray:
    """The kernel by Jacobians, one output and two blocks of examples at a time, each pair once."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    n = len(X)
    kernel = np.zeros((n, n))

    def gradients(rows: slice, o: int) -> dict[str, torch.Tensor]:
        def output(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return functional_call(model, parameters, (x.unsqueeze(0),))[0, o]

        jacobian: dict[str, torch.Tensor]
        jacobian = vmap(jacrev(output), (None, 0))(parameters, X[rows])
        return jacobian

    blocks = [slice(start, min(start + block, n)) for start in range(0, n, block)]
    for o in range(n_outputs):
        for i, rows in enumerate(blocks):
            left = gradients(rows, o)
            for columns in blocks[i:]:
                right = left if columns is rows else gradients(columns, o)
                for name in parameters:
                    part = left[name].flatten(1) @ right[name].flatten(1).T
                    kernel[rows, columns] += part.numpy()
                del right
    upper = np.triu(kernel)
    return upper + np.triu(kernel, 1).T


@dataclass(frozen=True)
class Time:
    """Seconds on the clock and of all cores together; on a busy machine the latter say more."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.clock:.1f} s ({self.cpu:.1f} s of CPU)"


def timed(action: Callable[[], Any]) -> tuple[Time, Any]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = action()
    return Time(time.perf_counter() - clock, time.process_time() - cpu), result


def compare(n: int) -> None:
    """Both ways on the same images."""
    model, X = alexnet(), images(n, 0)
    ntk = EmpiricalNTK(model)
    ntk(X[:4])
    jacobian_kernel(model, X[:2], 1)
    ours, kernel = timed(lambda: ntk(X))
    theirs, reference = timed(lambda: jacobian_kernel(model, X, 10))
    error = np.abs(kernel - reference).max() / np.abs(reference).max()
    print(f"{n} × {n} images, float32")
    print(f"  EmpiricalNTK, max_memory 1GB        {ours}")
    print(f"  Jacobian contraction, 32 at a time  {theirs}")
    print(f"  time ours / theirs                  {ours.clock / theirs.clock:.4f}")
    print(f"  largest difference / largest entry  {error:.1e}", flush=True)


def peak_memory(n: int, limit: str, threads: int) -> tuple[Time, int]:
    """(time, peak bytes beyond model and images) of one kernel in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_report_peak, args=(theirs, n, limit, threads), daemon=True)
    child.start()
    theirs.close()
    try:
        seconds, peak = ours.recv()
    except EOFError:
        child.join()
        raise MemoryError(f"the child process died (exit code {child.exitcode})") from None
    child.join()
    return seconds, peak


def _report_peak(connection: Connection, n: int, limit: str, threads: int) -> None:
    torch.set_num_threads(threads)
    model, X = alexnet(), images(n, 0)
    ntk = EmpiricalNTK(model)
    ntk(X[:2], max_memory="64MB")
    before = peak_resident(reset=True)
    seconds, _ = timed(lambda: ntk(X, max_memory=limit))
    connection.send((seconds, peak_resident() - before))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="32 and 1,000 images")
    parser.add_argument("--threads", type=int, default=2, help="torch's threads (default 2)")
    options = parser.parse_args()
    n, n_test = (32, 1_000) if options.quick else (128, 10_000)
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads")
    for limit in LIMITS:
        seconds, peak = peak_memory(n, limit, options.threads)
        ratio = peak / parse_size(limit)
        print(
            f"{n} × {n} images, max_memory {limit}: {seconds}, "
            f"peak {peak / 1e6:.0f} MB = {ratio:.2f} of the limit",
            flush=True,
        )
    ntk, X1, X2 = EmpiricalNTK(alexnet()), images(n_test, 1), images(128, 2)
    seconds, _ = timed(lambda: ntk(X1, X2))
    print(f"{n_test:,} × 128 images: {seconds}", flush=True)
    compare(n)


if __name__ == "__main__":
    main()
