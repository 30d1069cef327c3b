"""Tangent kernels of any torch network, and how they change while it is trained.

`EmpiricalNTK`, `KernelTracker`, `KKTTracker`, `block_matrix`, `kernel_evolution` and `kkt_share`
need torch (the extra `ntk`), which is loaded when they are first asked for; the others do not.
"""

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from momentron.ntk.evolution_table import EvolutionRow, KernelEvolution
from momentron.ntk.spectra import (
    centred_alignment,
    effective_rank,
    kernel_alignment,
    label_alignment,
    label_kernel,
    participation_ratio,
    spectrum,
)

if TYPE_CHECKING:
    from momentron.ntk.empirical import EmpiricalNTK as EmpiricalNTK
    from momentron.ntk.kernel_array import block_matrix as block_matrix
    from momentron.ntk.kernel_tracker import KernelTracker as KernelTracker
    from momentron.ntk.kernel_tracker import kernel_evolution as kernel_evolution
    from momentron.ntk.kkt import KKTShare as KKTShare
    from momentron.ntk.kkt import KKTTracker as KKTTracker
    from momentron.ntk.kkt import kkt_share as kkt_share

# loaded when a name of theirs is first asked for
_WITH_TORCH = {
    "empirical": ("EmpiricalNTK",),
    "kernel_array": ("block_matrix",),
    "kernel_tracker": ("KernelTracker", "kernel_evolution"),
    "kkt": ("KKTShare", "KKTTracker", "kkt_share"),
}

__all__ = ["EvolutionRow", "KernelEvolution", "centred_alignment", "effective_rank", "spectrum"]
__all__ += ["kernel_alignment", "label_alignment", "label_kernel", "participation_ratio"]
__all__ += chain.from_iterable(_WITH_TORCH.values())
__all__.sort()


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            try:
                import torch  # noqa: F401
            except ImportError:
                raise ImportError(f'{name} needs torch: pip install "momentron[ntk]"') from None
            return getattr(import_module(f"momentron.ntk.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
