"""Which parameters a kernel is about: all that are trained, or those that the user names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

from torch import nn

from momentron.errors import InputError, short

Selection = str | Iterable[str] | Callable[[str, nn.Parameter], bool] | None
"""Patterns of names, a predicate of name and parameter, or None for all."""

SHOWN = 8  # names that an error lists


def chosen_parameters(model: nn.Module, selection: Selection = None) -> dict[str, nn.Parameter]:
    """The parameters with requires_grad=True that were chosen, by name, each once.

    A pattern chooses a parameter if it matches its name or that of a module that holds it:
    "head.weight", "head", "blocks.0", "*.bias", "blocks.[0-3]". A parameter that modules share
    has several names, each of which will do.

    Raises
    ------
    InputError
        If nothing is trained, or a pattern matches nothing.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise InputError(
            "the model has 0 parameters with requires_grad=True; its kernel needs at least 1"
        )
    for name, p in trained.items():
        if p.is_complex():
            raise InputError(f"parameter {name!r} is {p.dtype}; the kernel needs real parameters")
    if selection is None:
        return trained
    if callable(selection):
        found = {name: p for name, p in trained.items() if selection(name, p)}
        if not found:
            raise InputError(f"parameters={short(selection)} chose none of {_some(trained)}")
        return found
    return _by_patterns(model, trained, _patterns(selection))


def _patterns(selection: Any) -> list[str]:
    patterns = [selection] if isinstance(selection, str) else list(selection)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"parameters has {short(pattern)}; pass names, patterns or a function")
    if not patterns:
        raise InputError("parameters is empty; a kernel needs at least 1, or None for all")
    return patterns


def _by_patterns(
    model: nn.Module, trained: dict[str, nn.Parameter], patterns: list[str]
) -> dict[str, nn.Parameter]:
    every = list(model.named_parameters(remove_duplicate=False))
    chosen: set[int] = set()
    for pattern in patterns:
        matched = [p for name, p in every if _matches(name, pattern)]
        if not matched:
            raise InputError(f"parameters={short(pattern)} matches none of {_some(trained)}")
        kept = {id(p) for p in matched if p.requires_grad}
        if not kept:
            raise InputError(
                f"parameters={short(pattern)} matches frozen parameters only; call "
                "requires_grad_(True) on those that the kernel is to be about"
            )
        chosen |= kept
    return {name: p for name, p in trained.items() if id(p) in chosen}


def _matches(name: str, pattern: str) -> bool:
    holders = accumulate(name.split("."), lambda outer, inner: f"{outer}.{inner}")
    return any(fnmatchcase(holder, pattern) for holder in holders)


def _some(trained: dict[str, Any]) -> str:
    names = list(trained)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the trained parameters {names[:SHOWN]}{more}"
