"""neural-tangents on the dense network, in an interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess

from benchmarks.tangent_kernel.kernel_worker import Run

WAYS = ("JACOBIAN_CONTRACTION", "NTK_VECTOR_PRODUCTS", "STRUCTURED_DERIVATIVES")

PROGRAM = """
import json, resource, sys, time
import jax, neural_tangents as nt
from neural_tangents import stax
way, n, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
layers = [stax.Dense(512), stax.Relu(), stax.Dense(512), stax.Relu(), stax.Dense(10)]
init, apply, _ = stax.serial(*layers)
X = jax.random.normal(jax.random.PRNGKey(1), (n, 256))
_, params = init(jax.random.PRNGKey(0), X.shape)
one = nt.empirical_ntk_fn(apply, implementation=getattr(nt.NtkImplementation, way))
block = next(b for b in (50, 40, 25, 20, 10, 5, 4, 2, 1) if n % b == 0)
kernel = nt.batch(one, batch_size=block, store_on_device=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kernel(X[:2 * block], None, params)  # compiles
for _ in range(repeats):
    start, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(kernel(X, None, params))
    spent = [time.perf_counter() - start, time.process_time() - cpu]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([*spent, 1024 * (peak - before)]), flush=True)
"""


def runs(
    python: str, way: str, n: int, *, repeats: int, threads: int, seconds: float
) -> tuple[list[Run], str]:
    """Its runs within the time, compilation included in that, and why there are no more."""
    environment = dict(os.environ)
    if threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        environment["OMP_NUM_THREADS"] = "1"
    command = [python, "-c", PROGRAM, way, str(n), str(repeats)]
    options = {"capture_output": True, "text": True, "env": environment, "timeout": seconds}
    try:
        done = subprocess.run(command, **options)  # type: ignore[call-overload]
        printed, why = done.stdout, ""
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "Error" in line]
            why = errors[-1] if errors else f"exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or ""
        printed = printed if isinstance(printed, str) else printed.decode()
        why = f"not done in {seconds:.0f} s"
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    return [Run(wall, cpu, peak, 1.0, None) for wall, cpu, peak in found], why
