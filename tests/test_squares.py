"""Parts of square matrices: the same in threads as without."""

import numpy as np
import pytest

from momentron.arithmetic.squares import submatrix
from momentron.arithmetic.threads import shares_of
from momentron.solvers.auto.working_rows import SignedRows

SIZES = [1, 5, 127, 128, 129, 1100]  # the last is worth dividing


def square(n, dtype=np.float64):
    return np.random.default_rng(n).random((n, n)).astype(dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_submatrix(n, dtype):
    K, index = square(n + 40, dtype), np.sort(np.random.default_rng(0).permutation(n + 40)[:n])
    expected = K[index][:, index]
    assert submatrix(K, index).dtype == dtype
    assert np.array_equal(submatrix(K, index), expected)
    single = np.empty((n, n), np.float32)
    assert submatrix(K, index, single) is single
    assert np.array_equal(single, expected.astype(np.float32))


@pytest.mark.parametrize("n", SIZES)
def test_signs(n):
    X, signs = square(n)[:, :3], np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    ones = np.ones(n)
    K, signed = (SignedRows(X, y, None, 1.0).gram() for y in (ones, signs))
    assert np.array_equal(signed, K * np.outer(signs, signs))


@pytest.mark.parametrize("rows", [1, 2, 999, 10_000])
def test_shares_cover_all_rows_once(rows):
    for amount in (10, 10**6, 10**9):
        parts = shares_of(rows, amount, 10**6, 10**5)
        assert [i for part in parts for i in range(rows)[part]] == list(range(rows))
        assert len(parts) == 1 or all(part.stop > part.start for part in parts)
