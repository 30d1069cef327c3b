"""Threads that share one problem with a kernel: no column makes way while another uses it."""

import threading

import numpy as np

from momentron.rows import KernelOperator
from momentron.rows.kernels import GaussianKernel


def test_threads_share_a_small_cache():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    bound = GaussianKernel(0.5).bind(X)
    K = bound.block(slice(None), slice(None))
    operator = KernelOperator(bound, 8 * 120 * 15)
    wrong = []

    def work(seed):
        own = np.random.default_rng(seed)
        for _ in range(150):
            index = np.sort(own.permutation(120)[:12])
            a = own.normal(size=12)
            if not np.allclose(operator.along(index, a)[2], K[:, index] @ a, atol=1e-12):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
