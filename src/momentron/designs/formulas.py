"""Formulas, "y ~ C(treat) * dose", through formulaic."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from momentron.designs.design import Design
from momentron.designs.frames import is_frame, require_complete, rows_of
from momentron.errors import InputError, one_line, short
from momentron.exactness import shortest_decimals

GROUPED = re.compile(r"cbind\s*\((.+)\)")
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
DIGITS = 15  # that a product of decimals has at most, if it is to be exact


def is_formula(X: Any) -> bool:
    """Whether X is a formula: text with a tilde."""
    return isinstance(X, str) and "~" in X


def from_formula(text: str, data: Any, decimals: str) -> Design:
    """The design of a formula in the columns of a data frame.

    The left side is a column, an expression in Python's words, or counts of outcomes: ``successes +
    failures`` or R's ``cbind(successes, failures)``.
    """
    try:
        import formulaic
    except ImportError as error:
        raise InputError('formulas need formulaic: pip install "momentron[formula]"') from error
    if not is_frame(data):
        raise InputError(
            f"the formula {short(text)} needs data=, a pandas data frame; got {type(data).__name__}"
        )
    left, _, right = text.partition("~")
    if not left.strip() or not right.strip():
        raise InputError(f"the formula {short(text)} must have two sides, such as 'y ~ x'")
    try:
        wanted = formulaic.Formula(right.strip()).required_variables
    except Exception as error:  # formulaic has many errors of its own
        raise InputError(f"the formula {short(text)} cannot be read: {_one_line(error)}") from error
    sides = [part.strip() for part in _sides(left)]
    wanted |= {name for side in sides for name in _variables(side, data)}
    unknown = sorted(name for name in wanted if name not in data.columns)
    if unknown:
        names = one_line(", ".join(map(str, data.columns)))
        raise InputError(f"data has no column {short(unknown[0])}; its columns: {names}")
    require_complete(data, sorted(wanted))
    try:
        matrix = formulaic.model_matrix(right.strip(), data, context={"np": np}, output="pandas")
        outcomes = [_outcome(side, data, formulaic) for side in sides]
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the formula {short(text)} cannot be used: {_one_line(error)}") from error
    y = outcomes[0] if len(outcomes) == 1 else np.column_stack(outcomes)
    has_intercept = "Intercept" in matrix.columns
    X = matrix.drop(columns="Intercept") if has_intercept else matrix
    if not X.shape[1]:
        raise InputError(f"the formula {short(text)} has no term but the intercept; add a feature")
    values = np.array(X, np.float64)
    if decimals == "shortest":
        values = _exact_products(values, list(X.columns), matrix)
    return Design(
        values,
        y,
        fit_intercept=has_intercept,
        feature_names=[str(name) for name in X.columns],
        row_names=rows_of(data),
    )


def _sides(left: str) -> list[str]:
    """The parts of the left side: one outcome, or counts of several."""
    counts = GROUPED.fullmatch(left.strip())
    if counts:
        return counts[1].split(",")
    return left.split("+") if re.fullmatch(r"[\w.\s+]+", left) else [left]


def _variables(side: str, data: Any) -> set[str]:
    """The columns that an outcome names."""
    if side in data.columns:
        return {side}
    return {name for name in re.findall(r"[A-Za-z_]\w*", side) if name in data.columns} or {side}


def _outcome(side: str, data: Any, formulaic: Any) -> Any:
    if side in data.columns:
        return data[side]
    found = formulaic.model_matrix(f"0 + {{{side}}}", data, context={"np": np}, output="pandas")
    # truth values become a column per level; the last is that of True
    return np.asarray(found)[:, -1]


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


def _one_line(error: BaseException) -> str:
    """A message of formulaic, without the colours that it has for terminals."""
    return one_line(COLOURS.sub("", str(error)) or type(error).__name__)
