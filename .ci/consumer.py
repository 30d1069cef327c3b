"""A program that uses momentron with types: `mypy --strict` must pass on it."""

import numpy as np

from momentron import (
    MarginResult,
    MaxMarginClassifier,
    Verdict,
    check_separability,
    max_margin,
    verify,
)


def margin_of(X: np.ndarray, y: list[str]) -> float:
    result: MarginResult = max_margin(X, y, tol=1e-3)
    lower: float = result.lower
    verdict: Verdict = check_separability(X, y)
    is_proven: bool = verify(verdict.to_json(), X, y)
    model: MaxMarginClassifier = MaxMarginClassifier(C=1.0)
    assert is_proven and model.C == 1.0
    return lower
