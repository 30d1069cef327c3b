"""A small version of the false-verdict benchmark: every truth found, every mutation judged."""

from collections import Counter

import pytest

from benchmarks.false_verdicts.__main__ import joint_cases, judge, ours
from benchmarks.false_verdicts.known_problems import all_problems, four_points
from benchmarks.false_verdicts.mutations import MUTATIONS, is_true, mutate_all
from benchmarks.false_verdicts.peers import LATE, NO, PEERS, YES, Peer


def test_there_are_over_three_thousand_problems_of_every_kind():
    kinds = Counter(problem.kind for problem in all_problems())
    assert sum(kinds.values()) >= 3000
    assert min(kinds.values()) > 500


@pytest.mark.adversarial
def test_every_verdict_is_right_and_every_mutation_judged():
    cases = joint_cases()
    assert {case.proof["kind"] for case in cases} == {"separable", "quasi-separable", "overlapping"}
    for problem in all_problems(0.025):
        answer, _ = ours(problem, cases)
        assert answer == "right", problem
    tally = mutate_all(cases, 600, seed=1)
    assert tally.failures == []
    assert tally.rejected.total() + tally.still_true.total() == 600
    assert set(tally.rejected) == set(MUTATIONS)


@pytest.mark.adversarial
def test_the_second_opinion_accepts_true_proofs():
    cases = []
    for problem in all_problems(0.004):
        ours(problem, cases)
    assert cases
    assert all(is_true(case.proof, case.X, case.y) for case in cases)


@pytest.mark.parametrize("name", ["HiGHS", "LinearSVC"])
def test_peers_answer_easy_problems(name):
    peer = Peer(name, seconds=30.0)
    problems = list(four_points())
    try:
        assert peer.answer(problems[0]) == YES
        assert peer.answer(problems[1]) == NO
    finally:
        peer.close()
    assert set(PEERS) == {"OSQP", "Clarabel", "HiGHS", "LinearSVC", "SVC"}


def test_judging():
    assert judge("separable", YES) == "right"
    assert judge("quasi-separable", YES) == "wrong"
    assert judge("overlapping", NO) == "right"
    assert judge("separable", LATE) == LATE
