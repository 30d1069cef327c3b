"""The values of C that a path goes along."""

from collections.abc import Iterable
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from momentron.data.arguments import as_count
from momentron.errors import InputError, short
from momentron.fitting.options import checked_C

MOST_PRICES = 10_000  # that a number of them may ask for: each is a fit


def as_grid(Cs: Any) -> list[float]:
    """Values of C in growing order: as given, or so many from 1e-4 to 1e4, evenly in log C."""
    if isinstance(Cs, Integral) and not isinstance(Cs, bool):
        return [float(C) for C in np.logspace(-4.0, 4.0, as_count("Cs", Cs, most=MOST_PRICES))]
    if isinstance(Cs, str) or not isinstance(Cs, Iterable) or getattr(Cs, "shape", None) == ():
        raise InputError(
            f"Cs={short(Cs)} must be a sequence of positive numbers, or how many to try"
        )
    grid = sorted(checked_C(C) for C in Cs)
    if not grid:
        raise InputError("Cs is empty; a path needs at least one C")
    for one, other in pairwise(grid):
        if one == other:
            raise InputError(f"Cs has {short(one)} twice; each C is solved once")
    return grid
