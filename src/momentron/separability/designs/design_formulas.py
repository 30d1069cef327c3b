"""Formulas, "y ~ C(treat) * dose", through formulaic."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from momentron.data.exactness.decimals import shortest_decimals
from momentron.errors import InputError, one_line, short
from momentron.separability.designs.design import Design
from momentron.separability.designs.spelling import Spelling

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # that messages of formulaic have for terminals
COLUMN = re.compile(r"(?:C\(\s*)*(column\d+_of_data)[\s)]*")  # as it is, or as a factor
SUM = re.compile(r"(?:[^\W\d]\w*|[\s+()])+")  # of names
PLUS = re.compile(r"\+(?![^(]*\))")  # outside of brackets
OPTIONS = {
    "context": {"np": np, "sqrt": np.sqrt, "cbind": lambda *columns: np.column_stack(columns)},
    "output": "pandas",
    "na_action": "ignore",  # formulaic would leave rows out; here missing values are refused
}
TEXT = ("object", "str", "string")  # types of columns that may hold text
DIGITS = 15  # that a product of decimals has at most, if it is to be exact


def is_frame(X: Any) -> bool:
    """Whether X is a pandas data frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def is_formula(X: Any) -> bool:
    """Whether X is a formula: text with a tilde."""
    return isinstance(X, str) and "~" in X


def from_formula(text: str, data: Any, decimals: str, sample_weight: Any = None) -> Design:
    """The design of a formula in the columns of a data frame.

    The left side is a column, an expression in Python's words, or counts of outcomes: ``successes +
    failures`` or R's ``cbind(successes, failures)``. Names may have dots, as R's do; a dot alone
    stands for all columns but those of the left side and of the weights.
    """
    try:
        import formulaic
        import pandas as pd
    except ImportError as error:
        raise InputError('formulas need formulaic: pip install "momentron[formula]"') from error
    if not is_frame(data):
        raise InputError(
            f"the formula {short(text)} needs data=, a pandas data frame; got {type(data).__name__}"
        )
    weight = sample_weight if isinstance(sample_weight, str) else None
    spelling = Spelling(text, [name for name in data.columns if isinstance(name, str)], weight)
    for name in spelling.used:
        if getattr(data[name], "ndim", 1) != 1:
            raise InputError(
                f"data has {data[name].shape[1]} columns called {short(name)}; rename them"
            )
    _require_complete(data, sorted(spelling.used))
    # the columns that the formula uses, under the names that it has for them
    renamed = {alias: data[name] for name, alias in spelling.used.items()}
    frame = pd.DataFrame(renamed, index=data.index)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            y = _outcomes(spelling.outcome, frame)
            terms = [term for term in formulaic.Formula(spelling.terms) if not _is_offset(term)]
            matrix = formulaic.model_matrix(formulaic.Formula(terms), frame, **OPTIONS)
    except Exception as error:  # formulaic has many errors of its own
        words = spelling.restored(COLOURS.sub("", str(error)) or type(error).__name__)
        raise InputError(f"the formula {short(text)} cannot be used: {one_line(words)}") from error
    has_intercept = "Intercept" in matrix.columns
    X = matrix.drop(columns="Intercept") if has_intercept else matrix
    if not X.shape[1]:
        raise InputError(f"the formula {short(text)} has no term but the intercept; add a feature")
    values = np.array(X, np.float64)
    names = [spelling.restored(str(name)) for name in X.columns]
    missing = ~np.isfinite(values)
    if missing.any():  # as in the logarithm of 0
        at = int(missing.any(axis=0).argmax())
        raise InputError(
            f"{names[at]} is missing or infinite in {int(missing[:, at].sum())} of {len(values)} "
            f"rows, the first of which is row {int(missing[:, at].argmax())}; leave these rows out"
        )
    if decimals == "shortest":
        values = _exact_products(values, list(X.columns), matrix)
    if weight is not None:
        if weight not in data.columns:
            raise InputError(f"sample_weight={short(weight)} is not a column of data")
        sample_weight = data[weight]
    return Design.of(
        values,
        y,
        sample_weight,
        index=data.index,
        fit_intercept=has_intercept,
        feature_names=names,
    )


def _outcomes(words: str, frame: Any) -> Any:
    """The left side of a formula: a column as it is, counts of outcomes, or what is computed."""
    import formulaic

    column = COLUMN.fullmatch(words)
    if column:
        return frame[column[1]]
    parts = PLUS.split(words) if SUM.fullmatch(words) else []
    computed = f"cbind({', '.join(parts)})" if len(parts) > 1 else words.strip("{}")
    found = np.asarray(formulaic.model_matrix(f"0 + {{{computed}}}", frame, **OPTIONS))
    # truth values may become a column per level; the last is that of True
    return found if computed.startswith("cbind") else found[:, -1]


def _is_offset(term: Any) -> bool:
    """Whether a term is an offset, which is finite, so that separation does not see it."""
    is_offset = any(factor.expr.startswith("offset(") for factor in term.factors)
    if is_offset and len(term.factors) > 1:
        raise InputError("offset() must be a term of its own")
    return is_offset


def _require_complete(data: Any, names: list[str]) -> None:
    """Refuse a frame with missing values in some columns, and count them by column."""
    counts = data[names].isna().sum()
    counts = counts[counts > 0]
    if counts.empty:
        return
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    texts = [name for name in counts.index if str(data[name].dtype) in TEXT]
    hint = (
        f" (if {texts[0]!r} says 'None' or 'NA' in the file and means it: pandas.read_csv(…, "
        "keep_default_na=False, na_values=['']))"
        if texts
        else ""
    )
    raise InputError(
        f"data has missing values, by column: {listed}; leave these rows out, "
        f"data.dropna(subset={counts.index.tolist()}){hint}"
    )


def _exact_products(values: np.ndarray, names: list[str], matrix: Any) -> np.ndarray:
    """Products of columns as decimals: 0.1 × 3 is 0.3, which floats miss by one unit.

    A column of an interaction is put back to the decimal of 15 digits next to it, where that is
    within two units of the last place.
    """
    places = {name: j for j, name in enumerate(names)}
    for term, indices in matrix.model_spec.term_indices.items():
        if len(term.factors) < 2:
            continue
        for index in indices:
            j = places.get(matrix.columns[index])
            if j is None:
                continue
            whole, _ = shortest_decimals(values[:, j])
            for i in np.flatnonzero(np.abs(whole) >= 10**DIGITS).tolist():
                near = float(f"{values[i, j]:.{DIGITS}g}")
                if abs(near - values[i, j]) <= 2 * np.spacing(abs(values[i, j])):
                    values[i, j] = near
    return values
