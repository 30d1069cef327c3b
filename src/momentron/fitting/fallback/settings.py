"""What the fallback may spend, and how regular it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FallbackSettings:
    """What the fallback may spend, and how regular it is.

    Attributes
    ----------
    C : float
        The weight of the losses, in units of 1/mean‖x‖² of the standardised rows.
    rows, rows_per_column : int
        A sample has at most rows + rows_per_column · d of them per two classes: more would hardly
        change the classifier.
    entries : int
        And at most so many numbers, which bounds its memory.
    at_once : int
        Numbers from which a fifth of the sample is fitted first, so that time cannot run out before
        there is a classifier.
    at_hand : int
        Numbers in the sample whose means classify where time was over before the first fit.
    images : int
        Rows in the sample whose images do so where there is a kernel.
    compared : int
        Rows that were not in the sample on which it is compared with candidates.
    landmarks, kernel_values : int
        A kernel's classifier is made of the images of so many rows, or of fewer if that takes more
        values of the kernel than these.
    landmark_flops, few_landmarks : int
        Rows times squared landmarks from which this part of the landmarks comes first, for the same
        reason as `at_once`.
    steps : int
        Of L-BFGS, at most.
    accuracy : float
        It ends where a step promises to lower the mean loss by no more than this share of ln k.
    whitened : int
        Columns up to which a sample is whitened; above, standardised columns have to do.
    seconds : float
        What it may always take, however short the proof was.
    """

    C: float = 10.0
    rows: int = 4000
    rows_per_column: int = 40
    entries: int = 50_000_000
    at_once: int = 3_000_000
    at_hand: int = 1_000_000
    images: int = 200
    compared: int = 2000
    landmarks: int = 1000
    kernel_values: int = 20_000_000
    landmark_flops: int = 300_000_000
    few_landmarks: int = 8
    steps: int = 100
    accuracy: float = 1e-3
    whitened: int = 1500
    seconds: float = 0.25


SETTINGS = FallbackSettings()
