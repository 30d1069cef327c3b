"""What a kernel's eigenvalues say, and how two kernels, or a kernel and labels, agree.

Every function takes a kernel of training examples as an array, or as a tensor on any device, and
works in float64 on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.preprocessing import KernelCenterer

from momentron.data.exactness.tensors import as_host, is_tensor
from momentron.errors import InputError


def spectrum(K: Any) -> np.ndarray:
    """The eigenvalues of a kernel, the largest first; what rounding made negative is 0.

    >>> spectrum(np.diag([1.0, 3.0]))
    array([3., 1.])
    """
    return np.maximum(np.linalg.eigvalsh(as_kernel(K, "K"))[::-1], 0.0)


def effective_rank(K: Any) -> float:
    r"""exp of the entropy of the eigenvalues, :math:`\exp(-\sum_i p_i \ln p_i)`, p = λ/Σλ.

    It lies between 1 and the rank, which it is if all nonzero eigenvalues are alike (Roy and
    Vetterli 2007).

    >>> round(effective_rank(np.diag([1.0, 1.0, 0.0])), 9)
    2.0
    """
    values = spectrum(K)
    total = values.sum()
    return float(np.exp(entr(values / total).sum())) if total > 0.0 else 0.0


def participation_ratio(K: Any) -> float:
    """(Σλ)²/Σλ², a rank that counts small eigenvalues less; no eigenvalue is computed.

    >>> participation_ratio(np.diag([1.0, 1.0, 0.0]))
    2.0
    """
    kernel = as_kernel(K, "K")
    squares = float(np.vdot(kernel, kernel))
    return float(np.trace(kernel)) ** 2 / squares if squares > 0.0 else 0.0


def kernel_alignment(K: Any, L: Any) -> float:
    """⟨K, L⟩/(‖K‖ ‖L‖) of two kernels: 1 where they agree up to a factor.

    >>> I = np.eye(2)
    >>> round(kernel_alignment(I, 3.0 * I), 12), round(kernel_alignment(I, np.ones((2, 2))), 4)
    (1.0, 0.7071)
    """
    if K is L:
        return 1.0
    left, right = _pair(K, L)
    return 1.0 if np.array_equal(left, right) else _cosine(left, right)


def centred_alignment(K: Any, L: Any) -> float:
    """The alignment of HKH and HLH, H = I − 11ᵀ/n: of both kernels after centring.

    Between 0 and 1 for kernels (Cortes, Mohri and Rostamizadeh 2012; "linear CKA" of features).

    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> round(centred_alignment(K, K + 5.0), 12)
    1.0
    """
    return _cosine(*(KernelCenterer().fit_transform(kernel) for kernel in _pair(K, L)))


def label_kernel(y: Any) -> np.ndarray:
    """1 where two examples have the same label, else 0: the ideal kernel for these classes.

    >>> label_kernel(["a", "b", "a"])[0]
    array([1., 0., 1.])
    """
    labels = on_host(y)
    if labels.ndim != 1 or labels.size == 0:
        raise InputError(f"y has shape {labels.shape}; it must be (n,), one label per example")
    _, codes = np.unique(labels, return_inverse=True)
    return (codes[:, None] == codes[None, :]).astype(np.float64)


def label_alignment(K: Any, y: Any) -> float:
    """The centred alignment of a kernel with the kernel of the labels (`label_kernel`).

    It is 0 if the kernel says nothing about the classes, and 1 if it says nothing else. For two
    classes, y = ±1 gives the same alignment, whatever the sizes of the classes.

    >>> round(label_alignment(label_kernel([0, 0, 1]) + 4.0, [0, 0, 1]), 12)
    1.0
    """
    return centred_alignment(K, label_kernel(y))


def as_kernel(K: Any, name: str) -> np.ndarray:
    """A square matrix of finite numbers, in float64."""
    kernel = on_host(K).astype(np.float64, copy=False)
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or kernel.size == 0:
        raise InputError(f"{name} has shape {kernel.shape}; a kernel has shape (n, n)")
    if not np.isfinite(kernel).all():
        raise InputError(f"{name} has entries that are not finite")
    return kernel


def on_host(values: Any) -> np.ndarray:
    """An array of numpy, wherever the values are."""
    return np.asarray(as_host(values) if is_tensor(values) else values)


def _pair(K: Any, L: Any) -> tuple[np.ndarray, np.ndarray]:
    left, right = as_kernel(K, "K"), as_kernel(L, "L")
    if left.shape != right.shape:
        raise InputError(f"K has shape {left.shape} and L {right.shape}; they must agree")
    return left, right


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    """⟨K, L⟩/(‖K‖ ‖L‖), of matrices of any scale."""
    sizes = [float(np.abs(matrix).max()) for matrix in (left, right)]
    if min(sizes) == 0.0:
        return 0.0
    left, right = left / sizes[0], right / sizes[1]
    lengths = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return min(float(np.vdot(left, right)) / lengths, 1.0)
