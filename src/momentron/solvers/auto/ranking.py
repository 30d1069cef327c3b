"""Which rows matter: rough soft margins, of a sample first, that rank all of them."""

import numpy as np

from momentron.circulations import Circulations
from momentron.clock import require_time
from momentron.constraints import LabelPairs, SignedRows
from momentron.dualsets import Simplex
from momentron.kernels import as_kernel
from momentron.losses import Exponential
from momentron.operators import KernelOperator, Operator, SparseOperator, as_operator
from momentron.problem import Problem
from momentron.solvers.auto import selection
from momentron.solvers.auto.forms import Deadline
from momentron.solvers.auto.newton import soft_path
from momentron.solvers.auto.pass_form import CAREFUL, PassForm, as_rows
from momentron.solvers.auto.working_sets import WorkingSets
from momentron.solvers.momentum import Momentum
from momentron.threads import one_thread

SMALL = 400  # rows of a first working set
SAMPLE = 2000  # examples of many classes among which momentum finds it
MOMENTUM_STEPS = 40
MAX_RANKINGS = 4


def first_working_set(sets: WorkingSets) -> tuple[np.ndarray, tuple[float, ...]]:
    """All the rows where they are few, else some of them; and the Cs to rank them by."""
    few = 1.5 * SMALL
    if not (sets.is_paired or sets.is_kernel):
        few = max(few, min(1.5 * sets.width, 3000))
    if sets.size <= min(few, sets.capacity):
        return np.arange(sets.size), (100.0,)
    rng = np.random.default_rng(0)
    if isinstance(sets.constraints, SignedRows):
        size = min(SMALL, sets.capacity)
        return selection.sample(sets.constraints.signs, size, rng), (10.0, 100.0)
    return _pairs_by_momentum(sets, rng), (100.0, 1000.0)


def _pairs_by_momentum(sets: WorkingSets, rng: np.random.Generator) -> np.ndarray:
    """The pairs with the smallest margins after some steps of Algorithm 1 on a sample."""
    pairs = sets.constraints
    assert isinstance(pairs, LabelPairs)
    few = selection.sample(pairs.labels, min(SAMPLE, pairs.labels.size), rng, least=0.0)
    problem = _restricted(sets, few).tightened()
    solver = Momentum()
    state = solver.init(problem)
    with one_thread():
        for _ in range(MOMENTUM_STEPS):
            require_time()
            solver.step(problem, state)
    part = problem.constraints
    assert isinstance(part, LabelPairs)
    classes = part.pair_classes if sets.fits_intercept else None
    size = min(max(SMALL, 4 * pairs.n_classes), sets.capacity)
    chosen = selection.smallest_pairs(-state.scores, size, np.empty(0, int), classes)
    wrong = pairs.n_classes - 1
    return few[chosen // wrong] * wrong + chosen % wrong


def _restricted(sets: WorkingSets, few: np.ndarray) -> Problem:
    """The problem of some of the examples, with all their pairs."""
    pairs = sets.constraints
    assert isinstance(pairs, LabelPairs)
    if isinstance(sets.operator, KernelOperator):
        block = sets.operator.block(few, few)
        operator: Operator = KernelOperator(as_kernel("precomputed", X=block).bind(block), 0)
    else:
        operator = as_operator(sets.operator.working_rows(few))
    part = LabelPairs(operator, pairs.labels[few], pairs.n_classes)
    if not sets.fits_intercept:
        return Problem(part, Simplex(part.size, Exponential()))
    return Problem(part, Circulations(*part.pair_classes, pairs.n_classes, Exponential()))


class PassRanking:
    """Rough soft margins on all the rows of wide sparse data at once, one C a round."""

    def __init__(self, sets: WorkingSets, deadline: Deadline) -> None:
        assert isinstance(sets.operator, SparseOperator)
        assert isinstance(sets.constraints, SignedRows)
        self.form = PassForm(
            as_rows(sets.operator.X),
            sets.constraints.signs,
            sets.operator.row_norms**2,
            sets.fits_intercept,
            deadline,
        )
        self._Cs = [10.0, 1000.0]
        self._is_first = True

    @staticmethod
    def suits(sets: WorkingSets) -> bool:
        """A sample says nothing about rows that share no features with it."""
        return (
            isinstance(sets.operator, SparseOperator) and sets.width > 3000 and not sets.is_paired
        )

    @property
    def is_done(self) -> bool:
        return not self._Cs

    def advance(self) -> np.ndarray:
        """Multipliers for the next C."""
        lam = soft_path(self.form, (self._Cs.pop(0),))
        if self._is_first and np.count_nonzero(lam) > 0.25 * lam.size:
            # many support vectors: a good ranking saves exact solves, which are dear then
            self._Cs.insert(0, 100.0)
            self.form.roughness, self.form.max_products = CAREFUL
        self._is_first = False
        return lam
