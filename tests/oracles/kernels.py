"""Kernel values in exact or 60-digit arithmetic, for tests."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from momentron.rows.kernels import GaussianKernel, LinearKernel, PolynomialKernel


def exact_kernel(kernel: Any, X: np.ndarray) -> list[list[Fraction]]:
    """K in exact or 60-digit arithmetic, as Fractions."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    if isinstance(kernel, LinearKernel | PolynomialKernel):
        K = [[_dot(a, b) for b in rows] for a in rows]
        if isinstance(kernel, PolynomialKernel):
            scale, shift = Fraction(kernel.gamma), Fraction(kernel.coef0)
            K = [[(scale * t + shift) ** kernel.degree for t in row] for row in K]
        return K
    power = 2 if isinstance(kernel, GaussianKernel) else 1
    return [[_exact_exp(kernel.gamma, a, b, power) for b in rows] for a in rows]


def _exact_exp(scale: float, a: list[Fraction], b: list[Fraction], power: int) -> Fraction:
    t = Fraction(scale) * sum(abs(p - q) ** power for p, q in zip(a, b, strict=True))
    with localcontext() as context:
        context.prec = 60
        return Fraction((-Decimal(t.numerator) / Decimal(t.denominator)).exp())


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))
