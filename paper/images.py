"""The images of figure 4: the first batch of CIFAR-10, pinned by content, and draws from it."""

import numpy as np

from momentron.datasets import load
from momentron.errors import InputError
from paper.sample import Sample

IMAGE = (3, 32, 32)
POOL = 10_000
"""Images of the first training batch; further batches in the folder are not looked at."""
PINNED = "7b328caecebb16e384bfc9ac4340ef0c"
"""The fingerprint of pool and test images as they are used here."""


def cifar_pool() -> Sample:
    """The first training batch and all test images, as rows scaled from [0, 1] to [−1, 1].

    Raises
    ------
    InputError
        Where the files are not the published ones: other images would give other results.
    """
    data = load("cifar10", dtype=np.float32)
    pool = pool_of(data.X[:POOL], data.y[:POOL], data.X_test, data.y_test)
    if pool.fingerprint != PINNED:
        raise InputError(
            "cifar10/data_batch_1.bin or test_batch.bin is not the published file (fingerprint "
            f"{pool.fingerprint}, expected {PINNED}); get the binary version of CIFAR-10 again"
        )
    return pool


def pool_of(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Sample:
    """Images in [0, 1] as the networks read them: less 0.5, over 0.5."""
    X, X_test = ((images - np.float32(0.5)) / np.float32(0.5) for images in (X, X_test))
    title = f"CIFAR-10, a pool of {len(X):,} images to draw from, {len(X_test):,} to test on"
    return Sample(X, y, X_test, y_test, title)


def draw(pool: Sample, seed: int, count: int, tests: int) -> Sample:
    """The images that a seed draws to train on, and so many test images, evenly spaced.

    Parameters
    ----------
    pool : Sample
    seed : int
        The same seed draws the same images in every cell of the grid.
    count, tests : int
    """
    rows = np.random.default_rng(seed).choice(len(pool.y), count, replace=False)
    rows.sort()
    kept = np.arange(tests) * pool.y_test.size // tests
    title = f"CIFAR-10, {count} images drawn by seed {seed}, {tests:,} to test on"
    return Sample(pool.X[rows], pool.y[rows], pool.X_test[kept], pool.y_test[kept], title)
