"""How the networks of figure 4 are judged: noise is taken out, and each verdict can be had."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from paper import grid_report, grid_statistics
from paper.grid import CELLS, Grid, Job
from paper.grid_report import grid_details
from paper.grid_statistics import Outcome, examples, judge, most_mixed, summarise

GRID = Grid()


def network(cell, seed, only_first, only_last, *, images=1000, fitted=True, places=None):
    """A network with so many images that only the first kernel, or only the last, gets wrong."""
    first, last = np.zeros((2, images), bool)
    order = np.arange(images) if places is None else places
    first[order[:only_first]] = True
    last[order[only_first : only_first + only_last]] = True
    answers = {"wrong": (first, last), "pair_wrong": (last, first)}
    job = Job(cell, seed, images, 32, GRID.training, GRID.tol)
    return Outcome(job, fitted, 100, 1e-3, answers, ((0.1, 0.1), (0.2, 0.2)), 0.5)


def spread_out(images=1000, seed=0):
    return np.random.default_rng(seed).permutation(images)


def test_the_noise_of_the_images_is_taken_out():
    """Seeds with true differences N(m, s²): mean and spread come back, noise aside."""
    rng = np.random.default_rng(0)
    images, seeds, mean, between = 2000, 400, -0.01, 0.01
    shared = rng.normal(0.0, 0.05, images)  # what all seeds share on an image is no noise
    outcomes = []
    for seed in range(seeds):
        shift = rng.normal(mean, between) + shared - shared.mean()
        up = np.clip(0.1 + shift / 2.0, 0.0, 1.0)
        first = np.zeros(images, bool)
        last = np.zeros(images, bool)
        draw = rng.random(images)
        last[draw < up] = True
        first[draw > 1.0 - np.clip(0.1 - shift / 2.0, 0.0, 1.0)] = True
        job = Job(CELLS[0], seed, images, 32, GRID.training, GRID.tol)
        outcomes.append(Outcome(job, True, 1, 0.0, {"wrong": (first, last)}, ((0, 0), (0, 0)), 0.0))
    found = summarise(outcomes, 0.05)
    assert abs(found.mean - mean) < 2.0 * (found.high - found.mean)
    assert found.between == pytest.approx(between, rel=0.15)
    raw = np.std([o.difference() for o in outcomes], ddof=1)
    assert raw > 1.2 * between  # what it would be with the noise
    assert found.noise == pytest.approx(np.sqrt(0.2 / images), rel=0.05)


def test_seeds_that_agree_have_no_spread():
    same = [network(CELLS[0], s, 30, 10, places=spread_out(seed=s)) for s in range(5)]
    found = summarise(same, 0.05)
    assert found.mean == pytest.approx(-0.02)
    assert found.between == 0.0
    assert found.above == 0
    assert found.bound == pytest.approx(1.0 - 0.05 ** (1 / 5))
    one = summarise(same[:1], 0.05)
    assert np.isinf(one.high)
    assert np.isnan(one.between)


@pytest.mark.parametrize(("count", "trials"), [(0, 24), (3, 60), (59, 60), (60, 60)])
def test_the_bound_is_clopper_and_pearson_s(count, trials):
    interval = binomtest(count, trials).proportion_ci(0.9, method="exact")
    assert grid_statistics.upper_bound(count, trials, 0.05) == pytest.approx(interval.high)


def test_the_normal_bound_covers():
    """True probability Φ(−1) = 0.159: the bound is below it in 5% of draws."""
    rng = np.random.default_rng(0)
    bounds = [grid_statistics.normal_bound(rng.normal(-1.0, 1.0, 21), 0.05) for _ in range(2000)]
    assert 0.035 < np.mean(np.array(bounds) < 0.15866) < 0.065
    assert np.isnan(grid_statistics.normal_bound(np.array([-1.0]), 0.05))


def test_mcnemar_is_exact():
    changes = np.array([1] * 9 + [-1] * 3 + [0] * 50)
    expected = binomtest(9, 12, alternative="greater").pvalue
    assert grid_statistics.mcnemar(changes) == pytest.approx(expected)
    assert grid_statistics.mcnemar(-changes) > 0.9
    assert grid_statistics.mcnemar(np.zeros(5)) == 1.0


def test_holm_is_stricter_than_each_test_alone():
    assert grid_statistics.holm([0.03, 0.03], 0.05) == [False, False]
    assert grid_statistics.holm([0.024, 0.03], 0.05) == [True, True]
    assert grid_statistics.holm([], 0.05) == []


def test_examples_are_chosen_on_one_half_and_tested_on_the_other():
    even, odd = np.arange(0, 1000, 2), np.arange(1, 1000, 2)
    lucky = network(CELLS[0], 1, 0, 40, places=np.concatenate([even, odd]))  # even images only
    honest = network(CELLS[0], 2, 0, 80, places=spread_out())
    found = {e.outcome.job.seed: e for e in examples([[lucky, honest]], 5, 0.05)}
    assert found[1].initial
    assert found[1].chosen == pytest.approx(0.08)
    assert found[1].tested == 0.0
    assert not found[1].confirmed
    assert found[2].confirmed
    assert all(not e.confirmed for e in examples([[lucky] * 6], 5, 0.05))
    assert len(examples([[lucky] * 6], 5, 0.05)) == 5
    unfitted = network(CELLS[0], 3, 0, 80, places=spread_out(), fitted=False)
    assert examples([[unfitted]], 5, 0.05) == []


def many(cell, count, only_first, only_last, **options):
    return [
        network(cell, seed, only_first, only_last, places=spread_out(seed=seed), **options)
        for seed in range(count)
    ]


def test_verdicts():
    final = many(CELLS[0], 30, 90, 30)
    nothing = judge(GRID, final, [])
    assert nothing.found is False
    assert nothing.words == f"not found, probability below {1 - 0.05 ** (1 / 30):.2g}"
    assert nothing.counted == "30 fitted networks of all cells that ran"
    few = judge(GRID, final[:5], [])
    assert few.found is None
    assert few.words == "undecided"
    initial = network(CELLS[0], 99, 20, 120, places=spread_out())
    both = judge(GRID, [*final, initial], [])
    assert both.found
    assert both.words == f"found ({CELLS[0].words})"
    elsewhere = network(CELLS[1], 99, 20, 120, places=spread_out())
    assert not judge(GRID, [*final, elsewhere], []).found  # another cell is not another seed
    doubtful = judge(GRID, [*final, *many(CELLS[0], 8, 40, 44)], [])
    assert doubtful.found is None  # too many above 0, none confirmed
    never_fitted = network(CELLS[0], 99, 20, 120, places=spread_out(), fitted=False)
    assert judge(GRID, [*final, never_fitted], []).words == nothing.words
    assert judge(GRID, [], []).words == "undecided"


def test_verdicts_without_the_rule_that_a_network_must_fit():
    final = many(CELLS[0], 30, 90, 30)
    same = grid_report.switches_unfitted(GRID, final, [])
    assert same.verdict == judge(GRID, final, []).words
    unfitted = network(CELLS[1], 99, 20, 120, places=spread_out(), fitted=False)
    claim = grid_report.switches_unfitted(GRID, [*final, unfitted], [])
    assert claim.verdict == "undecided"
    assert claim.holds is None
    assert claim.measured["of these confirmed"] == 1
    assert claim.measured[f"{CELLS[1].words}, seed 99:"].startswith("+10.00 points")
    astray = replace(unfitted, loss=None)
    assert grid_report.switches_unfitted(GRID, [*final, astray], []).verdict == same.verdict
    there = network(CELLS[0], 99, 20, 120, places=spread_out(), fitted=False)
    assert grid_report.switches_unfitted(GRID, [*final, there], []).holds


def test_the_cell_nearest_to_the_paper_is_judged_by_its_seeds():
    few = grid_report.switches_nearby(dict.fromkeys(range(7), -0.05), GRID)
    assert few.verdict == "undecided"
    assert few.measured["bound on the probability that it is better"] == pytest.approx(
        1.0 - 0.05 ** (1 / 7)
    )
    many_seeds = grid_report.switches_nearby(dict.fromkeys(range(20), -0.05), GRID)
    assert many_seeds.verdict == "not found, probability below 0.14"
    assert grid_report.switches_nearby({1: 0.05, 2: -0.05}, GRID).verdict == "undecided"
    assert grid_report.switches_nearby({}, GRID).verdict == "undecided"


def test_the_large_stage_is_judged_by_itself():
    screen = many(CELLS[0], 3, 90, 30)
    large = [*many(CELLS[2], 60, 90, 30), *many(CELLS[5], 59, 90, 30)]
    verdict = judge(GRID, screen, large)
    assert verdict.bound == pytest.approx(1.0 - 0.05 ** (1 / 59))
    assert verdict.counted == f"59 fitted networks, {CELLS[5].words}"
    too_few = judge(GRID, screen, [*large[:60], *large[60:70]])
    assert too_few.counted.startswith("73 fitted networks of all cells that ran")


def test_networks_that_share_seeds_are_not_called_independent():
    pairs = [*many(CELLS[0], 20, 90, 30), *many(CELLS[1], 20, 90, 30)]
    verdict = judge(GRID, pairs, [])
    assert verdict.bound == pytest.approx(1.0 - 0.05 ** (1 / 40))
    assert verdict.counted.endswith("all cells that ran, not independent: they have 20 seeds")
    large = [*many(CELLS[2], 60, 90, 30), *many(CELLS[5], 60, 90, 30)]
    assert "independent" not in judge(GRID, pairs, large).counted  # each cell by itself


def test_the_most_mixed_cells_go_on():
    screen = [
        *many(CELLS[0], 3, 90, 30),
        *many(CELLS[1], 3, 30, 35),
        *many(CELLS[2], 1, 30, 30),  # too few are fitted
        *many(CELLS[2], 2, 30, 30, fitted=False),
        *many(CELLS[3], 2, 40, 30),
        *many(CELLS[4], 3, 30, 90),
    ]
    assert most_mixed(GRID, screen) == (CELLS[1], CELLS[3])
    assert most_mixed(GRID, screen[:3]) == (CELLS[0],)
    assert most_mixed(GRID, []) == ()


def test_claims_follow():
    final = many(CELLS[0], 30, 90, 30)
    claim = grid_report.switches(judge(GRID, final, []), final)
    assert claim.holds is None  # not found is not refuted
    assert claim.verdict.startswith("not found, probability below")
    assert claim.measured["initial kernel better"] == 0
    assert claim.left_open().verdict == "not judged"
    assert grid_report.errors_improve(final).holds
    assert not grid_report.errors_improve(many(CELLS[0], 3, 30, 90)).holds
    assert grid_report.errors_improve([]).holds is None
    assert grid_report.margins_improve(final).holds
    smaller = [replace(each, margins=each.margins[::-1]) for each in final]
    assert not grid_report.margins_improve(smaller).holds
    seed = grid_report.not_testable("", "", grid_report.comparison(*final[0].answers["wrong"]))
    assert seed.verdict == "not testable"
    assert seed.any_size  # so that small runs say the same
    assert seed.measured["difference"] == pytest.approx(-0.06)


def test_details_name_everything_that_ran():
    ran = [*many(CELLS[0], 3, 90, 30), *many(CELLS[1], 2, 30, 60, fitted=False)]
    text = grid_details(GRID, {"Screen": (ran, 48)}, judge(GRID, ran, []))
    assert "### Screen: 5 of 48 networks ran" in text
    assert "**Verdict: undecided.**" in text
    assert f"| {CELLS[0].words} | 3 |" in text
    assert f"| {CELLS[1].words} | 0 | 100 |" in text
    assert "+3.00" in text  # of the unfitted
    assert "−6.00" in text
    assert text.count("| final |") == 3
    assert "43 registered networks have not run yet" in text


def test_answers_are_packed():
    wrong = np.random.default_rng(0).random(2001) < 0.7
    assert np.array_equal(grid_statistics.unpacked(grid_statistics.packed(wrong), 2001), wrong)
