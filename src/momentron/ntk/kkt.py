"""How close the weights of a homogeneous network are to a KKT point of margin maximisation."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from momentron.api import max_margin
from momentron.arithmetic.environment import standard_arithmetic
from momentron.arithmetic.rounding import down, norm_bounds, up
from momentron.data.arguments import as_count
from momentron.errors import InputError, short
from momentron.estimators.classifier_margin import ClassifierMargin
from momentron.estimators.tracker import Looks, MarginTracker
from momentron.ntk.empirical import EmpiricalNTK
from momentron.ntk.kernel_array import block_matrix
from momentron.ntk.kernel_tracker import as_labelled, network_outputs
from momentron.ntk.selection import Examples, Readout, chosen_parameters
from momentron.result import MarginResult
from momentron.status import Status

EULER = 1e-6  # by how much of the largest lead Euler's identity may be off


@dataclass(frozen=True, kw_only=True, repr=False)
class KKTShare(ClassifierMargin):
    """The margin of a network's weights θ in their own tangent kernel, and its share of the best.

    A *lead* s is y f(x), or f_c(x) − f_j(x) for a row of class c and a wrong output j.

    Attributes
    ----------
    lower, upper : float
        L min s/‖θ‖, the margin of θ as a classifier of the rows ∇s, lies between them.
    optimum : Certificate or None
        A proven interval on the best margin of any direction in the tangent kernel.
    share, share_upper : float
        The KKT share lies between them. NaN without an optimum, or if no direction separates the
        rows in the kernel.
    order, norm, normalised_margin : float
        L, the order of homogeneity, ‖θ‖ and min s/‖θ‖^L.
    angle : float
        Between θ and the best direction that was found in the kernel, in degrees.
    loss : float
        Cross-entropy, the average over the rows.
    """

    order: float
    norm: float
    normalised_margin: float
    angle: float
    loss: float

    @property
    def share_upper(self) -> float:
        return max(self.share, min(super().share_upper, 1.0))


@standard_arithmetic()
def kkt_share(
    model: nn.Module,
    X: Any,
    y: Any,
    *,
    optimum: str | None = "solve",
    input_shape: tuple[int, ...] | None = None,
    max_memory: str | int = "1GB",
    tol: float = 1e-6,
    max_time: float | None = None,
) -> KKTShare:
    r"""The KKT share of a homogeneous network: how close it is to a KKT point of its margin.

    .. math:: \frac{L \min_i y_i f(x_i; θ)/‖θ‖}{\max_v \min_i y_i ⟨∇f(x_i; θ), v⟩/‖v‖} ≤ 1

    If f(x; cθ) = c^L f(x; θ), gradient flow on the logistic loss turns θ towards a KKT point of
    "minimise ‖θ‖ subject to y_i f(x_i; θ) ≥ 1" (Lyu and Li 2020, ICLR). Since ⟨∇f, θ⟩ = L f, the
    share is the margin of θ in the tangent kernel at θ over the best margin there: at most 1, and 1
    exactly at such points, where all y_i f(x_i) > 0 and f is differentiable at the rows.

    Parameters
    ----------
    model : torch.nn.Module
        One output per class, in the sorted order of the labels, or a single one for two classes.
        θ is all parameters with requires_grad=True. A copy is run in float64, in evaluation mode.
    X : array-like or Tensor of shape (n, ...)
    y : array-like of shape (n,)
        Labels of any kind; with k classes, each row has k − 1 leads.
    optimum : "solve" or None
        None: the margin of θ alone, without a kernel; shares are NaN.
    input_shape, max_memory
        As in `EmpiricalNTK`; the kernel of all leads, n(k − 1) × n(k − 1), comes on top.
    tol, max_time
        For the best margin in the kernel, as in `max_margin`.

    Returns
    -------
    KKTShare
        Proven for the leads, their derivatives along θ (which widen the interval where they differ
        from L s) and the kernel as torch computes them in float64; torch's rounding is not bounded.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import kkt_share
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.ones_(model.weight)
    >>> found = kkt_share(model, [[2.0, 0.0], [0.0, -1.0]], [1, 0])
    >>> found.order, round(found.share, 4)  # the best direction is (1, 2)
    (1, 0.7906)
    """
    if optimum not in ("solve", None):
        raise InputError(f"optimum={short(optimum)} must be 'solve' or None")
    X, y = as_labelled((X, y), "(X, y)")
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise InputError(f"y has {classes.size} class; a margin needs at least 2")
    model = deepcopy(model).double().eval()
    ntk = EmpiricalNTK(model, input_shape=input_shape, max_memory=max_memory)
    parameters = {name: p.detach() for name, p in chosen_parameters(model).items()}
    examples, readout = Examples(X, model, ntk.input_shape, "X"), Readout()
    outputs = network_outputs(model, examples, classes).cpu()
    places = readout.places(codes, len(codes), "y", outputs.shape[1])
    leads = readout(outputs, places).numpy()
    along = readout(torch.from_numpy(ntk.jvp(X, parameters)), places).numpy()
    order = _order(along, leads, model)
    theta = np.concatenate([p.cpu().numpy().ravel() for p in parameters.values()])
    shortest, longest = norm_bounds(theta)
    least, norm = float(leads.min()), float(np.linalg.norm(theta))
    low, high = sorted((order * least, float(along.min())))
    result, angle = None, math.nan
    if optimum is not None:
        kernel = block_matrix(ntk.pairs(X, codes))
        result, angle = _best_direction(kernel, along.ravel() / norm, tol, max_time)
    return KKTShare(
        lower=down(low / (longest if low > 0.0 else shortest)),
        upper=up(high / (shortest if high > 0.0 else longest)),
        optimum=None if result is None else result.certificate,
        order=order,
        norm=norm,
        normalised_margin=least * norm**-order,
        angle=angle,
        loss=float(np.logaddexp.reduce(-leads, axis=1, initial=0.0).mean()),
    )


def _order(along: np.ndarray, leads: np.ndarray, model: nn.Module) -> float:
    """L with ⟨∇s, θ⟩ = L s for all leads, up to rounding; most often a whole number."""
    largest = float(np.abs(leads).max())
    if largest == 0.0:
        raise InputError("all outputs are equal at all rows; the order of homogeneity is not known")
    order = float(np.vdot(along, leads) / np.vdot(leads, leads))
    order = round(order) if abs(order - round(order)) < EULER else order
    error = float(np.abs(along - order * leads).max()) / largest
    if order > 0.0 and error < EULER:
        return order
    biases = [name for name, p in model.named_parameters() if name.endswith("bias") and p.any()]
    layers = {type(part).__name__ for part in model.modules() if not any(part.children())}
    raise InputError(
        f"the model is not homogeneous: ⟨∇f, θ⟩ = L f needs L > 0, and with L = {order:.3g} it is "
        f"off by {error:.1e} of the largest output; "
        + (
            f"of the biases {short(biases)} only those of the first layer may stay: build the "
            "other layers with bias=False"
            if biases
            else f"one of its layers ({', '.join(sorted(layers))}) or frozen parameters break it"
        )
    )


def _best_direction(
    kernel: np.ndarray, along: np.ndarray, tol: float, max_time: float | None
) -> tuple[MarginResult, float]:
    """The best direction in the kernel of all leads, and the angle of θ to it, for ⟨∇s, θ⟩/‖θ‖.

    All leads are one class; the sign of every second one is flipped, since `max_margin` needs two.
    """
    signs = np.where(np.arange(len(kernel)) % 2, 1.0, -1.0)
    kernel = kernel * signs[:, None] * signs
    result = max_margin(
        kernel, signs, kernel="precomputed", fit_intercept=False, tol=tol, max_time=max_time
    )
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    length = math.sqrt(max(0.0, float(result.coef @ kernel @ result.coef)))
    if not length > 0.0:
        return result, math.nan
    cosine = float(result.coef @ (signs * along)) / length
    return result, math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


class KKTTracker(MarginTracker):
    """Follow the KKT share of a homogeneous network through its training.

    Looks are those of a `MarginTracker`, with all weights θ and the tangent kernel at θ in place of
    a last layer and its features: `margin` is L min y f/‖θ‖, `best` the best margin in the kernel.

    Parameters
    ----------
    X, y
        The rows on which margins are measured, as in `kkt_share`.
    optimum_every : int
        Compute a kernel and its best margin at one look in this many, counted in looks, not in
        steps or epochs; at the others, share, best and angle are NaN.
    **options
        As in `kkt_share`: input_shape, max_memory, tol, max_time.

    Examples
    --------
    >>> import torch
    >>> from momentron.ntk import KKTTracker
    >>> tracker = KKTTracker([[2.0, 0.0], [0.0, -1.0]], [1, 0])
    >>> tracker.look(torch.nn.Linear(2, 1, bias=False), step=0).share <= 1.0
    True
    """

    def __init__(self, X: Any, y: Any, *, optimum_every: int = 1, **options: Any) -> None:
        self.X, self.y, self._options = X, y, options
        self.optimum_every = as_count("optimum_every", optimum_every)
        self.looks, self.cpu_seconds = Looks(), 0.0

    def _see(self, model: Any, is_due: bool) -> tuple[KKTShare, float, float, float]:
        optimum = "solve" if is_due else None
        found = kkt_share(model, self.X, self.y, optimum=optimum, **self._options)
        return found, found.loss, found.norm, found.angle
