"""Random statistical models by every way in, against linear programs that share no code with us.

Each trial draws a family and a link, a few rows of small whole numbers, and a way to ask: arrays, a
frame with categories, a formula, grouped counts, weights, a model or result of statsmodels, the
command line. The kind and the estimate of every coefficient must be those of
`tests.oracles.models`; the proof must be accepted, and a proof that is changed must be refused
unless it is still true.
"""

import contextlib
import copy
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.hostile.guard import outcome
from momentron import check_separability, verify
from momentron.errors import InputError
from momentron.separability import Verdict, read_design
from tests.oracles.models import LINKS, Answer, answer

SECONDS = 20.0
OTHER_LINKS = ("identity", "sqrt", "inverse", "power", "Logit", "", "nope", "log", "probit")
STATUSES = ("finite", "+inf", "-inf", "undetermined", "aliased")
NAMES = {  # of classes: some whose alphabet is not their order
    2: (("0", "1"), ("no", "yes"), ("b", "a"), ("False", "True")),
    3: (("0", "1", "2"), ("low", "mid", "high"), ("10", "9", "8")),
    4: (("1", "2", "3", "4"), ("d", "b", "c", "a")),
}


@dataclass(frozen=True)
class Model:
    """A model and its data.

    Attributes
    ----------
    X : array of whole numbers, shape (n, d)
    y : array of codes of classes, or of counts
    labels : tuple of str
        Of the classes, in the order of the model: an event comes last, an ordinal model has the
        lowest first. Empty for counts.
    reference : int
        Of a binomial or multinomial model: the class whose coefficients are 0.
    """

    family: str
    link: str
    X: np.ndarray
    y: np.ndarray
    labels: tuple[str, ...]
    reference: int
    fit_intercept: bool

    @property
    def names(self) -> list[str]:
        return [f"x{j}" for j in range(self.X.shape[1])]

    @property
    def outcomes(self) -> np.ndarray:
        """y as the user has it: labels, or counts."""
        return np.array([self.labels[c] for c in self.y]) if self.labels else self.y

    @property
    def options(self) -> dict[str, Any]:
        """What to say about an array."""
        found: dict[str, Any] = {"family": self.family, "link": self.link}
        if self.family == "ordinal":
            return found | {"order": list(self.labels)}
        if self.labels:
            found["reference"] = self.labels[self.reference]
        return found | {"fit_intercept": self.fit_intercept}

    def truth(self) -> tuple[Answer, list[tuple[str, str]]]:
        """The answer, and (class, feature) of each coefficient."""
        ends = ["intercept"] * self.fit_intercept
        own: dict[str, Any] = {"fit_intercept": self.fit_intercept}
        if self.family == "ordinal":
            found = answer("ordinal", self.link, self.X, self.y, classes=range(len(self.labels)))
            pairs = zip(self.labels, self.labels[1:], strict=False)
            cuts = [(f"{a}|{b}", "threshold") for a, b in pairs]
            return found, [("", name) for name in self.names] + cuts
        if not self.labels:
            found = answer(self.family, self.link, self.X, self.y, **own)
            return found, [("", name) for name in (*self.names, *ends)]
        order = sorted(range(len(self.labels)), key=lambda c: _rank(self.labels)[c])
        free = [c for c in order if c != self.reference]
        if self.family == "multinomial":
            found = answer(
                "multinomial",
                self.link,
                self.X,
                self.y,
                classes=order,
                reference=self.reference,
                **own,
            )
        else:
            event = (self.y != self.reference).astype(int)
            found = answer("binomial", self.link, self.X, event, **own)
        return found, [(self.labels[c], name) for c in free for name in (*self.names, *ends)]


def _rank(labels: tuple[str, ...]) -> list[int]:
    """The places of the labels when they are sorted: numbers by value, others as text."""
    is_number = all(label.isdecimal() for label in labels)
    order = sorted(labels, key=int) if is_number else sorted(labels)
    return [order.index(label) for label in labels]


def draw(rng: np.random.Generator, family: str, link: str) -> Model:
    """A few rows, separated more often than not."""
    n, d = int(rng.integers(4, 11)), int(rng.integers(1, 4))
    k = {"multinomial": 3, "ordinal": int(rng.integers(2, 5)), "binomial": 2}.get(family, 0)
    if family == "multinomial":
        k, d = int(rng.integers(2, 5)), min(d, 2)
    n = max(n, k + 1)
    X = rng.integers(-2, 3, (n, d))
    if k:
        y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
        names = NAMES[k]
        labels = names[int(rng.integers(len(names)))]
    else:
        y, labels = rng.integers(0, 4, n) * rng.integers(0, 2, n), ()
        y[0] = max(1, y[0])
        y += family == "truncated-poisson"
    if rng.random() < 0.6:
        j = int(rng.integers(d))
        X[:, j] = np.sign(rng.normal()) * y + rng.integers(0, 2, n) * (rng.random(n) < 0.3)
    if rng.random() < 0.15:
        X[:, -1] = rng.integers(-1, 2)
    if rng.random() < 0.15 and d > 1:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.3:
        X[:, -1] = rng.random(n) < 0.3
    needs_one = family == "ordinal" or (link in ("log", "logc") and family == "binomial")
    order = rng.permutation(n)
    return Model(
        family,
        link,
        X[order],
        y[order],
        labels,
        int(rng.integers(k)) if k and family != "ordinal" else 0,
        needs_one or rng.random() < 0.7,
    )


# --- ways in: what to ask, and (X, y, more) for `verify` -----------------------------------------

Asked = tuple[Any, tuple[Any, Any, dict[str, Any]]]


def by_arrays(rng: np.random.Generator, model: Model) -> Asked:
    """Dense, sparse or lists."""
    forms: list[Callable[[np.ndarray], Any]] = [np.asarray, sp.csr_array, lambda X: X.tolist()]
    X = forms[int(rng.integers(3))](model.X.astype(np.float64))
    options = model.options
    if model.labels and model.family != "ordinal" and _rank(model.labels)[model.reference] == 0:
        del options["reference"]  # the first by default
    verdict = check_separability(X, model.outcomes, feature_names=model.names, **options)
    return verdict, (X, model.outcomes, _ordered(model))


def by_weights(rng: np.random.Generator, model: Model) -> Asked:
    """Rows of weight 0, whatever they hold, are not there."""
    n = len(model.y)
    more = rng.integers(-2, 3, (3, model.X.shape[1]))
    X, y = np.vstack([model.X, more]), np.r_[model.outcomes, model.outcomes[:3]]
    weights = np.r_[rng.integers(1, 5, n), np.zeros(3)] * float(rng.choice([1.0, 0.25]))
    order = rng.permutation(n + 3)
    X, y, weights = X[order].astype(np.float64), y[order], weights[order]
    verdict = check_separability(
        X, y, sample_weight=weights, feature_names=model.names, **model.options
    )
    return verdict, (X, y, {"sample_weight": weights, **_ordered(model)})


def by_frame(rng: np.random.Generator, model: Model) -> Asked:
    """A frame whose last column is a category; y of an ordinal model is one, too."""
    import pandas as pd

    frame = pd.DataFrame(model.X.astype(np.float64), columns=model.names)
    column = model.X[:, -1]
    levels = sorted(set(column.tolist()))
    frame[model.names[-1]] = pd.Categorical([f"v{v}" for v in column], [f"v{v}" for v in levels])
    y, options = model.outcomes, model.options
    if model.family == "ordinal":
        y = pd.Series(pd.Categorical(y, list(model.labels), ordered=True))
        del options["order"]
    verdict = check_separability(frame, y, **options)
    design = read_design(frame, y)
    return verdict, (design.X, y, {"feature_names": design.feature_names})


def _with_dummies(model: Model) -> Model:
    """The model that `by_frame` asks about: dummies for all levels but the first."""
    column = model.X[:, -1]
    levels = sorted(set(column.tolist()))[1:]
    dummies = np.column_stack([column == level for level in levels]).astype(np.int64)
    return replace(model, X=np.column_stack([model.X[:, :-1], dummies]))


def by_formula(rng: np.random.Generator, model: Model) -> Asked:
    """Terms by name, with or without an intercept."""
    import pandas as pd

    frame = pd.DataFrame(model.X.astype(np.float64), columns=model.names)
    frame["outcome"] = model.outcomes
    text = f"outcome ~ {'' if model.fit_intercept else '0 + '}{' + '.join(model.names)}"
    options = model.options
    options.pop("fit_intercept", None)
    verdict = check_separability(text, data=frame, **options)
    design = read_design(text, data=frame)
    more = {"feature_names": design.feature_names, **_ordered(model)}
    return verdict, (design.X, design.y, more)


def by_counts(rng: np.random.Generator, model: Model) -> Asked:
    """Successes and failures, or a column per class: rows with equal features are one."""
    k = len(model.labels)
    X, place = np.unique(model.X, axis=0, return_inverse=True)
    counts = np.zeros((len(X), k), np.int64)
    np.add.at(counts, (place.ravel(), model.y), 1)
    counts *= int(rng.integers(1, 4))
    # of two columns the first are successes, "1"; of more, classes are numbered
    y = counts[:, ::-1] if k == 2 else counts
    options = model.options
    options["reference"] = model.reference
    if k == 2 and rng.random() < 0.4:
        import pandas as pd

        frame = pd.DataFrame(X.astype(np.float64), columns=model.names)
        frame["hits"], frame["misses"] = y.T
        none = "" if options.pop("fit_intercept") else "0 + "
        text = f"hits + misses ~ {none}{' + '.join(model.names)}"
        return check_separability(text, data=frame, **options), (X.astype(np.float64), y, {})
    verdict = check_separability(X.astype(np.float64), y, feature_names=model.names, **options)
    return verdict, (X.astype(np.float64), y, {})


def by_statsmodels(rng: np.random.Generator, model: Model) -> Asked:
    """A model, or its result after a step or two, with the constant anywhere."""
    given = statsmodels_model(rng, model)
    if rng.random() < 0.5:
        with contextlib.suppress(Exception):  # it may fail, as it should: the model is what counts
            given = given.fit(maxiter=2, **({"disp": 0} if hasattr(given, "loglikeobs") else {}))
    verdict = check_separability(given)
    design = read_design(given)
    return verdict, (design.X, design.y, {"feature_names": design.feature_names})


def statsmodels_model(rng: np.random.Generator, model: Model) -> Any:
    """The same model in statsmodels."""
    import pandas as pd
    import statsmodels.api as sm
    from scipy import stats
    from statsmodels.discrete.truncated_model import TruncatedLFPoisson
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X = pd.DataFrame(model.X.astype(np.float64), columns=model.names)
    if model.fit_intercept and model.family != "ordinal":
        X.insert(int(rng.integers(X.shape[1] + 1)), "const", 1.0)
    links = sm.families.links
    if model.family == "ordinal":
        y = pd.Series(pd.Categorical(model.outcomes, list(model.labels), ordered=True))
        distributions = {
            "logit": "logit",
            "probit": "probit",
            "cloglog": stats.gumbel_l,
            "loglog": stats.gumbel_r,
            "cauchit": stats.cauchy,
            "cdf": stats.laplace,
        }
        return OrderedModel(y, X, distr=distributions[model.link])
    if model.family == "multinomial":
        order = [model.labels[model.reference]]
        order += [label for label in model.labels if label not in order]
        return sm.MNLogit(pd.Series(pd.Categorical(model.outcomes, order), name="y"), X)
    if model.family == "truncated-poisson":
        return TruncatedLFPoisson(model.y, X)
    if model.family == "poisson":
        if rng.random() < 0.5:
            return sm.Poisson(model.y, X)
        return sm.GLM(model.y, X, family=sm.families.Poisson())
    if model.family == "negative-binomial":
        if rng.random() < 0.5:
            return sm.NegativeBinomial(model.y, X, loglike_method=str(rng.choice(["nb1", "nb2"])))
        return sm.GLM(model.y, X, family=sm.families.NegativeBinomial())
    event = (model.y != model.reference).astype(np.float64)
    if model.link in ("logit", "probit") and rng.random() < 0.4:
        return (sm.Logit if model.link == "logit" else sm.Probit)(event, X)
    link = {
        "logit": links.Logit,
        "probit": links.Probit,
        "cloglog": links.CLogLog,
        "loglog": links.LogLog,
        "cauchit": links.Cauchy,
        "cdf": lambda: links.CDFLink(stats.laplace),
        "log": links.Log,
        "logc": links.LogC,
    }[model.link]()
    family = sm.families.Binomial(link=link)
    if rng.random() < 0.3:  # grouped: successes and failures
        times = rng.integers(1, 4, len(event))
        return sm.GLM(np.column_stack([event, 1.0 - event]) * times[:, None], X, family=family)
    return sm.GLM(event, X, family=family, freq_weights=rng.integers(1, 4, len(event)))


def by_command_line(rng: np.random.Generator, model: Model) -> Asked:
    """`momentron check` and `momentron verify` on a table."""
    from momentron.cli import main

    with tempfile.TemporaryDirectory() as folder:
        table, proof = Path(folder, "t.csv"), Path(folder, "p.json")
        lines = [",".join([*model.names, "outcome"])]
        for row, y in zip(model.X.tolist(), model.outcomes.tolist(), strict=True):
            lines.append(",".join(map(str, [*row, y])))
        table.write_text("\n".join(lines) + "\n")
        words = ["check", str(table), "--target", "outcome", "--proof", str(proof), "--json"]
        options = model.options
        if not options.pop("fit_intercept", True):
            words.append("--no-intercept")
        order = options.pop("order", None)
        words += ["--order", ",".join(order)] if order else []
        for name, value in options.items():
            words += [f"--{name}", str(value)]
        said, _ = _run(main, words)
        verdict = Verdict.from_json(proof.read_text())
        summary = json.loads(said)
        if (summary["kind"], summary["link"]) != (verdict.kind, verdict.link):
            raise AssertionError("the command line and its proof differ")
        words = ["verify", str(proof), str(table), "--target", "outcome"]
        words += ["--order", ",".join(order)] if order else []
        said, code = _run(main, words)
        if code != 0 or verdict.model not in said:
            raise AssertionError(f"verify said {said!r}")
    return verdict, (model.X.astype(np.float64), model.outcomes, _ordered(model))


def _run(main: Callable[[list[str]], None], words: list[str]) -> tuple[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            main(words)
            code: Any = 0
        except SystemExit as ended:
            code = ended.code
    return printed.getvalue(), code or 0


def _ordered(model: Model) -> dict[str, Any]:
    return {"order": list(model.labels)} if model.family == "ordinal" else {}


WAYS: dict[Callable[[np.random.Generator, Model], Asked], float] = {
    by_arrays: 0.26,
    by_weights: 0.1,
    by_frame: 0.14,
    by_formula: 0.15,
    by_counts: 0.1,
    by_statsmodels: 0.23,
    by_command_line: 0.02,
}


def _as_asked(way: Any, model: Model) -> Model | None:
    """The model as this way in has it; None where there is no such way."""
    if way is by_counts:
        if model.family not in ("binomial", "multinomial") or len(model.labels) == 2 != (
            model.family == "binomial"
        ):
            return None
        return replace(model, labels=tuple(map(str, range(len(model.labels)))))
    if way is by_frame:
        if len(set(model.X[:, -1].tolist())) < 2:
            return None
        return model
    if way is by_statsmodels:
        columns = np.column_stack([np.ones(len(model.X)), model.X])
        is_spanned = np.linalg.matrix_rank(columns) == np.linalg.matrix_rank(model.X)
        has_ones = (model.X == 1).all(axis=0).any()  # which statsmodels takes for the intercept
        if has_ones or (model.family == "ordinal" and is_spanned):
            return None
    if way is by_statsmodels and model.family == "binomial":
        # statsmodels has numbers: the event is 1
        return replace(model, labels=("0", "1") if model.reference == 0 else ("1", "0"))
    return model


# --- what is wrong -------------------------------------------------------------------------------


def _difference(verdict: Any, model: Model, truth: Answer, named: list[tuple[str, str]]) -> str:
    """Where a verdict differs from the truth; empty where it does not."""
    if (verdict.family, verdict.link) != (model.family, model.link):
        return f"{verdict.family} and {verdict.link} for {model.family} and {model.link}"
    if verdict.kind != truth.kind:
        return f"{verdict.kind} for {truth.kind} data"
    if verdict.dimension != truth.dimension:
        return f"dimension {verdict.dimension} for {truth.dimension}"
    direction = _direction(verdict, model)
    if not truth.admits(direction):
        return f"the direction {direction} loses a likelihood, or has none rise"
    for e, value in zip(verdict.estimates, direction, strict=True):
        if e.direction not in (None, (value > 0) - (value < 0)):
            return f"the direction of {e} is that of {value}"
    found = [(e.label, e.feature, e.estimate) for e in verdict.estimates]
    wanted = [(*name, status) for name, status in zip(named, truth.estimates, strict=True)]
    if found != wanted:
        return f"estimates {found} for {wanted}"
    link = "a distribution function" if model.link == "cdf" else f"{model.link} link"
    if link not in verdict.paper_sentence or not verdict.paper_sentence.endswith("."):
        return f"the sentence {verdict.paper_sentence!r} does not name the link"
    return ""


def _direction(verdict: Any, model: Model) -> list[int]:
    """The direction of a verdict in the coefficients of the model, up to a factor."""
    weights, d = verdict.whole_weights(), verdict.proof["data"]["features"]
    k = len(verdict.classes)
    if model.family == "ordinal":  # an intercept is minus a threshold
        return [weights.get(c, 0) * (1 if c < d else -1) for c in range(d + k - 1)]
    width = d + model.fit_intercept
    if not model.labels or verdict.event:
        return [weights.get(c, 0) for c in range(width)]
    blocks = [[weights.get((c - 1) * width + p, 0) for p in range(width)] for c in range(k)]
    blocks[0] = [0] * width
    zero = blocks.pop(verdict.classes.index(model.labels[model.reference]))
    return [v - z for block in blocks for v, z in zip(block, zero, strict=True)]


def _changed(rng: np.random.Generator, proof: dict[str, Any]) -> dict[str, Any]:
    """A proof with one status that is false."""
    proof = copy.deepcopy(proof)
    section = proof["estimates"]
    place = int(rng.integers(len(section["status"])))
    others = [status for status in STATUSES if status != section["status"][place]]
    section["status"][place] = str(rng.choice(others))
    aliased = [i for i, status in enumerate(section["status"]) if status == "aliased"]
    if aliased and section["aliases"]["numbers"] and section["used"] is None and rng.random() < 0.7:
        section["status"][int(rng.choice(aliased))] = "undetermined"
        section["directions"] = _to_both_sides(proof)
    if rng.random() < 0.3:  # and without what would contradict it
        section["rank"] = None
        section["aliases"] = {"starts": [0], "coordinates": [], "numbers": []}
    return proof


def _to_both_sides(proof: dict[str, Any]) -> dict[str, Any]:
    """Directions far to either side along an alias: no likelihood changes there."""
    u = proof["estimates"]["aliases"]
    end = u["starts"][1]
    alias = dict(zip(u["coordinates"][:end], u["numbers"][:end], strict=True))
    size = max([*alias, *proof["weights"]["coordinates"]]) + 1
    w = dict.fromkeys(range(size), 0) | Verdict.from_json(json.dumps(proof)).whole_weights()
    far = 1 + max(map(abs, w.values()))
    moved = [
        [w[c] + sign * far * int(alias.get(c, "0x0"), 16) for c in range(size)] for sign in (1, -1)
    ]
    return {
        "starts": [0, size, 2 * size],
        "coordinates": [*range(size), *range(size)],
        "numbers": [hex(v) for vector in moved for v in vector],
    }


def _is_accepted(proof: Any, data: tuple[Any, Any, dict[str, Any]]) -> bool:
    X, y, more = data
    try:
        return verify(json.dumps(proof), X, y, **more)
    except InputError:
        return False


def prepare() -> None:
    """Import what the ways in need, once for all children."""
    import formulaic  # noqa: F401
    import pandas  # noqa: F401
    import statsmodels.api
    import statsmodels.miscmodels.ordinal_model  # noqa: F401


def trial(seed: int, number: int) -> str | None:
    """One model: why an answer about it is false, or None."""
    rng = np.random.default_rng([seed, number, 7])
    models = [(family, link) for family, links in LINKS.items() for link in links]
    family, link = models[number % len(models)]
    ways = list(WAYS)
    way = ways[int(rng.choice(len(ways), p=np.array(list(WAYS.values()))))]
    drawn = draw(rng, family, link)
    model = _as_asked(way, drawn)
    if model is None:
        way, model = by_arrays, drawn
    truth, named = (_with_dummies(model) if way is by_frame else model).truth()
    if way is by_frame:
        levels = sorted(set(model.X[:, -1].tolist()))[1:]
        columns = [*model.names[:-1], *(f"{model.names[-1]}[v{level}]" for level in levels)]
        table = dict(zip([f"x{j}" for j in range(len(columns))], columns, strict=True))
        named = [(label, table.get(name, name)) for label, name in named]

    def judge(asked: Asked) -> str | None:
        verdict, data = asked
        wrong = _difference(verdict, model, truth, named)
        if wrong:
            return wrong
        if way in (by_arrays, by_formula) and truth.kind != "overlapping":
            rows = verdict.separated_rows.tolist()
            if rows != truth.separated:
                return f"separated rows {rows} for {truth.separated}"
        if not _is_accepted(verdict.proof, data):
            return "verify refuses the proof"
        for _ in range(3):
            changed = _changed(rng, verdict.proof)
            if _is_accepted(changed, data):
                return f"verify accepts {changed['estimates']['status']} for {truth.estimates}"
        return _not_refused(rng, model, data)

    def attempt() -> Asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return way(rng, model)

    reason = outcome(attempt, judge, SECONDS, may_refuse=False)
    return None if reason is None else f"{reason} [{way.__name__}, {family}, {link}]"


def _not_refused(
    rng: np.random.Generator, model: Model, data: tuple[Any, Any, dict[str, Any]]
) -> str | None:
    """A link that the theory does not cover must be refused by name."""
    link = str(rng.choice([link for link in OTHER_LINKS if link not in LINKS[model.family]]))
    options = model.options | {"link": link}
    try:
        check_separability(model.X.astype(np.float64), model.outcomes, **options)
    except InputError as error:
        return None if repr(link) in str(error) else f"{error} does not name {link!r}"
    return f"link={link!r} is accepted for {model.family}"
