"""The page shows how much of each constant the tests use, and no share is above 1."""

import power
import pytest
from literal import lone, lopsided
from shares import Followed, copies, of_interval, of_potential, of_theorem_3_1


def shown():
    """The power of each row, as the page has it."""
    lines, rows = power.rows_of(power.PAGE.read_text("utf-8"))
    cells = {key: power.cells_of(lines[place]) for place, key in rows if key is not None}
    return {key: row[power.COLUMN] for key, row in cells.items()}


SLOW = {"Theorem 4.1", "Lemma D.1", "Lemma D.2", "Section 1"}
KEYS = [pytest.param(k, marks=pytest.mark.slow if k[0] in SLOW else ()) for k in power.POWERS]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: " ".join(key).strip())
def test_the_page_shows_the_power_of_the_tests(key):
    found = power.POWERS[key]()
    on_page = [float(value) for value in shown()[key].split(" and ")]
    computed = found if isinstance(found, tuple) else (found,)
    for value, share in zip(on_page, computed, strict=True):
        assert share == pytest.approx(value, abs=0.005 if value > 0.095 else 0.0, rel=0.05)
        assert share <= 1 + 1e-9


def test_every_power_has_its_row():
    assert set(shown()) == set(power.POWERS)
    assert power.key_of(["Theorem 3.1, part 1", "anything"]) == ("Theorem 3.1, part 1", "")
    assert power.key_of(["Section 99", "anything"]) is None
    assert power.as_shown((0.9041, 0.00291)) == "0.90 and 0.0029"


def test_shares_above_1_are_seen():
    """A smaller constant, a larger γ̄: the shares refute what is false."""
    run = copies(lopsided, 0.9, 10**6)
    assert max(of_theorem_3_1(run, 0.9) / 0.1) > 1.0  # 0.4 in place of 4
    assert max(of_potential(run, 0.91)) > 1.0
    assert max(of_interval(copies(lone, 0.0, 10**6), 0.0) * 8 / 1.5) > 1.0  # 1.5 in place of 8
    assert max(of_potential(Followed(*power.small()), 0.2)) > 1.0
