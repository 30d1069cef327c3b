"""Mirror descent, plain and accelerated: the engine of the paper's Appendix B, for any smooth f.

`AcceleratedMirrorDescent` minimises a smooth convex function over a convex set, whose geometry a
`Regularizer` gives: the entropy, Euclidean distance, p-norms, or one of your own. `MirrorDescent`
is the same without momentum. The first-order methods of `momentron.solvers` are instances, in
which f(q) is ‖Zᵀq‖²/2 and the regulariser is the conjugate ψ* of a loss's potential.
"""

from paper.mirror.descent import AcceleratedMirrorDescent, MirrorDescent, MirrorState
from paper.mirror.objective import Smooth, squared_length
from paper.mirror.regularizers import (
    Entropy,
    Euclidean,
    PNorm,
    Regularizer,
    onto_simplex,
)

__all__ = [
    "AcceleratedMirrorDescent",
    "Entropy",
    "Euclidean",
    "MirrorDescent",
    "MirrorState",
    "PNorm",
    "Regularizer",
    "Smooth",
    "onto_simplex",
    "squared_length",
]
