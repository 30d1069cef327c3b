"""Which estimates are finite: every status against a brute force over fractions, and its proof."""

import copy
import json
import os
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import check_separability, verify
from momentron.errors import InputError
from momentron.separability import Verdict, feature_roles
from momentron.solvers.rational import PRIME, minor, solve_many
from momentron.verify import ProofError

DESIGNS = int(os.environ.get("MOMENTRON_DESIGNS", "200"))  # 2,000 and more in a full run
MUTATIONS = int(os.environ.get("MOMENTRON_MUTATIONS", "250"))
FAMILIES = ("binomial", "multinomial", "poisson", "ordinal")


# --- an independent method: all extreme rays of the cone, in fractions ---------------------------


def null_space(rows, size):
    """A basis of {v : a·v = 0}, by Gauss and Jordan."""
    rows, pivots = [list(row) for row in rows], []
    for c in range(size):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][c]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        rows[top] = [v / rows[top][c] for v in rows[top]]
        for i, row in enumerate(rows):
            if i != top and row[c]:
                rows[i] = [a - row[c] * b for a, b in zip(row, rows[top], strict=True)]
        pivots.append(c)
    found = []
    for free in set(range(size)) - set(pivots):
        v = [Fraction(0)] * size
        v[free] = Fraction(1)
        for i, c in enumerate(pivots):
            v[c] = -rows[i][free]
        found.append(v)
    return found


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cone_rows(X, y, family, fit_intercept):
    """The vectors a of all pairs, written down from the likelihoods."""
    x = [[Fraction(v) for v in row] for row in X.tolist()]
    tilde = [[*row, Fraction(1)] if fit_intercept else row for row in x]
    classes = sorted(set(y.tolist()))
    rows = []
    if family == "poisson":
        for v, count in zip(tilde, y.tolist(), strict=True):
            rows.append([-a for a in v])
            if count > 0:
                rows.append(v)
        return rows
    if family == "ordinal":
        cuts = len(classes) - 1
        for v, label in zip(x, y.tolist(), strict=True):
            c = classes.index(label)
            for cut, sign in ((c - 1, 1), (c, -1)):
                if 0 <= cut < cuts:  # θ_c rises above w·x from below, and falls from above
                    theta = [Fraction(-sign * (t == cut)) for t in range(cuts)]
                    rows.append([sign * a for a in v] + theta)
        return rows
    width = len(tilde[0])
    for v, label in zip(tilde, y.tolist(), strict=True):
        c = classes.index(label)
        for j in range(len(classes)):
            if j != c:
                full = [Fraction(0)] * (width * len(classes))
                full[c * width : (c + 1) * width] = v
                full[j * width : (j + 1) * width] = [-a for a in v]
                rows.append(full)
    return rows


def forms(X, y, family, fit_intercept, reference):
    """One linear form per coefficient, in the coordinates of `cone_rows`."""
    d, k = X.shape[1], len(set(y.tolist()))
    if family in ("poisson", "ordinal"):
        size = d + (fit_intercept if family == "poisson" else k - 1)
        return [[Fraction(i == j) for j in range(size)] for i in range(size)]
    width, found = d + fit_intercept, []
    for c in range(k):
        for p in range(width):
            form = [Fraction(0)] * (width * k)
            form[c * width + p] += 1
            form[reference * width + p] -= 1
            if c != reference:
                found.append(form)
    return found


def extreme_rays(A):
    """(rays, lines) of {v : A v ≥ 0}: its extreme rays and a basis of its lineality space."""
    size = len(A[0])
    lines = null_space(A, size)
    A = [list(row) for row in dict.fromkeys(map(tuple, A)) if any(row)]
    rank, rays = size - len(lines), []
    for chosen in combinations(A, max(0, rank - 1)):
        found = null_space([*chosen, *lines], size)  # orthogonal to the lineality space
        if len(found) != 1:
            continue
        sides = [dot(a, found[0]) for a in A]
        if min(sides, default=0) >= 0:
            rays.append(found[0])
        if max(sides, default=0) <= 0:
            rays.append([-v for v in found[0]])
    return rays, lines


def truth(A, targets):
    """The status of each form on {v : A v ≥ 0}, from its lineality space and its extreme rays."""
    rays, lines = extreme_rays(A)
    statuses = []
    for form in targets:
        values = [dot(form, ray) for ray in rays]
        up, down = max(values, default=0) > 0, min(values, default=0) < 0
        if any(dot(form, line) for line in lines):
            # with classes, shifts of all of them together change no contrast
            statuses.append("aliased")
        elif up and down:
            statuses.append("undetermined")
        else:
            statuses.append("+inf" if up else "-inf" if down else "finite")
    return statuses


def drawn(seed):
    """A small random design of one of the families, with separation more often than not."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % 4]
    n, d = int(rng.integers(3, 8)), int(rng.integers(1, 3))
    k = 2 if family == "binomial" else 3
    if family == "multinomial":
        n, d = min(n, 5), 1
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    if family == "poisson":
        y = rng.integers(0, 3, n) * rng.integers(0, 2, n)
    X = rng.integers(-1, 2, (n, d)).astype(float)
    if rng.random() < 0.5:
        X[:, 0] = y + rng.integers(0, 2, n) * rng.integers(0, 2)
    if rng.random() < 0.15:
        X[:, -1] = rng.integers(-1, 2)
    fit_intercept = bool(family == "ordinal" or rng.random() < 0.7)
    reference = int(rng.integers(0, k)) if family in ("binomial", "multinomial") else 0
    return X, y, family, fit_intercept, reference


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_status_is_that_of_a_brute_force(part):
    for seed in range(part, DESIGNS, 4):
        X, y, family, fit_intercept, reference = drawn(seed)
        options = {"family": family, "fit_intercept": fit_intercept}
        if family in ("binomial", "multinomial"):
            options["reference"] = reference
        verdict = check_separability(X, y, **options)
        A = cone_rows(X, y, family, fit_intercept)
        expected = truth(A, forms(X, y, family, fit_intercept, reference))
        assert [e.estimate for e in verdict.estimates] == expected, (seed, X, y, options)
        text = verdict.to_json()
        assert verify(text, X, y), seed
        again = Verdict.from_json(text)
        assert again.estimates == verdict.estimates
        if "aliased" not in expected:
            strict = any(status != "finite" for status in expected)
            assert strict == (verdict.kind in ("separable", "quasi-separable")), seed


# --- proofs that are changed ---------------------------------------------------------------------


def mutated(rng, proof):
    """A proof with one change somewhere in the section of the estimates."""
    proof = copy.deepcopy(proof)
    section = proof["estimates"]
    lists = [(section, "status"), (section, "pivots"), (section, "prime"), (section, "reference")]
    lists += [(section, "dimension"), (section, "rank")]
    for name in ("null", "bounds", "directions", "aliases", "design", "basis"):
        lists += [(section[name], key) for key in section[name]]
    place, key = lists[rng.integers(len(lists))]
    value = place[key]
    if not isinstance(value, list):
        place[key] = int(rng.integers(0, 4)) if rng.random() < 0.9 else None
    elif value and rng.random() < 0.9:
        i = int(rng.integers(len(value)))
        if key == "status":
            value[i] = str(rng.choice(["finite", "+inf", "-inf", "undetermined", "aliased"]))
        elif isinstance(value[i], str):
            value[i] = hex(int(value[i], 16) + int(rng.integers(-3, 4)))
        elif rng.random() < 0.2:
            del value[i]
        else:
            value[i] = int(rng.integers(-1, 6))
    else:
        value.append("0x1" if key in ("numbers", "numerators") else int(rng.integers(0, 4)))
    return proof


def test_changed_proofs_are_rejected_or_still_true():
    rejected, tried, seed = 0, 0, 0
    while tried < MUTATIONS:
        seed += 1
        X, y, family, fit_intercept, _ = drawn(seed)
        options = {"family": family, "fit_intercept": fit_intercept}
        proof = check_separability(X, y, **options).proof
        rng = np.random.default_rng(seed)
        A = cone_rows(X, y, family, fit_intercept)
        for _ in range(10):
            changed = mutated(rng, proof)
            tried += 1
            try:
                verify(json.dumps(changed), X, y)
            except ProofError:
                rejected += 1
                continue
            section = changed["estimates"]
            said = [e.estimate for e in Verdict.from_json(json.dumps(changed)).estimates]
            targets = forms(X, y, family, fit_intercept, section["reference"])
            assert said == truth(A, targets), (seed, changed)
            for claim in ("rank", "dimension"):
                assert section[claim] in (None, proof["estimates"][claim]), (seed, claim)
    assert rejected > tried / 3


# --- known designs -------------------------------------------------------------------------------


def statuses(X, y, **options):
    verdict = check_separability(X, y, **options)
    assert verify(verdict.to_json(), X, y)
    return {(e.label, e.feature): e.estimate for e in verdict.estimates}


def test_a_rare_dummy_is_infinite_and_the_rest_finite():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.arange(200) < 4])
    y = np.r_[np.ones(4, int), rng.integers(0, 2, 196)]
    verdict = check_separability(X, y, feature_names=["age", "rare"])
    assert verdict.paper_sentence == (
        "The data are quasi-completely separated (Albert and Anderson, 1984): in the logistic "
        "regression (binomial model with logit link) the maximum likelihood estimate of the "
        "coefficient of rare is +∞; those of age and the intercept are finite. 4 of 200 "
        "observations are separated."
    )
    assert verdict.separated_rows.tolist() == [0, 1, 2, 3]
    assert (verdict.dimension, verdict.rank) == (1, 3)
    assert "rare" in verdict.summary()
    assert verify(verdict, X, y)


def test_a_constant_column_is_aliased_with_the_intercept():
    X = np.array([[3.0, 0.0], [3.0, 1.0], [3.0, 0.0], [3.0, 1.0]])
    verdict = check_separability(X, [0, 0, 1, 1])
    assert [e.estimate for e in verdict.estimates] == ["aliased", "finite", "aliased"]
    assert verdict.estimates[0].alias == {"column 0": -1, "intercept": 3}
    assert verdict.rank == 2


def test_an_empty_column_is_aliased():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    assert statuses(X, [0, 0, 1, 1]) == {
        ("1", "column 0"): "aliased",
        ("1", "column 1"): "finite",
        ("1", "intercept"): "finite",
    }


def test_an_undetermined_coefficient_has_a_sign_along_the_widest_margin():
    X = np.array([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]])
    verdict = check_separability(X, [0, 0, 1, 1])
    assert [e.estimate for e in verdict.estimates] == ["+inf", "undetermined", "undetermined"]
    assert verdict.estimates[1].direction in (-1, 0, 1)


def test_the_reference_turns_signs_around():
    X, y = np.array([[0.0], [1.0], [1.0], [2.0]]), ["a", "a", "b", "b"]
    assert statuses(X, y)["b", "column 0"] == "+inf"
    assert statuses(X, y, reference="b")["a", "column 0"] == "-inf"
    with pytest.raises(InputError, match="not among the classes"):
        check_separability(X, y, reference="c")
    with pytest.raises(InputError, match="has no reference"):
        check_separability(X, [0, 1, 1, 2], family="poisson", reference=0)


def test_names_of_a_frame_and_the_table():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"dose": [0.0, 1.0, 1.0, 2.0], "age_group": [0.0, 1.0, 0.0, 1.0]})
    verdict = check_separability(X, ["a", "a", "b", "b"])
    frame = verdict.to_frame()
    assert frame.columns.tolist() == ["class", "feature", "estimate"]
    assert frame["feature"].tolist() == ["dose", "age_group", "intercept"]
    assert set(frame["class"]) == {"b"}
    assert r"age\_group" in verdict.summary(format="latex")
    assert "<table" in verdict.summary(format="html")
    with pytest.raises(InputError, match="must be 'text', 'latex' or 'html'"):
        verdict.summary(format="pdf")
    with pytest.raises(InputError, match="has 1 name; X has 2"):
        check_separability(X, ["a", "a", "b", "b"], feature_names=["one"])


@pytest.mark.parametrize("y", [[0, -1, 2], [0, np.nan, 1], ["a", "b", "c"], [0, np.inf, 1]])
def test_counts_are_numbers_from_zero(y):
    with pytest.raises(InputError):
        check_separability([[0.0], [1.0], [2.0]], y, family="poisson")


def test_families_are_refused_where_they_mean_nothing():
    X = [[0.0], [1.0], [2.0]]
    with pytest.raises(InputError, match="family='gamma' must be one of"):
        check_separability(X, [0, 1, 2], family="gamma")
    with pytest.raises(InputError, match="needs exactly 2"):
        check_separability(X, [0, 1, 2], family="binomial")
    with pytest.raises(InputError, match="fit_intercept=False has no meaning"):
        check_separability(X, [0, 1, 2], family="ordinal", fit_intercept=False)


ORDERED = [[0.0], [1.0], [1.0], [3.0], [3.0], [5.0]], ["low", "low", "mid", "mid", "high", "high"]


def test_text_has_no_order_of_its_own():
    X, y = ORDERED
    message = "the labels 'high', 'low', 'mid' have no natural order"
    for labels in (y, np.array(y), [*y[:4], "mid", "mid"]):
        with pytest.raises(InputError, match="no natural order"):
            check_separability(X, labels, family="ordinal")
    with pytest.raises(InputError, match=message):
        check_separability(X, y, family="ordinal")


def test_an_order_decides_the_signs():
    X, y = ORDERED
    up = check_separability(X, y, family="ordinal", order=["low", "mid", "high"])
    down = check_separability(X, y, family="ordinal", order=["high", "mid", "low"])
    assert (up.classes, down.classes) == (["low", "mid", "high"], ["high", "mid", "low"])
    assert [v.estimates[0].estimate for v in (up, down)] == ["+inf", "-inf"]
    assert verify(up, X, y)
    assert verify(up, X, y, order=["low", "mid", "high"])
    with pytest.raises(ProofError, match="order is given, and the proof is of family 'multinomial"):
        verify(check_separability(X, y), X, y, order=["low", "mid", "high"])
    with pytest.raises(ProofError, match="orders the classes high < mid < low"):
        verify(down, X, y, order=["low", "mid", "high"])
    assert [role.kind for role in feature_roles(up, X, y)] == ["overlapping"]


def test_orders_of_numbers_and_categoricals():
    pd = pytest.importorskip("pandas")
    X, y = ORDERED
    codes = [["low", "mid", "high"].index(label) for label in y]
    by_number = check_separability(X, codes, family="ordinal")
    assert by_number.estimates[0].estimate == "+inf"
    assert check_separability(X, [c > 0 for c in codes], family="ordinal").classes == [
        "False",
        "True",
    ]
    turned = check_separability(X, codes, family="ordinal", order=[2, 1, 0])
    with pytest.raises(ProofError, match="orders the classes 2 < 1 < 0"):
        verify(turned, X, codes)
    assert verify(turned, X, codes, order=[2, 1, 0])
    ordered = pd.Categorical(y, ["low", "mid", "high"], ordered=True)
    verdict = check_separability(X, ordered, family="ordinal")
    assert verdict.estimates[0].estimate == "+inf"
    assert verify(verdict, X, ordered)
    with pytest.raises(ProofError, match="orders the classes"):
        verify(verdict, X, pd.Categorical(y, ["high", "mid", "low"], ordered=True))
    with pytest.raises(InputError, match="no natural order"):
        check_separability(X, pd.Categorical(y), family="ordinal")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": ["low", "mid", "high"]}, "family='multinomial' has no order of classes"),
        ({"family": "ordinal", "order": ["low", "mid"]}, "lacks the label 'high'"),
        ({"family": "ordinal", "order": ["low", "mid", "top"]}, "'top', which is no label"),
        ({"family": "ordinal", "order": ["low", "low", "mid", "high"]}, "'low' twice"),
        ({"family": "ordinal", "order": "low,mid,high"}, "must be a sequence"),
    ],
)
def test_orders_that_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        check_separability(*ORDERED, **options)


def test_no_estimates_where_none_are_wanted():
    verdict = check_separability([[0.0], [1.0]], [0, 1], estimates=False)
    assert (verdict.estimates, verdict.dimension, verdict.rank) == ([], None, None)


def test_features_that_carry_quasi_separation_are_named():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=60), np.arange(60) < 4])
    y = np.r_[np.ones(4, int), rng.integers(0, 2, 56)]
    verdict = check_separability(X, y, feature_names=["age", "rare"])
    roles = feature_roles(verdict, X, y)
    assert [(role.name, role.is_needed) for role in roles] == [("age", False), ("rare", True)]
    assert roles[1].kind == "overlapping"


def test_individual_effects_are_peeled_off():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(60), 6)
    X = np.zeros((360, 61))
    X[:, 0], X[np.arange(360), group + 1] = rng.normal(size=360), 1.0
    y = (rng.normal(size=60)[group] + rng.logistic(size=360) > 0).astype(int)
    fixed = np.array([len(set(y[group == g])) == 1 for g in range(60)])
    assert fixed.any()
    found = statuses(X, y, fit_intercept=False)
    for g in range(60):
        expected = ("+inf" if y[group == g][0] else "-inf") if fixed[g] else "finite"
        assert found["1", f"column {g + 1}"] == expected
    assert found["1", "column 0"] == "finite"


def separated_with_steps(n, d, n_steps):
    """Separable normal data; for some columns two rows of both classes that differ only there."""
    rng = np.random.default_rng(4)
    w = rng.normal(size=d)
    X = rng.normal(size=(n, d))
    for j in range(n_steps):
        low, high = X[2 * j], X[2 * j + 1]
        low[-1] -= (low @ w + abs(w[j]) / 2) / w[-1]
        high[:] = low
        high[j] += np.sign(w[j])
    return X, (X @ w > 0).astype(int), np.where(w[:n_steps] > 0, "+inf", "-inf")


def test_many_coefficients_are_decided_by_linear_programs():
    X, y, expected = separated_with_steps(200, 90, 12)
    verdict = check_separability(X, y, decimals="binary", max_time=60)
    assert verdict.kind == "separable" and verdict.dimension == 91
    assert [e.estimate for e in verdict.estimates[:12]] == expected.tolist()
    assert {e.estimate for e in verdict.estimates[12:]} == {"undetermined"}
    assert verify(verdict, X, y)


@pytest.mark.slow
def test_linear_programs_agree_with_rational_steps(monkeypatch):
    X, y, expected = separated_with_steps(50, 12, 4)
    X[:, 5] *= 1e-200
    X[:, 6] *= 1e150
    found = statuses(X, y, max_time=600)  # so that a busy machine leaves nothing undecided
    assert [found["1", f"column {j}"] for j in range(4)] == expected.tolist()
    monkeypatch.setattr("momentron.separability.estimate_prover.FEWEST", 99)
    assert statuses(X, y, max_time=600) == found


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_every_individual_effect_has_a_status(form):
    rng = np.random.default_rng(5)
    n_groups, size = 300, 5
    group = np.repeat(np.arange(n_groups), size)
    y = (rng.normal(size=n_groups)[group] + rng.logistic(size=group.size) > 0).astype(int)
    y[:2] = 0, 1  # the first individual, whose dummy is left out, varies
    X = np.zeros((group.size, n_groups))
    X[:, 0] = rng.normal(size=group.size)
    X[np.arange(size, group.size), group[size:]] = 1.0
    verdict = check_separability(form(X), y)
    means = np.array([y[group == g].mean() for g in range(1, n_groups)])
    expected = np.where(means == 1.0, "+inf", np.where(means == 0.0, "-inf", "finite"))
    assert [e.estimate for e in verdict.estimates] == ["finite", *expected.tolist(), "finite"]
    assert verdict.rank == n_groups + 1
    assert verdict.dimension == np.count_nonzero(expected != "finite")
    assert verify(verdict, X, y)
    assert verify(verdict.to_json(), X, y)


def test_minors_of_sparse_matrices_have_their_rank():
    rng = np.random.default_rng(6)
    for _ in range(20):
        n, d = int(rng.integers(30, 60)), int(rng.integers(26, 40))
        K = rng.integers(-3, 4, (n, d)) * (rng.random((n, d)) < 0.08)
        K[:, 0] = 1
        rows, columns = minor(sp.csr_array(K % PRIME))
        assert len(rows) == np.linalg.matrix_rank(K)
        square = K[np.ix_(rows, columns)].tolist()
        right = rng.integers(-2, 3, (len(rows), 2)).tolist()
        numerators, denominator = solve_many(square, right)
        assert (np.array(square) @ np.array(numerators) == denominator * np.array(right)).all()


def test_the_sentence_counts_rows_that_are_separated_from_every_class():
    verdict = check_separability([[0], [0], [0], [1], [1]], list("abcab"), reference="a")
    assert verdict.separated_rows.size == 0
    assert "observations" not in verdict.paper_sentence


def test_models_that_are_not_logistic_do_not_cite_a_paper_on_those():
    verdict = check_separability([[0], [0], [1], [1]], [0, 0, 2, 1], family="poisson")
    assert verdict.paper_sentence.startswith(
        "The data are quasi-completely separated: in the Poisson regression (Poisson model with "
        "log link) "
    )


@pytest.mark.parametrize("unit", [5e-324, 1e-323, 1e-310, 1e-300])
def test_subnormal_numbers_have_estimates(unit):
    """The decimals of subnormal numbers are far from them: directions are checked exactly."""
    X = unit * np.array([[3, 3, 3], [-1, 0, 0], [-1, -3, 0], [3, 0, 2], [0, -2, 0.0]])
    verdict = check_separability(X, [2, 1, 0, 1, 0])
    assert verdict.kind == "separable"
    assert verify(verdict.to_json(), X, [2, 1, 0, 1, 0])
