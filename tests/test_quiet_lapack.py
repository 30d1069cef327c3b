"""LAPACK prints on the terminal where it is given NaN, and may not return from infinities."""

import numpy as np
import pytest

from momentron.solvers.auto.gram_form import balanced_parts


def test_a_step_that_overflowed_is_refused_before_lapack_sees_it(capfd):
    Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for bad in (np.nan, np.inf, -np.inf):  # NaN first: an infinity might not come back
        for place in (1, 2):
            both = np.column_stack([np.ones(3), Y])
            both[:, place] = bad
            with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
                balanced_parts(both, Y, np.zeros(2))
            printed = capfd.readouterr()
            assert printed.out == printed.err == ""


def test_intercepts_that_rows_do_not_connect_take_the_least_change(capfd):
    Y = np.array([[1.0, 0.0], [1.0, 0.0]])
    z, db = balanced_parts(np.column_stack([np.array([3.0, 1.0]), Y]), Y, np.zeros(2))
    assert db.tolist() == pytest.approx([2.0, 0.0])
    assert (Y.T @ z).tolist() == pytest.approx([0.0, 0.0])
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""
