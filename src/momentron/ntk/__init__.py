"""Tangent kernels of any torch network, and how they change while it is trained.

`EmpiricalNTK`, `KernelTracker`, `KKTTracker`, `block_matrix`, `kernel_evolution` and `kkt_share`
need torch (the extra `ntk`), which is loaded when they are first asked for; the others do not.
"""

from importlib import import_module
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
    from momentron.ntk.empirical import EmpiricalNTK
    from momentron.ntk.kernel_array import block_matrix
    from momentron.ntk.kernel_tracker import KernelTracker, kernel_evolution
    from momentron.ntk.kkt import KKTShare, KKTTracker, kkt_share

__all__ = [
    "EmpiricalNTK",
    "EvolutionRow",
    "KKTShare",
    "KKTTracker",
    "KernelEvolution",
    "KernelTracker",
    "block_matrix",
    "centred_alignment",
    "effective_rank",
    "kernel_alignment",
    "kernel_evolution",
    "kkt_share",
    "label_alignment",
    "label_kernel",
    "participation_ratio",
    "spectrum",
]

_TORCH_NAMES = {
    "EmpiricalNTK": "momentron.ntk.empirical",
    "block_matrix": "momentron.ntk.kernel_array",
    "KernelTracker": "momentron.ntk.kernel_tracker",
    "kernel_evolution": "momentron.ntk.kernel_tracker",
    **dict.fromkeys(("KKTShare", "KKTTracker", "kkt_share"), "momentron.ntk.kkt"),
}


def __getattr__(name: str) -> Any:
    if name not in _TORCH_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ImportError(f'{name} needs torch: pip install "momentron[ntk]"') from None
    return getattr(import_module(_TORCH_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
