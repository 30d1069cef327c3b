"""The estimates of published models, compared with firthmodels: the table of the docs."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from momentron import check_separability, verify
from momentron.datasets import table_path
from momentron.separability.designs import read_design

SIGNS = {1: "+inf", -1: "-inf", 0: "finite"}


class Model(NamedTuple):
    """A formula in the columns of a published table."""

    title: str
    formula: str
    data: Any
    weight: str | None = None


def models() -> list[Model]:
    """The rows of the table."""

    def table(name: str) -> Any:
        return pd.read_csv(table_path(name))

    alligators, kyphosis = table("alligators"), table("kyphosis")
    alligators["fish"] = (alligators["food"] == "Fish").astype(int)
    alligators["reptile"] = (alligators["food"] == "Reptile").astype(int)
    kyphosis["present"] = (kyphosis["kyphosis"] == "present").astype(int)
    iris = load_iris(as_frame=True).frame
    iris.columns = ["sl", "sw", "pl", "pw", "species"]
    return [
        Model("endometrial", "HG ~ NV + PI + EH", table("endometrial")),
        Model("lizards", "grahami + opalinus ~ height + diameter + light + time", table("lizards")),
        Model("lizards", "grahami + opalinus ~ height * diameter * light * time", table("lizards")),
        Model("alligators", "fish ~ lake * size * gender", alligators, "count"),
        Model("alligators", "reptile ~ lake * size * gender", alligators, "count"),
        Model("hepatitis", "HCV ~ city + group * time", table("hepatitis"), "count"),
        Model("vasoconstriction", "constriction ~ volume + rate", table("vasoconstriction")),
        Model("nodal", "nodes ~ age + stage + grade + xray + acid", table("nodal")),
        Model("nodal", "nodes ~ (age + stage + grade + xray + acid)**2", table("nodal")),
        Model("kyphosis", "present ~ age + number + start", kyphosis),
        Model("titanic", "survived + died ~ C(Q('class')) * age + sex", table("titanic")),
        Model("trial", "success + failure ~ C(center) + treatment", table("trial")),
        Model("challenger", "distress ~ temperature", table("challenger")),
        Model("spector", "grade ~ gpa + tuce + psi", table("spector")),
        Model("iris 0/1", "species ~ sl + sw + pl + pw", iris[iris["species"] < 2]),
        Model("iris 1/2", "species ~ sl + sw + pl + pw", iris[iris["species"] > 0]),
    ]


def fates(model: Model) -> tuple[str, list[str], list[str] | None]:
    """(kind, our estimates, those of firthmodels; None where it refuses)."""
    from firthmodels import detect_separation

    verdict = check_separability(model.formula, data=model.data, sample_weight=model.weight)
    design = read_design(model.formula, data=model.data, sample_weight=model.weight)
    verify(verdict, design.X, design.y, sample_weight=design.sample_weight)
    keep = np.ones(len(design.y), bool)
    if design.sample_weight is not None:
        keep = np.asarray(design.sample_weight) > 0
    y = np.asarray(design.y)[keep].astype(int)
    try:
        found = detect_separation(np.asarray(design.X)[keep], (y == y.max()).astype(int))
        theirs = [SIGNS[int(sign)] for sign in found.directions]
    except np.linalg.LinAlgError:
        theirs = None
    return verdict.kind, [found.estimate for found in verdict.estimates], theirs


def main() -> None:
    """Print the table in Markdown."""
    print("| data | model | kind | momentron | firthmodels | they differ on |")
    print("|---|---|---|---|---|---|")
    for model in models():
        kind, ours, theirs = fates(model)
        counted = [
            ", ".join(f"{n} {word}" for word, n in Counter(words).items()) if words else "refused"
            for words in (ours, theirs)
        ]
        pairs = zip(ours, theirs or [], strict=theirs is not None)
        differ = str(sum(one != other for one, other in pairs)) if theirs else "–"
        row = [model.title, f"`{model.formula}`", kind, *counted, differ]
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
