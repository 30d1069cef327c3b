"""Two checkers of proofs agree: the verifier, and one written from docs/proof-format.md alone.

What only one of the two accepts would be an error in it, or something that the page does not say.
"""

import json
import math
import random

import numpy as np
import pytest

from momentron import check_separability
from momentron.verify import ProofError, verify
from tests.oracles.proof_checker import check

WORDS = (
    *("separable", "quasi-separable", "overlapping", "undecided", "finite", "+inf", "-inf"),
    *("undetermined", "aliased", "logit", "probit", "log", "binomial", "multinomial", "poisson"),
    *("ordinal", "binary", "shortest", "0", "1", "> 0", "inf", "0x1", ""),
)


def problem(rng, trial, n_classes=2):
    """(X, y): integers or decimals, with labels that follow a linear rule, more or less."""
    n, d = rng.integers(4, 25), rng.integers(1, 5)
    X = rng.integers(-3, 4, (n, d)).astype(float)
    if trial % 3 == 0:
        X = rng.normal(size=(n, d)).round(2)
    if trial % 4 == 0:
        X = np.c_[X, X[:, 0], np.zeros(n)]  # aliased, and not in use
    score = X @ rng.normal(size=X.shape[1]) + trial % 5 * 0.3 * rng.normal(size=len(X))
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    if len(set(y.tolist())) < n_classes:
        y = np.arange(len(y)) % n_classes
    return X, y


def proofs(n_binary, n_others):
    """(JSON, X, y) of problems of two classes, of many classes, of counts and of ordered ones."""
    rng = np.random.default_rng(0)
    for trial in range(n_binary):
        X, y = problem(rng, trial)
        yield check_separability(X, y, fit_intercept=trial % 5 != 1).to_json(), X, y
    for trial in range(n_others):
        X, y = problem(rng, trial, 3)
        yield check_separability(X, y, fit_intercept=trial % 5 != 1).to_json(), X, y
        X, y = problem(rng, trial, 3)
        yield check_separability(X, y, family="ordinal").to_json(), X, y
        X, y = problem(rng, trial)
        y = y * rng.integers(1, 5, len(y))
        yield check_separability(X, y, family="poisson").to_json(), X, y


def mutant(rng, text):
    """The JSON with one leaf that is another, or one item of a list that is gone."""
    document = json.loads(text)
    holder, key = document, rng.choice(list(document))
    while isinstance(holder[key], dict | list) and holder[key]:
        holder = holder[key]
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    value = holder[key]
    if value == [] and holder is (document["estimates"] or {}).get("basis"):
        return mutant(rng, text)  # without pivots the page leaves the form of the basis open
    if isinstance(holder, list) and rng.random() < 0.3:
        del holder[key]
    elif isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        holder[key] = value + rng.choice([-1, 1])
    elif isinstance(value, str) and value.startswith(("0x", "-0x")) and rng.random() < 0.8:
        holder[key] = nudged(rng, value)
    elif isinstance(value, str):
        holder[key] = rng.choice(WORDS)
    else:
        holder[key] = rng.choice([0, [], {}, None, "0x1"])
    return json.dumps(document)


def nudged(rng, text):
    if "p" not in text:
        value = int(text, 16)
        return hex(rng.choice([value - 1, value + 1, 2 * value, -value]))
    value = float.fromhex(text)
    below, above = (math.nextafter(value, end) for end in (-math.inf, math.inf))
    return rng.choice([below, above, value / 2, 2 * value, -value]).hex()


def is_verified(text, X, y):
    try:
        return verify(text, X, y)
    except ProofError:
        return False


def is_checked(text, X, y):
    try:
        return check(text, X, y)
    except ValueError:
        return False


def require_agreement(n_binary, n_others, n_mutants):
    cases = list(proofs(n_binary, n_others))
    kinds = {json.loads(text)["kind"] for text, _, _ in cases}
    assert kinds >= {"separable", "quasi-separable", "overlapping"}
    for text, X, y in cases:
        assert is_verified(text, X, y)
        assert is_checked(text, X, y)
    rng = random.Random(0)
    answers = set()
    for m in range(n_mutants):
        text, X, y = cases[m % len(cases)]
        changed = mutant(rng, text)
        answer = is_verified(changed, X, y)
        assert is_checked(changed, X, y) == answer, changed
        answers.add(answer)
    assert answers == {True, False}


def test_both_checkers_accept_and_refuse_the_same_proofs():
    require_agreement(60, 10, 150)


@pytest.mark.adversarial
def test_both_checkers_agree_on_many_proofs():
    require_agreement(200, 40, 5000)
