"""Which classes separate from which, in a joint model of several: read off a verified proof.

A row of class c makes a pair (row, j) with each other class j. A proof shows two things of pairs:
those with s > 0 along its w are *strict*; those with weight in Σ q a = 0 have s = 0 along every w
without errors, and are *on the boundary*. A complete proof leaves none open. So for two classes c
and j, of whose examples each makes one pair with the other class:

- all strict: w_c − w_j has every example of both strictly on its own side, and separates the two
  completely, in the joint model and so without the other classes, too;
- some strict: no w without errors has all of them strictly on their side;
- none strict: every w without errors has (w_c − w_j)·x = 0 on every example of both.

The last two speak of the joint model. Two classes that overlap by themselves do so in it, but two
that it cannot tell apart may be separable by themselves: there w_c and w_j need not agree with the
other classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from momentron.separability.family import Family

WORDS = {
    "separable": "are completely separated",
    "quasi-separable": "are quasi-completely separated",
    "overlapping": "overlap",
    "undecided": "are undecided",
}
LISTED = 10  # pairs of classes that a sentence or a table names


class BoundaryPair(NamedTuple):
    """A row that no hyperplane without errors has strictly on its side against some class."""

    row: int
    label: str
    against: str


@dataclass(frozen=True)
class ClassPair:
    """Two classes in a joint model, and whether it separates them.

    Attributes
    ----------
    first, second : str
    kind : {"separable", "quasi-separable", "overlapping", "undecided"}
        "separable": weights without errors have every example of the two strictly on its own side.
        "quasi-separable": some examples of the two at most, whatever the weights without errors.
        "overlapping": along none of them do the odds of the two classes change on any example of
        either. "undecided": the proof is not complete.
    strict : (int, int) or None
        How many examples of the first class are strictly on their side against the second along
        the direction of the proof, and of the second against the first; None where undecided.
    boundary : (int, int)
        How many are on the boundary along every direction without errors.
    """

    first: str
    second: str
    kind: str
    strict: tuple[int, int] | None
    boundary: tuple[int, int]


def list_boundary_pairs(proof: dict[str, Any], family: Family) -> list[BoundaryPair]:
    """The boundary pairs of a proof, by row and class; none where it does not tell the classes."""
    classes = proof["data"]["classes"]
    rows, own, others = _boundary(proof, family)
    named = zip(rows.tolist(), own.tolist(), others.tolist(), strict=True)
    return [BoundaryPair(i, classes[c], classes[j]) for i, c, j in named]


def list_class_pairs(proof: dict[str, Any], family: Family) -> list[ClassPair]:
    """Every two classes that the model compares; none where the proof does not tell the classes."""
    known = proof.get("class_rows")
    if known is None or not family.compares_classes:
        return []
    classes, totals, k = proof["data"]["classes"], known["counts"], family.k
    _, own, others = _boundary(proof, family)
    on = np.bincount(own * k + others, minlength=k * k).reshape(k, k).tolist()
    found = []
    for c in range(k):
        for j in (j for j in family.pairs(c) if j > c):
            boundary, total = (on[c][j], on[j][c]), (totals[c], totals[j])
            strict = (total[0] - boundary[0], total[1] - boundary[1]) if proof["complete"] else None
            if strict is None:
                kind = "undecided"
            elif any(boundary):
                kind = "quasi-separable" if any(strict) else "overlapping"
            else:
                kind = "separable"
            found.append(ClassPair(classes[c], classes[j], kind, strict, boundary))
    return found


def _boundary(proof: dict[str, Any], family: Family) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, its class, other class) of the boundary pairs, in order, as far as they are known."""
    known, groups = proof.get("class_rows"), proof["boundary"]
    if known is None or not groups or not family.compares_classes:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    rows = np.array([i for group in groups for i in group["rows"]], np.int64)
    _, places = np.unique(rows, return_inverse=True)
    own = np.array(known["boundary"], np.int64)[places]
    if all("others" in group for group in groups):
        others = np.array([j for group in groups for j in group["others"]], np.int64)
    else:
        others = 1 - own  # of two classes the other one is known
    order = np.unique(rows * family.k + others, return_index=True)[1]  # a pair may be in two groups
    return rows[order], own[order], others[order]


def most_separated_first(pairs: Sequence[ClassPair]) -> list[ClassPair]:
    """By kind, and otherwise in order: separation is what makes estimates infinite."""
    kinds = list(WORDS)
    return sorted(pairs, key=lambda pair: kinds.index(pair.kind))


def sentence_on_classes(pairs: Sequence[ClassPair]) -> str:
    """Which classes separate from which, kind by kind."""
    parts = []
    for kind, words in WORDS.items():
        named = [f"{pair.first} and {pair.second}" for pair in pairs if pair.kind == kind]
        if named:
            more = f" and {len(named) - LISTED} more pairs" if len(named) > LISTED else ""
            parts.append(f"{', '.join(named[:LISTED])}{more} {words}")
    return f"in the joint model {'; '.join(parts)}" if parts else ""
