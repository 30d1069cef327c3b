"""What a figure is made of (parts that are measured, claims about them, a picture), and its runner.

The runner, which all figures share, measures the parts, saves as it goes, and writes the results.
"""

import hashlib
import io
import json
import math
import os
import platform
import time
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import momentron
from momentron.data.safefiles import open_regular, reason, require_writable, write_atomically
from momentron.errors import InputError, one_line
from momentron.views.display.style import require, styled
from paper.data import Sample
from paper.judge import PAPER, Claim, page

ABOUT = Path(__file__).parent / "about"

Report = Callable[[float], None]
"""Told the share of a part that is done, from 0 to 1."""


@dataclass(frozen=True)
class Measured:
    """What a part found."""

    # A curve: columns of one length, "iteration" among them. "seconds", which no two runs share, is
    # written to a file of its own
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # plain numbers and words
    # name → text, to be written next to the picture
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One piece of a run, saved when finished: an interrupt costs the piece in hand, no more."""

    name: str
    # all that the outcome depends on besides the data and the versions; plain numbers and words.
    # Where they change, what was saved no longer counts
    parameters: Mapping[str, Any]
    weight: float  # rough cost, in units that the parts of a figure share; for the time left
    measure: Callable[[Report], Measured]  # does the work, and reports how far it is


@dataclass
class Figure(ABC):
    """A figure of the paper: one file here, and one line in `FIGURES`."""

    sample: Sample  # the data, train and test
    _: KW_ONLY
    quick: bool  # whether this is the small version; recorded with the results

    name: ClassVar[str]
    title: ClassVar[str]
    seed: ClassVar[int | None] = None
    """None where nothing is drawn at random."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Needed besides those that all figures need; their versions are recorded."""

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


COLUMN = "column."
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Store:
    """Finished parts in a folder, each under the hash of all it depends on.

    Every part depends on the identity: the data, the seed, the versions.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder = folder
        self._identity = dict(identity)

    def load(self, part: Part) -> tuple[Measured, float] | None:
        """What the part measured and how many seconds that took.

        None if it is not finished, or its file cannot be read.
        """
        path = self._path(part)
        if not path.exists():
            return None
        try:
            # np.load would leave a file that it cannot read open
            with open_regular(path) as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except UNREADABLE:
            return None
        words = json.loads(arrays.pop("words").tobytes())
        columns = {name.removeprefix(COLUMN): array for name, array in arrays.items()}
        return Measured(columns, words["facts"], words["files"]), words["seconds"]

    def save(self, part: Part, measured: Measured, seconds: float) -> None:
        """Keep what the part measured."""
        words = {"facts": measured.facts, "files": measured.files, "seconds": seconds}
        arrays: dict[str, Any] = {COLUMN + n: array for n, array in measured.columns.items()}
        arrays["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)
        path = self._path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, stream.getvalue())

    def _path(self, part: Part) -> Path:
        everything = {"part": part.name, "parameters": dict(part.parameters), **self._identity}
        digest = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{part.name}-{digest[:16]}.npz"


Watch = Callable[[str, float], None]
"""Told the part in hand, and the share of the work that is done."""

PNG_DPI = 115
LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Reproduction:
    """What a run wrote."""

    folder: Path  # where the picture, the curves, the page and `claims.json` are
    claims: list[Claim]
    seconds: float  # all parts together, those of an earlier run included
    resumed: list[str]  # the parts that an earlier run had finished


def reproduce(
    figure: Figure, out: Path, *, watch: Watch | None = None, max_time: float | None = None
) -> Reproduction:
    """Measure a figure, draw it, and judge the paper's claims about it.

    The results go to a folder of the figure's name in `out`. Parts that an earlier run into the
    same folder has finished, with the same parameters, data and versions, are not run again. After
    `max_time` seconds no further part is begun: what is finished is shown, or refused as too
    little for a picture.
    """
    folder = out / figure.name
    require()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{one_line(folder, 120)} cannot be created: {reason(error)}; name another folder"
        ) from error
    require_writable(folder / ".momentron-probe")
    store = Store(folder / "parts", identity(figure))
    deadline = math.inf if max_time is None else time.monotonic() + max_time
    measured: dict[str, Measured] = {}
    seconds, resumed = measure(figure.parts(), measured, store, watch, deadline)
    further = measure(figure.parts_after(measured), measured, store, watch, deadline)
    seconds, resumed = seconds + further[0], resumed + further[1]
    if not figure.can_show(measured):
        raise InputError(
            f"{len(measured)} of {len(figure.parts())} parts are finished, too few for a picture; "
            "the same command goes on from here, with more time"
        )
    claims = figure.judged(measured)
    for suffix, picture in render(lambda: figure.draw(measured)).items():
        write_atomically(folder / f"{figure.name}.{suffix}", picture)
    curves = {name: part.columns for name, part in measured.items() if part.columns}
    write_atomically(folder / f"{figure.name}.csv", curves_csv(curves, leave_out=("seconds",)))
    write_atomically(
        folder / f"{figure.name}-seconds.csv", curves_csv(curves, only=("iteration", "seconds"))
    )
    for part in measured.values():
        for name, text in part.files.items():
            write_atomically(folder / name, text)
    summary = summarise(figure, claims, seconds)
    text = page(summary, figure.title, figure.about(), figure.details(measured))
    write_atomically(folder / f"{figure.name}.md", text)
    write_atomically(
        folder / "claims.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    )
    return Reproduction(folder, claims, seconds, resumed)


def measure(
    parts: Sequence[Part],
    measured: dict[str, Measured],
    store: Store,
    watch: Watch | None,
    deadline: float,
) -> tuple[float, list[str]]:
    """Add what the parts measure, now or before; return the seconds, and which were in the store.

    Past the deadline, in seconds of `time.monotonic`, no part is begun.
    """
    found = {part.name: store.load(part) for part in parts}
    resumed = [name for name, earlier in found.items() if earlier is not None]
    left = sum(part.weight for part in parts if found[part.name] is None)
    total, done = 0.0, 0.0
    for part in parts:
        earlier = found[part.name]
        if earlier is None:
            if time.monotonic() >= deadline:
                continue

            def tell(share: float, part: Part = part, done: float = done) -> None:
                if watch is not None:
                    watch(part.name, (done + share * part.weight) / left)

            tell(0.0)
            start = time.perf_counter()
            earlier = part.measure(tell), time.perf_counter() - start
            store.save(part, *earlier)
            tell(1.0)
            done += part.weight
        measured[part.name] = earlier[0]
        total += earlier[1]
    return total, resumed


def identity(figure: Figure) -> dict[str, Any]:
    """What all parts of a figure depend on."""
    return {
        "figure": figure.name,
        "data": figure.sample.fingerprint,
        "seed": figure.seed,
        "momentron": momentron.__version__,
        "numpy": np.__version__,
        "scipy": version("scipy"),
    }


def summarise(figure: Figure, claims: Sequence[Claim], seconds: float) -> dict[str, Any]:
    """What `claims.json` holds."""
    return {
        "figure": figure.name,
        "paper": PAPER,
        "momentron": momentron.__version__,
        "versions": {"python": platform.python_version()}
        | {library: version(library) for library in (*LIBRARIES, *figure.libraries)},
        "seed": figure.seed,
        "quick": figure.quick,
        "data": {"name": figure.sample.title, "fingerprint": figure.sample.fingerprint},
        "seconds": round(seconds, 2),
        "cpus": os.cpu_count(),
        "counts": Counter(claim.verdict for claim in claims),
        "claims": [claim.to_dict() for claim in claims],
    }


def curves_csv(
    curves: Mapping[str, Mapping[str, np.ndarray]],
    *,
    leave_out: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> str:
    """One row per iteration of each curve, digits enough to read every float back as it was.

    A curve without a column, or without a number in it, has an empty cell.
    """
    # as objects, whole numbers stay whole where another curve lacks the column
    frames = {name: pd.DataFrame(columns, dtype=object) for name, columns in curves.items()}
    table = pd.concat(frames, names=["curve", "row"]).reset_index("curve")
    names = [name for name in only or table.columns[1:] if name not in leave_out]
    text: str = table.reindex(columns=["curve", *names]).to_csv(index=False, lineterminator="\n")
    return text


def render(draw: Callable[[], Any]) -> dict[str, bytes]:
    """The picture that `draw` makes, as PNG and as SVG, by suffix."""
    encoded = {}
    with styled():
        figure = draw()
        # without a date the same numbers give the same bytes
        for suffix, options in (("png", {"dpi": PNG_DPI}), ("svg", {"metadata": {"Date": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, **options)
            encoded[suffix] = stream.getvalue()
    return encoded
