"""Statistical models: what is said of each family and link is true, whatever the way in.

The truth comes from `tests.oracles.models`, which imports nothing of momentron, from
statsmodels' own fits pushed on, and from likelihoods written down here.
"""

import copy
import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from momentron import check_separability, verify
from momentron.datasets import table_path
from momentron.errors import InputError
from momentron.separability import Verdict, feature_roles, read_design
from momentron.verify import ProofError
from tests.command_line import run
from tests.oracles.models import LINKS, answer, log_likelihood

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")
links = sm.families.links

pytestmark = [
    pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.DomainWarning"),
    pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ValueWarning"),
]

# g: a group in which all outcomes are 1 (or all counts 0, or 1); z tells nothing
G, Z = np.r_[np.zeros(6), np.ones(4)], np.array([0.0, 1, 2, 0, 1, 2, 0, 1, 2, 1])
X = pd.DataFrame({"const": 1.0, "g": G, "z": Z})
HIT = np.array([0, 1, 0, 1, 0, 1, 1, 1, 1, 1])
COUNT = np.array([0, 1, 3, 2, 0, 4, 0, 0, 0, 0])


def binomial(link):
    return sm.GLM(HIT, X, family=sm.families.Binomial(link=link))


def fates(verdict):
    return {e.feature: e.estimate for e in verdict.estimates}


def endometrial():
    return pd.read_csv(table_path("endometrial"))


# --- links of a GLM ------------------------------------------------------------------------------

TRUE_LINKS = {
    "Logit": ("logit", "+inf"),
    "Probit": ("probit", "+inf"),
    "CLogLog": ("cloglog", "+inf"),
    "LogLog": ("loglog", "+inf"),
    "Cauchy": ("cauchit", "+inf"),
    "CDFLink": ("probit", "+inf"),
    "Log": ("log", "finite"),
    "LogC": ("logc", "-inf"),
}


@pytest.mark.parametrize("name", TRUE_LINKS)
def test_a_binomial_glm_is_judged_by_its_link(name):
    """The group's estimate grows as long as statsmodels goes on, or it does not."""
    link, estimate = TRUE_LINKS[name]
    model = binomial(getattr(links, name)())
    verdict = check_separability(model)
    assert (verdict.family, verdict.link) == ("binomial", link)
    assert fates(verdict) == {"g": estimate, "z": "finite", "intercept": "finite"}
    assert answer("binomial", link, X[["g", "z"]], HIT).estimates == [
        estimate,
        "finite",
        "finite",
    ]
    start = [-1.0, -0.2, -0.1] if name in ("Log", "LogC") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short, long = (
            model.fit(maxiter=steps, tol=0, start_params=start).params for steps in (8, 20)
        )
    grown = {"+inf": long["g"] - short["g"] > 0.5, "-inf": long["g"] - short["g"] < -0.5}
    assert grown.get(estimate, abs(long["g"] - short["g"]) < 1e-3)
    assert np.abs(long - short)[["const", "z"]].max() < 1e-3


def test_the_relative_risk_of_neovascularisation_is_finite():
    data = endometrial()
    model = smf.glm("HG ~ NV", data, family=sm.families.Binomial(link=links.Log()))
    verdict = check_separability(model)
    assert verdict.kind == "overlapping" and set(fates(verdict).values()) == {"finite"}
    log_risk = model.fit(start_params=[-1.0, 0.5]).params["NV"]
    assert log_risk == pytest.approx(np.log(66 / 17), abs=1e-6)
    assert check_separability("HG ~ NV", data=data, link="log").proof == verdict.proof


@pytest.mark.parametrize(
    ("family", "link"),
    [
        (sm.families.Binomial, "Identity"),
        (sm.families.Poisson, "Identity"),
        (sm.families.Poisson, "Sqrt"),
        (sm.families.NegativeBinomial, "Identity"),
        (sm.families.NegativeBinomial, "NegativeBinomial"),
        (sm.families.NegativeBinomial, "CLogLog"),
        (sm.families.Gamma, "Log"),
        (sm.families.Tweedie, "Log"),
        (sm.families.Gaussian, "Identity"),
        (sm.families.InverseGaussian, "Log"),
    ],
)
def test_other_links_and_families_are_refused_by_name(family, link):
    y = HIT if family is sm.families.Binomial else COUNT + 1
    model = sm.GLM(y, X, family=family(link=getattr(links, link)()))
    with pytest.raises(InputError, match=rf"its (link is {link}|family is {family.__name__})"):
        check_separability(model)


def test_links_and_families_of_ones_own_are_refused():
    class Logit(links.Logit):
        """Twice the logit, under a name that is known."""

    class Binomial(sm.families.Binomial):
        """A family under a name that is known."""

    for model in (binomial(Logit()), sm.GLM(HIT, X, family=Binomial())):
        with pytest.raises(InputError, match=r"not supported: its (link|family) is"):
            check_separability(model)


# --- other models of statsmodels -----------------------------------------------------------------


def counted(name, **options):
    from statsmodels.discrete import count_model, discrete_model, truncated_model

    for module in (discrete_model, count_model, truncated_model):
        if hasattr(module, name):
            return getattr(module, name)(COUNT, X, **options)
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "options", "family"),
    [
        ("Poisson", {}, "poisson"),
        ("NegativeBinomial", {}, "negative-binomial"),
        ("NegativeBinomial", {"loglike_method": "nb1"}, "negative-binomial"),
        ("NegativeBinomial", {"loglike_method": "geometric"}, "negative-binomial"),
        ("NegativeBinomialP", {}, "negative-binomial"),
        ("NegativeBinomialP", {"p": 1}, "negative-binomial"),
    ],
)
def test_counts_have_infinite_estimates_where_a_group_is_zero(name, options, family):
    verdict = check_separability(counted(name, **options))
    assert (verdict.family, verdict.link) == (family, "log")
    assert fates(verdict) == {"g": "-inf", "z": "finite", "intercept": "finite"}
    model = counted(name, **options)

    def likelihood(const=-0.5, g=-5.0, z=0.8):
        return model.loglike(np.array([const, g, z, 0.5][: 3 + model.k_extra]))

    assert likelihood(g=-5.0) < likelihood(g=-10.0) < likelihood(g=-15.0)
    assert likelihood() - 5.0 > max(likelihood(const=v) for v in (-12.0, 12.0))
    assert likelihood() - 5.0 > max(likelihood(z=v) for v in (-12.0, 12.0))


def test_a_zero_truncated_poisson_model_holds_counts_above_one():
    from statsmodels.discrete.truncated_model import TruncatedLFPoisson

    model = TruncatedLFPoisson(COUNT + 1, X)
    verdict = check_separability(model)
    assert (verdict.family, verdict.link) == ("truncated-poisson", "log")
    assert fates(verdict) == {"g": "-inf", "z": "finite", "intercept": "finite"}
    assert verdict.separated_rows.tolist() == [6, 7, 8, 9]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(method="bfgs", maxiter=200, disp=0, start_params=np.zeros(3)).params
    assert fitted["g"] < -10 and abs(fitted["z"]) < 2
    whole = check_separability(X[["g", "z"]], COUNT + 1, family="truncated-poisson")
    assert whole.proof == verdict.proof
    with pytest.raises(InputError, match="truncation=1 follows other rules"):
        check_separability(TruncatedLFPoisson(COUNT + 2, X, truncation=1))
    # the model leaves zeros out by itself, and rows keep their names
    frame = X.set_index(pd.Index(list("abcdefghij")))
    model = TruncatedLFPoisson(pd.Series(COUNT, frame.index), frame)
    assert check_separability(model).row_names == list("bcdf")


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("NegativeBinomialP", {"p": 3}, "with p=3"),
        ("GeneralizedPoisson", {}, "probability of 0"),
        ("ZeroInflatedPoisson", {}, "two parts"),
        ("ZeroInflatedNegativeBinomialP", {}, "two parts"),
        ("HurdleCountModel", {}, "two parts"),
        ("TruncatedLFNegativeBinomialP", {}, "logarithmic series"),
        ("TruncatedLFGeneralizedPoisson", {}, "other rules"),
    ],
)
def test_other_counts_are_refused_by_name(name, options, why):
    with pytest.raises(InputError, match=f"{name} of statsmodels is not supported: .*{why}"):
        check_separability(counted(name, **options))


def test_models_without_a_plain_likelihood_are_refused_by_name():
    from statsmodels.discrete.conditional_models import ConditionalLogit
    from statsmodels.gam.api import BSplines, GLMGam

    groups = np.arange(10) // 2
    gee = sm.GEE(HIT, X, groups=groups, family=sm.families.Binomial())
    splines = BSplines(np.arange(10.0), df=[4], degree=[3])
    gam = GLMGam(HIT, X, smoother=splines, family=sm.families.Binomial())
    conditional = ConditionalLogit(HIT, X[["g", "z"]], groups=np.r_[0, 0, 1, 1, 2, 2, 0, 1, 2, 2])
    for model, name in (
        (gee, "GEE"),
        (gam, "GLMGam"),
        (conditional, "ConditionalLogit"),
        (sm.OLS(HIT, X), "OLS"),
        (sm.MixedLM(Z, X[["const", "g"]], groups=groups), "MixedLM"),
    ):
        with pytest.raises(InputError, match=f"^{name} of statsmodels is not supported") as refused:
            check_separability(model)
        assert "supported are Logit, Probit" in str(refused.value)


def test_a_subclass_counts_as_its_parent_unless_it_has_another_likelihood():
    class Named(sm.Logit):
        """A model with a name."""

    class Tilted(sm.Logit):
        def loglike(self, params):
            return super().loglike(params) - params @ params

    assert fates(check_separability(Named(HIT, X)))["g"] == "+inf"
    with pytest.raises(InputError, match=r"Tilted .* not supported: it has a loglike"):
        check_separability(Tilted(HIT, X))


def test_the_truncated_negative_binomial_has_infinite_estimates_without_separation():
    """Why it is refused: towards a logarithmic series the likelihood rises for ever."""
    from scipy.special import gammaln

    y = np.array([1.0, 1, 1, 1, 1, 1, 1, 2, 2, 30])

    def log_likelihood(alpha, theta):
        """Of mean µ = θ / (α (1 − θ)), so that θ stays while the mean tends to 0."""
        size = 1.0 / alpha
        whole = gammaln(y + size) - gammaln(size) - gammaln(y + 1) + size * np.log1p(-theta)
        return np.sum(whole + y * np.log(theta) - np.log(-np.expm1(size * np.log1p(-theta))))

    best = [
        max(log_likelihood(a, t) for t in np.linspace(0.5, 0.999, 500))
        for a in 10.0 ** np.arange(5)
    ]
    assert np.all(np.diff(best) > 0)
    assert answer("poisson", "log", np.zeros((10, 0)), y - 1).estimates == ["finite"]


def test_zeros_alone_say_nothing_in_a_negative_binomial_model():
    with pytest.raises(InputError, match="no count above 0; family='negative-binomial' needs one"):
        check_separability(X[["g"]], np.zeros(10), family="negative-binomial")
    assert check_separability(X[["g"]], np.zeros(10), family="poisson").kind == "separable"


@pytest.mark.parametrize("family", ["poisson", "truncated-poisson"])
def test_least_counts_alone_are_fitted_by_the_intercept(family):
    y = np.zeros(3) + (family == "truncated-poisson")
    for features, needed in (
        ([[0.0], [1.0], [2.0]], [False]),
        ([[0.0, 1], [1, 0], [2, 2]], [False] * 2),
    ):
        verdict = check_separability(features, y, family=family)
        assert verdict.kind == answer(family, "log", features, y).kind == "separable"
        roles = feature_roles(verdict, features, y)
        assert [role.is_needed for role in roles] == needed
    without = check_separability([[1.0], [1.0], [2.0]], y, family=family, fit_intercept=False)
    assert [role.is_needed for role in feature_roles(without, [[1.0], [1.0], [2.0]], y)] == [True]


def test_the_contrasts_of_mnlogit_are_with_its_own_reference():
    """Its first category, which need not be the first in the alphabet."""
    y = pd.Series(pd.Categorical(list("bbcacabcca"), ["c", "a", "b"]), name="y")
    frame = pd.DataFrame({"const": 1.0, "g": (y == "b").astype(float), "z": Z})
    model = sm.MNLogit(y, frame)
    verdict = check_separability(model)
    wanted = answer("multinomial", "logit", frame[["g", "z"]], y, classes="abc", reference="c")
    found = [(e.label, e.feature, e.estimate) for e in verdict.estimates]
    named = [(label, name) for label in "ab" for name in ("g", "z", "intercept")]
    assert found == [(*n, s) for n, s in zip(named, wanted.estimates, strict=True)]
    assert verdict.proof["estimates"]["reference"] == 2
    assert check_separability(model, None, reference="a").proof["estimates"]["reference"] == 0
    unseen = pd.Series(pd.Categorical(list("aababbabba"), ["a", "b", "z"]))
    with pytest.raises(InputError, match="level 'z' of the outcome has no row"):
        check_separability(sm.MNLogit(unseen, frame))


def test_a_constant_that_is_not_one_is_a_feature():
    """statsmodels takes a column of −1 for its constant; its coefficient has the other sign."""
    frame = pd.DataFrame({"minus": -np.ones(6), "x": [0.0, 0, 0, 1, 1, 1]})
    y = np.array([0, 0, 0, 1, 1, 1])
    verdict = check_separability(sm.Logit(y, frame))
    assert not verdict.proof["fit_intercept"]
    wanted = answer("binomial", "logit", frame, y, fit_intercept=False).estimates
    assert fates(verdict) == dict(zip(["minus", "x"], wanted, strict=True))
    assert fates(verdict)["minus"] == "+inf"


def test_options_that_contradict_a_model_are_refused():
    model = sm.Logit(HIT, X)
    for options, what in (
        ({"family": "poisson"}, "family='poisson', but the model has 'binomial'"),
        ({"link": "log"}, "link='log', but the model has 'logit'"),
        ({"fit_intercept": False}, "the model has an intercept"),
    ):
        with pytest.raises(InputError, match=what):
            check_separability(model, **options)
    assert check_separability(model, family="binomial", link="logit").kind == "quasi-separable"


def test_infinite_offsets_are_refused():
    offset = np.zeros(10)
    offset[3] = -np.inf
    with pytest.raises(InputError, match="the offset of the model is not finite"):
        check_separability(sm.GLM(COUNT, X, family=sm.families.Poisson(), offset=offset))


@pytest.mark.filterwarnings("ignore")
def test_a_penalised_or_constrained_result_has_a_note():
    data = endometrial()
    logit = smf.logit("HG ~ NV + PI", data)
    glm = smf.glm("HG ~ NV + PI", data, family=sm.families.Binomial())
    for result in (
        logit.fit_regularized(alpha=1.0, disp=0),
        glm.fit_regularized(alpha=0.1),
        glm.fit_regularized(alpha=0.1, L1_wt=0),
        glm.fit_regularized(alpha=0.1, refit=True),
    ):
        verdict = check_separability(result)
        assert fates(verdict)["NV"] == "+inf"
        assert any("fitted with a penalty" in note for note in verdict.notes), type(result)
        for text in (verdict.summary(), verdict.summary("html"), verdict.summary("latex")):
            assert "fitted with a penalty" in text
        assert "fitted with a penalty" in repr(verdict)
        assert "fitted with a penalty" in verdict._repr_html_()
    verdict = check_separability(glm.fit_constrained("PI = 0"))
    assert any("under constraints" in note for note in verdict.notes)
    for given in (logit, glm, logit.fit(disp=0, maxiter=3), glm.fit(maxiter=3)):
        assert check_separability(given).notes == ()


# --- ordered classes -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_thresholds_have_the_sign_of_a_fit(k):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    n = {2: 5, 3: 7}[k]
    x, codes = np.array([-5.0, -4, -2, 0, 1, 3, 4])[:n], np.array([0, 0, 1, 1, 1, 2, 2])[:n]
    wanted = {"lo|mid": "-inf", "mid|hi": "+inf"}  # θ between −4w and −2w, and between w and 3w
    y = pd.Series(pd.Categorical.from_codes(codes, ["lo", "mid", "hi"][:k], ordered=True))
    frame = pd.DataFrame({"x": x})
    model = OrderedModel(y, frame, distr="logit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(method="bfgs", disp=0, maxiter=500)
    thresholds = fitted.params.to_numpy()[1:].copy()  # the first, and logarithms of differences
    thresholds[1:] = thresholds[0] + np.cumsum(np.exp(thresholds[1:]))
    assert fitted.params["x"] > 5 and thresholds[0] < -5 and (k == 2 or thresholds[1] > 5)
    truth = answer("ordinal", "logit", frame, codes, classes=range(k)).estimates
    assert truth == ["+inf", *list(wanted.values())[: k - 1]]
    for given, options in ((model, {}), (fitted, {}), (frame, {"y": y, "family": "ordinal"})):
        verdict = check_separability(given, **options)
        found = [(e.label, e.feature, e.estimate) for e in verdict.estimates]
        cuts = [(name, "threshold", sign) for name, sign in wanted.items()][: k - 1]
        assert found == [("", "x", "+inf"), *cuts]


def test_two_ordered_classes_have_a_threshold_of_the_right_sign():
    X, y = [[-2.0], [0.0]], [0, 1]  # w → +∞ and F(θ) → 0, so that θ → −∞
    verdict = check_separability(X, y, family="ordinal")
    assert fates(verdict) == {"column 0": "+inf", "threshold": "-inf"}
    assert answer("ordinal", "logit", X, y, classes=[0, 1]).estimates == ["+inf", "-inf"]
    binary = fates(check_separability(X, y))
    assert binary == {"column 0": "+inf", "intercept": "+inf"}  # minus the threshold
    lie = copy.deepcopy(verdict.proof)
    lie["estimates"]["status"] = ["+inf", "+inf"]
    with pytest.raises(ProofError, match=r"the threshold 0\|1 is not shown to be '\+inf'"):
        verify(json.dumps(lie), X, y)


def test_the_side_of_an_undetermined_threshold_is_that_of_the_direction():
    rng, sides = np.random.default_rng(0), []
    for _ in range(40):
        features = rng.integers(-4, 5, (5, 2)).astype(float)
        y = (features @ [2, 1] > 0).astype(int)
        if len(set(y.tolist())) < 2:
            continue
        verdict = check_separability(features, y, family="ordinal")
        threshold = verdict.estimates[-1]
        if verdict.is_separable and threshold.estimate == "undetermined":
            assert threshold.direction == -np.sign(verdict.intercept[0])  # θ = −b
            sides.append(threshold.direction)
    assert {-1, 1} <= set(sides)


@pytest.mark.parametrize(
    ("distribution", "link"),
    [
        ("logistic", "logit"),
        ("norm", "probit"),
        ("gumbel_l", "cloglog"),
        ("gumbel_r", "loglog"),
        ("cauchy", "cauchit"),
        ("laplace", "cdf"),
    ],
)
def test_the_distribution_of_an_ordered_model_is_its_link(distribution, link):
    from scipy import stats
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    found = getattr(stats, distribution)
    verdict = check_separability(OrderedModel(HIT + (Z > 1), X[["g", "z"]], distr=found))
    assert (verdict.family, verdict.link) == ("ordinal", link)
    if link in ("cloglog", "loglog"):  # as the oracle defines them
        assert found.logcdf(0.7) == pytest.approx(log_likelihood("binomial", link, 1, 0.7))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_distributions_of_an_ordered_model_are_refused():
    from scipy import stats
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    class Mine(stats.rv_continuous):
        def _cdf(self, x):
            return stats.norm.cdf(x)

    for distribution in (stats.expon, stats.uniform, Mine(name="mine")):
        with pytest.raises(InputError, match=r"OrderedModel .* not supported: its dist"):
            check_separability(OrderedModel(HIT, X[["g", "z"]], distr=distribution))
    y = pd.Series(pd.Categorical(["a", "b"] * 5, ["a", "b", "c"], ordered=True))
    with pytest.raises(InputError, match="level 'c' of the outcome has no row"):
        check_separability(OrderedModel(y, X[["g", "z"]]))
    for distribution, link in (
        (stats.t(4), "cdf"),
        (stats.norm(0, 2), "cdf"),
        (stats.norm(), "probit"),
    ):
        family = sm.families.Binomial(link=links.CDFLink(distribution))
        assert check_separability(sm.GLM(HIT, X, family=family)).link == link
    for distribution in (stats.gamma(2.0), stats.t, stats.skellam(1, 1)):
        family = sm.families.Binomial(link=links.CDFLink(distribution))
        with pytest.raises(InputError, match="its link is CDFLink"):
            check_separability(sm.GLM(HIT, X, family=family))


# --- arrays, formulas and the command line -------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "link"),
    [
        ("binomial", "identity"),
        ("multinomial", "probit"),
        ("poisson", "logit"),
        ("poisson", "sqrt"),
        ("negative-binomial", "identity"),
        ("truncated-poisson", "identity"),
        ("ordinal", "log"),
        (None, "identity"),
    ],
)
def test_links_that_the_theory_does_not_cover_are_refused_by_name(family, link):
    y = {"ordinal": COUNT, "multinomial": COUNT}.get(family, HIT)
    with pytest.raises(InputError, match=f"link='{link}' is not supported for family='.*links are"):
        check_separability(X[["g"]], y, family=family, link=link)


def test_a_family_that_is_not_supported_is_refused_before_y_is_read():
    with pytest.raises(InputError, match="family='gamma' must be one of"):
        check_separability(X[["g"]], np.linspace(0.1, 2.0, 10), family="gamma")


def test_the_log_link_is_about_one_event():
    """The event is the class that is not the reference; only that one holds its rows."""
    y = np.where(HIT, "hit", "miss")
    miss = check_separability(X[["g", "z"]], y, link="log")
    hit = check_separability(X[["g", "z"]], y, link="log", reference="miss")
    assert (miss.event, hit.event) == ("miss", "hit")
    for verdict, event in ((miss, 1 - HIT), (hit, HIT)):
        truth = answer("binomial", "log", X[["g", "z"]], event)
        assert (verdict.kind, list(fates(verdict).values())) == (truth.kind, truth.estimates)
        assert {e.label for e in verdict.estimates} == {verdict.event}
        assert f"with log link for the event {verdict.event})" in verdict.paper_sentence
        assert verify(verdict.to_json(), X[["g", "z"]], y)
    assert (miss.kind, hit.kind) == ("quasi-separable", "overlapping")
    mirrored = check_separability(X[["g", "z"]], y, link="logc", reference="hit")
    assert list(fates(mirrored).values()) == list(fates(hit).values())
    roles = feature_roles(miss, X[["g", "z"]], y)
    assert [role.is_needed for role in roles] == [True, False]


def test_the_log_link_needs_an_intercept():
    for link in ("log", "logc"):
        with pytest.raises(InputError, match=f"link='{link}' needs an intercept"):
            check_separability([[1.0], [-1.0]], [1, 0], link=link, fit_intercept=False)


@pytest.mark.parametrize("y", [[0, 1, 2], [1, 1.5, 2], [1, "many", 2], [1, -1, 2]])
def test_truncated_counts_are_whole_and_positive(y):
    with pytest.raises(InputError, match="must be whole numbers ≥ 1"):
        check_separability([[0.0], [1.0], [2.0]], y, family="truncated-poisson")


def test_amounts_of_a_poisson_model_need_not_be_whole():
    """Trade flows, for instance (pseudo maximum likelihood): only 0 and above 0 matter."""
    amounts = COUNT * 0.37
    verdict = check_separability(X[["g", "z"]], amounts, family="poisson")
    assert fates(verdict) == {"g": "-inf", "z": "finite", "intercept": "finite"}
    assert verify(verdict.to_json(), X[["g", "z"]], amounts)
    model = sm.GLM(amounts, X, family=sm.families.Poisson())
    assert check_separability(model).proof == verdict.proof
    for bad in (-0.5, np.nan, np.inf):
        with pytest.raises(InputError, match="must be finite numbers ≥ 0"):
            check_separability(X[["g"]], np.r_[amounts[:9], bad], family="poisson")


def test_the_kind_of_a_model_does_not_depend_on_which_distribution_it_has():
    for family, y in (("binomial", HIT), ("ordinal", COUNT)):
        proofs = []
        for link in LINKS[family][:6]:
            verdict = check_separability(X[["g", "z"]], y, family=family, link=link)
            assert (verdict.link, verdict.proof["link"]) == (link, link)
            proofs.append(verdict.proof | {"link": ""})
        assert all(proof == proofs[0] for proof in proofs)


def test_numbers_that_look_like_counts_have_a_note(capsys, tmp_path):
    rng = np.random.default_rng(0)
    y = np.r_[0, 1, 2, 5, 9, rng.integers(0, 3, 15)]
    features = rng.integers(0, 3, (20, 1)).astype(float)
    verdict = check_separability(features, y)
    assert verdict.family == "multinomial"
    assert "taken as 5 classes" in verdict.notes[0] and "family='poisson'" in verdict.notes[0]
    for text in (verdict.summary(), repr(verdict), verdict._repr_html_()):
        assert "poisson" in text
    for options in ({"family": "multinomial"}, {"family": "poisson"}, {"family": "ordinal"}):
        assert check_separability(features, y, **options).notes == ()
    digits = check_separability(features, np.r_[np.arange(10), np.zeros(10)], estimates=False)
    assert digits.notes == ()
    table = tmp_path / "t.csv"
    rows = [f"{x},{c}" for x, c in zip(features[:, 0].astype(int), y, strict=True)]
    table.write_text("\n".join(["x,trade", *rows]) + "\n")
    ended = run(capsys, "check", table, "--target", "trade")
    assert "note            y was taken as 5 classes" in ended.out
    ended = run(capsys, "check", table, "--target", "trade", "--family", "poisson")
    assert "note" not in ended.out
    assert "model           Poisson regression (Poisson model with log link)" in ended.out


def test_the_command_line_names_and_takes_a_link(capsys, tmp_path):
    proof = tmp_path / "proof.json"
    words = ["endometrial", "--target", "HG", "--columns", "HG,NV"]
    ended = run(capsys, "check", *words, "--link", "log", "--proof", proof)
    assert ended.code == 4
    model = "log-binomial regression (binomial model with log link for the event 1)"
    assert f"model           {model}" in ended.out and model in ended.out.split("in a paper")[1]
    assert model in run(capsys, "verify", proof, *words).out
    assert run(capsys, "check", *words, "--link", "probit").code == 3
    said = json.loads(run(capsys, "check", *words, "--json").out)
    assert (said["family"], said["link"]) == ("binomial", "logit")
    ended = run(capsys, "check", *words, "--link", "identity")
    assert ended.code == 2 and "link='identity' is not supported" in ended.err


@pytest.mark.parametrize(("family", "link"), [(f, ln) for f in LINKS for ln in LINKS[f]])
def test_everything_that_is_shown_names_the_model(family, link):
    y = {"binomial": HIT, "ordinal": COUNT, "multinomial": COUNT % 3}.get(family, COUNT + 1)
    verdict = check_separability(X[["g", "z"]], y, family=family, link=link)
    words = "a distribution function" if link == "cdf" else f"{link} link"
    texts = [verdict.paper_sentence, repr(verdict), verdict._repr_html_()]
    texts += [verdict.summary(format) for format in ("text", "latex", "html")]
    assert all(words in text for text in texts)
    name = {"poisson": "Poisson", "negative-binomial": "negative binomial"}.get(family, family)
    name = name.replace("truncated-poisson", "zero-truncated Poisson")
    assert all(f"{name} model" in text for text in texts)
    assert verdict.paper_sentence[0].isupper() and verdict.paper_sentence.endswith(".")
    unread = check_separability(X[["g", "z"]], y, family=family, link=link, max_time=1e-9)
    assert words in unread.paper_sentence


def test_a_report_names_the_model(capsys, tmp_path):
    page = tmp_path / "report.html"
    words = ["report", "endometrial", "--target", "HG", "--out", page]
    assert run(capsys, *words).code == 3
    text = page.read_text()
    assert "logistic regression (binomial model with logit link)" in text
    assert "the maximum likelihood estimate of the coefficient of NV is +∞" in text


def test_a_long_sentence_lists_a_few_names_and_counts_the_others():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.integers(0, 2, 120)
    X = np.column_stack([X, np.arange(120) < 3])
    y[:3] = 1
    names = [f"x{j}" for j in range(30)] + ["rare"]
    sentence = check_separability(X, y, feature_names=names).paper_sentence
    assert "those of x0, x1, x2, x3, x4 and 26 others are finite." in sentence


def test_a_sentence_tells_coefficients_from_thresholds():
    pain = [[0], [0], [1], [1], [2], [2], [3], [3]], [0, 0, 0, 1, 1, 2, 2, 2]
    verdict = check_separability(*pain, family="ordinal", feature_names=["dose"])
    assert verdict.paper_sentence == (
        "The data are quasi-completely separated: in the ordered logistic regression (ordinal "
        "model with logit link) the maximum likelihood estimates of the coefficient of dose, the "
        "threshold 0|1 and the threshold 1|2 are +∞. 4 of 8 observations are separated."
    )


def test_names_are_escaped_in_latex():
    verdict = check_separability([[0.0], [1.0]], [0, 1], feature_names=["50%_#1 & ^2"])
    assert r"50\%\_\#1 \& \textasciicircum{}2" in verdict.summary("latex").split("tabular")[0]


# --- proofs --------------------------------------------------------------------------------------


def is_accepted(proof, X, y):
    try:
        return verify(json.dumps(proof), X, y)
    except ProofError:
        return False


def test_a_proof_for_one_link_does_not_hold_for_another():
    features = X[["g", "z"]].to_numpy()
    for link, others in (
        ("logit", ("log", "logc")),
        ("log", ("logit", "logc")),
        ("logc", ("log",)),
    ):
        proof = check_separability(features, HIT, link=link).proof
        assert is_accepted(proof, features, HIT)
        assert not any(is_accepted(proof | {"link": other}, features, HIT) for other in others)
        assert not is_accepted({k: v for k, v in proof.items() if k != "link"}, features, HIT)


def with_both_signs(verdict, u):
    """A proof whose directions move along u to either side: no likelihood changes along it."""
    proof = copy.deepcopy(verdict.proof)
    w = verdict.whole_weights()
    far = 2 * max(map(abs, w.values()))
    size = verdict.proof["data"]["features"] + 1
    moved = [[w.get(c, 0) + sign * far * u.get(c, 0) for c in range(size)] for sign in (1, -1)]
    proof["estimates"]["directions"] = {
        "starts": [0, size, 2 * size],
        "coordinates": [*range(size), *range(size)],
        "numbers": [hex(v) for vector in moved for v in vector],
    }
    return proof


NO_ALIASES = {"starts": [0], "coordinates": [], "numbers": []}


@pytest.mark.parametrize("rank", [0, None, 3, 4])
@pytest.mark.parametrize("change", [{}, {"aliases": NO_ALIASES}])
def test_an_aliased_coefficient_is_not_undetermined(change, rank):
    """Complete separation with a column twice: both signs occur, which says nothing."""
    column = np.array([-2.0, -1.0, 3.0, 4.0])
    features, y = np.column_stack([column, column, [1, 0, 0, 1]]), [0, 0, 1, 1]
    verdict = check_separability(features, y)
    truth = answer("binomial", "logit", features, y).estimates
    assert list(fates(verdict).values()) == truth
    assert truth == ["aliased", "aliased", "undetermined", "undetermined"]
    lie = with_both_signs(verdict, {0: 1, 1: -1})
    lie["estimates"]["status"] = ["undetermined", *["undecided"] * 3]
    lie["estimates"] |= change | ({"rank": rank} if rank != 0 else {})
    assert not is_accepted(lie, features, y)


def test_undetermined_coefficients_need_a_rank_that_shows_all_aliases():
    features, y = [[-2.0, 1], [-1, 0], [3, 0], [4, 1]], [0, 0, 1, 1]
    verdict = check_separability(features, y)
    assert "undetermined" in fates(verdict).values()
    bare = copy.deepcopy(verdict.proof)
    bare["estimates"] |= {"rank": None}
    assert not is_accepted(bare, features, y)


@pytest.mark.parametrize("scale", [1.0, 0.5, 2.0**40 + 15])
def test_undetermined_coefficients_beside_many_aliases_are_verified(scale):
    """A coefficient is undetermined only if no null vector of the design changes it."""
    column = np.r_[-2.0, -1.0, 3.0, 4.0, 5.0]
    features, y = np.column_stack([np.outer(column, np.ones(15)), [1, 0, 2, 1, 0]]), [0, 0, 1, 1, 1]
    features[:, 14] *= scale
    verdict = check_separability(features, y)
    assert verdict.rank == 3
    truth = ["aliased"] * 15 + ["undetermined"] * 2  # of which the oracle is sure for small numbers
    assert scale > 1e9 or answer("binomial", "logit", features, y).estimates == truth
    assert list(fates(verdict).values()) == truth
    assert verify(verdict.to_json(), features, y)
    lie = with_both_signs(verdict, {3: 1, 4: -1})
    lie["estimates"] |= {"aliases": NO_ALIASES, "rank": None}
    lie["estimates"]["status"] = ["undecided"] * 3 + ["undetermined"] + ["undecided"] * 13
    with pytest.raises(ProofError, match="column 3 is not shown to be 'undetermined'"):
        verify(json.dumps(lie), features, y)


def test_a_design_remembers_its_model():
    design = read_design(binomial(links.Log()))
    assert (design.family, design.link) == ("binomial", "log")
    verdict = Verdict.from_json(check_separability(binomial(links.Log())).to_json())
    assert (verdict.family, verdict.link, verdict.event) == ("binomial", "log", "1")


@pytest.mark.parametrize("oracle", ["models", "proof_checker"])
def test_the_oracle_imports_nothing_of_momentron(oracle):
    code = (
        f"import sys, tests.oracles.{oracle};"
        "assert not any(name.split('.')[0] == 'momentron' for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
