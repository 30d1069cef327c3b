"""The grid of figure 4: what is run, in which order, and how it is judged; fixed before it ran."""

from dataclasses import dataclass
from itertools import product

DENSE, CONVOLUTIONAL = "dense", "convolutional"
TORCH, HE = "torch", "he"


@dataclass(frozen=True)
class Cell:
    """One way to build and to train the network."""

    # "dense": AlexNet's three dense layers; "convolutional": none of them, the last convolution is
    # read out by a single linear map (a 1 × 1 convolution onto the ten outputs)
    head: str
    biases: bool  # whether layers have biases
    step: float  # step size of plain mini-batch gradient descent
    # "torch": uniform on ±1/√(fan-in), biases too; "he": uniform on ±√(6/fan-in), biases zero
    weights: str

    @property
    def name(self) -> str:
        """As in file names."""
        biases = "biases" if self.biases else "no-biases"
        return f"{self.head}-{biases}-{self.step:g}-{self.weights}"

    @property
    def words(self) -> str:
        """As in tables."""
        biases = "biases" if self.biases else "no biases"
        whose = "torch's" if self.weights == TORCH else "He's"
        return f"{self.head} head, {biases}, step {self.step:g}, {whose} weights"


CELLS = tuple(
    Cell(head, biases, step, weights)
    for head, biases, step, weights in product(
        (DENSE, CONVOLUTIONAL), (True, False), (0.1, 0.01), (HE, TORCH)
    )
)
"""All sixteen, in the order in which a seed runs them."""

PAPER_CELL = Cell(DENSE, True, 0.1, TORCH)
"""Nearest to the paper's words (a standard AlexNet, unembellished mini-batch descent) of those that
fit in a pilot."""


@dataclass(frozen=True)
class Training:
    """How every network of the grid is trained."""

    images: int = 128  # drawn by the seed from the pool to train on
    batch_size: int = 32  # images per step, in an order that the seed draws again in each epoch
    # cross entropy on all training images below which a network is fitted, and training ends
    loss: float = 1e-3
    max_epochs: int = 1500  # where it ends otherwise, unfitted
    stuck_epoch: int = 500  # where a network is given up, unfitted, that has not begun to learn:
    # its cross entropy is still above this (that of a guess is ln 10 = 2.303)
    stuck_loss: float = 2.2


@dataclass(frozen=True)
class Stage:
    """Some seeds in some cells."""

    seeds: tuple[int, ...]
    tests: int  # test images on which the first and the last kernel are compared, evenly spaced
    width: int  # channels of the first convolution; all others grow with it


@dataclass(frozen=True)
class Course:
    """How a seed is followed."""

    cell: Cell = PAPER_CELL
    width: int = 32
    # looks before training ends; one more where the network is fitted, and a last one after as many
    # epochs again, which tells whether the kernel still changes
    epochs: tuple[int, ...] = (0, 100, 200)
    tests: int = 10_000  # test images, evenly spaced
    iterations: int = 20_000  # of Algorithm 2 in each kernel
    per_decade: int = 10  # of these that are kept
    tol: float = 1e-4  # certified gap of the best predictor


@dataclass(frozen=True)
class Grid:
    """All stages, the rules by which they are judged, and how single seeds are followed."""

    cells: tuple[Cell, ...] = CELLS
    training: Training = Training()
    screen: Stage = Stage((201, 202, 203), 2000, 32)  # in all cells
    large: Stage = Stage(tuple(range(301, 361)), 4000, 32)  # in the most mixed cells of the screen
    # in the same cells: some of the same seeds in wider networks
    wide: Stage = Stage(tuple(range(301, 311)), 4000, 64)
    # cells of the large stage: those whose mean difference over the fitted networks of the screen
    # is nearest to 0, among those with `least_fitted` fitted ones at least
    mixed: int = 2
    least_fitted: int = 2
    tol: float = 1e-4  # certified gap of each maximum-margin predictor
    # seeds per cell and direction that are chosen on one half of the test images, to be confirmed
    # on the other
    examples: int = 5
    # of the whole family of confirmations (Holm), and of the bound on the probability
    level: float = 0.05
    # fitted seeds that each cell of the large stage needs before it is judged by itself
    enough: int = 20
    # A bound on the probability up to which "not found" is a verdict; above, it is "undecided"
    small: float = 0.2
    course: Course = Course()  # of the seeds that the paper shows
    # the screen's seeds, followed in the same way on fewer test images to check what those two
    # suggest: the networks of the screen were examined at their first and last epoch only
    checked: tuple[int, ...] = (201, 202, 203)
    checked_tests: int = 2000


@dataclass(frozen=True)
class Job:
    """One network to be measured."""

    cell: Cell
    seed: int
    tests: int
    width: int
    training: Training
    tol: float

    @property
    def name(self) -> str:
        return f"{self.cell.name}-width-{self.width}-tests-{self.tests}-seed-{self.seed}"

    @property
    def cost(self) -> float:
        """Rough seconds on one core."""
        size = (self.width / 32.0) ** 2 * (1.0 if self.cell.head == DENSE else 0.5)
        return size * (40.0 + 0.01 * self.tests)


def jobs_of(grid: Grid, stage: Stage, cells: tuple[Cell, ...]) -> list[Job]:
    """The networks of a stage, seed by seed: a run that is cut short has whole seeds."""
    return [
        Job(cell, seed, stage.tests, stage.width, grid.training, grid.tol)
        for seed in stage.seeds
        for cell in cells
    ]
