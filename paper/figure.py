"""What an experiment is made of: parts that are measured, claims about them, and a picture."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from paper.data import Sample
from paper.judge import Claim

ABOUT = Path(__file__).parent / "about"

Report = Callable[[float], None]
"""Told the share of a part that is done, from 0 to 1."""


@dataclass(frozen=True)
class Measured:
    """What a part found.

    Attributes
    ----------
    columns : dict of ndarray
        A curve: columns of one length, "iteration" among them. "seconds", which no two runs share,
        is written to a file of its own.
    facts : dict
        Plain numbers and words.
    files : dict
        Name → text, to be written next to the picture.
    """

    columns: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One piece of a run, saved when finished: an interrupt costs the piece in hand, no more.

    Attributes
    ----------
    name : str
    parameters : mapping
        All that the outcome depends on besides the data and the versions; plain numbers and words.
        Where they change, what was saved no longer counts.
    weight : float
        Rough cost, in units that the parts of a figure share; for the time left.
    measure : callable
        Does the work, and reports how far it is.
    """

    name: str
    parameters: Mapping[str, Any]
    weight: float
    measure: Callable[[Report], Measured]


class Figure(ABC):
    """A figure of the paper: one file here, and one line in `FIGURES`.

    Parameters
    ----------
    sample : Sample
        The data, train and test.
    quick : bool
        Whether this is the small version; recorded with the results.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    seed: ClassVar[int | None] = None
    """None where nothing is drawn at random."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Needed besides those that all figures need; their versions are recorded."""

    def __init__(self, sample: Sample, *, quick: bool) -> None:
        self.sample = sample
        self.quick = quick

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """What `about` says in numbers, by the names that its text has for them."""

    def about(self) -> str:
        """What was run, for the figure's page: a list in Markdown, from a file of its name."""
        text = (ABOUT / f"{self.name}.md").read_text("utf-8")
        return text.rstrip("\n").format(**self.numbers())

    @abstractmethod
    def parts(self) -> list[Part]:
        """The pieces to measure, in order."""

    def parts_after(self, measured: Mapping[str, Measured]) -> list[Part]:
        """Further pieces, which depend on what `parts` have found; none by default."""
        return []

    def can_show(self, measured: Mapping[str, Measured]) -> bool:
        """Whether what is measured so far makes a figure; only all of it does by default."""
        return all(part.name in measured for part in self.parts())

    @abstractmethod
    def claims(self, measured: Mapping[str, Measured]) -> list[Claim]:
        """The paper's claims, each with the numbers that decide it; keyed by the parts' names."""

    def judged(self, measured: Mapping[str, Measured]) -> list[Claim]:
        """The claims; of the small version, those left open that only the paper's size decides."""
        claims = self.claims(measured)
        if not self.quick:
            return claims
        return [claim if claim.any_size else claim.left_open() for claim in claims]

    def details(self, measured: Mapping[str, Measured]) -> str:
        """More numbers for the figure's page, as Markdown; none by default."""
        return ""

    @abstractmethod
    def draw(self, measured: Mapping[str, Measured]) -> Any:
        """The picture, as a matplotlib figure."""
