"""The history of a solve, one row per iteration, in the units of X."""

from dataclasses import dataclass

from momentron.certificate.picture import card
from momentron.errors import counted
from momentron.views.markup import rows_table
from momentron.views.table import Table


@dataclass(frozen=True)
class Row:
    """One iteration.

    Attributes
    ----------
    iteration, passes : int
        Iterations done, and passes over the data spent.
    seconds : float
        Since the start; printing and callbacks are not counted.
    margin : float
        The margin of the current iterate.
    lower, upper : float
        The best bounds so far, as the method computed them: running estimates, without
        rounding bounds, which only the certificate of the result has.
    evaluations : int
        Kernel values computed so far; 0 without a kernel.
    theorem_lower, theorem_upper : float
        The interval of the method's own theory at this iteration; NaN for methods without one.
    """

    iteration: int
    seconds: float
    passes: int
    margin: float
    lower: float
    upper: float
    evaluations: int = 0
    theorem_lower: float = float("nan")
    theorem_upper: float = float("nan")


SHOWN = 12  # rows of a long trace in a notebook


class Trace(Table[Row], noun="trace", rows=Row):
    """Rows of a solve; converts to a dict of arrays, or to a pandas frame.

    `trace["margin"]` is a column, `trace[-1]` the last row, and `trace[100:200]` a shorter trace.

    Parameters
    ----------
    every : int
        Keep one iteration in this many, and always the first and the last.

    Attributes
    ----------
    n_iter : int
        Iterations so far, kept or not.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        self._every = every
        self.n_iter = 0

    @property
    def wants_row(self) -> bool:
        """Whether the present iteration is one of those that are kept."""
        return self.n_iter == 1 or self.n_iter % self._every == 0

    def __repr__(self) -> str:
        if not self._rows:
            return "Trace(empty)"
        last = self._rows[-1]
        return (
            f"Trace({counted(len(self), 'row')}; last: iteration {last.iteration}, margin "
            f"{last.margin:.6g}, in [{last.lower:.6g}, {last.upper:.6g}])"
        )

    def _repr_html_(self) -> str:
        if not self._rows:
            return "<div><strong>Trace</strong>: empty</div>"
        last, count = self._rows[-1], len(self._rows)
        # the first row, the last, and some between, ever further apart
        shown = sorted({0, *(round((count - 1) ** (k / (SHOWN - 1))) for k in range(SHOWN))})
        names = ("iteration", "seconds", "passes", "margin", "lower", "upper")
        rows = [[getattr(self._rows[k], name) for name in names] for k in shown if k < count]
        work = f"{counted(count, 'row')}, {counted(last.passes, 'pass')} in {last.seconds:.3g} s"
        words = f"{work}. These are running estimates; the certificate of the result is proven"
        lower, upper = sorted((last.lower, last.upper))
        return card("Trace", words, max(lower, 0.0), upper, rows_table(names, rows))
